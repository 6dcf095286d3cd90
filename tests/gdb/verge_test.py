#!/usr/bin/env python3
"""tools/gdb/verge.py on a live process and on cores.  usage: verge_test.py SCRIPT PROGRAM SPARE

PROGRAM is fibers_program, SPARE one that does not know Verge.  Exits with 77 if gdb cannot be used
here, and says why.
"""

import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
script, program, spare = (os.path.abspath(path) for path in sys.argv[1:4])
failures = 0


def gdb(*commands, of, core=None):
    line = ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set width 0"]
    line += ["-ex", f"source {script}"]
    for command in commands:
        line += ["-ex", command]
    line += [of] + ([core] if core else [])
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=scratch)
    return done.stdout + done.stderr


def expect(condition, what, text):
    global failures
    if condition:
        return
    failures += 1
    print(f"FAILED: {what}\n{text}\n")


def row(text, name):
    """The line of a fiber in `verge fibers`, or ''."""
    found = re.search(rf"^ +\d+ +{re.escape(name)} .*$", text, re.MULTILINE)
    return found[0] if found else ""


def section(text, heading):
    """What `verge bt` printed under a heading that contains these words."""
    found = re.search(rf"^fiber \d+ ?{heading}.*\n((?:#.*\n)*)", text, re.MULTILINE)
    return found[1] if found else ""


def look_at_fibers(text, where):
    def states(name, *words):
        seen = row(text, name).split()
        expect(all(word in seen for word in words), f"{where}: {name} is {words}", text)

    states("sleeper", "waiting", "sleep", "normal")
    states("locker", "waiting", "mutex", "normal")
    states("-", "waiting", "condition", "large")
    states("hog", "running", "first/0,", "thread")
    states("native", "running", "second/0,", "native")
    states("fresh", "new")
    states("starved", "waiting", "stack", "normal")
    expect(not row(text, "over"), f"{where}: who is over is not listed", text)

    def frames(heading, *functions):
        part = section(text, heading)
        at = [part.find(function) for function in functions]
        expect(-1 not in at and at == sorted(at), f"{where}: bt of {heading} has {functions}", text)
        expect(part.startswith("#0 "), f"{where}: bt of {heading} begins with frame 0", text)
        expect("everything_is_in_place" not in part, f"{where}: and with no other stack", text)

    frames(r"\(sleeper\)", "sleep_until", "sleeps_for_long", "fiber_main", "verge_fiber_first_frame")
    frames(r"\(locker\)", "mutex::lock", "waits_at_the_door", "verge_fiber_first_frame")
    frames("is waiting", "condition_variable", "waits_for_the_bell", "verge_fiber_first_frame")
    expect(section(text, r"\(sleeper\)").count("sleeps_for_long") == 4, f"{where}: each frame once", text)
    expect(re.search(r"\(hog\) runs on thread \d+ \(LWP \d+\)", text), f"{where}: where hog runs", text)
    for name in ("fresh", "starved"):
        expect(f"({name}) has not run yet" in text, f"{where}: {name} has no stack", text)
    expect("no living fiber 77" in text, f"{where}: an unknown id", text)
    expect("no living fiber nobody" in text, f"{where}: an unknown name", text)
    expect("Python Exception" not in text, f"{where}: no traceback", text)


names = ["sleeper", "locker", "hog", "fresh", "starved", "77", "nobody"]
# The one without a name is asked for by its id: the third that was spawned.
look = ["verge fibers"] + [f"verge bt {name}" for name in names] + ["verge bt 0x100000002"]


def start(*arguments):
    return [
        "set startup-with-shell off",
        "set breakpoint pending on",
        "break everything_is_in_place",
        "run " + " ".join(arguments),
    ]


def test_live():
    text = gdb(*start(), *look, r"echo the own stack:\n", "bt 1", "kill", of=program)
    if re.search(r"ptrace.*(not permitted|denied)|Could not trace|Cannot PTRACE", text):
        print("skipped: ptrace is not permitted here\n" + text)
        sys.exit(SKIPPED)
    look_at_fibers(text, "live")
    own = text.partition("the own stack:")[2]
    expect("#0  (anonymous namespace)::everything" in own, "live: the thread's stack is back", text)


def test_core_made_by_gdb():
    core = os.path.join(scratch, "gdb.core")
    text = gdb(*start("unguarded"), f"generate-core-file {core}", "kill", of=program)
    expect(os.path.exists(core), "gdb makes a core", text)
    look_at_fibers(gdb(*look, of=program, core=core), "gdb's core")
    os.remove(core)


def test_core_made_by_the_kernel():
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    if pattern.startswith("|") or "/" in pattern:
        print(f"not tested: a core of the kernel's, which goes to {pattern}")
        return
    subprocess.run(
        [program, "abort"],
        cwd=scratch,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2
        ),
    )
    cores = glob.glob(os.path.join(scratch, "*core*"))
    if not cores:
        print("not tested: the kernel writes no core here (ulimit -c)")
        return
    look_at_fibers(gdb(*look, of=program, core=cores[0]), "the kernel's core")
    os.remove(cores[0])


def test_messages():
    text = gdb("verge fibers", of=program)
    expect("no process and no core file" in text, "without a process", text)
    text = gdb("set startup-with-shell off", "start", "verge fibers", "verge bt", "kill", of=program)
    expect("no scheduler has been made" in text, "before the first scheduler", text)
    expect("usage: verge bt ID" in text, "without an id", text)
    text = gdb("set startup-with-shell off", "starti", "verge fibers", "kill", of=spare)
    expect("no debug information" in text, "in a program without Verge", text)
    stripped = os.path.join(scratch, "stripped")
    subprocess.run(["strip", "-g", "-o", stripped, program], check=True)
    text = gdb("set startup-with-shell off", "starti", "verge fibers", "kill", of=stripped)
    expect("no debug information" in text, "in a program without -g", text)


if not shutil.which("gdb"):
    print("skipped: gdb is missing (scripts/deps.sh installs it)")
    sys.exit(SKIPPED)
with tempfile.TemporaryDirectory() as scratch:
    if "with python" not in gdb("python print('with python')", of=spare):
        print("skipped: this gdb has no Python")
        sys.exit(SKIPPED)
    test_live()
    test_core_made_by_gdb()
    test_core_made_by_the_kernel()
    test_messages()
print("ok" if failures == 0 else f"{failures} failures")
sys.exit(1 if failures else 0)
