"""Loads librondo, once for a process.

The Python package and the torch backend each contain a copy of librondo, and a copy of this file. The system's loader uses a library
that is loaded already if it is requested by its name, as the torch backend does. If it is requested by its path, the loader loads a
second copy. Two copies would have separate state. So this module uses the loaded copy if it has the same version.
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
    """The path of the file that a library was loaded from. The file may have been removed since."""
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
    """Raises ImportError if `library`, which is loaded already, has another version than the library at `path`."""
    own = _open(path)
    if own._handle == library._handle:
        return
    own_version = _version_of(own)
    _ctypes.dlclose(own._handle)
    if own_version != _version_of(library):
        raise ImportError(f"two versions of Rondo in one process: {_path_of(library)} ({_version_of(library)}) is loaded already, and "
                          f"{path} is {own_version}. Install the same version of the packages rondo and rondo_torch")  # fmt: skip


def load(path, functions=()):
    """Returns the library at `path`, or the copy of the same version that this process has loaded already from another path. Raises
    ImportError if there is no library, if another version is loaded, or if the library lacks one of `functions`. The error names the
    libraries and the function."""
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
        raise ImportError(f"{_path_of(library)} ({_version_of(library)}) has no {missing[0]}, which this package needs: that library is "
                          "from another build. Install rondo, rondo_torch and librondo from the same build")  # fmt: skip
    return library
