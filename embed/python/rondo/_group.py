"""The group of all ranks: init and shutdown, ranks and hosts, and waiting for operations."""

from __future__ import annotations

import collections
import ctypes
import functools
import os
import signal
import sys
import threading
from ctypes import byref, c_void_p

from . import _library
from ._errors import NotInitialized, RondoError, call, taken
from ._goodbye import say_at_end
from ._library import lib

# A wait consists of slices. Python handles signals between them, so Ctrl-C ends the wait.
SLICE_MS = 100
# How long an ending program waits for the other ranks to end too. Ranks that end later find its goodbye.
GOODBYE_MS = 50
# The longest timeout that librondo accepts.
LONGEST_S = 1_000_000_000


class Group:
    """The group that init() made: its communicator, its fusion buffer and its operations in flight."""

    def __init__(self, comm, bucket_bytes):
        self.comm, self.bucket_bytes, self.process = comm, bucket_bytes, os.getpid()
        self.rank, self.size = lib.rondo_comm_rank(comm), lib.rondo_comm_world_size(comm)
        self.pending = collections.deque()  # handles in flight, oldest first; they keep the memory that librondo uses
        self.fused = []  # tensors that the fusion buffer uses
        self._fusion = None

    @property
    def fusion(self):
        if self._fusion is None:
            options, fusion = _library.defaults(_library.FusionOptions), c_void_p()
            options.bucket_bytes = self.bucket_bytes
            call(lib.rondo_fusion_create, self.comm, byref(options), byref(fusion))
            self._fusion = fusion
        return self._fusion

    def is_busy(self):
        """Whether an operation is in flight."""
        return bool(self.fused) or not all(handle.done() for handle in self.pending)

    def failure(self):
        """The error with which the group has failed; None if it has not failed."""
        error = _library.ErrorPointer()
        code = lib.rondo_comm_failure(self.comm, byref(error))
        return taken(code, error) if code != _library.OK else None

    def free(self):
        early = NotInitialized(_library.INVALID_ARGUMENT, "rondo.shutdown() was called before the operation had ended")
        for handle in self.pending:
            handle.give_up(self.failure() or early)
        lib.rondo_fusion_free(self._fusion)
        lib.rondo_comm_free(self.comm)


class Handle:
    """An operation in flight, for synchronize() and poll()."""

    def __init__(self, group, keeps, finish, name=None):
        self._group, self._keeps, self._finish, self._name = group, keeps, finish, name
        self._work, self._result, self._failure = c_void_p(), None, None

    def start(self, function, *arguments, options=None):
        """Starts an asynchronous collective of the library. `arguments`: all except comm, options, work and error. Returns self."""
        pending = self._group.pending
        while pending and pending[0].done():
            pending.popleft()
        pending.append(self)  # first, so that an interruption cannot free memory that librondo uses
        try:
            call(function, self._group.comm, *arguments, options and byref(options), byref(self._work))
        except RondoError as error:
            pending.remove(self)
            error.of(self._name)
            raise
        return self

    def done(self):
        self._check_process()
        if not self._work:
            return True
        return self._ended(lib.rondo_work_test, self._work)

    def wait(self):
        self._check_process()
        while self._work and not self._ended(lib.rondo_work_wait_for, self._work, SLICE_MS):
            pass
        if self._failure is not None:
            raise self._failure
        if self._finish is not None:
            finish, self._finish = self._finish, None
            self._result = finish()
        return self._result

    def give_up(self, why):
        """Called before the group is freed. If the operation has not ended, wait() raises `why`."""
        if not self.done():
            self._failure = why.of(self._name)
            self._forget()

    def _check_process(self):
        if self._work and self._group.process != os.getpid():
            raise _forked()

    def _forget(self):
        lib.rondo_work_free(self._work)
        self._work = c_void_p()

    def _ended(self, function, *arguments):
        error = _library.ErrorPointer()
        code = function(*arguments, byref(error))
        if code == _library.NOT_READY:
            lib.rondo_error_free(error)
            return False
        if code != _library.OK:
            self._failure = taken(code, error).of(self._name)
        self._forget()
        self._keeps = None
        return True


_group = None
_groups_at = collections.Counter()  # the next generation, by rendezvous and job


def _forked():
    return NotInitialized(_library.INVALID_ARGUMENT, "this process was forked from one that had called rondo.init(); it is no rank "
                          "until it calls rondo.init() itself")  # fmt: skip


def group():
    """The group of this process. Raises NotInitialized if there is none."""
    if _group is None:
        raise NotInitialized(_library.INVALID_ARGUMENT, "rondo is not initialized: call rondo.init() first")
    if _group.process != os.getpid():
        raise _forked()
    return _group


def collective(function):
    """Decorates functions that all ranks call together. If only this rank refuses a call, for example because of a wrong type, the other
    ranks wait. So the decorator notes the reason, and the other ranks get it when this rank leaves."""

    @functools.wraps(function)
    def call(*arguments, **named):
        try:
            return function(*arguments, **named)
        except Exception as error:
            if is_initialized():
                words = f"{function.__qualname__}: {type(error).__name__}: {error}"
                lib.rondo_comm_note_refusal(_group.comm, words.encode(errors="replace"))
            raise

    return call


def is_initialized():
    """Whether this process has a group. False in a forked child of a process that has one."""
    return _group is not None and _group.process == os.getpid()


def init(rendezvous=None, rank=None, world_size=None, *, timeout_s=None, interface=None, addresses=None, ports=None, transport="auto",
         rails=1, job=None, token=None, generation=None, reproducible=False, fp32_accumulate=False, checksums=False,
         record_dir=None, bucket_bytes=4 << 20):  # fmt: skip
    """Performs the rendezvous with the other ranks, and makes the group that all other functions use.

    Without arguments everything comes from the environment (env://): the variables that torchrun, mpirun, srun, Kubernetes or rondo run
    set. A second call without rendezvous, rank and world_size does nothing.

    rendezvous       env:// (default), tcp://host:port or file:///path; each may end with ?rank=2&world_size=4
    rank             this process's rank, from 0 (default: from the URL or the environment, otherwise by order of arrival)
    world_size       the number of ranks (default: from the URL or the environment)
    timeout_s        seconds for the rendezvous and for every operation (default: variable RONDO_TIMEOUT, otherwise 60)
    interface        network interfaces, for example "eth0,ib0" or "^docker0,lo" (default: by reachability)
    addresses        local addresses, separated by commas (default: by reachability)
    ports            TCP ports to listen on, for example "29500-29599" (default: variable RONDO_PORTS, otherwise any)
    transport        "auto", "tcp", "shm" or "ib"; equal on all ranks
    rails            the number of connections to each peer that share large collectives; equal on all ranks
    job, token       the job's name and its secret; processes with others are rejected (default of token: variable RONDO_TOKEN)
    generation       counts the rendezvous of one job through one store; equal on all ranks (default: counted by this process)
    reproducible     if true, results have the same bits for every algorithm, transport and timing; equal on all ranks
    fp32_accumulate  if true, partial results of 16-bit floats are kept in float32 and rounded once, at the end; equal on all ranks
    checksums        if true, every frame is protected by CRC-32C; equal on all ranks
    record_dir       the directory for the flight recorder's file, written on failure (default: no file)
    bucket_bytes     the size of a bucket of the fusion buffer, in bytes; equal on all ranks

    Raises TimedOut if ranks are missing at the deadline, NotInitialized if there is a group already, ValueError for an invalid timeout_s,
    and other classes of RondoError.
    """
    if is_initialized():
        if rendezvous is None and rank is None and world_size is None:
            return
        raise NotInitialized(_library.INVALID_ARGUMENT, "rondo is initialized already: call rondo.shutdown() first")
    options = _library.defaults(_library.ConnectOptions)

    def text(value):
        return None if value is None else os.fsencode(value)

    if rendezvous is not None:
        options.rendezvous = text(rendezvous)
    options.rank = -1 if rank is None else rank
    options.world_size = 0 if world_size is None else world_size
    options.interface_, options.addresses, options.transport = text(interface), text(addresses), text(transport)
    options.ports = text(ports)
    options.job, options.token, options.record_dir = text(job), text(token), text(record_dir)
    options.timeout_ms = 0 if timeout_s is None else _milliseconds(timeout_s)
    # A store remembers each rendezvous, so that a late rank does not become a rank of the next one.
    place = (rendezvous, job)
    options.generation = _groups_at[place] if generation is None else generation
    options.rails, options.reproducible, options.fp32_accumulate, options.checksums = rails, reproducible, fp32_accumulate, checksums
    comm = c_void_p()

    def keep():
        global _group
        _group = Group(comm, bucket_bytes)
        _groups_at[place] = options.generation + 1
        say_at_end(_leave)

    def undo():
        global _group
        _group = None
        lib.rondo_comm_free(comm)

    _interruptible(lambda: call(lib.rondo_connect, byref(options), byref(comm)), keep, undo)


def _milliseconds(seconds):
    if not 0 < seconds <= LONGEST_S:
        raise ValueError(f"timeout_s: expected seconds above 0 and up to {LONGEST_S} (31 years), which is in effect no limit, got {seconds}")
    return max(1, round(seconds * 1000))


def _interruptible(function, keep=lambda: None, undo=lambda: None):
    """Runs `function` in its own thread, because it may wait for long and the caller must react to Ctrl-C. Afterwards calls `keep`, or
    `undo` if the caller has been interrupted. Raises the exception of `function`."""
    ended, lock, failures = threading.Event(), threading.Lock(), []
    state = "under way"  # the first side to finish changes it to "kept" or "given up"

    def run():
        nonlocal state
        try:
            function()
            with lock:
                if state == "given up":
                    undo()
                else:
                    keep()
                    state = "kept"
        except BaseException as error:  # noqa: BLE001: it goes to the caller
            failures.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="rondo-python", daemon=True)
    try:
        thread.start()
        ended.wait()
    except BaseException:
        with lock:
            if state == "kept":
                undo()
            state = "given up"
        raise
    if failures:
        raise failures[0]


def shutdown():
    """Waits for operations in flight, closes the connections with a goodbye, and frees the group. Does nothing without a group.

    Raises the error if the group fails meanwhile; the group is freed then, too. An error before the call is not raised again.
    """
    global _group
    if not is_initialized():
        return
    leaving, _group = _group, None
    try:
        if leaving.failure() is None:
            _interruptible(lambda: call(lib.rondo_comm_close, leaving.comm))
    except RondoError:
        leaving.free()
        raise
    leaving.free()


def abort(reason):
    """Fails the group's operations on all ranks. They raise Aborted, whose text quotes `reason`, a str."""
    lib.rondo_comm_abort(group().comm, reason.encode())


def rank():
    """This process's rank, from 0. NotInitialized without a group, like in the next functions."""
    return group().rank


def size():
    """The number of ranks."""
    return group().size


def local_rank():
    """The index of this rank among the ranks on its host, from 0."""
    return lib.rondo_comm_local_rank(group().comm)


def local_size():
    """The number of ranks on this rank's host."""
    return lib.rondo_comm_local_size(group().comm)


def host(of_rank=None):
    """The name of the host of a rank (default: this rank)."""
    return lib.rondo_comm_host(group().comm, rank() if of_rank is None else of_rank).decode()


def describe():
    """Describes the path to each rank, in a line each. If ranks of a host do not share memory, the line has the reason. A path is known
    after its first use."""
    text = _library.Bytes()
    call(lib.rondo_comm_describe, group().comm, byref(text))
    try:
        return ctypes.string_at(text.data, text.size).decode(errors="replace")
    finally:
        lib.rondo_bytes_free(byref(text))


def _leave(error):
    """Leaves the group at the end of the process. If the program ends without an exception, the rank leaves with a goodbye. Otherwise the
    group is aborted with the exception's text. `error` is the exception that ends a function which multiprocessing runs."""
    global _group
    if not is_initialized():
        return
    leaving, _group = _group, None
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no new thread can be started now, and an interruptible wait needs one
    # At an interactive prompt the last exception did not end the program.
    uncaught = None if hasattr(sys, "ps1") else error or getattr(sys, "last_value", None)
    if isinstance(uncaught, SystemExit):
        uncaught = None
    try:
        if uncaught is not None:
            lib.rondo_comm_abort(leaving.comm, f"the program ended by {type(uncaught).__name__}: {uncaught}".encode())
        elif leaving.failure() is None:
            if leaving.is_busy():
                call(lib.rondo_comm_close, leaving.comm)
            else:
                call(lib.rondo_comm_leave, leaving.comm, GOODBYE_MS)
    except Exception as failure:  # noqa: BLE001: no caller is left to catch it
        print(f"rondo: {failure}", file=sys.stderr)
    leaving.free()
