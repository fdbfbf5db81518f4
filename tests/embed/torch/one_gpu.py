"""Lets PyTorch's tests that want a GPU per rank run where all ranks share one: every GPU that they name is the first."""

import functools

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

TAKE_A_GPU_FIRST = (torch.Tensor.cuda, torch.Tensor.to)  # use the first GPU instead of the one they name


def first(device):
    """Also for devices that are given as numbers or names."""
    if isinstance(device, int) and not isinstance(device, bool):
        return torch.device("cuda", 0)
    if isinstance(device, str) and device.startswith("cuda"):
        return torch.device("cuda", 0)
    return torch.device("cuda", 0) if isinstance(device, torch.device) and device.type == "cuda" else device


class FirstGpu(TorchFunctionMode):
    def __torch_function__(self, function, types, given=(), named=None):
        if function in TAKE_A_GPU_FIRST and len(given) > 1:
            given = (given[0], first(given[1]), *given[2:])
        if named and "device" in named:
            named = {**named, "device": first(named["device"])}
        return function(*given, **(named or {}))


def pretend(world: int) -> None:
    """Called before the suite is imported: pretends that there is a GPU for each rank."""
    if torch.cuda.is_available():
        torch.cuda.init()  # examines each GPU that is counted
    torch.cuda.device_count = lambda: world
    if hasattr(torch, "accelerator"):
        torch.accelerator.device_count = torch.cuda.device_count


def share() -> None:
    """Called when the suite has been imported."""
    FirstGpu().__enter__()
    for name in ("set_device", "synchronize"):
        setattr(torch.cuda, name, functools.partial(lambda of_gpu, device=None: of_gpu(0), getattr(torch.cuda, name)))
    begin = DistributedDataParallel.__init__

    @functools.wraps(begin)
    def begin_on_first(self, module, device_ids=None, output_device=None, *more, **named):
        begin(self, module, device_ids and [first(device) for device in device_ids], first(output_device), *more, **named)

    DistributedDataParallel.__init__ = begin_on_first
