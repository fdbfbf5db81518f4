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


# A link to a place in this repository: [text](path#heading), or [text](#heading).
LINK = re.compile(r"\[[^\]]*\]\(([^)\s:]*)\)")


def headings(page: Path) -> set[str]:
    """The names by which links reach the headings of a page, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


def wrong_links(page: Path, text: str) -> list[str]:
    wrong = []
    for link in LINK.findall(text):
        path, _, heading = link.partition("#")
        place = (page.parent / path).resolve() if path else page
        if not place.exists() or (heading and heading not in headings(place)):
            wrong.append(link)
    return wrong


class Pages(unittest.TestCase):
    def test_links_lead_to_files_and_headings_that_exist(self):
        wrong = [f"{page.relative_to(ROOT)}: {link}" for page in PAGES for link in wrong_links(page, page.read_text(encoding="utf-8"))]
        self.assertEqual(wrong, [])

    def test_a_link_that_leads_nowhere_is_found(self):
        text = "[a](docs/WIRE.md) [b](docs/NO_SUCH.md) [c](README.md#install) [d](README.md#no-such) [e](https://example.com/x)"
        self.assertEqual(wrong_links(ROOT / "README.md", text), ["docs/NO_SUCH.md", "README.md#no-such"])

    def test_name_only_files_that_exist(self):
        wrong = [f"{page.relative_to(ROOT)}: {name}" for page in PAGES for name in wrong_names(page.read_text(encoding="utf-8"))]
        self.assertEqual(wrong, [])

    def test_a_file_that_moved_is_found(self):
        self.assertEqual(wrong_names("see `collectives/communicator.h` and `collectives/no_such_file.h`"), ["collectives/no_such_file.h"])
        self.assertEqual(wrong_names("`collectives/algorithms/NAME.cc`"), [])


if __name__ == "__main__":
    unittest.main()
