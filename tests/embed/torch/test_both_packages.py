"""The torch backend and the Python package in one process: one librondo, whichever is imported first."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import ROOT, Installed

PROGRAM = """
import {first}
import {second}
import datetime, numpy, rondo, rondo_torch, torch
import torch.distributed as dist

print(len({{line.split()[4] for line in open("/proc/self/maps") if "librondo" in line}}), "librondo")
rondo.init("file://{folder}/rendezvous", rank=0, world_size=1)
dist.init_process_group("rondo", init_method="file://{folder}/torch", rank=0, world_size=1)
tensor = torch.ones(2)
dist.all_reduce(tensor)
print(rondo.allreduce(numpy.ones(2), op=rondo.Sum), tensor.tolist())
dist.destroy_process_group()
rondo.shutdown()
"""

LAUNCHED = """
import sys
import numpy, rondo, rondo_torch, torch
import torch.distributed as dist

begin = [rondo.init, lambda: dist.init_process_group("rondo", init_method="rondo://")]
for one in begin if sys.argv[1] == "rondo" else reversed(begin):
    one()
tensor = torch.ones(2)
dist.all_reduce(tensor)
print(rondo.allreduce(numpy.ones(2), op=rondo.Sum), tensor.tolist())
dist.destroy_process_group()
rondo.shutdown()
"""


class BothPackages(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.installed = Installed.shared()
        (cls.library,) = cls.installed.folder.glob("rondo-*/lib/librondo.so.0")

    def test_one_librondo_serves_both_in_either_order_of_imports(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(self.library, shutil.copytree(ROOT / "embed/python/rondo", Path(folder, "rondo")))
            path = os.pathsep.join([self.installed.path, folder])
            for first, second in (("rondo", "rondo_torch"), ("rondo_torch", "rondo")):
                with self.subTest(first=first), tempfile.TemporaryDirectory() as place:
                    program = PROGRAM.format(first=first, second=second, folder=place)
                    ran = subprocess.run([sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, text=True, check=False,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)  # fmt: skip
                    self.assertEqual(ran.returncode, 0, ran.stdout)
                    self.assertIn("1 librondo\n[1. 1.] [1.0, 1.0]\n", ran.stdout)

    def test_both_have_a_rendezvous_by_one_launcher_in_either_order(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(self.library, shutil.copytree(ROOT / "embed/python/rondo", Path(folder, "rondo")))
            env = os.environ | {"PYTHONPATH": os.pathsep.join([self.installed.path, folder]), "OMP_NUM_THREADS": "1"}
            for first in ("rondo", "torch"):
                with self.subTest(first=first):
                    command = [ROOT / "bazel-bin/tools/rondo", "run", "-N", "2", "--", sys.executable, "-c", LAUNCHED, first]
                    ran = subprocess.run(command, env=env, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         timeout=120)  # fmt: skip
                    self.assertEqual(ran.returncode, 0, ran.stdout)
                    self.assertEqual(ran.stdout.count("[2. 2.] [2.0, 2.0]"), 2, ran.stdout)


if __name__ == "__main__":
    unittest.main()
