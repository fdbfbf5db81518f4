#!/usr/bin/env python3
"""Data-parallel training with DistributedDataParallel on Rondo, on data that it makes itself.

    torchrun --nproc-per-node 4 examples/torch_ddp/train.py
    mpirun -n 4 python3 examples/torch_ddp/train.py             # or srun, or rondo run

It has what such programs have: a DistributedSampler, gradients gathered over several batches with no_sync, gradients sent as
bfloat16, SyncBatchNorm where there is a GPU, and a checkpoint by rank 0 after each epoch. Started again with the same
--checkpoint, or by torchrun --max-restarts after a rank has died, it goes on from there, and ends with the same losses.
"""

import argparse
import os
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="rondo", help="backend of torch.distributed: rondo or gloo (default: rondo)")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=4096, help="number of samples in the data set")
    parser.add_argument("--batch", type=int, default=32, help="number of samples of one rank in one pass")
    parser.add_argument("--accumulate", type=int, default=2, metavar="PASSES", help="number of passes for one step of the optimizer")
    parser.add_argument("--hidden", type=int, default=256, help="width of the model")
    parser.add_argument("--bucket-mib", type=float, default=25, help="size of DDP's buckets of gradients")
    parser.add_argument("--bf16", action="store_true", help="send gradients as bfloat16")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="continue from this checkpoint if it exists, and write it after each epoch")
    return parser.parse_args()


def make_data(samples):
    """Points of 32 dimensions, and the labels that an unknown network gives them."""
    made = torch.Generator().manual_seed(7)
    points = torch.randn(samples, 32, generator=made)
    weights = torch.randn(32, 8, generator=made), torch.randn(8, 4, generator=made)
    return TensorDataset(points, torch.tanh(points @ weights[0]) @ weights[1])


def make_model(hidden):
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(32, hidden), torch.nn.BatchNorm1d(hidden, momentum=None), torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 4))  # fmt: skip


def send_as_bf16(_, bucket):
    """As torch's own hook, which wants CUDA and NCCL by name."""
    work = dist.all_reduce(bucket.buffer().to(torch.bfloat16) / dist.get_world_size(), async_op=True)
    return work.get_future().then(lambda sent: bucket.buffer().copy_(sent.value()[0]))


def save(path, **state):
    """Whole or not at all: a process may be killed at any time."""
    torch.save(state, f"{path}.new")
    os.replace(f"{path}.new", path)


def train_epoch(model, optimizer, loader, accumulate):
    """The mean loss over all ranks, and the seconds of each step."""
    total, seconds = torch.zeros(1), []
    optimizer.zero_grad()
    started = time.perf_counter()
    for number, (points, wanted) in enumerate(loader, 1):
        last = number % accumulate == 0
        if last:
            loss = torch.nn.functional.mse_loss(model(points), wanted)
            (loss / accumulate).backward()
            optimizer.step()
            optimizer.zero_grad()
            seconds.append(time.perf_counter() - started)
            started = time.perf_counter()
        else:
            with model.no_sync():
                loss = torch.nn.functional.mse_loss(model(points), wanted)
                (loss / accumulate).backward()
        total += loss.detach()
    total /= len(loader) * dist.get_world_size()
    dist.all_reduce(total)
    return total.item(), seconds


def main():
    options = parse()
    if options.backend == "rondo":
        import rondo_torch  # noqa: F401
    # rondo:// works with every launcher; torch's own env:// needs variables that only torchrun sets.
    dist.init_process_group(options.backend, init_method="rondo://" if options.backend == "rondo" else "env://")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else None

    model = make_model(options.hidden)
    if device is not None and options.backend == "nccl":
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model).to(device)
    model = DistributedDataParallel(model, bucket_cap_mb=options.bucket_mib)
    if options.bf16:
        model.register_comm_hook(None, send_as_bf16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    first = 0
    if options.checkpoint and options.checkpoint.exists():
        saved = torch.load(options.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epochs"]
        if rank == 0:
            print(f"continues after epoch {first - 1}", flush=True)
    dist.barrier()  # so that rank 0 writes the next checkpoint only afterwards

    data = make_data(options.samples)
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, options.batch, sampler=sampler, drop_last=True)
    seconds = []
    for epoch in range(first, options.epochs):
        sampler.set_epoch(epoch)
        loss, steps = train_epoch(model, optimizer, loader, options.accumulate)
        seconds += steps
        if rank == 0:
            if options.checkpoint:
                save(options.checkpoint, model=model.state_dict(), optimizer=optimizer.state_dict(), epochs=epoch + 1)
            print(f"epoch {epoch}  loss {loss:.6f}  step {statistics.median(steps) * 1e3:.2f} ms", flush=True)
    if rank == 0 and seconds:
        print(f"median step {statistics.median(seconds) * 1e6:.0f} us", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
