"""verge doctor: every finding has its words."""
import json
import unittest

import program


class Doctor(unittest.TestCase):
    def test_says_what_each_finding_means(self):
        done = program.run("doctor")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ["clock source", "timer slack", "processors", "memory limit", "futex", "timerfd",
                     "epoll", "membarrier", "guard pages", "mappings"]:
            self.assertIn(name, done.stdout)
        self.assertNotIn("\x1b", done.stdout, "no colours in a pipe")
        self.assertTrue(all(len(line) <= 90 for line in done.stdout.splitlines()), done.stdout)
        self.assertIn("all of Verge works here", done.stdout)

    def test_has_colours_on_a_terminal(self):
        code, output = program.run_on_terminal("doctor")
        self.assertEqual(code, 0)
        self.assertIn("\x1b[32mgood\x1b[0m", output)

    def test_json(self):
        told = json.loads(program.run("doctor", "--json").stdout)
        self.assertIs(told["ok"], True)
        self.assertGreater(len(told["findings"]), 10)
        for finding in told["findings"]:
            self.assertIn(finding["verdict"], ["good", "note"])
            self.assertTrue(finding["name"] and finding["value"] and finding["meaning"], finding)

    def test_bad_option(self):
        done = program.run("doctor", "--quickly")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("--quickly", done.stderr)


if __name__ == "__main__":
    program.main()
