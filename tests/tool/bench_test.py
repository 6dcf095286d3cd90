"""verge bench: verge-bench under one roof, and its report."""
import html.parser
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import program


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order, and gathers what the page asks the network for."""
    ALONE = {"meta", "line", "rect", "polyline", "br", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.ALONE:
            assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


class Bench(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name):
        return os.path.join(self.folder.name, name)

    def test_passes_everything_on(self):
        done = program.run("bench", "--list")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("churn", done.stdout)

    def test_exit_code_is_that_of_verge_bench(self):
        done = program.run("bench", "--work", "dance")
        self.assertEqual(done.returncode, 2)
        self.assertIn("dance", done.stderr)

    def test_report_draws_this_run(self):
        kept = self.file("figures.jsonl")
        older = {"work": "older", "peer": "verge", "params": {}, "metric": "x", "value": 1}
        pathlib.Path(kept).write_text(json.dumps(older) + "\n")
        done = program.run("bench", "--work", "sparse", "--quick", "--json", kept,
                           "--report", self.file("report.html"))
        self.assertEqual(done.returncode, 0, done.stderr)
        figures = [json.loads(line) for line in pathlib.Path(kept).read_text().splitlines()]
        self.assertGreater(len(figures), 1)
        page = Page(pathlib.Path(self.file("report.html")).read_text())
        self.assertEqual((page.open, page.links), ([], []))
        self.assertNotIn("older", page.text)
        for figure in figures[1:]:
            self.assertIn(figure["peer"], page.text)
            self.assertIn(figure["metric"], page.text)

    def test_a_signal_ends_it_and_what_was_measured_is_drawn(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            report, figures = self.file(f"{number}.html"), self.file(f"{number}.jsonl")
            running = subprocess.Popen(
                [program.VERGE, "bench", "--work", "sparse,late", "--load", "0",
                 "--json", figures, "--report", report],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            deadline = time.monotonic() + program.PATIENCE
            while not (os.path.exists(figures) and os.path.getsize(figures) > 0):
                self.assertLess(time.monotonic(), deadline)
                self.assertIsNone(running.poll(), "it has ended by itself")
                time.sleep(0.01)
            running.send_signal(number)  # to verge alone, as kill does
            running.communicate(timeout=program.PATIENCE)
            self.assertEqual(running.returncode, 128 + number)
            page = Page(pathlib.Path(report).read_text())
            self.assertEqual(page.open, [])
            self.assertIn("sparse", page.text)

    def test_ends_on_a_terminal_too(self):
        code, output = program.run_on_terminal("bench", "--work", "sparse", "--quick")
        self.assertEqual(code, 0, output)
        self.assertIn("sparse", output)
        code, output = program.run_on_terminal("bench", "--work", "late", "--load", "0",
                                               "--seconds", "60", interrupt_after="late")
        self.assertEqual(code, 128 + signal.SIGINT, output)

    def test_a_report_that_cannot_be_written_is_found_first(self):
        done = program.run("bench", "--work", "sparse", "--quick", "--report",
                           self.file("no/such/folder.html"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("cannot write", done.stderr)


if __name__ == "__main__":
    program.main()
