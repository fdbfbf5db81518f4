"""Arrays as callers give them and get them back: NumPy's, and by DLPack those of torch, JAX and others."""

from __future__ import annotations

import numpy as np

from . import _dlpack, _libraries, _library

try:
    import ml_dtypes  # noqa: F401: from here on np.dtype("bfloat16") is known
except ImportError:
    pass


class View:
    """An array of a caller's as NumPy sees its memory.

    array      on the same memory, which it keeps even without the view, of whatever layout; bfloat16 as uint16 where NumPy has no
               such type
    dtype      the name of its type
    writable   whether results may be put there
    """

    def __init__(self, given):
        self.given, self._aside = given, None
        if isinstance(given, np.ma.MaskedArray):
            raise TypeError("Rondo takes no masked arrays: their masks would be lost")
        if isinstance(given, (np.ndarray, np.generic)):
            self.array = np.asarray(given)
            self.writable = isinstance(given, np.ndarray) and self.array.flags.writeable
            self.dtype = self.array.dtype.name
            if self.array.dtype.hasobject:
                raise TypeError("an array of Python objects: allgather_object and broadcast_object take these")
            if not self.array.dtype.isnative:
                raise TypeError(f"elements of {self.array.dtype.str} are in another machine's byte order")
            return
        if not hasattr(given, "__dlpack__") or not hasattr(given, "__dlpack_device__"):
            raise TypeError(f"Rondo takes NumPy arrays and what exports DLPack, not {type(given).__name__}")
        _libraries.check_exportable(given)
        # A tensor that records gradients cannot be exported; the detached tensor has the same memory.
        detached = given.detach() if hasattr(given, "detach") else given
        exported = _libraries.resolved(detached)
        self.array, self.dtype, self.writable = _dlpack.open_array(exported)
        if exported is not detached:  # then `array` is a copy of it
            self._aside = (detached, exported)
        if _libraries.is_immutable(given):
            self.writable = False

    def reducible(self):
        """Its rondo_dtype. TypeError where Rondo has none."""
        code = _library.DTYPES.get(self.dtype)
        if code is None:
            raise TypeError(f"Rondo does not reduce {self.dtype}; it does {', '.join(_library.DTYPES)}")
        return code

    def packed(self):
        """Its elements in C order: its own memory where they lie so, else a copy."""
        return self.array if self.array.flags.c_contiguous else self.array.copy(order="C")

    def place(self):
        """Memory in C order that results can be put in, for `put`. TypeError where the array may not be written."""
        if not self.writable:
            raise TypeError(f"this {type(self.given).__name__} cannot be written: it is read-only or never changes; the function "
                            "without _ gives a new array")  # fmt: skip
        if self.array.size and any(stride == 0 and extent > 1 for stride, extent in zip(self.array.strides, self.array.shape)):
            raise TypeError(f"this {type(self.given).__name__} cannot be written: some of its elements are one place in memory")
        return self.packed()

    def put(self, packed):
        """`packed`, which `place` gave, holds the results."""
        if packed is not self.array:
            self.array[...] = packed
        if self._aside is not None:
            view, values = self._aside
            view.copy_(values)

    def like(self, result):
        """`result`, which is new and of the same type of elements, as an array of the caller's library."""
        if isinstance(self.given, np.ndarray):
            return result
        if isinstance(self.given, np.generic):
            return result[()]
        return _libraries.adopt(result, self.given, self.dtype)


def moved(view, packed):
    """(rondo_dtype, elements of it for one of the array's) by which an array travels that is not reduced."""
    code = _library.DTYPES.get(view.dtype)
    return (code, 1) if code is not None else (_library.UINT8, packed.dtype.itemsize)


def pointer(array):
    return array.ctypes.data
