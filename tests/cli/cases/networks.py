"""Networks, in namespaces that each makes and removes: firewalls that let only some ports in, a
range of ports that is nearly used up, two networks between hosts."""

import contextlib
import os
import re
import socket
import time

from cli import RONDO, SMALL
from commands import Failed, Running, Skipped, case, free_port, wait_until


def run_all(*commands):
    for words in commands:
        Running(*words).end().exits(0)


class Hosts:
    """Network namespaces with names of hosts of their own, each pair of links a network between the first two."""

    def __init__(self, hosts, *links):
        """`links`: (interface, the addresses' first three numbers)."""
        if os.geteuid() != 0:
            raise Skipped("network namespaces need root")
        self.names = [f"rondo-n{os.getpid()}-{number}" for number in range(hosts)]
        self.links = links

    def __enter__(self):
        try:
            for name in self.names:
                run_all(("ip", "netns", "add", name), ("ip", "-n", name, "link", "set", "lo", "up"))
            for interface, network in self.links:
                run_all(("ip", "link", "add", interface, "netns", self.names[0], "type", "veth", "peer", "name", interface, "netns",
                         self.names[1]))
                for number in range(2):
                    ip = ("ip", "-n", self.names[number])
                    run_all((*ip, "addr", "add", f"{network}.{number + 1}/24", "dev", interface), (*ip, "link", "set", interface, "up"))
                for name in self.names[:2]:  # the kernel reports the network as up only a while after both ends are up
                    wait_until(lambda name=name, interface=interface: "state UP" in Running("ip", "-n", name, "link", "show", interface).end().out,
                               f"{interface} is up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            Running("ip", "netns", "del", name).end()

    def prefix(self, number):
        """What runs a program as that host."""
        script = 'hostname "$0"; exec "$@"'
        return "ip", "netns", "exec", self.names[number], "unshare", "--uts", "sh", "-c", script, f"host{number}"

    def rondo(self, number, *arguments, env=None):
        return Running(*self.prefix(number), RONDO, *arguments, env=env)

    def let_in(self, interface, first, last):
        """A firewall on both hosts, made of routing rules: of TCP only what goes to or comes from these ports gets in. IPv6,
        which the rules say nothing of, is off."""
        for name in self.names[:2]:
            run_all(("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv6.conf.{interface}.disable_ipv6=1"))
            rule = ("ip", "-n", name, "rule")
            ports, tcp = f"{first}-{last}", ("iif", interface, "ipproto", "tcp")
            run_all((*rule, "add", "pref", "20", "lookup", "local"), (*rule, "add", "pref", "1", *tcp, "dport", ports, "lookup", "local"),
                    (*rule, "add", "pref", "2", *tcp, "sport", ports, "lookup", "local"), (*rule, "add", "pref", "3", *tcp, "blackhole"),
                    (*rule, "del", "pref", "0"))


@contextlib.contextmanager
def all_of(*running):
    """All of them have ended when it has."""
    try:
        yield [one.end() for one in running]
    finally:
        for one in running:
            if one.process.poll() is None:
                one.kill()


@case
def behind_a_firewall_both_ranks_name_the_ports_that_do_not_answer():
    with Hosts(2, ("x0", "10.9.7")) as hosts:
        hosts.let_in("x0", 29500, 29500)
        where = ("--rendezvous", "tcp://10.9.7.1:29500", "--world-size", "2", "--timeout", "8")
        with all_of(*(hosts.rondo(rank, "perf", "all_reduce", *SMALL, *where, "--rank", rank) for rank in range(2))) as outcomes:
            for rank, outcome in enumerate(outcomes):
                outcome.exits(1).within(20).says(
                    rf"unreachable: no connection to rank {1 - rank} \(host host{1 - rank}\)",
                    rf"10\.9\.7\.{2 - rank}:\d+ via x0 \(same subnet\): no answer", "firewall", "--ports FIRST-LAST", "RONDO_PORTS")
                assert "connected and silent" not in outcome.err, outcome


@case
def a_range_of_ports_gets_ranks_through_a_firewall():
    with Hosts(2, ("x0", "10.9.7")) as hosts:
        hosts.let_in("x0", 29500, 29510)
        where = ("--rendezvous", "tcp://10.9.7.1:29500", "--world-size", "2", "--timeout", "20")
        flag, variable = ("--ports", "29501-29510"), {"RONDO_PORTS": "29501-29510"}
        with all_of(hosts.rondo(0, "perf", "all_reduce", *SMALL, *where, *flag, "--rank", 0),
                    hosts.rondo(1, "perf", "all_reduce", *SMALL, *where, "--rank", 1, env=variable)) as outcomes:
            for outcome in outcomes:
                outcome.exits(0)
            outcomes[0].says(r"# Wrong values *: 0 OK")


@case
def every_listening_socket_is_in_the_range_of_ports():
    with Hosts(1) as hosts:
        flag = ("--ports", "31000-31009")
        for env, flags in ((None, flag), ({"RONDO_PORTS": "31000-31009"}, ())):
            outcome = hosts.rondo(0, "explain", "all_reduce", "-N", "2", *flags, env=env).end().exits(0)
            ports = {int(port) for port in re.findall(r"127\.0\.0\.1:(\d+) on lo", outcome.out)}
            assert ports and all(31000 <= port <= 31009 for port in ports), outcome
        show = "ss -Htln; echo store $RONDO_STORE of $RONDO_PORTS, program $MASTER_PORT"
        outcome = hosts.rondo(0, "run", "-N", "1", *flag, "--", "sh", "-c", show).end().exits(0)
        outcome.says(r"store 127\.0\.0\.1:310\d\d of 31000-31009, program 310\d\d", r"LISTEN.*127\.0\.0\.1:310\d\d")
        job = hosts.rondo(0, "perf", "all_reduce", "-N", "2", "--transport", "tcp", *flag, "-b", "4", "-e", "4", "--time-ms", "60000")
        names = hosts.prefix(0)
        wait_until(lambda: len(re.findall(r"LISTEN", Running(*names, "ss", "-Htln").end().out)) >= 3, "store and ranks listen")
        listening = re.findall(r"LISTEN\s+\d+\s+\d+\s+\S+:(\d+)\s", Running(*names, "ss", "-Htln").end().out)
        assert all(31000 <= int(port) <= 31009 for port in listening), listening
        job.kill()


@case
def a_range_of_ports_that_is_used_up_is_named():
    with Hosts(1) as hosts:
        outcome = hosts.rondo(0, "perf", "barrier", "-N", "3", "--transport", "tcp", "--ports", "31000-31002", "-n", "2", "--timeout", "8").end()
        outcome.exits(1).says(r"none of the 3 ports 31000-31002 \(--ports, RONDO_PORTS\) is free").within(15)
        hosts.rondo(0, "perf", "barrier", "-N", "3", "--transport", "tcp", "--ports", "31000-31003", "-n", "2").end().exits(0)
    for wrong in ("31000", "31000-", "31009-31000", "0-7", "a-b", "1-65536"):
        if wrong != "31000":
            Running(RONDO, "perf", "barrier", "-N", "2", "--ports", wrong).end().exits(2).says("--ports.*expected FIRST-LAST")
    Running(RONDO, "perf", "barrier", "-N", "2", "-n", "2", env={"RONDO_PORTS": "x"}).end().says("variable RONDO_PORTS: expected FIRST-LAST")


@case
def ranks_that_wait_for_their_store_never_connect_to_themselves():
    """The store's port is one that the system gives to those who connect."""
    with Hosts(1) as hosts:
        run_all((*hosts.prefix(0), "sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40019"))
        where = ("--rendezvous", "tcp://127.0.0.1:40008", "--world-size", "4", "--timeout", "30", "-n", "10")
        ranks = [hosts.rondo(0, "perf", "barrier", *where, "--rank", rank) for rank in (1, 2, 3)]
        # Long enough for dozens of attempts by each rank: one attempt in twenty would be to its own port.
        time.sleep(4)
        seen = Running(*hosts.prefix(0), "ss", "-Htan").end().out
        assert not re.search(r"127\.0\.0\.1:40008\s+127\.0\.0\.1:40008", seen), seen
        ranks.insert(0, hosts.rondo(0, "perf", "barrier", *where, "--rank", 0))
        with all_of(*ranks) as outcomes:
            for outcome in outcomes:
                outcome.exits(0)


@case
def ranks_find_ports_in_a_small_range_and_the_error_names_it_when_it_is_too_small():
    with Hosts(1) as hosts:
        sysctl = (*hosts.prefix(0), "sysctl", "-qw")
        run_all((*sysctl, "net.ipv4.ip_local_port_range=40000 40019"))
        hosts.rondo(0, "perf", "barrier", "-N", "8", "--transport", "tcp", "-n", "3", "--timeout", "20").end().exits(0)
        run_all((*sysctl, "net.ipv4.ip_local_port_range=40100 40105"))
        held = """
import socket, time
sockets = [socket.create_server(("127.0.0.1", port)) for port in (*range(40100, 40106), 29500)]
print("all ports are held", flush=True)
time.sleep(600)
"""
        holder = Running(*hosts.prefix(0), "python3", "-c", held)
        try:
            wait_until(lambda: "all ports are held" in holder.text(), "all ports are held")
            where = ("--rendezvous", "tcp://127.0.0.1:29500", "--world-size", "2", "--rank", "1", "--timeout", "3", "-n", "3")
            hosts.rondo(0, "perf", "barrier", *where).end().exits(1).says(r"40100-40105 \(net\.ipv4\.ip_local_port_range\)")
        finally:
            holder.kill()


@case
def a_rank_that_finds_no_local_port_for_its_way_to_the_store_is_named_to_all_ranks():
    with Hosts(1) as hosts:
        # 12 ranks listen on ports of this range. 11 ports are left for their 12 connections to the store.
        run_all((*hosts.prefix(0), "sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40022"))
        where = ("--rendezvous", "tcp://127.0.0.1:29500", "--world-size", "12", "--timeout", "24", "-n", "3")
        with all_of(*(hosts.rondo(0, "perf", "barrier", "--transport", "tcp", *where, "--rank", rank) for rank in range(12))) as outcomes:
            for outcome in outcomes:
                outcome.exits(1).says(
                    r"resource: rank \d+, host host0, pid \d+ cannot take part: .*no local port is free in 40000-40022 "
                    r"\(net\.ipv4\.ip_local_port_range\).*by sysctl.*--ports FIRST-LAST, RONDO_PORTS")


@case
def a_taken_port_is_another_listeners_only_where_one_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        Running(RONDO, "store", "--listen", f"127.0.0.1:{port}").end().exits(1).says(f"another process listens on 127.0.0.1:{port}")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        outcome = Running(RONDO, "store", "--listen", f"127.0.0.1:{port}").end().exits(1)
        outcome.says(rf"cannot listen on 127\.0\.0\.1:{port}: another socket is bound to that port but does not listen on it")


@case
def of_two_networks_of_unknown_speed_the_other_is_named_with_a_warning():
    with Hosts(2, ("eth0", "10.0.7"), ("ib0", "192.168.97")) as hosts:
        two = r"2 networks, tried in this order: eth0 \(speed unknown\), then ib0 \(speed unknown\); not all speeds are known"
        hosts.rondo(0, "explain", "all_reduce", "-N", "2").end().exits(0).says(two)
        hosts.rondo(0, "doctor").end().says(rf"warn  networks: {two}", "--interface ib0")
        where = ("--rendezvous", "tcp://10.0.7.1:29500", "--world-size", "2", "--timeout", "20")
        with all_of(*(hosts.rondo(rank, "perf", "all_reduce", *SMALL, *where, "--rank", rank) for rank in range(2))) as outcomes:
            outcomes[1].exits(0)
            other = r"one of 2 networks whose speeds are not all known, speed unknown; also 192\.168\.97\.2 via ib0, speed unknown"
            outcomes[0].exits(0).says(rf"# Path to rank 1 \(host1\): 10\.0\.7\.2:\d+ via eth0 .*{other}")
            assert re.search(rf"rondo perf: tcp: rank 1 .*{other}.*choose it with --interface or --address", outcomes[0].err), outcomes[0]
        with all_of(*(hosts.rondo(rank, "perf", "all_reduce", *SMALL, *where, "--rank", rank, "--interface", "ib0")
                      for rank in range(2))) as outcomes:
            outcomes[0].exits(0).says(r"# Path to rank 1 \(host1\): 192\.168\.97\.2:\d+ via ib0")
            assert "networks" not in outcomes[0].out + outcomes[0].err, outcomes[0]


@case
def a_shell_of_an_allocation_is_distinguished_from_a_rank_by_which_ranks_come():
    variables = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
                 "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_TASKS_PER_NODE": "4",
                 "SLURM_STEP_NODELIST": socket.gethostname()}
    Running(RONDO, "perf", "barrier", "-n", "3", "--timeout", "2", env=variables).end().exits(1).says(
        "absent: 1..3", "SLURM_PROCID and SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "the shell of an allocation", r"srun -n 4 COMMAND",
        "rondo run -N 1 -- COMMAND").within(20)
    # The remedies in the message work.
    Running(RONDO, "run", "-N", "1", "--", RONDO, "perf", "barrier", "-n", "3", env=variables).end().exits(0)
    Running(RONDO, "perf", "barrier", "-n", "3", "--rank", 0, "--world-size", 1, "--rendezvous", f"tcp://127.0.0.1:{free_port()}",
            env=variables).end().exits(0)


@case
def the_programs_own_store_gets_the_port_that_is_kept_for_it():
    """As torch's env:// does it: rank 0 listens at MASTER_ADDR:MASTER_PORT, the others connect; beside Rondo's own store."""
    script = """
import os, socket, sys, time
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.create_server(at) as server:  # which reuses addresses, as servers do
        server.accept()[0].sendall(b"hello")
else:
    until = time.monotonic() + 20
    while True:
        try:
            print("received", socket.create_connection(at).recv(5).decode())
            break
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
"""
    outcome = Running(RONDO, "run", "-N", "2", "--", "python3", "-c", script).end().exits(0)
    outcome.says(r"\[1\] received hello")
    outcome = Running(RONDO, "run", "-N", "2", "--", "sh", "-c", "echo $MASTER_ADDR:$MASTER_PORT $RONDO_STORE").end().exits(0)
    ports = set(re.findall(r"(?m)^\[\d\] 127\.0\.0\.1:(\d+) 127\.0\.0\.1:(\d+)$", outcome.out))
    if len(ports) != 1 or len(set(next(iter(ports)))) != 2:
        raise Failed(f"{outcome}: all ranks have the same two ports")
