"""Stores that are lost, full, read-only, stale, cut or removed (faults 20, 21 and 22)."""

import os
import subprocess
import time

from commands import Skipped
from stage import case


@case(20, paths=("tcp",))
def the_store_dies_before_any_rank_comes(stage):
    store, url = stage.tcp_store()
    store.kill()
    stage.fire(1, "its end")
    ranks = stage.job("connect sums:1", ranks=2, url=url, timeout=2)
    for rank in ranks:
        rank.awaits_inside(1)
    stage.failed(ranks, "unreachable", since_ns=time.monotonic_ns(), within_s=2, says=(url.removeprefix("tcp://"),))
    stage.clean(ranks)
    stage.others.remove(store)
    stage.new_job(2)


@case(20, paths=("tcp",))
def the_store_dies_during_the_rendezvous(stage):
    store, url = stage.tcp_store()
    ranks = stage.job("connect sums:1", "connect sums:1", "hold:last connect sums:1", url=url, timeout=4)
    for rank in ranks[:2]:
        rank.awaits_inside(1, at_least_s=0.3)
    killed = time.monotonic_ns()
    store.kill()
    stage.fire(1, "its end")
    errors = stage.failed(ranks[:2], "store_lost", since_ns=killed, within_s=4, says=(url.removeprefix("tcp://"),))
    stage.expect(max(error["ns"] for error in errors) - killed < 3e9, "reported at the deadline, not when the connection ended")
    stage.release("last")
    stage.failed(ranks[2:], "unreachable", says=(url.removeprefix("tcp://"),))
    stage.clean(ranks)
    stage.others.remove(store)
    stage.new_job(3)


@case(20)
def the_store_dies_after_the_rendezvous(stage):
    """Operations no longer need it. Only a rebuild does, and fails with that reason."""
    store, url = stage.tcp_store()
    ranks = stage.job("connect sums:3 hold:on sums:20 rebuild recover after", ranks=3, url=url, timeout=5)
    for rank in ranks:
        rank.awaits("held")
    store.kill()
    stage.fire(1, "its end")
    stage.release("on")
    for rank in ranks:
        rank.awaits("summed", sums=23)
    stage.outcome("correct", 3)
    stage.failed(ranks, "rebuild_failed", step="rebuild", says=("store_lost",))
    stage.clean(ranks)
    stage.others.remove(store)
    stage.new_job(3)


@case(21, paths=("tcp",))
def the_store_stands_still_for_a_while(stage):
    store, url = stage.tcp_store()
    ranks = stage.job("connect sums:3 close", "hold:last connect sums:3 close", url=url, timeout=20)
    ranks[0].awaits_inside(1, at_least_s=0.1)
    os.kill(store.process.pid, 19)
    stage.release("last")
    ranks[1].awaits_inside(2, at_least_s=1)
    stage.fire(1, "the ranks wait for it")
    os.kill(store.process.pid, 18)
    stage.clean(ranks)
    stage.expect(all(rank.said("closed") for rank in ranks), "not all came through")
    stage.outcome("correct", 2)


def small_disk(stage):
    """A file system of 64 KiB that is the case's own."""
    folder = stage.folder / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, text=True,
                          check=False)
    if made.returncode != 0:
        raise Skipped(f"a file system of the case's own cannot be mounted: {made.stderr.strip()}")
    stage.mounts.append(lambda: subprocess.run(["umount", "-l", str(folder)], check=False))
    return folder


@case(22, paths=("tcp",))
def the_disk_of_the_file_store_is_full(stage):
    folder = small_disk(stage)
    url = f"file://{folder}/store"
    with open(folder / "filler", "wb") as filler:
        filler.write(b"x" * 65536)
    ranks = stage.job("connect sums:1", ranks=2, url=url, timeout=5)
    stage.failed(ranks, "store_io", since_ns=time.monotonic_ns(), within_s=5, says=(f"{folder}/store", "No space left"))
    stage.fire(1, "no room")
    stage.clean(ranks, cpu_s=1)
    (folder / "filler").unlink()
    stage.new_job(2, url=url)


@case(22, paths=("tcp",))
def the_file_store_cannot_be_written(stage):
    folder = small_disk(stage)
    url = f"file://{folder}/store"
    if subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=False).returncode != 0:
        raise Skipped("the file system of the case's own cannot be made read-only")
    ranks = stage.job("connect sums:1", ranks=2, url=url, timeout=5)
    stage.failed(ranks, "store_io", since_ns=time.monotonic_ns(), within_s=5, says=(f"{folder}/store", "Read-only"))
    stage.fire(1, "read-only")
    stage.clean(ranks, cpu_s=1)
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
    stage.new_job(2, url=url)


@case(22, paths=("tcp",))
def the_file_store_is_another_jobs(stage):
    """While the other one lives. Afterwards the file starts again."""
    other = stage.rank(0, 1, "connect hold:over close", job="other")
    other.awaits("held")
    ranks = stage.job("connect sums:1", ranks=2, generation=3, timeout=5)
    stage.failed(ranks, "stale", since_ns=time.monotonic_ns(), within_s=5, says=(f"{stage.folder}/store",))
    stage.fire(1, "it is held")
    stage.release("over")
    stage.clean([other, *ranks])
    stage.new_job(2, url=stage.file_store())


def hurt_during_the_rendezvous(stage, hurt, says):
    ranks = stage.job("connect sums:1", "hold:last connect sums:1", timeout=3)
    ranks[0].awaits_inside(1, at_least_s=0.2)
    hurt(stage.folder / "store")
    stage.fire(1, "the file was hurt")
    stage.failed(ranks[:1], "store_io", since_ns=time.monotonic_ns(), within_s=3, says=(f"{stage.folder}/store", *says))
    stage.release("last")
    stage.failed(ranks[1:], ("store_io", "rendezvous_timeout", "stale"))
    stage.clean(ranks, cpu_s=1)
    stage.new_job(2)


@case(22, paths=("tcp",))
def the_file_store_is_cut_during_the_rendezvous(stage):
    hurt_during_the_rendezvous(stage, lambda path: os.truncate(path, 10), ())


@case(22, paths=("tcp",))
def the_file_store_is_removed_during_the_rendezvous(stage):
    hurt_during_the_rendezvous(stage, os.unlink, ())
