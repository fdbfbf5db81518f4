"""Collectives on Python objects, and broadcast of model parameters."""

from __future__ import annotations

import pickle

import numpy as np

from ._arrays import View
from ._collectives import agree, gather_bytes, share
from ._group import collective, group

BUCKET_BYTES = 4 << 20


@collective
def broadcast_object(obj=None, root_rank=0, name=None):
    """Returns the root's object, on every rank. It is sent pickled. `obj` is ignored on other ranks. `name` is its name in errors."""
    at_root = group().rank == root_rank
    text = np.frombuffer(pickle.dumps(obj), np.uint8) if at_root else None
    length = np.array([text.size if at_root else 0], np.int64)
    share(length, root_rank, name)
    if not at_root:
        text = np.empty(int(length[0]), np.uint8)
    share(text, root_rank, name)
    return obj if at_root else pickle.loads(text.tobytes())


@collective
def allgather_object(obj):
    """Returns a list of the objects of all ranks, in rank order, on every rank. They are sent pickled."""
    return [pickle.loads(text) for text in gather_bytes(pickle.dumps(obj))]


def _named(parameters):
    if hasattr(parameters, "items"):
        return list(parameters.items())
    return [one if isinstance(one, tuple) and len(one) == 2 else (str(at), one) for at, one in enumerate(parameters)]


@collective
def broadcast_parameters(parameters, root_rank=0):
    """Copies the root's values to the arrays of all ranks, in place. Small arrays are sent together.

    `parameters` is a dict of arrays by name, a list of arrays, or a list of (name, array). Names, shapes and types must be equal on all
    ranks; otherwise Mismatch describes those of each rank. Raises TypeError, before anything is sent, if an array cannot be written.
    """
    here = group()
    at_root = here.rank == root_rank
    named = [(name, View(array)) for name, array in _named(parameters)]
    # Checked before anything is started: all of them must be writable.
    places = [(name, view, view.place()) for name, view in named]
    agree("broadcast_parameters", ", ".join(f"{name}: {view.dtype} {view.array.shape}" for name, view in named), None)
    bucket = []
    for name, view, memory in places:
        if memory.nbytes >= BUCKET_BYTES:
            share(memory, root_rank, name)
            if not at_root:
                view.put(memory)
        elif memory.nbytes > 0:
            if sum(other.nbytes for _, other in bucket) + memory.nbytes > BUCKET_BYTES:
                _broadcast_bucket(bucket, root_rank)
                bucket = []
            bucket.append((view, memory))
    _broadcast_bucket(bucket, root_rank)


def _broadcast_bucket(bucket, root_rank):
    if not bucket:
        return
    packed = np.concatenate([memory.reshape(-1).view(np.uint8) for _, memory in bucket])
    share(packed, root_rank)
    if group().rank == root_rank:
        return
    for (view, memory), values in zip(bucket, np.split(packed, np.cumsum([memory.nbytes for _, memory in bucket])[:-1])):
        view.put(values.view(memory.dtype).reshape(memory.shape))
