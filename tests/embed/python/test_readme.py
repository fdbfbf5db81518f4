"""The README's program in Python, by the commands that stand beside it."""

import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from support import ROOT, run

sys.path.append(str(ROOT / "tests/support"))
from pages import blocks, write_files  # noqa: E402


class Readme(unittest.TestCase):
    def test_its_program_in_python_installs_and_sums(self) -> None:
        if sys.executable != "/usr/bin/python3":
            self.skipTest("the README's commands use the system's python3")
        folder = Path(tempfile.mkdtemp(prefix="rondo-readme-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "bazel-bin").symlink_to(ROOT / "bazel-bin")
        shutil.copytree(ROOT / "embed/python", folder / "embed/python")  # pip writes into it
        write_files("README.md", folder)
        shown = blocks("README.md")
        printed = run("sh", "-euc", shown["install"] + shown["python"], cwd=folder, HOME=str(folder), PATH=f"/usr/bin:{os.environ['PATH']}",
                      PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0")  # fmt: skip
        for rank in range(4):
            self.assertIn(f"rank {rank} of 4: the sum is [4. 4. 4.]\n", printed)


if __name__ == "__main__":
    unittest.main()
