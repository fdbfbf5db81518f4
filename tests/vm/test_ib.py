"""transport/ib on real verbs: in the emulated machine, between its two soft-RoCE devices.

Each test boots a guest of its own and brings programs that Bazel built before (bazel-bin).
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TIMES = int(os.environ.get("RONDO_TIMES", "1"))  # how many times as long the sweeps over random moments are
PATIENCE_S = 900 * TIMES  # for a slow and busy machine; an idle one needs a tenth of it
OUT_OF_TIME = 124
RONDO = "bazel-bin/tools/rondo:/usr/bin/rondo"
BOTH = "--transport ib --ib-dev rxe0,rxe1"
# Changes the network while the ranks are stopped and their devices idle. If an interface goes down between two packets,
# soft-RoCE of Linux 6.1 may lock up a processor permanently, or never complete anything again.
QUIETLY = """
    ranks() { cat /proc/$launcher/task/$launcher/children; }
    quietly() { kill -STOP $(ranks); sleep 0.5; "$@"; kill -CONT $(ranks); }
    packets() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }
    under_way() { for _ in $(seq 300); do [ $(packets) -gt $((before + 1000)) ] && return; sleep 0.1; done; echo "nothing moved by rxe0"; }
"""


# Gives each device a second address, which is reached over the wire like the first one.
FOUR_ADDRESSES = """
    ip addr add 10.0.0.3/24 dev veth0; ip addr add 10.0.0.4/24 dev veth1
    ip route add 10.0.0.4 dev veth0 src 10.0.0.1 table 100; ip neigh add 10.0.0.4 lladdr 02:00:00:00:00:02 dev veth0 nud permanent
    ip route add 10.0.0.3 dev veth1 src 10.0.0.2 table 100; ip neigh add 10.0.0.3 lladdr 02:00:00:00:00:01 dev veth1 nud permanent
    sleep 1
"""


def libibverbs():
    """Rondo opens it at run time, so ldd does not know."""
    folders = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
    return next(f"{folder}/libibverbs.so.1" for folder in folders if os.path.exists(f"{folder}/libibverbs.so.1"))


# The guest's kernel prints this when soft-RoCE has locked it up. It does not print this if only a rank hangs.
KERNEL_HANGS = re.compile("soft lockup|blocked for more than")


def guest(script, *files):
    """What the script said there, and its exit status. Once more if the kernel there came to a stop."""
    brought = [word for file in (*files, libibverbs()) for word in ("--file", file)]
    for _ in range(2):
        done = subprocess.run(["tools/dev/lab/rdma_vm", "--limit", str(PATIENCE_S - 20), *brought, "--", "bash", "-c",
                               f"export RONDO_TIMES={TIMES}; {script}"], cwd=REPOSITORY, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)  # fmt: skip
        if done.returncode != OUT_OF_TIME or not KERNEL_HANGS.search(done.stderr):
            break
        print(f"the guest's kernel came to a stop: {KERNEL_HANGS.search(done.stderr)[0]}", file=sys.stderr)
    return done


def state_fault(number, case, outcome):
    """A row of the table of faults (tests/support/fault_row.h)."""
    if rows := os.environ.get("RONDO_FAULT_ROWS"):
        row = {"fault": number, "case": case, "layer": "processes", "path": "ib", "fired": 1, "detected_ms": None, "outcome": outcome}
        with open(rows, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def codes_in(output):
    """The error codes in the lines of `rondo perf`; "" if there are none."""
    codes = sorted(set(re.findall(r"rondo perf: rank \d+: (\w+): ", output)))
    return "typed_error " + " ".join(codes) if codes else ""


class Ib(unittest.TestCase):
    def says(self, done, *words, code=0):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stdout)

    def test_it_passes_the_suite_that_every_transport_passes(self):
        done = guest("./guest_ib --no-colors", "bazel-bin/tests/conformance/guest_ib:/root/guest_ib")
        self.says(done, "Status: SUCCESS!")
        self.assertNotIn("test cases:  0 ", done.stdout)

    # The suites perf-ib-2, -3 and -4 (tools/test --only) test every type and operation.
    def test_every_collective_and_algorithm_is_right(self):
        done = guest(f"""
            perf() {{ rondo perf all {BOTH} --timeout 120 "$@" 2>&1 | grep 'Wrong values\\|rondo perf:'; }}
            perf -N 2 --algorithm all -b 0 -e 16K -f 128 -n 1 -w 0
            perf -N 3 --algorithm all -b 0 -e 16K -f 128 -n 1 -w 0
            perf -N 2 --algorithm all -b 1M -e 1M -n 1 -w 0
            perf -N 3 --algorithm all --allocate -b 1M -e 1M -n 2 -w 0
        """, RONDO)  # fmt: skip
        self.says(done)
        self.assertEqual(done.stdout.split("\n")[:-1], ["# Wrong values     : 0 OK"] * 4, done.stdout)

    def test_sums_of_two_to_four_ranks_are_right_in_every_type_and_operation(self):
        done = guest(f"""
            for ranks in 2 3 4; do
              rondo perf all_reduce {BOTH} -N $ranks --dtype all --op all -b 4K -e 4K -n 1 -w 0 2>&1 | grep 'Wrong values\|rondo perf:'
            done
        """, RONDO)  # fmt: skip
        self.says(done)
        self.assertEqual(done.stdout, "# Wrong values     : 0 OK\n" * 3)

    def test_a_port_is_found_by_device_by_address_and_by_itself_and_the_path_is_reported(self):
        perf = "rondo perf all_reduce -N 2 --transport ib -b 8 -e 8 -n 1 -w 0 2>&1 | grep 'Path to\\|rondo perf: rank 0:'"
        done = guest(f"{perf}; {perf.replace('-b 8', '--ib-dev rxe1 -b 8')}; {perf.replace('-b 8', '--address 10.0.0.2 -b 8')};"
                     f"{perf.replace('-b 8', '--ib-dev mlx5_0 -b 8')}; {perf.replace('-b 8', '--ib-dev 10.0.0.9 -b 8')}", RONDO)  # fmt: skip
        lines = done.stdout.split("\n")
        self.assertEqual(len(lines), 6, done.stdout)
        for line, words in zip(lines, (
            "ib rxe0:1 [1] RoCE v2 10.0.0.1 (veth0), MTU 4096", "ib rxe1:1 [1] RoCE v2 10.0.0.2 (veth1), MTU 4096",
            "ib rxe1:1 [1] RoCE v2 10.0.0.2 (veth1), MTU 4096",
            "cannot take part: there is no RDMA device or port 'mlx5_0'; there are: rxe0:1 (10.0.0.1",
            "cannot take part: no RDMA port has the address 10.0.0.9; there are: rxe0:1 (10.0.0.1",
        )):  # fmt: skip
            self.assertIn(words, line)

    def test_a_matrix_of_four_addresses_names_the_one_throttled_way(self):
        """Two addresses on each device. Traffic from the first to the last address, and no other, is throttled to a tenth of what
        the median way carried before, and a quarter of that is demanded: no speed of this machine is assumed. If the machine pauses,
        another way is too slow in one run, but not in all three."""
        done = guest(FOUR_ADDRESSES + """
            matrix() { rondo perf send_recv --matrix --addresses 10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4 -e 4K --in-flight 4 -w 4 --json /tmp/json "$@" 2>&1; echo "exit code $?"; }
            matrix -n 40 | grep -v '\r'; echo ==
            median=$(grep -o '"bandwidth_GBps": [0-9.e-]*' /tmp/json | awk '
              { for (i = n++; i > 0 && rates[i - 1] > $2; i--) rates[i] = rates[i - 1]; rates[i] = $2 + 0 } END { print rates[int(n / 2)] }')
            enough_gbps=$(awk "BEGIN { print $median * 8 / 4 }") throttled_kbit=$(awk "BEGIN { print int($median * 8e6 / 10) }")
            tc qdisc add dev veth0 root handle 1: prio bands 3 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
            tc qdisc add dev veth0 parent 1:3 netem rate ${throttled_kbit}kbit
            tc filter add dev veth0 parent 1: protocol ip u32 match ip src 10.0.0.1 match ip dst 10.0.0.4 flowid 1:3
            for run in 1 2 3; do
              matrix --min-gbps $enough_gbps -n 40 --html /tmp/html --csv /tmp/csv; echo ==; cat /tmp/json; echo ==
            done
            cat /tmp/html
        """, RONDO)  # fmt: skip
        self.says(done)
        sound, *runs, page = done.stdout.split("==\n")
        self.assertIn("exit code 0", sound)
        for line in ("0 guest 10.0.0.1", "3 guest 10.0.0.4", "Path 1 to 2: ib over rxe1:1 [1] RoCE v2 10.0.0.2 (veth1), MTU 4096",
                     "at the other end rxe0:1 [2] RoCE v2 10.0.0.3 (veth0), MTU 4096; line 10 Gbit/s, "):  # fmt: skip
            self.assertIn(line, sound)
        for throttled in runs[::2]:
            self.assertIn("exit code 1", throttled)
            self.assertIn("# Too slow: rank 0 (guest 10.0.0.1) to rank 3 (guest 10.0.0.4): ", throttled)
        pairs = [json.loads(text)["pairs"] for text in runs[1::2]]
        too_slow = [{(row["from"], row["to"]) for row in rows if row["too_slow"]} for rows in pairs]
        self.assertEqual(len(too_slow), 3)
        self.assertEqual(set.intersection(*too_slow), {(0, 3)}, too_slow)
        rows = pairs[0]
        self.assertEqual(rows[2]["from_link"], {"device": "rxe0", "port": 1, "address": "10.0.0.1", "gid_index": 1,
                                                "gid": "RoCE v2 10.0.0.1 (veth0)", "mtu_bytes": 4096, "line_Gbps": 10})  # fmt: skip
        self.assertEqual((rows[2]["to_link"]["device"], rows[2]["to_link"]["gid_index"]), ("rxe1", 2))
        self.assertIn('<td class="tooslow"', page)
        self.assertIn("[2] RoCE v2 10.0.0.4 (veth1)", page)

    def test_memory_that_may_not_be_locked_is_reported_with_limit_need_and_remedy(self):
        done = guest(f"""
            chmod 666 /dev/infiniband/*
            setpriv --reuid 1000 --regid 1000 --clear-groups bash -c '
              ulimit -l 128; rondo perf all_reduce -N 2 {BOTH} -b 8 -e 8' 2>&1 | grep 'rondo perf: rank'
        """, RONDO, "/usr/bin/setpriv")  # fmt: skip
        self.says(done, "cannot register ", "this process may lock 128 KiB of memory (ulimit -l)", "LimitMEMLOCK=")
        state_fault(28, "memory that may not be locked", codes_in(done.stdout))

    def test_doctor_knows_sound_ports_small_ones_dead_ones_and_those_it_may_not_open(self):
        done = guest("""
            doctor() { rondo doctor "$@" | sed -n '/^RDMA/,/^[a-z]/p'; echo ==; }
            doctor -N 2 --transport ib; ip link set veth0 mtu 1500; ip link set veth1 mtu 1500; sleep 1; doctor
            chmod 600 /dev/infiniband/uverbs*
            setpriv --reuid 1000 --clear-groups bash -c 'ulimit -l 64; exec rondo doctor --transport ib' | grep -A 1 '/dev/inf\|memlock'
            echo ==; ip link set veth1 down; sleep 1; doctor --transport ib
        """, RONDO, "/usr/bin/setpriv")  # fmt: skip
        sound, small, closed, dead = done.stdout.split("==\n")[:4]
        self.says(done)
        self.assertIn("ok    port: Rondo uses rxe0:1 RoCE v2 10.0.0.1 (veth0) (the fastest active port)", sound)
        self.assertNotRegex(sound, "warn|bad")
        self.assertIn("warn  rxe0:1: Ethernet (RoCE), active, 10 Gb/sec (1X FDR10), MTU 1024 of at most 4096", small)
        self.assertIn("bad   /dev/infiniband/uverbs1: this user may not open it", closed)
        self.assertRegex(closed, r"bad   memlock \(ulimit -l\): 64 KiB.*\n *-> .*LimitMEMLOCK=infinity")
        self.assertIn("warn  rxe1:1: Ethernet (RoCE), down", dead)
        self.assertIn("bad   port: no RDMA port is active", dead)

    def test_a_killed_rank_a_port_that_goes_down_a_gid_that_goes_away_and_a_device_that_does_are_reported_by_name(self):
        done = guest(QUIETLY + f"""
            job() {{ before=$(packets); rondo run -N 2 -- rondo perf all_reduce {BOTH} -b 64K -e 64K -n 100000 -w 0 --timeout 10 >/tmp/out 2>&1 & launcher=$!; under_way; }}
            errors() {{ wait; grep -a 'rondo perf: rank' /tmp/out; echo ==; }}
            job; kill -9 $(ranks | cut -d" " -f2); errors
            job; quietly ip link set veth1 down; errors
            ip link set veth1 up; sleep 1
            job; quietly ip addr del 10.0.0.2/24 dev veth1; errors
            ip addr add 10.0.0.2/24 dev veth1; sleep 1
            rondo perf all_reduce -N 2 {BOTH} -b 8 -e 8 -n 1 2>&1 | grep 'Wrong values\|Path to'; echo ==
            job; kill -STOP $(ranks); sleep 0.5; ip link del veth1 & sleep 0.5; kill -CONT $(ranks); errors  # it waits for them
            rondo perf all_reduce -N 2 {BOTH} -b 8 -e 8 -n 1 2>&1 | grep -v '#'
        """, RONDO)  # fmt: skip
        killed, down, gid, again, gone, after = done.stdout.split("==\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("peer_lost: rank ", killed)
        # Either end may detect the failure first: the end whose port it is, or the other end, which gets no answer. If
        # one veth goes down, its peer loses its carrier, so either end may name its own port.
        by_itself = "RDMA by rxe1:1: local queue pair operation error .*: the device reports: "
        no_answer = "RDMA by rxe0:1: transport retry counter exceeded .*: "
        self.assertRegex(down, f"{by_itself}port down|{no_answer}(the device reports: port down|.* its link is down)")
        self.assertRegex(gid, f"{by_itself}GID table changed|{no_answer}.* its link is down")
        for line in down.strip().split("\n"):
            self.assertRegex(line, "caused by rank [01]")
        for line in gid.strip().split("\n"):
            self.assertIn("caused by rank 1", line)
        self.assertRegex(again, "Wrong values     : 0 OK\n.*: ib rxe0:1")
        # Both ends of the wire disappear at once.
        for line in gone.strip().split("\n"):
            self.assertRegex(line, "RDMA by rxe[01]:1: .*: the device reports: .*caused by rank [01]")
        self.assertIn("this machine has no RDMA device", after)
        for number, case, output in ((1, "a rank is killed", killed), (36, "a port goes down", down), (36, "a GID goes away", gid),
                                   (36, "a device goes away", gone)):  # fmt: skip
            state_fault(number, case, codes_in(output))

    def test_lanes_go_on_by_the_next_port_or_by_the_base_transport_with_nothing_lost(self):
        done = guest(QUIETLY + f"""
            rdma link add rxe2 type rxe netdev lo
            ./guest_mending --no-colors
            both="--transport ib --ib-dev rxe0+rxe2,rxe1+rxe2"
            before=$(packets); rondo run -N 2 -- rondo perf all_reduce $both -b 64K -e 64K -n 2000 -w 0 --timeout 20 >/tmp/out 2>&1 & launcher=$!; under_way
            quietly ip link set veth1 down; wait; grep -a 'Wrong values\|Path to' /tmp/out
            rondo perf all_reduce -N 2 $both -b 8 -e 8 -n 1 2>&1 | grep 'Path to'
        """, RONDO, "bazel-bin/tests/transport_ib/guest_mending:/root/guest_mending")  # fmt: skip
        self.says(done, "Status: SUCCESS!", "[0] # Wrong values     : 0 OK")
        self.assertNotIn("test cases:  0 ", done.stdout)
        during, after = [line for line in done.stdout.split("\n") if "Path to" in line]
        self.assertRegex(during, "ib rxe2:1 .* \\(because .*RDMA by rxe")
        self.assertRegex(after, "ib rxe2:1 .* KiB each way; beside it")  # starts on a new RDMA lane
        state_fault(36, "a port goes down, and there is another", "correct")

    def test_rails_take_a_port_each_and_a_port_that_goes_down_leaves_its_share_to_the_other(self):
        done = guest(QUIETLY + """
            rdma link add rxe2 type rxe netdev lo
            both="--transport ib --ib-dev rxe0+rxe2,rxe1+rxe2 --rails 2"
            rondo perf all -N 2 $both -b 4 -e 1M -f 64 -n 2 -w 0 2>&1 | grep 'Wrong values\|Path to'
            rondo perf send_recv -N 2 --matrix $both -e 64K --time-ms 20 2>&1 | grep 'Wrong values\|Path 0'
            before=$(packets); rondo run -N 2 -- rondo perf all_reduce $both -b 1M -e 1M -n 300 -w 0 --timeout 30 >/tmp/out 2>&1 & launcher=$!; under_way
            quietly ip link set veth1 down; wait; grep -a 'Wrong values\|Path to' /tmp/out
        """, RONDO)  # fmt: skip
        self.says(done)
        lines = done.stdout.strip().split("\n")
        self.assertEqual([line for line in lines if "Wrong values" in line and not line.endswith("OK")], [])
        whole, first, second, during = [line for line in lines if "Path " in line]
        self.assertRegex(whole, "ib rxe0:1 .*; rail 1: ib rxe2:1 ")
        self.assertRegex(first, "on rail 0: ib over rxe0:1 .*at the other end rxe1:1")
        self.assertRegex(second, "on rail 1: ib over rxe2:1 .*at the other end rxe2:1")
        self.assertRegex(during, "ib rxe2:1 .*because .*; rail 1: ib rxe2:1 ")

    def test_memory_that_is_lent_is_sent_as_it_was_and_is_free_when_it_is_released(self):
        done = guest("rdma link add rxe2 type rxe netdev lo; ./guest_zero_copy --no-colors",
                     "bazel-bin/tests/transport_ib/guest_zero_copy:/root/guest_zero_copy")  # fmt: skip
        self.says(done, "Status: SUCCESS!")
        self.assertNotIn("test cases:  0 ", done.stdout)

    def test_windows_are_written_into_while_they_are_granted_and_nothing_beside_them(self):
        done = guest("rdma link add rxe2 type rxe netdev lo; ./guest_windows --no-colors",
                     "bazel-bin/tests/transport_ib/guest_windows:/root/guest_windows")  # fmt: skip
        self.says(done, "Status: SUCCESS!")
        self.assertNotIn("test cases:  0 ", done.stdout)

    def test_memory_of_a_device_is_sent_without_being_looked_at(self):
        # Collectives run first: there are few of them, and they do not change the network.
        programs = ("guest_device_collectives", "guest_device_memory")
        done = guest(f"rdma link add rxe2 type rxe netdev lo; {'; '.join(f'./{program} --no-colors' for program in programs)}",
                     *(f"bazel-bin/tests/transport_ib/{program}:/root/{program}" for program in programs))  # fmt: skip
        self.says(done, "Status: SUCCESS!")
        self.assertEqual(done.stdout.count("Status: SUCCESS!"), len(programs), done.stdout)
        self.assertNotIn("test cases:  0 ", done.stdout)


if __name__ == "__main__":
    unittest.main()
