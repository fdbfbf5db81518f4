"""Loads the compiled part of this package, or reports in one sentence why it cannot be loaded."""

import importlib
import importlib.machinery
import re
import sys
from pathlib import Path

from . import _librondo

AGAIN = "python -m pip install --force-reinstall ./embed/torch, in this environment, builds it again"


def _release(version):
    """The release of a version: 2.5 for "2.5.1+cpu". Code compiled for one release does not fit another."""
    return ".".join(re.findall(r"\d+", version)[:2])


def load():
    """Imports torch and then the compiled part, and returns that. Raises ImportError if one is missing or if they do not fit: code that was
    compiled for another torch can end the process when it is loaded."""
    try:
        from . import _built
    except ImportError:
        raise ImportError(f"rondo_torch has not been built here: {AGAIN}") from None
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"rondo_torch was built for torch {_built.TORCH} of {_built.TORCH_AT}, and this environment ({sys.prefix}) has no torch: "
            f"install torch here; then {AGAIN}"
        ) from None
    if _release(torch.__version__) != _release(_built.TORCH):
        raise ImportError(f"rondo_torch was built for torch {_built.TORCH}, and this is torch {torch.__version__} ({torch.__file__}): {AGAIN}")
    library = Path(__file__).with_name(_librondo.NAME)
    if not library.exists():
        raise ImportError(f"{library}, which belongs beside rondo_torch, is missing: {AGAIN}")
    _librondo.load(library)  # before the compiled part needs it, so that the process has one copy
    try:
        return importlib.import_module("._backend", __package__)
    except ImportError as error:
        raise ImportError(_why(error, _built)) from error


def _why(error, built):
    version = ".".join(map(str, sys.version_info[:2]))
    if version != built.PYTHON:
        return f"rondo_torch was built for Python {built.PYTHON}, and this is Python {version} ({sys.executable}): {AGAIN}"
    if isinstance(error, ModuleNotFoundError) and error.name == f"{__package__}._backend":
        missing = Path(__file__).with_name(f"_backend{importlib.machinery.EXTENSION_SUFFIXES[0]}")
        return f"{missing}, the compiled part of rondo_torch, is missing: {AGAIN}"
    return f"rondo_torch, built for torch {built.TORCH} of {built.TORCH_AT}, does not fit the torch that is here: {AGAIN}"
