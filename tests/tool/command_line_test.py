"""The verge program's command line: help, mistakes, completion."""
import subprocess
import unittest

import program

COMMANDS = ["demo", "serve", "bench", "doctor", "completion"]


class CommandLine(unittest.TestCase):
    def test_help_names_every_command(self):
        done = program.run("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for command in COMMANDS:
            self.assertIn(command, done.stdout)

    def test_every_command_has_help(self):
        for command in COMMANDS:
            done = program.run(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertIn(command, done.stdout)

    def test_version(self):
        done = program.run("--version")
        self.assertRegex(done.stdout, r"^verge \d+\.\d+\.\d+\n$")

    def test_a_mistake_is_one_line_and_exit_2(self):
        for mistake in [[], ["dance"], ["--loud"], ["completion"], ["completion", "tcsh"]]:
            done = program.run(*mistake)
            self.assertEqual((done.returncode, done.stdout), (2, ""), mistake)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("verge: "), done.stderr)


def complete(*words):
    """What bash offers for the last of the words."""
    script = """
        source <("$0" completion bash)
        COMP_WORDS=(verge "$@") COMP_CWORD=$#
        _verge
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(["bash", "-c", script, program.VERGE, *words], capture_output=True,
                          text=True, timeout=program.PATIENCE, check=True)
    assert done.stderr == "", done.stderr
    return done.stdout.split()


class Completion(unittest.TestCase):
    def test_the_script_is_the_same_on_a_terminal_and_in_json(self):
        script = program.run("completion", "bash").stdout
        self.assertEqual(program.run_json("completion", "bash", "--json"),
                         {"shell": "bash", "script": script})
        code, output = program.run_on_terminal("completion", "bash")
        self.assertEqual((code, output.replace("\r\n", "\n")), (0, script))

    def test_commands(self):
        self.assertLessEqual(set(COMMANDS), set(complete("")))
        self.assertEqual(complete("do"), ["doctor"])

    def test_options_of_a_command(self):
        self.assertIn("--json", complete("doctor", "--"))
        self.assertIn("--rate", complete("demo", "--"))
        self.assertNotIn("--rate", complete("doctor", "--"))

    def test_values(self):
        self.assertEqual(complete("demo", "--engine", "f"), ["fiber"])
        self.assertEqual(complete("completion", ""), ["bash"])
        self.assertEqual(complete("demo", "--report", program.VERGE[:-1]), [program.VERGE])


if __name__ == "__main__":
    program.main()
