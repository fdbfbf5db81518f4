"""Rank 2 refuses its call and ends before the others are connected to it. They get its error from the store of rondo run."""

import os
import select
import sys
import time
from pathlib import Path

import numpy as np

import rondo
from checks import raises

note = Path(sys.argv[1], "pid")
rondo.init(transport=sys.argv[2], timeout_s=60)
if rondo.rank() == 2:
    with raises(TypeError, "int16"):
        rondo.allreduce(np.ones(3, np.int16))
    note.with_name("new").write_text(str(os.getpid()))
    note.with_name("new").rename(note)
else:
    while not note.exists():
        time.sleep(0.01)
    try:
        select.select([os.pidfd_open(int(note.read_text()))], [], [])
    except ProcessLookupError:
        pass
    with raises(rondo.Mismatch, "rank 2 refused a call of its program (allreduce: TypeError: ", "int16"):
        rondo.allreduce(np.ones(3))
    print("the refusal was reported")
