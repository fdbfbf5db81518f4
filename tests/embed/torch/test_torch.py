"""The torch.distributed backend of embed/torch on the torch that is here: values, works, groups, deaths, DDP."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import torch

from support import PROGRAMS, ROOT, Ended, Installed, run_gloos_ranks, run_ranks

LOSS = re.compile(r"^\d+ (\d\.\d+)$", re.MULTILINE)


def types_of_rondo() -> list[str]:
    """The names of the types in the C interface."""
    names = re.findall(r"^enumerator RONDO_((?:U?INT|B?FLOAT)\d+|BOOL) \d+$", (ROOT / "embed/abi.txt").read_text(), re.MULTILINE)
    assert len(names) >= 11, names
    return [name.lower() for name in names]


class Backend(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        print(f"torch {torch.__version__}, {sys.executable}", file=sys.stderr)
        cls.installed = Installed.shared()

    def ranks(self, program: str, world: int, *arguments: str, victim: int = -1) -> list[Ended]:
        """Every rank must end with status 0, except the victim, which must have been killed."""
        ended = run_ranks(self.installed, program, world, *arguments)
        for rank, one in enumerate(ended):
            wanted = -signal.SIGKILL if rank == victim else 0
            self.assertEqual(one.status, wanted, f"rank {rank} of {program} {arguments}:\n{one.said}")
        return ended

    def test_every_value_is_right(self) -> None:
        for world in (2, 3):
            with self.subTest(world=world):
                self.assertIn("results checked", self.ranks("values.py", world)[0].said)

    def test_works_and_futures(self) -> None:
        self.ranks("life.py", 3, "works")

    def test_results_are_written_whatever_autograd_says(self) -> None:
        self.ranks("life.py", 3, "autograd")

    def test_a_forked_child_says_nothing(self) -> None:
        self.ranks("life.py", 3, "forked")

    def test_groups_objects_and_messages(self) -> None:
        self.ranks("life.py", 3, "groups")

    def test_who_is_late_at_a_monitored_barrier_is_named_and_the_group_goes_on(self) -> None:
        with tempfile.TemporaryDirectory() as marks:
            self.ranks("life.py", 3, "who_is_late_is_named", marks)

    @unittest.skipIf(torch.__version__.startswith("1."), "torch 1.13 says nothing of a group's ranks to its backend")
    def test_errors_of_a_group_name_the_ranks_of_the_job(self) -> None:
        self.ranks("life.py", 3, "errors_of_a_group_name_the_ranks_of_the_job")

    def test_averages_are_right_where_they_fit_though_the_sum_does_not(self) -> None:
        self.ranks("life.py", 3, "averages")

    def test_fp32_accumulate_can_be_selected(self) -> None:
        for one in run_ranks(self.installed, "life.py", 3, "fp32_accumulate",
                             environment={"RONDO_FP32_ACCUMULATE": "1"}):  # fmt: skip
            self.assertEqual(one.status, 0, one.said)

    def test_wrong_calls_are_reported_and_a_mismatch_is_reported_on_all_ranks(self) -> None:
        self.ranks("life.py", 2, "wrong_calls")

    def test_a_killed_rank_is_named_to_all_others_with_its_host(self) -> None:
        self.ranks("life.py", 3, "a_rank_dies", victim=1)

    def test_a_rank_that_dies_in_a_monitored_barrier_is_named_to_all_others(self) -> None:
        self.ranks("life.py", 3, "a_rank_dies_in_a_monitored_barrier", victim=1)

    def test_groups_can_be_made_again_on_the_same_store(self) -> None:
        self.ranks("life.py", 2, "torn_apart_and_made_again")

    def test_a_rank_that_does_not_come_is_named(self) -> None:
        self.ranks("life.py", 2, "a_rank_is_missing")

    def test_rondo_urls_ask_the_launcher_and_give_a_store_like_torchs(self) -> None:
        self.ranks("rendezvous.py", 3, "store")
        self.ranks("rendezvous.py", 2, "arguments")
        self.ranks("rendezvous.py", 2, "missing")

    def test_env_urls_work_under_rondo_run(self) -> None:
        env = {name: value for name, value in os.environ.items() if not re.match("RANK|WORLD_SIZE|MASTER_|RONDO_", name)}
        env |= {"PYTHONPATH": self.installed.path, "OMP_NUM_THREADS": "1"}
        command = [ROOT / "bazel-bin/tools/rondo", "run", "-N", "2", "--", sys.executable, PROGRAMS / "env.py"]
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(ran.stdout.count("summed by env://"), 2, ran.stdout)

    def test_wrong_variables_are_named(self) -> None:
        self.ranks("rendezvous.py", 2, "variables")

    def test_ctrl_c_ends_every_wait_and_what_was_started_goes_on(self) -> None:
        self.ranks("interrupted.py", 2, "operations")

    def test_ctrl_c_ends_the_making_of_a_group(self) -> None:
        self.ranks("interrupted.py", 2, "new_group")
        self.ranks("interrupted.py", 2, "rendezvous")

    def test_ctrl_c_ends_the_waits_for_a_store(self) -> None:
        self.ranks("interrupted.py", 1, "store")

    def test_children_of_a_process_say_goodbye_however_they_end(self) -> None:
        for start in ("fork", "forkserver"):
            for end in ("return", "sys.exit", "os._exit"):
                with self.subTest(start=start, end=end):
                    self.ranks("children.py", 1, start, end)

    def test_a_rank_that_leaves_waits_for_no_rank_and_what_it_sent_arrives(self) -> None:
        self.ranks("life.py", 3, "a_rank_leaves_early")

    def test_a_rank_that_left_before_others_were_connected_to_it_gives_them_its_refused_call(self) -> None:
        for transport in ("auto", "tcp"):
            for how in ("ends", "stays"):
                with self.subTest(transport=transport, how=how), tempfile.TemporaryDirectory() as folder:
                    for one in run_ranks(self.installed, "left_before.py", 3, folder, how, environment={"RONDO_TRANSPORT": transport}):
                        self.assertEqual(one.status, 0, one.said)

    def test_conjugated_and_negated_views_are_what_they_say(self) -> None:
        self.ranks("life.py", 2, "parts_of_complex_numbers")

    def test_very_long_times_are_taken_and_impossible_ones_are_refused(self) -> None:
        self.ranks("life.py", 2, "very_long_times")

    def test_two_groups_made_at_once_under_one_name_are_reported(self) -> None:
        self.ranks("life.py", 2, "two_groups_at_once")
        self.ranks("life.py", 2, "two_groups_of_torch_at_once")

    def test_a_group_made_when_the_file_of_the_store_is_gone_is_reported(self) -> None:
        self.ranks("life.py", 2, "a_file_is_gone")

    def test_every_type_of_rondos_that_torch_has_is_reduced(self) -> None:
        for line in sorted(set(self.ranks("types_of_rondo.py", 2, *types_of_rondo())[0].said.splitlines())):
            print(line, file=sys.stderr)

    def test_a_script_may_just_end(self) -> None:
        for one in self.ranks("life.py", 3, "ends_without_destroying"):
            self.assertIn("last value 0.0", one.said)

    @unittest.skipIf(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 5), "torch before 2.5 loads no backends by itself")
    def test_the_backend_is_found_without_an_import(self) -> None:
        self.ranks("unnamed.py", 2)

    @unittest.skipIf(torch.__version__.startswith("1."), "torch 1.13 has no coalesced and no functional collectives")
    def test_what_torch_2_has_beyond(self) -> None:
        self.ranks("torch_2.py", 3)

    def test_ddp_has_the_losses_that_it_has_with_gloo(self) -> None:
        for hook in ("none", "fp16", "powersgd"):
            with self.subTest(hook=hook):
                ours = LOSS.findall(self.ranks("ddp.py", 2, "rondo", hook)[0].said)
                gloo = LOSS.findall(run_gloos_ranks(self.installed, "ddp.py", 2, "gloo", hook))
                self.assertEqual([len(ours), len(gloo)], [20, 20])
                for a, b in zip(ours, gloo):
                    self.assertAlmostEqual(float(a), float(b), delta=2e-5)


if __name__ == "__main__":
    unittest.main()
