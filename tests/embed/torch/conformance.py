"""PyTorch's own suite for backends, torch.testing._internal.distributed.distributed_test, run for one of them.

    conformance.py gloo|rondo WORLD_SIZE [--like mpi] [--match REGEX] [--part K/N] [--share-gpu]

A line of JSON for each test: {"test":, "status": "passed" | "skipped" | "failed", "seconds":, "why":}. Rondo is run under
Gloo's name, as programs that name Gloo would have it: many of the tests ask for names. With --like mpi, tests that PyTorch
has for MPI only, such as all_to_all on the host, are not skipped. With --share-gpu those that want a GPU per rank run on one.
With --part every Nth test, from the Kth on: the other parts are run by others at the same time.
"""

import argparse
import dataclasses
import importlib.util
import json
import logging
import os
import re
import sys
import tempfile
import time
import types
import unittest

import torch

UNDER_ITS_OWN_NAME = {"test_ddp_logging_data_cpu"}  # asks the backend named gloo for its number of threads


def import_despite(what):
    """torch 1.13 has a dataclass that Python 3.11 refuses: its default is not hashable."""
    ordinary = dataclasses.dataclass

    def hashable(cls=None, **options):
        if cls is None:
            return lambda later: hashable(later, **options)
        return ordinary(cls, **({} if "__hash__" in cls.__dict__ else {"unsafe_hash": True}), **options)

    dataclasses.dataclass = hashable
    try:
        return importlib.import_module(what)
    finally:
        dataclasses.dataclass = ordinary


def stand_in_for_expecttest():
    """A stand-in for a package that Debian does not have. The tests of backends use only its class."""
    module = types.ModuleType("expecttest")
    module.TestCase = unittest.TestCase
    module.ACCEPT = False
    sys.modules["expecttest"] = module


class Lines(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()
        # The output of the ranks, which the tests' own report does not contain.
        self.said, self.own_stderr = tempfile.TemporaryFile("w+", errors="replace"), os.dup(2)
        os.dup2(self.said.fileno(), 2)

    def stopTest(self, test):
        os.dup2(self.own_stderr, 2)
        os.close(self.own_stderr)
        self.said.seek(0)
        sys.stderr.write(self.said.read())
        self.said.close()
        super().stopTest(test)

    def line(self, test, status, why=""):
        seconds = round(time.monotonic() - self.started, 2)
        print(json.dumps({"test": test.id().split(".")[-1], "status": status, "seconds": seconds, "why": why}), flush=True)

    def addSuccess(self, test):
        self.line(test, "passed")

    def addSkip(self, test, reason):
        self.line(test, "skipped", reason)

    def addFailure(self, test, err):
        self.said.seek(0)
        self.line(test, "failed", self._exc_info_to_string(err, test)[-1000:] + self.said.read()[-3000:])

    addError = addFailure


def suite_of(backend, world, share_gpu):
    """PyTorch's module, and the class of all its tests."""
    if importlib.util.find_spec("expecttest") is None:
        stand_in_for_expecttest()
    if share_gpu:
        importlib.import_module("one_gpu").pretend(world)
        sys.modules["torchvision"] = None  # its models take minutes if many ranks share a GPU
    import_despite("torch.distributed._shard")
    if backend == "rondo":
        importlib.import_module("rondo_torch").replace_gloo()
    suite = importlib.import_module("torch.testing._internal.distributed.distributed_test")
    if share_gpu:
        importlib.import_module("one_gpu").share()
        importlib.import_module("torch.testing._internal.common_distributed").TIMEOUT_OVERRIDE.clear()  # limits up to 500 s
    logging.getLogger().setLevel(logging.ERROR)

    class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            # A forked process cannot use CUDA that its parent has initialized.
            self._start_processes(torch.multiprocessing.get_context("spawn" if share_gpu else "fork").Process)

    Suite.__module__, Suite.__qualname__ = "__main__", "Suite"  # the place where spawned processes find it
    suite.PROFILING_SUPPORTED_BACKENDS.append("rondo")
    return suite, Suite


def run(options, suite, tests):
    result = Lines()
    chosen = [name for name in unittest.TestLoader().getTestCaseNames(tests) if re.search(options.match, name)]
    part, parts = map(int, options.part.split("/"))
    for name in chosen[part::parts]:  # a later line about the same test replaces this one
        print(json.dumps({"test": name, "status": "failed", "seconds": 0, "why": "was not over by the limit"}), flush=True)
    for name in chosen[part::parts]:
        suite.BACKEND = os.environ["BACKEND"] = options.backend if name in UNDER_ITS_OWN_NAME else "gloo"
        tests(name).run(result)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", choices=("gloo", "rondo"))
    parser.add_argument("world", type=int)
    parser.add_argument("--like", default="gloo")
    parser.add_argument("--match", default="")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--share-gpu", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/barrier")
        what = (given.backend, given.world, given.share_gpu)
        os.environ.update(WORLD_SIZE=str(given.world), BACKEND=given.like, TEMP_DIR=folder, OMP_NUM_THREADS="1",
                          DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="60", CONFORMANCE=json.dumps(what))  # fmt: skip
        module, Suite = suite_of(*what)
        run(given, module, Suite)
elif __name__ == "__mp_main__":  # a spawned rank
    module, Suite = suite_of(*json.loads(os.environ["CONFORMANCE"]))
