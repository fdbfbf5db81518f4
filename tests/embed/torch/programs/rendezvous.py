"""init_method="rondo://": the ranks have a rendezvous, and its store does for torch what torch's own does.

    rendezvous.py store | arguments | variables | missing
"""

import datetime
import os
import sys
import time

import rondo_torch  # noqa: F401
import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TORCH_2 = int(torch.__version__.split(".", maxsplit=1)[0]) >= 2


def refused(kind, says, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert says in str(error), error
    else:
        raise AssertionError(f"{function} went well")


def answers(store):
    """The answers of a store to a fixed list of requests."""
    said = []
    store.set("text", "a value")
    store.set("empty", "")
    said += [store.get("text"), store.get("empty")]
    if TORCH_2:
        said += [store.check(["text", "empty"]), store.check(["text", "absent"])]
    said += [store.add("number", 5), store.add("number", -2), store.get("number")]
    said += [store.compare_set("text", "another", "new"), store.compare_set("text", "a value", "new"), store.get("text")]
    said += [store.compare_set("fresh", "", "made"), store.compare_set("nowhere", "something", "made")]
    said += [store.delete_key("text"), store.delete_key("text")]
    store.wait(["fresh", "number"], datetime.timedelta(seconds=5))
    short = datetime.timedelta(milliseconds=200)
    waits = [lambda: store.wait(["fresh", "absent"], short)]
    if TORCH_2:  # before torch 2 a PrefixStore does not pass it on
        store.set_timeout(short)
        waits += [lambda: store.get("absent"), lambda: store.wait(["absent"])]
    for wait in waits:
        started = time.monotonic()
        refused(RuntimeError, "", wait)
        said.append(0.1 < time.monotonic() - started < 5)
    return said


def store():
    refused(ValueError, "rondo://", dist.init_process_group, "rondo", init_method="rondo://host:1")
    dist.init_process_group("rondo", init_method="rondo://", timeout=datetime.timedelta(seconds=30))
    assert (dist.get_rank(), dist.get_world_size()) == (RANK, WORLD)
    value = torch.ones(5)
    dist.all_reduce(value)
    assert value.tolist() == [WORLD] * 5
    part = dist.new_group([0, WORLD - 1])
    if RANK in (0, WORLD - 1):
        objects = [None, None]
        dist.all_gather_object(objects, RANK, group=part)
        assert objects == [0, WORLD - 1], objects
    ours = dist.distributed_c10d._get_default_store()
    own, torchs = answers(dist.PrefixStore(f"of rank {RANK}", ours)), answers(dist.HashStore())
    assert own == torchs, (own, torchs)
    dist.barrier()
    dist.destroy_process_group()


def arguments():
    """Rank and world size by arguments, where the environment says only where the rendezvous is; and groups that are made again."""
    del os.environ["RANK"], os.environ["WORLD_SIZE"]
    limit = datetime.timedelta(seconds=30)
    for time_ in range(5):
        dist.init_process_group("rondo", init_method="rondo://", rank=RANK, world_size=WORLD, timeout=limit)
        assert (dist.get_rank(), dist.get_world_size()) == (RANK, WORLD)
        value = torch.full((1,), float(time_))
        dist.all_reduce(value)
        assert value.item() == time_ * WORLD
        dist.destroy_process_group()
    dist.init_process_group("rondo", init_method=f"rondo://?rank={RANK}&world_size={WORLD}", timeout=limit)
    dist.barrier()
    dist.destroy_process_group()
    was_in_one = f"was already in a rendezvous as rank {RANK} of {WORLD}"
    refused(ValueError, was_in_one, dist.init_process_group, "rondo", init_method="rondo://?rank=7&world_size=8")


def variables():
    """An error names a wrong variable, and the program may continue with a correct one."""
    wrong = [("RONDO_RAILS", one) for one in ("0", "17", "-1", "two", "", "9" * 5000)]
    wrong += [(name, one) for name in ("RONDO_BLOCKING_WAIT", "RONDO_FP32_ACCUMULATE") for one in ("yes", "2", "")]
    for name, value in wrong:
        os.environ[name] = value
        refused(ValueError, f"variable {name}: expected", dist.init_process_group, "rondo", init_method="rondo://")
        del os.environ[name]
    os.environ |= {"RONDO_RAILS": "2", "RONDO_BLOCKING_WAIT": "1"}
    dist.init_process_group("rondo", init_method="rondo://", timeout=datetime.timedelta(seconds=30))
    value = torch.ones(3_000_000)
    dist.all_reduce(value)
    assert value.eq(WORLD).all()
    dist.destroy_process_group()


def missing():
    """The last rank does not take part."""
    if RANK == WORLD - 1:
        return
    limit = datetime.timedelta(seconds=3)
    refused(RuntimeError, f"absent: {WORLD - 1}", dist.init_process_group, "rondo", init_method="rondo://", timeout=limit)


{"store": store, "arguments": arguments, "variables": variables, "missing": missing}[sys.argv[1]]()
