"""What adds up: allreduce in all its forms, and reducescatter."""

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
    Sum = _library.SUM
    Product = _library.PROD
    Min = _library.MIN
    Max = _library.MAX
    Average = _library.AVG


Sum, Product, Min, Max, Average = ReduceOp.Sum, ReduceOp.Product, ReduceOp.Min, ReduceOp.Max, ReduceOp.Average


def _check_factors(array, dtype, *factors):
    """Whether `array`, of the type that is called `dtype`, can be multiplied by them."""
    if all(factor == 1 for factor in factors):
        return
    if "float" not in dtype:
        raise TypeError(f"factors want a floating type, not {dtype}")
    if array.dtype.kind in "iu":  # NumPy shows types that it lacks as integers
        raise TypeError(f"NumPy multiplies {dtype} where the package ml_dtypes is installed")


def _times(array, factor):
    """A new array, but the same where there is nothing to multiply."""
    return array if factor == 1 else np.asarray(np.multiply(array, array.dtype.type(factor)))


def _start_allreduce(view, memory, output, op, prescale_factor, postscale_factor, name, finish):
    """`output` may be `memory`; `finish` gets the result."""
    code = view.reducible()
    _check_factors(memory, view.dtype, prescale_factor, postscale_factor)
    source = _times(memory, prescale_factor)
    handle = Handle(group(), (view, source, output), lambda: finish(_times(output, postscale_factor)), name)
    return handle.start(lib.rondo_all_reduce_async, pointer(source), pointer(output), source.size, code, ReduceOp(op))


@collective
def allreduce_async(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0):
    """Starts an allreduce and gives a handle for synchronize(), which gives its result, and poll()."""
    view = View(array)
    memory = view.packed()
    return _start_allreduce(view, memory, np.empty(memory.shape, memory.dtype), op, prescale_factor, postscale_factor, name,
                            view.like)  # fmt: skip


@collective
def allreduce_async_(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0):
    """The same in place. Nobody touches the array until synchronize() has returned."""
    view = View(array)
    memory = view.place()

    def finish(result):
        view.put(result)
        return array

    return _start_allreduce(view, memory, memory, op, prescale_factor, postscale_factor, name, finish)


@collective
def allreduce(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, compression=Compression.none):
    """Every rank's array combined element by element, as a new array on every rank; shapes and types are the same on all.

    name               what errors call it
    prescale_factor    before the ranks are combined, each rank its own; postscale_factor: afterwards
    compression        Compression.fp16: floats travel as float16
    """
    if compression is Compression.none:
        return allreduce_async(array, name, op, prescale_factor, postscale_factor).wait()
    return grouped_allreduce([array], [name], op, prescale_factor, postscale_factor, compression)[0]


@collective
def allreduce_(array, name=None, op=Average, prescale_factor=1.0, postscale_factor=1.0):
    """The same in place; gives the array."""
    return allreduce_async_(array, name, op, prescale_factor, postscale_factor).wait()


def synchronize(handle):
    """Waits for what was started, and gives its result."""
    return handle.wait()


def poll(handle):
    """Whether synchronize() would not wait."""
    return handle.done()


class _Fused:
    """One tensor on its way through the fusion buffer."""

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
    """allreduce of many arrays, small ones together in buckets: a list of new arrays. The order is the same on all ranks."""
    tensors = [_Fused(array, False, prescale_factor, postscale_factor, compression) for array in arrays]
    return [one.view.like(result) for one, result in _reduce_fused(tensors, op, names)]


@collective
def grouped_allreduce_(arrays, names=None, op=Average, prescale_factor=1.0, postscale_factor=1.0, compression=Compression.none):
    """The same in place; gives the arrays."""
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
    """Every rank's array combined, of which each rank gets its share of the first dimension; where the ranks do not divide it,
    the first ranks get one more."""
    view = View(array)
    here, memory = group(), view.packed()
    if memory.ndim == 0:
        raise ValueError("reducescatter wants an array with a first dimension, not a scalar")
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
