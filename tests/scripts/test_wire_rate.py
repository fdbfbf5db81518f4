"""tools/dev/lab/wire_rate: both programs run on the same shaped links, and neither can be faster than they are."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from support import REPOSITORY

WIRE_RATE = REPOSITORY / "tools/dev/lab/wire_rate"
BIN = pathlib.Path(os.environ.get("RONDO_BIN", REPOSITORY / "bazel-bin")).absolute() / "tools/dev/lab"


def wire_rate(*words):
    return subprocess.run([WIRE_RATE, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def labs():
    return {line.split()[0] for line in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.splitlines()
            if line.startswith("wr")}  # fmt: skip


def can_make_namespaces():
    return os.geteuid() == 0 and subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0


class WrongUse(unittest.TestCase):
    def test_help_names_the_flags_and_what_is_counted(self):
        said = wire_rate("--help")
        self.assertEqual(said.returncode, 0)
        for words in ("--hosts", "--rate", "--sizes", "--rounds", "--warm-seconds", "--seconds", "--json", "2 (n - 1) / n"):
            self.assertIn(words, said.stdout)

    def test_wrong_values_name_the_flag(self):
        for flag, value in (("--hosts", "1"), ("--sizes", "5"), ("--sizes", "1T"), ("--rounds", "0"), ("--seconds", "soon")):
            said = wire_rate(flag, value)
            self.assertEqual(said.returncode, 2)
            self.assertRegex(said.stderr, f"{flag}.*'{value}'")


@unittest.skipUnless(can_make_namespaces(), "network namespaces: this user may not make them")
@unittest.skipUnless((BIN / "socket_ring").exists() and (BIN / "all_reduce_stream").exists(), f"the programs are not built in {BIN}")
class Lab(unittest.TestCase):
    def setUp(self):
        self.before = labs()

    def tearDown(self):
        self.assertEqual(labs() - self.before, set(), "a lab was left behind")

    def test_a_short_run_counts_both_programs_and_no_more_than_the_links_carry(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "runs.json"
            said = wire_rate("--bin", BIN, "--hosts", 3, "--rate", "200mbit", "--sizes", "64K,256K", "--rounds", 1,
                             "--warm-seconds", 0.3, "--seconds", 0.3, "--json", file)  # fmt: skip
            self.assertEqual(said.returncode, 0, said.stderr)
            runs = json.loads(file.read_text())
        self.assertEqual([(run["program"], run["vector_bytes"]) for run in runs],
                         [("ring", 65536), ("rondo", 65536), ("ring", 262144), ("rondo", 262144)])  # fmt: skip
        for run in runs:
            # The number of Rondo's rounds is computed beforehand, from the speed of a short warm-up.
            self.assertGreaterEqual(run["wall_s"], 0.1, run)
            self.assertEqual(run["MB_per_s"], run["bytes"] / run["wall_s"] / 1e6)
            if run["program"] == "rondo":
                self.assertAlmostEqual(run["bytes"], run["rounds"] * run["vector_bytes"] * 4 / 3, delta=1)
            # 25 MB/s, plus the tokens that a bucket saves during a pause and the bytes in the queues of shapers and
            # sockets.
            self.assertLess(run["bytes"], 25e6 * run["wall_s"] + 4e6, run)
        self.assertRegex(said.stdout, r"(?m)^ +256 KiB \| +[\d.]+ MB/s +[\d.]+ MB/s \| +[\d.]+ \([\d.]+ to [\d.]+\)$")

    def test_a_program_that_fails_is_named_with_its_host(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "socket_ring"
            script.write_text("#!/bin/sh\necho no cable >&2; exit 3\n")
            script.chmod(0o755)
            said = wire_rate("--bin", folder, "--hosts", 2, "--rounds", 1)
        self.assertEqual(said.returncode, 1)
        self.assertTrue(re.search(r"wire_rate: host [12]: no cable", said.stderr), said.stderr)

    def test_a_rate_that_is_none_is_reported(self):
        said = wire_rate("--bin", BIN, "--rate", "fast")
        self.assertEqual(said.returncode, 1)
        self.assertIn("wire_rate: netlab up 4 fast", said.stderr)


if __name__ == "__main__":
    unittest.main()
