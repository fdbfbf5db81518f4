"""The torch.distributed backend on tensors of GPUs: on a real one where torch has one, and on the fake driver of tests/cuda
where torch was built without CUDA, as Debian's is."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Optional

import torch
from torch.utils.cpp_extension import CUDA_HOME

from support import ROOT, Ended, Installed, run_gloos_ranks, run_ranks

LOSS = re.compile(r"^\d+ (\d\.\d+)$", re.MULTILINE)
FAKE_DRIVER = ROOT / "bazel-bin/tests/cuda/fake_driver/libcuda.so.1"


def no_fake() -> Optional[str]:
    if torch.version.cuda is not None or not torch.__version__.startswith("1."):
        return "the fake CUDA device is made for torch 1.13 without CUDA"
    if CUDA_HOME is None or not Path(CUDA_HOME, "include/cuda.h").is_file():
        return "no CUDA toolkit: no cuda.h"
    return None


def no_gpu() -> Optional[str]:
    return None if torch.cuda.is_available() else "torch finds no GPU here"


class OnDevice:
    """Test cases for both devices."""

    device = ""
    environment: dict[str, str] = {}
    # What waits for work: the caller's stream or, by default, the calling thread.
    stream_waits = {"RONDO_BLOCKING_WAIT": "0", "CUDA_MODULE_LOADING": "EAGER"}
    host_waits: dict[str, str] = {}

    def ranks(self, program: str, world: int, *arguments: str, victim: int = -1, waits: Optional[dict[str, str]] = None) -> list[Ended]:
        """Every rank must end with status 0, except the victim, which must have been killed."""
        waits = self.stream_waits if waits is None else waits
        ended = run_ranks(Installed.shared(), program, world, *arguments, environment={**self.environment, **waits})
        for rank, one in enumerate(ended):
            wanted = -signal.SIGKILL if rank == victim else 0
            self.assertEqual(one.status, wanted, f"rank {rank} of {program} {arguments}:\n{one.said}")
        return ended

    def on_device(self, what: str, victim: int = -1, waits: Optional[dict[str, str]] = None) -> None:
        self.ranks("on_device.py", 3, self.device, what, victim=victim, waits=waits)

    def test_every_value_is_right(self) -> None:
        self.assertIn("results checked", self.ranks("values.py", 2, self.device)[0].said)

    def test_every_value_is_right_where_the_host_waits(self) -> None:
        self.assertIn("results checked", self.ranks("values.py", 2, self.device, waits=self.host_waits)[0].said)

    def test_futures_messages_and_graphs_where_the_host_waits(self) -> None:
        for what in ("futures", "messages", "graphs", "wrong_calls"):
            with self.subTest(what):
                self.on_device(what, waits=self.host_waits)

    def test_streams_wait_and_callers_do_not(self) -> None:
        self.on_device("streams")

    def test_futures(self) -> None:
        self.on_device("futures")

    def test_every_group_has_a_stream_of_its_own(self) -> None:
        self.on_device("many_groups", waits=self.host_waits)

    def test_neighbours(self) -> None:
        self.on_device("neighbours", waits=self.host_waits)

    def test_operations_in_graphs(self) -> None:
        self.on_device("graphs")

    def test_graphs_that_differ_are_reported(self) -> None:
        self.on_device("graphs_that_differ")

    def test_messages(self) -> None:
        self.on_device("messages")

    def test_wrong_calls_are_reported(self) -> None:
        self.on_device("wrong_calls")

    def test_no_stream_waits_for_the_dead_and_the_next_operation_names_them(self) -> None:
        self.on_device("a_rank_dies", victim=1)

    def test_a_wait_in_the_host_fails_at_once(self) -> None:
        self.on_device("a_rank_dies_and_a_waiting_rank_fails", victim=1, waits=self.host_waits)


@unittest.skipIf(no_fake(), no_fake())
class OnFakeDevice(OnDevice, unittest.TestCase):
    device = "fake"

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.mkdtemp(prefix="rondo-fake-cuda-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for path in (ROOT / "tests/embed/torch/fake_cuda").iterdir():
            shutil.copy(path, cls.folder)
        where = {"CUDA_HEADERS": f"{CUDA_HOME}/include", "RONDO_ROOT": str(ROOT), "FAKE_DRIVER": str(FAKE_DRIVER)}
        ran = subprocess.run([sys.executable, "setup.py", "build_ext", "--inplace"], cwd=cls.folder, env=os.environ | where, text=True,
                             check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        if ran.returncode != 0:
            raise RuntimeError(f"fake_cuda was not built:\n{ran.stdout[-5000:]}")
        cls.environment = {"PYTHONPATH": cls.folder, "LD_LIBRARY_PATH": str(FAKE_DRIVER.parent)}

    def test_memory_that_is_still_used_is_not_reused(self) -> None:
        self.on_device("memory")

    def test_no_stream_waits_where_the_host_does(self) -> None:
        self.on_device("no_stream_waits", waits=self.host_waits)


@unittest.skipIf(no_gpu(), no_gpu())
class OnGpu(OnDevice, unittest.TestCase):
    device = "cuda"

    # Not with the fake device: torch's own kernels and its autograd do not run on a device for which torch was not
    # built.
    def test_kernels_may_be_loaded_while_operations_are_under_way(self) -> None:
        self.on_device("kernels_are_loaded", waits=self.host_waits)

    def test_ddp_has_the_losses_that_it_has_with_gloo(self) -> None:
        for hook in ("none", "fp16", "powersgd"):
            with self.subTest(hook=hook):
                ours = LOSS.findall(run_ranks(Installed.shared(), "ddp.py", 2, "rondo", hook, "cuda", environment=self.host_waits)[0].said)
                gloo = LOSS.findall(run_gloos_ranks(Installed.shared(), "ddp.py", 2, "gloo", hook, "cuda", environment=self.host_waits))
                self.assertEqual([len(ours), len(gloo)], [20, 20])
                for a, b in zip(ours, gloo):
                    self.assertAlmostEqual(float(a), float(b), delta=2e-5)


if __name__ == "__main__":
    unittest.main()
