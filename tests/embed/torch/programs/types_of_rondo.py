"""Every type of Rondo's that torch has is reduced, bool by its own rules.

    types_of_rondo.py TYPE...      Rondo's names
"""

import sys

import rondo_torch  # noqa: F401
import torch
import torch.distributed as dist
from checks import RANK, WORLD, expect, raised
from torch.distributed import ReduceOp

dist.init_process_group("rondo")
for name in sys.argv[1:]:
    dtype = getattr(torch, name, None)
    if dtype is None:
        print(f"torch {torch.__version__} has no {name}")
    elif dtype is torch.bool:
        first, all_, none = RANK == 0, True, False
        for op, wanted in (
            (ReduceOp.SUM, [True, True, False]),
            (ReduceOp.MAX, [True, True, False]),
            (ReduceOp.BOR, [True, True, False]),
            (ReduceOp.PRODUCT, [WORLD == 1, True, False]),
            (ReduceOp.MIN, [WORLD == 1, True, False]),
            (ReduceOp.BAND, [WORLD == 1, True, False]),
        ):
            tensor = torch.tensor([first, all_, none])
            dist.all_reduce(tensor, op)
            expect(tensor.tolist() == wanted, f"{op} of bool is {tensor.tolist()}")
        said = raised(lambda: dist.all_reduce(torch.tensor([True]), ReduceOp.AVG))
        expect("avg" in said and "bool" in said, said)
    else:
        for op, wanted in ((ReduceOp.SUM, WORLD * (WORLD + 1) // 2), (ReduceOp.MAX, WORLD)):
            tensor = torch.tensor([RANK + 1, 0]).to(dtype)
            dist.all_reduce(tensor, op)
            expect(tensor.tolist() == [wanted, 0], f"{op} of {name} is {tensor.tolist()}")
dist.destroy_process_group()
