"""Runs the programs: cell by cell within a round, so that a disturbance hits all alike, each run a line of one file.

The file is JSON lines. The first line is the header (machine, versions, flags); every other one is a run:
  {"round": 0, "cell": {...}, "program": "gloo", "points": [...]}   or with "error": "..." in place of points
Appending a line is the only way it changes, so an interrupted comparison goes on where it was.
"""

import contextlib
import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "lab"))

from grid import LIMITS, Cell, Condition, Program, memory_about, seconds_about, timeout_s  # noqa: E402
from hosts import NETLAB, Lab, LabError  # noqa: E402

# The new namespace exists exactly as long as the process, so nothing has to be removed. Its default congestion control
# must be one that ordinary users may choose. Routes may name any, and both ends of a connection use that of their
# route.
CUBIC_NAMESPACE = """
set -e
ip link set lo up
for destination in 127.0.0.0/8 127.0.0.1; do
  ip route replace local $destination dev lo table local proto kernel scope host src 127.0.0.1 congctl cubic
done
exec "$@"
"""
UNPRIVILEGED_UID = "65534"
LIMIT_TIMEOUT_S = 120  # for one program of limits.c
TUNE_TIMEOUT_S = 1200
# MPICH sometimes hangs in MPI_Finalize if there are more ranks than cores. A peer that has printed all its results, and
# then neither prints anything nor ends for this long, is ended, and its results count.
LINGER_S = 5
TUNE_PORT = 29500  # the lab's addresses are its own


class CompareError(Exception):
    """Ends the comparison; the text names the culprit."""


def wrapped(condition: Condition, program: Program, command: list[str]) -> list[str]:
    if condition.rondo_unprivileged and program.is_rondo and os.geteuid() == 0:
        command = ["setpriv", f"--reuid={UNPRIVILEGED_UID}", f"--regid={UNPRIVILEGED_UID}", "--clear-groups", *command]
    if condition.cubic_namespace:
        command = in_cubic_namespace(command)
    return command


def in_cubic_namespace(command: list[str]) -> list[str]:
    return ["unshare", "--net", "sh", "-c", CUBIC_NAMESPACE, "sh", *command]


def measure_limits(condition: Condition, binaries: Path) -> list[str]:
    """One line each, as limits.c prints it."""
    lines = []
    for words in LIMITS:
        command = [str(binaries / "limits"), *words]
        if condition.cubic_namespace:
            command = in_cubic_namespace(command)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_TIMEOUT_S)
        lines.append(done.stdout.strip() if done.returncode == 0 else f"limits {' '.join(words)}: {done.stderr.strip()}")
    return lines


def can_make_cubic_namespace() -> bool:
    return subprocess.run(in_cubic_namespace(["true"]), stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def tune_between_hosts(lab: Lab, cells: list[Cell], binaries: Path, profile: Path) -> None:
    """Rondo's profile of these hosts, as a user would make it of a cluster: the ranks and collectives of `cells`."""
    collectives = ",".join(sorted({cell.collective for cell in cells}))
    most = str(max(cell.bytes for cell in cells))
    for ranks in sorted({cell.ranks for cell in cells}):
        known = ["--profile", profile] if profile.exists() else []
        command = [binaries / "rondo", "tune", "--collectives", collectives, "-e", most, *known, "--out", profile]
        where = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": lab.addresses[0], "MASTER_PORT": str(TUNE_PORT)}
        lab.run([(command, {**where, "RANK": str(rank)}) for rank in range(ranks)], TUNE_TIMEOUT_S)


def run_between_hosts(program: Program, cell: Cell, lab: Lab, binaries: Path, profile: Path) -> dict:
    """As run_program, a rank on each host."""
    addresses = lab.addresses[: cell.ranks]
    with tempfile.TemporaryDirectory(prefix="rondo-compare-hosts.") as folder:
        commands = program.commands_on_hosts(binaries, cell, addresses, [str(NETLAB), "rsh"], Path(folder), profile)
        try:
            said = lab.run([(command, program.variables) for command in commands], timeout_s(cell))
        except LabError as error:
            return {"error": " | ".join(line.strip() for line in str(error).splitlines()[-4:] if line.strip())}
    return read_points(program, said[0], cell)


def run_program(program: Program, cell: Cell, condition: Condition, binaries: Path) -> dict:
    """{"points": [...]} or {"error": "..."}."""
    command = wrapped(condition, program, program.command(binaries, cell))
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    environment.update(program.variables)
    try:
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return {"error": f"{command[0]}: {error.strerror}"}
    try:
        out, err, lingered = output_of(child, program, cell)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout_s(cell):.0f} s"}
    finally:
        kill_group(child)  # also ends a rank that outlived its launcher
    if child.returncode != 0 and not lingered:
        said = " | ".join(line.strip() for line in err.strip().splitlines()[-4:] if line.strip())
        return {"error": f"exit status {child.returncode}: {said}"}
    return read_points(program, out, cell)


def output_of(child: subprocess.Popen, program: Program, cell: Cell) -> tuple[str, str, bool]:
    """What it printed, on stdout and stderr, and whether it was ended because it lingered."""
    until = time.monotonic() + timeout_s(cell)
    before = None
    while True:
        try:
            return *child.communicate(timeout=max(0, min(LINGER_S, until - time.monotonic()))), False
        except subprocess.TimeoutExpired as expired:
            if time.monotonic() >= until:
                raise
            said = expired.stdout or b""
        if said == before and not program.is_rondo and 0 < program.points_about(cell) <= said.count(b"\n{") + said.startswith(b"{"):
            kill_group(child)
            return *child.communicate(), True
        before = said


def read_points(program: Program, out: str, cell: Cell) -> dict:
    try:
        points = program.points(out, cell)
    except ValueError as error:
        return {"error": f"unreadable output: {error}"}
    if not points:
        return {"error": "printed no point"}
    wrong = [point["algorithm"] for point in points if not point["correct"]]
    if wrong:
        return {"error": f"wrong results by {', '.join(wrong)}", "points": points}
    return {"points": points}


def kill_group(child: subprocess.Popen) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()


class Results:
    """The file of runs."""

    def __init__(self, path: Path, header: dict, resume: bool):
        self.path = path
        self.runs: list[dict] = []
        self.succeeded: set[tuple[int, Cell, str]] = set()
        if path.exists():
            if not resume:
                raise CompareError(f"{path} already exists; continue with --resume or give another --out")
            self.load(header)
        else:
            self.header = header
            self.append(header)

    def load(self, header: dict) -> None:
        text = self.path.read_text()
        lines = text.splitlines()
        whole = lines if text.endswith("\n") else lines[:-1]  # an interrupted write leaves an incomplete line
        try:
            self.header, *self.runs = map(json.loads, whole)
            for run in self.runs:
                self.note(run)
        except (ValueError, KeyError, TypeError) as error:
            raise CompareError(f"{self.path} is not a file of runs: {error}") from None
        for name in ("versions", "programs", "machine"):
            if self.header.get(name) != header[name]:
                raise CompareError(f"{self.path} was begun with other values of '{name}': {self.header.get(name)}; the values now are {header[name]}")
        if len(whole) != len(lines):
            self.path.write_text("".join(line + "\n" for line in whole))

    def append(self, line: dict) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def has(self, number: int, cell: Cell, program: Program) -> bool:
        return (number, cell, program.name) in self.succeeded

    def add(self, number: int, cell: Cell, program: Program, outcome: dict) -> None:
        run = {"round": number, "cell": dataclasses.asdict(cell), "program": program.name, **outcome}
        self.append(run)
        self.runs.append(run)
        self.note(run)

    def note(self, run: dict) -> None:
        if "error" not in run:
            self.succeeded.add((run["round"], Cell(**run["cell"]), run["program"]))


@dataclasses.dataclass(frozen=True)
class Run:
    """One to make."""

    round: int
    cell: Cell
    program: Program


def plan(cells: list[Cell], programs: list[Program], rounds: int) -> list[Run]:
    """All runs in their order."""
    runs = []
    for number in range(rounds):
        # Each round begins with another program, so that no program always follows the same one.
        turn = number % len(programs)
        for cell in cells:
            runs += [Run(number, cell, program) for program in programs[turn:] + programs[:turn] if program.measures(cell)]
    return runs


def plan_text(results: Results, planned: list[Run]) -> str:
    """What is still to do and what it takes, to be said beforehand."""
    left = [run for run in planned if not results.has(run.round, run.cell, run.program)]
    minutes = sum(seconds_about(run.program, run.cell) for run in left) / 60
    time = f"{math.ceil(minutes)} min" if minutes < 100 else f"{minutes / 60:.1f} h"
    memory_mb = math.ceil(max((memory_about(run.cell) for run in left), default=0) / 1e6)
    return f"{len(left)} of {len(planned)} runs to make: about {time}, and at most about {memory_mb} MB of memory"


def run_plan(results: Results, planned: list[Run], conditions: dict[str, Condition], binaries: Path, say) -> None:
    """Labs are made when first needed, and removed at the end whatever it is."""
    with contextlib.ExitStack() as made:
        labs: dict[str, Lab] = {}

        def run_one(run: Run) -> dict:
            condition = conditions[run.cell.condition]
            if not condition.between_hosts:
                return run_program(run.program, run.cell, condition, binaries)
            profile = binaries.parent / f"profile of {condition.name}.json"
            if condition.name not in labs:
                cells = [other.cell for other in planned if other.cell.condition == condition.name]
                labs[condition.name] = made.enter_context(Lab(max(cell.ranks for cell in cells), condition.link_rate, "cp"))
                if not profile.exists() and any(other.program.is_rondo for other in planned):
                    say(f"rondo tune {condition.name}: {profile}")
                    tune_between_hosts(labs[condition.name], cells, binaries, profile)
            return run_between_hosts(run.program, run.cell, labs[condition.name], binaries, profile)

        run_all(results, planned, run_one, say)


def run_all(results: Results, planned: list[Run], run_one, say) -> None:
    for done, run in enumerate(planned, 1):
        if results.has(run.round, run.cell, run.program):
            continue
        outcome = run_one(run)
        results.add(run.round, run.cell, run.program, outcome)
        best = min((point["median_us"] for point in outcome.get("points", [])), default=None)
        said = outcome.get("error") or f"{best:.2f} us"
        say(f"[{done}/{len(planned)}] round {run.round + 1} {run.cell.key()} {run.program.name}: {said}")
