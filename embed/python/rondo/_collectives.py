"""Collectives that do not reduce: allgather, broadcast, alltoall and barrier."""

from __future__ import annotations

import hashlib
from ctypes import c_uint64

import numpy as np

from . import _library
from ._arrays import View, moved, pointer
from ._errors import Mismatch
from ._group import Handle, collective, group
from ._library import lib


def gather_bytes(text):
    """Gathers bytes. Each rank may pass another length. Returns a list with the bytes of each rank, on every rank."""
    here = group()
    own = np.frombuffer(text, np.uint8)
    lengths = np.empty(here.size, np.uint64)
    length = np.array([own.size], np.uint64)
    Handle(here, (length, lengths), None).start(
        lib.rondo_all_gather_async, pointer(length), pointer(lengths), 1, _library.INT64).wait()  # fmt: skip
    everything = np.empty(int(lengths.sum()), np.uint8)
    counts = (c_uint64 * here.size)(*map(int, lengths))
    Handle(here, (own, everything, counts), None).start(
        lib.rondo_all_gather_v_async, pointer(own), pointer(everything), counts, _library.UINT8).wait()  # fmt: skip
    ends = np.cumsum(lengths.astype(np.int64))
    return [part.tobytes() for part in np.split(everything, ends[:-1])]


def agree(what, signature, name, *numbers):
    """Checks that all ranks pass the same `signature`, a text, and gathers `numbers`. Returns them as an int64 array of shape
    (ranks, numbers). If signatures differ, raises the same Mismatch on all ranks, with the differing ranks and their signatures."""
    here = group()
    digest = hashlib.blake2b(signature.encode(), digest_size=8).digest()
    own = np.array([int.from_bytes(digest, "little", signed=True), *numbers], np.int64)
    every = np.empty((here.size, own.size), np.int64)
    Handle(here, (own, every), None, name).start(
        lib.rondo_all_gather_async, pointer(own), pointer(every), own.size, _library.INT64).wait()  # fmt: skip
    if np.all(every[:, 0] == own[0]):
        return every[:, 1:]
    said = [text.decode() for text in gather_bytes(signature.encode())]
    common = max(said, key=said.count)
    others = [r for r in range(here.size) if said[r] != common]
    words = "; ".join(f"rank {r} has {said[r]}" for r in [said.index(common), *others])
    text = f"mismatch: the ranks disagree in {what}: {words}"
    raise Mismatch(_library.MISMATCH, text, rank=here.rank, culprit=others[0], host=_host(others[0]), collective=what).of(name)


def _host(rank):
    return lib.rondo_comm_host(group().comm, rank).decode()


def _rows(array):
    """The array with at least one dimension: a scalar becomes one row."""
    return array.reshape(1) if array.ndim == 0 else array


def _row_size(array):
    return int(np.prod(array.shape[1:], dtype=np.int64))


def _form(view, array):
    return f"{view.dtype} rows of shape {tuple(array.shape[1:])}"


@collective
def allgather(array, name=None):
    """Concatenates the arrays of all ranks along the first dimension, in rank order. Returns a new array, on every rank.

    The first dimension may differ between ranks; a scalar counts as one row. Raises Mismatch if the other dimensions or the types
    differ. `name` is the name of the array in errors.
    """
    view = View(array)
    here, memory = group(), _rows(view.packed())
    rows = agree("allgather", _form(view, memory), name, memory.shape[0])[:, 0]
    code, units = moved(view, memory)
    counts = (c_uint64 * here.size)(*(int(n) * _row_size(memory) * units for n in rows))
    output = np.empty((int(rows.sum()), *memory.shape[1:]), memory.dtype)
    handle = Handle(here, (view, memory, output, counts), lambda: view.like(output), name)
    return handle.start(lib.rondo_all_gather_v_async, pointer(memory), pointer(output), counts, code).wait()


def _broadcast(view, source, target, root_rank, name, finish):
    code, units = moved(view, target)
    handle = Handle(group(), (view, source, target), finish, name)
    return handle.start(lib.rondo_broadcast_async, pointer(source), pointer(target), target.size * units, code, root_rank).wait()


def share(memory, root_rank, name=None):
    """Broadcasts packed memory from the root in place. The root's own memory may be read-only."""
    _broadcast(View(memory), memory, memory, root_rank, name, None)


@collective
def broadcast(array, root_rank, name=None):
    """Returns the root's array as a new array, on every rank.

    All ranks must pass arrays of the same shape and type. Raises Mismatch if the numbers of elements or the types differ. `name` is the
    name of the array in errors.
    """
    view = View(array)
    source = view.packed()
    target = np.empty(source.shape, source.dtype)
    return _broadcast(view, source, target, root_rank, name, lambda: view.like(target))


@collective
def broadcast_(array, root_rank, name=None):
    """Like broadcast, but writes to the array and returns it. TypeError if it cannot be written, on the root too."""
    view = View(array)
    target = view.place()

    def finish():
        if group().rank != root_rank:
            view.put(target)
        return array

    return _broadcast(view, target, target, root_rank, name, finish)


@collective
def alltoall(array, splits=None, name=None):
    """Sends rows (slices along the first dimension) to each rank, and returns a new array of the rows received, in rank order.

    splits   splits[r] is the number of rows for rank r; the sum must be the number of rows. Without splits each rank gets the same number.
    name     the name of the array in errors

    With splits the result is a pair: the rows, and an int64 array with the number of rows received from each rank. ValueError if the
    rows cannot be split so. Mismatch if the types or the other dimensions differ between ranks.
    """
    view = View(array)
    here, memory = group(), _rows(view.packed())
    if splits is None:
        if memory.shape[0] % here.size != 0:
            raise ValueError(f"{memory.shape[0]} rows cannot be divided evenly among {here.size} ranks; give splits")
        sent = [memory.shape[0] // here.size] * here.size
    else:
        sent = [int(n) for n in splits]
        if len(sent) != here.size or min(sent) < 0 or sum(sent) != memory.shape[0]:
            raise ValueError(f"splits: expected {here.size} numbers of rows whose sum is {memory.shape[0]}, got {sent}")
    table = agree("alltoall", _form(view, memory), name, *sent)
    received = [int(n) for n in table[:, here.rank]]
    code, units = moved(view, memory)
    unit = _row_size(memory) * units
    counts = [(c_uint64 * here.size)(*(n * unit for n in rows)) for rows in (sent, received)]
    output = np.empty((sum(received), *memory.shape[1:]), memory.dtype)

    def finish():
        rows = view.like(output)
        return rows if splits is None else (rows, np.array(received, np.int64))

    handle = Handle(here, (view, memory, output, counts), finish, name)
    return handle.start(lib.rondo_all_to_all_v_async, pointer(memory), counts[0], pointer(output), counts[1], code).wait()


def barrier():
    """Waits until every rank has called it. Raises TimedOut if that takes longer than timeout_s of init()."""
    Handle(group(), None, None).start(lib.rondo_barrier_async).wait()
