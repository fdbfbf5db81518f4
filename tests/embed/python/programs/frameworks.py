"""Arrays of a library in all functions: results are the library's own, and arrays that never change are refused in place, on every
rank, before anything is sent. frameworks.py tensorflow|jax|fake_tensorflow|fake_jax|elsewhere: the fakes export memory and take it
back as those do, and need nothing but NumPy."""

import contextlib
import os
import sys
import types

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np

import rondo
from checks import expect, raises


class Exporting:
    """An array of a fake library. It holds a copy of the array that it is made from."""

    def __init__(self, array):
        self.array = np.array(array)
        self.dtype = types.SimpleNamespace(name="string" if self.array.dtype.kind == "U" else self.array.dtype.name)

    def __dlpack__(self):
        if self.dtype.name == "string":
            os.abort()  # as TensorFlow does
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array__(self, dtype=None, copy=None):
        return self.array


def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    for member, value in members.items():
        setattr(made, member, value)
    return made


def fake_tensorflow():
    Tensor = type("EagerTensor", (Exporting,), {"__module__": "tensorflow.python.framework.ops", "device": "CPU:0"})
    module("tensorflow", device=contextlib.nullcontext, convert_to_tensor=Tensor)
    return Tensor


def fake_jax():
    Array = type("ArrayImpl", (Exporting,), {"__module__": "jaxlib._jax", "devices": lambda self: {"cpu:0"}})

    def device_put(array, device):
        expect(device == "cpu:0", "a result is put where what was given is")
        return Array(array)

    module("jax", device_put=device_put)
    return Array


def elsewhere():
    """A library that the package does not know. Its from_dlpack is found at one of the usual places."""
    Tensor = type("Tensor", (Exporting,), {"__module__": "elsewhere.tensors"})
    module("elsewhere")
    module("elsewhere.utils.dlpack", from_dlpack=lambda exported: Tensor(np.from_dlpack(exported)))
    return type("Parameter", (Tensor,), {"__module__": "__main__"})  # a user's own class


def tensorflow():
    import tensorflow as tf

    return tf.constant


def jax():
    import jax.numpy as jnp

    return jnp.asarray


name = sys.argv[1]
make = globals()[name]()
is_fake = name in ("fake_tensorflow", "fake_jax", "elsewhere")
changes = name == "elsewhere"
kind = type(make(np.ones(1, np.float32)))
if name == "elsewhere":
    kind = kind.__mro__[1]
rondo.init()
RANK, SIZE = rondo.rank(), rondo.size()
TOTAL = sum(range(SIZE))


def same(got, wanted, dtype, what):
    expect(isinstance(got, kind), f"{what} is of the same library: {type(got)}")
    expect(np.asarray(got).dtype == dtype and np.array_equal(np.asarray(got), wanted), f"{what}: {np.asarray(got)} instead of {wanted}")


types_ = [np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.uint8), np.dtype(np.float16)]
if not is_fake:
    types_ += [np.dtype(bool), np.dtype("bfloat16")]
for dtype in types_:
    op = rondo.Max if dtype == bool else rondo.Sum
    own = (np.arange(2 * SIZE * 3).reshape(2 * SIZE, 3) % 2 + RANK).astype(dtype)
    every = [(np.arange(2 * SIZE * 3).reshape(2 * SIZE, 3) % 2 + rank).astype(dtype) for rank in range(SIZE)]
    reduced = np.logical_or.reduce(every) if dtype == bool else np.sum([one.astype(np.float64) for one in every], axis=0).astype(dtype)
    given = make(own)
    same(rondo.allreduce(given, op=op), reduced, dtype, f"allreduce of {dtype}")
    same(rondo.synchronize(rondo.allreduce_async(given, op=op)), reduced, dtype, f"allreduce_async of {dtype}")
    for got in rondo.grouped_allreduce([given, given], op=op):
        same(got, reduced, dtype, f"grouped_allreduce of {dtype}")
    same(rondo.allgather(given), np.concatenate(every), dtype, f"allgather of {dtype}")
    same(rondo.broadcast(given, SIZE - 1), every[-1], dtype, f"broadcast of {dtype}")
    rows = np.concatenate([one[2 * RANK : 2 * RANK + 2] for one in every])
    same(rondo.alltoall(given), rows, dtype, f"alltoall of {dtype}")
    same(rondo.alltoall(given, [2] * SIZE)[0], rows, dtype, f"alltoall of {dtype} by splits")
    same(rondo.reducescatter(given, op=op), reduced[2 * RANK : 2 * RANK + 2], dtype, f"reducescatter of {dtype}")
    expect(np.array_equal(np.asarray(given), own), "what was given is as it was")
same(rondo.allreduce(make(np.full(2, 1 / 4, np.float32)), compression=rondo.Compression.fp16), [1 / 4] * 2, np.float32, "what travels as float16")
same(rondo.allreduce(make(np.float32(RANK)), op=rondo.Sum), TOTAL, np.float32, "a scalar")
for passes in (1, 2):
    steps = []
    outer = rondo.DistributedOptimizer(steps.append, op=rondo.Sum, backward_passes_per_step=passes)
    for _ in range(passes):
        outer([(make(np.full(3, RANK, np.float32)), "v")])
    same(steps[0][0][0], [passes * TOTAL] * 3, np.float32, f"a gradient of {passes} passes")

own = make(np.full(3, RANK, np.float32))
for what, call in (
    ("allreduce_", lambda: rondo.allreduce_(own, op=rondo.Sum)),
    ("allreduce_async_", lambda: rondo.synchronize(rondo.allreduce_async_(own, op=rondo.Sum))),
    ("grouped_allreduce_", lambda: rondo.grouped_allreduce_([own], op=rondo.Sum)),
    ("broadcast_", lambda: rondo.broadcast_(own, 0)),
    ("broadcast_parameters", lambda: rondo.broadcast_parameters({"own": own})),
):
    if changes:
        own.array[...] = RANK
        call()
        expect(np.all(own.array == (0 if what.startswith("broadcast") else TOTAL)), f"{what} in place")
        continue
    with raises(TypeError, "cannot be written", "the function without _"):
        call()
    expect(np.all(np.asarray(own) == RANK), f"{what} has left it as it was")

# TensorFlow ends the process if a tensor of these types is exported.
strange = []
if name == "fake_tensorflow":
    strange = [(make(["a"]), "string")]
elif name == "tensorflow":
    import tensorflow as tf

    strange = [(tf.constant(["a"]), "string"), (tf.Variable(1.0).handle, "resource"), (tf.quantization.quantize([1.0], 0, 2, tf.qint8)[0], "qint8"),
               (tf.raw_ops.EmptyTensorList(element_shape=[1], max_num_elements=1, element_dtype=tf.float32), "variant")]  # fmt: skip
for tensor, dtype in strange:
    for call in (rondo.allgather, rondo.allreduce, lambda tensor: rondo.broadcast(tensor, 0), lambda tensor: rondo.broadcast_parameters([tensor]),
                 rondo.alltoall, rondo.reducescatter, lambda tensor: rondo.grouped_allreduce([tensor])):  # fmt: skip
        with raises(TypeError, dtype, "allgather_object"):
            call(tensor)

# Only the last rank passes an object that Rondo does not accept, and then exits normally.
wrong = "no array"
if name == "tensorflow":
    import tensorflow as tf

    wrong = tf.IndexedSlices(tf.ones((1, 2)), tf.constant([0]))
if RANK == SIZE - 1:
    expect(rondo.allreduce(np.ones(1), op=rondo.Sum)[0] == SIZE, "a sum after all that")
    with raises(TypeError, type(wrong).__name__):
        rondo.allreduce(wrong)
else:
    with raises(rondo.Mismatch, f"rank {SIZE - 1} refused a call of its program (allreduce: TypeError: Rondo supports", type(wrong).__name__):
        rondo.allreduce(np.ones(1), op=rondo.Sum)  # may already fail for the same reason
        rondo.allreduce(make(np.ones(3, np.float32)))
