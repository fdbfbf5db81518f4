"""Ranks that are children of one process: the first ends as soon as it has sent, the others receive when it is gone.

    children.py fork | forkserver   return | sys.exit | os._exit
"""

import multiprocessing
import os
import sys
import tempfile

import rondo_torch  # noqa: F401
import torch
import torch.distributed as dist

WORLD = 3
START, END = sys.argv[1:3]


def rank_of(rank, place, is_gone):
    dist.init_process_group("rondo", init_method=f"file://{place}", rank=rank, world_size=WORLD)
    tensor = torch.ones(4)
    # First messages as well: both ranks must make a lane, and later the other ranks will not be there.
    if rank == 0:
        for other in range(1, WORLD):
            dist.send(tensor, other)
    else:
        dist.recv(tensor, 0)
    dist.all_reduce(tensor)
    if rank == 0:
        for other in range(1, WORLD):
            dist.send(tensor * other, other)
    else:
        is_gone.wait()
        dist.recv(tensor, 0)
        if not (tensor == WORLD * rank).all():
            sys.exit(f"rank {rank}: {tensor} has come")
    if END == "sys.exit":
        sys.exit(0)
    if END == "os._exit":
        os._exit(0)


if __name__ == "__main__":
    context = multiprocessing.get_context(START)
    first_is_gone = context.Event()
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=rank_of, args=(rank, f"{folder}/rendezvous", first_is_gone)) for rank in range(WORLD)]
        for one in ranks:
            one.start()
        ranks[0].join()
        first_is_gone.set()
        for one in ranks[1:]:
            one.join()
    if any(one.exitcode for one in ranks):
        sys.exit(f"the ranks ended with {[one.exitcode for one in ranks]}")
