"""`rondo perf send_recv --matrix`: which link or host is slow."""

import csv
import json
import os
import pathlib
import re
import tempfile

from cli import RONDO, answers, lab_of_hosts, ranks, rondo, tables
from commands import Running, Skipped, case
from matrices import too_slow_every_time


NO_MATRIX = [(f"perf {typed} -N {ranks}", 2, said) for typed, ranks, said in (
    ("all_reduce --matrix", 2, "expected send_recv alone"),
    ("send_recv --duration 1 --time-ms 5", 2, "--duration.*--time-ms|--time-ms.*--duration"),
    ("send_recv --matrix -e 0", 2, "--max-bytes"),
    ("send_recv --in-flight 2", 2, "--matrix"),
    ("send_recv --matrix --min-gbps fast", 2, "--min-gbps"),
    ("send_recv --matrix", 1, "two ranks"),
)]  # fmt: skip

NOT_WITH_A_MATRIX = [(f"perf send_recv --matrix -N 2 --transport tcp {flag}", 2, said) for flag, said in (
    ("-f 4", "--step-factor: not allowed with --matrix"),
    ("-i 64", "--step-bytes: not allowed with --matrix"),
    ("-d int8", "--dtype: not allowed with --matrix"),
    ("-o max", "--op: not allowed with --matrix"),
    ("-r 0", "--root: not allowed with --matrix"),
    ("--algorithm auto", "--algorithm: not allowed with --matrix"),
    ("--in-place", "--in-place: not allowed with --matrix"),
    ("--out-of-place", "--out-of-place: not allowed with --matrix"),
    ("--uneven", "--uneven: not allowed with --matrix"),
    ("--reproducible", "--reproducible: not allowed with --matrix"),
    ("--fp32-accumulate", "--fp32-accumulate: not allowed with --matrix"),
    ("--compare-results", "--compare-results: not allowed with --matrix"),
    ("--predicted", "--predicted: not allowed with --matrix"),
    ("-n 3 --duration 1", "--duration.*--iters|--iters.*--duration"),
    ("-n 0", "--iters"),
)]  # fmt: skip

tables(
    ("a_rank_starts_for_every_local_address", "perf send_recv --matrix -e 4K --time-ms 5 --addresses", [
        ("127.0.0.1,127.0.0.1", 2, "--addresses: 127.0.0.1 appears twice"),
        ("127.0.0.1,192.0.2.77", 2, r"--addresses: no interface has the address 192\.0\.2\.77"),
        ("127.0.0.1,somewhere", 2, "--addresses: 'somewhere' is not a numeric address"),
        ("127.0.0.1,::1 -N 3", 2, "--addresses: got 2 addresses for --ranks 3"),
        ("127.0.0.1,::1 --transport shm", 2, "--addresses: --transport shm uses no addresses"),
        ("127.0.0.1,::1 --ib-dev mlx5_0", 2, "--ib-dev"),
        ("127.0.0.1", 2, "two ranks"),
    ]),
)  # fmt: skip


@case
def a_matrix_measures_every_pair_and_judges_them():
    for transport in ("tcp", "shm", "inproc"):
        matrix = ("perf", "send_recv", "--matrix", "-N", "3", "--transport", transport, "-e", "64K", "--time-ms", "5")
        outcome = rondo(*matrix).exits(0).says("Bandwidth one way, 64 KiB messages", "Latency one way, 8 B", r"Wrong values *: 0 OK")
        rows = [line.split() for line in outcome.out.splitlines() if re.match(r"  +\d", line)]
        assert len(rows) == 9 and all(row[-3 + int(row[0])] == "-" for row in rows), outcome
        assert all(float(cell.rstrip("!")) > 0 for row in rows for cell in row[-3:] if cell != "-"), outcome
        outcome.says(*(f"Path {pair}: {transport} over " for pair in ("0 to 1", "0 to 2", "1 to 2")))
        rondo(*matrix, "--min-gbps", "1e-6").exits(0)
        rondo(*matrix, "--min-gbps", "1e9").exits(1).says("X under 1e.09 Gbit/s")
    answers(NO_MATRIX)


@case
def a_matrix_is_written_for_programs_and_as_a_page_and_compared_with_an_earlier_one():
    matrix = ("perf", "send_recv", "--matrix", "-N", "3", "--transport", "inproc", "-e", "4K", "--duration", "0.005")
    with tempfile.TemporaryDirectory() as folder:
        files = {name: f"{folder}/{name}" for name in ("json", "csv", "html")}
        rondo(*matrix, *(word for name, file in files.items() for word in (f"--{name}", file))).exits(0).says("Bandwidth one way")
        written = json.loads(pathlib.Path(files["json"]).read_text())
        assert [(pair["from"], pair["to"]) for pair in written["pairs"]] == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)], written
        assert written["matrix"]["time_ms"] == 5 and all(pair["bandwidth_GBps"] > 0 for pair in written["pairs"]), written
        with open(files["csv"], newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
        assert [row["path"] for row in rows] == [pair["path"] for pair in written["pairs"]], rows
        assert pathlib.Path(files["html"]).read_text().count("<td class=\"self\">") == 9
        outcome = rondo(*matrix, "--json", "-").exits(0)
        assert len(json.loads(outcome.out)["pairs"]) == 6 and "Bandwidth one way" in outcome.err, outcome

        def compared_with(change):
            for pair in written["pairs"]:
                change(pair)
            pathlib.Path(files["json"]).write_text(json.dumps(written))
            return rondo(*matrix, "--baseline", files["json"], "--max-regression", "50%")

        def an_age_ago(pair):
            pair.update(bandwidth_GBps=1e-9, both_GBps=1e-9, latency_us={"median": 1e9})

        compared_with(an_age_ago).exits(0).says("6 of 6 directions compared, 0 worse by more than 50%")
        compared_with(lambda pair: pair.update(bandwidth_GBps=1e9) if (pair["from"], pair["to"]) == (2, 1) else None).exits(1).says(
            r"rank 2 \(localhost\) to rank 1 \(localhost\): bandwidth .* GB/s, was 1e.09", "6 of 6 directions compared, 1 worse")
        rondo(*matrix[:-4], "-e", "8K", "--baseline", files["json"]).exits(2).says("--baseline: .*messages of 8 B and 4 KiB")
        # The pairs of another transport: only rank 0 reports this, at the end.
        outcome = rondo("perf", "send_recv", "--matrix", "-N", "2", "--transport", "tcp", *matrix[7:], "--baseline", files["json"]).exits(2)
        outcome.says("none of these pairs over these transports")
        assert "peer_aborted" not in outcome.err, outcome
        outcome = rondo(*matrix, "--html", "-").exits(0)
        assert outcome.out.startswith("<!doctype html>") and "Bandwidth one way" in outcome.err, outcome
        rondo(*matrix, "--html", "-", "--json", "-").exits(2).says("--html: only one of them")
        for transport in ("inproc", "tcp"):
            for file in ("csv", "html", "none"):
                rondo("perf", "send_recv", "--matrix", "-N", "2", "--transport", transport, "--baseline", f"{folder}/{file}").exits(2).says("--baseline: ")


def limits_of(sound):
    """What to demand of every way and what to throttle one to, beside the slowest way of a matrix with nothing throttled. So the
    case judges a ratio, whatever the speed of a machine that others use, too."""
    slowest_gbps = 8 * min(pair["bandwidth_GBps"] for pair in json.loads(sound.out)["pairs"])
    return str(slowest_gbps / 10), f"{max(1, int(slowest_gbps * 1e6 / 100))}kbit"


def with_report(outcome):
    return outcome, json.loads(outcome.out)


@case
def a_matrix_of_addresses_finds_the_one_slow_way():
    """Four addresses of a network namespace; what goes from one of them to another, and no other way, is throttled."""
    if os.geteuid() != 0:
        raise Skipped("network namespaces need root")
    name = f"rondo-m{os.getpid()}"
    addresses = [f"10.78.0.{host}" for host in range(1, 5)]

    def inside(*command):
        return Running("ip", "netns", "exec", name, *command).end()

    def measured(*flags):
        return inside(RONDO, "perf", "send_recv", "--matrix", "--addresses", ",".join(addresses), "--transport", "tcp", "-e", "64K",
                      "--time-ms", "100", "--json", "-", *flags)

    Running("ip", "netns", "add", name).end().exits(0)
    try:
        inside("ip", "link", "set", "lo", "up").exits(0)
        for address in addresses:
            inside("ip", "address", "add", f"{address}/32", "dev", "lo").exits(0)
        sound = measured().exits(0).says(*(rf"Path {low} to {high}: tcp over 10\.78\.0\." for low in range(3) for high in range(low + 1, 4)))
        enough_gbps, throttled = limits_of(sound)
        for command in (("qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb"),
                        ("class", "add", "dev", "lo", "parent", "1:", "classid", "1:2", "htb", "rate", "10gbit", "quantum", "60000"),
                        ("qdisc", "add", "dev", "lo", "parent", "1:2", "tbf", "rate", throttled, "burst", "128kb", "limit", "1mb"),
                        ("filter", "add", "dev", "lo", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "src", addresses[1],
                         "match", "ip", "dst", addresses[3], "flowid", "1:2")):
            inside("tc", *command).exits(0)
        outcome = too_slow_every_time({(1, 3)}, lambda: with_report(measured("--min-gbps", enough_gbps).exits(1)))
        outcome.says(r"Too slow: rank 1 \(\S+ 10\.78\.0\.2\) to rank 3 \(\S+ 10\.78\.0\.4\): ")
    finally:
        Running("ip", "netns", "del", name).end().exits(0)


@case
def a_matrix_between_hosts_names_the_throttled_port():
    """Two hosts with two ranks each. Memory is as fast as ever; what one host sends by its port is throttled."""
    with lab_of_hosts(2) as run:
        def world(*flags):
            rendezvous = ("--rendezvous", "tcp://10.77.0.1:29500", "--world-size", 4, "--timeout", 30)
            matrix = ("perf", "send_recv", "--matrix", "-e", "64K", "--time-ms", "100", "--json", "-", *flags)
            started = [run(1 + rank // 2, RONDO, *matrix, *rendezvous, "--rank", rank) for rank in range(4)]
            return [process.end() for process in started]

        sound = world()
        for outcome in sound:
            outcome.exits(0)
        enough_gbps, throttled = limits_of(sound[0])
        run(2, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", throttled, "burst", "128kb", "limit", "1mb").end().exits(0)

        def throttled_world():
            outcomes = world("--min-gbps", enough_gbps)
            for outcome in outcomes:
                outcome.exits(1)
            return with_report(outcomes[0])

        outcome = too_slow_every_time({(2, 0), (2, 1), (3, 0), (3, 1)}, throttled_world)
        outcome.says(r"Too slow: rank 3 \(\S+-h2 10\.77\.0\.2\) to rank 0 \(\S+-h1 10\.77\.0\.1\): ", "Path 0 to 1: shm over ",
                         r"Path 0 to 2: tcp over .*; at the other end eth0 10\.77\.0\.2, MTU 1500")
        pairs = json.loads(outcome.out)["pairs"]
        near, far = pairs[0], pairs[1]
        assert near["from_link"]["device"] is None and near["transport"] == "shm", near
        assert far["from_link"] == {"device": "eth0", "port": None, "address": "10.77.0.1", "gid_index": None, "gid": None,
                                    "mtu_bytes": 1500, "line_Gbps": None}, far
        assert far["to_link"]["address"] == "10.77.0.2", far


@case
def a_matrix_counts_messages_on_request_and_refuses_flags_that_do_not_apply_to_pairs():
    matrix = ("perf", "send_recv", "--matrix", "-N", "2", "--transport", "tcp")
    with tempfile.TemporaryDirectory() as folder:
        outcome = rondo(*matrix, "-n", "3", "-w", "0", "-b", "8K", "-e", "64", "--checksums", "--record-dir", folder, "--json", "-").exits(0)
        settings = json.loads(outcome.out)["matrix"]
        assert settings["iters"] == 3 and settings["time_ms"] is None and settings["checksums"] is True, outcome
        outcome.says("64 B messages, 8 at once, with checksums", "Latency one way, 8 KiB")
        recorded = json.loads(next(pathlib.Path(folder).glob("*-rank0.json")).read_text())["entries"]
        sent = [entry["rondo"]["count"] for entry in recorded if entry["rondo"].get("message") == "send"]
        # Three round trips, one checked round, and three measurements in one direction and three in both.
        assert (sent.count(8192), sent.count(64)) == (3, 8 + 3 + 3), sent
    answers(NOT_WITH_A_MATRIX)
