"""A program that never names rondo_torch."""

import torch
import torch.distributed as dist

for init_method in ("env://", "rondo://"):
    dist.init_process_group("rondo", init_method=init_method)
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [dist.get_world_size()] * 4, tensor
    dist.destroy_process_group()
