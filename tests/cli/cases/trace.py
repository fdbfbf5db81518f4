"""Records of a job and `rondo trace`."""

import json
import os
import pathlib
import re
import signal
import tempfile

from cli import FIRST_ROW, LONG, RONDO, SMALL, answers, companion, ranks, rondo
from commands import Running, case, free_port


C10D_ENTRY = ("record_id pg_id process_group collective_seq_id p2p_seq_id op_id profiling_name time_created_ns time_discovered_started_ns "
              "time_discovered_completed_ns duration_ms input_sizes input_dtypes output_sizes output_dtypes state retired timeout_ms "
              "is_p2p frames")


def findings(folder, code):
    """What rondo trace says of a folder of records, for people and for programs."""
    outcome = rondo("trace", folder, "--json", "-").exits(code)
    return outcome, json.loads(outcome.out)["groups"][0]


@case
def records_of_a_healthy_run_have_the_fields_of_c10d_and_make_a_timeline():
    for transport in ("tcp", "shm", "inproc"):
        with tempfile.TemporaryDirectory() as folder:
            records, timeline = os.path.join(folder, "made/here"), os.path.join(folder, "trace.json")
            rondo("perf", "all", "-N", "3", "--transport", transport, *SMALL, "--record-dir", records).exits(0)
            files = sorted(pathlib.Path(records).iterdir())
            assert [re.sub("-[0-9a-f]{16}-", "-JOB-", file.name) for file in files] == [
                f"rondo-{'default' if transport == 'inproc' else 'JOB'}-g0-group0-rank{rank}.json" for rank in range(3)], files
            for file in files:
                dump = json.loads(file.read_text())
                assert set(dump) == {"version", "rondo", "pg_config", "pg_status", "entries"}, dump.keys()
                assert all(list(entry) == [*C10D_ENTRY.split(), "rondo"] for entry in dump["entries"]), dump["entries"][0]
                assert {entry["state"] for entry in dump["entries"]} == {"completed"}, file
                assert {"rondo:all_reduce", "rondo:barrier"} < {entry["profiling_name"] for entry in dump["entries"]}
                assert any(entry["is_p2p"] for entry in dump["entries"])
            outcome = rondo("trace", records, "--out", timeline).exits(0)
            outcome.says("nothing is wrong", r"lateness in the \d+ operations", r"rank 2: in no operation, after #\d+", "one host, times are exact")
            events = json.loads(pathlib.Path(timeline).read_text())["traceEvents"]
            assert {event["pid"] for event in events} == {0, 1, 2}
            slices = [event for event in events if event["ph"] == "X"]
            assert slices and all(event["ts"] >= 0 and event["dur"] >= 0 for event in slices)
            assert {event["ph"] for event in events} == {"M", "X", "b", "e"}
            rondo("trace", *files[:2]).exits(1).says("MISSING: rank 2 wrote no records")


@case
def records_of_a_run_with_a_killed_rank_tell_who_is_missing_and_the_states_of_the_others():
    with tempfile.TemporaryDirectory() as folder:
        url = f"tcp://127.0.0.1:{free_port()}"
        processes = ranks(3, "all_reduce", *LONG, "--transport", "tcp", "--record-dir", folder, url=url, timeout=60)
        processes[0].wait_for(FIRST_ROW)
        processes[2].signal(signal.SIGKILL).end()
        for process in processes[:2]:
            process.end().exits(1)
        outcome, group = findings(folder, 1)
        outcome.says("MISSING: rank 2 wrote no records", r"rank [01]: (failed in|in no operation)", r"rank [01]: (peer_lost|connection_reset).*rank 2",
                     "1 without records")
        assert group["missing"] == [2], outcome
        assert all("rank 2" in state["failure"] for state in group["rank_states"]), outcome


@case
def records_of_a_run_with_a_stopped_rank_tell_what_it_kept_the_others_in():
    with tempfile.TemporaryDirectory() as folder:
        url = f"tcp://127.0.0.1:{free_port()}"
        processes = ranks(3, "all_reduce", *LONG, "--transport", "tcp", "--record-dir", folder, url=url, timeout=3)
        processes[0].wait_for(FIRST_ROW)
        processes[1].signal(signal.SIGSTOP)
        for rank in (0, 2):
            processes[rank].end().exits(1)
        processes[1].signal(signal.SIGCONT).end().fails()
        outcome, group = findings(folder, 1)
        outcome.says(r"rank [02]: timeout: #\d+ all_reduce", r"rank [02]: failed in #\d+ all_reduce .* after")
        assert group["missing"] == [] and not group["mismatches"], outcome


@case
def records_of_ranks_that_disagree_tell_both_sides():
    with tempfile.TemporaryDirectory() as folder:
        rondo("run", "-N", "3", "--", companion("tests/cli/mismatch"), "count", folder).exits(7)
        outcome, group = findings(folder, 1)
        outcome.says(r"MISMATCH", r"#1: ranks 0, 2 all_reduce float32 x 1000 sum.*; rank 1 all_reduce float32 x 999 sum")
        assert [side["ranks"] for side in group["mismatches"][0]["sides"]] == [[0, 2], [1]], outcome


@case
def ranks_leave_their_records_when_asked_by_a_signal_and_go_on():
    for transport in ("tcp", "inproc"):
        with tempfile.TemporaryDirectory() as folder:
            job = Running(RONDO, "perf", "all_reduce", "-N", "2", "--transport", transport, *LONG, "--record-dir", folder)
            job.wait_for(FIRST_ROW)
            for _ in range(2):
                job.signal(signal.SIGUSR1)
                for rank in range(2):
                    job.wait_for(rf"rank {rank}: records in {folder}/rondo-.*-rank{rank}\.json")
            assert {json.loads(file.read_text())["rondo"]["reason"] for file in pathlib.Path(folder).glob("*.json")} == {"signal"}
            assert rondo("trace", folder).says(r"records:\n +rank 0: .*; signal\)").code in (0, 1)
            job.signal(signal.SIGINT).end().exits(130)
    job = Running(RONDO, "perf", "all_reduce", "-N", "2", *LONG)
    job.wait_for(FIRST_ROW)
    job.signal(signal.SIGUSR1).wait_for("SIGUSR1: no records are written, because there is no --record-dir")
    job.signal(signal.SIGINT).end().exits(130)


@case
def trace_says_what_is_wrong_with_its_input():
    answers((
        ("trace", 2, "files"),
        ("trace /nowhere/x.json", 2, "/nowhere/x.json: cannot be read: No such file"),
        ("perf barrier -N 2 --record-dir /dev/null/x", 2, "--record-dir: /dev/null/x cannot be made"),
    ))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        rondo("trace", folder).exits(2).says(rf"{folder}: there is no rondo-\*\.json in this folder")
        path = pathlib.Path(folder, "rondo-x.json")
        for text, says in (('{\n "version": ', r"rondo-x\.json: parse error at line 2, column"), ("{}", r"rondo-x\.json: rondo: key 'rondo' not found")):
            path.write_text(text)
            rondo("trace", folder).exits(2).says(says)
        path.unlink()
        for job in ("a", "b"):
            rondo("perf", "barrier", "-N", "1", "-n", "1", "--transport", "inproc", "--record-dir", f"{folder}/{job}").exits(0)
        one, other = (pathlib.Path(folder, job, "rondo-default-g0-group0-rank0.json") for job in ("a", "b"))
        rondo("trace", one, "--out", "-", "--json", "-").exits(2).says("--out and --json")
        rondo("trace", one, "--out", "/nowhere/x").exits(2).says("--out: /nowhere/x cannot be written")
        other.write_text(other.read_text().replace('"job": "default"', '"job": "another"'))
        rondo("trace", one, other).exits(2).says(r"is of job default, generation 0, but .* is of job another, generation 0")
