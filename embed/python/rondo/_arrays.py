"""Conversion of arrays from and to the caller's library: NumPy, and by DLPack torch, JAX and others."""

from __future__ import annotations

import numpy as np

from . import _dlpack, _libraries, _library

try:
    import ml_dtypes  # noqa: F401: from here on np.dtype("bfloat16") is known
except ImportError:
    pass


class View:
    """A caller's array, seen through NumPy. TypeError if its type is not supported, Unsupported if it is in device memory.

    array      a NumPy array of any layout on the same memory. It keeps the memory alive, even without this object. Elements of a type
               that NumPy does not have (bfloat16) are unsigned integers of the same size.
    dtype      the name of the element type
    writable   whether results may be written to the memory
    """

    def __init__(self, given):
        self.given, self._aside = given, None
        if isinstance(given, np.ma.MaskedArray):
            raise TypeError("Rondo does not support masked arrays, because their masks would be lost")
        if isinstance(given, (np.ndarray, np.generic)):
            self.array = np.asarray(given)
            self.writable = isinstance(given, np.ndarray) and self.array.flags.writeable
            self.dtype = self.array.dtype.name
            if self.array.dtype.hasobject:
                raise TypeError("arrays of Python objects are not supported here; use allgather_object or broadcast_object")
            if not self.array.dtype.isnative:
                raise TypeError(f"elements of {self.array.dtype.str} have the byte order of another kind of machine; convert them first")
            return
        if not hasattr(given, "__dlpack__") or not hasattr(given, "__dlpack_device__"):
            raise TypeError(f"Rondo supports NumPy arrays and objects that export DLPack, not {type(given).__name__}")
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
        """The rondo_dtype for a reduction. TypeError if Rondo does not reduce this type."""
        code = _library.DTYPES.get(self.dtype)
        if code is None:
            raise TypeError(f"Rondo does not reduce {self.dtype}; it reduces {', '.join(_library.DTYPES)}")
        return code

    def packed(self):
        """The elements in C order: the array itself if it is contiguous, otherwise a copy."""
        return self.array if self.array.flags.c_contiguous else self.array.copy(order="C")

    def place(self):
        """An array in C order for results, to be passed to `put`. TypeError if the caller's array cannot be written."""
        if not self.writable:
            raise TypeError(f"this {type(self.given).__name__} cannot be written: it is read-only or immutable; the function "
                            "without _ returns a new array")  # fmt: skip
        if self.array.size and any(stride == 0 and extent > 1 for stride, extent in zip(self.array.strides, self.array.shape)):
            raise TypeError(f"this {type(self.given).__name__} cannot be written: some of its elements share memory")
        return self.packed()

    def put(self, packed):
        """Copies the results in `packed`, which `place` returned, to the caller's array if necessary."""
        if packed is not self.array:
            self.array[...] = packed
        if self._aside is not None:
            view, values = self._aside
            view.copy_(values)

    def like(self, result):
        """Converts `result`, a new NumPy array of the same element type, to an array of the caller's library."""
        if isinstance(self.given, np.ndarray):
            return result
        if isinstance(self.given, np.generic):
            return result[()]
        return _libraries.adopt(result, self.given, self.dtype)


def moved(view, packed):
    """How an array is sent that is not reduced: a rondo_dtype, and the number of its elements for one element of the array."""
    code = _library.DTYPES.get(view.dtype)
    return (code, 1) if code is not None else (_library.UINT8, packed.dtype.itemsize)


def pointer(array):
    return array.ctypes.data
