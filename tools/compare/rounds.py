"""Runs the programs: cell by cell within a round, so that a disturbance hits all alike, each run a line of one file.

The file is JSON lines. The first line is the header (machine, versions, flags); every other one is a run:
  {"round": 0, "cell": {...}, "program": "gloo", "points": [...]}   or with "error": "..." in place of points
Appending a line is the only way it changes, so an interrupted comparison goes on where it was.
"""

import dataclasses
import json
import os
import signal
import subprocess
from pathlib import Path

from grid import LIMITS, TIMEOUT_S, Cell, Condition, Program

# The fresh namespace lives exactly as long as the process: nothing to remove. Its default congestion control may not be set
# to one that ordinary users may not choose, but routes may name one; both ends of a connection follow their route.
CUBIC_NAMESPACE = """
set -e
ip link set lo up
for destination in 127.0.0.0/8 127.0.0.1; do
  ip route replace local $destination dev lo table local proto kernel scope host src 127.0.0.1 congctl cubic
done
exec "$@"
"""
NOBODY = "65534"


class CompareError(Exception):
    """Ends the comparison; the text names the culprit."""


def wrapped(condition: Condition, program: Program, command: list[str]) -> list[str]:
    if condition.rondo_unprivileged and program.is_rondo and os.geteuid() == 0:
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
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
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
        lines.append(done.stdout.strip() if done.returncode == 0 else f"limits {' '.join(words)}: {done.stderr.strip()}")
    return lines


def can_make_cubic_namespace() -> bool:
    return subprocess.run(in_cubic_namespace(["true"]), stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


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
        out, err = child.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        kill_group(child)
        return {"error": f"not done after {TIMEOUT_S} s"}
    except BaseException:
        kill_group(child)
        raise
    kill_group(child)  # a rank that outlived its launcher
    if child.returncode != 0:
        said = " | ".join(line.strip() for line in err.strip().splitlines()[-4:] if line.strip())
        return {"error": f"exit status {child.returncode}: {said}"}
    try:
        points = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    except json.JSONDecodeError as error:
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
        if path.exists():
            if not resume:
                raise CompareError(f"{path} is there already; go on with --resume or name another --out")
            self.load(header)
        else:
            self.header = header
            self.append(header)

    def load(self, header: dict) -> None:
        text = self.path.read_text()
        lines = text.splitlines()
        whole = lines if text.endswith("\n") else lines[:-1]  # an interrupted write leaves a piece of a line
        try:
            self.header, *self.runs = map(json.loads, whole)
        except ValueError as error:
            raise CompareError(f"{self.path} is not a file of runs: {error}") from None
        for name in ("versions", "programs", "machine"):
            if self.header.get(name) != header[name]:
                raise CompareError(f"{self.path} was begun with other {name}: {self.header.get(name)}, now {header[name]}")
        if len(whole) != len(lines):
            self.path.write_text("".join(line + "\n" for line in whole))

    def append(self, line: dict) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def has(self, number: int, cell: Cell, program: Program) -> bool:
        wanted = dataclasses.asdict(cell)
        return any(
            run["round"] == number and run["program"] == program.name and run["cell"] == wanted and "error" not in run
            for run in self.runs
        )

    def add(self, number: int, cell: Cell, program: Program, outcome: dict) -> None:
        run = {"round": number, "cell": dataclasses.asdict(cell), "program": program.name, **outcome}
        self.append(run)
        self.runs.append(run)


def run_rounds(results: Results, cells: list[Cell], programs: list[Program], conditions: dict[str, Condition], rounds: int,
               binaries: Path, say) -> None:  # fmt: skip
    total = rounds * len(cells) * len(programs)
    done = 0
    for number in range(rounds):
        for cell in cells:
            # Each round begins with another program, so that none always follows the same neighbour.
            turn = number % len(programs)
            for program in programs[turn:] + programs[:turn]:
                done += 1
                if results.has(number, cell, program):
                    continue
                outcome = run_program(program, cell, conditions[cell.condition], binaries)
                results.add(number, cell, program, outcome)
                best = min((point["median_us"] for point in outcome.get("points", [])), default=None)
                said = outcome.get("error") or f"{best:.2f} us"
                say(f"[{done}/{total}] round {number + 1} {cell.key()} {program.name}: {said}")
