"""Ranks that do not make the same calls (fault 18): all of them get an error that names what each one called."""

import time

from stage import case

SAME = "all_reduce:1000:int64:sum:0"
# The script of most ranks, that of the rank that differs, and words of both calls that every error must contain.
KINDS = {
    "count": (f"call:{SAME}", "call:all_reduce:999:int64:sum:0", ("x 1000", "x 999")),
    "type": (f"call:{SAME}", "call:all_reduce:1000:uint64:sum:0", (" int64", " uint64")),
    "operation": (f"call:{SAME}", "call:all_reduce:1000:int64:max:0", ("sum", "max")),
    # A root has finished when its data was sent. Then it gets the error in its next call, the others in this call.
    "root": ("call:broadcast:1000:int64:sum:0 barrier", "call:broadcast:1000:int64:sum:1 barrier", ("broadcast",)),
    "collective": (f"call:{SAME}", "call:all_gather:1000:int64:sum:0", ("all_reduce", "all_gather")),
    "order": (f"call:{SAME} barrier", f"barrier call:{SAME}", ("all_reduce", "barrier")),
}


def disagree(stage, kind):
    usual, other, words = KINDS[kind]
    for one in (0, 1):  # the rank that differs
        scripts = [f"connect sums:2 hold:on{one} {other if rank == one else usual}" for rank in range(3)]
        ranks = stage.job(*scripts, url=f"file://{stage.folder}/store{one}", deadline=20)
        for rank in ranks:
            rank.awaits("held")
        stage.release(f"on{one}")
        stage.failed(ranks, "mismatch", since_ns=time.monotonic_ns(), within_s=20, alike=False, says=words)
        stage.fire(1, "two calls")
        stage.clean(ranks)
    stage.new_job(3)


@case(18)
def ranks_disagree_about_the_count(stage):
    disagree(stage, "count")


@case(18)
def ranks_disagree_about_the_type(stage):
    disagree(stage, "type")


@case(18)
def ranks_disagree_about_the_operation(stage):
    disagree(stage, "operation")


@case(18)
def ranks_disagree_about_the_root(stage):
    disagree(stage, "root")


@case(18)
def ranks_disagree_about_the_collective(stage):
    disagree(stage, "collective")


@case(18)
def ranks_disagree_about_the_order(stage):
    disagree(stage, "order")
