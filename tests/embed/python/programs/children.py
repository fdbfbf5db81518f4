"""Ranks that are children of one process, the first of which ends while the others still need it.

    children.py fork | forkserver   return | sys.exit | os._exit | raise
"""

import multiprocessing
import os
import sys
import tempfile

import numpy as np

import rondo
from checks import expect, raises

WORLD = 3
START, END = sys.argv[1:3]


def rank_of(rank, place, is_gone):
    rondo.init(f"file://{place}", rank, WORLD, timeout_s=100, interface="lo")
    if END == "raise" and rank != 0:
        # Even the first of these calls may report it.
        with raises(rondo.Aborted, "rank 0", "LookupError: no such file of data"):
            rondo.barrier()
            is_gone.wait()
            rondo.broadcast(np.zeros(4), 0)
            rondo.barrier()
        return
    rondo.barrier()
    if rank == 0:
        rondo.broadcast(np.full(4, 7.0), 0)
    else:
        is_gone.wait()
        expect((rondo.broadcast(np.zeros(4), 0) == 7).all(), "what a rank has sent that is gone")
        with raises(rondo.RondoError, "rank 0 closed"):
            rondo.barrier()
    if END == "sys.exit":
        sys.exit(0)
    if END == "os._exit":
        os._exit(0)
    if END == "raise":
        raise LookupError("no such file of data")


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
    codes = [one.exitcode for one in ranks]
    if codes != [1 if END == "raise" else 0, 0, 0]:
        sys.exit(f"the ranks ended with {codes}")
