"""Rondo on NumPy arrays, and on whatever exports DLPack from the host's memory, under Horovod's names.

    import rondo

    rondo.init()                                  # env://: as rondo run, torchrun, mpirun, srun leave it
    mean = rondo.allreduce(array)
    rondo.broadcast_parameters(weights)
    optimizer = rondo.DistributedOptimizer(optimizer)

All ranks call the same functions in the same order, from one thread at a time. What fails raises RondoError, which names the
rank, the host and the operation at fault (docs/EMBEDDING.md, "Python").
"""

from ._collectives import allgather, alltoall, barrier, broadcast, broadcast_
from ._errors import Aborted, InvalidArgument, Mismatch, NotInitialized, PeerLost, RondoError, TimedOut, Unsupported
from ._group import abort, describe, host, init, is_initialized, local_rank, local_size, rank, shutdown, size
from ._library import lib as _lib
from ._parameters import allgather_object, broadcast_object, broadcast_parameters
from ._reductions import (
    Average, Max, Min, Product, ReduceOp, Sum, allreduce, allreduce_, allreduce_async, allreduce_async_, grouped_allreduce,
    grouped_allreduce_, poll, reducescatter, synchronize,
)  # fmt: skip
from .compression import Compression
from .optimizer import DistributedOptimizer

__version__ = _lib.rondo_version().decode()
__all__ = [
    "Aborted", "Average", "Compression", "DistributedOptimizer", "InvalidArgument", "Max", "Min", "Mismatch", "NotInitialized",
    "PeerLost", "Product", "ReduceOp", "RondoError", "Sum", "TimedOut", "Unsupported", "abort", "allgather", "allgather_object",
    "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall", "barrier", "broadcast", "broadcast_",
    "broadcast_object", "broadcast_parameters", "describe", "grouped_allreduce", "grouped_allreduce_", "host", "init", "is_initialized",
    "local_rank", "local_size", "poll", "rank", "reducescatter", "shutdown", "size", "synchronize",
]  # fmt: skip
