"""How a group begins, what calls get wrong, and how it ends."""

import contextlib
import copy
import ctypes
import os
import pickle
import signal
import sys
import threading
import time
import types

import numpy as np

import rondo
from checks import expect, raises

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def before_and_after():
    """Calls without a group, and groups one after the other."""
    for call in (rondo.rank, rondo.size, rondo.local_rank, rondo.local_size, rondo.barrier, lambda: rondo.allreduce(np.ones(1)),
                 lambda: rondo.grouped_allreduce([np.ones(1)]), lambda: rondo.broadcast_parameters({}), lambda: rondo.abort("no"), rondo.describe):
        with raises(rondo.NotInitialized, "rondo.init()"):
            call()
    expect(not rondo.is_initialized(), "not yet")
    rondo.shutdown()  # has no effect
    for time_ in range(3):
        # With the same URL: each init() uses a new generation.
        rondo.init(os.environ["RONDO_RENDEZVOUS"], rank=RANK, world_size=SIZE, interface="lo", timeout_s=30,
                   transport="tcp" if time_ else "auto")  # fmt: skip
        rondo.init()  # as in Horovod: a second call has no effect ...
        with raises(rondo.NotInitialized, "already"):
            rondo.init("file:///elsewhere")  # ... unless it asks for something else
        expect(rondo.is_initialized() and (rondo.rank(), rondo.size()) == (RANK, SIZE), "who is who")
        expect(rondo.allreduce(np.ones(1), op=rondo.Sum)[0] == SIZE, "a sum")
        for peer in range(SIZE):
            path = f"rank {peer} ({os.uname().nodename}): {'127.0.0.1' if time_ else 'shared segment'}"
            expect((path in rondo.describe()) == (peer != RANK), f"'{path}' in {rondo.describe()}")
        rondo.shutdown()
        expect(not rondo.is_initialized(), "not any more")
    # A given generation is used; the default then continues from it.
    for generation in (7, None):
        rondo.init(os.environ["RONDO_RENDEZVOUS"], rank=RANK, world_size=SIZE, interface="lo", timeout_s=30, generation=generation)
        expect(rondo.allreduce(np.ones(1), op=rondo.Sum)[0] == SIZE, f"a sum after generation {generation}")
        rondo.shutdown()


def exported(data, flags):
    """A capsule of three floats at that address, and what must live as long as it."""
    shape = (ctypes.c_int64 * 3)(3)
    tensor = rondo._dlpack._Tensor(data, 1, 0, 1, 2, 32, 1, shape, None, 0)
    managed = rondo._dlpack._Versioned(1, 0, None, None, flags, tensor)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctypes.addressof(managed), b"dltensor_versioned", None), (shape, managed)


def wrong_calls():
    rondo.init()
    ones = np.ones(3)
    read_only = np.ones(3)
    read_only.flags.writeable = False

    class OnDevice:
        def __dlpack__(self, **_):
            raise AssertionError("the memory of a device was read")

        def __dlpack_device__(self):
            return 2, 1

    class WithoutMemory:
        """An array without memory, like torch's tensors of zeros."""

        def __dlpack__(self, **_):
            self.capsule, self.tensor = exported(None, 0)
            return self.capsule

        def __dlpack_device__(self):
            return 1, 0

    class Copied(WithoutMemory):
        """An array that exports memory other than its own."""

        def __dlpack__(self, **_):
            self.array = np.ones(3, np.float32)
            self.capsule, self.tensor = exported(self.array.ctypes.data, rondo._dlpack.IS_COPIED)
            return self.capsule

    for kind, words, call in (
        (TypeError, "list", lambda: rondo.allreduce([1, 2])),
        (TypeError, "float", lambda: rondo.broadcast(3.0, 0)),
        (TypeError, "int16", lambda: rondo.allreduce(np.ones(3, np.int16))),
        (TypeError, "complex64", lambda: rondo.grouped_allreduce([ones, np.ones(3, np.complex64)])),
        (TypeError, "byte order", lambda: rondo.allreduce(np.ones(3, ">f8"))),
        (TypeError, "allgather_object", lambda: rondo.allgather(np.array([None]))),
        (TypeError, "masked", lambda: rondo.allreduce(np.ma.masked_array([1.0], [True]))),
        (TypeError, "cannot be written", lambda: rondo.allreduce_(read_only)),
        (TypeError, "cannot be written", lambda: rondo.grouped_allreduce_([ones, read_only])),
        (TypeError, "cannot be written", lambda: rondo.allreduce_(np.float32(1))),
        (TypeError, "cannot be written", lambda: rondo.broadcast_(read_only, 0)),
        (TypeError, "share memory", lambda: rondo.allreduce_(np.lib.stride_tricks.as_strided(np.ones(1), (3,), (0,)))),
        (TypeError, "cannot be written", lambda: rondo.broadcast_parameters({"a": ones, "b": read_only})),
        (TypeError, "exports no memory", lambda: rondo.allreduce(WithoutMemory())),
        (TypeError, "cannot be written", lambda: rondo.allreduce_(Copied())),
        (TypeError, "floating", lambda: rondo.allreduce(np.ones(3, np.int32), prescale_factor=0.5)),
        (TypeError, "floating", lambda: rondo.grouped_allreduce([np.ones(3, np.int32)], postscale_factor=0.5)),
        (ValueError, "99", lambda: rondo.allreduce(ones, op=99)),
        (rondo.InvalidArgument, "the flags: invalid_argument", lambda: rondo.allreduce(np.ones(3, bool), name="the flags", op=rondo.Sum)),
        (rondo.InvalidArgument, "the flags: invalid_argument",
         lambda: rondo.grouped_allreduce([np.ones(3, bool)], ["the flags"], op=rondo.Sum)),
        (rondo.InvalidArgument, "root", lambda: rondo.broadcast(ones, SIZE)),
        (ValueError, f"{SIZE + 1} rows", lambda: rondo.alltoall(np.ones(SIZE + 1))),
        (ValueError, "[4]", lambda: rondo.alltoall(np.ones(4), [4])),
        (ValueError, "whose sum is 4", lambda: rondo.alltoall(np.ones(4), [1] * (SIZE - 1))),
        (ValueError, "[-1, ", lambda: rondo.alltoall(np.ones(4), [-1, 5, 0][:SIZE])),
        (ValueError, "scalar", lambda: rondo.reducescatter(np.float32(1))),
        (rondo.Unsupported, "cuda:1; the Python package supports only host memory", lambda: rondo.allreduce(OnDevice())),
    ):  # fmt: skip
        with raises(kind, words):
            call()
    with raises(rondo.InvalidArgument):
        rondo.allreduce(np.ones(3, bool), op=rondo.Sum)
    # None of these calls has started an operation, or has broken anything.
    expect(rondo.allreduce(ones, op=rondo.Sum)[2] == SIZE, "a sum after all that")
    try:
        rondo.broadcast(ones, SIZE)
    except rondo.RondoError as error:
        expect((error.code, error.code_name) == (1, "invalid_argument"), f"fields: {vars(error)}")
    rondo.shutdown()


def disagreeing():
    """Ranks whose calls differ get an error that names these ranks and the call of each."""
    rondo.init()
    own = np.ones((2, 3 if RANK == SIZE - 1 else 2))
    with raises(rondo.Mismatch, "weights: mismatch", f"rank 0 has float64 rows of shape (2,); rank {SIZE - 1} has float64 rows of shape (3,)"):
        rondo.allgather(own, name="weights")
    with raises(rondo.Mismatch, f"rank {SIZE - 1} has int32"):
        rondo.alltoall(np.ones(2 * SIZE, np.int32 if RANK == SIZE - 1 else np.int64))
    with raises(rondo.Mismatch, "b: float64 (2,)", "c: float64 (2,)"):
        rondo.broadcast_parameters({"a": np.ones(1), "c" if RANK == SIZE - 1 else "b": np.ones(2)})
    name = "a sum"
    try:
        expect(rondo.allreduce(np.ones(1), name, op=rondo.Sum)[0] == SIZE, "these break nothing")
        name = "gradient"  # a rank may get the mismatch in the sum already
        rondo.allreduce(np.ones(1 + RANK % 2), name)
    except rondo.Mismatch as error:
        expect(str(error).startswith(f"{name}: ") and "x 1 " in str(error) and "x 2 " in str(error), str(error))
        expect(error.rank == RANK and error.culprit >= 0 and error.host, f"fields: {vars(error)}")
    else:
        raise SystemExit("not so: a mismatch is raised")
    with raises(rondo.RondoError, "x 1 "):
        rondo.barrier()  # returns the first cause again
    rondo.shutdown()


def refused_by_one():
    """If only one rank refuses a call, the others get its error when that rank leaves. If all ranks refuse it, nothing fails."""
    wrong, right = [1, 2], np.ones((2 * SIZE, 2), np.float32)
    calls = {
        "allreduce": rondo.allreduce,
        "allreduce_": rondo.allreduce_,
        "allreduce_async": lambda array: rondo.synchronize(rondo.allreduce_async(array)),
        "grouped_allreduce": lambda array: rondo.grouped_allreduce([right, array]),
        "grouped_allreduce_": lambda array: rondo.grouped_allreduce_([array]),
        "allgather": rondo.allgather,
        "broadcast": lambda array: rondo.broadcast(array, 0),
        "broadcast_": lambda array: rondo.broadcast_(array, 0),
        "alltoall": rondo.alltoall,
        "reducescatter": rondo.reducescatter,
        "broadcast_parameters": lambda array: rondo.broadcast_parameters({"weights": array}),
        "DistributedOptimizer._reduced": lambda array: rondo.DistributedOptimizer(lambda _: None)([(array, "v")]),
    }
    for generation, (name, call) in enumerate(calls.items()):
        odd = generation % SIZE
        rondo.init(generation=generation, transport="tcp" if generation // SIZE % 2 else "auto", timeout_s=60)
        if RANK == odd:
            rondo.barrier()
            with raises(TypeError, "not list"):
                call(wrong)
            with raises(rondo.Mismatch, "refused a call of its program"):
                rondo.shutdown()
        else:
            words = f"rank {odd} refused a call of its program ({name}: TypeError: Rondo supports NumPy arrays and objects that export DLPack, not list)"
            with raises(rondo.Mismatch, words):
                rondo.barrier()  # may already fail for the same reason
                call(right)
                rondo.barrier()  # a root that only sends may return before it gets the error
            rondo.shutdown()
    rondo.init(generation=len(calls))
    with raises(TypeError, "not list"):
        rondo.allreduce(wrong)
    rondo.shutdown()


def a_rank_dies():
    rondo.init(timeout_s=100)
    arrays = [np.ones(n, np.float32) for n in range(300)]
    rondo.grouped_allreduce_(arrays)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    fused = sys.argv[2] == "fused"
    try:
        while True:
            rondo.grouped_allreduce_(arrays) if fused else rondo.allreduce_(arrays[200], name="one of many")
    except rondo.PeerLost as error:
        expect(error.culprit == 1 and error.rank == RANK and error.host == os.uname().nodename and error.host in str(error), vars(error))
        expect(error.code_name == "peer_lost" and isinstance(error, ConnectionError), vars(error))
        print(f"reported after {time.monotonic() - started:.3f} s: {error}")
    expect(time.monotonic() - started < 30, "the error comes long before the timeout")
    with raises(rondo.PeerLost, "rank 1"):
        rondo.grouped_allreduce([np.ones(1)])
    rondo.shutdown()


def a_rank_is_missing():
    if RANK == 1:
        return
    with raises(rondo.TimedOut, "1 of 2", "1"):
        rondo.init(timeout_s=0.5)
    expect(not rondo.is_initialized(), "there is no group")
    for wrong in (0, -1, float("inf"), float("nan"), 1e300, 10**400, 1_000_000_001):
        with raises(ValueError, "timeout_s: expected seconds above 0 and up to 1000000000", f"got {wrong}"):
            rondo.init(timeout_s=wrong)
    with raises(rondo.InvalidArgument, "options.ports: expected FIRST-LAST"):
        rondo.init(ports="29599-29500")
    with raises(rondo.InvalidArgument, "pigeon"):
        rondo.init(transport="pigeon")


def say_when_it_waits():
    """Makes the package print "waiting" after every slice of a wait in which the operation did not end."""
    ended, call = rondo._group.Handle._ended, rondo._reductions.call

    def ended_or_words(handle, function, *arguments):
        done = ended(handle, function, *arguments)
        if not done and function is rondo._library.lib.rondo_work_wait_for:
            print("waiting", flush=True)
        return done

    def call_or_words(function, *arguments):
        code = call(function, *arguments)
        if code and function is rondo._library.lib.rondo_fusion_wait_for:
            print("waiting", flush=True)
        return code

    rondo._group.Handle._ended, rondo._reductions.call = ended_or_words, call_or_words


def interrupted():
    """Ctrl-C ends a wait. The operation continues, and its memory is kept."""
    rondo.init(timeout_s=100)
    rondo.barrier()
    go = f"{os.environ['RONDO_RENDEZVOUS'].removeprefix('file://')}.go"
    with contextlib.suppress(FileExistsError):
        os.mkfifo(go)
    large = np.full(1_000_000, float(RANK))
    many = [np.full(1000, float(RANK)) for _ in range(20)]
    if RANK == 0:
        say_when_it_waits()
        for wait in (lambda: rondo.allreduce_(large, op=rondo.Sum), lambda: rondo.grouped_allreduce_(many, op=rondo.Sum)):
            started = time.monotonic()
            try:
                wait()
                raise SystemExit("not so: the wait is interrupted")
            except KeyboardInterrupt:
                expect(time.monotonic() - started < 50, "long before the timeout")
                print("interrupted", flush=True)
        open(go, "w").close()
    else:
        open(go).close()  # returns when rank 0 has opened it
        rondo.allreduce_(large, op=rondo.Sum)
        rondo.grouped_allreduce_(many, op=rondo.Sum)
    rondo.barrier()
    if RANK != 0:
        expect(np.all(large == sum(range(SIZE))) and np.all(many[-1] == sum(range(SIZE))), "sums with what rank 0 had given")
    more = rondo.grouped_allreduce([np.ones(3)], op=rondo.Sum)
    expect(np.all(more[0] == SIZE), "and on it goes")
    rondo.shutdown()


def interrupted_rendezvous():
    """Ctrl-C ends init, too."""
    if RANK == 1:
        return
    try:
        print("rendezvous", flush=True)  # in here, because Ctrl-C may come as soon as this is said
        rondo.init(timeout_s=60)
    except KeyboardInterrupt:
        expect(not rondo.is_initialized(), "there is no group")
        print("interrupted", flush=True)


def ends_without_shutdown():
    """A script that ends without shutdown has sent everything that other ranks wait for."""
    rondo.init()
    print("last value", rondo.broadcast(np.full(1_000_000, float(RANK)), 0)[-1])


def an_exception_ends_a_rank():
    """The other ranks get the exception's text."""
    rondo.init(timeout_s=100)
    if RANK == 1:
        rondo.barrier()
        raise LookupError("no such file of data")
    with raises(rondo.Aborted, "rank 1", "LookupError: no such file of data"):
        rondo.barrier()  # this call may report it already
        rondo.allreduce(np.ones(3))


def abort():
    rondo.init(timeout_s=100)
    with raises(rondo.Aborted, "the loss is not a number"):
        rondo.barrier()
        if RANK == 1:
            rondo.abort("the loss is not a number")
        rondo.allreduce(np.ones(3))


def a_child_is_forked():
    rondo.init()
    rondo.barrier()
    if RANK == 1:
        time.sleep(0.3)  # so that the other rank's operation is pending when it forks
    handle = rondo.allreduce_async(np.ones(1000), op=rondo.Sum)
    child = os.fork()
    if child == 0:
        expect(not rondo.is_initialized(), "a child is no rank")
        with raises(rondo.NotInitialized, "forked"):
            rondo.barrier()
        with raises(rondo.NotInitialized, "forked"):
            rondo.poll(handle)
        sys.exit(7)  # runs everything that Python does at its end
    expect(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, "the child has ended as it wanted")
    expect((rondo.synchronize(handle) == SIZE).all(), "what was under way at the fork is right")
    expect(rondo.allreduce(np.ones(1), op=rondo.Sum)[0] == SIZE, "the parent is a rank as before")
    rondo.shutdown()


def errors_travel():
    """Exceptions can be pickled, for pools of processes, and copied, with all their fields."""
    for kind in (rondo.RondoError, *rondo.RondoError.__subclasses__(), rondo.NotInitialized):
        error = kind(6, "peer_lost: rank 3 died", rank=1, culprit=3, host="b", sequence=17).of("loss")
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            expect(type(again) is kind and vars(again) == vars(error) and str(again) == str(error), f"{kind.__name__} again")


def given_up_as_it_ends():
    """Ctrl-C in the moment in which the rendezvous of init completes: there is no group then."""

    class Interrupted(threading.Event):
        def wait(self, timeout=None):
            super().wait(timeout)
            met.append(rondo.is_initialized())
            raise KeyboardInterrupt

    met, rondo._group.threading = [], types.SimpleNamespace(Event=Interrupted, Lock=threading.Lock, Thread=threading.Thread)
    with raises(KeyboardInterrupt, ""):
        rondo.init()
    rondo._group.threading = threading
    expect(met == [True] and not rondo.is_initialized(), "what was made is undone")
    rondo.init(generation=1)
    rondo.barrier()
    rondo.shutdown()


def dropped_handles():
    """A program that drops a handle loses the result, but no memory that the operation uses."""
    rondo.init()
    for n in range(300):
        rondo.allreduce_async(np.full(1000, float(n)))
    expect(rondo.allreduce(np.ones(1), op=rondo.Sum)[0] == SIZE, "a sum behind them")
    rondo.barrier()
    expect(len(rondo._group.group().pending) <= 2, "what has ended is let go")
    last = rondo.allreduce_async(np.ones(10), op=rondo.Sum)
    rondo.shutdown()
    expect(rondo.synchronize(last)[0] == SIZE, "shutdown waits for what is under way")
    rondo.init(f"{os.environ['RONDO_RENDEZVOUS']}.again", rank=RANK, world_size=SIZE)
    if RANK == 0:
        last = rondo.allreduce_async(np.ones(10))
        rondo.abort("enough")
        rondo.shutdown()
        with raises(rondo.Aborted, "enough"):
            rondo.synchronize(last)


def longest_time():
    rondo.init(timeout_s=1_000_000_000)
    expect(rondo.allreduce(np.ones(1), op=rondo.Sum)[0] == SIZE, "a sum with as good as no limit")
    rondo.shutdown()


def types_of_elements():
    for name, code in rondo._library.DTYPES.items():
        print(f"enumerator RONDO_{name.upper()} {code}")


def structs():
    """Prints the ctypes layout of rondo.h, which the test compares with embed/abi.txt."""
    for name, struct in rondo._library.STRUCTS.items():
        for field, _ in struct._fields_:
            place = getattr(struct, field)
            print(f"field {name}.{field} at {place.offset}, {place.size} bytes")
        print(f"size {name} {ctypes.sizeof(struct)} {getattr(rondo._library.defaults(struct), 'size', 0) if name not in ('rondo_error', 'rondo_bytes') else 0}")


globals()[sys.argv[1]]()
