"""When things go wrong: stores, ports, ranks that are missing, killed, interrupted or disagree."""

import http.server
import os
import pathlib
import signal
import socket
import threading
import time

from cli import FIRST_ROW, LONG, RONDO, SMALL, companion, ranks, rondo
from commands import Failed, Running, case, free_port, process_alive, wait_until


@case
def a_store_that_is_not_there_is_named():
    port = free_port()
    for outcome in [rank.end() for rank in ranks(2, "all_reduce", url=f"tcp://127.0.0.1:{port}", numbers=[1], timeout=2)]:
        outcome.exits(1).says(rf"127\.0\.0\.1:{port}", "refused").within(10)


@case
def something_else_listening_is_named():
    class Page(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        outcome = ranks(2, "all_reduce", url=f"tcp://127.0.0.1:{port}", numbers=[1], timeout=3)[0].end()
        server.shutdown()
        outcome.exits(1).says(str(port)).within(15)


@case
def a_port_that_is_taken_is_named_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = ranks(2, "all_reduce", url=f"tcp://127.0.0.1:{port}", numbers=[0])[0].end()
        outcome.exits(1).says("address_in_use", rf"127\.0\.0\.1:{port}").within(5)


@case
def two_processes_with_one_rank_are_both_reported():
    url = f"tcp://127.0.0.1:{free_port()}"
    waiting = ranks(3, "all_reduce", *SMALL, url=url, numbers=[0, 1, 1])
    outcomes = [process.end() for process in waiting]
    for outcome in outcomes:
        outcome.exits(1).says("duplicate_rank", "rank 1", *(str(process.process.pid) for process in waiting[1:])).within(15)


@case
def a_missing_rank_is_listed_at_the_deadline():
    url = f"tcp://127.0.0.1:{free_port()}"
    for outcome in [process.end() for process in ranks(3, "all_reduce", *SMALL, url=url, numbers=[0, 2], timeout=2)]:
        outcome.exits(1).says("rendezvous_timeout", r"(?s)(absent|missing).*\b1\b").within(15)


@case
def different_world_sizes_are_reported_to_every_rank():
    port = free_port()
    processes = [Running(RONDO, "perf", "all_reduce", "--rendezvous", f"tcp://127.0.0.1:{port}", "--rank", rank, "--world-size",
                         world, "--timeout", 10) for rank, world in ((0, 2), (1, 3))]
    for process in processes:
        process.end().exits(1).says("world_size_mismatch").within(15)


@case
def survivors_of_a_killed_rank_end_and_name_it():
    url = f"tcp://127.0.0.1:{free_port()}"
    processes = ranks(3, "all_reduce", *LONG, "--transport", "tcp", url=url, timeout=60)
    processes[0].wait_for(FIRST_ROW)
    processes[2].signal(signal.SIGKILL).end()
    killed_at = time.monotonic()
    for process in processes[:2]:
        process.end().exits(1).says("rank 2", "peer_lost|connection_reset")
    if (took := time.monotonic() - killed_at) > 10:
        raise Failed(f"the survivors took {took:.1f} s to notice")


@case
def survivors_in_shared_memory_end_and_name_it():
    for size in ("8", "4M"):  # in one round; by relay
        url = f"tcp://127.0.0.1:{free_port()}"
        processes = ranks(3, "all_reduce", "-b", size, "-e", size, "-n", "1000000", "--transport", "shm", url=url, timeout=60)
        time.sleep(1)
        processes[1].signal(signal.SIGKILL).end()
        killed_at = time.monotonic()
        for rank in (0, 2):
            processes[rank].end().exits(1).says("rank 1", "peer_lost|connection_reset|peer_aborted")
        if (took := time.monotonic() - killed_at) > 10:
            raise Failed(f"the survivors took {took:.1f} s to notice")


@case
def perf_with_local_ranks_names_the_one_that_was_killed():
    job = Running(RONDO, "perf", "all_reduce", "-N", "3", *LONG)
    job.wait_for(FIRST_ROW)
    children = pathlib.Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split()
    victim = next(pid for pid in children if b"RANK=1\0" in pathlib.Path(f"/proc/{pid}/environ").read_bytes().replace(
        b"LOCAL_RANK", b"LOCAL_"))
    os.kill(int(victim), signal.SIGKILL)
    job.end().exits(128 + 9).says(rf"rank 1 \(pid {victim}\) was killed by SIGKILL", r"rank [02]: peer_lost.*rank 1").within(20)
    wait_until(lambda: not any(process_alive(int(pid)) for pid in children), "the ranks end")


@case
def interrupted_perf_ends_with_130_and_leaves_nothing():
    job = Running(RONDO, "perf", "all_reduce", "-N", "3", *LONG)
    job.wait_for(FIRST_ROW)
    children = pathlib.Path(f"/proc/{job.process.pid}/task/{job.process.pid}/children").read_text().split()
    job.signal(signal.SIGINT).end().exits(130).within(20)
    wait_until(lambda: not any(process_alive(int(pid)) for pid in children), "the ranks end")


@case
def interrupted_perf_in_one_process_ends_with_130():
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        job = Running(RONDO, "perf", "all_reduce", "-N", "3", "--transport", "inproc", *LONG)
        job.wait_for(FIRST_ROW)
        job.signal(number).end().exits(code).says("interrupted" if code == 130 else "SIGTERM").within(20)


@case
def peers_of_an_interrupted_rank_are_reported():
    url = f"tcp://127.0.0.1:{free_port()}"
    processes = ranks(2, "all_reduce", *LONG, url=url, timeout=60)
    processes[0].wait_for(FIRST_ROW)
    processes[1].signal(signal.SIGINT).end().exits(130).within(15)
    processes[0].end().exits(1).says("peer_aborted", "rank 1", "interrupted").within(15)


@case
def ranks_that_disagree_all_get_both_sides():
    program = companion("tests/cli/mismatch")
    # With "root" two ranks agree, and both must return an error. Repeated, because a rank may receive the error by
    # chance.
    for difference, both in (("collective", ("all_reduce", "broadcast")), ("count", ("1000", "999")),
                             ("type", ("float32", "int32")), ("op", ("sum", "max")), *(("root", ("from rank 0", "from rank 1")),) * 5,
                             ("order", ("all_reduce", "barrier"))):
        outcome = rondo("run", "-N", "3", "--", program, difference).exits(7).within(15)
        for rank in range(3):
            outcome.says(*(rf"\[{rank}\] rank {rank}: .*mismatch.*{side}" for side in both))


@case
def ranks_that_wait_for_each_other_get_both_sides():
    outcome = rondo("run", "-N", "3", "--", companion("tests/cli/mismatch"), "stuck").fails().within(15)
    for rank in range(3):
        outcome.says(rf"\[{rank}\] rank {rank}: .*mismatch: the ranks disagree")
    outcome.says("broadcast float32 x 1000 from rank 0", "all_reduce float32 x 1000 sum")
