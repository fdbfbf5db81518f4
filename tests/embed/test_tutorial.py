"""The commands of docs/TUTORIAL.md, as they stand there. Its job on two hosts is in tests/launchers/ssh."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from test_dist import ROOT, run

sys.path.append(str(ROOT / "tests/support"))
from pages import blocks, write_files  # noqa: E402

LINE = "y = 3.000 x + 1.000"


class Tutorial(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp(prefix="rondo-tutorial-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        (cls.folder / "bazel-bin").symlink_to(ROOT / "bazel-bin")
        write_files("docs/TUTORIAL.md", cls.folder)
        cls.shown = blocks("docs/TUTORIAL.md")
        cls.printed(blocks("README.md")["install"] + cls.shown["build"])

    @classmethod
    def printed(cls, commands: str) -> str:
        paths = 'export PATH="$PWD/bazel-bin/tools:$PATH" RONDO_PREFIX="$HOME/rondo"\n'
        return run("sh", "-euc", paths + commands, cwd=cls.folder, HOME=str(cls.folder))

    def test_ranks_are_started(self) -> None:
        printed = self.printed(self.shown["ranks"])
        self.assertEqual(sorted(printed.splitlines()), [f"[{rank}] I am rank {rank} of 4" for rank in range(4)])

    def test_vectors_are_summed_and_checked(self) -> None:
        self.assertIn("# Wrong values     : 0 OK", self.printed(self.shown["sum"]))

    def test_a_line_is_fitted(self) -> None:
        printed = self.printed(self.shown["train"])
        self.assertEqual(sorted(printed.splitlines()), [f"[{rank}] rank {rank} of 4: {LINE}" for rank in range(4)])

    def test_the_remaining_ranks_continue_after_one_is_killed(self) -> None:
        printed = self.printed(self.shown["killed"])
        self.assertEqual(printed.count("peer_lost: rank 2 "), 3, printed)
        self.assertEqual(printed.count(f" of 3: {LINE}"), 3, printed)

    def test_without_the_flag_the_job_ends_with_the_rank(self) -> None:
        printed = self.printed(self.shown["ended"])
        self.assertIn("exit status 137", printed)
        # The other ranks may print their result before the signal reaches them: the job is short.
        self.assertIn("rank 2 (pid ", printed)
        self.assertIn("was killed by SIGKILL; ending the other 3 ranks", printed)


if __name__ == "__main__":
    unittest.main()
