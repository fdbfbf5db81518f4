"""Every function on every type, operation, size and layout of arrays, against NumPy in float64 or exact integers."""

import itertools

import numpy as np

import rondo
from checks import expect

rondo.init()
RANK, SIZE = rondo.rank(), rondo.size()
INTEGERS = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 2), (5, 4), (2, 3, 4), (1000, 3), (300_000,)]
checked = 0


def values(rank, shape, dtype, salt=0):
    """Small whole numbers, so that every sum and product is exact in every type."""
    count = int(np.prod(shape, dtype=int))
    numbers = (np.arange(count) * (salt + 3) + rank) % 4
    return (numbers > 1 if dtype == np.bool_ else numbers).astype(dtype).reshape(shape)


def layouts(array):
    """The same elements in several memory layouts."""
    yield "packed", array.copy(order="C")
    yield "fortran", array.copy(order="F")
    if array.ndim > 0:
        spread = np.zeros((2 * array.shape[0] + 1, *array.shape[1:], 2), array.dtype)
        view = spread[1::2, ..., 0]
        view[...] = array
        yield "spread", view
        yield "backwards", array[::-1].copy()[::-1]
    if array.dtype.itemsize > 1:
        odd = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        odd[...] = array
        yield "unaligned", odd


def everybody(shape, dtype, salt=0):
    return np.stack([values(rank, shape, dtype, salt).astype(np.float64) for rank in range(SIZE)])


def wanted(op, shape, dtype):
    every = everybody(shape, dtype)
    if op == rondo.Average:
        mean = every.sum(axis=0) / SIZE
        return np.trunc(mean) if np.issubdtype(dtype, np.integer) else mean
    return {rondo.Sum: every.sum, rondo.Product: every.prod, rondo.Min: every.min, rondo.Max: every.max}[op](axis=0)


def same(got, should_be, what, tolerance=0.0):
    global checked
    checked += 1
    expect(isinstance(got, np.ndarray) and got.shape == should_be.shape, f"the shape of {what}: {got!r}")
    close = np.allclose(got.astype(np.float64), should_be.astype(np.float64), rtol=tolerance, atol=tolerance)
    expect(close, f"{what}: {got} instead of {should_be}")


def rounding(op, dtype):
    """Averages are rounded to the type once; everything else is exact."""
    return float(np.finfo(dtype).eps) if op == rondo.Average and dtype in FLOATS else 0.0


for dtype, shape in itertools.product([*INTEGERS, *FLOATS, np.bool_], SHAPES):
    for op in [rondo.Min, rondo.Max] if dtype == np.bool_ else list(rondo.ReduceOp):
        for layout, array in layouts(values(RANK, shape, dtype)):
            what = f"{op.name} of {np.dtype(dtype)} {shape}, {layout}"
            before = array.copy()
            got = rondo.allreduce(array, name=what, op=op)
            same(got, wanted(op, shape, dtype), what, rounding(op, dtype))
            expect(got.dtype == dtype and np.array_equal(array, before), f"the type of {what}, and the input as it was")
            expect(rondo.allreduce_(array, op=op) is array, "in place gives the array")
            same(array, wanted(op, shape, dtype), f"{what} in place", rounding(op, dtype))

# Fused: all arrays at once, in order of their types.
for op in (rondo.Sum, rondo.Average):
    arrays = [array for dtype in [*INTEGERS, *FLOATS] for shape in SHAPES for _, array in layouts(values(RANK, shape, dtype))]
    should_be = [wanted(op, array.shape, array.dtype.type) for array in arrays]
    before = [array.copy() for array in arrays]
    for array, got, right in zip(arrays, rondo.grouped_allreduce(arrays, op=op), should_be):
        same(got, right, f"fused {op.name} of {array.dtype} {array.shape}", rounding(op, array.dtype.type))
    expect(all(np.array_equal(array, old) for array, old in zip(arrays, before)), "inputs as they were")
    rondo.grouped_allreduce_(arrays, op=op)
    for array, right in zip(arrays, should_be):
        same(array, right, f"fused {op.name} of {array.dtype} {array.shape} in place", rounding(op, array.dtype.type))
expect(rondo.grouped_allreduce([]) == [], "nothing is nothing")

# Factors before the sum, different on each rank; and values that are sent as float16.
for dtype, op in itertools.product(FLOATS, rondo.ReduceOp):
    array = values(RANK, (6, 5), dtype)
    scaled = np.stack([values(rank, (6, 5), dtype).astype(np.float64) * (rank + 1) / 2 for rank in range(SIZE)])
    reduced = {rondo.Sum: scaled.sum, rondo.Average: scaled.mean, rondo.Product: scaled.prod, rondo.Min: scaled.min,
               rondo.Max: scaled.max}[op](axis=0)  # fmt: skip
    got = rondo.allreduce(array, op=op, prescale_factor=(RANK + 1) / 2, postscale_factor=4)
    same(got, 4 * reduced, f"{op.name} of {np.dtype(dtype)} with factors", 4 * float(np.finfo(dtype).eps))
    (got,) = rondo.grouped_allreduce([array], op=op, prescale_factor=(RANK + 1) / 2, postscale_factor=4)
    same(got, 4 * reduced, f"fused {op.name} of {np.dtype(dtype)} with factors", 4 * float(np.finfo(dtype).eps))
    got = rondo.allreduce(array, op=op, compression=rondo.Compression.fp16)
    expect(got.dtype == dtype, "what came back is what was given")
    same(got, wanted(op, (6, 5), dtype), "what travels as float16", float(np.finfo(np.float16).eps))
third = rondo.allreduce(np.full(3, 1 / 3), op=rondo.Max, compression=rondo.Compression.fp16)
expect(third[0] == np.float64(np.float16(1 / 3)), "it did travel as float16")

# An average that fits its type is correct, even if the sum does not fit.
for dtype, extreme in ((np.float16, 65504), (np.int8, -128), (np.uint8, 255), (np.int32, 2**31 - 1), (np.uint32, 2**32 - 1),
                       (np.int64, -(2**63)), (np.uint64, 2**64 - 1)):  # fmt: skip
    array = np.full(3 * SIZE, extreme, dtype)
    for got in (rondo.allreduce(array), *rondo.grouped_allreduce([array, array[:2]]), rondo.reducescatter(array)):
        expect(np.all(got == array[0]), f"an average of {np.dtype(dtype)}: {got}")
got = rondo.allreduce(np.full(3, 40000, np.float32), compression=rondo.Compression.fp16)
expect(np.all(got == 40000), f"an average of float32 that travels as float16: {got}")
got = rondo.allreduce(np.full(3, 400000, np.float32), prescale_factor=0.125, postscale_factor=8, compression=rondo.Compression.fp16)
expect(np.allclose(got, 400000, rtol=1e-3), f"factors make room in float16, and count in float32: {got}")

# Handles: many operations at once, waited for in any order.
handles = [rondo.allreduce_async(np.full(10, RANK + n), op=rondo.Sum) for n in range(200)]
for n in reversed(range(200)):
    same(rondo.synchronize(handles[n]), np.full(10, sum(range(SIZE)) + SIZE * n), f"handle {n}")
expect(all(rondo.poll(handle) for handle in handles), "all is over")
array = np.ones((4, 6)).T
handle = rondo.allreduce_async_(array, op=rondo.Sum)
while not rondo.poll(handle):
    pass
expect(rondo.synchronize(handle) is array and np.all(array == SIZE), "in place, not packed, by a handle")

# Operations that only move data accept any type.
for dtype in [*INTEGERS, *FLOATS, np.bool_, np.int16, np.complex64, np.dtype("S5"), np.dtype([("a", np.int16), ("b", np.float64)])]:
    for shape in ((), (4,), (0,), (3, 5), (2, 0), (50_000, 3)):
        def mine(rank, rows=None):
            form = shape if rows is None else (rows, *shape[1:])
            return values(rank, form, np.int16, 1).astype(dtype)
        what = f"{np.dtype(dtype)} {shape}"
        for layout, array in layouts(mine(RANK)):
            for root in {0, SIZE - 1}:
                got = rondo.broadcast(array, root, name=what)
                expect(got.dtype == dtype and np.array_equal(got, mine(root)), f"broadcast of {what}, {layout}")
            place = array.copy() if layout == "packed" else array
            expect(rondo.broadcast_(place, SIZE - 1) is place and np.array_equal(place, mine(SIZE - 1)), f"broadcast_ of {what}, {layout}")
        if shape == ():
            expect(np.array_equal(rondo.allgather(mine(RANK)), np.stack([mine(rank) for rank in range(SIZE)])), "scalars are rows")
            continue
        # Rank r has shape[0] + 2 r rows.
        gathered = rondo.allgather(mine(RANK, shape[0] + 2 * RANK)[::-1][::-1], name=what)
        right = np.concatenate([mine(rank, shape[0] + 2 * rank) for rank in range(SIZE)])
        expect(gathered.dtype == dtype and np.array_equal(gathered, right), f"allgather of {what}")
        # Rank i sends (i + 2 j) % 4 rows to rank j.
        splits = [(RANK + 2 * to) % 4 for to in range(SIZE)]
        rows, received = rondo.alltoall(mine(RANK, sum(splits)), splits, name=what)
        parts = []
        for rank in range(SIZE):
            theirs = [(rank + 2 * to) % 4 for to in range(SIZE)]
            first = sum(theirs[:RANK])
            parts.append(mine(rank, sum(theirs))[first : first + theirs[RANK]])
        expect(np.array_equal(rows, np.concatenate(parts)) and list(received) == [len(part) for part in parts], f"alltoall of {what}")
        equal = rondo.alltoall(mine(RANK, 2 * SIZE))
        right = np.concatenate([mine(rank, 2 * SIZE)[2 * RANK : 2 * RANK + 2] for rank in range(SIZE)])
        expect(equal.dtype == dtype and np.array_equal(equal, right), f"alltoall of {what} in equal parts")
        checked += 5

# 7 rows cannot be divided by 2 or 3.
for dtype, op in itertools.product([*INTEGERS, *FLOATS], rondo.ReduceOp):
    for shape in ((7, 3), (1,), (0, 2), (6,)):
        first = sum(shape[0] // SIZE + (rank < shape[0] % SIZE) for rank in range(RANK))
        rows = shape[0] // SIZE + (RANK < shape[0] % SIZE)
        for layout, array in layouts(values(RANK, shape, dtype)):
            got = rondo.reducescatter(array, op=op)
            same(got, wanted(op, shape, dtype)[first : first + rows], f"reducescatter {op.name} of {np.dtype(dtype)} {shape}, {layout}",
                 rounding(op, dtype))  # fmt: skip

expect(rondo.broadcast_object({"from": RANK}, SIZE - 1) == {"from": SIZE - 1}, "broadcast_object")
expect(rondo.broadcast_object(None if RANK else "x" * 100_000) == "x" * 100_000, "a large one; None elsewhere")
expect(rondo.allgather_object("r" * RANK) == ["r" * rank for rank in range(SIZE)], "allgather_object")

parameters = {f"p{n}": array for n, dtype in enumerate([*FLOATS, np.int16, np.bool_]) for _, array in layouts(values(RANK, (9, 2), dtype))}
parameters["large"] = np.full(2_000_000, float(RANK))
parameters["none"] = np.empty((0, 3))
copies = {name: array.copy() for name, array in parameters.items()}
rondo.broadcast_parameters(parameters, root_rank=SIZE - 1)
for name, array in parameters.items():
    right = np.full(2_000_000, SIZE - 1.0) if name == "large" else values(SIZE - 1, array.shape, array.dtype.type)
    expect(np.array_equal(array, right), f"parameter {name}")
rondo.broadcast_parameters(list(copies.items()))
rondo.broadcast_parameters([array for array in copies.values()])
expect(copies["large"][-1] == 0, "lists of arrays, with names and without")

rondo.barrier()
expect(0 <= rondo.local_rank() < rondo.local_size() == SIZE and rondo.host() == rondo.host(SIZE - 1), "all on one host")
rondo.shutdown()
print(f"{checked} results checked")
