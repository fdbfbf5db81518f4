"""A case of tests/faults/processes/run: its ranks as processes, what they said, and what is expected of them.

A case is a function of a Stage. It starts ranks with scripts (steps.h), hurts them, and says how each group of them must
have ended; the Stage holds what every case must show besides: the fault fired, no living rank hangs, computes wrongly,
or leaves a descriptor, thread or mapping behind, and nothing of the case still runs when it is over.
"""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))

# pylint: disable=wrong-import-position
from commands import Failed, Running, process_alive  # noqa: E402

PATIENCE_S = 120  # the longest wait for one event; a hang fails the case then
SLACK_S = 1.0  # allowed beyond a deadline, as faults.py requires
GRACE_S = float(os.environ.get("RONDO_TEST_GRACE", "0"))  # additional time, for sanitizers
HOST = socket.gethostname()


class Programs:
    rondo = str(ROOT / "bazel-bin/tools/rondo")
    rank = str(ROOT / "bazel-bin/tests/faults/processes/rank")
    soaker = str(ROOT / "bazel-bin/tests/faults/processes/soaker")


CASES = {}  # by name


class Case:
    def __init__(self, function, faults, paths, alone):
        self.function, self.faults, self.paths, self.alone = function, faults, paths, alone
        self.name = function.__name__


def case(*faults, paths=("tcp", "shm"), alone=False):
    """Registers a case of these faults of the list, which runs once for each path; `alone`: while nothing else does."""
    def register(function):
        CASES[function.__name__] = Case(function, faults, paths, alone)
        return function
    return register


class Rank:
    """One process: what it says, where it is, and its end."""

    def __init__(self, stage, number, command, status_page):
        self.stage, self.number, self.status_page_path = stage, number, status_page
        self.running = Running(*command, env={"RONDO_FAULT_CASE": stage.mark})
        self.pid = self.running.process.pid
        self.killed_at = None

    def events(self, name=None):
        found = []
        for line in list(self.running.texts["out"]):
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if name is None or event["event"] == name:
                    found.append(event)
        return found

    def said(self, event_name, **fields):
        return next((e for e in self.events(event_name) if all(e.get(k) == v for k, v in fields.items())), None)

    def awaits(self, event_name, **fields):
        """The event, once it has been said. A rank that ends without it fails the case."""
        deadline = time.monotonic() + PATIENCE_S
        while (event := self.said(event_name, **fields)) is None:
            if self.running.process.poll() is not None:
                for reader in self.running.readers:
                    reader.join(5)
                if (event := self.said(event_name, **fields)) is not None:
                    break
                raise Failed(f"rank {self.number} ended without saying '{event_name}' {fields or ''}")
            if time.monotonic() > deadline:
                raise Failed(f"rank {self.number} does not say '{event_name}' {fields or ''}")
            time.sleep(0.002)
        return event

    def status_page(self):
        """step, inside, calls, combines, fired: see status_page.h."""
        try:
            return dict(zip(("step", "inside", "calls", "combines", "fired"),
                            struct.unpack("=5Q", pathlib.Path(self.status_page_path).read_bytes()[:40])))
        except (FileNotFoundError, struct.error):  # the file does not exist yet
            return dict.fromkeys(("step", "inside", "calls", "combines", "fired"), 0)

    def awaits_inside(self, step, at_least_s=0.05):
        """Until it has been inside of the library in that step of its script (from 1), for some time."""
        deadline = time.monotonic() + PATIENCE_S
        since = None
        while since is None or time.monotonic() - since < at_least_s:
            status_page = self.status_page()
            if (status_page["step"], status_page["inside"]) != (step, 1):
                since = None
            elif since is None:
                since = time.monotonic()
            if time.monotonic() > deadline:
                raise Failed(f"rank {self.number} is not inside of step {step}: {status_page}")
            time.sleep(0.002)

    def signal(self, number):
        """When it was sent, in nanoseconds of the clock that events have."""
        now = time.monotonic_ns()
        os.kill(self.pid, number)
        if number == signal.SIGKILL:
            self.killed_at = now
        return now

    def kill(self):
        now = self.signal(signal.SIGKILL)
        self.running.process.wait()
        return now

    def stop(self):
        """Returns when it stands still."""
        now = self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + PATIENCE_S
        while self.state() != "T":
            if time.monotonic() > deadline:
                raise Failed(f"rank {self.number} does not stop")
            time.sleep(0.001)
        return now

    def resume(self):
        return self.signal(signal.SIGCONT)

    def state(self):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return "gone"

    def text(self):
        return "".join(f"    {self.number}: {line}" for line in self.running.text().splitlines(keepends=True))


class Stage:
    """One run of a case."""

    counter = 0
    lock = threading.Lock()

    def __init__(self, case_, path, seed):
        self.case, self.path, self.seed = case_, path, seed
        self.dice = random.Random(f"{case_.name} {path} {seed}")
        with Stage.lock:
            Stage.counter += 1
            self.mark = f"{os.getpid()}-{Stage.counter}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rondo_fault_"))
        self.ranks, self.others, self.mounts = [], [], []
        self.fired = 0
        self.row = {"fault": case_.faults[0], "case": case_.name, "layer": "processes", "path": path, "fired": 0, "outcome": "",
                    "detected_ms": None, "survivors": 0}

    # ---- setting up ----

    def file_store(self):
        return f"file://{self.folder}/store"

    def tcp_store(self, *flags):
        """A `rondo store` of its own, and its URL."""
        store = self.start(Programs.rondo, "store", "--listen", "127.0.0.1:0", *flags)
        return store, store.wait_for(r"listening on (tcp://\S+)")[1]

    def start(self, *command, env=None):
        running = Running(*command, env={"RONDO_FAULT_CASE": self.mark, **(env or {})})
        self.others.append(running)
        return running

    def rank(self, number, world, script, *flags, url=None, before=(), serves=False, **options):
        """Starts one; options are its flags (rank.cc): timeout=3 is --timeout 3. `serves`: rank 0 is the store at url."""
        status_page = self.folder / f"status_page-{len(self.ranks)}"
        named = {"rendezvous": self.file_store() if url is None else url, "rank": number, "world-size": world, "script": script,
                 "folder": self.folder, "status-page": status_page, "path": self.path if self.path in ("tcp", "shm") else "auto",
                 "seed": self.seed, **{key.replace("_", "-"): value for key, value in options.items()}}
        if url is not None and url.startswith("tcp:") and not serves:
            flags = (*flags, "--external-store")
        command = [*before, Programs.rank, *flags]
        for key, value in named.items():
            command += [f"--{key}", str(value)]
        rank = Rank(self, number, command, status_page)
        self.ranks.append(rank)
        return rank

    def job(self, *scripts, **options):
        """A rank for each script, or for one script and `ranks`."""
        ranks = options.pop("ranks", len(scripts))
        if len(scripts) == 1:
            scripts = scripts * ranks
        return [self.rank(number, ranks, script, **options) for number, script in enumerate(scripts)]

    def release(self, name):
        (self.folder / name).touch()

    # ---- what is expected ----

    def fire(self, times, what):
        """That the fault was there, as something says that would not say so without it."""
        if times < 1:
            raise Failed(f"the fault did not fire: {what}")
        self.fired += times

    def expect(self, condition, what):
        if not condition:
            raise Failed(what)

    def failed(self, ranks, codes, culprit=None, since_ns=None, within_s=None, alike=True, says=(), step=None, inside=False):
        """All of them say an error of these codes that names the culprit, within so many seconds of since_ns; some of them
        `inside` of an operation, which they name (a rank that learns of it before it begins fails with a call that has no number)."""
        codes = codes if isinstance(codes, tuple) else (codes,)
        errors = [rank.awaits("failed", **({"step": step} if step else {})) for rank in ranks]
        for rank, error in zip(ranks, errors):
            self.expect(error["code"] in codes, f"rank {rank.number} says {error['code']}, not {' or '.join(codes)}")
            if culprit is not None:
                self.expect(error["culprit"] == culprit, f"rank {rank.number} names {error['culprit']}, not {culprit}")
                self.expect(f"rank {culprit} (host {error['host']}" in error["text"] and error["host"],
                            f"rank {rank.number} does not say on which host rank {culprit} is")
            self.expect(bool(error["collective"]) == ("sequence" in error), f"rank {rank.number} names half an operation")
            for pattern in says:
                self.expect(pattern in error["text"], f"rank {rank.number} does not say '{pattern}'")
        if alike and len({error["culprit"] for error in errors}) > 1:
            raise Failed(f"they name {[error['culprit'] for error in errors]}")
        self.expect(not inside or any(error["collective"] for error in errors), "no error says in which operation")
        sequences = [error["sequence"] for error in errors if "sequence" in error]
        if alike and sequences and max(sequences) - min(sequences) > 1:
            raise Failed(f"they fail in operations {sequences}")  # a rank may have finished an operation that others have not
        if since_ns is not None:
            took_ms = max((error["ns"] - since_ns) / 1e6 for error in errors)
            if within_s is not None and took_ms > (within_s + SLACK_S + GRACE_S) * 1e3:
                raise Failed(f"reported after {took_ms:.0f} ms; {within_s} s and {SLACK_S} s are allowed")
            self.row["detected_ms"] = round(max(took_ms, self.row["detected_ms"] or 0), 1)
        self.outcome("typed_error " + "|".join(sorted({error["code"] for error in errors})), len(ranks))
        return errors

    def outcome(self, text, survivors):
        if text not in self.row["outcome"].split("; "):
            self.row["outcome"] = "; ".join(filter(None, (self.row["outcome"], text)))
        self.row["survivors"] = max(self.row["survivors"], survivors)

    def went_on(self, ranks, generation=None):
        """All of them, as ranks of one new generation whose sums were right."""
        rebuilt = [rank.awaits("rebuilt") for rank in ranks]
        for new, (rank, event) in enumerate(zip(ranks, rebuilt)):
            self.expect((event["rank"], event["world_size"]) == (new, len(ranks)),
                        f"rank {rank.number} is now rank {event['rank']} of {event['world_size']}, not {new} of {len(ranks)}")
            self.expect(rank.awaits("closed")["ns"] > event["ns"], f"rank {rank.number} did not go on")
        generations = {event["generation"] for event in rebuilt}
        self.expect(len(generations) == 1, f"generations {generations} go on")
        self.expect(generation is None or generations == {generation}, f"generation {generations}, not {generation}")

    def clean(self, ranks, cpu_s=None):
        """All of them came to their end, and have nothing left over."""
        for rank in ranks:
            event = rank.awaits("clean")
            self.expect(not event["left_over"], f"rank {rank.number} has left over: {event['left_over']}")
            if cpu_s is not None:
                self.expect(event["cpu_s"] <= cpu_s, f"rank {rank.number} computed for {event['cpu_s']:.1f} s")
            self.expect(rank.running.process.wait(PATIENCE_S) == 0, f"rank {rank.number} ended with {rank.running.process.poll()}")

    def died(self, rank, number=signal.SIGKILL):
        code = rank.running.process.wait(PATIENCE_S)
        self.expect(code == -number, f"rank {rank.number} ended with {code}, not by signal {number}")

    def new_job(self, ranks=2, **options):
        """Liveness: with the fault gone a new job of as many ranks connects and sums."""
        options.setdefault("url", f"file://{self.folder}/new_store")
        fresh = [self.rank(number, ranks, "connect sums:5 close", **options) for number in range(ranks)]
        for rank in fresh:
            self.expect(rank.awaits("clean") and rank.said("closed"), f"rank {rank.number} of the new job did not come through")
        self.clean(fresh)

    # ---- the end ----

    def text(self):
        return "".join(rank.text() for rank in self.ranks) + "".join(running.text() for running in self.others)

    def processes(self):
        """What of the case still runs, as folders in /proc."""
        mark = f"RONDO_FAULT_CASE={self.mark}".encode()
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0") and process_alive(int(folder.name)):
                    yield folder

    def leftovers(self):
        """What of the case still runs, or lies about."""
        found = []
        for folder in self.processes():
            with contextlib.suppress(OSError):
                found.append(f"process {folder.name}: {(folder / 'cmdline').read_bytes().decode().split(chr(0))[:2]}")
        pids = {str(rank.pid) for rank in self.ranks}
        for entry in pathlib.Path("/dev/shm").iterdir():
            if "rondo" in entry.name and any(pid in entry.name for pid in pids):
                found.append(str(entry))
        return found

    def run(self):
        """The row of the case; raises Failed."""
        started = time.monotonic()
        shm_before = {entry.name for entry in pathlib.Path("/dev/shm").iterdir() if "rondo" in entry.name}
        try:
            self.case.function(self)
            for rank in self.ranks:
                if wrong := rank.events("wrong"):
                    raise Failed(f"rank {rank.number}: {wrong}")
                rank.running.process.wait(PATIENCE_S)
            for running in self.others:
                if running.process.poll() is None:
                    running.signal(signal.SIGTERM)
                running.end()
            deadline = time.monotonic() + 5  # a killed process may need a moment
            while (left := self.leftovers()) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.expect(not left, f"left over: {left}")
            shm_now = {entry.name for entry in pathlib.Path("/dev/shm").iterdir() if "rondo" in entry.name}
            self.expect(shm_now <= shm_before, f"left in /dev/shm: {shm_now - shm_before}")
            self.expect(self.fired, "the fault did not fire: nothing said so")
            self.row["fired"] = self.fired
        except Failed as failure:
            raise Failed(f"{failure}\n{self.text()}") from None
        finally:
            self.clear()
            self.row["seconds"] = round(time.monotonic() - started, 1)
        return self.row

    def clear(self):
        for running in [rank.running for rank in self.ranks] + self.others:
            if running.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(running.process.pid, signal.SIGCONT)
                running.kill()
        for folder in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(folder.name), signal.SIGKILL)
        for running in [rank.running for rank in self.ranks] + self.others:
            for reader, stream in zip(running.readers, (running.process.stdout, running.process.stderr)):
                reader.join(5)
                if not reader.is_alive():  # no process has the other end any more
                    stream.close()
        for mount in reversed(self.mounts):
            mount()
        shutil.rmtree(self.folder, ignore_errors=True)
