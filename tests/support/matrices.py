"""Judging a matrix of `rondo perf send_recv --matrix` on a machine that may pause."""

from typing import Callable

from commands import Failed, Outcome


def too_slow_in(report: dict) -> set[tuple[int, int]]:
    """The ways (from rank, to rank) that a report of --json calls too slow."""
    return {(pair["from"], pair["to"]) for pair in report["pairs"] if pair["too_slow"]}


def too_slow_every_time(expected: set[tuple[int, int]], measure: Callable[[], tuple[Outcome, dict]]) -> Outcome:
    """The first run of up to three after which exactly the expected ways have been too slow in each: while the machine pauses,
    another way is too slow in one run, but not in all three. `measure`: runs once, and returns the outcome and the report."""
    slow = None
    for _ in range(3):
        outcome, report = measure()
        slow = too_slow_in(report) if slow is None else slow & too_slow_in(report)
        if slow == expected:
            return outcome
    raise Failed(f"too slow in all three runs: {sorted(slow)}; expected {sorted(expected)}; {outcome}")


def sound_in_some_run(measure: Callable[[], tuple[Outcome, dict]]) -> Outcome:
    """The first run of up to three in which no way was too slow."""
    for _ in range(3):
        outcome, report = measure()
        if not too_slow_in(report):
            return outcome
    raise Failed(f"some way was too slow in each of three runs; {outcome}")
