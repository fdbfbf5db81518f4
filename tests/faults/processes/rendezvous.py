"""Rendezvous that cannot succeed: ranks claimed twice, absent, of another world or configuration, ports that are taken or
come late (faults 15, 16, 17, 19, 24 and 25)."""

import socket
import time

from commands import free_port
from stage import HOST, case


def last_of(first, last):
    """The rank that spoils a rendezvous comes last: a file store that all have left starts again, and would keep waiting
    any rank that comes only then."""
    for rank in first:
        rank.awaits_inside(1)
    return last()


def stores(stage):
    """The same in a file, and in a store of its own process."""
    return {"file": stage.file_store(), "tcp": stage.tcp_store()[1]}.values()


@case(15, paths=("tcp",))
def two_processes_claim_one_rank(stage):
    for url in stores(stage):
        first = stage.rank(1, 3, "connect sums:1", url=url)
        other = stage.rank(0, 3, "connect sums:1", url=url)
        second = last_of([first, other], lambda at=url: stage.rank(1, 3, "connect sums:1", url=at))
        now = time.monotonic_ns()
        errors = stage.failed([first, second, other], "duplicate_rank", since_ns=now, within_s=20)
        for error in errors[:2]:
            stage.expect(str(first.pid) in error["text"] and str(second.pid) in error["text"] and HOST in error["text"],
                         "not both claimants are named")
        stage.fire(1, "two claims")
        stage.clean([first, second, other])
    stage.new_job(3)


@case(16, paths=("tcp",))
def the_ranks_disagree_about_the_world(stage):
    for url in stores(stage):
        first = stage.rank(0, 2, "connect sums:1", url=url)
        ranks = [first, last_of([first], lambda at=url: stage.rank(1, 3, "connect sums:1", url=at))]
        stage.failed(ranks, "world_size_mismatch", since_ns=time.monotonic_ns(), within_s=10)
        stage.fire(1, "two sizes")
        stage.clean(ranks)
    stage.new_job(2)


@case(16, paths=("tcp",))
def a_rank_never_comes(stage):
    for url in stores(stage):
        ranks = [stage.rank(rank, 4, "connect sums:1", url=url, timeout=3) for rank in (0, 1, 3)]
        for rank in ranks:
            rank.awaits_inside(1)
        for error in stage.failed(ranks, "rendezvous_timeout", since_ns=time.monotonic_ns(), within_s=3):
            stage.expect("absent: 2;" in error["text"] and f"1 (host {HOST}, pid {ranks[1].pid})" in error["text"],
                         "not said who came and who did not")
        stage.fire(1, "three of four came")
        stage.clean(ranks)
    stage.new_job(4)


@case(17)
def a_crashed_rank_comes_back_into_a_new_generation_only(stage):
    script = "connect sums:3 hold:on sums:200 recover drop hold:again connect:1 sums:5 close"
    ranks = stage.job(script, ranks=3)
    for rank in ranks:
        rank.awaits("held")
    killed = ranks[1].kill()
    stage.release("on")
    left = [ranks[0], ranks[2]]
    stage.failed(left, "peer_lost", culprit=1, since_ns=killed, within_s=10)
    back = stage.rank(1, 3, "connect sums:1", timeout=3)
    stage.failed([back], ("duplicate_rank", "stale", "rendezvous_timeout"))
    stage.fire(1, "its claim of the old generation")
    back.awaits("clean")
    for rank in left:
        rank.awaits("held", name="again")  # they have freed everything of the old generation, also its store
    again = stage.rank(1, 3, "connect:1 sums:5 close")
    stage.release("again")
    for rank in (*left, again):
        rank.awaits("closed")
    stage.clean([*left, back, again])


@case(17, 25)
def the_whole_job_comes_back_to_the_port_that_it_crashed_at(stage):
    port = free_port()
    url = f"tcp://127.0.0.1:{port}"
    for attempt in range(2):
        ranks = [stage.rank(rank, 3, "connect work" if attempt == 0 else "connect sums:5 close", url=url,
                            serves=True) for rank in range(3)]
        if attempt == 0:
            for rank in ranks:
                rank.awaits("works")
            for rank in ranks:
                rank.kill()
            stage.fire(3, "all died, and their connections linger")
    stage.clean(ranks)
    stage.expect(all(rank.said("closed") for rank in ranks), "the new job did not come through")
    stage.outcome("correct", 3)


@case(19, paths=("tcp",))
def ranks_are_configured_differently(stage):
    for flag, field in ((("--checksums",), "checksums"), (("--frame-bytes", "65536"), "frame_bytes")):
        for url in (f"file://{stage.folder}/{field}", stage.tcp_store()[1]):
            ranks = [stage.rank(rank, 3, "connect sums:1", url=url) for rank in (0, 2)]
            ranks.append(last_of(ranks, lambda at=url, with_=flag: stage.rank(1, 3, "connect sums:1", *with_, url=at)))
            for error in stage.failed(ranks, "version_mismatch", since_ns=time.monotonic_ns(), within_s=10, says=(field,)):
                stage.expect("rank 1" in error["text"] or error["culprit"] == 1, "not said who differs")
            stage.fire(1, "two configurations")
            stage.clean(ranks)
    stage.new_job(3)


@case(24, paths=("tcp",))
def there_is_no_listener_where_the_store_should_be(stage):
    url = f"tcp://127.0.0.1:{free_port()}"
    ranks = [stage.rank(rank, 2, "connect sums:1", url=url, timeout=2) for rank in range(2)]
    for rank in ranks:
        rank.awaits_inside(1)
    stage.failed(ranks, "unreachable", since_ns=time.monotonic_ns(), within_s=2, says=(url.removeprefix("tcp://"), "refused"))
    stage.fire(1, "no listener")
    stage.clean(ranks, cpu_s=1)
    stage.new_job(2)


@case(24, paths=("tcp",))
def the_listener_comes_late(stage):
    url = f"tcp://127.0.0.1:{free_port()}"
    early = [stage.rank(rank, 3, "connect sums:5 close", url=url, serves=True) for rank in (1, 2)]
    for rank in early:
        rank.awaits_inside(1, at_least_s=1)
    stage.fire(1, "no listener for a second")
    ranks = [stage.rank(0, 3, "connect sums:5 close", url=url, serves=True), *early]
    stage.clean(ranks)
    stage.expect(all(rank.said("closed") for rank in ranks), "not all came through")
    stage.outcome("correct", 3)


@case(24, paths=("tcp",))
def the_interface_or_address_is_not_of_this_machine(stage):
    for options, what in (({"interface": "nosuch0", "address": ""}, "nosuch0"), ({"address": "192.0.2.1"}, "192.0.2.1")):
        ranks = [stage.rank(rank, 2, "connect sums:1", timeout=3, **options) for rank in range(2)]
        stage.failed(ranks, ("unreachable", "invalid_argument"), since_ns=time.monotonic_ns(), within_s=3, says=(what,),
                     alike=False)  # both ranks lack it
        stage.fire(1, "refused")
        stage.clean(ranks)
    stage.new_job(2)


@case(25, paths=("tcp",))
def the_port_of_the_store_is_taken(stage):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        rank = stage.rank(0, 2, "connect sums:1", url=f"tcp://{address}", serves=True, timeout=20)
        rank.awaits("pid")
        stage.failed([rank], "address_in_use", since_ns=rank.said("pid")["ns"], within_s=2, says=(address,))
        stage.fire(1, "another process listens there")
        stage.clean([rank])
    stage.new_job(2)
