"""Arrays of others, by DLPack: a wrapper around NumPy's that shows nothing else, and torch's where it is installed."""

import numpy as np

import rondo
from checks import expect, raises

rondo.init()
RANK, SIZE = rondo.rank(), rondo.size()
TOTAL = sum(range(SIZE))


class Foreign:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


whole = np.arange(24, dtype=np.float32).reshape(4, 6) + RANK
for layout in (whole.copy(), whole.T, whole[::-1, ::2], whole[1:2, :0], np.array(RANK, np.float32)):
    array = layout.copy(order="K") if layout.flags.c_contiguous else layout
    right = SIZE * (array - RANK) + TOTAL
    expect(np.array_equal(rondo.allreduce(Foreign(array), op=rondo.Sum), right), f"a sum of {array.shape} {array.strides}")
    copy = whole.copy() if array.base is whole else None
    rondo.allreduce_(Foreign(array), op=rondo.Sum)
    expect(np.array_equal(array, right), f"the same in place {array.shape} {array.strides}")
    if copy is not None:
        whole[...] = copy
gathered = rondo.allgather(Foreign(np.full((1 + RANK, 2), RANK, np.int64)))
expect(gathered.shape == (SIZE + TOTAL, 2) and gathered[-1, 1] == SIZE - 1, "rows of all ranks")
rondo.broadcast_parameters([Foreign(whole)])
expect(whole[0, 0] == 0, "parameters")



class Negated(Foreign):
    """As views of torch's whose sign is kept aside: what it exports is the memory below, without a word."""

    def is_neg(self):
        return True

    def detach(self):
        return self

    def resolve_neg(self):
        return Resolved(-self.array)

    def copy_(self, other):
        self.array[...] = -other.array
        return self


class Resolved(Foreign):
    def detach(self):
        raise AssertionError("it is detached already")


class Erasing(np.ndarray):
    """Erases its memory when it is deleted. The memory itself stays in `memories`, so a late read is defined, and wrong."""

    def __del__(self):
        self[...] = np.nan


memories = []


class Short(Negated):
    """An array whose resolved copy lives only as long as its export."""

    def resolve_neg(self):
        memories.append(-self.array)
        return Resolved(memories[-1].view(Erasing))


below = np.array([1.0, 2.0, 3.0], np.float32) * (RANK + 1)
factor = sum(rank + 1 for rank in range(SIZE))
view = Negated(below)
expect(rondo.allreduce(view, op=rondo.Sum).tolist() == [-factor, -2 * factor, -3 * factor], "a sum of what is negated")
expect(rondo.allgather(view)[:3].tolist() == [-1, -2, -3], "rows of what is negated")
expect(rondo.broadcast(view, SIZE - 1).tolist() == [-SIZE, -2 * SIZE, -3 * SIZE], "a broadcast of what is negated")
expect(rondo.allreduce_(view, op=rondo.Sum) is view and below.tolist() == [factor, 2 * factor, 3 * factor], "in place, below the sign")
below[...] = RANK + 1
rondo.broadcast_(view, SIZE - 1)
expect(below.tolist() == [SIZE] * 3, "a broadcast in place, below the sign")
below[...] = RANK + 1
rondo.grouped_allreduce_([view], op=rondo.Sum)
expect(below.tolist() == [factor] * 3, "fused in place, below the sign")

for averages in (False, True):
    short, steps = Short(np.array([1.0, 2.0, 3.0], np.float32) * (RANK + 1)), []
    outer = rondo.DistributedOptimizer(steps.append, op=rondo.Sum, backward_passes_per_step=2, average_aggregated_gradients=averages)
    for _ in range(2):
        outer([(short, "v")])
    passes = 1 if averages else 2
    got = np.asarray(steps[0][0][0]).tolist()
    expect(got == [-passes * factor * n for n in (1, 2, 3)], f"two passes of what is negated and resolved for a moment: {got}")
    for what, call in (
        ("allreduce", lambda: rondo.allreduce(short, op=rondo.Sum)),
        ("allreduce_async", lambda: rondo.synchronize(rondo.allreduce_async(short, op=rondo.Sum))),
        ("grouped_allreduce", lambda: rondo.grouped_allreduce([short], op=rondo.Sum)[0]),
    ):
        expect(call().tolist() == [-factor, -2 * factor, -3 * factor], f"{what} of what is resolved for a moment")

try:
    import torch
except ImportError:
    print("no torch here")
    rondo.shutdown()
    raise SystemExit from None

for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64):
    tensor = torch.arange(12).reshape(3, 4).to(dtype) + RANK
    right = (SIZE * torch.arange(12).reshape(3, 4) + TOTAL).to(dtype)
    got = rondo.allreduce(tensor, op=rondo.Sum)
    expect(isinstance(got, torch.Tensor) and got.dtype == dtype and torch.equal(got, right), f"a sum of {dtype}: {got}")
    (got,) = rondo.grouped_allreduce([tensor.T], op=rondo.Sum)
    expect(got.dtype == dtype and torch.equal(got, right.T), f"a fused sum of {dtype}: {got}")
    expect(rondo.allreduce_(tensor.T, op=rondo.Sum).data_ptr() == tensor.data_ptr() and torch.equal(tensor, right), f"in place, {dtype}")
    rows = rondo.allgather(torch.full((1, 2), RANK).to(dtype))
    expect(rows.dtype == dtype and rows.tolist() == [[rank, rank] for rank in range(SIZE)], f"rows of {dtype}: {rows}")
if not torch.__version__.startswith("1."):  # torch 1 does not export bool
    got = rondo.allreduce(torch.tensor([RANK == 0, True, False]), op=rondo.Max)
    expect(got.dtype == torch.bool and got.tolist() == [True, True, False], f"bool: {got}")
try:
    half = rondo.allreduce(torch.ones(2, dtype=torch.bfloat16), op=rondo.Sum, postscale_factor=0.5)
    expect(half.tolist() == [SIZE / 2] * 2, "bfloat16 by a factor")
except TypeError as error:
    expect("ml_dtypes" in str(error), str(error))
model = torch.nn.Linear(3, 2)
with torch.no_grad():
    model.weight.fill_(float(RANK))
rondo.broadcast_parameters(dict(model.named_parameters()), root_rank=SIZE - 1)
expect(torch.all(model.weight == SIZE - 1), "parameters that want gradients")
model(torch.ones(1, 3)).sum().backward()
steps = []
rondo.DistributedOptimizer(steps.append)([(model.weight.grad, model.weight)])
expect(isinstance(steps[0][0][0], torch.Tensor) and torch.all(steps[0][0][0] == 1), "gradients come back as tensors")
parts, steps = torch.tensor([1 + 2j, 3 - 1j, 2 + 2j, 1j]).conj(), []
twice = rondo.DistributedOptimizer(steps.append, op=rondo.Sum, backward_passes_per_step=2)
for _ in range(2):
    twice([(parts.imag, "v")])
expect(steps[0][0][0].tolist() == [2 * SIZE * part for part in (-2, 1, -2, -1)], f"imaginary parts in two passes: {steps[0][0][0]}")
steps = []
twice = rondo.DistributedOptimizer(steps.append, op=rondo.Sum, backward_passes_per_step=2)
for _ in range(2):
    twice([(model.weight.grad, model.weight), (torch.tensor(1.5), "no dimensions")])
expect(isinstance(steps[0][0][0], torch.Tensor) and torch.all(steps[0][0][0] == 2 * SIZE), "sums of two passes are tensors")
expect(isinstance(steps[0][1][0], torch.Tensor) and steps[0][1][0] == 3 * SIZE, "those without dimensions, too")
try:
    for _ in range(2):
        twice([(torch.ones(2, dtype=torch.bfloat16), "half")])
    expect(steps[1][0][0].tolist() == [2 * SIZE] * 2, "bfloat16 in two passes")
except TypeError as error:
    expect("ml_dtypes" in str(error), str(error))

# Ordinary expressions make views whose sign or conjugation torch stores separately from the data.
base = torch.tensor([1 + 2j, 3 - 1j, 0 + 4j, 5 + 0j] * SIZE) * (RANK + 1)
own = torch.tensor([-2.0, 1.0, -4.0, 0.0] * SIZE)
views = {"conj().imag": lambda: base.conj().imag, "_neg_view": lambda: torch._neg_view(own.neg() * (RANK + 1))}
for what, make in views.items():
    mine = own * (RANK + 1)
    rows = torch.cat([own * (rank + 1) for rank in range(SIZE)])
    expect(make().is_neg() and torch.equal(make(), mine), f"{what} is what it is to be")
    expect(torch.equal(rondo.allreduce(make(), op=rondo.Sum), own * factor), f"allreduce of {what}")
    expect(torch.equal(rondo.grouped_allreduce([make()], op=rondo.Sum)[0], own * factor), f"grouped_allreduce of {what}")
    expect(torch.equal(rondo.allgather(make()), rows), f"allgather of {what}")
    expect(torch.equal(rondo.broadcast(make(), SIZE - 1), own * SIZE), f"broadcast of {what}")
    expect(torch.equal(rondo.alltoall(make()), rows.view(SIZE, SIZE, 4)[:, RANK].reshape(-1)), f"alltoall of {what}")
    expect(torch.equal(rondo.reducescatter(make(), op=rondo.Sum), (own * factor)[4 * RANK : 4 * RANK + 4]), f"reducescatter of {what}")
    view = make()
    expect(rondo.allreduce_(view, op=rondo.Sum) is view and torch.equal(view, own * factor), f"allreduce_ of {what}: {view}")
expect(torch.equal(base.imag, own * -factor), "what is below such a view was written, with its own sign")
for place, right in ((lambda view: rondo.broadcast_(view, SIZE - 1), SIZE), (lambda view: rondo.grouped_allreduce_([view], op=rondo.Sum), factor),
                     (lambda view: rondo.broadcast_parameters({"view": view}, SIZE - 1), SIZE)):  # fmt: skip
    view = views["_neg_view"]()
    place(view)
    expect(torch.equal(view, own * right), f"in place: {view}")
conjugated = (torch.tensor([1 + 2j, 3 - 1j]) * (RANK + 1)).conj()
expect(conjugated.is_conj() and torch.equal(rondo.broadcast(conjugated, SIZE - 1), torch.tensor([1 - 2j, 3 + 1j]) * SIZE), "broadcast of a conjugated view")
expect(torch.equal(rondo.allgather(conjugated)[:2], torch.tensor([1 - 2j, 3 + 1j])), "allgather of a conjugated view")
rondo.broadcast_(conjugated, SIZE - 1)
expect(torch.equal(conjugated, torch.tensor([1 - 2j, 3 + 1j]) * SIZE), "a conjugated view in place")
if hasattr(torch, "_efficientzerotensor"):  # zeros without memory, like the gradients of forward mode
    expect(torch.equal(rondo.allreduce(torch._efficientzerotensor(3), op=rondo.Sum), torch.zeros(3)), "zeros that have no memory")
with raises(TypeError, "complex64"):
    rondo.allreduce(torch.ones(2, dtype=torch.complex64))
print("torch", torch.__version__)
rondo.shutdown()
