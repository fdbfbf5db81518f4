"""Reductions: allreduce in all its forms, and reducescatter."""

from __future__ import annotations

import ctypes
import enum

import numpy as np

from . import _library
from ._arrays import View, pointer
from ._errors import RondoError, call
from ._group import SLICE_MS, Handle, collective, group
from ._library import lib
from .compression import Compression


class ReduceOp(enum.IntEnum):
    """The operations of reductions. NaN operands give NaN in Min and Max. Average divides the sum once; integers round towards 0."""

    Sum = _library.SUM
    Product = _library.PROD
    Min = _library.MIN
    Max = _library.MAX
    Average = _library.AVG


Sum, Product, Min, Max, Average = ReduceOp.Sum, ReduceOp.Product, ReduceOp.Min, ReduceOp.Max, ReduceOp.Average


def _check_factors(array, dtype, *factors):
    """Raises TypeError if `array`, of the type named `dtype`, cannot be multiplied by the factors."""
    if all(factor == 1 for factor in factors):
        return
    if "float" not in dtype:
        raise TypeError(f"factors: expected a floating type, got {dtype}")
    if array.dtype.kind in "iu":  # NumPy shows types that it lacks as integers
        raise TypeError(f"NumPy can multiply {dtype} only if the package ml_dtypes is installed")


def _times(array, factor):
    """array * factor as a new array of the same type; the array itself if the factor is 1."""
    return array if factor == 1 else np.asarray(np.multiply(array, array.dtype.type(factor)))


def _start_allreduce(view, memory, output, op, prescale_factor, postscale_factor, name, finish):
    """Starts an allreduce of `memory` into `output`, which may be `memory`. The handle's result is that of finish(reduced array)."""
    code = view.reducible()
    _check_factors(memory, view.dtype, prescale_factor, postscale_factor)
    source = _times(memory, prescale_factor)
    handle = Handle(group(), (view, source, output), lambda: finish(_times(output, postscale_factor)), name)
    return handle.start(lib.rondo_all_reduce_async, pointer(source), pointer(output), source.size, code, ReduceOp(op))


@collective
def allreduce_async(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0):
    """Starts an allreduce, and returns a handle for synchronize() and poll(). The array must not change until the operation has ended."""
    view = View(array)
    memory = view.packed()
    return _start_allreduce(view, memory, np.empty(memory.shape, memory.dtype), op, prescale_factor, postscale_factor, name,
                            view.like)  # fmt: skip


@collective
def allreduce_async_(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0):
    """Like allreduce_async, but writes the result to the array. The array must not be read or written until synchronize() has returned.
    TypeError if the array cannot be written."""
    view = View(array)
    memory = view.place()

    def finish(result):
        view.put(result)
        return array

    return _start_allreduce(view, memory, memory, op, prescale_factor, postscale_factor, name, finish)


@collective
def allreduce(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, compression=Compression.none):
    """Combines the arrays of all ranks element by element. Returns a new array of the same shape and type, on every rank.

    array              must have the same number of elements and the same type on all ranks; Mismatch otherwise
    name               the name of the array in errors
    op                 Average, Sum, Product, Min or Max; equal on all ranks
    prescale_factor    this rank's array is multiplied by it before the reduction; only floating types, otherwise TypeError
    postscale_factor   the result is multiplied by it; only floating types, otherwise TypeError
    compression        Compression.fp16: float32 and float64 are rounded to float16 before they are sent
    """
    if compression is Compression.none:
        return allreduce_async(array, name, op, prescale_factor, postscale_factor).wait()
    return grouped_allreduce([array], [name], op, prescale_factor, postscale_factor, compression)[0]


@collective
def allreduce_(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0):
    """Like allreduce, but writes the result to the array, and returns the array. TypeError if it cannot be written."""
    return allreduce_async_(array, name, op, prescale_factor, postscale_factor).wait()


def synchronize(handle):
    """Waits until the operation of the handle has ended, and returns its result. Raises its error."""
    return handle.wait()


def poll(handle):
    """Whether the operation of the handle has ended, so that synchronize() does not wait."""
    return handle.done()


class _Fused:
    """An array that the fusion buffer reduces."""

    def __init__(self, array, in_place, prescale_factor, postscale_factor, compression):
        self.view, self.factor, self.compression = View(array), postscale_factor, compression
        packed = self.view.place() if in_place else self.view.packed()
        _check_factors(packed, self.view.dtype, prescale_factor, postscale_factor)
        # Factors are applied in the array's own type, before compression, because that type has a larger range.
        self.sent, self.before = compression.compress(_times(packed, prescale_factor))
        # A compressed array has a type that NumPy has.
        self.code = self.view.reducible() if self.before is None else _library.DTYPES[self.sent.dtype.name]
        self.output = self.sent if in_place else np.empty(self.sent.shape, self.sent.dtype)

    def result(self):
        return _times(self.compression.decompress(self.output, self.before), self.factor)


@collective
def grouped_allreduce(arrays, names=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, compression=Compression.none):
    """An allreduce of each of `arrays`. Returns a list of new arrays. Small arrays are reduced together, in buckets.

    All ranks must pass the same numbers of elements and types in the same order. `names` is None or a list of the arrays' names in
    errors. The other arguments are those of allreduce.
    """
    tensors = [_Fused(array, False, prescale_factor, postscale_factor, compression) for array in arrays]
    return [one.view.like(result) for one, result in _reduce_fused(tensors, op, names)]


@collective
def grouped_allreduce_(arrays, names=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, compression=Compression.none):
    """Like grouped_allreduce, but writes the results to the arrays, and returns `arrays`. TypeError if one cannot be written."""
    tensors = [_Fused(array, True, prescale_factor, postscale_factor, compression) for array in arrays]
    for one, result in _reduce_fused(tensors, op, names):
        one.view.put(result)
    return arrays


def _reduce_fused(tensors, op, names):
    here = group()
    fusion, op = here.fusion, ReduceOp(op)
    here.fused.append(tensors)  # an interrupted wait leaves them with the buffer
    for number, one in enumerate(tensors):
        while call(lib.rondo_fusion_await_room, fusion, SLICE_MS) != _library.OK:
            pass
        try:
            call(lib.rondo_fusion_add, fusion, pointer(one.sent), pointer(one.output), one.sent.size, one.code, op, 1.0)
        except RondoError as error:
            raise error.of(names and names[number])
    while call(lib.rondo_fusion_wait_for, fusion, SLICE_MS) != _library.OK:
        pass
    here.fused.clear()
    return [(one, one.result()) for one in tensors]


@collective
def reducescatter(array, op=Average, name=None, prescale_factor=1.0, postscale_factor=1.0):
    """Combines the arrays of all ranks element by element. Returns this rank's rows of the result, as a new array.

    The rows (slices along the first dimension) are divided among the ranks in rank order. If they cannot be divided evenly, the first
    ranks get one more each. The array must have the same shape and type on all ranks, and at least one dimension (ValueError). The
    other arguments are those of allreduce.
    """
    view = View(array)
    here, memory = group(), view.packed()
    if memory.ndim == 0:
        raise ValueError("reducescatter: expected an array with at least one dimension, got a scalar")
    code = view.reducible()
    _check_factors(memory, view.dtype, prescale_factor, postscale_factor)
    source = _times(memory, prescale_factor)
    rows = [memory.shape[0] // here.size + (r < memory.shape[0] % here.size) for r in range(here.size)]
    row_size = int(np.prod(memory.shape[1:], dtype=np.int64))
    counts = (ctypes.c_uint64 * here.size)(*(n * row_size for n in rows))
    output = np.empty((rows[here.rank], *memory.shape[1:]), memory.dtype)

    handle = Handle(here, (view, source, output, counts), lambda: view.like(_times(output, postscale_factor)), name)
    return handle.start(lib.rondo_reduce_scatter_v_async, pointer(source), pointer(output), counts, code,
                        ReduceOp(op)).wait()  # fmt: skip
