"""examples/torch_ddp: learns as it does with Gloo, and goes on after a rank was killed, as torchrun starts it again."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from support import ROOT, Installed, run_gloos_ranks, run_ranks

sys.path.append(str(ROOT / "tests/support"))
from launching import LAUNCHERS  # noqa: E402

TRAIN = ROOT / "examples/torch_ddp/train.py"
LOSS = re.compile(r"^epoch (\d+)  loss (\d+\.\d+)", re.MULTILINE)
SMALL = ("--samples", "2048", "--hidden", "64")


def losses(said: str) -> dict[int, float]:
    """The losses by epoch; the last line of an epoch counts."""
    return {int(epoch): float(loss) for epoch, loss in LOSS.findall(said)}


def rank_of(pid: str) -> str:
    """The value of RANK in the environment of a process."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((variable[5:].decode() for variable in variables if variable.startswith(b"RANK=")), "")


class Example(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.installed = Installed.shared()

    def said_by(self, world: int, *arguments: str) -> str:
        ended = run_ranks(self.installed, TRAIN, world, *SMALL, *arguments)
        for rank, one in enumerate(ended):
            self.assertEqual(one.status, 0, f"rank {rank}:\n{one.said}")
        return ended[0].said

    def test_losses_are_those_with_gloo(self) -> None:
        for world in (2, 4):
            with self.subTest(world=world):
                ours = losses(self.said_by(world))
                gloo = losses(run_gloos_ranks(self.installed, TRAIN, world, *SMALL, "--backend", "gloo"))
                self.assertEqual([len(ours), len(gloo)], [5, 5])
                for epoch, loss in gloo.items():
                    self.assertAlmostEqual(ours[epoch], loss, delta=2e-5)

    def test_each_launcher_starts_it(self) -> None:
        by_hand = losses(self.said_by(4, "--epochs", "2"))
        command = [sys.executable, TRAIN, *SMALL, "--epochs", "2"]
        for name, start in LAUNCHERS.items():
            with self.subTest(launcher=name):
                ranks = start(4, command, {"PYTHONPATH": self.installed.path, "OMP_NUM_THREADS": "1"})
                for rank in ranks:
                    self.assertEqual(rank.code, 0, str(rank))
                said = losses("".join(rank.out for rank in ranks))
                self.assertEqual(list(said), [0, 1])
                for epoch, loss in by_hand.items():
                    self.assertAlmostEqual(said[epoch], loss, delta=2e-5)

    def test_gradients_sent_as_bf16_learn_too(self) -> None:
        exact, rounded = losses(self.said_by(2)), losses(self.said_by(2, "--bf16"))
        self.assertNotEqual(exact, rounded)
        self.assertAlmostEqual(exact[4], rounded[4], delta=0.05 * exact[4])

    def test_killed_and_started_again_by_torchrun_it_ends_as_if_nothing_had_been(self) -> None:
        undisturbed = losses(self.said_by(3, "--epochs", "8"))
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=3", "--max_restarts=1",
                       "--monitor_interval=3",  # torch 2's default of 0.1 s may end ranks before they print their error
                       "-r", "9:1", "-t", "9:1",  # Python 3.11 refuses torch 1.13's own default
                       str(TRAIN), *SMALL, "--epochs", "8", "--checkpoint", f"{folder}/checkpoint"]  # fmt: skip
            environment = os.environ | {"PYTHONPATH": self.installed.path, "OMP_NUM_THREADS": "1"}
            with open(f"{folder}/said", "w+") as output:
                job = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
                self.addCleanup(job.kill)
                said = Path(folder, "said")
                self.kill_rank_1(job, said)
                job.wait(120)
                text = said.read_text()
        self.assertEqual(job.returncode, 0, text)
        self.assertRegex(text, r"continues after epoch \d")
        # Without the error's type: two ranks write to one file, and Python writes the type, the colon and the message
        # separately.
        self.assertRegex(text, rf"rondo: peer_lost: rank 1 \(host {re.escape(os.uname().nodename)}\) died")
        self.assertEqual(losses(text), undisturbed)

    def kill_rank_1(self, job: subprocess.Popen, said: Path) -> None:
        until = time.monotonic() + 60
        while 2 not in losses(said.read_text()):
            self.assertIsNone(job.poll(), said.read_text())
            self.assertLess(time.monotonic(), until, said.read_text())
            time.sleep(0.01)
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        (victim,) = [pid for pid in children if rank_of(pid) == "1"]
        os.kill(int(victim), signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
