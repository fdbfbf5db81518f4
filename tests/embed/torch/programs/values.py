"""Every collective on every type, operation, size and layout, each value held to float64 or to integers.

    values.py [cpu | cuda | fake]        where the tensors are; "fake" is tests/embed/torch/fake_cuda
"""

import functools
import itertools
import sys

import rondo_torch  # noqa: F401  (registers the backend)
import torch
import torch.distributed as dist
from devices import Device
from torch.distributed import ReduceOp

DEVICE = Device(sys.argv[1] if len(sys.argv) > 1 else "cpu").torch
zeros, full, arange = (functools.partial(make, device=DEVICE) for make in (torch.zeros, torch.full, torch.arange))
dist.init_process_group("rondo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OPS = {
    ReduceOp.SUM: lambda all_: all_.sum(0),
    ReduceOp.PRODUCT: lambda all_: all_.prod(0),
    ReduceOp.MIN: lambda all_: all_.min(0)[0],
    ReduceOp.MAX: lambda all_: all_.max(0)[0],
}
BITS = {
    ReduceOp.BAND: lambda a, b: a & b,
    ReduceOp.BOR: lambda a, b: a | b,
    ReduceOp.BXOR: lambda a, b: a ^ b,
}
SIZES = [0, 1, 7, 1000, 100_003]
LAYOUTS = ["plain", "transposed", "strided", "offset"]
if "fake" not in sys.argv:  # the fake device has no such views
    LAYOUTS += ["view"]
checked = 0


def values_of(rank, size, dtype):
    """Values so small that sums and products of a few of them are in the range of every type."""
    made = torch.Generator().manual_seed(rank * 1000 + size % 997)
    drawn = torch.randint(1, 5, (size,), generator=made)
    return (drawn.to(torch.float64) / 2 if dtype.is_floating_point else drawn).to(dtype)


def laid_out(values, layout):
    """The same values in the memory layouts that programs use."""
    size = values.numel()
    values = values.to(DEVICE)
    if layout == "transposed" and size % 2 == 1 and size > 1:
        layout = "offset"
    if layout == "plain":
        return values.clone()
    if layout == "transposed":
        return values.reshape(2, -1).t().contiguous().t() if size > 1 else values.clone()
    if layout == "view":  # the memory holds the negated values
        if values.dtype in (torch.bool, torch.uint8):
            return values.clone()
        return torch._neg_view(-values)
    if layout == "strided":
        wide = full((size, 3), 77, dtype=values.dtype)
        wide[:, 1] = values
        return wide[:, 1]
    longer = full((size + 1,), 77, dtype=values.dtype)
    longer[1:] = values
    return longer[1:]


def check(got, wanted, what):
    global checked
    checked += 1
    got, wanted = got.cpu().reshape(-1), wanted.cpu().reshape(-1)
    if got.dtype.is_floating_point or got.dtype.is_complex:
        loose = {torch.float16: 4e-3, torch.bfloat16: 4e-2, torch.float32: 1e-6}.get(got.dtype, 1e-12)
        wide = torch.complex128 if got.dtype.is_complex else torch.float64
        good = torch.allclose(got.to(wide), wanted.to(wide), rtol=loose, atol=loose)
    else:
        good = torch.equal(got, wanted.to(got.dtype))
    if not good:
        wrong = (got != wanted.to(got.dtype)).nonzero().reshape(-1)
        where = wrong[0].item() if len(wrong) else 0
        sys.exit(f"rank {RANK}: {what}: element {where} is {got[where].item()}, not {wanted[where].item()}")


def reductions():
    for dtype, size, layout in itertools.product(INTEGERS + FLOATS, SIZES, LAYOUTS):
        wide = torch.float64 if dtype.is_floating_point else torch.int64
        all_ = torch.stack([values_of(r, size, dtype).to(wide) for r in range(WORLD)])
        for op, reduce in OPS.items():
            what = f"{op} of {size} {dtype}, {layout}"
            tensor = laid_out(values_of(RANK, size, dtype), layout)
            if size == 0 and op in (ReduceOp.MIN, ReduceOp.MAX):
                dist.all_reduce(tensor, op)
                continue
            wanted = reduce(all_)
            dist.all_reduce(tensor, op)
            check(tensor, wanted, "all_reduce " + what)
            tensor = laid_out(values_of(RANK, size, dtype), layout)
            dist.reduce(tensor, WORLD - 1, op)
            if RANK == WORLD - 1:
                check(tensor, wanted, "reduce " + what)
            inputs = [laid_out(values_of(RANK, size, dtype) + block, layout) for block in range(WORLD)]
            output = laid_out(torch.zeros(size, dtype=dtype), layout)
            dist.reduce_scatter(output, inputs, op)
            moved = torch.stack([(values_of(r, size, dtype) + RANK).to(wide) for r in range(WORLD)])
            check(output, reduce(moved), "reduce_scatter " + what)
        if dtype in INTEGERS:
            for op, bit in BITS.items():
                wanted = all_[0]
                for other in all_[1:]:
                    wanted = bit(wanted, other)
                tensor = laid_out(values_of(RANK, size, dtype), layout)
                dist.all_reduce(tensor, op)
                check(tensor, wanted, f"all_reduce {op} of {size} {dtype}, {layout}")
    for dtype in FLOATS:
        tensor = full((100,), float(RANK), dtype=dtype)
        dist.all_reduce(tensor, ReduceOp.AVG)
        check(tensor, full((100,), (WORLD - 1) / 2, dtype=torch.float64), f"all_reduce avg of {dtype}")
    tensor = arange(5) % 2 == RANK % 2
    dist.all_reduce(tensor, ReduceOp.BOR)
    check(tensor, full((5,), WORLD > 1) | (arange(5) % 2 == 0), "all_reduce or of bool")
    tensor = full((9,), complex(RANK, 1), dtype=torch.complex64)
    dist.all_reduce(tensor)
    check(tensor, full((9,), complex(WORLD * (WORLD - 1) / 2, WORLD), dtype=torch.complex128), "all_reduce of complex")


def movements():
    for dtype, size, layout in itertools.product([torch.bool, torch.int16, torch.float16, torch.complex128], SIZES, LAYOUTS):
        what = f"of {size} {dtype}, {layout}"

        def of(rank, block=0):
            made = torch.Generator().manual_seed(rank * 77 + block)
            return torch.randint(0, 2, (size,), generator=made).to(dtype)

        tensor = laid_out(of(RANK), layout)
        dist.broadcast(tensor, WORLD - 1)
        check(tensor, of(WORLD - 1), "broadcast " + what)
        outputs = [laid_out(zeros(size, dtype=dtype), layout) for _ in range(WORLD)]
        dist.all_gather(outputs, laid_out(of(RANK), layout))
        for r in range(WORLD):
            check(outputs[r], of(r), "all_gather " + what)
        packed = zeros(WORLD * size, dtype=dtype)
        dist._all_gather_base(packed, laid_out(of(RANK), layout))
        check(packed, torch.cat([of(r) for r in range(WORLD)]), "all_gather_base " + what)
        outputs = [laid_out(zeros(size, dtype=dtype), layout) for _ in range(WORLD)] if RANK == 0 else None
        dist.gather(laid_out(of(RANK), layout), outputs, 0)
        for r in range(WORLD if RANK == 0 else 0):
            check(outputs[r], of(r), "gather " + what)
        output = laid_out(zeros(size, dtype=dtype), layout)
        dist.scatter(output, [laid_out(of(0, r), layout) for r in range(WORLD)] if RANK == 0 else None, 0)
        check(output, of(0, RANK), "scatter " + what)
        outputs = [laid_out(zeros(size, dtype=dtype), layout) for _ in range(WORLD)]
        dist.all_to_all(outputs, [laid_out(of(RANK, r), layout) for r in range(WORLD)])
        for r in range(WORLD):
            check(outputs[r], of(r, RANK), "all_to_all " + what)
        after, before = (RANK + 1) % WORLD, (RANK + WORLD - 1) % WORLD
        output = laid_out(zeros(size, dtype=dtype), layout)
        sending = dist.isend(laid_out(of(RANK), layout), after, tag=3)
        dist.recv(output, before, tag=3)
        sending.wait()
        check(output, of(before), "send and recv " + what)


def uneven():
    """A different number for every rank."""
    outputs = [zeros(r + 1) for r in range(WORLD)]
    dist.all_gather(outputs, full((RANK + 1,), float(RANK)))
    for r in range(WORLD):
        check(outputs[r], full((r + 1,), float(r)), "all_gather, uneven")
    output = zeros(RANK + 1)
    dist.reduce_scatter(output, [full((r + 1,), float(r)) for r in range(WORLD)])
    check(output, full((RANK + 1,), float(RANK * WORLD)), "reduce_scatter, uneven")
    rows = arange(WORLD * (WORLD + 1) // 2 * 2, dtype=torch.int64).reshape(-1, 2) + 1000 * RANK
    output = zeros(WORLD * (RANK + 1), 2, dtype=torch.int64)
    dist.all_to_all_single(output, rows, [RANK + 1] * WORLD, [r + 1 for r in range(WORLD)])
    first = RANK * (RANK + 1) // 2
    wanted = [arange(first * 2, (first + RANK + 1) * 2).reshape(-1, 2) + 1000 * r for r in range(WORLD)]
    check(output, torch.cat(wanted), "all_to_all_single, uneven")
    tensors = [full((3,), float(RANK)), full((2, 2), 1.0).t()]
    dist.all_reduce_coalesced(tensors)
    check(tensors[0], full((3,), WORLD * (WORLD - 1) / 2), "all_reduce_coalesced")
    check(tensors[1], full((2, 2), float(WORLD)), "all_reduce_coalesced")
    if "fake" in sys.argv:
        return  # the device has no sparse tensors
    sparse = torch.sparse_coo_tensor([[RANK, RANK + 1]], torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (WORLD + 1, 2)).to(DEVICE)
    dist.all_reduce(sparse)
    wanted = torch.zeros(WORLD + 1, 2)
    for r in range(WORLD):
        wanted[r] += torch.tensor([1.0, 2.0])
        wanted[r + 1] += torch.tensor([3.0, 4.0])
    check(sparse.to_dense(), wanted, "all_reduce of sparse tensors")


reductions()
movements()
uneven()
dist.destroy_process_group()
print(f"{checked} results checked")
