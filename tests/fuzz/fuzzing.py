"""Runs one fuzzer for a bounded number of inputs and reads off what it did.

A run is believed only if the fuzzer ended by itself, with status 0, after at least as many inputs as it was asked for and
without leaving a finding behind.
"""

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

SEED = 1  # gives the same inputs on every machine; --seed of tests/fuzz/run sets another seed
RSS_LIMIT_MB = 1024
MALLOC_LIMIT_MB = 64  # for one allocation; each harness itself allows far less
INPUT_TIMEOUT_S = 20  # for one input: a fuzzer on a busy machine is slow, not wrong
SHOWN_LINES = 60  # lines of a fuzzer's output that are printed for a finding


@dataclass(frozen=True)
class Harness:
    name: str  # the NAME of tests/fuzz/NAME_fuzz.cc
    inputs: int  # about five seconds of inputs under the sanitizers, on one core
    max_input_bytes: int = 1024


@dataclass
class Outcome:
    harness: Harness
    inputs: int = 0
    edges: int = 0  # edges of the control flow that some input reached
    seconds: float = 0.0
    failure: Optional[str] = None  # a description
    finding: Optional[bytes] = None  # the input that caused the failure, if there is one
    said: str = ""  # the last output of the fuzzer

    def line(self) -> str:
        counted = f"{self.inputs:>8} inputs {self.edges:>6} edges {self.seconds:>6.1f} s"
        return f"{'FAIL' if self.failure else 'ok':4}  {self.harness.name:18} {counted}{': ' + self.failure if self.failure else ''}"


def environment() -> dict[str, str]:
    """The environment of this process, with options for the sanitizers where it has none."""
    options = dict(os.environ)
    options.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=1")
    options.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    return options


def fuzz(program: Path, harness: Harness, folder: Path, times: float = 1.0, seed: int = SEED, limit_s: float = 900) -> Outcome:
    """`folder` is empty; afterwards it holds the corpus that the fuzzer has found. `limit_s`: of the whole run."""
    outcome = Outcome(harness)
    wanted = max(1, int(harness.inputs * times))
    started = time.monotonic()
    status, text = run([str(program), "--write-corpus", str(folder)], limit_s)
    if status != 0:
        outcome.failure, outcome.said = f"it cannot write its seeds (status {status})", tail(text)
        return outcome
    words = folder / "words"
    dictionary = [f"-dict={words}"] if words.stat().st_size > 0 else []
    status, text = run(
        [str(program), f"-runs={wanted}", f"-seed={seed}", f"-max_len={harness.max_input_bytes}", f"-timeout={INPUT_TIMEOUT_S}",
         f"-report_slow_units={INPUT_TIMEOUT_S}",
         f"-rss_limit_mb={RSS_LIMIT_MB}", f"-malloc_limit_mb={MALLOC_LIMIT_MB}", "-print_final_stats=1",
         f"-artifact_prefix={folder}/finding-", *dictionary, str(folder / "seeds")],
        limit_s,
    )  # fmt: skip
    outcome.seconds = time.monotonic() - started
    outcome.inputs = last_number(r"stat::number_of_executed_units:\s*(\d+)", text)
    outcome.edges = last_number(r"\bcov: (\d+)", text)
    findings = sorted(folder.glob("finding-*"))
    if findings:
        outcome.finding = findings[0].read_bytes()
        outcome.failure = f"{kind_of(findings[0])} by an input of {len(outcome.finding)} bytes"
    elif status is None:
        outcome.failure = f"not done after {limit_s:.0f} s"
    elif status != 0:
        outcome.failure = f"it ended with status {status}"
    elif outcome.inputs < wanted:
        outcome.failure = f"it tried {outcome.inputs} of {wanted} inputs"
    if outcome.failure:
        outcome.said = tail(text)
    return outcome


def replay(program: Path, finding: bytes, limit_s: float = 60) -> tuple[Optional[int], str]:
    """Exit status (None: it did not end) and output of one input by itself."""
    return run([str(program), "--hex", finding.hex()], limit_s)


def replay_command(harness: Harness, finding: bytes) -> str:
    """For people: one line that does it again."""
    program = f"{harness.name}_fuzz"
    return f"bazel build --config=asan //tests/fuzz:{program} && bazel-asan-bin/tests/fuzz/{program} --hex {finding.hex()}"


def kind_of(finding: Path) -> str:
    """finding-crash-0123 is a crash."""
    return finding.name.removeprefix("finding-").rsplit("-", 1)[0]


def last_number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def tail(text: str) -> str:
    """The last lines, without those that only count inputs."""
    lines = [line for line in text.splitlines() if not re.match(r"#\d+\t", line)]
    return "\n".join(lines[-SHOWN_LINES:])


def run(command: list[str], limit_s: float) -> tuple[Optional[int], str]:
    """Status, None where it had to be killed, and all that it said."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment(),
    )
    try:
        text, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
        text, _ = child.communicate()
        return None, text
    except BaseException:
        child.kill()
        child.wait()
        raise
    return child.returncode, text
