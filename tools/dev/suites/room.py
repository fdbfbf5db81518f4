"""Whether there is room on disk for what the suites build: a full disk fails tests one by one, in words that do not tell."""

import shutil
import tempfile
from pathlib import Path

GIB = 1 << 30
NEEDED_BYTES = 6 * GIB  # for a build from scratch, sanitizers included
LEAST_BYTES = 1 * GIB  # with less, new builds fail


def where(repository: Path) -> list[Path]:
    """Where suites write: here, in the folder for what is temporary, and in the build's cache."""
    return [repository, Path(tempfile.gettempdir()), Path.home()]


def shortage(folders, free=lambda folder: shutil.disk_usage(folder).free) -> tuple[str, bool]:
    """What to say of the fullest, or ""; and whether to begin nonetheless."""
    least, folder = min((free(folder), folder) for folder in folders)
    if least >= NEEDED_BYTES:
        return "", True
    text = f"{folder}: {least / GIB:.1f} GiB of disk are free; a build of everything takes about {NEEDED_BYTES // GIB} GiB"
    return text, least >= LEAST_BYTES
