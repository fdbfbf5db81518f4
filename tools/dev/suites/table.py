"""The suites of tools/test, in the order in which they start. This table is the one place to add a suite.

Budgets are minutes on two cores, beside the suites that run at the same time. They are there to be noticed: a suite over its
budget is said so loudly, and is ended and has failed only beyond three times the budget. What a suite needs is built before,
outside its budget.
"""

import enum
import os
import shutil
from dataclasses import dataclass
from typing import Callable, Optional

from counting import Counter, count_bazel, count_end_line, count_step, count_unittest


class Tier(enum.IntEnum):
    """The shortest run that has the suite. Each run has the suites of the shorter ones, too."""

    QUICK = 0  # tools/test --quick: before each commit
    USUAL = 1  # tools/test, which CI runs
    FULL = 2  # tools/test --full


class Lane(enum.Enum):
    """Which suites may run at the same time."""

    FIRST = "first"  # alone, before all other suites
    # One at a time, and at the same time as one suite of RUNNING. For suites that use every core; Bazel serves one
    # command at a time.
    BUILDING = "building"
    # One at a time, or two if no suite of BUILDING is left. For suites that run built programs and mostly wait.
    RUNNING = "running"


@dataclass(frozen=True)
class Suite:
    name: str
    what: str
    budget_min: float
    command: list[str]  # run in the repository's root; "{events}" becomes the name of a file for Bazel's events
    count: Counter  # reads the numbers of passed, failed and skipped tests from the output of a run
    tier: Tier = Tier.USUAL
    lane: Lane = Lane.RUNNING
    release: tuple[str, ...] = ()  # targets of the release build that the command runs; the suite "build" builds them all
    prepare: tuple[list[str], ...] = ()  # run before the command, outside its budget
    # A capability that this machine declares missing, as text: the whole suite then counts as one skip. None: the suite
    # runs.
    missing: Callable[[], Optional[str]] = lambda: None


def bazel(verb: str, config: str, *words: str) -> list[str]:
    return ["bazel", verb, f"--config={config}", "--keep_going", "--ui_event_filters=-info", *words]


def bazel_tests(name: str, what: str, budget_min: float, config: str, *tags: str, **more) -> Suite:
    """Every test of the repository that has a tag, or does not have "-tag"; built before."""
    chosen = ("--build_tests_only", "--test_tag_filters=" + ",".join(tags), "//...")
    return Suite(
        name, what, budget_min, bazel("test", config, "--build_event_json_file={events}", "--test_summary=terse", *chosen), count_bazel,
        lane=Lane.BUILDING, prepare=(bazel("build", config, *chosen),), **more,
    )  # fmt: skip


def no_chroot() -> Optional[str]:
    if os.geteuid() != 0:
        return "a bare Debian in a chroot needs root"
    if shutil.which("debootstrap") is None:
        return "a bare Debian in a chroot needs the package debootstrap"
    return None


RONDO = ("//tools:rondo",)
# Targets that the tests of librondo unpack, and programs that start their ranks.
EMBEDDED = (*RONDO, "//embed:dist", "//tests/cuda/fake_driver/...")

SUITES = [
    Suite("packages", "Debian packages that are missing", 5, ["tools/dev/packages/install", "build", "test", "lint"], count_step,
          tier=Tier.QUICK, lane=Lane.FIRST),
    Suite("build", "everything builds, release", 11, bazel("build", "release", "//..."), count_step, lane=Lane.FIRST),
    bazel_tests("unit", "unit tests, release", 3, "release", "-full", tier=Tier.QUICK),
    Suite("layers", "arrows between folders, asked of the build graph", 1, ["tests/layers/check"], count_end_line,
          tier=Tier.QUICK, lane=Lane.BUILDING),
    bazel_tests("asan", "unit tests under AddressSanitizer and UBSan", 6, "asan", "-full", "-no-asan", "-full-asan"),
    Suite("fuzz", "every parser that bytes from outside reach, fuzzed by clang's libFuzzer under the sanitizers", 6,
          ["tests/fuzz/run", "--times", "0.5"], count_end_line, lane=Lane.BUILDING, prepare=(bazel("build", "asan", "//tests/fuzz:fuzzers"),)),
    bazel_tests("tsan", "unit tests with threads under ThreadSanitizer", 9, "tsan", "-full", "-no-tsan", "-full-tsan"),
    # Debian's torch needs Debian's Python, whatever else is called python3 here.
    Suite("torch", "the torch.distributed backend on Debian's PyTorch: values, futures, groups, deaths, DDP beside Gloo, every launcher", 8,
          ["/usr/bin/python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/embed/torch"], count_unittest,
          release=EMBEDDED, prepare=(["tools/dev/packages/install", "torch"],)),
    # Runs in addition to the suite above if --torch=2 asks for it: it is large, and not part of Debian.
    Suite("torch-2", "the same on PyPI's torch 2, and what that has beyond: coalesced collectives, split groups, FSDP", 10,
          ["sh", "-c", 'python=$(tools/dev/packages/torch_2) && '
           '"$python" -m unittest discover --verbose --start-directory tests/embed/torch'], count_unittest, tier=Tier.FULL, release=EMBEDDED),
    Suite("vm", "an emulated machine with two RDMA devices, in which verbs are real", 12,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/vm"], count_unittest,
          release=(*RONDO, "//tests/conformance:guest_ib", "//tests/transport_ib/..."), prepare=(["tools/dev/packages/install", "vm"],)),
    Suite("cli", "the command line tool as processes", 4, ["tests/cli/run", "bazel-bin/tools/rondo"], count_end_line,
          release=(*RONDO, "//tests/cli:mismatch", "//examples/...", "//tests/cuda/fake_driver/...")),
    Suite("shell", "what shells, terminals, pipes and containers do to the command line tool", 2, ["tests/cli/shell", "bazel-bin/tools/rondo"],
          count_end_line, release=RONDO),
    Suite("examples", "the training example as processes: every step proved, worlds of every size alike", 1,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/examples"], count_unittest,
          release=(*RONDO, "//examples/...")),
    Suite("embed", "librondo and its tarball as other projects use them: from C and C++, by make and CMake; the ABI as it was", 1,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/embed"], count_unittest, release=EMBEDDED),
    # Debian's NumPy needs Debian's Python, too.
    Suite("python", "the Python package, installed by pip: values, layouts, DLPack, wrong calls, deaths, Ctrl-C, a Keras-style loop", 3,
          ["/usr/bin/python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/embed/python"], count_unittest,
          release=EMBEDDED, prepare=(["tools/dev/packages/install", "python"],)),
    # The suite above uses fakes of these libraries.
    Suite("frameworks", "the Python package on arrays of PyPI's TensorFlow and JAX", 3,
          ["sh", "-c", 'python=$(tools/dev/packages/frameworks) && "$python" -m unittest discover --verbose '
           '--start-directory tests/embed/python --pattern test_frameworks.py'], count_unittest, tier=Tier.FULL, release=EMBEDDED),
    Suite("launchers", "jobs as mpirun, mpiexec, torchrun and rondo run start them", 2,
          ["tests/launchers/run", "bazel-bin/tools/rondo"], count_end_line, release=(*RONDO, "//tests/launchers/...", "//examples/...")),
    Suite("ssh", "rondo run on several hosts, namespaces with an sshd each: placing, every end, every host that cannot be had", 3,
          ["tests/launchers/ssh", "bazel-bin/tools/rondo"], count_end_line, release=(*EMBEDDED, "//tests/launchers/..."),
          prepare=(["tools/dev/packages/install", "ssh"],)),
    Suite("rebuild", "ranks killed and stopped amid all-reduces: the others get an error at once and go on", 2,
          ["tests/rebuild/run", "bazel-bin/tools/rondo"], count_end_line, release=(*RONDO, "//tests/rebuild/...")),
    Suite("foreign-clients", "a thousand foreign clients of every kind at all ports of a job: sums right, everything given back", 1,
          ["tests/faults/processes/foreign_clients", "bazel-bin/tools/rondo", "--clients", "1000", "--rounds", "2"], count_end_line,
          release=(*RONDO, "//tests/faults/processes/foreign_clients_job/...")),
    Suite("processes", "faults on real processes: killed, stopped, forked, starved, disagreeing; three outcomes, no leak", 3,
          ["tests/faults/processes/run", "bazel-bin/tools/rondo"], count_end_line, release=(*RONDO, "//tests/faults/processes/...")),
    Suite("bare", "the command line in bare containers: namespaces, no /proc, no /sys, no name, little memory", 1,
          ["tests/bare/run", "bazel-bin/tools/rondo"], count_end_line, release=RONDO),
    Suite("soak", "random collectives for long, ranks killed and replaced: all values right, nothing grows", 3,
          ["tests/faults/processes/soak", "bazel-bin/tools/rondo", "--seconds", "90"], count_end_line,
          release=(*RONDO, "//tests/faults/processes/...")),
    # A failed allocation mostly causes waiting, so four parts of the sweep run at the same time.
    Suite("memory", "allocations of a job that fail, one in every 61: right results or typed errors, nothing left behind", 1,
          ["sh", "-c", "seq 1 61 184 | xargs -P 4 -I {} bazel-bin/tests/faults/processes/out_of_memory --every 244 --from {}"], count_step,
          release=("//tests/faults/processes:out_of_memory",)),
    Suite("steady", "the blocking path's steady state: no allocation, no futex call; waiting for a late rank takes no core", 2,
          ["tests/steady/check", "bazel-bin/tests/steady"], count_end_line, release=("//tests/steady/...",)),
    Suite("step", "what a step of the engine costs on a null transport (ns_per_step; measured, not judged)", 1,
          ["bazel-bin/tests/benchmarks/engine_benchmark", "--benchmark_min_time=0.1"], count_step,
          release=("//tests/benchmarks:engine_benchmark",)),
    Suite("scripts", "the scripts in tools/", 2,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/scripts"], count_unittest, tier=Tier.QUICK,
          release=(*RONDO, "//tools/dev/lab/...")),
    # The suite uses every core.
    Suite("lint", "format, house rules, headers alone except those that the suite files compiles", 6, ["tools/dev/lint"], count_step,
          tier=Tier.QUICK, lane=Lane.BUILDING),
    bazel_tests("asan-full", "what the suite asan leaves out", 10, "asan", "full-asan", tier=Tier.FULL),
    bazel_tests("tsan-full", "what the suite tsan leaves out", 10, "tsan", "full-tsan", tier=Tier.FULL),
    Suite("compare", "tools/dev/compare with the real peers, small", 15,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/scripts", "--pattern", "full_*.py"],
          count_unittest, tier=Tier.FULL, release=RONDO),
    Suite("tidy", "clang-tidy over every file, the drivers of the peers too", 30, ["tools/dev/lint", "--tidy"], count_step, tier=Tier.FULL,
          prepare=(["tools/dev/packages/install", "compare"],)),
    Suite("files", "every source compiles by itself, release", 30,
          bazel("build", "release", "--define=units=file", "//..."), count_step, tier=Tier.FULL, lane=Lane.BUILDING),
    Suite("torch-conformance", "PyTorch's own suite for backends, with Rondo beside Gloo, among 2 and 4 ranks", 15,
          ["/usr/bin/python3", "tests/embed/torch/run"], count_end_line, tier=Tier.FULL, release=EMBEDDED,
          prepare=(["tools/dev/packages/install", "torch"],)),
    Suite("torch-2-conformance", "the same suite of torch 2", 15,
          ["sh", "-c", 'python=$(tools/dev/packages/torch_2) && "$python" tests/embed/torch/run'], count_end_line, tier=Tier.FULL,
          release=EMBEDDED),
    Suite("gpu", "what needs a GPU: queue, kernels, peers' memory, communicators, every collective; measured beside its bars", 15,
          ["tests/cuda/run_on_gpu"], count_end_line, tier=Tier.FULL, release=(*EMBEDDED, "//tests/cuda/...")),
    Suite("gpu-fake", "that with the fake driver, from a folder as for other machines: every collective, type and operation directly, in graphs, staged", 4,
          ["tests/cuda/run_on_gpu", "--fake-driver"], count_end_line, tier=Tier.FULL, release=(*EMBEDDED, "//tests/cuda/...")),
    Suite("vm-long", "the emulated machine's sweeps over random moments of a failure, ten times as many", 30,
          ["env", "RONDO_TIMES=10", "python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/vm", "-k", "lanes_go_on",
           "-k", "lent", "-k", "windows"], count_unittest, tier=Tier.FULL, release=(*RONDO, "//tests/transport_ib/..."),
          prepare=(["tools/dev/packages/install", "vm"],)),
    Suite("rebuild-long", "a hundred ranks killed over each transport", 10,
          ["tests/rebuild/run", "bazel-bin/tools/rondo", "--times", "100"], count_end_line, tier=Tier.FULL,
          release=(*RONDO, "//tests/rebuild/...")),
    # In eight parts; the shorter suite above uses four.
    Suite("memory-long", "every allocation of a job fails once", 30,
          ["sh", "-c", "seq 8 | xargs -P 8 -I {} bazel-bin/tests/faults/processes/out_of_memory --every 8 --from {}"], count_step,
          tier=Tier.FULL, release=("//tests/faults/processes:out_of_memory",)),
    Suite("fault-table", "every fault of the list on every layer: fired, and what came of it, or why it is not staged", 9,
          ["tests/faults/table", "bazel-bin/tools/rondo"], count_end_line, tier=Tier.FULL,
          release=(*RONDO, "//tests/faults/...", "//tests/rendezvous/...", "//tests/transport_tcp/...", "//tests/communicator/...",
                   "//tests/transport_ib/...", "//tests/transport_shm/...", "//tests/conformance:guest_ib"),
          prepare=(["tools/dev/packages/install", "vm"],)),
    Suite("foreign-clients-long", "ten thousand foreign clients; what they cost the job (measured, not judged)", 3,
          ["tests/faults/processes/foreign_clients", "bazel-bin/tools/rondo"], count_end_line, tier=Tier.FULL,
          release=(*RONDO, "//tests/faults/processes/foreign_clients_job/...")),
    Suite("soak-long", "the soak for an hour", 65, ["tests/faults/processes/soak", "bazel-bin/tools/rondo", "--seconds", "3600", "--seed", "2"],
          count_end_line, tier=Tier.FULL, release=(*RONDO, "//tests/faults/processes/...")),
    Suite("slurm", "jobs as srun starts them, on a Slurm of one node that is set up for it", 5,
          ["/usr/bin/python3", "tests/launchers/slurm", "bazel-bin/tools/rondo"], count_end_line, tier=Tier.FULL,
          release=(*EMBEDDED, "//tests/launchers/...", "//examples/..."), prepare=(["tools/dev/packages/install", "slurm", "python", "torch"],)),
    *(Suite(name, what, 10,
            ["env", "RONDO_SEEDS=20000", "bazel-bin/tests/simulation/simulation_test", f"--source-file=*/{source}"], count_step,
            tier=Tier.FULL, release=("//tests/simulation/...",))
      for name, what, source in (("seeds", "20,000 seeds of the simulation", "seeds_test.cc"),
                                 ("chaos", "20,000 whole jobs under faults, then healed", "chaos_test.cc"),
                                 ("message-seeds", "20,000 seeds of the simulation of messages", "messages_seeds_test.cc"))),
    Suite("fuzz-long", "every parser fuzzed with ten times as many inputs, which are others", 60,
          ["tests/fuzz/run", "--times", "10", "--seed", "2"], count_end_line, tier=Tier.FULL, lane=Lane.BUILDING),
    Suite("verify", "every algorithm proved to 33 ranks, every mutation refused", 2,
          ["bazel-bin/tools/rondo", "verify", "--max-ranks", "33", "--mutations"], count_step, tier=Tier.FULL, release=RONDO),
    *(Suite(f"perf-{transport}-{ranks}",
            f"every collective, algorithm, type and operation among {ranks} ranks over {transport}, every element checked", 15,
            ["bazel-bin/tools/rondo", "perf", "all", "-N", str(ranks), "--transport", transport, "--algorithm", "all",
             "--dtype", "all", "--op", "all", "-b", "0", "-e", "1M", "-f", "8", "-n", "2", "-w", "0"], count_step, tier=Tier.FULL,
            release=RONDO)
      for transport in ("tcp", "shm") for ranks in (2, 3, 4, 5, 7, 8)),
    # In the emulated machine every step takes twenty times as long.
    *(Suite(f"perf-ib-{ranks}", f"every collective, algorithm, type and operation among {ranks} ranks by verbs, every element checked",
            budget_min,
            ["sh", "-c", 'tools/dev/lab/rdma_vm --limit 2600 --file "$(ls /usr/lib*/*-linux-gnu/libibverbs.so.1)" '
             "--file bazel-bin/tools/rondo:/usr/bin/rondo -- rondo perf all -N " + str(ranks) + " --transport ib --ib-dev rxe0,rxe1 "
             "--algorithm all --dtype all --op all -b 0 -e 4K -f 1024 -n 1 -w 0"], count_step, tier=Tier.FULL, release=RONDO,
            prepare=(["tools/dev/packages/install", "vm"],))
      for ranks, budget_min in ((2, 5), (3, 8), (4, 15))),
    *(Suite(f"perf-{transport}-5G", f"one in-place all_reduce of 5 GiB between 2 ranks over {transport}, every element checked", 5,
            ["bazel-bin/tools/rondo", "perf", "all_reduce", "-N", "2", "--transport", transport, "-b", "5G", "-e", "5G", "-n", "1",
             "-w", "0", "--in-place", "--timeout", "300"], count_step, tier=Tier.FULL, release=RONDO)
      for transport in ("tcp", "shm")),
    Suite("cmake", "the build by CMake: built, installed, found, and added to another project", 15,
          ["python3", "-m", "unittest", "discover", "--verbose", "--start-directory", "tests/embed", "--pattern", "full_*.py"],
          count_unittest, tier=Tier.FULL, lane=Lane.BUILDING),
    Suite("quickstart", "tools/quickstart on a bare Debian, then again offline", 20,
          ["tools/dev/lab/chroot", "--again-offline", "tools/quickstart"], count_step, tier=Tier.FULL, missing=no_chroot),
    Suite("readme", "the README's commands on a bare Debian: from the clone to sums in Python, torch and C++", 30, ["tests/embed/readme"],
          count_end_line, tier=Tier.FULL, missing=no_chroot),
]  # fmt: skip
