"""Works, futures, groups and ends, as programs and torch itself use them."""

import datetime
import itertools
import os
import signal
import sys
import tempfile
import threading
import time

import rondo_torch
import torch
import torch.distributed as dist
from checks import RANK, WORLD, expect, raised


def works():
    tensor = torch.full((1000,), float(RANK))
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] * 2)
    work.wait()
    expect(work.is_completed() and work.is_success(), "the work is over")
    expect("rank" in rondo_torch.backend_of().describe(), "it says how it reaches the others")
    expect(rondo_torch.version() == "0.1.0", "its version")
    expect(torch.equal(future.wait(), torch.full((1000,), float(WORLD * (WORLD - 1)))), "a future's continuation")

    # A continuation may use the group itself, as powerSGD's does, on any thread.
    def again(done):
        value = done.value()[0]
        dist.all_reduce(value)
        return value

    tensor = torch.ones(3)
    nested = dist.all_reduce(tensor, async_op=True).get_future().then(again)
    expect(nested.wait()[0] == WORLD * WORLD, "a collective in a continuation")
    # Many continuations at once may do so too, if their operations end while the first continuation runs.
    for _ in range(20):
        if RANK == 1 % WORLD:
            time.sleep(0.02)
        works = [dist.broadcast(torch.ones(10), 1 % WORLD, async_op=True) for _ in range(8)]
        sums = [torch.ones(3) for _ in works]
        futures = [work.get_future().then(lambda _, s=s: dist.all_reduce(s)) for work, s in zip(works, sums)]
        works[-1].wait()
        for future in futures:
            future.wait()
        expect(all((s == WORLD).all() for s in sums), "collectives in many continuations")
    # The operation ends even if no call waits for it.
    tensor = torch.ones(3)
    alone = dist.all_reduce(tensor, async_op=True).get_future()
    while not alone.done():
        time.sleep(0.001)
    expect(tensor[0] == WORLD, "an operation that no call waits for")
    many = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(200)]
    for work in many:
        work.wait()


def autograd():
    """Results are written into any tensor, with or without a copy, by whichever thread advances the operation."""

    def tensors():
        leaf = torch.empty_strided((4, 3), (1, 4)).fill_(RANK + 1.0).requires_grad_()  # not contiguous
        with torch.inference_mode():
            inferred = torch.full((3, 4), RANK + 1.0).t()
        return leaf, inferred, torch.full((5,), RANK + 1.0, requires_grad=True)

    for tensor in tensors():
        dist.broadcast(tensor, 1)
        expect((tensor == 2).all(), "what rank 1 had")
    for tensor in tensors():
        work = dist.broadcast(tensor, 1, async_op=True)
        while not work.is_completed():
            time.sleep(0.001)
        work.wait()
        expect((tensor == 2).all(), "what rank 1 had, without a wait")
    for tensor in tensors()[:2]:
        if RANK == 0:
            dist.send(torch.full((4, 3), 7.0), 1)
        elif RANK == 1:
            dist.recv(tensor, 0)
            expect((tensor == 7).all(), "a message")


def forked():
    """A forked child that ends normally sends no goodbye for its parent."""
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    if RANK != 0:  # rank 0's torch store does not survive a fork
        child = os.fork()
        if child == 0:
            sys.exit(0)
        expect(os.waitpid(child, 0)[1] == 0, "the child ended otherwise")
    dist.all_reduce(tensor)
    expect(tensor[0] == WORLD * WORLD, "a sum after the fork")


def groups():
    theirs = dist.new_group(backend="gloo")
    expect("not a backend" in raised(lambda: rondo_torch.backend_of(theirs)), "Gloo's is not taken for Rondo's")
    evens = dist.new_group(list(range(0, WORLD, 2)))
    if RANK % 2 == 0:
        tensor = torch.ones(1)
        dist.all_reduce(tensor, group=evens)
        expect(tensor[0] == (WORLD + 1) // 2, "a sum within a group")
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"rank": RANK})
    expect(objects == [{"rank": rank} for rank in range(WORLD)], "all_gather_object")
    if RANK == 0:
        sources = set()
        for _ in range(1, WORLD):
            tensor = torch.zeros(1)
            source = dist.recv(tensor)
            expect(tensor[0] == source, "recv from any rank returns the source")
            sources.add(source)
        expect(sources == set(range(1, WORLD)), "recv from any rank receives from each rank")
    else:
        dist.send(torch.full((1,), float(RANK)), 0)
    default = dist.distributed_c10d._get_default_group()
    default.monitored_barrier()
    if RANK == 0:
        said = raised(lambda: default.monitored_barrier(datetime.timedelta(milliseconds=200)))
        expect("Rank 1 failed to pass monitoredBarrier in 200 ms" in said, said)
    dist.barrier()  # no rank leaves before this barrier


def who_is_late_is_named():
    """A monitored barrier names any late rank on all ranks, and the group stays usable."""
    group = dist.distributed_c10d._get_default_group()
    short = datetime.timedelta(milliseconds=1500)
    for late in range(WORLD):
        dist.barrier()
        others = "gave up after 1500 ms" if RANK == late else f"rank {late} did not reach it within 1500 ms"
        if RANK == 0 != late:
            others = f"Rank {late} failed to pass monitoredBarrier in 1500 ms"
        if RANK == late:
            # The other ranks reach a separate barrier after they have given up; no rank waits for a fixed time.
            while not all(os.path.exists(mark(late, rank)) for rank in range(WORLD) if rank != late):
                time.sleep(0.01)
        said = raised(lambda: group.monitored_barrier(short))
        open(mark(late, RANK), "w").close()
        expect(others in said, said)
        expect((f"Rank {late} came late" in said) == (RANK == late), said)
        expect("The group can still be used" in said, said)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        expect(tensor[0] == WORLD, "a sum after the barrier")
        group.monitored_barrier()


def mark(late, rank):
    return os.path.join(sys.argv[2], f"{late}-{rank}")


def errors_of_a_group_name_the_ranks_of_the_job():
    group = dist.new_group([1, 2])
    if RANK == 0:
        return
    other = 3 - RANK
    theirs = f"ank {other} (rank {other - 1} of group "
    sparse = torch.sparse_coo_tensor([[0]], [1.0], (RANK,))
    said = raised(lambda: dist.all_reduce(sparse, group=group))
    expect(f"the sparse tensor of r{theirs}" in said, said)
    dist.barrier(group=group)
    if RANK == 1:
        said = raised(lambda: dist.monitored_barrier(group, datetime.timedelta(milliseconds=200)))
        expect(said.startswith("[Rank 1 (rank 0 of group ") and f"]: R{theirs}" in said, said)
        store = dist.HashStore()
        settings = rondo_torch.Settings()
        settings.group, settings.job_ranks = "alone", [1, 2]
        limit = datetime.timedelta(milliseconds=200)
        said = raised(lambda: rondo_torch.RondoBackend(store, 0, 2, limit, settings))
        expect("did not come within 200 ms: rank 2 (rank 1 of group alone)" in said, said)
        said = raised(lambda: rondo_torch.RondoBackend(store, 1, 2, limit, settings))
        expect("rank 1 (rank 0 of group alone) did not answer rank 2 (rank 1 of group alone)" in said, said)
    dist.barrier(group=group)
    tensor = torch.ones(RANK)  # the sizes differ
    said = raised(lambda: dist.all_reduce(tensor, group=group))
    for rank in (1, 2):
        expect(f"rank {rank} (rank {rank - 1} of group " in said, said)


def averages():
    """Averages are right if they fit their type, even if the sum does not."""
    for dtype, value in ((torch.float16, 40000), (torch.int8, 100), (torch.uint8, 250), (torch.int64, 2**62)):
        tensor = torch.full((5,), value, dtype=dtype)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        expect((tensor == value).all(), f"an average of {dtype}: {tensor}")


def fp32_accumulate():
    # 256 + 1 + 1 in bfloat16 stays 256; in float32, rounded once, it is 258.
    tensor = torch.full((5,), 256 if RANK == 0 else 1, dtype=torch.bfloat16)
    dist.all_reduce(tensor)
    expect((tensor == 258).all(), f"fp32_accumulate: {tensor}")


def wrong_calls():
    for words, call in (
        ("as large as this rank's output", lambda: dist.all_gather([torch.zeros(2)] * WORLD, torch.zeros(1))),
        ("does not reduce", lambda: dist.all_reduce(torch.zeros(1, dtype=torch.int16))),
        ("band", lambda: dist.all_reduce(torch.zeros(1), dist.ReduceOp.BAND)),
        ("represents zeros", lambda: dist.all_reduce(torch._efficientzerotensor((3,)))),
        ("represents zeros", lambda: dist.all_gather([torch._efficientzerotensor((3,))] * WORLD, torch.zeros(3))),
    ):
        said = raised(call)
        expect(words in said, f"'{words}' in '{said}'")
    dist.barrier()  # none of these calls has started an operation, or has broken anything
    # Ranks that disagree get an error that says what each of them called.
    said = raised(lambda: dist.all_reduce(torch.zeros(1 + RANK % 2)))
    expect("mismatch" in said and "x 1 " in said and "x 2 " in said, said)


def a_rank_dies():
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()

    def forever():
        while True:
            dist.all_reduce(tensor)

    said = raised(forever)
    expect("rank 1" in said and "peer_lost" in said and os.uname().nodename in said, said)
    expect(time.monotonic() - started < 20, "the error comes long before the timeout of half an hour")


def a_rank_dies_in_a_monitored_barrier():
    """All other ranks get the death in the first line of their error, long before the barrier's timeout."""
    dist.barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    group = dist.distributed_c10d._get_default_group()
    said = raised(lambda: group.monitored_barrier(datetime.timedelta(seconds=100))).splitlines()[0]
    expect("peer_lost" in said and "rank 1" in said and "logs" not in said, said)
    expect("The group has failed" in said, said)


def torn_apart_and_made_again():
    """Groups are made again on the same store: by a process that trains twice, and by ranks that torchrun restarts."""
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), WORLD, RANK == 0)
    for time_ in range(3):
        dist.init_process_group("rondo", store=dist.PrefixStore(str(time_), store), rank=RANK, world_size=WORLD)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        expect(tensor[0] == WORLD, f"time {time_}")
        dist.destroy_process_group()
    for time_ in range(3):
        if RANK == 1 and time_ > 0:
            time.sleep(0.3)  # rank 0 finds and answers what rank 1 left from the previous time
        settings = rondo_torch.Settings()
        again = rondo_torch.RondoBackend(store, RANK, WORLD, datetime.timedelta(seconds=60), settings)
        tensor = torch.ones(1)
        again.allreduce([tensor]).wait()
        expect(tensor[0] == WORLD, f"time {time_} on what the last time left")
        again.close()


def a_rank_is_missing():
    if RANK == 1:
        return
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    said = raised(lambda: rondo_torch.RondoBackend(store, 0, WORLD, datetime.timedelta(seconds=1), rondo_torch.Settings()))
    expect("Timed out" in said and f"some of the {WORLD} ranks did not come within 1000 ms: rank 1" in said, said)
    said = raised(lambda: rondo_torch.RondoBackend(store, 1, WORLD, datetime.timedelta(seconds=1), rondo_torch.Settings()))
    expect("rank 0 did not answer rank 1 within 1000 ms" in said, said)


def parts_of_complex_numbers():
    """Views that only record a conjugation or a sign are ordinary tensors, and are sent and received with their values."""
    views = {
        "negated": lambda z: torch._neg_view(z.real),
        "imaginary part of the conjugate": lambda z: z.conj().imag,
        "real part of the conjugate": lambda z: z.conj().real,
        "conjugate": lambda z: z.conj(),
        "negated conjugate": lambda z: torch._neg_view(z.conj()),
    }
    for length, (name, view) in itertools.product((1, 3), views.items()):

        def made(rank, length=length, view=view):
            return view(torch.tensor([1 + 2j, 3 - 1j, 2j])[:length] * (rank + 1))

        def right(what, got, wanted, name=name):
            expect(torch.equal(got.clone(), wanted.clone()), f"{what} of the {name}: {got.tolist()}, not {wanted.tolist()}")

        def goes(call, *tensors):
            """torch itself refuses conjugated tensors in some calls, on all ranks alike."""
            try:
                call(*tensors)
            except RuntimeError as error:
                expect(made(0).is_conj() and "view_as_real" in str(error), error)
                return False
            return True

        tensor, total = made(RANK), sum(made(rank) for rank in range(WORLD))
        if goes(dist.reduce, tensor, 0) and RANK == 0:
            right("reduce", tensor, total)
        tensor = made(RANK)
        if goes(dist.broadcast, tensor, 1):
            right("broadcast", tensor, made(1))
        tensor = made(RANK)
        if goes(dist.all_reduce, tensor):
            right("all_reduce", tensor, total)
        tensors = [made(9) for _ in range(WORLD)]
        if goes(dist.all_gather, tensors, made(RANK)):
            for rank, one in enumerate(tensors):
                right("all_gather", one, made(rank))
        tensors = [made(9) for _ in range(WORLD)]
        if goes(dist.all_to_all, tensors, [made(RANK) for _ in range(WORLD)]):
            for rank, one in enumerate(tensors):
                right("all_to_all", one, made(rank))
        tensor = made(9)
        if RANK == 0:
            goes(dist.send, made(0), 1)
        elif RANK == 1 and goes(dist.recv, tensor, 0):
            right("a message", tensor, made(0))
    # Groups of other backends get the tensors from torch that are no views.
    dist.all_reduce(torch._neg_view(torch.ones(3)), group=dist.new_group(backend="gloo"))
    gathered = [torch.ones(3) for _ in range(WORLD)]
    dist.all_gather(gathered, torch._efficientzerotensor((3,)))
    expect(all((one == 0).all() for one in gathered), "zeros that have no memory")
    values = torch._neg_view(torch.tensor([-1.0, -2.0]))
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), values, (3,))
    dist.all_reduce(sparse)
    expect(sparse.to_dense().tolist() == [WORLD, 0, 2 * WORLD], f"a sum of sparse tensors: {sparse}")


def a_rank_leaves_early():
    """A rank that destroys its group does not wait for others, and they get what it has sent."""
    store = dist.distributed_c10d._get_default_store()
    tensor = torch.full((3,), 1.0)
    # A first message as well: both ranks must make a lane, and later rank 1 will not be there.
    if RANK == 0:
        dist.send(tensor, 1)
    elif RANK == 1:
        dist.recv(tensor, 0)
    dist.all_reduce(tensor)
    if RANK == 0:
        dist.send(tensor, 1)
        never = torch.zeros(1)
        unanswered = dist.irecv(never, 1, tag=9)
        started = time.monotonic()
        dist.destroy_process_group()
        expect(time.monotonic() - started < 5, "it waits for no rank")
        expect("closed" in raised(unanswered.wait), "a receive that nothing has come for is given up")
        store.set("gone", "yes")
        store.wait(["all have ended"], datetime.timedelta(seconds=60))
        return
    store.wait(["gone"], datetime.timedelta(seconds=60))
    if RANK == 1:
        dist.recv(tensor, 0)
        expect((tensor == WORLD).all(), "what it has sent")
    said = raised(lambda: dist.all_reduce(tensor))
    expect("closed" in said and "rank 0" in said, said)
    if store.add("ended", 1) == WORLD - 1:
        store.set("all have ended", "yes")


def very_long_times():
    longest = datetime.timedelta.max
    dist.init_process_group("rondo", init_method="rondo://", timeout=longest)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    dist.all_reduce(tensor, group=dist.new_group(timeout=longest))
    expect(tensor[0] == WORLD * WORLD, "sums without a limit")
    work = dist.all_reduce(tensor, async_op=True)
    expect("above 0" in raised(lambda: work.wait(datetime.timedelta(seconds=-1))), "a time below 0")
    work.wait(datetime.timedelta(days=100_000))
    group = dist.distributed_c10d._get_default_group()
    group.monitored_barrier(longest)
    expect("above 0" in raised(lambda: group.monitored_barrier(datetime.timedelta(0))), "a barrier of no time")
    options = dist.AllreduceOptions()
    options.timeout = longest
    group.allreduce([tensor], options).wait()
    dist.all_reduce(tensor, async_op=True).wait(longest)
    dist.destroy_process_group()
    for time_, words in (
        (float("inf"), "finite"),
        (float("nan"), "finite"),
        (datetime.timedelta(0), "above 0"),
        (datetime.timedelta(days=-1), "above 0"),
        ("soon", "'soon'"),
    ):
        said = raised(lambda t=time_: rondo_torch.RondoBackend(dist.HashStore(), 0, 1, t, rondo_torch.Settings()))
        expect(words in said, said)
    for time_ in (longest, 1e300, 50):
        rondo_torch.RondoBackend(dist.HashStore(), 0, 1, time_, rondo_torch.Settings()).close()


def two_groups_at_once():
    """Two threads make groups under one name, so it is unknown which ranks belong together."""
    if RANK == 1:
        return
    store = dist.HashStore()
    said = []

    def make():
        limit = datetime.timedelta(seconds=100)
        of_thread = dist.PrefixStore("group", dist.PrefixStore("outer", store))
        said.append(raised(lambda: rondo_torch.RondoBackend(of_thread, 0, WORLD, limit, rondo_torch.Settings())))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(len(said) == 2 and all("two threads make groups at once" in one for one in said), said)


def two_groups_of_torch_at_once():
    """While one thread makes a group that rank 1 does not join, another thread can make none."""
    if RANK == 1:
        return
    said, limit = [], datetime.timedelta(seconds=3)

    def make():
        said.append(raised(lambda: rondo_torch._create(dist.PrefixStore(str(len(said)), dist.HashStore()), 0, WORLD, limit)))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(len(said) == 2 and all("two threads of this process made groups at once" in one for one in said), said)
    said = raised(lambda: rondo_torch._create(dist.HashStore(), 0, WORLD, datetime.timedelta(milliseconds=1)))
    expect("Timed out" in said, f"one after the other: {said}")


def a_file_is_gone():
    """The file of the rendezvous: a group that is made later says so."""
    path = f"{tempfile.gettempdir()}/rondo-{os.environ['MASTER_PORT']}-{os.environ['MASTER_ADDR']}"
    dist.init_process_group("rondo", init_method=f"file://{path}", rank=RANK, world_size=WORLD)
    dist.barrier()
    if RANK == 0:
        os.unlink(path)
    dist.barrier()
    said = raised(dist.new_group)
    expect(path in said and "was removed" in said, said)
    dist.barrier()
    dist.destroy_process_group()


def ends_without_destroying():
    """A script that ends without destroying its group has sent everything that other ranks wait for."""
    dist.init_process_group("rondo")
    tensor = torch.full((1_000_000,), float(RANK))
    dist.broadcast(tensor, 0)
    print("last value", tensor[-1].item())


what = sys.argv[1]
if what not in ("torn_apart_and_made_again", "ends_without_destroying", "a_rank_is_missing", "very_long_times", "two_groups_at_once",
                "two_groups_of_torch_at_once", "a_file_is_gone"):  # fmt: skip
    dist.init_process_group("rondo")
globals()[what]()
if what in ("works", "autograd", "forked", "groups", "parts_of_complex_numbers"):
    dist.destroy_process_group()
