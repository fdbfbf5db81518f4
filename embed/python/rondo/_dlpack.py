"""NumPy arrays on the memory of other libraries' arrays, by the DLPack protocol.

np.from_dlpack is not sufficient: it does not support bfloat16, and its arrays are read-only.
"""

from __future__ import annotations

import ctypes
import math
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object

import numpy as np

from . import _library
from ._errors import Unsupported

HOST_DEVICES = {1, 3, 11}  # CPU, and pinned memory of CUDA and ROCm
DEVICE_NAMES = {2: "cuda", 8: "metal", 10: "rocm", 13: "cuda managed", 14: "oneapi"}
KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
# Flags of the protocol from version 1 on. Writes to a copy do not reach the original array.
READ_ONLY, IS_COPIED = 1, 2


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("kind", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("manager", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", _Tensor)]  # fmt: skip


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c_void_p, [py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [py_object, ctypes.c_char_p]


def _capsule_of(array):
    try:
        return array.__dlpack__(max_version=(1, 0))
    except TypeError:  # the array does not support that argument yet
        return array.__dlpack__()


def open_array(array):
    """Returns (a NumPy array on the same memory, the name of the element type, whether the memory may be written).

    The NumPy array and its views keep the memory alive. The other library releases it after the last of them. Elements of a type that
    NumPy does not have become unsigned integers of the same size. Raises Unsupported for device memory, and TypeError for other types
    of elements.
    """
    device, number = array.__dlpack_device__()
    if int(device) not in HOST_DEVICES:
        where = f"{DEVICE_NAMES.get(int(device), f'DLPack device {int(device)}')}:{number}"
        raise Unsupported(_library.UNSUPPORTED, f"unsupported: the array is on {where}; the Python package supports only host memory")
    # The capsule is not renamed, so it stays the owner and releases the memory when it is deleted.
    capsule = _capsule_of(array)
    if _is_valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
        tensor, writable = managed.tensor, not managed.flags & (READ_ONLY | IS_COPIED)
    else:
        tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
        writable = True  # older versions do not say whether it is
    name = _name_of(tensor)
    return _as_numpy(tensor, name, capsule), name, writable


def _name_of(tensor):
    kind = KINDS.get(tensor.kind)
    if kind is None or tensor.lanes != 1:
        raise TypeError(f"elements of DLPack type {tensor.kind}, {tensor.bits} bits x {tensor.lanes} are not supported by Rondo")
    return kind if kind == "bool" else f"{kind}{tensor.bits}"


def _as_numpy(tensor, name, owner):
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(f"uint{tensor.bits}")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if 0 in shape:
        return np.empty(shape, dtype)
    if not tensor.data:
        raise TypeError(f"the array of shape {shape} exports no memory")
    if tensor.strides:
        strides = [tensor.strides[i] * dtype.itemsize for i in range(tensor.ndim)]
    else:  # None: the elements are packed
        strides = [dtype.itemsize * math.prod(shape[i + 1 :]) for i in range(tensor.ndim)]
    # The memory from the lowest used address to the highest.
    spans = [(extent - 1) * stride for extent, stride in zip(shape, strides)]
    below = -sum(span for span in spans if span < 0)
    size = below + sum(span for span in spans if span > 0) + dtype.itemsize
    memory = (ctypes.c_char * size).from_address(tensor.data + tensor.byte_offset - below)
    memory.owner = owner  # keeps the owner alive: `memory` is the base of the array and of its views
    return np.ndarray(shape, dtype, memory, below, strides)
