"""The README's program for torch.distributed, run as the README runs it, on the backend as the tests install it."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from support import ROOT, Installed

sys.path.append(str(ROOT / "tests/support"))
from pages import blocks, write_files  # noqa: E402


class Readme(unittest.TestCase):
    def test_its_program_for_torch_sums(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="rondo-readme-"))
        self.addCleanup(shutil.rmtree, folder)
        write_files("README.md", folder)
        install, start = blocks("README.md")["torch"].strip().split("\n")
        self.assertIn("~/rondo-venv/bin/pip install --no-build-isolation ./embed/torch", install)
        start = start.replace("~/rondo-venv/bin/python", sys.executable).replace("rondo ", f"{ROOT}/bazel-bin/tools/rondo ", 1)
        ran = subprocess.run(["sh", "-euc", start], cwd=folder, env=os.environ | {"PYTHONPATH": Installed.shared().path}, text=True, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)  # fmt: skip
        for rank in range(4):
            self.assertIn(f"rank {rank} of 4: the sum is [4.0, 4.0, 4.0]\n", ran.stdout)


if __name__ == "__main__":
    unittest.main()
