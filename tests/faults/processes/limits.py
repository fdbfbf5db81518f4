"""Processes to which the system gives no more: descriptors, shared memory, threads (faults 26, 29 and 30)."""

import os
import time

from stage import GRACE_S, ROOT, SLACK_S, Programs, case

FORBID = str(ROOT / "tests/support/forbid")
CPU_S = 3.0  # the most CPU time after the limit was set; a busy loop would use the whole wait
WAIT_S = 4  # the timeout and the deadline in these cases
FIRST_UID = 54321  # the first of some user ids without other processes, one for each rank
# Error codes that the other ranks may get: the limited rank never joined, it left, or it reported the reason.
REPORTED = ("rendezvous_timeout", "resource", "peer_lost", "peer_aborted", "unreachable", "closed", "store_lost")


def starve(stage, before_connect, numbers):
    """Rank 1 gets so many descriptors more, from before the rendezvous or after it; all jobs at once. What comes of it may
    be success: each number of them ends in another place."""
    jobs = {}
    for more in numbers:
        limited = f"limit:nofile:{more} connect" if before_connect else f"connect limit:nofile:{more}"
        # Rank 0 connects only after the limit is set, so no earlier connection exists.
        other = "connect" if before_connect else f"connect hold:limited{more}"
        jobs[more] = stage.job(f"{other} sums:3:1000 close", f"{limited} sums:3:1000 close limit:off",
                               url=f"file://{stage.folder}/store{more}", timeout=WAIT_S, deadline=WAIT_S)
    for more, ranks in jobs.items() if not before_connect else ():
        ranks[1].awaits("limited")
        stage.release(f"limited{more}")
    failed = 0
    for more, ranks in jobs.items():
        stage.clean(ranks, cpu_s=CPU_S)
        errors = {rank.number: error for rank in ranks if (error := rank.said("failed"))}
        if not errors:
            stage.outcome("correct", 2)
            continue
        failed += 1
        for number, error in errors.items():
            seconds = (error["ns"] - ranks[1].awaits("limited")["ns"]) / 1e9
            stage.expect(seconds <= 2 * WAIT_S + SLACK_S + GRACE_S, f"with {more} more rank {number} gets its error after {seconds:.1f} s")
            stage.expect(error["code"] in (("resource",) if number == 1 else REPORTED), f"with {more} more: {error['text']}")
            stage.outcome(f"typed_error {error['code']}", 1)
        text = " ".join(error["text"] for error in errors.values())
        stage.expect("descriptor" in text or "Too many open files" in text,
                     f"with {more} more no rank says what was missing: {text}")
    stage.fire(failed, "there were always enough descriptors")
    stage.new_job(2)


@case(26)
def too_few_descriptors_to_connect(stage):
    starve(stage, True, range(0, 12))


@case(26)
def too_few_descriptors_for_the_first_operation(stage):
    starve(stage, False, range(0, 8))


@case(26)
def others_get_the_error_that_a_rank_has_no_descriptor_left(stage):
    """Before the rendezvous: not that it never came, nor that it died."""
    for more in (4, 8, 11):
        ranks = stage.job("connect sums:3:1000 close", f"limit:nofile:{more} connect sums:3:1000 close limit:off",
                          url=f"file://{stage.folder}/store{more}")
        stage.failed(ranks, "resource", culprit=1, says=("more file descriptor", "raise the limit (ulimit -n)"))
        stage.fire(1, "there were enough")
        stage.clean(ranks, cpu_s=CPU_S)
    stage.new_job(2)


@case(26, paths=("tcp",))
def too_few_descriptors_in_the_store(stage):
    """`rondo store` can take no client in; a refused client gets its error in time, and the store does not spin."""
    store = stage.start("sh", "-c", f"ulimit -n 10; exec {os.path.abspath(Programs.rondo)} store --listen 127.0.0.1:0")
    url = store.wait_for(r"listening on (tcp://\S+)")[1]
    ranks = stage.job("connect sums:3 close", ranks=4, url=url, timeout=WAIT_S)
    for rank in ranks:
        rank.awaits_inside(1)
    now = time.monotonic_ns()
    stage.failed(ranks, ("store_timeout", "unreachable", "rendezvous_timeout", "store_lost"), since_ns=now, within_s=WAIT_S,
                 alike=False)
    stage.fire(1, "they could not all get in")
    stage.clean(ranks, cpu_s=CPU_S)
    ticks = open(f"/proc/{store.process.pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()[11:13]
    spent_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    stage.expect(spent_s < 1, f"the store computed for {spent_s} s")
    stage.new_job(2, url=url, generation=1)


@case(29, paths=("shm",))
def shared_memory_cannot_be_made(stage):
    """On one rank, then on all: sockets serve, and the path says why."""
    for who in ((0,), (1,), (0, 1, 2)):
        url = f"file://{stage.folder}/store{len(who)}{who[0]}"
        ranks = [stage.rank(rank, 3, "connect sums:5 sums:1:400000 close", url=url,
                            before=(FORBID, "memfd") if rank in who else ()) for rank in range(3)]
        stage.clean(ranks)
        stage.expect(all(rank.said("closed") for rank in ranks), "not all came through")
        stage.fire(1, "memfd_create is refused")
    stage.outcome("correct", 3)


@case(29, paths=("shm",))
def shared_memory_may_not_be_passed_on(stage):
    ranks = [stage.rank(rank, 3, "connect sums:5 sums:1:400000 close", before=(FORBID, "unix_sockets") if rank == 1 else ())
             for rank in range(3)]
    stage.clean(ranks)
    stage.expect(all(rank.said("closed") for rank in ranks), "not all came through")
    stage.fire(1, "Unix sockets are refused")
    stage.outcome("correct", 3)


@case(30)
def no_thread_can_be_started(stage):
    """For another user, under a limit on threads that lets the first so many start."""
    os.chmod(stage.folder, 0o777)
    failed = 0
    for more in range(0, 4):
        store, url = stage.tcp_store()
        script = "connect sums:3 async:3:1000 wait close"
        uid = FIRST_UID + 10 * int(stage.mark.rsplit("-")[-1]) + more
        ranks = [stage.rank(0, 2, script, url=url, timeout=WAIT_S),
                 stage.rank(1, 2, f"user:{uid} limit:nproc:{more} {script} limit:off", url=url, timeout=WAIT_S)]
        stage.clean(ranks, cpu_s=CPU_S)
        if (error := ranks[1].said("failed")) is not None:
            failed += 1
            stage.expect(error["code"] == "resource" and "thread" in error["text"], f"with {more} threads more: {error['text']}")
            stage.outcome("typed_error resource", 1)
            stage.failed(ranks[:1], REPORTED)
        else:
            stage.expect(all(rank.said("closed") for rank in ranks), "not all came through")
            stage.outcome("correct", 2)
        store.signal(15)
    stage.fire(failed, "there were always enough threads")
    stage.new_job(2)


@case(30)
def no_event_descriptors_can_be_made(stage):
    for what in ("eventfd", "epoll"):
        url = f"file://{stage.folder}/store_{what}"
        ranks = [stage.rank(0, 2, "connect sums:3 close", url=url, timeout=WAIT_S),
                 stage.rank(1, 2, "connect sums:3 close", url=url, timeout=WAIT_S, before=(FORBID, what))]
        stage.failed(ranks[1:], "resource")
        stage.fire(1, "it is refused")
        stage.failed(ranks[:1], REPORTED)
        stage.clean(ranks, cpu_s=CPU_S)
    stage.new_job(2)
