"""Support for the tests of the torch backend: builds the backend once against the installed torch, and runs ranks."""

import atexit
import multiprocessing
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests/support"))
from commands import free_port  # noqa: E402

PROGRAMS = Path(__file__).resolve().parent / "programs"
FORKER = Path(__file__).resolve().parent / "forker.py"
STRAGGLERS_S = 15
# RONDO_TARBALL: the tarball that tests/cuda/run_on_gpu copies to a machine without Bazel.
TARBALL = Path(os.environ.get("RONDO_TARBALL", ROOT / "bazel-bin/embed/rondo.tar.gz"))


@dataclass
class Ended:
    status: int
    said: str


class Installed:
    """The backend in a folder of its own, from the sources and the tarball of //embed:dist."""

    of_this_process: Optional["Installed"] = None

    def __init__(self) -> None:
        self.kept = os.environ.get("RONDO_TORCH_FOLDER")  # shared by several tests: the first one builds
        if self.kept and Path(self.kept, "built").exists():
            self.folder = Path(self.kept)
            return
        self.folder = Path(self.kept or tempfile.mkdtemp(prefix="rondo-torch-"))
        with tarfile.open(TARBALL) as tarball:
            tarball.extractall(self.folder)
        (prefix,) = self.folder.glob("rondo-*")
        shutil.copytree(ROOT / "embed/torch", self.folder / "torch", dirs_exist_ok=True)  # an earlier build may have failed
        build = [sys.executable, "setup.py", "build_ext", "--inplace", "egg_info"]  # egg_info lets torch 2.5 find it
        ran = subprocess.run(build, cwd=self.folder / "torch", env=os.environ | {"RONDO_PREFIX": str(prefix)}, text=True,
                             check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        if ran.returncode != 0:
            self.remove()
            raise RuntimeError(f"{build} failed:\n{ran.stdout[-5000:]}")
        (self.folder / "built").touch()

    @classmethod
    def shared(cls) -> "Installed":
        """The installation for all tests of this process. Its compilation takes a minute."""
        if cls.of_this_process is None:
            cls.of_this_process = cls()
            atexit.register(cls.of_this_process.remove)
        return cls.of_this_process

    @property
    def path(self) -> str:
        return str(self.folder / "torch")

    def remove(self) -> None:
        if not self.kept:
            shutil.rmtree(self.folder)


class Forker:
    """A process of forker.py with one environment. It starts ranks as its children, and reports how they ended."""

    running: dict[frozenset, "Forker"] = {}  # by environment, until this process ends

    def __init__(self, environment: dict[str, str]) -> None:
        self.asked, its_end = multiprocessing.Pipe()
        # stdout is no terminal, so that Python buffers the ranks' output in blocks, as it does for a file.
        self.process = subprocess.Popen([sys.executable, FORKER, str(its_end.fileno())], env=os.environ | environment,
                                        pass_fds=[its_end.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
        its_end.close()
        atexit.register(self.end)

    @classmethod
    def shared(cls, environment: dict[str, str]) -> "Forker":
        """The forker for all ranks of this process that have this environment."""
        which = frozenset(environment.items())
        if which not in cls.running:
            cls.running[which] = cls(environment)
        return cls.running[which]

    def ask(self, *request: object) -> int:
        self.asked.send(request)
        return self.asked.recv()

    def end(self) -> None:
        self.asked.close()
        self.process.wait()


class Rank:
    """A program that runs as a rank and writes to a file."""

    def __init__(self, forker: Forker, command: list[str], environment: dict[str, str], output: str, destroys: bool) -> None:
        self.forker = forker
        self.output = output
        self.pid = forker.ask("start", command, environment, output, destroys)
        self.is_over = os.pidfd_open(self.pid)

    def over_within(self, wait_s: float) -> bool:
        over, _, _ = select.select([self.is_over], [], [], wait_s)
        return bool(over)

    def ended(self) -> Ended:
        """Waits without a limit. Call it once: it gives the process back to the system."""
        status = self.forker.ask("wait", self.pid)
        os.close(self.is_over)
        return Ended(status, Path(self.output).read_text())


def run_ranks(installed: Installed, program: Union[str, Path], world: int, *arguments: str, limit_s: float = 120,
              environment: Optional[dict[str, str]] = None, destroys: bool = True) -> list[Ended]:  # fmt: skip
    """A program, of programs/ where it is a bare name, as so many ranks by env://, each to its end. PYTHONPATH of `environment`
    is beside the backend's. Without `destroys` a rank ends where it would destroy its process group.

    A rank that is not over after `limit_s` prints its stacks and is killed; so is one that goes on for long after rank 0."""
    more = environment or {}
    path = os.pathsep.join([installed.path, *filter(None, [more.get("PYTHONPATH")])])
    forker = Forker.shared({**more, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"})
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    with tempfile.TemporaryDirectory() as folder:
        command = [str(PROGRAMS / program), *map(str, arguments)]
        ranks = [Rank(forker, command, {**where, "RANK": str(rank)}, f"{folder}/{rank}", destroys) for rank in range(world)]
        until = time.monotonic() + limit_s
        ended = []
        for rank in ranks:
            in_time = rank.over_within(max(until - time.monotonic(), 0.1))
            if not in_time:
                os.kill(rank.pid, signal.SIGABRT)
                if not rank.over_within(10):
                    os.kill(rank.pid, signal.SIGKILL)
            until = min(until, time.monotonic() + STRAGGLERS_S)
            ended.append(rank.ended())
            if not in_time:
                ended[-1].said += "\nnot over in time"
        return ended


def run_gloos_ranks(installed: Installed, program: Union[str, Path], world: int, *arguments: str,
                    environment: Optional[dict[str, str]] = None) -> str:  # fmt: skip
    """What rank 0 prints with Gloo. The ranks do not destroy their group, because there Gloo of torch 1.13 hangs in half of the jobs,
    and aborts in some with powerSGD."""
    return run_ranks(installed, program, world, *arguments, environment=environment, destroys=False)[0].said
