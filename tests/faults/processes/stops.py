"""Ranks that stand still: stopped for less or more than the deadline, stuck in the application, all of them at once, and
clocks that jump (faults 3, 4, 5 and 31)."""

import re
import signal
import time

from commands import Failed
from stage import Programs, case

SUM_S = 1.5  # on a busy machine a sum may have begun so many seconds before a rank was stopped in it


def records_of(stage, ranks):
    """The flight recorders' dumps, in files."""
    paths = []
    for rank in ranks:
        paths.append(stage.folder / f"rank{rank.number}.json")
        paths[-1].write_text(rank.awaits("records")["text"], encoding="utf-8")
    return paths


@case(3)
def stopped_for_less_than_the_deadline(stage):
    """Nothing fails, every sum is right, and the records say who was late."""
    ranks = stage.job("connect sums:3 hold:on sums:1:1000 sums:5 dump:test close", ranks=3, deadline=20)
    for rank in ranks:
        rank.awaits("held")
    ranks[1].stop()
    stage.release("on")
    for rank in (ranks[0], ranks[2]):
        rank.awaits_inside(4, at_least_s=1)
    stage.fire(1, "the others wait in the sum")
    ranks[1].resume()
    outcome = stage.start(Programs.rondo, "trace", *records_of(stage, ranks)).end().exits(0)
    late = re.search(r"(?m)^.*late.*$", outcome.out)
    stage.expect(late and "rank 1" in outcome.out[late.start():late.start() + 400], f"the trace names no late rank 1\n{outcome}")
    stage.clean(ranks)
    stage.expect(all(rank.said("closed") for rank in ranks), "not all came to their end")
    stage.outcome("correct", 3)


@case(3)
def stopped_in_the_midst_of_a_sum_for_less_than_the_deadline(stage):
    ranks = stage.job("connect sums:3 sums:1:400000 sums:5 close", "connect sums:3 sums:1:400000 sums:5 close",
                      "connect sums:3 hold:on sums:1:400000 sums:5 close", deadline=20)
    ranks[1].awaits_inside(3)
    ranks[1].stop()
    stage.release("on")
    ranks[0].awaits_inside(3)
    ranks[2].awaits_inside(4, at_least_s=0.5)
    stage.fire(1, "the others wait in the sum")
    ranks[1].resume()
    stage.clean(ranks)
    stage.expect(all(rank.said("closed") for rank in ranks), "not all came to their end")
    stage.outcome("correct", 3)


@case(4)
def stopped_for_longer_than_the_deadline(stage, deadline_s=2):
    """The others fail at the deadline and go on; when it wakes up it is stale and touches nothing of theirs."""
    ranks = stage.job("connect work recover rebuild until:over close", "connect work recover rebuild until:over close",
                      "connect work recover rebuild sums:1 recover after", deadline=deadline_s, settle=1)
    victim = ranks[2]
    for rank in ranks:
        rank.awaits("works")
    stopped = victim.stop()
    stage.fire(1, "it stands still")
    left = ranks[:2]
    errors = stage.failed(left, "timeout", culprit=2, since_ns=stopped, within_s=deadline_s, inside=True)
    for error in errors:
        stage.expect((error["ns"] - stopped) / 1e9 >= deadline_s - SUM_S, "reported before the deadline")
        # A rank without a connection to the stopped rank cannot make one now: only the kernel accepts it.
        stage.expect(re.search(r"rank 2 \([^()]*(connected and silent for|not connected: .*it has accepted the connection, but has not answered)",
                               error["text"]), f"not said how it stands: {error['text']}")
    for rank in left:
        rank.awaits("rebuilt")
    victim.resume()
    stage.failed([victim], "stale", step="rebuild")
    stage.expect(victim.awaits("after")["code"] != "ok", "the old communicator still works")
    stage.release("over")
    stage.went_on(left, generation=1)
    stage.clean(ranks)


@case(5)
def alive_but_stuck_in_the_application(stage, deadline_s=2):
    """Its threads live and its connections are open: the others name it as connected, and not in their operation."""
    ranks = stage.job("connect sums:3 sums:1 recover rebuild sums:4 close", "connect sums:3 sums:1 recover rebuild sums:4 close",
                      f"connect sums:3 sleep:{(deadline_s + 5) * 1000} sums:1 recover rebuild recover after",
                      deadline=deadline_s, settle=1)
    for rank in ranks[:2]:
        rank.awaits_inside(3)
    now = time.monotonic_ns()
    stage.failed(ranks[:2], "timeout", culprit=2, since_ns=now, within_s=deadline_s, says=("connected",), inside=True)
    stage.fire(ranks[2].status_page()["fired"], "the stuck rank")
    stage.went_on(ranks[:2])
    stage.failed(ranks[2:], ("peer_lost", "timeout", "peer_aborted", "closed"), step="sums")
    stage.failed(ranks[2:], "stale", step="rebuild")
    stage.clean(ranks)


@case(31)
def all_are_stopped_at_once_as_when_the_machine_is_suspended(stage, deadline_s=2):
    """At most one timeout, correctly worded, and then they go on."""
    ranks = stage.job("connect until:over recover rebuild sums:4 close", ranks=3, deadline=deadline_s, settle=2)
    for rank in ranks:
        rank.awaits_inside(2, at_least_s=0)
    time.sleep(stage.dice.uniform(0.05, 0.1))
    for rank in ranks:
        rank.stop()
    time.sleep(deadline_s + 1)
    stage.fire(1, "all stood still for longer than the deadline")
    for rank in ranks:
        rank.resume()
    time.sleep(0.5)
    stage.release("over")
    stage.went_on(ranks)
    stage.clean(ranks)
    failed = [rank.events("failed") for rank in ranks]
    for rank, errors in zip(ranks, failed):
        if len(errors) > 1 or any(error["code"] != "timeout" for error in errors):
            raise Failed(f"rank {rank.number} says {errors}")
    stage.outcome("typed_error timeout" if any(failed) else "correct", 3)


@case(31)
def the_wall_clock_jumps(stage):
    """By an hour, forth and back, in each rank at another time: nothing is waited for by it."""
    ranks = stage.job("jump:3600 connect sums:20 jump:-7200 sums:20 sums:1:400000 dump:test close",
                      "connect sums:20 jump:3600 sums:20 hold:on jump:-3600 sums:1:400000 dump:test close",
                      "connect sums:20 jump:-3600 sums:20 sums:1:400000 dump:test close", deadline=20, timeout=20)
    ranks[1].awaits("held")
    ranks[0].awaits_inside(6, at_least_s=0.3)
    stage.release("on")
    stage.clean(ranks)
    stage.expect(all(rank.said("closed") for rank in ranks), "not all came to their end")
    stage.fire(min(rank.awaits("clean")["jumped_reads"] for rank in ranks), "no rank read the wall clock after the jump")
    stage.outcome("correct", 3)


@case(35)
def ended_by_sigint_or_sigterm_as_the_system_does_it(stage):
    """The library installs no handlers: the process ends, and to the others that is a death like any other."""
    for number in (signal.SIGINT, signal.SIGTERM):
        ranks = stage.job("connect work recover rebuild sums:4 close", ranks=3, url=f"file://{stage.folder}/store{number}")
        for rank in ranks:
            rank.awaits("works")
        sent = ranks[1].signal(number)
        stage.died(ranks[1], number)
        stage.fire(1, "its end by the signal")
        left = [ranks[0], ranks[2]]
        stage.failed(left, "peer_lost", culprit=1, since_ns=sent, within_s=10)
        stage.went_on(left)
        stage.clean(left)


@case(35)
def asked_to_end_by_sigterm_it_says_so_if_it_opted_in(stage):
    """A rank that answers SIGTERM with Abort: the others get the error, with the reason, before the process has ended."""
    ranks = stage.job("connect work recover rebuild sums:4 close", "connect on_term work",
                      "connect work recover rebuild sums:4 close")
    for rank in ranks:
        rank.awaits("works")
    sent = ranks[1].signal(signal.SIGTERM)
    stage.fire(1 if ranks[1].awaits("aborted") else 0, "its Abort")
    left = [ranks[0], ranks[2]]
    stage.failed(left, "peer_aborted", culprit=1, since_ns=sent, within_s=10, says=("asked to end by SIGTERM",))
    stage.failed(ranks[1:2], "aborted", says=("asked to end by SIGTERM",))
    stage.went_on(left)
    stage.clean(ranks)
