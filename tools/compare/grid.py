"""What tools/compare measures: the grid, the programs with every flag they get, and the bars. All of it is in this file."""

import os
from dataclasses import dataclass, field
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20

ALL_REDUCE_BYTES = [4, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
OTHER_BYTES = [4, KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB]
# What every program here has so far. Rondo's other collectives join as they come.
BYTES = {"all_reduce": ALL_REDUCE_BYTES, "broadcast": OTHER_BYTES, "barrier": [0]}
QUICK_BYTES = {"all_reduce": [4, 64 * KIB, 4 * MIB], "broadcast": [16 * KIB], "barrier": [0]}
# Broadcast has one buffer in every peer's interface, and a barrier none: they count as in place.
PLACES = {"all_reduce": ["out", "in"], "broadcast": ["in"], "barrier": ["in"]}

RANKS = [2, 4]
ROUNDS = 5
SECONDS_PER_POINT = 0.2
WARM_UP_SECONDS = 0.3
TIMEOUT_S = 120  # of one program in one cell and round


@dataclass(frozen=True)
class Condition:
    """Under what network a table is measured."""

    name: str
    what: str
    cubic_namespace: bool  # a fresh network namespace whose loopback routes ask for cubic (needs root)
    rondo_unprivileged: bool  # Rondo runs as an ordinary user where this program is root


CUBIC = Condition("cubic", "a network namespace of its own, congestion control cubic for all", True, False)
DEFAULT = Condition("default", "the machine's own loopback and congestion control, Rondo without privileges", False, True)


@dataclass(frozen=True)
class Cell:
    """One thing to compare: everything that all programs must do alike."""

    condition: str
    transport: str
    collective: str
    ranks: int
    bytes: int
    place: str  # "out" or "in"

    def key(self) -> str:
        return f"{self.condition} {self.transport} {self.collective} n={self.ranks} {self.bytes}B {self.place}"


def size_word(count: int) -> str:
    """As the drivers read sizes."""
    for unit, word in ((MIB, "m"), (KIB, "k")):
        if count and count % unit == 0:
            return f"{count // unit}{word}"
    return str(count)


@dataclass(frozen=True)
class Program:
    name: str
    flags: tuple[str, ...] = ()  # as documented best for this transport
    variables: dict[str, str] = field(default_factory=dict)
    is_rondo: bool = False

    def command(self, binaries: Path, cell: Cell) -> list[str]:
        shared = ["-c", cell.collective, "-b", cell.place, "-p", self.name, "-t", str(SECONDS_PER_POINT), "-w", str(WARM_UP_SECONDS)]
        if cell.bytes:
            shared += ["-s", size_word(cell.bytes)]
        driver = str(binaries / f"{self.driver()}_bench")
        ranks = str(cell.ranks)
        if self.driver() == "openmpi":
            yielding = "1" if cell.ranks > (os.cpu_count() or 1) else "0"  # as Open MPI's FAQ advises when oversubscribed
            return ["mpirun.openmpi", "-n", ranks, "--host", f"localhost:{ranks}", *self.flags,
                    "--mca", "mpi_yield_when_idle", yielding, driver, *shared]  # fmt: skip
        if self.driver() == "mpich":
            return ["mpirun.mpich", "-n", ranks, *self.flags, driver, *shared]
        return [driver, "-n", ranks, *self.flags, *shared]

    def driver(self) -> str:
        return "rondo" if self.is_rondo else self.name


RONDO = Program("rondo", ("-a", "127.0.0.1"), is_rondo=True)
# The same program once more: what differs between the two is noise.
RONDO_AGAIN = Program("rondo_again", RONDO.flags, is_rondo=True)

PEERS = {
    "tcp": [
        # Its best algorithm counts. The Algorithm classes (o:...) exist in place only and count out of place too, in Gloo's favour.
        Program("gloo", ("-h", "127.0.0.1", "-T", "tcp", "-a", "ring,bcube,o:ring_chunked,o:hd")),
        Program("openmpi", ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
                            "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                            "--mca", "oob_tcp_if_include", "lo")),  # fmt: skip
        # Debian's MPICH is ch4:ucx. NOLOCAL turns its own shared memory off, UCX_TLS that of UCX.
        Program("mpich", ("-launcher", "fork", "-iface", "lo"), {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}),
    ],
}  # fmt: skip
TRANSPORTS = list(PEERS)

# How each driver's library names its version.
VERSION_COMMANDS = {
    "gloo": ["dpkg-query", "--show", "--showformat=${Version}", "libgloo-dev"],
    "openmpi": ["dpkg-query", "--show", "--showformat=${Version}", "libopenmpi-dev"],
    "mpich": ["dpkg-query", "--show", "--showformat=${Version}", "libmpich-dev"],
}

# What the machine itself can do, measured once at the start by limits.c and printed beside: no library can be faster.
LIMITS = [
    ["pingpong", "tcp", "-", "spin"],
    ["pingpong", "tcp", "-", "block"],
    ["stream", "tcp", "-", "one", str(256 * KIB), "1"],
    ["stream", "tcp", "-", "duplex2", str(256 * KIB), "1"],
    ["copy", "1", str(64 * MIB)],
    ["sum", "1", str(64 * MIB)],
]


@dataclass(frozen=True)
class Bar:
    """Rondo's speed-up over the best peer must be at least this, where the cell matches."""

    at_least: float
    collective: str = "all_reduce"
    ranks: tuple[int, ...] = tuple(RANKS)
    min_bytes: int = 0
    max_bytes: int = 1 << 62

    def covers(self, cell: Cell) -> bool:
        return cell.collective == self.collective and cell.ranks in self.ranks and self.min_bytes <= cell.bytes <= self.max_bytes


# The first bar that covers a cell holds; a cell that none covers has none.
BARS = [Bar(1.0)]


def cells(conditions, transport, collectives, ranks, bytes_of, places):
    for condition in conditions:
        for collective in collectives:
            for count in ranks:
                for size in bytes_of[collective]:
                    for place in PLACES[collective]:
                        if place in places or PLACES[collective] == ["in"]:
                            yield Cell(condition.name, transport, collective, count, size, place)
