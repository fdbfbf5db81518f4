"""Loads librondo: one copy for all of a process.

The Python package and the torch backend bring a copy each; this file is in both. The loader of the system takes a library that it
has already where one is wanted by its name, as the torch backend's is, and loads a second one where it is wanted by its path. Two
copies would have two of everything, by the order of imports. So the one that is there is taken, where it is of the same version.
"""

import _ctypes
import ctypes
import os
import re

NAME = "librondo.so.0"
# The packages that it needs, by Debian 12's names.
PACKAGES = "libfmt9 libhwy1 libisal2 libssl3"


class _Found(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("base", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _path_of(library):
    """The file that a library was loaded from; it may be gone by now."""
    found = _Found()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Found)]
    address = ctypes.cast(library.rondo_version, ctypes.c_void_p)
    return os.fsdecode(found.path) if dladdr(address, ctypes.byref(found)) and found.path else NAME


def _version_of(library):
    library.rondo_version.restype = ctypes.c_char_p
    return library.rondo_version().decode()


def _open(path):
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        missing = re.match(r"(\S+\.so\S*): cannot open shared object file", str(error))
        needs = f"needs {missing[1]}, which this machine does not have" if missing else f"cannot be loaded: {error}"
        raise ImportError(f"librondo {needs}: on Debian 12, apt-get install {PACKAGES}") from error


def _check_version(library, path):
    """ImportError where `library`, which is loaded already, is another version than the one at `path`."""
    own = _open(path)
    if own._handle == library._handle:
        return
    own_version = _version_of(own)
    _ctypes.dlclose(own._handle)
    if own_version != _version_of(library):
        raise ImportError(f"two versions of Rondo in one process: {_path_of(library)} ({_version_of(library)}) is loaded already, and "
                          f"{path} is {own_version}. Install the same version of the packages rondo and rondo_torch")  # fmt: skip


def load(path, functions=()):
    """The library at `path`, or the same version of it that this process has loaded already, from wherever. ImportError: there
    is none, or another version is loaded, or it lacks one of the functions; both are named."""
    if not os.path.exists(path):
        raise ImportError(f"{path} is missing: pip install puts it there")
    try:
        library = ctypes.CDLL(NAME, mode=os.RTLD_NOLOAD)
    except OSError:  # no librondo is loaded
        library = _open(path)
    else:
        _check_version(library, path)
    missing = [name for name in functions if not hasattr(library, name)]
    if missing:
        raise ImportError(f"{_path_of(library)} ({_version_of(library)}) has no {missing[0]}, which this package needs: it is of another "
                          "build. Install the packages rondo and rondo_torch, and librondo, of one build")  # fmt: skip
    return library
