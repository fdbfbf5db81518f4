"""`rondo perf`: values, the table and the files that it writes."""

import csv
import html.parser
import io
import json
import os
import pathlib
import tempfile

from cli import RONDO, SMALL, lab_of_hosts, ranks, rondo
from commands import Failed, Running, case, free_port


@case
def perf_send_recv_checks_what_came_from_the_neighbour():
    for transport in ("tcp", "shm", "inproc"):
        outcome = rondo("perf", "send_recv", "-N", "3", "--transport", transport, "--json", "-", *SMALL).exits(0)
        rows = json.loads(outcome.out)["rows"]
        if {(row["collective"], row["wrong"], row["in_place"]) for row in rows} != {("send_recv", 0, False)}:
            raise Failed(f"not what was asked for\n{outcome}")
    rondo("perf", "send_recv", "-N", "2", "--in-place").exits(2).says("--in-place: send_recv has two buffers")
    rondo("perf", "send_recv", "-N", "2", "--algorithm", "ring").exits(2).says("--algorithm: send_recv has no algorithms")


@case
def files_that_only_rank_0_finds_wrong_are_named_by_all():
    for what in (("all_reduce", *SMALL), ("send_recv", "--matrix")):
        outcome = rondo("run", "-N", "2", "--", RONDO, "perf", *what, "--json", "/nowhere/x.json").fails()
        aborted = r"(?m)^\[1\] rondo perf: rank 1: peer_aborted: rank 0 aborted: --json: /nowhere/x\.json|ending the other"
        outcome.says(r"(?m)^\[0\] rondo perf: --json: /nowhere/x\.json", aborted)


@case
def rdma_that_is_not_there_or_makes_no_sense_is_reported():
    tls = ("--transport", "ib", "--tls", "psk")
    rondo("perf", "all_reduce", "-N", "2", *tls, *SMALL).exits(2).says("only RDMA is allowed, but TLS is on")
    rondo("perf", "all_reduce", "-N", "2", "--transport", "inproc", "--ib-dev", "mlx5_0", *SMALL).exits(2).says("--ib-dev")
    for transport in ("tcp", "shm"):
        rondo("perf", "all_reduce", "-N", "2", "--transport", transport, "--ib-dev", "mlx5_0", *SMALL).exits(2).says(f"--ib-dev: --transport {transport} uses no RDMA device")
    if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
        rondo("perf", "all_reduce", "-N", "2", "--ib-dev", "mlx5_0", *SMALL).exits(2).says("--ib-dev: this machine has no RDMA device")
        rondo("perf", "all_reduce", "-N", "2", "--transport", "ib", *SMALL).exits(1).says("this machine has no RDMA device")


@case
def perf_checks_every_element_and_prints_a_table():
    outcome = rondo("perf", "all_reduce", "-N", "3", *SMALL).exits(0)
    outcome.says(r"#wrong", r"Wrong values *: 0 OK", "Average bus bandwidth")
    rows = [line.split() for line in outcome.out.splitlines() if line and not line.startswith("#")]
    assert [int(row[0]) for row in rows] == [4, 128, 4096], outcome
    assert all(row[2:5] == ["float32", "sum", "-"] for row in rows), outcome


@case
def perf_sweeps_all_collectives_types_and_operations():
    outcome = rondo("perf", "all", "-N", "2", "-d", "all", "-o", "all", "-r", "all", "-b", "0", "-e", "100", "-f", "20", "-n", "1",
                    "-w", "0", "--transport", "tcp").exits(0).says("Wrong values *: 0 OK")
    rows = [line.split() for line in outcome.out.splitlines() if line and not line.startswith("#")]
    pairings = {tuple(row[2:4]) for row in rows}
    assert len(pairings) == 77 + 11 + 1, (len(pairings), pairings)  # reductions, other collectives, barrier
    assert {row[4] for row in rows} == {"-", "0", "1"}, outcome


@case
def perf_on_rails_gives_the_same_and_says_which_way_each_goes():
    for transport in ("tcp", "inproc"):
        outcome = rondo("perf", "all", "-N", "3", "--transport", transport, "--rails", "3", "--algorithm", "all", "-b", "4", "-e", "1M", "-f",
                        "64", "-n", "2", "-w", "0", "--json", "-").exits(0)
        assert {(row["rails"], row["wrong"] or 0) for row in json.loads(outcome.out)["rows"]} == {(3, 0)}, outcome
    rondo("perf", "all_reduce", "-N", "2", "--transport", "tcp", "--qp", "2", "-b", "1M", "-e", "1M", "-n", "2").exits(0).says(
        "2 ranks over tcp on 2 rails", "Wrong values *: 0 OK", r"Path to rank 1 .*: 127\.0\.0\.1:.*; rail 1: 127\.0\.0\.1:\d+ via lo")
    # Two networks with two addresses for each host: each rail uses another address.
    with lab_of_hosts(2) as run:
        for host in (1, 2):
            run(host, "ip", "addr", "add", f"10.78.0.{host}/24", "dev", "eth0").end().exits(0)
        rendezvous = ("--rendezvous", "tcp://10.77.0.1:29500", "--world-size", 2, "--timeout", 30, "--rails", 2)
        started = [run(host, RONDO, "perf", "all_reduce", "-b", "4M", "-e", "4M", "-n", "2", *rendezvous, "--rank", host - 1, "--address",
                       f"10.77.0.{host},10.78.0.{host}") for host in (1, 2)]
        for process in started:
            process.end().exits(0)
        started[0].end().says("Wrong values *: 0 OK", r"Path to rank 1 .*: 10\.77\.0\.2:\d+ via eth0 .*; rail 1: 10\.78\.0\.2:\d+ via eth0")
        # Measures each rail of every pair separately.
        started = [run(host, RONDO, "perf", "send_recv", "--matrix", "--time-ms", 5, "--json", "-", *rendezvous, "--rank", host - 1, "--address",
                       f"10.77.0.{host},10.78.0.{host}") for host in (1, 2)]
        for process in started:
            process.end().exits(0)
        pairs = json.loads(started[0].end().out)["pairs"]
        ways = [(pair["from"], pair["to"], pair["rail"], pair["from_link"]["address"], pair["to_link"]["address"]) for pair in pairs]
        assert ways == [(a, b, rail, f"10.{77 + rail}.0.{a + 1}", f"10.{77 + rail}.0.{b + 1}") for rail in (0, 1) for a, b in ((0, 1), (1, 0))], ways
        assert all(pair["bandwidth_GBps"] > 0 and pair["wrong"] == 0 for pair in pairs), pairs
        # Ranks with different numbers of rails get an error before any data is sent.
        started = [run(host, RONDO, "perf", "all_reduce", "--rendezvous", "tcp://10.77.0.1:29501", "--world-size", 2, "--timeout", 20,
                       "--rank", host - 1, "--rails", host) for host in (1, 2)]
        for process in started:
            process.end().exits(1).says("rails")


@case
def perf_serves_every_algorithm_by_name():
    for transport in ("tcp", "shm", "inproc"):
        outcome = rondo("perf", "all", "-N", "3", "--algorithm", "all", "--transport", transport, *SMALL).exits(0)
        assert ("intranode" in outcome.out) == (transport == "shm"), outcome
        outcome.says("ring", "tree", "recursive_halving", "recursive_doubling", "scatter_all_gather", "dissemination", "direct",
                     "chain", "double_tree", "bruck", "pairwise", "knomial4", "knomial8", "hierarchical", "two_shot")
        outcome.says("Wrong values *: 0 OK")


@case
def perf_gives_every_rank_a_count_of_its_own():
    for transport in ("tcp", "shm"):
        outcome = rondo("perf", "all", "-N", "3", "--uneven", "--algorithm", "all", "--transport", transport, *SMALL).exits(0)
        outcome.says("Wrong values *: 0 OK")
        outcome.says("(?m)^# all_gather_v$", "(?m)^# reduce_scatter_v$", "(?m)^# gather_v$", "(?m)^# scatter_v$", "(?m)^# all_to_all_v$")
        assert "all_reduce" not in outcome.out, outcome


@case
def perf_says_what_reproducible_mode_costs():
    for transport, algorithms in (("tcp", "direct|two_shot|chain"), ("shm", "intranode")):
        outcome = rondo("perf", "all_reduce", "-N", "3", "--reproducible", "--transport", transport, *SMALL).exits(0)
        outcome.says("Wrong values *: 0 OK", r"Reproducible mode: takes \d\S* times as long as the freely chosen algorithm \(geometric mean of 6 rows",
                     rf" ({algorithms})\(fold\) ")


@case
def perf_measures_fp32_accumulate():
    for collective in ("all_reduce", "reduce", "reduce_scatter"):
        rondo("perf", collective, "-N", "3", "-d", "float16,bfloat16", "--fp32-accumulate", "-o", "sum,avg,premul_sum", *SMALL).exits(
            0).says("Wrong values *: 0 OK")


@case
def perf_measures_with_checksums_and_compared_results_and_says_so():
    for transport in ("tcp", "shm", "inproc"):
        outcome = rondo("perf", "all", "-N", "3", "--checksums", "--compare-results", "--transport", transport, "--algorithm",
                        "auto", *SMALL).exits(0)
        outcome.says("Wrong values *: 0 OK", "with checksums, results compared, seen from")
    rows = json.loads(rondo("perf", "all_reduce", "-N", "2", "--checksums", *SMALL, "--json", "-").exits(0).out)["rows"]
    assert all(row["checksums"] and not row["compare_results"] for row in rows), rows


@case
def ranks_that_differ_in_checksums_fail_before_anything_is_measured():
    with tempfile.TemporaryDirectory() as folder:
        url = f"file://{folder}/rendezvous"
        sides = [Running(RONDO, "perf", "all_reduce", *SMALL, "--rendezvous", url, "--rank", str(rank), "--world-size", "2", *more)
                 for rank, more in ((0, []), (1, ["--checksums"]))]
        for side in sides:
            side.end().exits(1).says("version_mismatch", "checksums")


@case
def sizes_are_those_of_all_blocks_together():
    outcome = rondo("perf", "all_gather", "-N", "3", "-b", "0", "-e", "4K", "-f", "16", "-n", "1").exits(0)
    rows = [line.split() for line in outcome.out.splitlines() if line and not line.startswith("#")]
    assert [(int(row[0]), int(row[1])) for row in rows] == [(0, 0), (12, 1), (192, 16), (3072, 256)], outcome


@case
def perf_after_size_zero_comes_one_element():
    outcome = rondo("perf", "all_reduce", "-N", "2", "-d", "float64", "-b", "0", "-e", "64", "-f", "4", "-n", "1").exits(0)
    rows = [line.split() for line in outcome.out.splitlines() if line and not line.startswith("#")]
    assert [(int(row[0]), int(row[1])) for row in rows] == [(0, 0), (8, 1), (32, 4)], outcome


@case
def perf_under_run_takes_its_ranks_from_the_environment():
    rondo("run", "-N", "2", "--", RONDO, "perf", "all_reduce", *SMALL).exits(0).says(r"\[0\] # Wrong values *: 0 OK")


@case
def perf_by_hand_has_a_rendezvous_over_tcp_and_over_a_file():
    with tempfile.TemporaryDirectory() as folder:
        for url in (f"tcp://127.0.0.1:{free_port()}", f"file://{folder}/rendezvous"):
            outcomes = [rank.end() for rank in ranks(2, "all_reduce", *SMALL, url=url)]
            for outcome in outcomes:
                outcome.exits(0)
            outcomes[0].says("Wrong values *: 0 OK")


@case
def the_guide_to_measuring_has_every_key_of_the_json():
    guide = (pathlib.Path(__file__).resolve().parents[3] / "docs/MEASURING.md").read_text()
    table = json.loads(rondo("perf", "all_reduce", "-N", "2", *SMALL, "--json", "-").exits(0).out)
    pairs = json.loads(rondo("perf", "send_recv", "--matrix", "-N", "2", "-e", "8", "--time-ms", "1", "--json", "-").exits(0).out)
    row, pair = table["rows"][0], pairs["pairs"][0]
    keys = {*table, *table["host"], *row, *row["time_us"], *pairs, *pair, *pair["latency_us"]}
    unknown = sorted(key for key in keys if f"`{key}`" not in guide)
    assert not unknown, f"docs/MEASURING.md does not name {unknown}"


@case
def json_csv_and_html_are_well_formed():
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: os.path.join(folder, f"out.{kind}") for kind in ("json", "csv", "html")}
        rondo("perf", "all", "-N", "2", *SMALL, "--json", files["json"], "--csv", files["csv"], "--html", files["html"]).exits(0)
        result = json.loads(pathlib.Path(files["json"]).read_text())
        assert set(result) == {"rondo", "host", "rows"}, result.keys()
        keys = ("collective algorithm transport ranks bytes count dtype op root in_place uneven reproducible fp32_accumulate "
                "checksums compare_results rails device iters time_us expected_us expected_measured algbw_GBps busbw_GBps wrong")
        assert all(list(row) == keys.split() for row in result["rows"]), result["rows"][0]
        assert all(list(row["time_us"]) == ["min", "median", "p99", "max"] for row in result["rows"])
        assert all(row["wrong"] == 0 and row["ranks"] == 2 for row in result["rows"])
        assert {row["collective"] for row in result["rows"]} == {
            "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "gather", "scatter", "all_to_all", "barrier",
            "send_recv"}
        rows = list(csv.DictReader(io.StringIO(pathlib.Path(files["csv"]).read_text())))
        assert len(rows) == len(result["rows"])
        for row, same in zip(rows, result["rows"]):
            assert None not in row and None not in row.values(), row
            assert (row["collective"], int(row["bytes"]), row["wrong"]) == (same["collective"], same["bytes"], "0"), row
        check_html(pathlib.Path(files["html"]).read_text())


def check_html(page):
    """Charts are there, tags that must be closed are, and nothing is fetched from anywhere."""
    open_tags, seen = [], []
    needs_closing = {"html", "head", "body", "style", "title", "h1", "h2", "p", "figure", "svg", "table", "text", "span", "i"}

    class Parser(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            seen.append(tag)
            assert not any(name in ("src", "href") for name, _ in attrs), (tag, attrs)
            if tag in needs_closing:
                open_tags.append(tag)

        def handle_endtag(self, tag):
            if tag in needs_closing:
                assert open_tags and open_tags.pop() == tag, tag

    Parser().feed(page)
    assert not open_tags, open_tags
    assert "svg" in seen and "polyline" in seen and "script" not in seen, set(seen)


@case
def data_on_stdout_leaves_the_table_to_stderr():
    outcome = rondo("perf", "all_reduce", "-N", "2", *SMALL, "--json", "-").exits(0)
    assert json.loads(outcome.out)["rows"], outcome
    assert "#wrong" in outcome.err, outcome
    outcome = rondo("perf", "all_reduce", "-N", "2", *SMALL, "--csv", "-").exits(0)
    assert outcome.out.startswith("collective,") and len(outcome.out.splitlines()) == 7, outcome


@case
def a_baseline_that_was_faster_is_a_missed_bar():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "base.json")
        rondo("perf", "all_reduce", "-N", "2", *SMALL, "--json", path).exits(0)
        base = json.loads(pathlib.Path(path).read_text())
        for row in base["rows"]:
            row["time_us"]["median"] *= 1e6
        pathlib.Path(path).write_text(json.dumps(base))
        rondo("perf", "all_reduce", "-N", "2", *SMALL, "--baseline", path).exits(0).says("6 of 6 rows compared, 0 slower")
        for row in base["rows"]:
            row["time_us"]["median"] /= 1e12
        pathlib.Path(path).write_text(json.dumps(base))
        rondo("perf", "all_reduce", "-N", "2", *SMALL, "--baseline", path, "--max-regression", "50%").exits(1).says(
            "6 slower by more than 50%")
        pathlib.Path(path).write_text("{}")
        rondo("perf", "all_reduce", "-N", "2", *SMALL, "--baseline", path).fails().says("--baseline")
