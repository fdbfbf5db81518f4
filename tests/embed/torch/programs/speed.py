"""What a backend takes for an all-reduce and for a step of DDP, in us, as JSON by rank 0: medians.

    speed.py BACKEND [cuda]
"""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

backend = sys.argv[1]
device = torch.device(sys.argv[2] if len(sys.argv) > 2 else "cpu")


def over():
    """Waits until all work has ended."""
    if device.type == "cuda":
        torch.cuda.synchronize()


if backend == "rondo":
    import rondo_torch  # noqa: F401


def median_us(run, times):
    taken = []
    for _ in range(times):
        over()
        started = time.perf_counter()
        run()
        over()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e6


def all_reduce(size):
    tensor = torch.zeros(size // 4, device=device)
    for _ in range(5):
        dist.all_reduce(tensor)
    dist.barrier()
    return median_us(lambda: dist.all_reduce(tensor), 2000 if size < 2**16 else 50)


def step(bucket_mib):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6))).to(device)  # 6 MiB of gradients
    model = DistributedDataParallel(model, bucket_cap_mb=bucket_mib)
    # Little arithmetic for the size of the gradients, because Debian's BLAS is slow.
    inputs = torch.randn(1, 512).to(device)

    def run():
        model(inputs).sum().backward()
        model.zero_grad()

    for _ in range(5):
        run()
    dist.barrier()
    return median_us(run, 30)


dist.init_process_group(backend)
measured = {f"all_reduce {name}": all_reduce(size) for name, size in
            (("4 B", 4), ("4 KiB", 2**12), ("64 KiB", 2**16), ("1 MiB", 2**20), ("16 MiB", 2**24))}  # fmt: skip
measured |= {f"DDP step, buckets of {mib} MiB": step(mib) for mib in (0.1, 1, 4, 25)}
if dist.get_rank() == 0:
    print(json.dumps(measured))
dist.destroy_process_group()
