"""Rank 2 refuses its call and destroys its group before the others are connected to it; its process ends, or stays."""

import os
import select
import sys
import time
from pathlib import Path

import rondo_torch  # noqa: F401
import torch
import torch.distributed as dist
from checks import RANK, WORLD, expect, raised

folder, how = Path(sys.argv[1]), sys.argv[2]


def put(name, text=""):
    (folder / f"{name}.new").write_text(text)
    (folder / f"{name}.new").rename(folder / name)


def await_file(name):
    while not (folder / name).exists():
        time.sleep(0.01)


dist.init_process_group("rondo")
if RANK == 2:
    said = raised(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int16)))
    expect("Short" in said, said)
    dist.destroy_process_group()
    put("left", str(os.getpid()))
    if how == "stays":
        for rank in range(WORLD):
            if rank != RANK:
                await_file(f"over {rank}")
else:
    await_file("left")
    if how == "ends":
        try:
            select.select([os.pidfd_open(int((folder / "left").read_text()))], [], [])
        except ProcessLookupError:
            pass
    said = raised(lambda: dist.all_reduce(torch.ones(3)))
    put(f"over {RANK}")
    expect("rank 2 refused a call of its program (all_reduce: rondo does not reduce elements of type Short" in said, said)
    dist.destroy_process_group()
