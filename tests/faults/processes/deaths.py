"""Ranks that are killed: at every step of a job's life, one and two of them (faults 1 and 2)."""

import signal

from commands import Failed
from stage import case

DEADLINE_S = 10
GO_ON = "recover rebuild sums:4 close"


def survivors_of(stage, ranks, victim, since_ns, codes="peer_lost", inside=False):
    """They name the victim long before the deadline, which the code says: who waits for it to pass says timeout."""
    left = [rank for rank in ranks if rank is not victim]
    stage.died(victim)
    stage.fire(1, "its end by SIGKILL")
    stage.failed(left, codes, culprit=victim.number, since_ns=since_ns, within_s=DEADLINE_S, inside=inside)
    stage.went_on(left)
    stage.clean(left)


@case(1)
def killed_before_it_connects(stage):
    ranks = stage.job("connect sums:1", "connect sums:1", "hold:never connect", timeout=3)
    victim = ranks[2]
    victim.awaits("held")
    for rank in ranks[:2]:
        rank.awaits_inside(1)
    killed = victim.kill()
    stage.died(victim)
    stage.fire(1, "its end by SIGKILL")
    stage.failed(ranks[:2], "rendezvous_timeout", since_ns=killed, within_s=3, says=("absent: 2",))
    stage.clean(ranks[:2])
    stage.new_job(3)


@case(1)
def killed_during_the_rendezvous(stage):
    """It has said who it is, and waits for the last one, which then comes. The rendezvous may succeed; the dead rank is reported
    by the first call then."""
    ranks = stage.job("connect sums:1", "connect sums:1", "hold:last connect sums:1", timeout=5)
    victim = ranks[stage.dice.randrange(2)]
    ranks[2].awaits("held")
    for rank in ranks[:2]:
        rank.awaits_inside(1, at_least_s=0.3)
    victim.kill()
    stage.died(victim)
    stage.fire(1, "its end by SIGKILL inside of Connect")
    stage.release("last")
    left = [rank for rank in ranks if rank is not victim]
    errors = stage.failed(left, ("peer_lost", "unreachable", "rendezvous_timeout"), since_ns=victim.killed_at, within_s=2 * 5)
    for error in errors:
        stage.expect(f"rank {victim.number}" in error["text"], "the dead one is not named")
    stage.clean(left)
    stage.new_job(3)


@case(1)
def killed_at_some_instant_of_its_connecting(stage):
    for attempt in range(20):
        if attempt >= 4 and stage.fired:
            break
        delay_us = stage.dice.randrange(100, 4_000)
        ranks = stage.job(f"kill_in:{delay_us} connect hold:never", "connect sums:1", timeout=2,
                          url=f"file://{stage.folder}/store{attempt}")
        stage.died(ranks[0])
        if ranks[0].status_page()["step"] == 2:
            stage.fire(1, "its end inside of Connect")
        stage.failed(ranks[1:], ("peer_lost", "unreachable", "rendezvous_timeout"), within_s=8)
        stage.clean(ranks[1:])
    stage.new_job(2)


@case(1)
def killed_between_operations(stage):
    script = f"connect sums:5 hold:on sums:200 {GO_ON}"
    ranks = stage.job(script, ranks=4)
    victim = ranks[stage.dice.randrange(4)]
    for rank in ranks:
        rank.awaits("held")
    killed = victim.kill()
    stage.release("on")
    survivors_of(stage, ranks, victim, killed)


@case(1)
def killed_in_the_midst_of_an_operation(stage):
    """At an instant from the seed; the status page says that the rank was inside a sum."""
    inside = 0
    for attempt in range(5):
        ranks = stage.job(f"connect work {GO_ON}", ranks=3, url=f"file://{stage.folder}/store{attempt}",
                          deadline=DEADLINE_S)
        victim = ranks[stage.dice.randrange(3)]
        for rank in ranks:
            rank.awaits("works")
        calls = victim.status_page()["calls"]
        while victim.status_page()["calls"] < calls + stage.dice.randrange(10):
            pass
        killed = victim.kill()
        inside += victim.status_page()["inside"]
        survivors_of(stage, ranks, victim, killed)
    stage.expect(inside, "no kill met an operation")


@case(1)
def killed_while_it_reduces(stage):
    """In the first reduction, and in later ones: it dies with a peer's bytes in its hands, over shm with a slot."""
    for when in (1, 2, 5):
        scripts = [f"connect define:{'kill' if rank == 1 else 'none'}:{when} sums:20:200000 {GO_ON}" for rank in range(3)]
        ranks = stage.job(*scripts, url=f"file://{stage.folder}/store{when}", deadline=DEADLINE_S)
        ranks[1].running.process.wait(60)
        stage.fire(ranks[1].status_page()["fired"], "the reduction was not called so often")
        survivors_of(stage, ranks, ranks[1], None, inside=True)


@case(1)
def killed_while_it_waits_for_another_in_an_operation(stage):
    late = f"connect sums:3 hold:late sums:1:100000 {GO_ON}"
    ranks = stage.job(f"connect sums:3 sums:1:100000 {GO_ON}", f"connect sums:3 sums:1:100000 {GO_ON}", late)
    ranks[2].awaits("held")
    for rank in ranks[:2]:
        rank.awaits_inside(3)
    killed = ranks[1].kill()
    stage.failed(ranks[:1], "peer_lost", culprit=1, since_ns=killed, within_s=DEADLINE_S, inside=True)
    stage.release("late")
    survivors_of(stage, ranks, ranks[1], killed)


@case(1)
def killed_in_a_barrier(stage):
    """Who comes last may pass it, since the dead one had come; then the sum behind it fails."""
    ranks = stage.job(f"connect sums:3 barrier sums:1 {GO_ON}", f"connect sums:3 barrier sums:1 {GO_ON}",
                      f"connect sums:3 hold:late barrier sums:1 {GO_ON}")
    ranks[2].awaits("held")
    for rank in ranks[:2]:
        rank.awaits_inside(3)
    killed = ranks[0].kill()
    stage.release("late")
    survivors_of(stage, ranks, ranks[0], killed)


@case(1)
def killed_while_it_closes(stage):
    """It has sent its goodbye and waits for no rank; ranks that still sum get the error that it has left."""
    ranks = stage.job("connect sums:5 close", f"connect sums:5 hold:late sums:1 {GO_ON}",
                      f"connect sums:5 hold:late sums:1 {GO_ON}")
    for rank in ranks[1:]:
        rank.awaits("held")
    ranks[0].awaits_inside(3)
    killed = ranks[0].kill()
    stage.release("late")
    survivors_of(stage, ranks, ranks[0], killed, codes=("peer_lost", "closed"))


@case(1)
def killed_while_all_close(stage):
    """One goodbye has been said; the others close too, which may succeed: nothing that they asked for is missing."""
    ranks = stage.job("connect sums:5 close", "connect sums:5 hold:late close", "connect sums:5 hold:late close")
    for rank in ranks[1:]:
        rank.awaits("held")
    ranks[0].awaits_inside(3)
    ranks[0].kill()
    stage.died(ranks[0])
    stage.fire(1, "its end inside of Close")
    stage.release("late")
    for rank in ranks[1:]:
        rank.awaits("clean")
        if (error := rank.said("failed")) is not None:
            stage.expect(error["code"] == "peer_lost" and error["culprit"] == 0, f"rank {rank.number} says {error['text']}")
            stage.outcome("typed_error peer_lost", 2)
        else:
            stage.outcome("correct", 2)
    stage.clean(ranks[1:])
    stage.new_job(3)


@case(2)
def two_die_together(stage):
    ranks = stage.job(f"connect work {GO_ON}", ranks=4, deadline=DEADLINE_S, settle=2)
    for rank in ranks:
        rank.awaits("works")
    victims = stage.dice.sample(ranks, 2)
    victims[0].stop()  # so that neither reports the other's end
    killed = victims[1].kill()
    victims[0].kill()
    left = [rank for rank in ranks if rank not in victims]
    for victim in victims:
        stage.died(victim)
        stage.fire(1, "its end by SIGKILL")
    errors = stage.failed(left, "peer_lost", since_ns=killed, within_s=DEADLINE_S, alike=False)
    stage.expect({error["culprit"] for error in errors} <= {victim.number for victim in victims}, "they name another rank")
    stage.went_on(left)
    stage.clean(left)


@case(2)
def a_second_one_dies_while_the_others_rebuild(stage):
    ranks = stage.job(f"connect sums:3 hold:on sums:200 {GO_ON}", f"connect sums:3 hold:on sums:200 {GO_ON}",
                      f"connect sums:3 hold:on sums:200 recover kill_in:{stage.dice.randrange(1_500)} rebuild sums:100000",
                      "connect sums:3 hold:on kill", settle=1, deadline=DEADLINE_S)
    stage.release("on")
    for victim in ranks[2:]:
        stage.died(victim)
        stage.fire(1, "its end by SIGKILL")
    left = ranks[:2]
    stage.failed(left, "peer_lost", culprit=3, within_s=DEADLINE_S)
    for rank in left:  # the second death may happen after the rebuild; then it is reported, and no rank continues
        rank.awaits("clean")
    if all(rank.said("closed") for rank in left):
        stage.went_on(left)
    else:
        later = [rank.events("failed")[-1] for rank in left]
        stage.expect(all(error["code"] in ("peer_lost", "rebuild_failed") for error in later), f"they say {later}")
    stage.clean(left)
    stage.new_job(2)


@case(1, 35)
def killed_while_others_write_to_it_and_no_rank_dies_of_sigpipe(stage):
    """SIGPIPE has its default, which ends a process: the library must not raise it, and installs no handler either."""
    ranks = stage.job(f"connect sums:2 sums:100000:400000 {GO_ON}", ranks=2, deadline=DEADLINE_S)
    for rank in ranks:
        rank.awaits_inside(3, at_least_s=0)
    for rank in ranks:
        masks = dict(line.split(":\t") for line in open(f"/proc/{rank.pid}/status", encoding="utf-8").read().splitlines()
                     if line.startswith("Sig"))
        for field in ("SigCgt", "SigIgn"):
            for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
                if int(masks[field], 16) >> (number - 1) & 1:
                    raise Failed(f"rank {rank.number} has {number.name} in {field}")
    killed = ranks[1].kill()
    survivors_of(stage, ranks, ranks[1], killed)
