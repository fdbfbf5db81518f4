"""Runs suites, several at a time: streams their output, keeps their time, ends them with all their children.

Each lane has a worker, which takes the lane's suites in the order of the table. A worker whose lane is empty helps the lane
RUNNING: while one suite waits, another one computes. The suites of the lane FIRST run alone, before all others.
"""

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Optional

from counting import Counts, Run
from table import Lane, Suite

REPOSITORY = Path(__file__).resolve().parents[3]
ENDED_AT_BUDGETS = 3.0  # a suite that takes this many times its budget is ended and has failed
PREPARATION_LIMIT_S = 3600.0
GRACE_S = 10.0  # time between asking a suite to end and killing it


def clock_text(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@dataclass
class Result:
    suite: Suite
    counts: Counts = field(default_factory=Counts)
    prepared_s: float = 0.0  # does not count towards the budget
    seconds: float = 0.0
    unlimited: bool = False

    def over_budget(self) -> bool:
        return not self.unlimited and self.seconds > self.suite.budget_min * 60

    def line(self) -> str:
        c = self.counts
        verdict = "FAILED" if c.failed else "passed" if c.passed else "skipped"
        budget = "none" if self.unlimited else clock_text(self.suite.budget_min * 60)
        over = "   OVER ITS BUDGET" if self.over_budget() else ""
        counted = f"{c.passed} passed, {c.failed} failed, {c.skipped} skipped"
        prepared = clock_text(self.prepared_s) if self.prepared_s >= 1 else "-"
        return f"{self.suite.name:12} {prepared:>8} {clock_text(self.seconds):>7} / {budget:7} {verdict:7}  ({counted}){over}"


class Interrupts:
    """Ctrl-C and SIGTERM become a KeyboardInterrupt in the main thread, which ends the children."""

    @contextlib.contextmanager
    def handled(self):
        def arrive(number, frame):
            raise KeyboardInterrupt

        before = {number: signal.signal(number, arrive) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Output:
    """Lines of several threads, whole. Where suites run beside each other each line begins with its suite's name."""

    def __init__(self, out):
        self.out = out
        self.lock = threading.Lock()

    def line(self, text: str, suite: str = "") -> None:
        with self.lock:
            self.out.write(f"{suite + ' | ' if suite else ''}{text}\n")
            self.out.flush()


class Runner:
    """`out` gets everything; nothing is read from this process's stdin. run() is called once, by the main thread."""

    def __init__(self, out, unlimited=False, repository=REPOSITORY):
        self.output = Output(out)
        self.unlimited = unlimited
        self.repository = repository
        self.interrupts = Interrupts()
        self.children: set[subprocess.Popen] = set()
        self.children_lock = threading.Lock()
        self.queues_lock = threading.Lock()
        # Two suites of a lane may be prepared at the same time, but Debian's package manager serves only one at a time.
        self.preparation_locks = {lane: threading.Lock() for lane in Lane}
        self.is_ending = False

    def run(self, suites: list[Suite]) -> list[Result]:
        """One result a suite, in the order of `suites`. KeyboardInterrupt: what ran has been ended."""
        results: dict[str, Result] = {}
        try:
            waiting = {lane: [suite for suite in suites if suite.lane == lane] for lane in Lane}
            self.run_lanes([[waiting[Lane.FIRST]]], results)
            running = waiting[Lane.RUNNING]
            workers = [queues for queues in ([waiting[Lane.BUILDING], running], [running]) if any(queues)]
            self.run_lanes(workers[: len(waiting[Lane.BUILDING]) + len(running)], results)
        except BaseException:
            self.end_all()
            raise
        return [results[suite.name] for suite in suites]

    def run_lanes(self, workers: list[list[list[Suite]]], results: dict[str, Result]) -> None:
        """A thread for each of `workers`, which runs the suites of its queues: the next one of the first queue that has one."""
        ended: queue.Queue = queue.Queue()

        def go(queues: list[list[Suite]]) -> None:
            error = None
            try:
                while not self.is_ending and (suite := self.take(queues)) is not None:
                    results[suite.name] = self.run_suite(suite, tagged=len(workers) > 1)
            except BaseException as raised:  # raised again below, in the main thread
                error = raised
            ended.put(error)

        for queues in workers:
            threading.Thread(target=go, args=(queues,), daemon=True).start()
        for _ in workers:
            error = ended.get()
            if error is not None:
                raise error

    def take(self, queues: list[list[Suite]]) -> Optional[Suite]:
        with self.queues_lock:
            return next((suites.pop(0) for suites in queues if suites), None)

    def run_suite(self, suite: Suite, tagged: bool) -> Result:
        self.output.line(f"\n== {suite.name}: {suite.what}")
        tag = suite.name if tagged else ""
        result = Result(suite, unlimited=self.unlimited)
        if (missing := suite.missing()) is not None:
            result.counts = Counts(skipped=1, skips=[missing])
        else:
            begin = time.monotonic()
            prepared = self.prepare(suite, tag)
            result.prepared_s = time.monotonic() - begin
            if prepared.status != 0:
                result.counts = Counts(failed=1, failures=[f"building what it needs failed: exit status {prepared.status}"])
            else:
                result.counts, result.seconds = self.run_and_count(suite, tag)
        if result.over_budget():
            self.output.line(f"!! {suite.name} took {clock_text(result.seconds)}, more than its budget")
        self.output.line(result.line())
        return result

    def prepare(self, suite: Suite, tag: str) -> Run:
        with self.preparation_locks[suite.lane]:
            for command in suite.prepare:
                run = self.run_command(command, tag, PREPARATION_LIMIT_S)
                if run.status != 0:
                    return run
        return Run(status=0)

    def run_and_count(self, suite: Suite, tag: str) -> tuple[Counts, float]:
        limit_s = None if self.unlimited else suite.budget_min * 60 * ENDED_AT_BUDGETS
        with tempfile.TemporaryDirectory() as folder:
            events = Path(folder) / "events.json"
            begin = time.monotonic()
            run = self.run_command([word.replace("{events}", str(events)) for word in suite.command], tag, limit_s)
            seconds = time.monotonic() - begin
            counts = suite.count(replace(run, events=events))
        if run.ended:
            # Tests that had not finished have neither passed nor failed, but the suite has failed.
            why = f"ended after {clock_text(seconds)}, {ENDED_AT_BUDGETS:g} times its budget; {counts.passed} of its tests had passed"
            self.output.line(f"!! {suite.name} is {why}")
            counts = Counts(passed=counts.passed, failed=1, skipped=counts.skipped, failures=[why], skips=counts.skips)
        return counts, seconds

    def run_command(self, command: list[str], tag: str, limit_s: float | None) -> Run:
        run = Run(status=127)
        try:
            child = self.start(command)
        except OSError as error:
            run.lines.append(f"{command[0]}: {error.strerror}")
            self.output.line(run.lines[-1], tag)
            return run
        reader = threading.Thread(target=self.stream, args=(child.stdout, run.lines, tag), daemon=True)
        reader.start()
        try:
            run.status = child.wait(limit_s)
            signal_group(child, signal.SIGKILL)  # ends everything that the command has left
        except subprocess.TimeoutExpired:
            signal_group(child, signal.SIGTERM)
            kill_group_after_grace(child)
            run.status, run.ended = 124, True
        finally:
            with self.children_lock:
                self.children.discard(child)
        reader.join(GRACE_S)
        return run

    def start(self, command: list[str]) -> subprocess.Popen:
        with self.children_lock:
            if self.is_ending:
                raise OSError(0, "interrupted")
            child = subprocess.Popen(
                command,
                cwd=self.repository,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # a separate process group, so that the whole group can be ended
            )
            self.children.add(child)
            return child

    def stream(self, pipe, lines: list[str], tag: str) -> None:
        with pipe:
            for line in pipe:
                lines.append(line.rstrip("\n"))
                self.output.line(lines[-1], tag)

    def end_all(self) -> None:
        with self.children_lock:
            self.is_ending = True
            children = list(self.children)
        for child in children:
            signal_group(child, signal.SIGINT)
        for child in children:
            kill_group_after_grace(child)


def kill_group_after_grace(child: subprocess.Popen) -> None:
    """Gives the child, which has been asked to end, its grace; then kills what is left of its process group."""
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        pass
    signal_group(child, signal.SIGKILL)
    child.wait()


def signal_group(child: subprocess.Popen, sent: signal.Signals) -> None:
    try:
        os.killpg(child.pid, sent)
    except ProcessLookupError:
        pass  # the group has no processes left
