"""torch's own rendezvous, env://, as rondo run's ranks do it: torch's store is rank 0's, at a port that is kept for it.

    rondo run -N 2 -- python env.py
"""

import datetime
import os

import rondo_torch  # noqa: F401
import torch
import torch.distributed as dist

dist.init_process_group("rondo", timeout=datetime.timedelta(seconds=30))
value = torch.ones(4)
dist.all_reduce(value)
assert value.tolist() == [float(os.environ["WORLD_SIZE"])] * 4, value
dist.destroy_process_group()
print("summed by env://")
