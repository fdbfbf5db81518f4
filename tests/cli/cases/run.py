"""`rondo run`: what ranks are given, what becomes of their output; the examples under it."""

import fcntl
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import tempfile
import termios
import time

from cli import RONDO, SMALL, companion, rondo, tables
from commands import SECONDS, Failed, case


@case
def run_gives_ranks_their_environment_and_tags_their_lines():
    names = "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT"
    outcome = rondo("run", "-N", "3", "--", "sh", "-c", f"echo out {names}; echo err >&2; printf unfinished").exits(0)
    for rank in range(3):
        outcome.says(rf"(?m)^\[{rank}\] out {rank} 3 {rank} 3 127\.0\.0\.1:\d+$", rf"(?m)^\[{rank}\] unfinished$")
    assert outcome.err == "" or sorted(outcome.err.split("\n")) == ["", "[0] err", "[1] err", "[2] err"], outcome


@case
def run_tells_its_ranks_the_job_the_store_and_the_timeout():
    script = "echo $RONDO_JOB $RONDO_EXTERNAL_STORE ${RONDO_TIMEOUT-none}"
    jobs = set()
    for flags, timeout in ((("--timeout", "2.5"), r"2\.5"), ((), "none")):
        outcome = rondo("run", "-N", "2", *flags, "--", "sh", "-c", script).exits(0)
        printed = set(re.findall(rf"(?m)^\[\d\] ([0-9a-f]{{16}}) 1 {timeout}$", outcome.out))
        assert len(printed) == 1, outcome
        jobs |= printed
    assert len(jobs) == 2, jobs
    rondo("run", "-N", "2", "--timeout", "0", "--", "true").exits(2).says("--timeout.*expected seconds")
    # The timeout and the profile also apply to a program that sets neither.
    late = f"[ $RANK = 0 ] && exec {companion('examples/all_reduce')}; sleep {SECONDS}"
    rondo("run", "-N", "2", "--timeout", "1", "--", "sh", "-c", late).fails().says(r"rendezvous_timeout.*within (1\.0|0\.\d) s.*absent: 1").within(20)
    example = ("run", "-N", "2", "--", companion("examples/all_reduce"))
    rondo(*example, env={"RONDO_TIMEOUT": "soon"}).fails().says("variable RONDO_TIMEOUT: expected seconds.*soon")
    rondo(*example, env={"RONDO_PROFILE": "/nowhere/p.json"}).fails().says("variable RONDO_PROFILE: .*/nowhere/p.json")


@case
def the_timeout_of_run_is_the_default_of_perf():
    script = '[ $RANK = 1 ] && exec sleep 60; exec "$0" perf all_reduce "$@"'
    job = ("--timeout", "1", "--", "sh", "-c", script, RONDO)
    rondo("run", "-N", "2", *job).exits(1).says(r"\[0\] .*timeout.* 1 ").within(10)
    rondo("perf", "all_reduce", "-N", "2", *SMALL, env={"RONDO_TIMEOUT": "soon"}).exits(2).says("RONDO_TIMEOUT.*expected seconds.*soon")
    rondo("perf", "all_reduce", "-N", "2", *SMALL, "--timeout", "9", env={"RONDO_TIMEOUT": "soon"}).exits(0)


@case
def run_leaves_lines_alone_when_asked():
    outcome = rondo("run", "-N", "2", "--no-tag", "--", "echo", "plain").exits(0)
    assert outcome.out == "plain\nplain\n", outcome


@case
def run_takes_no_flags_of_the_command_for_its_own():
    outcome = rondo("run", "-N", "1", "echo", "-N", "7", "--no-tag", "--", "x").exits(0)
    assert outcome.out == "[0] -N 7 --no-tag -- x\n", outcome


# tests/launchers/ssh tests ranks on other hosts.
tables(
    ("run_says_what_is_wrong_with_its_hosts", "run", [
        ("-N 2 --hosts localhost:2 -- true", 0),
        ("-N 3 --hosts a,a -- true", 2, "--hosts: the list names 'a' twice"),
        ("-N 7 --hosts a:2,b:4 -- true", 2, "--hosts: the list has room for 6 ranks, but -N asks for 7"),
        ("-N 3 --hosts localhost:2 -- true", 2, "--hosts: the list has room for 2 ranks, but -N asks for 3"),
        ("-N 2 --hosts fe80::1 -- true", 2, r"--hosts: expected HOST\[:RANKS\].*brackets"),
        ("-N 2 --hosts a --no-token -- true", 1, "--no-token: .*add --tls"),
        ("-N 2 --hosts a --ssh '/nowhere/ssh -v' -- true", 1, "'/nowhere/ssh' cannot be run.*--ssh"),
        ("-N 2 --hosts a --ssh ' ' -- true", 2, "--ssh: expected a command"),
    ]),
    ("run_says_when_the_command_cannot_be_run", "run", [("-N 2 -- /no/such/program", 127, "/no/such/program", "No such file")]),
)  # fmt: skip


@case
def run_exports_variables():
    show = ("--", "sh", "-c", "echo $A/$B/$C")
    rondo("run", "-N", "1", "--export", "A=1,2", "--export", "B,C", *show, env={"A": "x", "B": "y", "C": "z"}).exits(0).says("1,2/y/z")
    rondo("run", "-N", "1", "--export", "A,NOWHERE", *show, env={"A": "x"}).exits(2).says("--export: variable 'NOWHERE' is not set here")
    rondo("run", "-N", "1", "--export", "=1", *show).exits(2).says("--export: expected NAME=VALUE")


@case
def run_takes_a_signal_though_no_reader_takes_its_output():
    rank = "trap 'echo asked > \"$0\"; exit 0' TERM; while :; do echo words words words; done"
    for ends in (os.pipe, pty.openpty):
        with tempfile.TemporaryDirectory() as folder:
            asked = pathlib.Path(folder, "asked")
            reads, writes = ends()
            ran = subprocess.Popen([RONDO, "run", "-N", "1", "--grace", "2", "--", "sh", "-c", rank, asked], stdout=writes, start_new_session=True)
            os.close(writes)
            before = -1
            while (there := readable_bytes(reads)) == 0 or there != before:  # until all buffers are full
                before = there
                time.sleep(0.2)
            ran.send_signal(signal.SIGTERM)
            try:
                code = ran.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(ran.pid, signal.SIGKILL)
                raise Failed("it waits for a reader") from None
            os.close(reads)
            assert code == 143 and asked.exists(), (ends, code, asked.exists())


def readable_bytes(fd):
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))[0]


@case
def run_fails_where_its_last_output_is_lost():
    reads, writes = os.pipe()
    ran = subprocess.Popen([RONDO, "run", "-N", "1", "--", "sh", "-c", "yes | head -c 500000"], stdout=writes)
    os.close(writes)
    while not os.read(reads, 100).startswith(b"[0] y"):
        pass
    time.sleep(0.3)  # the rank has ended, but its output still waits for a reader
    os.close(reads)
    assert ran.wait(SECONDS) == 1, ran.returncode


@case
def run_passes_everything_on_to_a_slow_reader_whose_pipe_does_not_wait():
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    ran = subprocess.Popen([RONDO, "run", "-N", "1", "--", "sh", "-c", "yes 0123456789 | head -200000"], stdout=writes)
    os.close(writes)
    got = 0
    while some := os.read(reads, 65536):
        got += len(some)
        time.sleep(0.002)
    os.close(reads)
    assert ran.wait(SECONDS) == 0 and got == 200000 * len("[0] 0123456789\n"), got


@case
def run_says_why_its_output_cannot_be_written():
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run([RONDO, "run", "-N", "2", "--", "sh", "-c", "echo words; sleep 60"], stdout=full, stderr=subprocess.PIPE, text=True,
                             timeout=SECONDS, check=False)  # fmt: skip
    assert ran.returncode == 1 and "rondo run: stdout cannot be written: No space left on device; ending all ranks" in ran.stderr, ran


@case
def what_run_starts_on_other_hosts_says_nothing_to_people():
    rondo("run-agent").exits(0).says("rondo-agent-1")  # ends when its stdin ends
    assert "run-agent" not in rondo("--help").out


@case
def run_goes_on_when_lines_are_longer_than_any_buffer():
    script = "head -c 300000 /dev/zero | tr '\\0' x; echo; echo end"
    outcome = rondo("run", "-N", "1", "--", "sh", "-c", script).exits(0).says(r"(?m)^\[0\] end$")
    assert outcome.out.count("x") == 300000, outcome.out[-200:]


@case
def the_example_of_the_readme_sums_under_run():
    outcome = rondo("run", "-N", "4", "--", companion("examples/all_reduce")).exits(0)
    for rank in range(4):
        outcome.says(f"rank {rank} of 4: the sum is 10")


@case
def the_example_pipeline_gets_the_gradients_of_one_process():
    for stages in (2, 3):
        outcome = rondo("run", "-N", stages, "--", companion("examples/pipeline")).exits(0)
        for stage in range(stages):
            outcome.says(rf"stage {stage} of {stages}: 16 micro-batches, weight gradient \S+, as in one process")


@case
def the_example_parameter_server_receives_from_every_worker_and_converges():
    outcome = rondo("run", "-N", "4", "--", companion("examples/parameter_server")).exits(0)
    outcome.says("server: 600 gradients from 3 workers, all 20 parameters within 0.01")
    for worker in (1, 2, 3):
        outcome.says(f"worker {worker}: 200 gradients sent and answered")
