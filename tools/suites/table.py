"""The suites of tools/test, in the order in which they run. This table is the one place to add a suite.

Budgets are minutes from cold caches on two cores, and they are there to be noticed: a suite over its budget is said so
loudly and fails only beyond three times the budget, when it is ended.
"""

import os
import shutil
from dataclasses import dataclass
from typing import Callable, Optional

from counting import Counter, count_bazel, count_end_line, count_step, count_unittest


@dataclass(frozen=True)
class Suite:
    name: str
    what: str
    budget_min: float
    command: list[str]  # run in the repository's root; "{events}" becomes the name of a file for Bazel's events
    count: Counter  # how passed, failed and skipped are read off a run
    full_only: bool = False
    # A capability that this machine declares missing, in words: the suite is then one skip. None: run.
    missing: Callable[[], Optional[str]] = lambda: None


def bazel_test(config: str, *filters: str) -> list[str]:
    return [
        "bazel", "test", f"--config={config}", "--keep_going", "--build_tests_only",
        "--test_tag_filters=" + ",".join(filters), "--build_event_json_file={events}",
        "--test_summary=terse", "//...",
    ]  # fmt: skip


def no_chroot() -> Optional[str]:
    if os.geteuid() != 0:
        return "a bare Debian in a chroot needs root"
    if shutil.which("debootstrap") is None:
        return "a bare Debian in a chroot needs the package debootstrap"
    return None


SUITES = [
    Suite("packages", "Debian packages that are missing", 5, ["tools/packages/install", "build", "test", "lint"], count_step),
    Suite("build", "everything builds, release", 11,
          ["bazel", "build", "--config=release", "--keep_going", "--ui_event_filters=-info", "//..."], count_step),
    Suite("unit", "unit tests, release", 3, bazel_test("release", "-full"), count_bazel),
    Suite("layers", "arrows between folders, asked of the build graph", 1, ["tests/layers/check"], count_end_line),
    Suite("cli", "the command line tool as processes", 3, ["tests/cli/run", "bazel-bin/tools/rondo"], count_end_line),
    Suite("examples", "the training example as processes: every step proved, worlds of every size alike", 1,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/examples"], count_unittest),
    Suite("embed", "librondo and its tarball as strangers use them: from C and C++, by make and CMake; the ABI as it was", 1,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/embed"], count_unittest),
    # Debian's torch belongs to Debian's Python, whatever else is called python3 here.
    Suite("torch", "the torch.distributed backend on Debian's PyTorch: values, futures, groups, deaths, DDP beside Gloo, every launcher", 5,
          ["sh", "-c", "tools/packages/install torch && "
           "/usr/bin/python3 -m unittest discover --verbose --start-directory tests/embed/torch"], count_unittest),
    # Beside the ordinary ones where --torch=2 asks for it: it is large, and not Debian's.
    Suite("torch-2", "the same on PyPI's torch 2, and what that has beyond: coalesced collectives, split groups, FSDP", 10,
          ["sh", "-c", 'python=$(tools/packages/torch_2) && '
           '"$python" -m unittest discover --verbose --start-directory tests/embed/torch'], count_unittest, full_only=True),
    # Debian's NumPy belongs to Debian's Python, too.
    Suite("python", "the Python package, installed by pip: values, layouts, DLPack, wrong calls, deaths, Ctrl-C, a Keras-style loop", 2,
          ["sh", "-c", "tools/packages/install python && "
           "/usr/bin/python3 -m unittest discover --verbose --start-directory tests/embed/python"], count_unittest),
    Suite("launchers", "jobs as mpirun, mpiexec, torchrun and rondo run start them", 2,
          ["tests/launchers/run", "bazel-bin/tools/rondo"], count_end_line),
    Suite("ssh", "rondo run on several hosts, namespaces with an sshd each: placing, every end, every host that cannot be had", 2,
          ["sh", "-c", "tools/packages/install ssh && tests/launchers/ssh bazel-bin/tools/rondo"], count_end_line),
    Suite("rebuild", "ranks killed and stopped amid all-reduces: the others are told at once and go on", 2,
          ["tests/rebuild/run", "bazel-bin/tools/rondo"], count_end_line),
    Suite("strangers", "a thousand strangers of every kind at all ports of a job: sums right, everything given back", 1,
          ["tests/faults/strangers", "bazel-bin/tools/rondo", "--clients", "1000", "--rounds", "2"], count_end_line),
    Suite("processes", "faults on real processes: killed, stopped, forked, starved, disagreeing; three outcomes, no leak", 3,
          ["tests/faults/run", "bazel-bin/tools/rondo"], count_end_line),
    Suite("soak", "random collectives for long, ranks killed and replaced: all values right, nothing grows", 2,
          ["tests/faults/soak", "bazel-bin/tools/rondo", "--seconds", "90"], count_end_line),
    # A failed allocation is mostly waited for, so four parts of the sweep wait side by side.
    Suite("memory", "allocations of a job that fail, one in every 61: right results or typed errors, nothing left behind", 1,
          ["sh", "-c", "seq 1 61 184 | xargs -P 4 -I {} bazel-bin/tests/faults/out_of_memory --every 244 --from {}"], count_step),
    Suite("steady", "the blocking path's steady state: no allocation, no futex call; waiting for a late rank takes no core", 1,
          ["tests/steady/check", "bazel-bin/tests/steady"], count_end_line),
    Suite("step", "what a step of the engine costs on a null transport (ns_per_step; measured, not judged)", 1,
          ["bazel-bin/tests/benchmarks/engine_benchmark", "--benchmark_min_time=0.1"], count_step),
    Suite("scripts", "the scripts in tools/", 2,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/scripts"], count_unittest),
    Suite("vm", "an emulated machine with two RDMA devices, in which verbs are real", 5,
          ["sh", "-c", "tools/packages/install vm && "
           "python3 -m unittest discover --verbose --start-directory tests/vm"], count_unittest),
    Suite("lint", "format, headers alone under clang++ and g++, house rules", 3, ["tools/lint"], count_step),
    Suite("fuzz", "every parser that bytes from outside reach, fuzzed by clang's libFuzzer under the sanitizers", 8,
          ["tests/fuzz/run"], count_end_line),
    Suite("asan", "unit tests under AddressSanitizer and UBSan", 13, bazel_test("asan", "-full", "-no-asan"), count_bazel),
    Suite("tsan", "unit tests with threads under ThreadSanitizer", 9, bazel_test("tsan", "-full", "-no-tsan"), count_bazel),
    Suite("compare", "tools/compare with the real peers, small", 15,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/scripts", "--pattern", "full_*.py"],
          count_unittest, full_only=True),
    Suite("tidy", "clang-tidy over every file, the drivers of the peers too", 30,
          ["sh", "-c", "tools/packages/install compare && tools/lint --tidy"], count_step, full_only=True),
    Suite("torch-conformance", "PyTorch's own suite for backends, with Rondo beside Gloo, among 2 and 4 ranks", 15,
          ["sh", "-c", "tools/packages/install torch && /usr/bin/python3 tests/embed/torch/run"], count_end_line, full_only=True),
    Suite("torch-2-conformance", "the same suite of torch 2", 15,
          ["sh", "-c", 'python=$(tools/packages/torch_2) && "$python" tests/embed/torch/run'], count_end_line, full_only=True),
    Suite("gpu", "what needs a GPU: queue, kernels, peers' memory, communicators, every collective; measured beside its bars", 15,
          ["tests/cuda/run_on_gpu"], count_end_line, full_only=True),
    Suite("gpu-played", "that without a GPU, from a folder as for other machines: every collective, type and operation where memory lies, in graphs, staged", 4,
          ["tests/cuda/run_on_gpu", "--played"], count_end_line, full_only=True),
    Suite("rebuild-long", "a hundred ranks killed over each transport", 10,
          ["tests/rebuild/run", "bazel-bin/tools/rondo", "--times", "100"], count_end_line, full_only=True),
    # In eight parts, as above in four.
    Suite("memory-long", "every allocation of a job fails once", 30,
          ["sh", "-c", "seq 8 | xargs -P 8 -I {} bazel-bin/tests/faults/out_of_memory --every 8 --from {}"], count_step,
          full_only=True),
    Suite("fault-table", "every fault of the list on every layer: fired, and what came of it, or why it is not staged", 9,
          ["sh", "-c", "tools/packages/install vm && tests/faults/table bazel-bin/tools/rondo"], count_end_line, full_only=True),
    Suite("strangers-long", "ten thousand strangers; what they cost the job (measured, not judged)", 3,
          ["tests/faults/strangers", "bazel-bin/tools/rondo"], count_end_line, full_only=True),
    Suite("soak-long", "the soak for an hour", 65, ["tests/faults/soak", "bazel-bin/tools/rondo", "--seconds", "3600", "--seed", "2"],
          count_end_line, full_only=True),
    Suite("slurm", "jobs as srun starts them, on a Slurm of one node that is set up for it", 5,
          ["sh", "-c", "tools/packages/install slurm python torch && /usr/bin/python3 tests/launchers/slurm bazel-bin/tools/rondo"], count_end_line,
          full_only=True),
    Suite("seeds", "20,000 seeds of the simulation", 10,
          ["env", "RONDO_SEEDS=20000", "bazel-bin/tests/simulation/seeds_test"], count_step, full_only=True),
    Suite("chaos", "20,000 whole jobs under faults, then healed", 10,
          ["env", "RONDO_SEEDS=20000", "bazel-bin/tests/simulation/chaos_test"], count_step, full_only=True),
    Suite("message-seeds", "20,000 seeds of the simulation of messages", 10,
          ["env", "RONDO_SEEDS=20000", "bazel-bin/tests/simulation/messages_seeds_test"], count_step, full_only=True),
    Suite("fuzz-long", "every parser fuzzed with ten times as many inputs, which are others", 30,
          ["tests/fuzz/run", "--times", "10", "--seed", "2"], count_end_line, full_only=True),
    Suite("verify", "every algorithm proved to 33 ranks, every mutation refused", 2,
          ["bazel-bin/tools/rondo", "verify", "--max-ranks", "33", "--mutations"], count_step, full_only=True),
    *(Suite(f"perf-{transport}-{ranks}",
            f"every collective, algorithm, type and operation among {ranks} ranks over {transport}, every element checked", 15,
            ["bazel-bin/tools/rondo", "perf", "all", "-N", str(ranks), "--transport", transport, "--algorithm", "all",
             "--dtype", "all", "--op", "all", "-b", "0", "-e", "1M", "-f", "8", "-n", "2", "-w", "0"], count_step, full_only=True)
      for transport in ("tcp", "shm") for ranks in (2, 3, 4, 5, 7, 8)),
    # In the emulated machine every step takes twenty times as long.
    *(Suite(f"perf-ib-{ranks}", f"every collective, algorithm, type and operation among {ranks} ranks by verbs, every element checked",
            budget_min,
            ["sh", "-c", 'tools/packages/install vm && tools/lab/rdma_vm --limit 2600 --file "$(ls /usr/lib*/*-linux-gnu/libibverbs.so.1)" '
             "--file bazel-bin/tools/rondo:/usr/bin/rondo -- rondo perf all -N " + str(ranks) + " --transport ib --ib-dev rxe0,rxe1 "
             "--algorithm all --dtype all --op all -b 0 -e 4K -f 1024 -n 1 -w 0"], count_step, full_only=True)
      for ranks, budget_min in ((2, 5), (3, 8), (4, 15))),
    *(Suite(f"perf-{transport}-5G", f"one in-place all_reduce of 5 GiB between 2 ranks over {transport}, every element checked", 5,
            ["bazel-bin/tools/rondo", "perf", "all_reduce", "-N", "2", "--transport", transport, "-b", "5G", "-e", "5G", "-n", "1",
             "-w", "0", "--in-place", "--timeout", "300"], count_step, full_only=True)
      for transport in ("tcp", "shm")),
    Suite("quickstart", "tools/quickstart on a bare Debian, then again offline", 20,
          ["tools/lab/chroot", "--again-offline", "tools/quickstart"], count_step, full_only=True, missing=no_chroot),
]  # fmt: skip
