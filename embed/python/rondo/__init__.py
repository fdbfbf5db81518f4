"""Collectives on NumPy arrays, and on arrays of other libraries that export host memory by DLPack, under Horovod's names.

    import rondo

    rondo.init()                                  # env://: the variables that rondo run, torchrun, mpirun or srun set
    mean = rondo.allreduce(array)
    rondo.broadcast_parameters(weights)
    optimizer = rondo.DistributedOptimizer(optimizer)

All ranks must call the same functions in the same order, from one thread at a time. A failed operation raises RondoError, which names
the rank, the host and the operation at fault (docs/EMBEDDING.md, "Python"). A call with an argument of a wrong type or value raises
TypeError or ValueError before anything is sent. Array arguments have any shape and layout unless a function says otherwise. Element
types are those of NumPy, and bfloat16. Reductions take int8, uint8, int32, uint32, int64, uint64, float16, bfloat16, float32, float64 and
bool. New arrays belong to
the argument's library if it accepts memory by DLPack; otherwise they are NumPy arrays.
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
