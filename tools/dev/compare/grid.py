"""What tools/dev/compare measures: the grid, and the programs with every flag they get. What Rondo is held to is in bars.py."""

import json
import os
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20

ALL_REDUCE_BYTES = [4, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB]
OTHER_BYTES = [4, KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB]
WITH_A_VECTOR = ["reduce", "broadcast"]
WITH_A_BLOCK_PER_RANK = ["all_gather", "gather", "reduce_scatter", "scatter", "all_to_all"]
BYTES = {
    "all_reduce": ALL_REDUCE_BYTES,
    **{name: OTHER_BYTES for name in WITH_A_VECTOR + WITH_A_BLOCK_PER_RANK},
    "barrier": [0],
}
# Between hosts; tools/dev/lab/wire_rate compares large sizes with the wire.
HOSTS_BYTES = {name: [size for size in sizes if size <= 64 * KIB] for name, sizes in BYTES.items()}
QUICK_BYTES = {**{name: [16 * KIB] for name in BYTES}, "all_reduce": [4, 64 * KIB, 4 * MIB], "barrier": [0]}
# Broadcast has one buffer in every peer's interface, and a barrier none: both count as in place. The others are
# measured in place if every program supports that.
PLACES = {
    **{name: ["out"] for name in BYTES},
    **{name: ["out", "in"] for name in ("all_reduce", "all_gather", "reduce_scatter")},
    **{name: ["in"] for name in ("broadcast", "barrier")},
}

RANKS = [2, 4, 8]
SHM_RANKS = [2, 3, 4, 6, 8]
HOSTS = [4]  # one rank on each host
LINK_RATE = "1gbit"
ROUNDS = 5
SECONDS_PER_POINT = 0.2
WARM_UP_SECONDS = 0.3


@dataclass(frozen=True)
class Condition:
    """Under what network a table is measured."""

    name: str
    what: str
    cubic_namespace: bool  # a new network namespace whose loopback routes use cubic (needs root)
    rondo_unprivileged: bool  # Rondo runs as an ordinary user if this program is root
    link_rate: str = ""  # if not empty, each rank has its own host (tools/dev/lab/netlab) with such a link

    @property
    def between_hosts(self) -> bool:
        return self.link_rate != ""


CUBIC = Condition("cubic", "a network namespace of its own, congestion control cubic for all", True, False)
DEFAULT = Condition("default", "the machine's own loopback and congestion control, Rondo without privileges", False, True)
# For shared memory, which does not depend on congestion control.
ONE_HOST = Condition("one host", "the machine as it is", False, False)
BETWEEN_HOSTS = "hosts"  # prefix of the names of such conditions


def between_hosts(link_rate: str) -> Condition:
    what = f"a host for each rank, links of {link_rate} each way, the machine's congestion control; all hosts share this machine's cores"
    return Condition(f"{BETWEEN_HOSTS} {link_rate}", what, False, False, link_rate)


@dataclass(frozen=True)
class Cell:
    """One thing to compare: everything that all programs must do alike."""

    condition: str
    transport: str
    collective: str
    ranks: int
    bytes: int
    place: str  # "out" or "in"

    @property
    def between_hosts(self) -> bool:
        return self.condition.startswith(BETWEEN_HOSTS)

    def key(self) -> str:
        return f"{self.condition} {self.transport} {self.collective} n={self.ranks} {self.bytes}B {self.place}"


def sizes(collective: str, ranks: int, bytes_of: dict[str, list[int]] = BYTES) -> list[int]:
    """Of a rank's largest buffer. Where that has a block for each rank, rounded up to whole elements a rank: 4 is one a rank."""
    unit = 4 * ranks if collective in WITH_A_BLOCK_PER_RANK else 4
    return list(dict.fromkeys(-(-size // unit) * unit for size in bytes_of[collective]))


def size_word(count: int) -> str:
    """As the drivers read sizes."""
    for unit, word in ((MIB, "m"), (KIB, "k")):
        if count and count % unit == 0:
            return f"{count // unit}{word}"
    return str(count)


@dataclass(frozen=True)
class Program:
    name: str
    flags: tuple[str, ...] = ()  # recommended for this transport; lo is replaced by the interface
    variables: dict[str, str] = field(default_factory=dict)
    is_rondo: bool = False

    def measures(self, cell: Cell) -> bool:
        """Whether it is run in this cell at all."""
        return True

    def points_about(self, cell: Cell) -> int:
        """How many points a run of it gives."""
        return len(GLOO_ALGORITHMS) if self.name == "gloo" and cell.collective == "all_reduce" else 1

    def points(self, output: str, cell: Cell) -> list[dict]:
        """What it printed, as data; ValueError where that is none."""
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]

    def command(self, binaries: Path, cell: Cell) -> list[str]:
        shared = self.shared_flags(cell)
        driver = str(binaries / f"{self.driver()}_bench")
        ranks = str(cell.ranks)
        if self.driver() == "openmpi":
            yielding = "1" if cell.ranks > (os.cpu_count() or 1) else "0"  # as Open MPI's FAQ recommends
            return ["mpirun.openmpi", "-n", ranks, "--host", f"localhost:{ranks}", *self.flags,
                    "--mca", "mpi_yield_when_idle", yielding, driver, *shared]  # fmt: skip
        if self.driver() == "mpich":
            return ["mpirun.mpich", "-n", ranks, *self.flags, driver, *shared]
        return [driver, "-n", ranks, *self.flags, *shared]

    def commands_on_hosts(self, binaries: Path, cell: Cell, addresses: list[str], rsh: list[str], folder: Path, profile: Path) -> list[list[str]]:
        """One for each host from the first on. `rsh`: what runs words at an address; `folder`: empty, seen by all hosts; `profile`:
        what `rondo tune` made of these hosts."""
        shared = self.shared_flags(cell)
        driver = str(binaries / f"{self.driver()}_bench")
        ranks = str(cell.ranks)
        flags = ["eth0" if word == "lo" else word for word in self.flags]
        if self.driver() == "openmpi":
            return [["mpirun.openmpi", "-n", ranks, "--host", ",".join(f"{address}:1" for address in addresses), *flags,
                     "--mca", "plm_rsh_agent", " ".join(rsh), "--mca", "mpi_yield_when_idle", "1", driver, *shared]]  # fmt: skip
        if self.driver() == "mpich":
            script = folder / "rsh"
            script.write_text(f'#!/bin/sh\nexec {shlex.join(rsh)} "$@"\n')
            script.chmod(0o755)
            flags[flags.index("fork")] = "rsh"
            return [["mpirun.mpich", "-n", ranks, "-hosts", ",".join(addresses), "-launcher-exec", str(script), *flags, driver, *shared]]
        commands = []
        for rank, address in enumerate(addresses):
            own_address = "auto" if self.is_rondo else address
            own = [own_address if word == "127.0.0.1" else word for word in flags]
            own += ["-P", str(profile)] if self.is_rondo else []
            commands.append([driver, "-n", ranks, "-r", str(rank), "-d", str(folder), *own, *shared])
        return commands

    def shared_flags(self, cell: Cell) -> list[str]:
        flags = ["-c", cell.collective, "-b", cell.place, "-p", self.name, "-t", str(SECONDS_PER_POINT), "-w", str(WARM_UP_SECONDS)]
        return [*flags, "-s", size_word(cell.bytes)] if cell.bytes else flags

    def driver(self) -> str:
        return "rondo" if self.is_rondo else self.name


RONDO = Program("rondo", ("-a", "127.0.0.1"), is_rondo=True)
# The same program a second time: differences between the two are noise.
RONDO_AGAIN = replace(RONDO, name="rondo_again")


FLOOR_BYTES = 4 * MIB


@dataclass(frozen=True)
class Allocated(Program):
    """Rondo once more, with buffers from its own Allocate, which ranks of a host read where they lie. Judged against its floor
    alone: the peers have plain buffers."""

    def measures(self, cell: Cell) -> bool:
        return has_floor(cell)


RONDO_ALLOCATED = Allocated("rondo_allocated", (*RONDO.flags, "-A"), is_rondo=True)


def has_floor(cell: Cell) -> bool:
    two = cell.transport == "shm" and cell.collective == "all_reduce" and cell.ranks == 2
    return two and cell.place == "out" and cell.bytes >= FLOOR_BYTES


def rondo(transport: str) -> list[Program]:
    programs = [RONDO, RONDO_AGAIN] + ([RONDO_ALLOCATED] if transport == "shm" else [])
    return [replace(program, flags=(*program.flags, "-T", transport)) for program in programs]


GLOO_ALGORITHMS = ["ring", "bcube", "o:ring_chunked", "o:hd"]

PEERS = {
    "tcp": [
        # Its best algorithm counts. The Algorithm classes (o:..., and all algorithms of reduce_scatter) exist only in
        # place. They also count as out of place, in Gloo's favour.
        Program("gloo", ("-h", "127.0.0.1", "-T", "tcp", "-a", ",".join(GLOO_ALGORITHMS))),
        Program("openmpi", ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
                            "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                            "--mca", "oob_tcp_if_include", "lo")),  # fmt: skip
        # Debian's MPICH is ch4:ucx. NOLOCAL turns off its own shared memory, UCX_TLS turns off UCX's.
        Program("mpich", ("-launcher", "fork", "-iface", "lo"), {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}),
    ],
    "shm": [
        # It has no shared memory, so it uses TCP, as its users do within a host.
        Program("gloo", ("-h", "127.0.0.1", "-T", "tcp", "-a", ",".join(GLOO_ALGORITHMS))),
        Program("openmpi", ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
                            "--mca", "btl", "vader,self")),  # fmt: skip
        Program("mpich", ("-launcher", "fork")),
    ],
}  # fmt: skip
TRANSPORTS = list(PEERS)


@dataclass(frozen=True)
class Sockets(Program):
    """What raw sockets take for what two ranks' all_reduce must move at least, where one thing decides: a byte one way while
    both ends spin (latency), or its bytes both ways at once on two sockets (bandwidth), between buffers as large as the vector:
    that is where a vector's bytes lie. (From a buffer that stays in cache sockets carry more; LIMITS shows how much.)"""

    def measures(self, cell: Cell) -> bool:
        two = cell.transport == "tcp" and cell.collective == "all_reduce" and cell.ranks == 2 and not cell.between_hosts
        return two and (self.is_latency(cell) or cell.bytes >= BANDWIDTH_BYTES)

    @staticmethod
    def is_latency(cell: Cell) -> bool:
        return cell.bytes <= LATENCY_BYTES

    def points_about(self, cell: Cell) -> int:
        return 0

    def command(self, binaries: Path, cell: Cell) -> list[str]:
        return [str(binaries / "limits"), *(ONE_WAY if self.is_latency(cell) else [*BOTH_WAYS, str(cell.bytes)])]

    def points(self, output: str, cell: Cell) -> list[dict]:
        if self.is_latency(cell):
            what, us = "one way", float(found(r"rtt us: .*median ([\d.]+)", output)) / 2
        else:
            # 2 (n - 1) / n is 1 for two ranks: each sends and receives as many bytes as its buffer has.
            what, us = "both ways", cell.bytes / (1e3 * float(found(r"([\d.]+) GB/s per direction", output)))
        return [{"algorithm": what, "bytes": cell.bytes, "median_us": us, "p99_us": us, "wall_us": us, "correct": True}]


def found(pattern: str, text: str) -> str:
    if (match := re.search(pattern, text)) is None:
        raise ValueError(f"no '{pattern}' in '{text.strip()}'")
    return match[1]


LATENCY_BYTES, BANDWIDTH_BYTES = 4, 16 * MIB
ONE_WAY = ["pingpong", "tcp", "-", "spin"]
BOTH_WAYS = ["stream", "tcp", "-", "duplex2", str(256 * KIB), "1"]
SOCKETS = Sockets("sockets")



@dataclass(frozen=True)
class CacheLine(Program):
    """A cache line that goes from one core to the other, one way: what two ranks' smallest all_reduce takes at least."""

    def measures(self, cell: Cell) -> bool:
        return cell.transport == "shm" and cell.collective == "all_reduce" and cell.ranks == 2 and cell.bytes <= LATENCY_BYTES

    def points_about(self, cell: Cell) -> int:
        return 0

    def command(self, binaries: Path, cell: Cell) -> list[str]:
        return [str(binaries / "limits"), "shm"]

    def points(self, output: str, cell: Cell) -> list[dict]:
        us = float(found(r"rtt us: .*median ([\d.]+)", output)) / 2
        return [{"algorithm": "one way", "bytes": cell.bytes, "median_us": us, "p99_us": us, "wall_us": us, "correct": True}]


CACHE_LINE = CacheLine("line")


@dataclass(frozen=True)
class MemoryFloor(Program):
    """What memory takes for what two ranks' all_reduce must move at least, at the rates of two threads at once, from and to where
    the bytes really lie, the fastest of several ways. Of plain buffers each rank copies half of its vector into a slot, sums the other
    half with what the other brought, copies the result in, and copies both results out; or copies half of the other's vector into its
    cache, sums that, and copies the other's result. Of allocated ones it sums half from both vectors and copies half."""

    buffers: str = "plain"

    def measures(self, cell: Cell) -> bool:
        return has_floor(cell)

    def points_about(self, cell: Cell) -> int:
        return 0

    def command(self, binaries: Path, cell: Cell) -> list[str]:
        return [str(binaries / "limits"), "floor", str(cell.bytes)]

    def points(self, output: str, cell: Cell) -> list[dict]:
        us = float(found(rf"all_reduce of {self.buffers} buffers at least ([\d.]+) us", output))
        return [{"algorithm": self.buffers, "bytes": cell.bytes, "median_us": us, "p99_us": us, "wall_us": us, "correct": True}]


MEMORY_FLOOR = MemoryFloor("memory")
ALLOCATED_FLOOR = MemoryFloor("memory_allocated", buffers="allocated")

WIRE_BYTES = 64 * KIB
TCP_PAYLOAD = 1448 / 1514  # share of the Ethernet bytes that a lab's rate counts, at MTU 1500
BITS_PER_S = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}


@dataclass(frozen=True)
class Wire(Program):
    """What the links take for the 2 (n - 1) / n of the vector that each rank must send: computed, not run."""

    def measures(self, cell: Cell) -> bool:
        return cell.collective == "all_reduce" and cell.between_hosts and cell.bytes >= WIRE_BYTES

    def points_about(self, cell: Cell) -> int:
        return 0

    def commands_on_hosts(self, binaries: Path, cell: Cell, addresses: list[str], rsh: list[str], folder: Path, profile: Path) -> list[list[str]]:
        return [["true"]]

    def points(self, output: str, cell: Cell) -> list[dict]:
        number, unit = found(r"([\d.]+)[a-z]+$", cell.condition), found(r"([a-z]+)$", cell.condition)
        bytes_per_us = float(number) * BITS_PER_S[unit] * TCP_PAYLOAD / 8e6
        us = 2 * (cell.ranks - 1) / cell.ranks * cell.bytes / bytes_per_us
        return [{"algorithm": "wire", "bytes": cell.bytes, "median_us": us, "p99_us": us, "wall_us": us, "correct": True}]


WIRE = Wire("wire")
# Lower bounds that no library can beat; each program measures the cells to which it applies.
BOUNDS = [SOCKETS, WIRE, CACHE_LINE, MEMORY_FLOOR, ALLOCATED_FLOOR]

# How to print the version of each peer's library.
VERSION_COMMANDS = {
    "gloo": ["dpkg-query", "--show", "--showformat=${Version}", "libgloo-dev"],
    "openmpi": ["dpkg-query", "--show", "--showformat=${Version}", "libopenmpi-dev"],
    "mpich": ["dpkg-query", "--show", "--showformat=${Version}", "libmpich-dev"],
}

# Limits of the machine itself, measured once at the start by limits.c and printed with the results: no library can be
# faster.
LIMITS = [
    ["shm"],
    ONE_WAY,
    ["pingpong", "tcp", "-", "block"],
    ["stream", "tcp", "-", "one", str(256 * KIB), "1"],
    BOTH_WAYS,
    [*BOTH_WAYS, str(64 * MIB)],
    ["copy", "1", str(64 * MIB)],
    ["sum", "1", str(64 * MIB)],
]


def cells(conditions, transport, collectives, ranks, bytes_of, places):
    for condition in conditions:
        for collective in collectives:
            for count in ranks:
                for size in sizes(collective, count, bytes_of):
                    for place in PLACES[collective]:
                        if place in places or len(PLACES[collective]) == 1:
                            yield Cell(condition.name, transport, collective, count, size, place)


# ---- estimates of time and memory, printed in advance
# -----------------------------------------------------------------------


def seconds_about(program: Program, cell: Cell) -> float:
    """Of one run, fitted to runs on two cores: a start, a warm-up, and for each point checking and at least seven iterations,
    the largest at about 1 GB/s for all ranks together."""
    if program in BOUNDS:
        return 1.5
    return 1.0 + WARM_UP_SECONDS + program.points_about(cell) * (1.5 * SECONDS_PER_POINT + 10e-9 * cell.bytes * cell.ranks)


def timeout_s(cell: Cell) -> float:
    """Of one run, with room for slow machines: small cells must not wait as long as Gloo's four algorithms at 256 MiB and 8 ranks."""
    return 60 + 120e-9 * cell.bytes * cell.ranks


def memory_about(cell: Cell) -> int:
    """In bytes: the buffers of all ranks, and as much again within a library."""
    return 4 * cell.bytes * cell.ranks
