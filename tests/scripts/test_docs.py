"""The pages name files that exist."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FOLDERS = sorted(folder.name for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith((".", "bazel-")))
# Matches for example `collectives/communicator.h`, but no line of a listing, no path with a placeholder
# (transport/NAME/), and no path of a user (./).
NAMED = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+\.(?:h|hpp|cc|cu|py|md|txt|bzl|json|svg))`")


def wrong_names(text: str) -> list[str]:
    return [name for name in NAMED.findall(text) if "NAME" not in name and not (ROOT / name).exists()]


class Pages(unittest.TestCase):
    def test_name_only_files_that_exist(self):
        wrong = [f"{page.relative_to(ROOT)}: {name}" for page in PAGES for name in wrong_names(page.read_text(encoding="utf-8"))]
        self.assertEqual(wrong, [])

    def test_a_file_that_moved_is_found(self):
        self.assertEqual(wrong_names("see `collectives/communicator.h` and `collectives/no_such_file.h`"), ["collectives/no_such_file.h"])
        self.assertEqual(wrong_names("`collectives/algorithms/NAME.cc`"), [])


if __name__ == "__main__":
    unittest.main()
