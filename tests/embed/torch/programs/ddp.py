"""DistributedDataParallel by a backend that is named: the losses, to compare with another backend's.

    ddp.py BACKEND HOOK [cuda | fake]
"""

import sys

import torch
import torch.distributed as dist
from devices import Device
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

backend, hook = sys.argv[1:3]
device = Device(sys.argv[3] if len(sys.argv) > 3 else "cpu").torch
if backend == "rondo":
    import rondo_torch  # noqa: F401
dist.init_process_group(backend)
torch.manual_seed(1)
layers = [torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)]
model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device), bucket_cap_mb=0.02)
if hook == "fp16":
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
if hook == "powersgd":
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=3)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
made = torch.Generator().manual_seed(dist.get_rank())
for step in range(20):
    inputs = torch.randn(16, 64, generator=made).to(device)
    loss = model(inputs).pow(2).mean()
    if step % 2 == 0:  # gradients are accumulated over two steps
        with model.no_sync():
            model(inputs).pow(2).mean().backward()
    model(inputs).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{step} {loss.item():.6f}")
dist.destroy_process_group()
