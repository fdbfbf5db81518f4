"""What the tests of the torch backend stand on: the backend, built once against the torch that is here, and ranks."""

import atexit
import os
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
STRAGGLERS_S = 15
# RONDO_TARBALL: what tests/cuda/run_on_gpu brings to a machine without Bazel.
TARBALL = Path(os.environ.get("RONDO_TARBALL", ROOT / "bazel-bin/embed/rondo.tar.gz"))


@dataclass
class Ended:
    status: int
    said: str


class Installed:
    """The backend in a folder of its own, from the sources and the tarball of //embed:dist."""

    of_this_process: Optional["Installed"] = None

    def __init__(self) -> None:
        self.kept = os.environ.get("RONDO_TORCH_FOLDER")  # of who runs several such tests: built by the first
        if self.kept and Path(self.kept, "built").exists():
            self.folder = Path(self.kept)
            return
        self.folder = Path(self.kept or tempfile.mkdtemp(prefix="rondo-torch-"))
        with tarfile.open(TARBALL) as tarball:
            tarball.extractall(self.folder)
        (prefix,) = self.folder.glob("rondo-*")
        shutil.copytree(ROOT / "embed/torch", self.folder / "torch", dirs_exist_ok=True)  # of one that failed to build
        build = [sys.executable, "setup.py", "build_ext", "--inplace"]
        ran = subprocess.run(build, cwd=self.folder / "torch", env=os.environ | {"RONDO_PREFIX": str(prefix)}, text=True,
                             check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        if ran.returncode != 0:
            self.remove()
            raise RuntimeError(f"{build} failed:\n{ran.stdout[-5000:]}")
        (self.folder / "built").touch()

    @classmethod
    def shared(cls) -> "Installed":
        """One for all tests of this process; compiling it takes a minute."""
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


def run_ranks(installed: Installed, program: Union[str, Path], world: int, *arguments: str, limit_s: float = 120,
              environment: Optional[dict[str, str]] = None) -> list[Ended]:  # fmt: skip
    """A program, of programs/ where it is a bare name, as so many ranks by env://, each to its end. PYTHONPATH of `environment`
    is beside the backend's.

    Who is not over by then says where it is and is killed, and who goes on for long when rank 0 is over: some ranks of Gloo's hang when they end."""
    more = environment or {}
    path = os.pathsep.join([installed.path, *filter(None, [more.get("PYTHONPATH")])])
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1",
             "PYTHONFAULTHANDLER": "1"}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(world):
            output = open(f"{folder}/{rank}", "w+")  # a pipe that nobody reads would stop a rank
            own = os.environ | more | where | {"RANK": str(rank), "PYTHONPATH": path}
            ranks.append((output, subprocess.Popen([sys.executable, PROGRAMS / program, *arguments], env=own,
                                                   stdout=output, stderr=subprocess.STDOUT)))  # fmt: skip
        until = time.monotonic() + limit_s
        ended = []
        for output, process in ranks:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                output.write("\nnot over in time")
            until = min(until, time.monotonic() + STRAGGLERS_S)
            output.seek(0)
            ended.append(Ended(process.returncode, output.read()))
            output.close()
        return ended
