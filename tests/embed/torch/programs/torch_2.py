"""What torch 2 has beyond 1.13: coalesced and functional collectives, groups that are split, FSDP on the host."""

import datetime

import rondo_torch
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from checks import RANK, WORLD, expect
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

ALL = WORLD * (WORLD + 1) / 2  # the sum over ranks that contribute their number plus one


def coalesced():
    ours = [torch.full((3,), RANK + 1.0), torch.full((2, 2), RANK + 1.0)]
    with dist._coalescing_manager():
        for tensor in ours:
            dist.all_reduce(tensor)
    expect(all((tensor == ALL).all() for tensor in ours), "sums that were coalesced")

    parts = [torch.full((2,), float(RANK)), torch.full((1, 3), 10.0 + RANK)]
    wholes = functional.all_gather_into_tensor_coalesced(parts, dist.group.WORLD)
    for whole, part in zip(wholes, parts):
        expected = torch.cat([part - RANK + rank for rank in range(WORLD)])
        expect(torch.equal(whole, expected), f"all_gather_into_tensor_coalesced: {whole}")

    wholes = [torch.arange(2.0 * WORLD) * (RANK + 1), torch.arange(3.0 * WORLD).view(WORLD, 3) * (RANK + 1)]
    parts = functional.reduce_scatter_tensor_coalesced(wholes, "sum", [0, 0], dist.group.WORLD)
    for part, whole in zip(parts, wholes):
        expected = (whole / (RANK + 1) * ALL).chunk(WORLD)[RANK]
        expect(torch.equal(part, expected), f"reduce_scatter_tensor_coalesced: {part}")

    right, left = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    received = torch.zeros(1)
    messages = [dist.P2POp(dist.isend, torch.full((1,), float(RANK)), right), dist.P2POp(dist.irecv, received, left)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    expect(received[0] == left, "messages in a batch")


def groups():
    halves = [[rank for rank in range(WORLD) if rank % 2 == half] for half in (0, 1)]
    if hasattr(rondo_torch.RondoBackend, "supports_splitting"):
        half = dist.split_group(split_ranks=halves, timeout=datetime.timedelta(seconds=30))
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=half)
        expect(tensor[0] == len(halves[RANK % 2]), "a sum in a group that was split off")
    # As with init_process_group(device_id=...), which is not meant for the host: ranks that are not in the new group
    # take part in its creation.
    world = dist.distributed_c10d._get_default_group()
    world.bound_device_id = torch.device("cpu", 0)
    pair = dist.new_group([0, 1])
    world.bound_device_id = None
    if RANK < 2:
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=pair)
        expect(tensor[0] == 2, "a sum in a new group of a world that is bound to a device")
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=45), dist.group.WORLD)
    dist.barrier()
    dist.monitored_barrier()


def losses(shard):
    torch.manual_seed(1)
    model = shard(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    made = torch.Generator().manual_seed(RANK)
    seen = []
    for _ in range(5):
        loss = model(torch.randn(8, 16, generator=made)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach() / WORLD
        dist.all_reduce(mean)
        seen.append(mean.item())
    return torch.tensor(seen)


def sharded():
    ours = losses(torch.nn.parallel.DistributedDataParallel)
    for name, shard in (
        ("FSDP", lambda model: FullyShardedDataParallel(model, device_id=torch.device("cpu"))),
        ("fully_shard", lambda model: fully_shard(model, mesh=dist.init_device_mesh("cpu", (WORLD,)))),
    ):
        theirs = losses(shard)
        expect(torch.allclose(ours, theirs, atol=1e-5), f"{name} learns as DDP does: {theirs} and {ours}")


dist.init_process_group("rondo")
coalesced()
groups()
sharded()
dist.destroy_process_group()
