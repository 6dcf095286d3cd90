#!/usr/bin/env python3
"""Fails if the library makes a system call other than through the kernel seam.

The seam is include/verge/base/detail/kernel.hpp with src/base/kernel.cpp; os_thread.hpp is built on it
for threads and their locks.  The calls that it has are read from the seam itself; those that have no
place there, because a type of the seam replaces them, are listed below.
"""
import pathlib
import re
import sys

SEAM = {"include/verge/base/detail/kernel.hpp", "src/base/kernel.cpp"}
CALL = re.compile(r"CALL\(\w*, [\w*]+, (\w+),")
# Under another name in the seam, or not to be used at all.
ALSO = {"syscall", "open", "openat", "fcntl", "ioctl", "prctl", "nanosleep", "usleep", "sleep", "signal",
        "sigprocmask", "pipe", "pipe2", "accept", "recv", "recvmsg", "recvfrom", "sendto", "select",
        "getrandom", "gettimeofday", "time", "process_madvise", "tgkill", "kill", "raise", "fork",
        "signalfd", "inotify_init1", "pthread_setaffinity_np", "sched_setaffinity", "getcpu",
        "sched_getcpu", "pthread_cond_wait", "pthread_cond_timedwait", "epoll_pwait"}
# Of the standard library: they ask the kernel where a replacement cannot see it.
STANDARD = re.compile(r"std::(thread|jthread|mutex|timed_mutex|recursive_mutex|shared_mutex"
                      r"|condition_variable(_any)?|this_thread|random_device|call_once|once_flag"
                      r"|chrono::(steady|system|high_resolution)_clock::now)\b|__rdtscp?\b")
# What is allowed: file -> a word of the line, and why.
ALLOWED = {
    "include/verge/base/detail/in_place.hpp": "rdtsc",  # only inside an anchor's window, see kernel.hpp
}


def code_of(text: str) -> str:
    """The text without comments and strings, lines kept."""
    pattern = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)
    return pattern.sub(lambda m: "\n" * m[0].count("\n"), text)


def main(root: pathlib.Path) -> int:
    calls = ALSO | set(CALL.findall((root / "include/verge/base/detail/kernel.hpp").read_text()))
    direct = re.compile(r"(?<![\w:>.)])::\s*(" + "|".join(sorted(calls)) + r")\s*\(")
    bad = 0
    for path in sorted([*root.glob("include/**/*.hpp"), *root.glob("src/**/*.?pp")]):
        name = str(path.relative_to(root))
        if name in SEAM:
            continue
        for number, line in enumerate(code_of(path.read_text()).splitlines(), 1):
            found = direct.search(line) or STANDARD.search(line)
            if not found or ALLOWED.get(name, "\0") in line:
                continue
            print(f"{name}:{number}: {found[0].strip('(')} goes around base/detail/kernel.hpp")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(__file__).resolve().parent.parent))
