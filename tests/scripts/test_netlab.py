"""tools/dev/lab/netlab: hosts that reach each other, and nothing left behind."""

import os
import subprocess
import unittest

from support import REPOSITORY

NETLAB = REPOSITORY / "tools/dev/lab/netlab"
LAB = f"t{os.getpid() % 100000}"

# The other host itself refuses a connection to a port without a listener: a round trip that waits for nothing else.
REACH = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), timeout=10)
except ConnectionRefusedError:
    print(socket.gethostname(), "reached", sys.argv[1])
"""


def netlab(*words):
    environment = dict(os.environ, NETLAB=LAB)
    return subprocess.run([NETLAB, *words], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


def namespaces():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(LAB + "-")]


def can_make_namespaces():
    if os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0


class WrongUse(unittest.TestCase):
    def test_a_lab_that_is_not_up_says_so(self):
        answer = netlab("exec", "1", "true")
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"lab {LAB} is not up", answer.stderr)

    def test_help_and_wrong_words_print_the_usage(self):
        self.assertIn("netlab up N RATE", netlab("--help").stdout)
        answer = netlab("upp")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("netlab up N RATE", answer.stderr)

    def test_a_senseless_number_of_hosts_is_named(self):
        answer = netlab("up", "zero", "1gbit")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("'zero'", answer.stderr)


@unittest.skipUnless(can_make_namespaces(), "network namespaces: this user may not make them")
class Lab(unittest.TestCase):
    def tearDown(self):
        netlab("down")

    def test_two_hosts_reach_each_other_under_their_own_names_and_are_removed(self):
        up = netlab("up", "2", "1gbit")
        self.assertEqual(up.returncode, 0, up.stderr)
        self.assertEqual(netlab("hosts").stdout, "2\n")
        for here, there in (("1", "2"), ("2", "1")):
            address = netlab("addr", there).stdout.strip()
            answer = netlab("exec", here, "python3", "-c", REACH, address)
            self.assertEqual(answer.stdout, f"{LAB}-h{here} reached {address}\n", answer.stderr)
        self.assertEqual(netlab("exec", "3", "true").returncode, 2)

        self.assertEqual(netlab("down").returncode, 0)
        self.assertEqual(namespaces(), [])
        self.assertEqual(netlab("hosts").returncode, 1)

    def test_every_direction_of_every_link_is_shaped_to_the_rate(self):
        self.assertEqual(netlab("up", "2", "100mbit").returncode, 0)
        self.assertEqual(netlab("show").stdout.count("tbf"), 4)
        self.assertEqual(netlab("show").stdout.count("rate 100Mbit"), 4)

    def test_a_lab_that_fails_half_way_is_removed(self):
        answer = netlab("up", "2", "no-rate")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("removing the lab", answer.stderr)
        self.assertEqual(namespaces(), [])

    def test_a_lab_that_is_up_is_not_made_again(self):
        self.assertEqual(netlab("up", "1", "1gbit").returncode, 0)
        answer = netlab("up", "1", "1gbit")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("already up", answer.stderr)


if __name__ == "__main__":
    unittest.main()
