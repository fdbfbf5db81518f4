"""Wrong usage, help, and output that is lost, of every subcommand."""

import contextlib
import os
import pty
import re
import signal
import subprocess

from cli import LONG, ROOT, RONDO, SMALL, rondo, tables
from commands import SECONDS, Failed, case


@case
def version_and_help_are_not_failures():
    rondo("--version").exits(0).says(r"^rondo \d+\.\d+\.\d+")
    rondo("--help").exits(0).says("run", "perf", "explain", "doctor", "verify", "chaos", "tune", "store", "trace")


@case
def help_names_every_flag():
    flags = {
        "run": "-N --ranks --hosts --ssh --remote-rondo --master-address --export --stdin --no-tag --no-token --timeout --ports --grace --keep-going --restarts --tls",
        "perf": "-N --ranks --rendezvous --rank --world-size -b --min-bytes -e --max-bytes -f --step-factor -i --step-bytes "
                "-n --iters --time-ms --duration -w --warmup -d --dtype -o --op -r --root --algorithm --transport --rails --qp --address --addresses "
                "--interface --ports --in-place --out-of-place --uneven --device --device-window --gpu-timeslice-staging-max --allocate --reproducible --fp32-accumulate --checksums --compare-results --profile --predicted --check --timeout --json --csv --html "
                "--baseline --max-regression --record-dir --tls",
        "doctor": "-N --ranks --transport --peers --timeout -q --quiet --json",
        "explain": "-N --ranks --bytes --dtype --algorithm --root --transport --reproducible --text --profile --ports",
        "tune": "-N --ranks --collectives -b --min-bytes -e --max-bytes -f --step-factor --rounds --time-ms --out --name --check --profile --checksums --compare-results --timeout",
        "verify": "--max-ranks --collective --algorithm",
        "chaos": "--seed --seeds --world --trace --json --negative",
        "store": "--listen --tls",
        "trace": "--out --json",
    }
    variables = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT RONDO_STORE RONDO_EXTERNAL_STORE RONDO_JOB RONDO_TOKEN RONDO_TIMEOUT RONDO_PORTS RONDO_TLS"
    rondo("run", "--help").says(*(rf"\b{name}\b" for name in variables.split()))
    for command, names in flags.items():
        outcome = rondo(command, "--help").exits(0)
        for flag in names.split():
            outcome.says(r"(^|[\s,])" + re.escape(flag) + r"\b")


tables(
    ("nothing_asked_is_wrong_usage", "", [("", 2, "subcommand", "--help")]),
    ("unknown_subcommand_is_wrong_usage", "", [("preff", 2, "preff")]),
    ("unknown_flag_is_named_and_the_nearest_one_offered", "", [
        ("perf all_reduce -N 2 --min-bites 4", 2, "--min-bites", r"did you mean --min-bytes\?"),
        ("explain all_reduce -N 2 --bogus", 2, "--bogus"),
    ]),
    ("wrong_values_name_the_flag_and_what_it_expects", "perf all_reduce -N 2", [
        ("-b 12Q", 2, r"--min-bytes.*expected bytes.*12Q"),
        ("-e -4", 2, "--max-bytes.*expected bytes"),
        ("-e ''", 2, "--max-bytes"),
        ("-f 1", 2, "--step-factor.*from 2"),
        ("-n 0", 2, "--iters.*from 1"),
        ("-n many", 2, "--iters.*many"),
        ("-d float33", 2, "--dtype.*float32.*float33"),
        ("-o plus", 2, "--op.*sum.*plus"),
        ("-r -1", 2, "--root.*rank"),
        ("--algorithm rign", 2, "--algorithm.*ring.*rign"),
        ("--transport pigeon", 2, "--transport.*tcp.*pigeon"),
        ("--timeout 0", 2, "--timeout.*seconds"),
        ("--check 2", 2, "--check"),
        ("--max-regression 'a lot'", 2, "--max-regression.*percentage"),
        ("--max-regression nan%", 2, "--max-regression.*percentage"),
        ("--max-regression inf%", 2, "--max-regression.*percentage"),
        ("--rails 17", 2, "--rails"),
        ("--qp 0", 2, "--rails"),
        ("-d float32,", 2, "--dtype.*got ''"),
        ("--algorithm ''", 2, "--algorithm.*got ''"),
    ]),
    ("flags_that_contradict_are_wrong_usage", "perf all_reduce", [
        ("-N 2 -b 4K -e 1K", 2, "--min-bytes"),
        ("-N 2 -f 2 -i 4", 2, "--step-bytes"),
        ("-N 2 --json - --csv -", 2, "--json", "--csv"),
        ("-N 2 --rank 1", 2, "--rank"),
        ("--transport inproc", 2, "-N"),
        ("-N 2 --transport inproc --address 127.0.0.1", 2, "--address: .*inproc"),
        ("-N 2 --transport inproc --interface lo", 2, "--interface: .*inproc"),
    ]),
    ("senseless_pairings_are_errors_when_asked_for", "perf", [
        ("all_reduce -N 2 -o band -d float32", 2, "band", "float32"),
        ("broadcast -N 2 --algorithm dissemination", 2, "dissemination", "broadcast"),
        ("all_reduce -N 2 --uneven", 2, "--uneven", "all_reduce has no count per rank"),
        ("all_to_all -N 2 --in-place", 2, "--in-place", "all_to_all has no in-place form"),
        ("all_to_all -N 2 --uneven --algorithm bruck", 2, "bruck", "equal counts"),
        ("all_reduce -N 2 --reproducible --algorithm ring", 2, "ring", "left fold"),
        ("all_reduce -N 2 --fp32-accumulate", 2, "--fp32-accumulate", "float16 or bfloat16"),
    ]),
    ("an_unknown_collective_gets_the_list_of_names", "perf", [
        ("all_shuffle -N 2", 2, "all_shuffle", "all_reduce", "reduce_scatter", "all_to_all", "send_recv or all"),
    ]),
    ("ranks_and_roots_outside_the_world_are_wrong_usage", "", [
        ("perf broadcast -N 2 -r 2", 2, r"--root.*2 is outside 0\.\.1"),
        ("perf all_reduce --rendezvous tcp://127.0.0.1:1 --rank 5 --world-size 2", 2, r"rank 5 is outside 0\.\.1"),
        ("explain broadcast -N 3 -r 3", 2, r"--root.*outside 0\.\.2"),
    ]),
    ("a_rendezvous_that_is_no_url_is_wrong_usage", "perf all_reduce", [
        ("--rendezvous carrier://pigeon --rank 0 --world-size 1", 2, "carrier"),
    ]),
    ("ranks_from_nowhere_are_explained", "perf all_reduce", [
        ("", 2, "-N RANKS", "--rendezvous", "RONDO_RENDEZVOUS", "OMPI_COMM_WORLD_RANK", "PMI_FD", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID",
         "MASTER_ADDR"),
    ]),
)  # fmt: skip


@case
def files_that_cannot_be_written_are_reported_before_anything_is_measured():
    rondo("perf", "all_reduce", "-N", "2", "--json", "/nowhere/x.json").exits(2).says("--json", "/nowhere/x.json").within(5)
    rondo("perf", "all_reduce", "-N", "2", "--baseline", "/nowhere/x.json").exits(2).says("--baseline", "/nowhere/x.json")
    rondo("perf", "all_reduce", "-N", "2", *LONG, "--baseline", "/etc/passwd").exits(2).says("--baseline: /etc/passwd: this is not what").within(5)


@case
def output_that_is_lost_is_no_success():
    explain = ("explain", "all_reduce", "-N", "4", "--transport", "tcp")
    for arguments in (explain, ("perf", "all_reduce", "-N", "2", *SMALL), ("--help",)):
        with open("/dev/full", "w", encoding="utf-8") as full:
            ran = subprocess.run([RONDO, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
        assert ran.returncode == 1 and "stdout cannot be written: " in ran.stderr, (arguments, ran)


@case
def output_without_a_reader_changes_no_exit_code():
    for arguments, code in ((("run", "-N", "2", "--", "sh", "-c", "exit 3"), 3), (("perf",), 2), (("run", "-N", "1", "--", "/nowhere"), 127)):
        reads, writes = os.pipe()
        os.close(reads)
        ran = subprocess.run([RONDO, *arguments], stdout=subprocess.DEVNULL, stderr=writes, timeout=SECONDS, check=False,
                             preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN))  # fmt: skip
        os.close(writes)
        assert ran.returncode == code, (arguments, ran)


@case
def long_work_shows_its_progress_on_a_terminal_only():
    for command, label in ((("verify", "--algorithm", "dissemination"), r"barrier dissemination, \d+ ranks"),
                           (("perf", "all_reduce", "-N", "2", *SMALL), "all_reduce float32 sum")):
        terminal, theirs = pty.openpty()
        job = subprocess.Popen([RONDO, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, cwd=ROOT)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError), contextlib.closing(os.fdopen(terminal, "rb", buffering=0)) as screen:
            while more := screen.read(4096):  # EIO when the other side is closed
                shown += more
        out, _ = job.communicate(timeout=SECONDS)
        if job.returncode != 0 or not re.search(rf"\[[#.]+\] \d+/\d+ {label}", shown.decode()):
            raise Failed(f"{command}: exit code {job.returncode}, on the terminal {shown!r}\n{out.decode()}")
        if not shown.endswith(b"\r\x1b[K"):
            raise Failed(f"{command} leaves its bar behind: {shown!r}")
        assert rondo(*command).exits(0).err == "", command
