"""Checks for the programs here. A process whose check fails ends."""

import os
import sys

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def expect(condition, what):
    if not condition:
        sys.exit(f"rank {RANK}: not so: {what}")


def raised(call):
    """The text of the exception that the call must raise."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return sys.exit(f"rank {RANK}: nothing was raised")
