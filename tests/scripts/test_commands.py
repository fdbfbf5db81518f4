"""tests/support/commands.py, with which tests of command lines are written."""

import os
import signal
import subprocess
import sys
import unittest

from support import REPOSITORY

CASES = '''
import sys
sys.path.insert(0, sys.argv[1])
from commands import Running, case, run_cases

@case
def waits_for_a_command_that_does_not_end():
    sleeping = Running("sleep", "600")
    print(f"at work: {sleeping.process.pid}", flush=True)
    sleeping.end()

sys.exit(run_cases([], "cases"))
'''


class Interrupted(unittest.TestCase):
    def expect_nothing_left_by(self, number):
        cases = subprocess.Popen([sys.executable, "-c", CASES, str(REPOSITORY / "tests/support")], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(cases.stdout.close)
        pid = int(cases.stdout.readline().split()[-1])
        cases.send_signal(number)
        self.assertNotEqual(cases.wait(30), 0)
        with self.assertRaises(ProcessLookupError):
            os.kill(pid, 0)

    def test_its_commands_end_with_it(self):
        self.expect_nothing_left_by(signal.SIGINT)

    def test_its_commands_end_with_it_when_it_is_asked_to_end(self):
        self.expect_nothing_left_by(signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
