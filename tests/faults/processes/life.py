"""What an application does to itself: Abort at any instant, destructors too early, functions that throw, fork (faults 32,
33 and 34)."""

import os
import signal

from commands import free_port
from stage import case

GO_ON = "recover rebuild sums:4 close"
ABORT_MS = 1000  # the longest time that an Abort may take
DEADLINE_S = 10


def aborted_by(stage, ranks, culprit, reason, within_ms=ABORT_MS):
    for event in ranks[culprit].events("aborted"):
        stage.expect(event["took_ms"] < within_ms, f"Abort took {event['took_ms']} ms")
    stage.fire(len(ranks[culprit].events("aborted")), "no rank aborted")
    first = min(event["ns"] for event in ranks[culprit].events("aborted"))
    others = [rank for rank in ranks if rank.number != culprit]
    stage.failed([ranks[culprit]], "aborted", says=(reason,))
    stage.failed(others, "peer_aborted", culprit=culprit, since_ns=first, within_s=1, says=(reason,))


@case(32)
def aborted_from_another_thread_at_some_instant(stage):
    for attempt in range(4):
        delay_us = stage.dice.randrange(100_000)
        ranks = stage.job(f"connect work {GO_ON}", f"connect abort_in:{delay_us}:enough work {GO_ON}", f"connect work {GO_ON}",
                          url=f"file://{stage.folder}/store{attempt}")
        for rank in ranks:
            rank.awaits("rebuilt")
        aborted_by(stage, ranks, 1, "enough")
        stage.went_on(ranks)
        stage.clean(ranks)


@case(32)
def aborted_by_several_threads_at_once(stage):
    ranks = stage.job(f"connect abort_in:20000:enough:8 work {GO_ON}", f"connect work {GO_ON}", f"connect work {GO_ON}")
    for rank in ranks:
        rank.awaits("rebuilt")
    aborted_by(stage, ranks, 0, "enough")
    stage.expect(len(ranks[0].events("aborted")) == 8, "not all of them came back")
    stage.went_on(ranks)
    stage.clean(ranks)


@case(32)
def aborted_with_many_operations_issued(stage):
    """No rank waits for them yet: all end, with one first cause."""
    issue = "connect sums:2 async:50:100000"
    ranks = stage.job(f"{issue} wait {GO_ON}", f"{issue} abort:enough wait {GO_ON}",
                      f"connect sums:2 hold:late async:50:100000 wait {GO_ON}")
    ranks[1].awaits("aborted")
    stage.release("late")
    for rank in ranks:
        rank.awaits("rebuilt")
    aborted_by(stage, ranks, 1, "enough")
    for rank in ranks[:2]:
        waited = rank.awaits("waited")
        stage.expect(waited["works"] == 50 and waited["failed"] >= 49, f"rank {rank.number} says {waited}")
    stage.went_on(ranks)
    stage.clean(ranks)


@case(32)
def aborted_in_a_callback(stage):
    ranks = stage.job(f"connect abort_callback:enough sums:10000 {GO_ON}", f"connect async:1:1 wait sums:10000 {GO_ON}", ranks=2)
    for rank in ranks:
        rank.awaits("rebuilt")
    aborted_by(stage, ranks, 0, "enough")
    stage.went_on(ranks)
    stage.clean(ranks)


@case(33)
def destroyed_with_operations_in_flight(stage):
    """The rank that leaves returns at once; the others get the error that it left."""
    ranks = stage.job("connect sums:2 async:20:200000 drop", f"connect sums:2 async:20:200000 hold:late wait sums:100 {GO_ON}",
                      f"connect sums:2 hold:late async:20:200000 wait sums:100 {GO_ON}")
    dropped = ranks[0].awaits("dropped")
    stage.expect(dropped["took_ms"] < 5_000, f"the destructor took {dropped['took_ms']} ms")
    stage.fire(1, "operations were in flight: the last rank had not come")
    stage.release("late")
    left = ranks[1:]
    stage.failed(left, ("peer_aborted", "closed"), culprit=0, since_ns=dropped["ns"], within_s=DEADLINE_S)
    stage.went_on(left)
    stage.clean(ranks)


@case(33)
def a_reduction_of_the_users_throws(stage):
    """The process lives, the operation fails there with what was thrown, and the others get an error."""
    for when in (1, 3):
        scripts = [f"connect define:{'throw' if rank == 1 else 'none'}:{when} sums:20:200000 {GO_ON}" for rank in range(3)]
        ranks = stage.job(*scripts, url=f"file://{stage.folder}/store{when}")
        for rank in ranks:
            rank.awaits("failed")
        stage.fire(ranks[1].status_page()["fired"], "it was not called so often")
        stage.failed(ranks[1:2], "aborted", says=("thrown by the user's reduction",), inside=True)
        stage.failed([ranks[0], ranks[2]], "peer_aborted", culprit=1, says=("thrown by the user's reduction",))
        stage.went_on(ranks)
        stage.clean(ranks)


@case(34)
def forked_and_the_child_ends_as_main_does(stage):
    """Between operations, with lanes and memory shared: the child's copies are destroyed, and the parent notices nothing."""
    ranks = stage.job("connect sums:5 fork sums:5 sums:1:400000 fork close", ranks=3, timeout=DEADLINE_S)
    for rank in ranks:
        stage.expect(rank.awaits("forked")["exit"] == 0, f"the child of rank {rank.number} ended otherwise")
    stage.clean(ranks)
    stage.expect(all(rank.said("closed") for rank in ranks), "not all parents came through")
    stage.fire(sum(rank.status_page()["fired"] for rank in ranks), "no fork")
    stage.outcome("correct", 3)


@case(34)
def forked_in_the_rank_that_serves_the_store(stage):
    url = f"tcp://127.0.0.1:{free_port()}"
    ranks = [stage.rank(rank, 2, "connect sums:5 fork sums:5 rebuild sums:5 close", url=url, serves=True, settle=1,
                        timeout=DEADLINE_S) for rank in range(2)]
    for rank in ranks:
        stage.expect(rank.awaits("forked")["exit"] == 0, f"the child of rank {rank.number} ended otherwise")
    stage.went_on(ranks)
    stage.clean(ranks)
    stage.fire(sum(rank.status_page()["fired"] for rank in ranks), "no fork")
    stage.outcome("correct", 2)


@case(34)
def a_child_that_is_another_program_keeps_nothing_open(stage):
    """It outlives its parent, which is killed: the others detect that at once all the same."""
    ranks = stage.job(f"connect sums:3 exec:60 hold:on sums:100 {GO_ON}", ranks=3)
    for rank in ranks:
        rank.awaits("held")
    killed = ranks[1].kill()
    stage.release("on")
    left = [ranks[0], ranks[2]]
    stage.died(ranks[1])
    stage.failed(left, "peer_lost", culprit=1, since_ns=killed, within_s=3)
    stage.fire(1, "its child lives on")
    stage.went_on(left)
    stage.clean(left)
    for rank in ranks:  # without this the children would live for some time
        os.kill(rank.said("spawned")["child"], signal.SIGKILL)


@case(34)
def a_forked_child_that_lives_on_hides_its_parents_death_until_the_deadline(stage, deadline_s=3):
    """It has copies of its parent's sockets, so nothing ends with the parent (docs/GOTCHAS.md)."""
    ranks = stage.job(f"connect sums:3 hold:on sums:100 {GO_ON}", "connect sums:3 fork_on:60 hold:on sums:100",
                      f"connect sums:3 hold:on sums:100 {GO_ON}", deadline=deadline_s)
    for rank in ranks:
        rank.awaits("held")
    killed = ranks[1].kill()
    stage.died(ranks[1])
    stage.fire(ranks[1].status_page()["fired"], "the child lives on")
    stage.release("on")
    left = [ranks[0], ranks[2]]
    stage.failed(left, ("timeout", "peer_lost"), culprit=1, since_ns=killed, within_s=deadline_s, inside=True)
    stage.went_on(left)
    stage.clean(left)
    os.kill(ranks[1].said("spawned")["child"], signal.SIGKILL)
