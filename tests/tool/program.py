"""What the tests of the verge program share: running it as a person would.

Each test file is run by ctest as  NAME_test.py PATH/TO/verge  and ends with  program.main().
"""
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import unittest

VERGE = ""  # the program under test, from the command line
PATIENCE = 60  # seconds: more than anything takes on a loaded machine with sanitizers


def run(*arguments, **options):
    """Runs verge to its end with its output piped; returns the CompletedProcess."""
    return subprocess.run([VERGE, *arguments], capture_output=True, text=True, timeout=PATIENCE,
                          check=False, **options)


def run_json(*arguments):
    """Runs verge, which must succeed, and returns the last line of its output as JSON."""
    done = run(*arguments)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_on_terminal(*arguments, interrupt_after=None, interrupt_with=signal.SIGINT):
    """Runs verge on a pseudo-terminal; returns (exit code, what it printed).

    interrupt_after: once its output contains this text, it gets the signal interrupt_with.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(VERGE, [VERGE, *arguments])
    output, deadline = b"", time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the program has ended
            break
        output += piece
        if interrupt_after is not None and interrupt_after.encode() in output:
            os.kill(pid, interrupt_with)
            interrupt_after = None
        if not piece:
            break
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status), output.decode(errors="replace")


def main():
    global VERGE
    VERGE = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
