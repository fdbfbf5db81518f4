"""Runs one suite: streams its output, keeps its time, ends it with all its children when it must end."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from counting import Counts, Run
from table import Suite

REPOSITORY = Path(__file__).resolve().parents[2]
ENDED_AT_BUDGETS = 3.0  # a suite that takes this many times its budget has failed
GRACE_S = 10.0  # between asking a suite to end and killing it


def clock_text(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@dataclass
class Result:
    suite: Suite
    counts: Counts = field(default_factory=Counts)
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
        return f"{self.suite.name:12} {clock_text(self.seconds):>7} / {budget:7} {verdict:7}  ({counted}){over}"


class Interrupts:
    """Ctrl-C and SIGTERM become KeyboardInterrupt only where somebody is ready to end the children; until then they wait."""

    def __init__(self):
        self.pending = False
        self.ready = False

    def arrive(self, number, frame) -> None:
        self.pending = True
        if self.ready:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def handled(self):
        before = {number: signal.signal(number, self.arrive) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def raised(self):
        self.ready = True
        try:
            if self.pending:
                raise KeyboardInterrupt
            yield
        finally:
            self.ready = False


class Runner:
    """One thread at a time. `out` gets everything; nothing is read from this process's stdin."""

    def __init__(self, out, unlimited=False, repository=REPOSITORY):
        self.out = out
        self.unlimited = unlimited
        self.repository = repository
        self.interrupts = Interrupts()

    def run(self, suite: Suite) -> Result:
        print(f"\n== {suite.name}: {suite.what}", file=self.out, flush=True)
        result = Result(suite, unlimited=self.unlimited)
        if (missing := suite.missing()) is not None:
            result.counts = Counts(skipped=1, skips=[missing])
        else:
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                events = Path(folder) / "events.json"
                run = self.run_command([word.replace("{events}", str(events)) for word in suite.command], suite)
                run.events = events
                result.counts = suite.count(run)
            result.seconds = time.monotonic() - start
        if result.over_budget():
            print(f"!! {suite.name} took {clock_text(result.seconds)}, more than its budget", file=self.out)
        print(result.line(), file=self.out, flush=True)
        return result

    def run_command(self, command: list[str], suite: Suite) -> Run:
        run = Run(status=127)
        try:
            child = subprocess.Popen(
                command,
                cwd=self.repository,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # a process group of its own, so that all of it can be ended
            )
        except OSError as error:
            run.lines.append(f"{command[0]}: {error.strerror}")
            print(run.lines[-1], file=self.out, flush=True)
            return run

        reader = threading.Thread(target=self.stream, args=(child.stdout, run.lines), daemon=True)
        reader.start()
        limit_s = None if self.unlimited else suite.budget_min * 60 * ENDED_AT_BUDGETS
        try:
            with self.interrupts.raised():
                run.status = child.wait(limit_s)
            signal_group(child, signal.SIGKILL)  # whatever the command left behind
        except subprocess.TimeoutExpired:
            print(f"!! {suite.name} is beyond {ENDED_AT_BUDGETS:g} times its budget and is ended", file=self.out, flush=True)
            end_group(child, ask=signal.SIGTERM)
            run.status = 124
        except KeyboardInterrupt:
            end_group(child, ask=signal.SIGINT)
            raise
        reader.join(GRACE_S)
        return run

    def stream(self, pipe, lines: list[str]) -> None:
        with pipe:
            for line in pipe:
                lines.append(line.rstrip("\n"))
                self.out.write(line)
                self.out.flush()


def end_group(child: subprocess.Popen, ask: signal.Signals) -> None:
    """Asks the child's process group, gives the child its grace, then kills what is left of the group."""
    signal_group(child, ask)
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
        pass  # nobody of the group is left
