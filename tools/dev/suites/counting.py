"""Reads off a finished run what passed, what failed and what was skipped, and why.

A Counter never believes a run that ended badly: where the exit status says failure and no failure was counted, one is.
"""

import json
import re
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterable


@dataclass
class Run:
    """One finished run of a suite's command."""

    status: int
    lines: list[str] = field(default_factory=list)  # stdout and stderr, in the order of arrival
    events: Path | None = None  # Bazel's build events, one JSON object per line
    ended: bool = False  # the run took too long and was ended


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)  # names, for the summary at the end
    skips: list[str] = field(default_factory=list)  # reasons


Counter = Callable[[Run], Counts]

# The line with which a test reports that this machine lacks a declared capability: "SKIP: what: why".
SKIP_LINE = re.compile(r"\bSKIP: (.+)")
# A script with an end line may also report it at the start of a line.
SKIPPED_LINE = re.compile(r"^(?:SKIPPED\s+|SKIP: )(.+)")
END_LINE = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")
# doctest counts parts of cases, which run in other processes, as skipped; tools/dev/lint allows doctest::skip only for
# those.
DOCTEST_END = re.compile(r"\[doctest\] test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed \|")
DOCTEST_CASE = re.compile(r"^TEST CASE:\s+(.*\S)")
# The line with which a script names a failed case; indented lines with details follow.
FAILED_LINE = re.compile(r"^FAIL(?:ED)?\s+(.+)")
# Readers may see only the end of the output, so this many lines about each failure are repeated there.
QUOTED_LINES = 12
ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def no_success_without_status(counts: Counts, run: Run) -> Counts:
    if run.status != 0 and counts.failed == 0:
        counts.failed = 1
        counts.failures.append(f"exit status {run.status}")
    return counts


def count_step(run: Run) -> Counts:
    """The whole command is one test."""
    if run.status == 0:
        return Counts(passed=1)
    last_lines = [line.rstrip() for line in run.lines if line.strip()][-QUOTED_LINES:]
    return Counts(failed=1, failures=["\n      ".join([f"exit status {run.status}", *last_lines])])


def count_end_line(run: Run) -> Counts:
    """The command's last line of the form `N passed, N failed, N skipped`; none is a failure."""
    for line in reversed(run.lines):
        if match := END_LINE.match(line.strip()):
            passed, failed, skipped = map(int, match.groups())
            skips = [m[1] for m in map(SKIPPED_LINE.match, run.lines) if m]
            return no_success_without_status(Counts(passed, failed, skipped, failed_cases(run.lines), skips), run)
    return Counts(failed=1, failures=["it did not end with 'N passed, N failed, N skipped'"])


def failed_cases(lines: list[str]) -> list[str]:
    """The cases that a script says have failed, each with what it says of them: the first lines of that and the last."""
    cases: list[list[str]] = []
    inside = False
    for line in lines:
        if match := FAILED_LINE.match(line):
            cases.append([match[1].rstrip()])
            inside = True
        elif inside and line.startswith("  ") and line.strip():
            cases[-1].append(line.strip("\n"))
        else:
            inside = False
    return ["\n  ".join([title, *shortened(said)]) for title, *said in cases]


def shortened(lines: list[str]) -> list[str]:
    half = QUOTED_LINES // 2
    return lines if len(lines) <= QUOTED_LINES else [*lines[:half], "    ...", *lines[-half:]]


def count_unittest(run: Run) -> Counts:
    """Python's unittest, run with --verbose."""
    counts = Counts()
    ran = None
    for line in run.lines:
        if match := re.match(r"Ran (\d+) tests? in ", line):
            ran = int(match[1])
        elif match := re.search(r"\.\.\. skipped ['\"](.*)['\"]$", line.rstrip()):
            counts.skips.append(match[1])
        elif match := re.match(r"(?:FAIL|ERROR): (.*)", line):
            counts.failures.append(match[1].strip())
    if not ran:
        return Counts(failed=1, failures=["unittest ran no test"])
    counts.failed = len(counts.failures)
    counts.skipped = len(counts.skips)
    counts.passed = max(0, ran - counts.failed - counts.skipped)
    return no_success_without_status(counts, run)


def count_bazel(run: Run) -> Counts:
    """The cases of every doctest binary; a test target of another kind is one. A target that did not build is a failure."""
    counts = Counts()
    if run.events is None or not run.events.exists():
        return Counts(failed=1, failures=["Bazel wrote no events"])
    with run.events.open(encoding="utf-8") as lines:
        targets = bazel_targets(lines)
    for label, target in sorted(targets.items()):
        count_target(label, target, counts)
    if not targets:
        if run.status == 4:  # Bazel found nothing to test, because a filter may select nothing
            counts.skips.append("no test has the tags asked for")
            return counts
        return Counts(failed=1, failures=[f"Bazel tested nothing, exit status {run.status}"])
    return no_success_without_status(counts, run)


@dataclass
class BazelTarget:
    status: str = "NO_STATUS"
    logs: list[Path] = field(default_factory=list)  # one for each shard


def bazel_targets(lines: Iterable[str]) -> dict[str, BazelTarget]:
    """Every test target that Bazel set out to run."""
    targets: dict[str, BazelTarget] = {}
    for line in lines:
        event = json.loads(line)
        ident = event.get("id", {})
        if "testSize" in event.get("configured", {}):
            targets.setdefault(ident["targetConfigured"]["label"], BazelTarget())
        elif "testSummary" in event:
            target = targets.setdefault(ident["testSummary"]["label"], BazelTarget())
            target.status = event["testSummary"]["overallStatus"]
        elif "testResult" in event:
            target = targets.setdefault(ident["testResult"]["label"], BazelTarget())
            for output in event["testResult"].get("testActionOutput", []):
                uri = urllib.parse.urlparse(output.get("uri", ""))
                if output["name"] == "test.log" and uri.scheme == "file":
                    target.logs.append(Path(urllib.parse.unquote(uri.path)))
    return targets


def count_target(label: str, target: BazelTarget, counts: Counts) -> None:
    said = "".join(log.read_text(encoding="utf-8", errors="replace") for log in target.logs if log.exists())
    text = ANSI_COLOUR.sub("", said)
    skips = [match[1].strip() for match in SKIP_LINE.finditer(text)]
    counts.skips += [f"{label}: {reason}" for reason in skips]
    counts.skipped += len(skips)
    passed, failed = 1, 0
    if ends := DOCTEST_END.findall(text):
        passed = sum(int(end[1]) for end in ends)
        failed = sum(int(end[2]) for end in ends)
    counts.passed += max(0, passed - len(skips)) if target.status in ("PASSED", "FLAKY") or ends else 0
    if target.status == "PASSED" and failed == 0:
        return
    # A crash, a sanitizer's report or a deadline leaves no count of failed cases, but is still a failure.
    counts.failed += max(1, failed)
    cases = []
    case = ""
    for line in text.splitlines():
        if match := DOCTEST_CASE.match(line):
            case = match[1]
        elif "ERROR:" in line and case and case not in cases:
            cases.append(case)
    how = target.status.lower().replace("_", " ")
    if target.status == "NO_STATUS":
        how = "did not build or did not run"
    if not cases:  # then the last lines of the output
        cases = [line for line in text.splitlines() if line.strip()][-QUOTED_LINES:]
    counts.failures.append(f"{label} {how}" + "".join(f"\n      {line}" for line in cases))
