"""What tests of command lines are written with: commands at work, what became of them, and a runner of cases."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = float(os.environ.get("RONDO_TEST_PATIENCE", "90"))  # the longest wait for one command; long, because a busy machine is slow but right

# Variables that a launcher of the tests may have set; they would describe other processes.
LAUNCHERS_VARIABLES = r"(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT)$|OMPI_COMM|PMI|SLURM_|TORCHELASTIC|RONDO_"


class Failed(Exception):
    """A case whose expectation did not hold."""


class Skipped(Exception):
    """A case that this machine or build cannot run; says why."""


CASES = []


def case(function):
    CASES.append(function)
    return function


class Outcome:
    """A command that has ended."""

    def __init__(self, command, code, out, err, seconds):
        self.command, self.code, self.out, self.err, self.seconds = command, code, out, err, seconds

    def __str__(self):
        return f"$ {' '.join(self.command)}\nexit code {self.code} after {self.seconds:.1f} s\n{self.out}{self.err}"

    def exits(self, code):
        if self.code != code:
            raise Failed(f"expected exit code {code}\n{self}")
        return self

    def fails(self):
        if self.code == 0:
            raise Failed(f"expected a failure\n{self}")
        return self

    def says(self, *patterns):
        for pattern in patterns:
            if not re.search(pattern, self.out + self.err):
                raise Failed(f"nothing matches {pattern!r}\n{self}")
        return self

    def within(self, seconds):
        if self.seconds > seconds:
            raise Failed(f"took more than {seconds} s\n{self}")
        return self


class Running:
    """A command at work, its output collected by threads. It is a session of its own, so that nothing outlives a case."""

    at_work = set()  # commands whose end was not collected yet

    def __init__(self, *command, env=None):
        self.command = [str(part) for part in command]
        self.started = time.monotonic()
        clean = {name: value for name, value in os.environ.items() if not re.match(LAUNCHERS_VARIABLES, name)}
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**clean, **(env or {})}, start_new_session=True, cwd=ROOT)
        Running.at_work.add(self)
        self.texts = {"out": [], "err": []}
        self.readers = [threading.Thread(target=self._read, args=(name, stream), daemon=True)
                        for name, stream in (("out", self.process.stdout), ("err", self.process.stderr))]
        self.news = threading.Condition()
        for reader in self.readers:
            reader.start()

    def _read(self, name, stream):
        for line in stream:
            with self.news:
                self.texts[name].append(line)
                self.news.notify_all()

    def text(self):
        return "".join(self.texts["out"] + self.texts["err"])

    def wait_for(self, pattern):
        """Until some line of its output matches."""
        deadline = time.monotonic() + SECONDS
        with self.news:
            while not (match := re.search(pattern, self.text())):
                if not self.news.wait(min(1, max(0, deadline - time.monotonic()))) and time.monotonic() >= deadline:
                    raise Failed(f"{self.command} never said {pattern!r}\n{self.text()}")
        return match

    def signal(self, number):
        self.process.send_signal(number)
        return self

    def end(self):
        """Its outcome; a command that does not end in time is killed and fails the case."""
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{' '.join(self.command)} hangs\n{self.text()}") from None
        Running.at_work.discard(self)
        seconds = time.monotonic() - self.started
        for reader, stream in zip(self.readers, (self.process.stdout, self.process.stderr)):
            reader.join(5)  # takes longer only if another process has inherited the stream
            if not reader.is_alive():
                stream.close()
        return Outcome(self.command, code, "".join(self.texts["out"]), "".join(self.texts["err"]), seconds)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        Running.at_work.discard(self)


_held_ports = []


def free_port():
    """A loopback port that no process listens on and that no other process is given: it stays bound, without listening,
    to the end, and a server that reuses addresses, as ours do, can still listen there."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    _held_ports.append(held)
    return held.getsockname()[1]


def process_alive(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_until(condition, what):
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(f"not within {SECONDS} s: {what}")
        time.sleep(0.02)


def run_cases(names, program):
    """Runs those of CASES that are named, or all; a line for each, then the count. Gives the exit code.

    Who interrupts or ends it (SIGINT, SIGTERM) ends the commands that are at work, too."""
    unknown = [name for name in names if name not in {c.__name__ for c in CASES}]
    if unknown:
        print(f"{program}: there is no case {unknown[0]}")
        return 2
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return _run([each for each in CASES if not names or each.__name__ in names])
    finally:
        _kill(set(Running.at_work))


def _kill(commands):
    for running in commands:
        if running.process.poll() is None:
            running.kill()


def _run(cases):
    passed = failed = skipped = 0
    for each in cases:
        started = time.monotonic()
        at_work_before = set(Running.at_work)
        title = each.__name__.replace("_", " ")
        try:
            each()
        except Skipped as reason:
            skipped += 1
            print(f"SKIPPED  {title}: {reason}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            detail = str(error) if isinstance(error, Failed) else traceback.format_exc()
            print(f"FAILED   {title}\n" + "".join(f"    {line}\n" for line in detail.splitlines()), end="", flush=True)
            _kill(Running.at_work - at_work_before)  # the next case must not fail because of processes of this one
        else:
            passed += 1
            print(f"passed   {title} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
