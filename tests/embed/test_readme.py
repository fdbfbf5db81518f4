"""The README's program in C++, by the commands that stand beside it, and the packages that its programs need."""

import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from test_dist import ROOT, run

sys.path.append(str(ROOT / "tests/support"))
from pages import blocks, write_files  # noqa: E402


class Readme(unittest.TestCase):
    def test_its_program_in_cpp_builds_and_sums(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="rondo-readme-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "bazel-bin").symlink_to(ROOT / "bazel-bin")
        write_files("README.md", folder)
        shown = blocks("README.md")
        printed = run("sh", "-euc", shown["install"] + shown["cpp"], cwd=folder, HOME=str(folder))
        for rank in range(4):
            self.assertIn(f"rank {rank} of 4: the sum is 4\n", printed)

    def test_its_packages_are_among_those_that_the_tests_install(self) -> None:
        installed = set()
        for file in (ROOT / "tools/dev/packages").glob("*.list"):
            installed |= {line.split("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()}
        named = re.sub(r"^apt-get install -y", "", blocks("README.md")["packages"], flags=re.MULTILINE).split()
        self.assertIn("cmake", named)
        self.assertEqual([name for name in named if name not in installed], [])


if __name__ == "__main__":
    unittest.main()
