"""Ranks of one host: when they share memory, and what serves where the system refuses that."""

import json
import os
import pathlib
import tempfile

from cli import ROOT, RONDO, SMALL, lab_of_hosts, rondo
from commands import Running, Skipped, case, free_port


@case
def ranks_of_one_host_share_memory_unless_sockets_are_asked_for():
    for flags, names in (((), {"shm"}), (("--transport", "shm"), {"shm"}), (("--transport", "tcp"), {"tcp"})):
        outcome = rondo("perf", "all_reduce", "-N", "3", *flags, *SMALL, "--json", "-").exits(0)
        assert {row["transport"] for row in json.loads(outcome.out)["rows"]} == names, outcome
    rondo("perf", "all_reduce", "-N", "1", *SMALL).exits(0).says("1 ranks over none")


@case
def where_the_system_refuses_what_sharing_needs_sockets_serve():
    forbidden = (str(ROOT / "tests/support/forbid"), "unix_sockets")
    outcome = Running(*forbidden, RONDO, "perf", "all_reduce", "-N", "3", *SMALL, "--json", "-").end().exits(0)
    assert {row["transport"] for row in json.loads(outcome.out)["rows"]} == {"tcp"}, outcome
    # Only rank 1 of three is forbidden to share memory.
    rendezvous = ("--rendezvous", f"tcp://127.0.0.1:{free_port()}", "--world-size", 3, "--timeout", 20)
    started = [Running(*(forbidden if rank == 1 else ()), RONDO, "perf", "all_reduce", *SMALL, *rendezvous, "--rank", rank)
               for rank in range(3)]
    for process in started:
        process.end().exits(0)
    started[0].end().says("Wrong values *: 0 OK", "Path to rank 1 .*: (?!shm)")


@case
def ranks_that_may_not_read_each_others_memory_say_so_and_use_slots():
    forbidden = (str(ROOT / "tests/support/forbid"), "reading_memory")
    large = ("perf", "all", "-N", "3", "-b", "1M", "-e", "1M", "-n", "2", "-w", "0")
    Running(*forbidden, RONDO, *large).end().exits(0).says(
        "Wrong values *: 0 OK", r"shared segment, .*; cannot read large vectors directly \(rank 1: .*Operation not permitted\)")
    # Only rank 1 of three is forbidden to read other processes' memory.
    rendezvous = ("--rendezvous", f"tcp://127.0.0.1:{free_port()}", "--world-size", 3, "--timeout", 20)
    one = ("perf", "all", *large[4:], *rendezvous, "--rank")
    started = [Running(*(forbidden if rank == 1 else ()), RONDO, *one, rank) for rank in range(3)]
    for process in started:
        process.end().exits(0)
    yama = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    if os.geteuid() != 0 and yama.exists() and yama.read_text().strip() != "0":
        return  # no process may read another's memory here
    started[0].end().says("Wrong values *: 0 OK", "shared segment, .*; rank 1 cannot read large vectors directly")
    rondo(*large).exits(0).says("Wrong values *: 0 OK", "shared segment, .*; reads large vectors directly")


@case
def ranks_of_which_one_may_not_fence_the_others_processors_share_memory_all_the_same():
    forbidden = (str(ROOT / "tests/support/forbid"), "fences")
    Running(*forbidden, RONDO, "perf", "all", "-N", "3", *SMALL).end().exits(0).says("Wrong values *: 0 OK", "rank 0 has no membarrier")
    rendezvous = ("--rendezvous", f"tcp://127.0.0.1:{free_port()}", "--world-size", 3, "--timeout", 20)
    started = [Running(*(forbidden if rank == 1 else ()), RONDO, "perf", "all", *SMALL, *rendezvous, "--rank", rank) for rank in range(3)]
    for process in started:
        process.end().exits(0)
    started[0].end().says("Wrong values *: 0 OK", "shared segment, .*; rank 1 has no membarrier")


@case
def ranks_of_two_hosts_share_memory_within_each():
    with lab_of_hosts(2) as run:
        def world(*flags):
            rendezvous = ("--rendezvous", "tcp://10.77.0.1:29500", "--world-size", 4, "--timeout", 30)
            started = [run(1 + rank // 2, RONDO, "perf", "all_reduce", *SMALL, *flags, *rendezvous, "--rank", rank) for rank in range(4)]
            return [process.end() for process in started]

        outcomes = world()
        for outcome in outcomes:
            outcome.exits(0)
        outcomes[0].says("4 ranks over shm.tcp", "Wrong values *: 0 OK", "Path to rank 1 .*: shm, ", r"Path to rank [23] .*: (?!shm).*10\.77\.0\.2")
        for outcome in world("--transport", "shm"):
            outcome.exits(2).says(r"rank 2 \(host .*-h2\) and rank 0 \(host .*-h1\) are not known to be on one host")
        for outcome in world("--algorithm", "intranode"):
            outcome.exits(2).says("intranode needs ranks that share memory")


@case
def perf_sweeps_the_intranode_path_of_ranks_that_share_memory():
    outcome = rondo("perf", "all", "-N", "3", "--transport", "shm", "-d", "all", "-o", "all", "-r", "all", "-b", "0", "-e", "100K", "-f",
                    "1000", "-n", "1", "-w", "0").exits(0).says("Wrong values *: 0 OK", "Path to rank 2 .*: shared segment")
    rows = [line.split() for line in outcome.out.splitlines() if line and not line.startswith("#")]
    assert {row[5] for row in rows} == {"intranode", "-"} and {row[6] for row in rows} == {"shm"}, outcome
    rondo("perf", "all", "-N", "4", "--transport", "shm", "--uneven", *SMALL).exits(0).says("Wrong values *: 0 OK")
    rondo("perf", "all_reduce", "-N", "5", "--transport", "shm", "-b", "1M", "-e", "8M", "-n", "2").exits(0).says("Wrong values *: 0 OK")


@case
def intranode_is_for_ranks_that_share_memory():
    rondo("perf", "all_reduce", "-N", "2", "--transport", "tcp", "--algorithm", "intranode").exits(2).says("--algorithm: intranode needs ranks that share memory")
    for transport in ("tcp", "shm"):
        rondo("perf", "all_reduce", "-N", "3", "--transport", transport, "--allocate", "-d", "int32,bfloat16", "-o", "all", "-b", "1", "-e", "8M",
              "-f", "100", "-n", "2").exits(0).says("Wrong values *: 0 OK")
    rondo("perf", "all_gather", "-N", "2", "--transport", "shm", "--uneven", "--algorithm", "intranode").exits(2).says("equal counts")
    rondo("explain", "all_reduce", "-N", "4", "--transport", "shm").exits(0).says(r"algorithm +intranode \(all ranks share memory\)")
    rondo("explain", "all_reduce", "-N", "4", "--transport", "shm", "--algorithm", "ring").exits(0).says(r"algorithm +ring", "transport +shm")
    rondo("explain", "all_reduce", "-N", "4", "--transport", "tcp", "--algorithm", "intranode").exits(2).says("intranode does not support all_reduce")


@case
def a_machine_that_says_for_a_moment_that_it_has_no_memory_gives_ranks_their_shared_segment():
    if os.geteuid() != 0:
        raise Skipped("only root may mount another /proc/meminfo")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "meminfo").write_text("MemTotal: 1048576 kB\nMemAvailable: 0 kB\n")
        command = f"mount --bind {folder}/meminfo /proc/meminfo && exec {RONDO} perf all_reduce -N 2 -e 1K --transport shm"
        Running("unshare", "--mount", "sh", "-c", command).end().exits(0).says("Path to rank 1 .*: shared segment", "Wrong values *: 0 OK")
