"""The group of all ranks: meeting it, leaving it, who one is in it, and waiting for its operations."""

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
    """What init made."""

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
        """Whether anything is under way."""
        return bool(self.fused) or not all(handle.done() for handle in self.pending)

    def failure(self):
        """What it has failed of; None while it is in order."""
        error = _library.ErrorPointer()
        code = lib.rondo_comm_failure(self.comm, byref(error))
        return taken(code, error) if code != _library.OK else None

    def free(self):
        early = NotInitialized(_library.INVALID_ARGUMENT, "rondo.shutdown() came before the operation's end")
        for handle in self.pending:
            handle.give_up(self.failure() or early)
        lib.rondo_fusion_free(self._fusion)
        lib.rondo_comm_free(self.comm)


class Handle:
    """An operation under way, for synchronize() and poll()."""

    def __init__(self, group, keeps, finish, name=None):
        self._group, self._keeps, self._finish, self._name = group, keeps, finish, name
        self._work, self._result, self._failure = c_void_p(), None, None

    def start(self, function, *arguments, options=None):
        """An asynchronous collective of the library's, with all its arguments but options, work and error."""
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
        """The group is to end: what is not over by now has no result."""
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
    """The group of this process. NotInitialized where there is none."""
    if _group is None:
        raise NotInitialized(_library.INVALID_ARGUMENT, "rondo is not initialized: call rondo.init() first")
    if _group.process != os.getpid():
        raise _forked()
    return _group


def collective(function):
    """Decorates what all ranks call together. If this rank alone refuses the call (a wrong type, say), the others wait for it.
    The reason is noted, and they get it when this rank leaves."""

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
    return _group is not None and _group.process == os.getpid()


def init(rendezvous=None, rank=None, world_size=None, *, timeout_s=None, interface=None, addresses=None, ports=None, transport="auto",
         rails=1, job=None, token=None, generation=None, reproducible=False, wide_partials=False, checksums=False,
         record_dir=None, bucket_bytes=4 << 20):  # fmt: skip
    """Meets the other ranks. Without arguments everything comes from the environment (env://), as torchrun, mpirun, srun,
    Kubernetes or rondo run leave it; a second call without arguments does nothing.

    rendezvous     env://, tcp://host:port or file:///path, each with ?rank=2&world_size=4 where that is not said otherwise
    timeout_s      of the meeting and of every operation (default: variable RONDO_TIMEOUT, else 60)
    ports          TCP ports to listen on, "29500-29599" (default: variable RONDO_PORTS, else any)
    interface, addresses, transport, rails, job, token, checksums, record_dir: docs/EMBEDDING.md, embed/rondo.h
    generation     counts the meetings of one job at one place; by default how often this process has been in a group there
    reproducible   the same bits whatever the algorithm, transport and timing; wide_partials: 16-bit floats round once
    bucket_bytes   of the fusion buffer; these, generation, transport and rails are equal on all ranks
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
    options.rails, options.reproducible, options.wide_partials, options.checksums = rails, reproducible, wide_partials, checksums
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
        raise ValueError(f"timeout_s: expected seconds above 0 and up to {LONGEST_S} (31 years), which are as good as no limit, not {seconds}")
    return max(1, round(seconds * 1000))


def _interruptible(function, keep=lambda: None, undo=lambda: None):
    """A call that may wait for long, in a thread of its own. What it made is kept, or undone where it was given up."""
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
    """Waits for what is under way and says goodbye; what the last call could not see yet is raised. Nothing without init."""
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
    """Ends this job's operations, here and on all ranks, which are told `reason`."""
    lib.rondo_comm_abort(group().comm, reason.encode())


def rank():
    return group().rank


def size():
    return group().size


def local_rank():
    """Which of the ranks on this rank's host it is."""
    return lib.rondo_comm_local_rank(group().comm)


def local_size():
    """How many ranks are on this rank's host."""
    return lib.rondo_comm_local_size(group().comm)


def host(of_rank=None):
    """The host of a rank, by default of this one."""
    return lib.rondo_comm_host(group().comm, rank() if of_rank is None else of_rank).decode()


def describe():
    """The path to each rank, a line each, with the reason where memory of a host is not shared. Paths are known once they have
    been used."""
    text = _library.Bytes()
    call(lib.rondo_comm_describe, group().comm, byref(text))
    try:
        return ctypes.string_at(text.data, text.size).decode(errors="replace")
    finally:
        lib.rondo_bytes_free(byref(text))


def _leave(error):
    """A program that just ends says goodbye all the same; one that ends by an exception tells the others which. `error` is the
    exception that ends a function which multiprocessing runs."""
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
    except Exception as failure:  # noqa: BLE001: nobody is left to catch it
        print(f"rondo: {failure}", file=sys.stderr)
    leaving.free()
