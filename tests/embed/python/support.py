"""Support for the tests of the Python package: installs the package once into a virtual environment, and runs ranks."""

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
PROGRAMS = Path(__file__).resolve().parent / "programs"
TARBALL = ROOT / "bazel-bin/embed/rondo.tar.gz"
RONDO = ROOT / "bazel-bin/tools/rondo"


@dataclass
class Ended:
    status: int
    said: str


def run(*command: object, cwd: Optional[Path] = None, **environment: str) -> str:
    """Runs a command, which must end with status 0. Returns what it printed to both streams."""
    ran = subprocess.run([str(word) for word in command], cwd=cwd, env=os.environ | environment, text=True, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)  # fmt: skip
    if ran.returncode != 0:
        raise RuntimeError(f"{command} ended with {ran.returncode}:\n{ran.stdout[-5000:]}")
    return ran.stdout


class Installed:
    """The package as pip installs it, from the sources and the tarball of //embed:dist, without a network."""

    of_this_process: Optional["Installed"] = None

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rondo-python-"))
        atexit.register(shutil.rmtree, self.folder)
        with tarfile.open(TARBALL) as tarball:
            tarball.extractall(self.folder)
        (prefix,) = self.folder.glob("rondo-*")
        sources = shutil.copytree(ROOT / "embed/python", self.folder / "sources")
        run(sys.executable, "-m", "venv", "--system-site-packages", self.folder / "venv")
        self.python = str(self.folder / "venv/bin/python")
        if sys.prefix != sys.base_prefix:  # the new environment gets the packages of the tests' own virtual environment
            (here,) = self.folder.glob("venv/lib/python*/site-packages")
            Path(here, "outer.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n")
        run(self.python, "-m", "pip", "install", "--no-index", "--no-build-isolation", sources, cwd=self.folder,
            RONDO_PREFIX=str(prefix))  # fmt: skip

    @classmethod
    def shared(cls) -> "Installed":
        if cls.of_this_process is None:
            cls.of_this_process = cls()
        return cls.of_this_process


class Ranks:
    """A program, of programs/ where it is a bare name, as so many ranks with a rendezvous in a file."""

    def __init__(self, installed: Installed, program: Union[str, Path], world: int, *arguments: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        where = {"RONDO_RENDEZVOUS": f"file://{self.folder.name}/rendezvous", "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1"}
        self.processes, self.outputs = [], []
        for rank in range(world):
            self.outputs.append(open(f"{self.folder.name}/{rank}", "w+"))  # a full pipe without a reader would block a rank
            self.processes.append(subprocess.Popen(
                [installed.python, PROGRAMS / program, *arguments], env=os.environ | where | {"RANK": str(rank)},
                stdout=self.outputs[-1], stderr=subprocess.STDOUT))  # fmt: skip

    def await_words(self, rank: int, words: str, limit_s: float = 60) -> None:
        """Waits until the rank has printed `words`."""
        until = time.monotonic() + limit_s
        while words not in Path(self.outputs[rank].name).read_text():
            if time.monotonic() > until or self.processes[rank].poll() is not None:
                raise AssertionError(f"rank {rank} has not said '{words}':\n{Path(self.outputs[rank].name).read_text()}")
            time.sleep(0.01)

    def end(self, limit_s: float = 300) -> list[Ended]:
        """Waits for the ranks, and kills those that have not ended after `limit_s`. Returns status and output of each."""
        until = time.monotonic() + limit_s
        ended = []
        for process, output in zip(self.processes, self.outputs):
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                output.seek(0, os.SEEK_END)
                output.write("\nnot over in time")
            output.seek(0)
            ended.append(Ended(process.returncode, output.read()))
            output.close()
        self.folder.cleanup()
        return ended
