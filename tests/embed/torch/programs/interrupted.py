"""Ctrl-C in everything that waits: it ends the wait, and what was started goes on.

    interrupted.py operations | new_group | rendezvous | store

A signal that comes before its wait would prove nothing, and fail nothing.
"""

import datetime
import os
import signal
import sys
import threading
import time

import rondo_torch
import torch
import torch.distributed as dist
from checks import RANK, WORLD, expect

LONG = datetime.timedelta(seconds=100)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for commands in the background


def interrupted(what, call):
    """Sends Ctrl-C while the call runs. It must end the call."""
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    try:
        call()
    except KeyboardInterrupt:
        expect(time.monotonic() - started < 20, f"Ctrl-C ends {what} at once")
        return
    sys.exit(f"rank {RANK}: Ctrl-C does not end {what}")


def operations():
    """Of rank 0, while rank 1 waits for it to be interrupted and only then does its part."""
    dist.init_process_group("rondo", timeout=LONG)
    store = dist.distributed_c10d._get_default_store()
    group = dist.distributed_c10d._get_default_group()
    large = 5_000_000
    message, sent = torch.zeros(3), torch.arange(float(large))
    reduced, summed = torch.full((1000,), float(RANK + 1)), torch.full((10,), float(RANK + 1))
    sparse = torch.sparse_coo_tensor([[RANK]], [1.0], (2,))

    def wait_with_limit():
        dist.all_reduce(summed, async_op=True).wait(LONG)

    for what, at_0, at_1 in (
        ("recv", lambda: dist.recv(message, 1), lambda: dist.send(torch.full((3,), 5.0), 0)),
        ("send", lambda: dist.send(sent, 1), lambda: dist.recv(message.new_empty(large), 0)),
        ("all_reduce", lambda: dist.all_reduce(reduced), lambda: dist.all_reduce(reduced)),
        ("wait", wait_with_limit, wait_with_limit),
        ("monitored_barrier", group.monitored_barrier, None),
        ("barrier", dist.barrier, dist.barrier),
    ):
        if RANK == 0:
            interrupted(what, at_0)
            store.set(what, "interrupted")
        else:
            store.wait([what], LONG)
            if at_1:
                at_1()
    dist.barrier()
    expect((reduced == 3).all() and (summed == 3).all(), "sums whose wait was interrupted are right")
    if RANK == 0:
        while not (message == 5).all():  # the message arrives, though no call waits for it any more
            time.sleep(0.001)
        interrupted("a sum of sparse tensors", lambda: dist.all_reduce(sparse))
        store.set("sparse", "interrupted")
        started = time.monotonic()
        dist.destroy_process_group()
        expect(time.monotonic() - started < 5, "nothing that was given up is waited for")
        store.wait(["failed"], LONG)
        return
    store.wait(["sparse"], LONG)
    try:
        while True:
            dist.all_reduce(sparse)
    except RuntimeError as error:
        expect("sparse tensors" in str(error) and "rank 0" in str(error), error)
    store.set("failed", "yes")


def new_group():
    dist.init_process_group("rondo", timeout=LONG)
    if RANK == 0:
        interrupted("new_group", lambda: dist.new_group([0, 1]))
    dist.barrier()
    dist.destroy_process_group()


def rendezvous():
    if RANK == 0:
        interrupted("init_process_group", lambda: dist.init_process_group("rondo", init_method="rondo://", timeout=LONG))


def store():
    dist.init_process_group("rondo", init_method=f"rondo://?rank={RANK}&world_size={WORLD}", timeout=LONG)
    ours = dist.distributed_c10d._get_default_store()
    interrupted("RondoStore.get", lambda: ours.get("never"))
    interrupted("RondoStore.wait", lambda: ours.wait(["never"], LONG))
    ours.set("now", "there")
    expect(ours.get("now") == b"there", "the store goes on")
    dist.barrier()
    dist.destroy_process_group()


expect(rondo_torch.version(), "it is there")
{"operations": operations, "new_group": new_group, "rendezvous": rendezvous, "store": store}[sys.argv[1]]()
