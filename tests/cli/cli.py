"""What the cases of tests/cli/run are written with: the program, its ranks, tables of what it refuses, places to run it in."""

import contextlib
import os
import pathlib
import shlex

from commands import ROOT, Running, Skipped, case

RONDO = str(ROOT / "bazel-bin/tools/rondo")
BIN = ROOT / "bazel-bin"


def use_program(path):
    """Before any file of cases is imported."""
    global RONDO, BIN  # pylint: disable=global-statement
    program = pathlib.Path(path).absolute()
    RONDO, BIN = str(program), program.parents[1]


def rondo(*arguments, env=None):
    return Running(RONDO, *arguments, env=env).end()


def ranks(world_size, *arguments, url, numbers=None, timeout=20):
    """`rondo perf` once per rank, by hand, as on several machines."""
    return [Running(RONDO, "perf", *arguments, "--rendezvous", url, "--rank", rank, "--world-size", world_size, "--timeout",
                    timeout)
            for rank in (range(world_size) if numbers is None else numbers)]


def companion(path):
    """A program built beside rondo."""
    if not (BIN / path).exists():
        raise Skipped(f"{BIN / path} is not built")
    return BIN / path


# The first size finishes at once, the second takes many seconds.
LONG = ("-b", "4", "-e", "4M", "-f", "1048576", "--out-of-place", "-n", "5000")
FIRST_ROW = r"(?m)^ +4 +1 "
SMALL = ("-b", "4", "-e", "4K", "-f", "32", "-n", "2", "-w", "0")


def answers(rows):
    """Each row of a table: what is typed behind `rondo`, its exit code, and what it must say."""
    for typed, code, *patterns in rows:
        rondo(*shlex.split(typed)).exits(code).says(*patterns)


def tables(*tables_of_cases):
    """A case for each: a name, and rows as above. `common` stands before what every row has."""
    for name, common, rows in tables_of_cases:
        def run(common=common, rows=rows):
            answers((f"{common} {typed}", code, *patterns) for typed, code, *patterns in rows)

        run.__name__ = name
        case(run)


@contextlib.contextmanager
def lab_of_hosts(count):
    if os.geteuid() != 0:
        raise Skipped("network namespaces need root")
    netlab, env = str(ROOT / "tools/dev/lab/netlab"), {"NETLAB": f"c{os.getpid() % 1000000}"}
    Running(netlab, "up", count, "1gbit", env=env).end().exits(0)
    try:
        yield lambda host, *command: Running(netlab, "exec", host, *command, env=env)
    finally:
        Running(netlab, "down", env=env).end().exits(0)


def fake_gpu(**more):
    """The environment in which NVIDIA's driver is the fake driver (tests/cuda/fake_driver)."""
    return {"LD_LIBRARY_PATH": str(companion("tests/cuda/fake_driver/libcuda.so.1").parent), "FAKE_CUDA_DELAY_US": "5", **more}
