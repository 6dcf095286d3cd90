"""verge demo, as a person runs it: in a pipe, on a terminal, ended in the middle, with bad options."""
import fcntl
import html.parser
import os
import pty
import re
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest
import xml.etree.ElementTree

import program

ENGINES = ("thread", "fiber", "loop")
CHECK = "OK: calls = answered + timed out; nothing lost, nothing early"
# Small, so that a sanitized program on a loaded machine is quick too.
QUICK = ("demo", "--seconds", "0.3", "--rate", "2000", "--timeout", "20ms", "--workers", "2")
ENDLESS = ("demo", "--seconds", "3600", "--rate", "2000", "--timeout", "20ms", "--workers", "2")
# The longest time-out: calls that are lost keep the end waiting for minutes.
STUBBORN = ("demo", "--seconds", "3600", "--rate", "20000", "--timeout", "60s", "--workers", "2")


def without_colours(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


class Page(html.parser.HTMLParser):
    """Collects the tags of a page, and sees that each one that is open is closed in its turn."""
    VOID = {"meta", "link", "br", "img", "hr", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()


class InAPipe(unittest.TestCase):
    def test_it_ends_with_the_check(self):
        done = program.run(*QUICK, "--engine", "fiber")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(
            "verge demo  fiber engine, 2 workers, 2,000 calls/s, time-out 20 ms\n"), done.stdout)
        self.assertTrue(done.stdout.endswith(CHECK + "\n"), done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertEqual(done.stderr, "")

    def test_a_line_a_second(self):
        done = program.run("demo", "--seconds", "1.1", "--rate", "100", "--timeout", "20ms")
        lines = [line for line in done.stdout.splitlines() if " calls/s  pending " in line]
        self.assertGreaterEqual(len(lines), 1, done.stdout)

    def test_json_is_one_object_of_each_engine(self):
        for engine in ENGINES:
            with self.subTest(engine):
                done = program.run(*QUICK, "--engine", engine, "--json")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(done.stdout.splitlines()), 1, done.stdout)
                figures = program.json.loads(done.stdout)
                self.assertEqual(figures["engine"], engine)
                self.assertTrue(figures["ok"])
                self.assertEqual(figures["wrong"], "")
                self.assertGreater(figures["calls"], 0)
                self.assertEqual(figures["calls"], figures["answered"] + figures["timed_out"])
                self.assertEqual(figures["timed_out"], figures["retried"] + figures["given_up"])
                self.assertEqual((figures["early"], figures["pending"]), (0, 0))
                self.assertFalse(figures["interrupted"])


class OnATerminal(unittest.TestCase):
    def test_it_changes_in_place_and_gives_the_cursor_back(self):
        code, output = program.run_on_terminal(*QUICK)
        self.assertEqual(code, 0)
        self.assertIn("\x1b[?25l", output)
        self.assertGreater(output.rfind("\x1b[?25h"), output.rfind("\x1b[?25l"))
        self.assertRegex(output, r"\x1b\[\d+A")  # up, to draw over the frame before
        plain = without_colours(output)
        for part in ("late by", "workers", "pending", "memory", CHECK):
            self.assertIn(part, plain)

    def test_it_follows_a_new_width(self):
        def width(terminal, columns):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

        pid, terminal = pty.fork()
        if pid == 0:
            width(1, 100)
            os.environ["TERM"] = "xterm-256color"
            os.execv(program.VERGE, [program.VERGE, *ENDLESS])
        # What is waited for, and what is done then.
        narrow, end = lambda: width(terminal, 40), lambda: os.kill(pid, signal.SIGINT)
        steps = [("2 workers, 2,000 calls/s, time-out 20 ms", narrow),
                 ("\x1b[K\r\n  2,000 calls/s, time-out 20 ms", end)]
        output, deadline = "", time.monotonic() + program.PATIENCE
        while time.monotonic() < deadline:
            try:
                piece = os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # the program has ended
                break
            output += piece
            if steps and steps[0][0] in output:
                steps.pop(0)[1]()
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        frames = re.split(r"\x1b\[\d+A\r", output)
        narrow_frames = [without_colours(frame) for frame in frames
                         if "\x1b[K\r\n  2,000 calls/s" in frame]
        self.assertGreater(len(narrow_frames), 0)
        for line in "".join(narrow_frames).splitlines():
            self.assertLessEqual(len(line), 40, line)

    def test_no_color_is_honoured(self):
        os.environ["NO_COLOR"] = "1"
        try:
            _, output = program.run_on_terminal(*QUICK)
        finally:
            del os.environ["NO_COLOR"]
        self.assertNotRegex(output, r"\x1b\[\d*m")
        self.assertIn(CHECK, output)

    def test_signals_in_the_middle_end_with_the_summary(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                code, output = program.run_on_terminal(
                    *ENDLESS, interrupt_after="cancelled", interrupt_with=number)
                self.assertEqual(code, 0)
                self.assertGreater(output.rfind("\x1b[?25h"), output.rfind("\x1b[?25l"))
                plain = without_colours(output)
                self.assertIn("then interrupted", plain)
                self.assertIn(CHECK, plain)


class EndedByASignal(unittest.TestCase):
    def start(self, *arguments):
        running = subprocess.Popen([program.VERGE, *arguments], stdout=subprocess.PIPE, text=True)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        return running

    def test_in_a_pipe(self):
        for number, engine in zip((signal.SIGINT, signal.SIGTERM, signal.SIGINT), ENGINES):
            with self.subTest(f"{number.name} {engine}"):
                running = self.start(*ENDLESS, "--engine", engine)
                running.stdout.readline()  # what is run
                running.stdout.readline()  # and how it runs
                running.send_signal(number)
                output = running.communicate(timeout=program.PATIENCE)[0]
                self.assertEqual(running.returncode, 0)
                self.assertIn("then interrupted", output)
                self.assertTrue(output.endswith(CHECK + "\n"), output)

    def test_with_json(self):
        # There is nothing to see that it runs by, so it may be early: it is still one object.
        running = self.start(*ENDLESS, "--json")
        while self.blocked_signals(running.pid) & (1 << (signal.SIGINT - 1)) == 0:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        output = running.communicate(timeout=program.PATIENCE)[0]
        self.assertEqual(running.returncode, 0)
        figures = program.json.loads(output)
        self.assertTrue(figures["interrupted"] and figures["ok"])

    @staticmethod
    def blocked_signals(pid):
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return int(re.search(r"SigBlk:\s*(\w+)", status.read())[1], 16)

    def test_the_second_signal_ends_it_at_once(self):
        running = self.start(*STUBBORN)
        running.stdout.readline()
        running.stdout.readline()  # a second has passed: of so many calls, some are lost
        # It takes the first before it can take the second; then it dies by it.
        deadline = time.monotonic() + program.PATIENCE
        while running.poll() is None and time.monotonic() < deadline:
            running.send_signal(signal.SIGINT)
            time.sleep(0.05)
        self.assertEqual(running.returncode, -signal.SIGINT)


class Report(unittest.TestCase):
    def test_is_well_formed_and_self_contained(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.html")
            done = program.run(*QUICK, "--report", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(path, done.stdout)
            with open(path, encoding="utf-8") as file:
                text = file.read()
        page = Page(text)
        self.assertIn("OK: calls = answered + timed out", text)
        # Names of XML namespaces are no addresses to load from.
        rest = re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
        self.assertNotRegex(rest, r"https?://|//\w+\.\w+|@import|url\(")
        for tag, attributes in page.tags:
            self.assertNotIn(tag, ("script", "link", "img", "iframe", "object"))
            self.assertNotIn("src", attributes)
        plots = re.findall(r"<svg.*?</svg>", text, re.S)
        self.assertGreaterEqual(len(plots), 3)
        for plot in plots:
            xml.etree.ElementTree.fromstring(plot)
        for title in ("How late time-outs fired", "Throughput", "Pending timers"):
            self.assertIn(title, text)

    def test_a_path_that_cannot_be_written_is_found_before_the_run(self):
        for path in ("/nowhere/at/all/out.html", "/", "/proc/version/out.html"):
            with self.subTest(path):
                done = program.run(*ENDLESS, "--report", path)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, "")
                self.assertRegex(done.stderr, r"\Averge: demo: --report: cannot write '[^\n]*\n\Z")


class BadOptions(unittest.TestCase):
    def test_one_clear_line_and_exit_2(self):
        for option, value, why in (
                ("--seconds", "0", "more than 0"), ("--seconds", "-1", "more than 0"),
                ("--seconds", "nan", "more than 0"), ("--seconds", "1e9", "86400"),
                ("--seconds", "soon", "--seconds"), ("--rate", "0", "1 to 10000000"),
                ("--rate", "1e9", "1 to 10000000"), ("--rate", "fast", "--rate"),
                ("--timeout", "5", "no duration"), ("--timeout", "", "no duration"),
                ("--timeout", "0s", "1ms to 60s"), ("--timeout", "61s", "1ms to 60s"),
                ("--workers", "257", "1 to 256"), ("--workers", "-1", "1 to 256"),
                ("--workers", "x", "--workers"), ("--engine", "steam", "none of thread"),
                ("--engine", "", "none of thread"), ("--colour", "blue", "--colour")):
            with self.subTest(f"{option}={value}"):
                done = program.run("demo", f"{option}={value}" if value != "" else option, *(
                    ("",) if value == "" else ()))
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertEqual(done.stdout, "")
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertTrue(done.stderr.startswith("verge: "), done.stderr)
                self.assertIn(why, done.stderr)

    def test_help_tells_every_option(self):
        done = program.run("demo", "--help")
        self.assertEqual(done.returncode, 0)
        for option in ("--seconds", "--rate", "--timeout", "--workers", "--engine", "--report",
                       "--json"):
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    program.main()
