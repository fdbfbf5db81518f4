"""What programs here check with; whoever finds something wrong ends."""

import os
import sys

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def expect(condition, what):
    if not condition:
        sys.exit(f"rank {RANK}: not so: {what}")


def raised(call):
    """What the call was refused with."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return sys.exit(f"rank {RANK}: nothing was raised")
