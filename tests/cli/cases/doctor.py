"""`rondo doctor`."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import tempfile
import time

from cli import ROOT, RONDO, fake_gpu, rondo, tables
from commands import Running, Skipped, case, free_port


def doctor(*arguments, prefix=(), env=None):
    """Its outcome, and its findings by subject."""
    outcome = Running(*prefix, RONDO, "doctor", "--json", "-", *arguments, env=env).end()
    report = json.loads(outcome.out)
    counted = {level: sum(1 for one in report["findings"] if one["level"] == level) for level in ("bad", "warn")}
    assert (report["bad"], report["warnings"]) == (counted["bad"], counted["warn"]), outcome
    outcome.exits(1 if report["bad"] else 0).says(rf"(?m)^{report['bad']} bad, {report['warnings']} warning")
    assert all(bool(one["remedy"]) == (one["level"] != "ok") for one in report["findings"]), outcome
    return {one["subject"]: one for one in report["findings"]}


def under(limit):
    """Words in front of a command, for a shell's ulimit."""
    return ("bash", "-c", f'ulimit {limit}; exec "$@"', "bash")


@case
def doctor_says_what_is_well_and_writes_the_same_as_json():
    found = doctor("-N", "2")
    for subject in ("127.0.0.1", "own ports", "congestion control", "/dev/shm", "open files (ulimit -n)", "cores"):
        assert subject in found, (subject, found)
    with tempfile.TemporaryDirectory() as folder:
        rondo("doctor", "--json", f"{folder}/doctor.json").says(r"(?m)^  ok    ", r"(?m)^\d+ bad, \d+ warnings?$")
        assert json.loads(pathlib.Path(folder, "doctor.json").read_text())["findings"]
    assert "  ok  " not in rondo("doctor", "--quiet").out


@case
def doctor_says_what_ranks_may_do_with_gpus():
    def finding(subject, *arguments, **settings):
        return doctor(*arguments, env=fake_gpu(**settings)).get(subject)

    assert finding("driver", FAKE_CUDA_DEVICES="2")["what"].startswith("finds 2 GPUs")
    unanswered = finding("driver", FAKE_CUDA_DEVICES="0")
    if any(re.fullmatch(r"nvidia\d+", file.name) for file in pathlib.Path("/dev").iterdir()):
        assert unanswered["level"] == "warn", unanswered
    assert finding("sharing")["level"] == "ok"  # the number of ranks is not given
    time_sliced = finding("sharing", "-N", "2")
    assert time_sliced["level"] == "warn" and "2 ranks share 1 GPU" in time_sliced["what"], time_sliced
    assert finding("sharing", "-N", "2", FAKE_CUDA_MPS="1")["level"] == "ok"
    alone = finding("GPU 0 (Fake GPU)", "-N", "2", FAKE_CUDA_COMPUTE_MODE="3")  # CU_COMPUTEMODE_EXCLUSIVE_PROCESS
    assert alone["level"] == "warn" and "one process" in alone["what"], alone


@case
def doctor_waits_for_no_driver_that_does_not_answer():
    env = fake_gpu(FAKE_CUDA_INIT_MS="600000")
    outcome = Running(RONDO, "doctor", "--timeout", "0.1", env=env).end().within(10)
    outcome.says("(?m)^GPU$", "driver: .*NVIDIA's driver did not answer within 1 s")
    waiting = Running(RONDO, "doctor", "--timeout", "30", env=env)
    time.sleep(0.3)
    waiting.signal(signal.SIGTERM).end().within(5)  # Ctrl-C's signal is ignored if a shell runs the tests in the background


tables(
    ("doctor_refuses_flags_that_mean_nothing", "doctor", [
        ("--peers node2", 2, "--peers.*HOST:PORT.*node2"),
        ("--peers a:1,", 2, "--peers.*HOST:PORT"),
        ("--peers a:0", 2, "--peers"),
        ("--transport pigeon", 2, "--transport.*tcp.*pigeon"),
        ("-N 0", 2, "--ranks.*from 1"),
        ("--timeout 0", 2, "--timeout.*seconds"),
        ("--json /nowhere/x.json", 2, "--json.*/nowhere/x.json"),
    ]),
)  # fmt: skip


@case
def doctor_tells_peers_that_listen_from_those_that_do_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        reached, refused = f"127.0.0.1:{server.getsockname()[1]}", f"127.0.0.1:{free_port()}"
        found = doctor("--peers", f"{reached},{refused},nosuch.invalid:1")
    assert found[f"peer {reached}"]["level"] == "ok", found
    assert "reached from 127.0.0.1 (lo)" in found[f"peer {reached}"]["what"], found
    assert found[f"peer {refused}"]["level"] == "warn" and "no process listens" in found[f"peer {refused}"]["what"], found
    assert found["peer nosuch.invalid:1"]["level"] == "bad", found


@case
def doctor_knows_low_limits_and_needs_no_root():
    found = doctor("-N", "8", prefix=under("-n 64"))
    assert found["open files (ulimit -n)"]["level"] == "bad" and found["open files (ulimit -n)"]["remedy"], found
    doctor("-N", "2", prefix=under("-n 12"))  # too few even for the doctor's own checks
    found = doctor("-N", "2", "--transport", "shm", prefix=under("-f 256"))
    assert found["shared memory"]["level"] == "bad" and "ulimit -f" in found["shared memory"]["remedy"], found
    if os.geteuid() == 0 and os.access(RONDO, os.X_OK):
        with tempfile.TemporaryDirectory() as folder:  # another user may read this folder
            os.chmod(folder, 0o755)
            copy = shutil.copy(RONDO, folder)
            outcome = Running("setpriv", "--reuid=65534", "--clear-groups", copy, "doctor", "-N", "2").end()
        assert outcome.code in (0, 1), outcome
        outcome.says("firewall: only root can see its rules")


@case
def doctor_sees_what_the_system_refuses():
    forbid = str(ROOT / "tests/support/forbid")
    found = doctor("-N", "2", prefix=(forbid, "reading_memory"))
    assert found["peers' memory"]["level"] == "warn" and "half the speed" in found["peers' memory"]["what"], found
    found = doctor("-N", "2", "--transport", "shm", prefix=(forbid, "memfd"))
    assert found["shared memory"]["level"] == "bad", found


@case
def doctor_finds_the_port_whose_packets_leave_by_another_one():
    """Two interfaces of a network namespace in one subnet: one routing table sends all by the first, tables of their own do not."""
    if os.geteuid() != 0:
        raise Skipped("network namespaces need root")
    name = f"rondo-d{os.getpid()}"
    ip = ("ip", "-n", name)
    Running("ip", "netns", "add", name).end().exits(0)
    try:
        Running(*ip, "link", "set", "lo", "up").end().exits(0)
        for own in range(2):
            Running(*ip, "link", "add", f"eth{own}", "type", "veth", "peer", "name", f"p{own}").end().exits(0)
            for device in (f"eth{own}", f"p{own}"):
                Running(*ip, "link", "set", device, "up").end().exits(0)
            Running(*ip, "addr", "add", f"10.79.0.{1 + own}/24", "dev", f"eth{own}").end().exits(0)
        prefix = ("ip", "netns", "exec", name)
        found = doctor(prefix=prefix)
        assert found["10.79.0.2"]["level"] == "warn" and "leave by eth0 instead of eth1" in found["10.79.0.2"]["what"], found
        for words in (("route", "add", "10.79.0.0/24", "dev", "eth1", "table", "101"), ("rule", "add", "from", "10.79.0.2", "lookup", "101")):
            Running(*ip, *words).end().exits(0)
        assert doctor(prefix=prefix)["10.79.0.2"]["level"] == "ok"
    finally:
        Running("ip", "netns", "del", name).end().exits(0)


@case
def doctor_calls_missing_rdma_bad_only_where_it_was_asked_for():
    if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        raise Skipped("there is an RDMA device")
    assert doctor()["RDMA"]["level"] == "ok"
    assert doctor("--transport", "ib")["RDMA"]["level"] == "bad"
    assert "RDMA" not in doctor("--transport", "tcp")


@case
def doctor_reads_the_environment_as_a_job_would():
    found = doctor(env={"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "GLOO_SOCKET_IFNAME": "eth987",
                        "NCCL_SOCKET_IFNAME": "eth987", "RONDO_TIMEOT": "3", "RONDO_TOKEN": "hush-hush"})
    assert found["MASTER_ADDR"]["level"] == "bad", found
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "RONDO_TIMEOT"):
        assert found[name]["level"] == "warn", found
    assert found["RONDO_TOKEN"]["level"] == "ok" and "hush" not in str(found), found
