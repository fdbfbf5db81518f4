"""The faults that Rondo is held to, what must come of each, and where one cannot be staged: the data of tests/faults/table.

A layer is where a fault is staged: "simulation", whole jobs on virtual time; "sockets", communicators, transports and
stores in one process over real sockets (behind a proxy), files and in-process lanes; "processes", real ones.
"""

from dataclasses import dataclass, field

LAYERS = ("simulation", "sockets", "processes")


@dataclass(frozen=True)
class Fault:
    number: int
    name: str
    required: str  # the required outcome of every survivor, within the deadline plus one second; "correct": the right result, bit by bit
    reasons: dict = field(default_factory=dict)  # why a layer does not test the fault, by layer


def same(reason, *layers):
    return {layer: reason for layer in layers or LAYERS}


DISAGREE = "ranks of a scenario agree; disagreements are staged in the rendezvous and among communicators"
NO_LIMITS = "virtual machines run out of nothing"
NO_VERBS = "verbs are real in the emulated machine, where ranks are processes"
THREADS = "ranks are threads here, and cannot be killed, stopped or signalled alone"
OF_THE_PROXY = "bytes on their way are changed by the proxy and by fault plans, in one process"

FAULTS = [
    Fault(1, "a rank is killed", "peer_lost, naming it, in milliseconds"),
    Fault(2, "two ranks die, or one during recovery", "an error, then a rebuild without them, or rebuild_failed", same(THREADS, "sockets")),
    Fault(3, "a rank stopped for less than the deadline", "correct", same(THREADS, "sockets")),
    Fault(4, "a rank stopped for longer", "timeout naming it; it gets stale when it wakes up", same(THREADS, "sockets")),
    Fault(5, "alive, but stuck outside of Rondo", "timeout: connected, and silent since when",
          {"simulation": "to the others a fiber that is stuck is one that is stopped (4)"}),
    Fault(6, "a black hole, one way or both", "timeout or unreachable; correct if it heals in time",
          same("a process cannot lose packets without harm to others; the proxy and the simulation can", "processes")),
    Fault(7, "half open: the other host is switched off", "peer_lost by keepalive",
          {"simulation": "to the others a host that is switched off is one behind a partition (14)",
           **same("no host to switch off; the kernel's keepalive ends the connection, of which a black hole (6) shows the rest",
                  "sockets", "processes")}),
    Fault(8, "a connection is reset, or ends, mid-frame", "connection_reset with bytes done of due", same(OF_THE_PROXY, "processes")),
    Fault(9, "bits flipped in a payload", "corrupt with checksums; documented as unnoticed without", same(OF_THE_PROXY, "processes")),
    Fault(10, "bits flipped in a header", "protocol, mismatch or corrupt; no length is believed", same(OF_THE_PROXY, "processes")),
    Fault(11, "frames cut short, doubled, in another order", "a typed error",
          {"simulation": "lanes are streams; what ends them early is a cut (8)", **same(OF_THE_PROXY, "processes")}),
    Fault(12, "short reads and writes, slices of one byte", "correct", same(OF_THE_PROXY, "processes")),
    Fault(13, "slow links, jitter, loss", "correct inside the deadline, else timeout with the rate",
          same("a link is slowed by the proxy; between hosts by tools/dev/lab", "processes")),
    Fault(14, "a partition", "both sides fail, at most one goes on", same("of the proxy and the simulation", "processes")),
    Fault(15, "one rank twice", "duplicate_rank on all", same(DISAGREE, "simulation")),
    Fault(16, "wrong world size; a rank that never comes", "world_size_mismatch; rendezvous_timeout", same(DISAGREE, "simulation")),
    Fault(17, "a rank again after a crash: same port, same id", "stale or duplicate_rank; welcome in a new generation",
          same("generations that call each other are among the foreign clients (23) of a scenario", "simulation")),
    Fault(18, "other count, type, operation, root, order", "mismatch with both sides, on all", same(DISAGREE, "simulation")),
    Fault(19, "other version or configuration", "version_mismatch with field and values", same(DISAGREE, "simulation")),
    Fault(20, "the store dies", "store_lost or unreachable before the rendezvous's end; nothing after"),
    Fault(21, "the store is slow, partial, or stalls a key", "correct in time, else store_timeout naming the key"),
    Fault(22, "a file store's disk is full, its file stale, cut, gone", "store_io or stale, with the path",
          same("scenarios have no file store", "simulation")),
    Fault(23, "foreign clients at the ports", "correct; counted, bounded, unanswered"),
    Fault(24, "no listener, or a late one, or one at a wrong address", "correct after retries, else every address and why",
          same("a scenario has no addresses", "simulation")),
    Fault(25, "the port is taken, or was a moment ago", "address_in_use at once; correct", same("a scenario has no ports", "simulation")),
    Fault(26, "no descriptors left", "resource with need and limit; no spin", same(NO_LIMITS, "simulation")),
    Fault(27, "no memory left", "out_of_memory here, reported to the others",
          {"simulation": NO_LIMITS, "processes": "its own allocator fails in the process that stages it: ranks are threads"}),
    Fault(28, "memory cannot be locked or registered", "resource naming the limit", {"simulation": NO_LIMITS}),
    Fault(29, "shared memory is full, absent, left over", "sockets serve instead, or an error; no SIGBUS",
          {"simulation": "scenarios have no shared memory", **same("ranks that are threads cannot die in it alone", "sockets")}),
    Fault(30, "no thread or event descriptor can be made", "resource",
          {"simulation": NO_LIMITS, **same("a limit of threads is a process's or a user's", "sockets")}),
    Fault(31, "the wall clock jumps, the machine is suspended", "nothing; at most one timeout",
          {"simulation": "there is no wall clock; a machine that is suspended is one that is stopped (3, 4)",
           **same("the library takes a clock; what the machine's does is staged on processes", "sockets")}),
    Fault(32, "Abort from anywhere, twice", "aborted here, peer_aborted elsewhere", same("what a rank gives up is part of every scenario that fails, not staged", "simulation")),
    Fault(33, "destroyed with operations in flight; a callback throws", "no terminate; reported to the others",
          same("communicators of scenarios end in order", "simulation")),
    Fault(34, "fork in the application", "correct; the child touches nothing", same("a scenario is one process", "simulation")),
    Fault(35, "SIGPIPE, SIGINT, SIGTERM", "no death by SIGPIPE", {"simulation": "a scenario has no signals", **same(THREADS, "sockets")}),
    Fault(36, "InfiniBand: link, port, queue pair", "a decoded error, or failover", {"simulation": "a scenario has no adapters", "sockets": NO_VERBS}),
    Fault(37, "a device: kernel fault, late stream", "an error of the device, naming the rank; late: timeout", {"simulation": "a scenario has no devices"}),
    Fault(38, "TLS: wrong or expired certificate, plaintext peer", "an error of access that says why",
          {"simulation": "a scenario has no TLS", "processes": "a handshake is a connection's; ranks are threads"}),
    Fault(39, "soak: everything at random, for long", "nothing grows, every result right",
          same("what grows is a process's: tests/faults/processes/soak", "sockets")),
]

# The names in `rondo chaos --json` for the only fault of a scenario.
FAULTS_OF_KIND = {
    "kill": [1], "two_kills": [2], "short_pause": [3], "pause": [4], "one_way": [6], "partition": [6, 14], "cut_lane": [8],
    "cut_control": [8], "flip_payload": [9], "flip_header": [10], "delays": [12, 13], "store_kill": [20], "store_cut": [20],
    "store_pause": [21], "store_stall": [21], "foreign_client": [23],
}

# Tests that write rows (tests/support/fault_row.h), with their arguments.
ROW_TESTS = {
    "sockets": [
        "tests/faults/lanes/lanes_test", "tests/faults/sockets/sockets_test", "tests/rendezvous/rendezvous_test", "tests/transport_tcp/transport_tcp_test",
        "tests/communicator/communicator_test --source-file-exclude=*/rebuild_processes_test.cc",
        "tests/transport_ib/transport_ib_test",
        "tests/faults/processes/out_of_memory --every 97",
    ],
    "processes": [
        "tests/communicator/communicator_test --source-file=*/rebuild_processes_test.cc",
        "tests/transport_shm/transport_shm_test --source-file=*/crash_test.cc",
    ],
}

# Tests in tests/vm that write rows, by parts of their names.
ROW_TESTS_OF_VM = ("may_not_be_locked", "a_killed_rank_a_port_that_goes_down", "lanes_go_on_by_the_next_port")
