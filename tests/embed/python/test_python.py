"""The Python package of embed/python: values, layouts, DLPack, wrong calls, deaths, Ctrl-C, the optimizer."""

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import PROGRAMS, RONDO, ROOT, Ended, Installed, Ranks

sys.path.append(str(ROOT / "tests/support"))
from launching import LAUNCHERS  # noqa: E402

EXAMPLE = ROOT / "examples/keras_style/train.py"


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.installed = Installed.shared()

    def check(self, ended: list[Ended], program: str, statuses: dict[int, int]) -> list[Ended]:
        for rank, one in enumerate(ended):
            self.assertEqual(one.status, statuses.get(rank, 0), f"rank {rank} of {program}:\n{one.said}")
        return ended

    def ranks(self, program: str, world: int, *arguments: str, **statuses: int) -> list[Ended]:
        """Each rank must end with status 0, or with the status that is given for it: rank_1=-9."""
        wanted = {int(name.removeprefix("rank_")): status for name, status in statuses.items()}
        return self.check(Ranks(self.installed, program, world, *arguments).end(), f"{program} {arguments}", wanted)

    def test_every_value_is_right(self) -> None:
        for world in (1, 2, 3):
            with self.subTest(world=world):
                self.assertIn("results checked", self.ranks("values.py", world)[0].said)

    def test_the_optimizer(self) -> None:
        for world in (1, 3):
            self.ranks("optimizer.py", world)

    def test_arrays_of_others(self) -> None:
        said = self.ranks("dlpack.py", 2)[0].said
        print(said.strip(), file=sys.stderr)

    def test_groups_begin_and_end(self) -> None:
        self.ranks("life.py", 2, "before_and_after")

    def test_wrong_calls_are_reported_and_break_nothing(self) -> None:
        for world in (2, 3):
            self.ranks("life.py", world, "wrong_calls")

    def test_a_call_that_one_rank_alone_refuses_fails_on_the_others_in_its_words(self) -> None:
        for world in (2, 3):
            self.ranks("life.py", world, "refused_by_one")

    def test_a_rank_that_ends_before_others_are_connected_to_it_gives_them_its_refused_call(self) -> None:
        for transport in ("auto", "tcp"):
            with self.subTest(transport=transport), tempfile.TemporaryDirectory() as folder:
                command = [RONDO, "run", "-N", "3", "--", self.installed.python, PROGRAMS / "left_before.py", folder, transport]
                ran = subprocess.run(list(map(str, command)), text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     timeout=120)  # fmt: skip
                self.assertEqual(ran.returncode, 0, ran.stdout)
                self.assertEqual(ran.stdout.count("the refusal was reported"), 2, ran.stdout)

    def test_ranks_that_disagree_are_named(self) -> None:
        self.ranks("life.py", 3, "disagreeing")

    def test_a_killed_rank_is_named_to_all_others_with_its_host(self) -> None:
        for how in ("fused", "one by one"):
            for rank, one in enumerate(self.ranks("life.py", 3, "a_rank_dies", how, rank_1=-signal.SIGKILL)):
                self.assertEqual("reported after" in one.said, rank != 1)

    def test_a_rank_that_does_not_come_is_named(self) -> None:
        self.ranks("life.py", 2, "a_rank_is_missing")

    def test_ctrl_c_ends_a_wait_and_breaks_nothing(self) -> None:
        ranks = Ranks(self.installed, "life.py", 2, "interrupted")
        said = ""
        for _ in ("one array", "many, fused"):
            ranks.await_words(0, f"{said}waiting\n")
            ranks.processes[0].send_signal(signal.SIGINT)
            said = "interrupted\n"
            ranks.await_words(0, said)
        self.check(ranks.end(), "interrupted", {})

    def test_ctrl_c_ends_a_rendezvous(self) -> None:
        ranks = Ranks(self.installed, "life.py", 2, "interrupted_rendezvous")
        ranks.await_words(0, "rendezvous")
        ranks.processes[0].send_signal(signal.SIGINT)
        ranks.await_words(0, "interrupted", limit_s=30)
        self.check(ranks.end(30), "interrupted_rendezvous", {})

    def test_a_script_may_just_end(self) -> None:
        for one in self.ranks("life.py", 3, "ends_without_shutdown"):
            self.assertEqual(one.said, "last value 0.0\n")

    def test_an_exception_that_ends_a_rank_is_reported_on_the_others(self) -> None:
        self.ranks("life.py", 3, "an_exception_ends_a_rank", rank_1=1)

    def test_abort_is_reported_on_the_others(self) -> None:
        self.ranks("life.py", 3, "abort")

    def test_a_forked_child_is_no_rank(self) -> None:
        self.ranks("life.py", 2, "a_child_is_forked")

    def test_children_of_a_process_say_goodbye_however_they_end(self) -> None:
        for start in ("fork", "forkserver"):
            for end in ("return", "sys.exit", "os._exit", "raise"):
                with self.subTest(start=start, end=end):
                    self.ranks("children.py", 1, start, end)

    def test_the_longest_time_is_taken(self) -> None:
        self.ranks("life.py", 2, "longest_time")

    def test_types_of_elements_are_those_of_the_header(self) -> None:
        recorded = (ROOT / "embed/abi.txt").read_text()
        known = re.findall(r"^enumerator RONDO_(?:(?:U?INT|B?FLOAT)\d+|BOOL) \d+$", recorded, re.MULTILINE)
        self.assertGreaterEqual(len(known), 11)
        self.assertEqual(sorted(known), sorted(self.ranks("life.py", 1, "types_of_elements")[0].said.splitlines()))

    def test_a_librondo_that_does_not_load_is_an_import_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = subprocess.run([self.installed.python, "-c", "import rondo; print(rondo.__path__[0])"], check=True, text=True,
                                   stdout=subprocess.PIPE).stdout.strip()  # fmt: skip
            library = Path(shutil.copytree(found, Path(folder, "rondo")), "librondo.so.0")
            # Replaces the name of a needed library by a name of the same length that no machine has.
            library.write_bytes(library.read_bytes().replace(b"libfmt.so.", b"libfnt.so."))
            ran = subprocess.run([self.installed.python, "-c", "import rondo"], cwd=folder, text=True, check=False, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)  # fmt: skip
        self.assertRegex(ran.stdout.splitlines()[-1], r"^ImportError: librondo needs libfnt\.so\.\d+, which this machine does not have: on Debian")

    def test_errors_are_pickled_and_copied(self) -> None:
        self.ranks("life.py", 1, "errors_travel")

    def test_ctrl_c_as_a_rendezvous_ends_leaves_no_group(self) -> None:
        self.ranks("life.py", 2, "given_up_as_it_ends")

    def test_a_handle_may_be_dropped(self) -> None:
        self.ranks("life.py", 2, "dropped_handles")

    def test_structs_are_those_of_the_header(self) -> None:
        said = self.ranks("life.py", 1, "structs")[0].said.splitlines()
        recorded = (ROOT / "embed/abi.txt").read_text().splitlines()
        structs = {line.split()[1] for line in said if line.startswith("size")}
        fields = {line for line in recorded if line.startswith("field") and line.split()[1].split(".")[0] in structs}
        self.assertEqual(len(structs), 5)
        self.assertEqual(fields, {line for line in said if line.startswith("field")})


class Example(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.installed = Installed.shared()

    def losses(self, world: int, *arguments: str) -> list[float]:
        command = [RONDO, "run", "-N", str(world), "--", self.installed.python, EXAMPLE, *arguments]
        ran = subprocess.run(list(map(str, command)), text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=120)  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stdout)
        return [float(loss) for loss in re.findall(r"^\[0\] epoch \d+  loss (\S+)", ran.stdout, re.MULTILINE)]

    def test_any_number_of_ranks_has_the_same_losses(self) -> None:
        for arguments in ((), ("--accumulate", "2")):
            alone = self.losses(1, *arguments)
            self.assertEqual(len(alone), 8)
            self.assertLess(alone[-1], alone[0] / 3)
            for world in (2, 4):
                with self.subTest(world=world, arguments=arguments):
                    together = self.losses(world, *arguments)
                    self.assertEqual(len(together), 8)
                    for one, other in zip(together, alone):
                        self.assertAlmostEqual(one, other, delta=2e-5)

    def test_each_launcher_starts_it(self) -> None:
        by_rondo = self.losses(4)
        for name, start in LAUNCHERS.items():
            with self.subTest(launcher=name):
                ranks = start(4, [self.installed.python, EXAMPLE], {})
                for rank in ranks:
                    self.assertEqual(rank.code, 0, str(rank))
                said = re.findall(r"^epoch \d+  loss (\S+)", "".join(rank.out for rank in ranks), re.MULTILINE)
                self.assertEqual(len(said), len(by_rondo))
                for one, other in zip(said, by_rondo):
                    self.assertAlmostEqual(float(one), other, delta=2e-5)

    def test_gradients_may_travel_as_float16(self) -> None:
        halves = self.losses(2, "--fp16")
        self.assertNotEqual(halves, self.losses(2))
        self.assertLess(halves[-1], halves[0] / 3)


if __name__ == "__main__":
    unittest.main()
