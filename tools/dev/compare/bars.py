"""What Rondo is held to.

A bar is a speed-up, as every ratio here: the time of what Rondo is held against, divided by Rondo's. "At most 0.8 of the time
of ..." is therefore a bar of 1 / 0.8.
"""

import math
from dataclasses import dataclass

from grid import (
    ALLOCATED_FLOOR, BANDWIDTH_BYTES, BYTES, CACHE_LINE, FLOOR_BYTES, HOSTS, KIB, LATENCY_BYTES, MEMORY_FLOOR, MIB, PEERS, RANKS, RONDO, RONDO_ALLOCATED, SHM_RANKS, SOCKETS,
    WIRE, WIRE_BYTES, Cell, sizes,
)  # fmt: skip

MISSED_FRACTION = 0.8


@dataclass(frozen=True)
class Rival:
    """What Rondo is held against in a cell: that of these programs which is fastest there."""

    what: str
    programs: tuple[str, ...]


BEST_PEER = Rival("the best peer", tuple(dict.fromkeys(peer.name for peers in PEERS.values() for peer in peers)))
BEST_MPI = Rival("the best MPI", ("openmpi", "mpich"))
GLOO = Rival("Gloo", ("gloo",))
RAW_SOCKETS = Rival("raw sockets", (SOCKETS.name,))
THE_WIRE = Rival("the wire", (WIRE.name,))
A_CACHE_LINE = Rival("a cache line one way", (CACHE_LINE.name,))
MEMORY = Rival("the memory floor", (MEMORY_FLOOR.name,))
MEMORY_OF_ALLOCATED = Rival("the memory floor of allocated buffers", (ALLOCATED_FLOOR.name,))


@dataclass(frozen=True)
class Bar:
    """Rondo's speed-up must be at least this, in each cell that the bar covers, or in the geometric mean over all of them."""

    at_least: float
    collective: str = "all_reduce"
    ranks: tuple[int, ...] = tuple(RANKS)
    min_bytes: int = 0
    max_bytes: int = 1 << 62
    against: Rival = BEST_PEER
    mean: bool = False  # the geometric mean over the grid's cells, which must all have been measured
    between_hosts: bool = False  # false: within one host
    transport: str = "tcp"
    of: str = RONDO.name  # which of Rondo's programs
    at_most: float = math.inf  # limit of a floor: a faster result means that the floor is wrong

    def covers(self, cell: Cell) -> bool:
        what = cell.collective == self.collective and cell.between_hosts == self.between_hosts and cell.transport == self.transport
        return what and cell.ranks in self.ranks and self.min_bytes <= cell.bytes <= self.max_bytes

    def grid(self) -> set[tuple[int, int]]:
        """The ranks and bytes that a mean is of."""
        return {
            (count, size)
            for count in self.ranks
            for size in sizes(self.collective, count)
            if self.min_bytes <= size <= self.max_bytes
        }

    def is_missed_by(self, speed_up_by_round: list[float]) -> bool:
        missed = sum(not self.at_least <= value <= self.at_most for value in speed_up_by_round)
        return missed >= math.ceil(MISSED_FRACTION * len(speed_up_by_round))


# In each cell every bar that covers the cell applies.
BARS = [
    Bar(1.0),
    Bar(1 / 0.7, ranks=(2,), mean=True),
    Bar(1 / 0.6, ranks=(4,), mean=True),
    Bar(1 / 0.6, ranks=(8,), mean=True),
    Bar(1 / 0.8, ranks=(4, 8), min_bytes=64 * MIB, max_bytes=64 * MIB),
    Bar(1.0, ranks=(2,), max_bytes=LATENCY_BYTES, against=BEST_MPI),
    Bar(1 / 0.1, ranks=(2,), max_bytes=LATENCY_BYTES, against=GLOO),
    Bar(1 / 1.4, ranks=(2,), max_bytes=LATENCY_BYTES, against=RAW_SOCKETS),
    # Bus bandwidth: with two ranks it equals bytes / time, so the ratio of times is the ratio of bandwidths.
    Bar(0.85, ranks=(2,), min_bytes=BANDWIDTH_BYTES, against=RAW_SOCKETS),
    *(Bar(1 / 0.8, collective=name, mean=True) for name in BYTES if name != "all_reduce"),
    Bar(1 / 0.8, ranks=tuple(HOSTS), max_bytes=16 * KIB, between_hosts=True),
    Bar(1.0, ranks=tuple(HOSTS), min_bytes=WIRE_BYTES, max_bytes=WIRE_BYTES, between_hosts=True),
    Bar(1 / 0.9, ranks=tuple(SHM_RANKS), transport="shm"),
    Bar(1 / 0.5, ranks=(2,), mean=True, transport="shm"),
    *(Bar(1 / 0.35, ranks=(count,), mean=True, transport="shm") for count in SHM_RANKS if count != 2),
    Bar(1 / 0.7, ranks=(2,), max_bytes=LATENCY_BYTES, transport="shm"),
    Bar(1 / 3, ranks=(2,), max_bytes=LATENCY_BYTES, against=A_CACHE_LINE, transport="shm"),
    Bar(1 / 0.35, ranks=(2,), min_bytes=64 * MIB, max_bytes=64 * MIB, transport="shm"),
    Bar(0.75, ranks=(2,), min_bytes=FLOOR_BYTES, against=MEMORY, transport="shm", at_most=1.0),
    Bar(0.75, ranks=(2,), min_bytes=FLOOR_BYTES, against=MEMORY_OF_ALLOCATED, transport="shm", of=RONDO_ALLOCATED.name, at_most=1.0),
    *(Bar(1 / 0.5, collective=name, ranks=tuple(SHM_RANKS), mean=True, transport="shm") for name in BYTES if name != "all_reduce"),
    Bar(1 / 1.15, ranks=tuple(HOSTS), min_bytes=WIRE_BYTES, max_bytes=WIRE_BYTES, against=THE_WIRE, between_hosts=True),
]
