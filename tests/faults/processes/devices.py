"""GPUs that fault under ranks which are processes (fault 37): on the fake driver, tests/cuda/fake_driver."""

import pathlib
import time

from commands import Skipped
from stage import GRACE_S, SLACK_S, Programs, case

RANKS = 3
FAULTY = 1
# The call that fails on its GPU in the middle of an operation. shm: the GPUs access each other's memory. tcp: host staging.
FAULT = {"shm": ("kernel:40", "a kernel"), "tcp": ("MemcpyHtoDAsync:200", "MemcpyHtoDAsync")}


@case(37)
def a_gpu_that_faults(stage):
    """All ranks name the rank, its GPU and what its driver said, at once."""
    driver = pathlib.Path(Programs.rondo).parents[1] / "tests/cuda/fake_driver/libcuda.so.1"
    if not driver.exists():
        raise Skipped("built without CUDA: there is no fake driver")
    fake_driver = {"LD_LIBRARY_PATH": str(driver.parent), "FAKE_CUDA_DELAY_US": "5", "FAKE_CUDA_MPS": "1"}
    what, said = FAULT[stage.path]
    ranks = [stage.start(Programs.rondo, "perf", "all_reduce", "--device", "cuda", "--transport", stage.path, "-b", "1M", "-e", "1M",
                         "--time-ms", "600000", "--timeout", "20", "--rendezvous", stage.file_store(), "--rank", rank,
                         "--world-size", RANKS, env={**fake_driver, **({"FAKE_CUDA_FAULT": what} if rank == FAULTY else {})})
             for rank in range(RANKS)]  # fmt: skip
    ranks[FAULTY].wait_for(f"fake GPU: {said} faults")
    fired = time.monotonic()
    stage.fire(1, "the driver did not say so")
    for rank, running in enumerate(ranks):
        running.end().exits(1).says(rf"rank {rank}: device: GPU 0 \(Fake GPU\): .*CUDA_ERROR_\w+ \(.*\); caused by rank {FAULTY} ",
                                    r"in all_reduce float32 x 262144 sum on devices by \w+ #\d+")
    took = time.monotonic() - fired
    stage.expect(took <= SLACK_S + GRACE_S, f"reported after {took:.1f} s")
    stage.row["detected_ms"] = round(took * 1e3, 1)
    stage.outcome("typed_error device", RANKS)
