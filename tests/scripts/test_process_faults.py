"""tests/faults/processes/run: what makes a case of it fail. The ranks here are scripts that play some; none of them is a process of
Rondo's."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import REPOSITORY

FOLDER = REPOSITORY / "tests/faults/processes"
sys.path[:0] = [str(FOLDER), str(REPOSITORY / "tests/support")]
import stage  # noqa: E402


def load(name):
    """The script, which has no .py in its name."""
    loader = importlib.machinery.SourceFileLoader(f"process_faults_{name}", str(FOLDER / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(f"process_faults_{name}", loader))
    loader.exec_module(module)
    return module


run = load("run")
soak = load("soak")

CLEAN = {"event": "clean", "left_over": [], "cpu_s": 0.1}


def failed(**fields):
    return {"event": "failed", "ns": time.monotonic_ns(), "step": "sums", "code": "peer_lost", "culprit": 1, "host": "h",
            "collective": "all_reduce", "sequence": 7, "text": "peer_lost: rank 1 (host h) died", **fields}


class Judged(unittest.TestCase):
    """Cases about ranks that print what the case lists, and end."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        player = Path(folder.name) / "rank"
        # Prints the objects of its script, runs what follows "then", and ends.
        player.write_text("#!/usr/bin/env python3\n"
                          "import json, subprocess, sys\n"
                          "part = json.loads(sys.argv[sys.argv.index('--script') + 1])\n"
                          "for event in part['says']:\n"
                          "    print(json.dumps(event), flush=True)\n"
                          "if part.get('then'):\n"
                          "    subprocess.Popen(part['then'])\n"
                          "sys.exit(part.get('exit', 0))\n")
        player.chmod(0o755)
        before = stage.Programs.rank
        stage.Programs.rank = str(player)
        self.addCleanup(setattr, stage.Programs, "rank", before)

    def verdict(self, body, *parts):
        """What is said of a case of ranks that play these parts."""
        def function(at):
            body(at, at.job(*(json.dumps(part) for part in parts)))
        results = run.Results(verbose=False)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            results.run(stage.Case(function, (1,), ("tcp",), False), "tcp", 1)
        return out.getvalue()

    def test_a_case_passes_whose_fault_fired_and_whose_ranks_are_clean(self):
        def body(at, ranks):
            at.fire(1, "the fault")
            at.failed(ranks, "peer_lost", culprit=1)
            at.clean(ranks)
        self.assertIn("passed", self.verdict(body, {"says": [failed(), CLEAN]}, {"says": [failed(), CLEAN]}))

    def test_a_case_fails_whose_fault_did_not_fire(self):
        def silent(at, ranks):
            at.clean(ranks)
        self.assertIn("did not fire", self.verdict(silent, {"says": [CLEAN]}))

        def none(at, ranks):
            at.clean(ranks)
            at.fire(0, "the hammer")
        said = self.verdict(none, {"says": [CLEAN]})
        self.assertIn("did not fire: the hammer", said)
        self.assertIn("replay: tests/faults/processes/run --case none/tcp --seed 1".replace("none", "function"), said)

    def expect(self, words, judge, *parts):
        def body(at, ranks):
            at.fire(1, "the fault")
            judge(at, ranks)
        said = self.verdict(body, *parts)
        self.assertIn("FAILED", said)
        self.assertIn(words, said)

    def test_a_rank_that_leaves_something_over_fails_the_case(self):
        self.expect("has left over: ['descriptor 7: socket:[1]']", lambda at, ranks: at.clean(ranks),
                    {"says": [{**CLEAN, "left_over": ["descriptor 7: socket:[1]"]}]})

    def test_a_rank_that_computes_for_too_long_fails_the_case(self):
        self.expect("computed for 5.0 s", lambda at, ranks: at.clean(ranks, cpu_s=1), {"says": [{**CLEAN, "cpu_s": 5}]})

    def test_a_rank_that_ends_otherwise_fails_the_case(self):
        self.expect("ended with 3", lambda at, ranks: at.clean(ranks), {"says": [CLEAN], "exit": 3})

    def test_a_wrong_number_fails_the_case_whatever_else_is_right(self):
        self.expect("element 3 is 4", lambda at, ranks: at.clean(ranks), {"says": [{"event": "wrong", "text": "element 3 is 4"}, CLEAN]})

    def test_ranks_that_do_not_name_the_same_culprit_fail_the_case(self):
        def judge(at, ranks):
            at.failed(ranks, "peer_lost")
        other = failed(culprit=2, text="peer_lost: rank 2 (host h) died")
        self.expect("they name [1, 2]", judge, {"says": [failed(), CLEAN]}, {"says": [other, CLEAN]})

    def test_another_code_culprit_host_or_operation_fails_the_case(self):
        def judge(at, ranks):
            at.failed(ranks, "peer_lost", culprit=1, inside=True)
        self.expect("says timeout, not peer_lost", judge, {"says": [failed(code="timeout"), CLEAN]})
        self.expect("names 2, not 1", judge, {"says": [failed(culprit=2), CLEAN]})
        self.expect("on which host", judge, {"says": [failed(host=""), CLEAN]})
        self.expect("names half an operation", judge, {"says": [failed(collective=""), CLEAN]})
        nothing = {key: value for key, value in failed(collective="").items() if key != "sequence"}
        self.expect("no error says in which operation", judge, {"says": [nothing, CLEAN]})

    def test_operations_further_apart_than_one_fail_the_case(self):
        def judge(at, ranks):
            at.failed(ranks, "peer_lost")
        self.expect("they fail in operations [7, 9]", judge, {"says": [failed(), CLEAN]}, {"says": [failed(sequence=9), CLEAN]})

    def test_an_error_that_comes_too_late_fails_the_case(self):
        def judge(at, ranks):
            at.failed(ranks, "peer_lost", since_ns=time.monotonic_ns() - 10_000_000_000, within_s=2)
        self.expect("2 s and 1.0 s are allowed", judge, {"says": [failed(ns=time.monotonic_ns() + 1_000_000_000), CLEAN]})

    def test_a_process_that_is_left_over_fails_the_case(self):
        self.expect("left over: [\"process ", lambda at, ranks: at.clean(ranks), {"says": [CLEAN], "then": ["sleep", "20"]})

    def test_who_goes_on_must_be_the_next_ranks_of_one_generation(self):
        def rebuilt(rank, generation):
            return {"event": "rebuilt", "ns": 1, "rank": rank, "world_size": 2, "generation": generation}
        closed = {"event": "closed", "ns": 2}
        self.expect("generations {1, 2} go on", lambda at, ranks: at.went_on(ranks),
                    {"says": [rebuilt(0, 1), closed, CLEAN]}, {"says": [rebuilt(1, 2), closed, CLEAN]})
        self.expect("is now rank 0 of 2, not 1 of 2", lambda at, ranks: at.went_on(ranks),
                    {"says": [rebuilt(0, 1), closed, CLEAN]}, {"says": [rebuilt(0, 1), closed, CLEAN]})


class WhatStays(unittest.TestCase):
    def test_what_is_met_once_is_no_leak_and_what_stays_is(self):
        self.assertEqual(soak.lasting([28, 28, 30, 28]), 28)
        self.assertEqual(soak.lasting([28, 28, 30, 30, 30]), 30)
        self.assertEqual(soak.lasting(range(28, 40)), 37)
        self.assertEqual(soak.lasting([28]), 28)


if __name__ == "__main__":
    unittest.main()
