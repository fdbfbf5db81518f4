"""The examples of a page: fenced blocks whose first line names what they are, as in ```python sum.py or ```sh install."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w+) ([\w./-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> dict[str, str]:
    """The text of each named block of a page; a name that is given twice would hide one of them, so it is an error."""
    found: dict[str, str] = {}
    for _, name, text in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if name in found:
            raise ValueError(f"{page}: two blocks are called {name}")
        found[name] = text
    return found


def write_files(page: str, folder: Path) -> None:
    """Every block whose name has a dot is a file."""
    for name, text in blocks(page).items():
        if "." in name:
            Path(folder, name).parent.mkdir(parents=True, exist_ok=True)
            Path(folder, name).write_text(text, encoding="utf-8")
