"""tools/dev/packages/install and tools/quickstart: what they say when they can or may not install."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import REPOSITORY

PACKAGES = REPOSITORY / "tools/dev/packages"


class Install(unittest.TestCase):
    def setUp(self):
        """A copy of the script with lists of its own, and fakes that come before the system's commands."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.script = self.folder / "install"
        shutil.copy(PACKAGES / "install", self.script)
        self.commands = self.folder / "commands"
        self.commands.mkdir()
        self.called = self.folder / "called"
        self.fake("apt-get", f'echo "$*" >>{self.called}')
        self.fake("sudo", "exit 1")

    def fake(self, name, script):
        path = self.commands / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def list(self, purpose, text):
        (self.folder / f"{purpose}.list").write_text(text)

    def install(self, *purposes):
        environment = {"PATH": f"{self.commands}:{os.environ['PATH']}"}
        return subprocess.run([self.script, *purposes], env=environment, capture_output=True, text=True, timeout=60)

    def apt_calls(self):
        return self.called.read_text().splitlines() if self.called.exists() else []

    def test_says_nothing_and_calls_nothing_when_all_is_there(self):
        self.list("build", "# a comment\ndpkg   # is always there\n\n")
        answer = self.install("build")
        self.assertEqual((answer.returncode, answer.stdout + answer.stderr, self.apt_calls()), (0, "", []))

    def test_root_installs_only_what_is_missing(self):
        self.list("build", "dpkg\nno-such-package-a\n")
        self.list("test", "no-such-package-b   # why\n")
        self.fake("id", "echo 0")
        answer = self.install("build", "test")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(self.apt_calls()[0], "update$")
        self.assertRegex(self.apt_calls()[1], "install --no-install-recommends no-such-package-a no-such-package-b$")

    def test_check_tells_what_is_missing_and_installs_nothing(self):
        self.list("build", "dpkg\nno-such-package-a\n")
        self.fake("id", "echo 0")
        answer = self.install("--check", "build")
        self.assertEqual((answer.returncode, answer.stderr, self.apt_calls()), (1, "missing: no-such-package-a\n", []))

    def test_without_root_it_names_the_packages_and_the_command_and_runs_no_package_manager(self):
        self.list("build", "dpkg\nno-such-package-a\n")
        self.fake("id", "echo 1000")
        answer = self.install("build")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("apt-get install --no-install-recommends no-such-package-a\n", answer.stderr)
        self.assertEqual(self.apt_calls(), [])

    def test_a_failing_package_manager_is_quoted(self):
        self.list("build", "no-such-package-a\n")
        self.fake("id", "echo 0")
        self.fake("apt-get", "echo E: no route to the mirror; exit 100")
        answer = self.install("build")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("no route to the mirror", answer.stderr)

    def test_an_unknown_purpose_is_named_with_those_there_are(self):
        self.list("build", "dpkg\n")
        answer = self.install("biuld")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("no list for 'biuld'; there are: build", answer.stderr)


class Lists(unittest.TestCase):
    def test_hold_nothing_but_package_names_and_comments(self):
        for path in sorted(PACKAGES.glob("*.list")):
            for line in path.read_text().splitlines():
                for package in line.split("#")[0].split():
                    with self.subTest(list=path.name, package=package):
                        self.assertRegex(package, r"^[a-z0-9][a-z0-9.+-]+$")


class Quickstart(unittest.TestCase):
    def test_help_needs_nothing_and_an_unknown_word_is_wrong_usage(self):
        script = REPOSITORY / "tools/quickstart"
        answer = subprocess.run([script, "--help"], cwd="/", capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 0)
        self.assertIn("tools/quickstart", answer.stderr)
        self.assertEqual(subprocess.run([script, "please"], cwd="/", capture_output=True, timeout=60).returncode, 2)


if __name__ == "__main__":
    unittest.main()
