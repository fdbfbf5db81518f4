"""`rondo run`: how a job ends, by ranks that fail, signals and launchers that are killed."""

import re
import signal
import subprocess
import sys
import tempfile

from cli import RONDO, rondo
from commands import Failed, Running, case, process_alive, wait_until


@case
def run_ends_all_when_one_fails_and_takes_its_exit_code():
    script = "[ $RANK = 1 ] && exit 9; exec sleep 60"
    rondo("run", "-N", "3", "--", "sh", "-c", script).exits(9).says(r"rank 1 \(pid \d+\) exited with code 9").within(10)


@case
def run_names_the_rank_and_the_signal_that_killed_it():
    script = "[ $RANK = 2 ] && kill -SEGV $$; exec sleep 60"
    rondo("run", "-N", "3", "--", "sh", "-c", script).exits(128 + 11).says(r"rank 2 \(pid \d+\) was killed by SIGSEGV").within(10)


@case
def run_names_the_rank_that_was_killed_though_another_gave_up_and_ended_before_it():
    script = "[ $RANK = 0 ] && exit 1; [ $RANK = 1 ] && { sleep 0.1; kill -KILL $$; }; exec sleep 300"
    rondo("run", "-N", "3", "--", "sh", "-c", script).exits(128 + 9).says(
        r"rank 1 \(pid \d+\) was killed by SIGKILL; ending the other rank").within(10)


@case
def run_leaves_the_others_alone_with_keep_going():
    script = 'if [ "$RANK" = 1 ]; then kill -9 $$; fi; sleep 0.5; echo went on'
    outcome = rondo("run", "-N", "3", "--keep-going", "--", "sh", "-c", script).exits(0)
    outcome.says(r"(?m)^\[0\] went on$", r"(?m)^\[2\] went on$",
                 r"rank 1 \(pid \d+\) was killed by SIGKILL; continuing with 2",
                 r"one rank was lost: rank 1 \(pid \d+\) was killed by SIGKILL; 2 ended well")


@case
def run_that_keeps_going_fails_when_no_rank_is_left():
    outcome = rondo("run", "-N", "2", "--keep-going", "--", "sh", "-c", "exit 7").exits(7)
    outcome.says("no rank is left", "2 ranks were lost", "0 ended well")


@case
def run_starts_a_rank_again_as_a_joiner():
    script = ('if [ "$RONDO_JOIN" = 1 ]; then echo rank $RANK came again as number $RONDO_RESTART; exit 0; fi; '
              'if [ "$RANK" = 1 ]; then exit 3; fi; sleep 1; echo first')
    outcome = rondo("run", "-N", "2", "--restarts", "2", "--", "sh", "-c", script).exits(0)
    outcome.says(r"(?m)^\[1\] rank 1 came again as number 1$", r"(?m)^\[0\] first$",
                 r"rank 1 \(pid \d+\) exited with code 3; continuing with 1, and starting it again")


@case
def run_starts_ranks_again_only_so_often():
    script = 'if [ "$RANK" = 1 ]; then exit 3; fi; sleep 1'
    outcome = rondo("run", "-N", "2", "--restarts", "2", "--", "sh", "-c", script).exits(0).says("3 ranks were lost")
    if outcome.err.count("starting it again") != 2:
        raise Failed(f"not two restarts\n{outcome}")


@case
def run_kills_ranks_that_do_not_end_when_asked():
    script = "trap '' TERM; [ $RANK = 0 ] && exit 3; while :; do sleep 0.1; done"
    rondo("run", "-N", "2", "--grace", "0.5", "--", "sh", "-c", script).exits(3).says("rank 1 did not end after SIGTERM").within(10)


@case
def run_takes_a_signal_though_a_rank_never_stops_writing():
    job = Running("sh", "-c", f"exec {RONDO} run -N 1 -- yes > /dev/null")
    wait_until(lambda: subprocess.run(["pgrep", "-x", "-P", str(job.process.pid), "yes"], capture_output=True, check=False).stdout, "yes runs")
    job.signal(signal.SIGINT).end().exits(130).within(10)


# Starts a command with a signal ignored, as nohup and some daemons do.
IGNORING = (sys.executable, "-c", "import os, signal, sys; signal.signal(int(sys.argv[1]), signal.SIG_IGN); os.execvp(sys.argv[2], sys.argv[2:])")


@case
def run_under_nohup_outlives_the_login():
    job = Running(*IGNORING, int(signal.SIGHUP), RONDO, "run", "-N", "2", "--", "sh", "-c", "echo begun; sleep 1; echo done")
    job.wait_for(r"(?s)begun.*begun")
    job.signal(signal.SIGHUP).end().exits(0).says(r"\[0\] done", r"\[1\] done")


@case
def run_sees_its_ranks_end_though_its_parent_ignores_the_ends_of_children():
    job = Running(*IGNORING, int(signal.SIGCHLD), RONDO, "run", "-N", "2", "--", "sh", "-c", "(exit 4) & wait $!; exit 3")
    job.end().exits(3).within(10)


@case
def run_names_who_failed_first_though_another_was_ended_by_an_exception():
    # Rank 1 waits until rank 0 has been reaped, as it would wait for the end of its connections.
    rank = '[ $RANK = 0 ] && { echo $$ > "$0"; exit 3; }; until [ -s "$0" ]; do sleep 0.01; done; while kill -0 $(cat "$0"); do sleep 0.01; done; kill -ABRT $$'
    with tempfile.TemporaryDirectory() as folder:
        rondo("run", "-N", "2", "--", "sh", "-c", rank, f"{folder}/pid").exits(3).says(r"rank 0 \(pid \d+\) exited with code 3")


@case
def interrupted_run_ends_its_ranks_and_their_children():
    job = Running(RONDO, "run", "-N", "2", "--", "sh", "-c", "sleep 300 & echo pids $$ $!; wait")
    job.wait_for(r"(?s)pids.*pids \d+ \d+\n")
    pids = [int(pid) for line in re.findall(r"pids (\d+ \d+)", job.text()) for pid in line.split()]
    job.signal(signal.SIGINT).end().exits(130).within(10)
    wait_until(lambda: not any(map(process_alive, pids)), f"processes {pids} end")


@case
def ranks_die_with_a_launcher_that_is_killed():
    job = Running(RONDO, "run", "-N", "2", "--", "sh", "-c", "echo pid $$; exec sleep 300")
    job.wait_for(r"(?s)pid.*pid \d+\n")
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", job.text())]
    job.signal(signal.SIGKILL).end()
    wait_until(lambda: not any(map(process_alive, pids)), f"processes {pids} end")


@case
def what_a_rank_that_is_a_script_runs_dies_with_a_launcher_that_is_killed():
    job = Running(RONDO, "run", "-N", "2", "--", "sh", "-c", "sleep 300 & echo pids $$ $!; wait")
    job.wait_for(r"(?s)pids.*pids \d+ \d+\n")
    pids = [int(pid) for line in re.findall(r"pids (\d+ \d+)", job.text()) for pid in line.split()]
    job.signal(signal.SIGKILL).end()
    wait_until(lambda: not any(map(process_alive, pids)), f"processes {pids} end")


@case
def run_passes_the_signal_on_to_its_ranks():
    script = "trap 'echo caught; exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    job = Running(RONDO, "run", "-N", "2", "--", "sh", "-c", script)
    job.wait_for(r"(?s)ready.*ready")
    job.signal(signal.SIGUSR1).end().exits(0).says(r"\[0\] caught", r"\[1\] caught")
