"""`rondo perf` on memory of GPUs, with the fake driver."""

import json
import signal
import time

from cli import RONDO, answers, fake_gpu, rondo
from commands import Running, case, free_port


@case
def perf_on_memory_of_gpus_is_right_over_every_transport():
    for transport, types in (("tcp", "int8,bfloat16"), ("shm", "all"), ("inproc", "float32")):
        outcome = rondo("perf", "all", "-N", "2", "--transport", transport, "--device", "cuda", "-d", types, "-o", "all", "-b", "0", "-e", "48K", "-f",
                        "10000", "-n", "1", "-w", "0", "--gpu-timeslice-staging-max", "0", "--json", "-", env=fake_gpu()).exits(0)
        rows = json.loads(outcome.out)["rows"]
        assert {(row["device"], row["wrong"] or 0) for row in rows} == {("cuda", 0)}, outcome
        assert len({row["collective"] for row in rows}) == 9 and "send_recv" not in outcome.out, outcome
        way = "read directly by the ranks' devices" if transport == "shm" else "staged through the host"
        outcome.says(rf"# memory of GPU 0 \(Fake GPU.*\): {way}")
    # More than one staging window of 4 MiB, different counts for each rank, and all other options of an operation on
    # the host.
    many = ("-b", "1M", "-e", "9M", "-n", "2", "--device", "cuda")
    rondo("perf", "all_reduce,all_gather", "-N", "2", *many, env=fake_gpu()).exits(0).says("2 ranks on GPUs over", "Wrong values *: 0 OK")
    rondo("perf", "all", "-N", "3", "--uneven", "-e", "1M", "-f", "64", "-n", "1", "--device", "cuda", env=fake_gpu()).exits(0).says("Wrong values *: 0 OK")
    rondo("perf", "all_reduce", "-N", "3", "--transport", "tcp", "--checksums", "--compare-results", "--fp32-accumulate", "-d", "bfloat16", "--rails", "2",
          *many, env=fake_gpu(FAKE_CUDA_DEVICES="2")).exits(0).says("Wrong values *: 0 OK")
    rondo("perf", "all_reduce,all_gather", "-N", "2", *many[:-1], "staged", env=fake_gpu()).exits(0).says(
        "2 ranks on GPUs, staged through the host, over shm", "Wrong values *: 0 OK", "staged through the host$")
    rondo("perf", "all_reduce,all_gather", "-N", "2", *many[:-1], "staged", "--device-window", "100K", env=fake_gpu()).exits(0).says("Wrong values *: 0 OK")
    rondo("perf", "all_reduce", "-N", "2", "--device", "pinned", "-e", "1M", env=fake_gpu()).exits(0).says("in pinned memory", "Wrong values *: 0 OK")


@case
def short_vectors_of_processes_that_time_slice_a_gpu_are_staged():
    short = ("perf", "all", "-N", "3", "--device", "cuda", "-d", "float32,uint8", "-b", "1", "-e", "64K", "-f", "5", "-n", "2")
    lies, sliced = "read directly by the ranks' devices", "; processes time-slice a GPU"
    rondo(*short, env=fake_gpu()).exits(0).says("Wrong values *: 0 OK", f"# memory of GPU 0 .*: staged through the host{sliced}")
    rondo(*short, "--gpu-timeslice-staging-max", "0", env=fake_gpu()).exits(0).says("Wrong values *: 0 OK", lies + sliced)
    for more in ({"FAKE_CUDA_MPS": "1"}, {"FAKE_CUDA_DEVICES": "3"}):  # without time slicing; one GPU for each rank
        rondo(*short, env=fake_gpu(**more)).exits(0).says("Wrong values *: 0 OK", f"{lies}$")


@case
def perf_of_operations_in_graphs_is_right_and_says_where_there_can_be_none():
    outcome = rondo("perf", "all", "-N", "3", "--device", "graph", "-d", "int8,float32,bfloat16", "-o", "all", "-b", "0", "-e", "48K", "-f", "10000", "-n", "3",
                    "-w", "1", "--json", "-", env=fake_gpu()).exits(0)
    rows = json.loads(outcome.out)["rows"]
    assert {(row["device"], row["wrong"] or 0) for row in rows} == {("graph", 0)}, outcome
    assert len({row["collective"] for row in rows}) == 9, outcome
    outcome.says("3 ranks on GPUs, in graphs, over")
    for more, why in ((("--transport", "tcp"), "it is staged through host memory"), (("--algorithm", "ring"), "it is staged through host memory"),
                      (("--fp32-accumulate", "-d", "bfloat16"), "its results are widened or compared on the host")):
        rondo("perf", "all_reduce", "-N", "2", "--device", "graph", "-e", "1K", *more, env=fake_gpu()).exits(1).says(
            "unsupported: all_reduce .* cannot be captured into a graph: " + why)


@case
def a_rank_killed_amid_operations_in_graphs_is_named_at_once():
    url = f"tcp://127.0.0.1:{free_port()}"
    three = [Running(RONDO, "perf", "all_reduce", "--device", "graph", "-b", "1M", "-e", "1M", "--time-ms", "60000", "--rendezvous", url, "--rank", rank,
                     "--world-size", 3, "--timeout", 60, env=fake_gpu()) for rank in range(3)]
    three[0].wait_for("3 ranks on GPUs")
    time.sleep(2)
    killed = time.monotonic()
    three[2].signal(signal.SIGKILL).end()
    for rank in range(2):
        three[rank].end().exits(1).says(f"rank {rank}: peer_lost: rank 2")
    assert time.monotonic() - killed < 10, time.monotonic() - killed


@case
def threads_of_the_driver_take_no_signal_from_who_starts_ranks():
    running = Running(RONDO, "perf", "all_reduce", "-N", "2", "--device", "cuda", "--time-ms", "60000", "-e", "1M", env=fake_gpu())
    running.wait_for("2 ranks on GPUs")
    running.signal(signal.SIGINT).end().exits(130)


@case
def perf_without_a_gpu_says_why():
    for device in ("cuda", "pinned"):
        rondo("perf", "all_reduce", "-N", "2", "--device", device, env=fake_gpu(FAKE_CUDA_DEVICES="0")).exits(2).says(f"--device {device}: no GPU: ")
    answers((
        ("perf all_reduce -N 2 --device gpu", 2, "--device", "host", "pinned", "cuda", "staged", "graph"),
        ("perf all_reduce -N 2 --device-window 1M", 2, "--device-window: expected --device cuda or staged, got host"),
        ("perf all_reduce -N 2 --device staged --gpu-timeslice-staging-max 0", 2, "--gpu-timeslice-staging-max: expected --device cuda, got staged"),
    ))  # fmt: skip
    rondo("perf", "send_recv", "-N", "2", "--device", "cuda", env=fake_gpu()).exits(2).says("--device cuda: send_recv supports only host memory")
    rondo("perf", "all_reduce", "-N", "2", "--device", "cuda", "-e", "64M", env=fake_gpu(FAKE_CUDA_MEMORY="1000000")).exits(1).says(
        "out_of_memory", r"allocating \d+ bytes on GPU 0 \(Fake GPU")


@case
def a_rank_killed_amid_an_operation_on_gpus_is_named_and_no_stream_waits_for_it():
    url = f"tcp://127.0.0.1:{free_port()}"
    three = [Running(RONDO, "perf", "all_reduce", "--device", "cuda", "-b", "64M", "-e", "64M", "--time-ms", "60000", "--check", "0",
                     "--rendezvous", url, "--rank", rank, "--world-size", 3, "--timeout", 20, env=fake_gpu()) for rank in range(3)]
    three[0].wait_for("processes of this job share a GPU")  # the first operation has run, and the others follow at once
    time.sleep(1)
    three[2].signal(signal.SIGKILL).end()
    for rank in range(2):
        three[rank].end().exits(1).says(f"rank {rank}: peer_lost: rank 2", "all_reduce float32 x .* on devices")
