"""Tensors on a GPU: what waits for what, whose memory is whose, and how failures are reported.

    on_device.py cuda | fake  WHAT          memory() is the fake device's alone
"""

import datetime
import os
import signal
import sys
import time

import rondo_torch
import torch
import torch.distributed as dist
from checks import RANK, WORLD, expect, raised
from devices import Device

SUM = WORLD * (WORLD + 1) // 2
device = Device(sys.argv[1])


def full(size, value):
    return torch.full((size,), float(value), device=device.torch)


def expect_all(tensor, value, what):
    expect(torch.equal(tensor.cpu(), torch.full(tensor.shape, float(value))), f"{what}: {value}, not {tensor.cpu()}")


def streams():
    source, result, tensor, other = full(100_000, RANK + 1), full(100_000, 0), full(100_000, 0), full(100_000, -1)
    dist.all_reduce(full(1, 0))  # the first operation loads kernels and pins memory, for which the driver may wait
    with device.stream():
        device.synchronize()
        with device.busy():
            tensor.copy_(source)  # runs before the operation
            work = dist.all_reduce(tensor, async_op=True)
            work.wait()
            result.copy_(tensor)  # runs after the operation
            tensor.copy_(other)
            time.sleep(0.3)
            expect(not work.is_completed(), "nothing has begun, and the caller came to here")
        device.synchronize()
        expect_all(result, SUM, "what the stream did after the operation")
        expect_all(tensor, -1, "what it did at last")
        expect(work.is_completed(), "the work is over")

    # A stream waits for an operation only after wait().
    tensor.copy_(source)
    device.synchronize()
    if RANK == 0:
        work = dist.all_reduce(tensor, async_op=True)
        result.copy_(other)
        device.synchronize()
        expect(not work.is_completed(), "rank 0's stream is not held up by rank 1, who comes later")
        dist.distributed_c10d._get_default_group().monitored_barrier()
    else:
        dist.distributed_c10d._get_default_group().monitored_barrier()
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    expect_all(tensor, SUM, "a sum that ranks came to at different times")

    # wait() with a timeout blocks the host.
    if RANK == 0:
        work = dist.all_reduce(tensor, async_op=True)
        said = raised(lambda: work.wait(datetime.timedelta(milliseconds=100)))
        expect("did not end within 100 ms" in said, said)
        dist.distributed_c10d._get_default_group().monitored_barrier()
    else:
        dist.distributed_c10d._get_default_group().monitored_barrier()
        work = dist.all_reduce(tensor, async_op=True)
    work.wait(datetime.timedelta(seconds=60))
    expect(work.is_completed(), "the work is over when wait() with a time is")
    expect_all(tensor, SUM * WORLD, "that sum")


def futures():
    work = dist.all_reduce(full(1000, RANK + 1), async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] * 2)
    expect_all(future.wait(), SUM * 2, "what hangs on a future")

    def again(done):
        value = done.value()[0]
        dist.all_reduce(value)
        return value

    expect_all(dist.all_reduce(full(3, 1), async_op=True).get_future().then(again).wait(), WORLD * WORLD, "a nested sum")
    many = [dist.all_reduce(full(10, 1), async_op=True) for _ in range(200)]
    for work in many:
        work.wait()
        expect_all(work.result()[0], WORLD, "one of many")
    host = torch.ones(10)
    dist.all_reduce(host)  # in the same group
    expect_all(host, WORLD, "a sum in the host's memory")
    dist.barrier()


def memory():
    """Memory that the backend's stream still uses is not reused, although the operation is over and the program has dropped it."""
    made = []
    new_stream = rondo_torch._new_stream
    rondo_torch._new_stream = lambda index: made.append(new_stream(index)) or made[-1]
    dist.all_reduce(full(1, 0))
    (side, _), filler = made[0], full(5000, -7)
    wide = torch.zeros((5000, 3), device=device.torch)
    wide[:, 1].copy_(full(5000, RANK))
    device.fake.hold(side)
    work = dist.all_reduce(wide[:, 1], async_op=True)
    thieves = []
    # Does the side stream's work piece by piece. When the operation has ended, its packed result has not been copied
    # back yet.
    with device.stream():
        while device.fake.pending(side) > 0:
            device.fake.step(side)
            time.sleep(0.05)
            thieves.append(torch.empty(5000, device=device.torch))  # has the same size
            thieves[-1].copy_(filler)
            device.synchronize()
    device.fake.release(side)
    work.wait()
    expect(len(thieves) > 2, f"there were some pieces, not {len(thieves)}")
    expect_all(wide[:, 1], WORLD * (WORLD - 1) // 2, "the sum")
    expect_all(wide[:, 2], 0, "what lies beside")


def no_stream_waits():
    """No stream waits, not even the backend's own, and copied results are complete nevertheless."""
    made = []
    new_stream = rondo_torch._new_stream
    rondo_torch._new_stream = lambda index: made.append(new_stream(index)) or made[-1]
    wide = full(3000, RANK + 1).reshape(1000, 3)
    dist.all_reduce(full(1, 0))
    (side, _) = made[0]
    group = dist.distributed_c10d._get_default_group()
    if RANK == 0:
        work = dist.all_reduce(wide[:, 1], async_op=True)
        time.sleep(0.3)
        expect(device.fake.pending(side) == 0 and not work.is_completed(), "the operation is under way, and its stream is idle")
        group.monitored_barrier()
    else:
        group.monitored_barrier()
        work = dist.all_reduce(wide[:, 1], async_op=True)
    work.wait()
    expect_all(wide[:, 1], SUM, "the sum")
    expect_all(wide[:, 2], RANK + 1, "what lies beside")


def many_groups():
    """torch returns a few streams in turn. Each group has its own while there are enough."""
    made = []
    new_stream = rondo_torch._new_stream
    rondo_torch._new_stream = lambda index: made.append(new_stream(index)) or made[-1]
    for _ in range(5):
        torch.cuda.Stream(device.torch)  # a stream of other code
        group, tensor = dist.new_group(), full(1000, RANK + 1)
        dist.all_reduce(tensor, group=group)
        expect_all(tensor, SUM, "a sum in one of many groups")
    expect(len({handle for _, handle in made}) == len(made) == 5, f"streams of five groups: {made}")


def neighbours():
    """Adjacent tensors in separate allocations are not treated as one."""
    size = (16 << 20 if device.fake is None else 1 << 20) // 4  # tensors of this size have separate allocations
    made = {tensor.data_ptr(): tensor for tensor in [full(size, 0) for _ in range(16)]}
    rows = [[made.get(first + 4 * size * i) for i in range(WORLD)] for first in made]
    found = [row for row in rows if all(tensor is not None for tensor in row)]
    if device.fake is not None:
        expect(found, f"no {WORLD} of sixteen lie behind each other")
    row = found[0] if found else list(made.values())[:WORLD]
    for number, tensor in enumerate(row):
        tensor.fill_((RANK + 1) * 10**number)
    dist.all_reduce_coalesced(row)
    for number, tensor in enumerate(row):
        expect_all(tensor, SUM * 10**number, f"tensor {number} of the row")
    dist.all_gather(row, full(size, RANK))
    for rank, tensor in enumerate(row):
        expect_all(tensor, rank, f"what rank {rank} gave")


def graphs():
    with device.stream():
        total, most, shared = full(5000, RANK + 1), full(100, RANK), full(70_000, RANK)
        given, taken = full(10 * WORLD, RANK), full(10 * WORLD, -1)
        early = full(30, RANK + 1).reshape(10, 3)
        device.synchronize()
        # The result is copied back later; no call has waited for it.
        earlier = dist.all_reduce(early[:, 1], async_op=True)
        message = full(1000, -1)
        receiving = dist.irecv(message, (RANK + WORLD - 1) % WORLD)
        with device.graph() as graph:
            dist.send(torch.full((1000,), float(RANK)), (RANK + 1) % WORLD)
            until = time.monotonic() + 30
            while not receiving.get_future().done():  # another thread copies it to the device
                expect(time.monotonic() < until, "the message comes while this is captured")
            dist.all_reduce(total)
            work = dist.all_reduce(most, op=dist.ReduceOp.MAX, async_op=True)
            dist.broadcast(shared, src=1)
            dist.all_to_all_single(taken, given)
            said = raised(lambda: dist.all_to_all_single(taken, given, [10] * WORLD, [10] * WORLD))
            expect("cannot be captured into a graph" in said, said)  # the capture continues
            work.wait()
        earlier.wait()
        expect_all(early[:, 1], SUM, "what is not captured has been")
        receiving.wait()
        expect_all(message, (RANK + WORLD - 1) % WORLD, "a message that came meanwhile")
        expect_all(total, RANK + 1, "what is captured has not been done")
        for times in range(3):
            graph.replay()
            device.synchronize()
            expect_all(total, SUM * WORLD**times, f"a sum at launch {times + 1}")
        expect_all(most, WORLD - 1, "a maximum")
        expect_all(shared, 1, "a broadcast")
        for rank in range(WORLD):
            expect_all(taken[10 * rank :][:10], rank, f"a block of rank {rank}")
        rondo_torch.backend_of().check()
        dist.all_reduce(total)  # without a graph, as before
        expect_all(total, SUM * WORLD**3, "a sum after all launches")


def graphs_that_differ():
    with device.stream():
        tensor = full(1000, 1)
        with device.graph() as first:
            dist.all_reduce(tensor)
        with device.graph() as second:
            dist.all_reduce(tensor)
        (second if RANK == 1 else first).replay()
        device.synchronize()
        said = raised(rondo_torch.backend_of().check)
        expect("the ranks launch different graphs" in said, said)
        expect_all(tensor, 1, "nothing has been done")


def kernels_are_loaded():
    """The first launch of a kernel may wait for all streams, and blocks other calls of the driver meanwhile."""
    tensor = full(1000, RANK + 1)
    new = (torch.special.bessel_j0, torch.special.entr, torch.erfinv, torch.lgamma, torch.special.i1e)
    for kernel in new:
        if RANK == 1:
            time.sleep(0.3)
        work = dist.all_reduce(tensor, async_op=True)
        kernel(full(10, 0.5))
        work.wait()
    expect_all(tensor, SUM * WORLD ** (len(new) - 1), "the last of the sums")


def messages():
    after, before = (RANK + 1) % WORLD, (RANK + WORLD - 1) % WORLD
    with device.stream():
        tensor, received = full(1000, 1), full(1000, 0)
        if RANK == 1:
            sending = dist.isend(full(1000, RANK), after)
            time.sleep(0.5)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        # The message from rank 1 arrives while the stream still waits for the sum, for which rank 1 is late.
        receiving = dist.irecv(received, before)
        if RANK != 1:
            sending = dist.isend(full(1000, RANK), after)
        receiving.wait()
        sending.wait()
        expect_all(received, before, "a message")
        expect_all(tensor, WORLD, "the sum")
    received.requires_grad_()
    if RANK == 0:
        sources = set()
        for _ in range(1, WORLD):
            source = dist.recv(received)
            expect_all(received, source, "recv from any rank")
            sources.add(source)
        expect(sources == set(range(1, WORLD)), "recv from any rank receives from each rank")
    else:
        dist.send(full(1000, RANK), 0)


def wrong_calls():
    mixed = [torch.zeros(1, device="cpu" if rank == 0 else device.torch) for rank in range(WORLD)]
    said = raised(lambda: dist.all_gather([torch.zeros(1)] * WORLD, full(1, 0)))
    expect("cpu" in said and "cuda:0" in said, said)
    said = raised(lambda: dist.all_reduce_coalesced(mixed))
    expect("cpu" in said and "cuda:0" in said, said)
    dist.barrier()  # none of these calls has started an operation
    # Ranks that disagree get an error.
    tensor = full(1, 0) if RANK == 0 else torch.zeros(1)
    said = raised(lambda: dist.all_reduce(tensor, async_op=True).wait(datetime.timedelta(seconds=60)))
    expect("mismatch" in said and "device" in said, said)


def a_rank_dies():
    tensor = full(1000, 1)
    dist.all_reduce(tensor)
    device.synchronize()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()

    def forever():
        while True:
            dist.all_reduce(tensor)
            device.synchronize()  # no stream waits for the dead rank

    said = raised(forever)
    expect("rank 1" in said and "peer_lost" in said and os.uname().nodename in said, said)
    expect(time.monotonic() - started < 20, "the error comes long before the timeout of half an hour")


def a_rank_dies_and_a_waiting_rank_fails():
    tensor = full(1000, 1)
    dist.all_reduce(tensor)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(tensor, async_op=True)
    said = raised(work.wait)
    expect("rank 1" in said and "peer_lost" in said, said)


dist.init_process_group("rondo")
globals()[sys.argv[2]]()
if "dies" not in sys.argv[2] and sys.argv[2] not in ("wrong_calls", "graphs_that_differ"):
    dist.destroy_process_group()
expect(rondo_torch.version() == "0.1.0", "its version")
