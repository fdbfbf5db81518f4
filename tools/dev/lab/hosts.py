"""The hosts of tools/dev/lab/netlab for scripts: there as long as a with statement, and programs run on them at once."""

import os
import signal
import subprocess
import time
from pathlib import Path

NETLAB = Path(__file__).resolve().parent / "netlab"


class LabError(Exception):
    """The lab cannot be made, or a program in it failed; the text names the culprit."""


class Lab:
    """`prefix`: of its name, at most two letters; the rest is this process, so that labs do not meet."""

    def __init__(self, hosts: int, rate: str, prefix: str):
        self.hosts, self.rate = hosts, rate
        self.name = f"{prefix}{os.getpid() % 1000000}"
        self.environment = {**os.environ, "NETLAB": self.name}

    def __enter__(self):
        up = self.netlab("up", str(self.hosts), self.rate)
        if up.returncode != 0:
            raise LabError(f"netlab up {self.hosts} {self.rate}: {up.stderr.strip()}")
        self.addresses = [self.netlab("addr", str(i + 1)).stdout.strip() for i in range(self.hosts)]
        return self

    def __exit__(self, *_):
        self.netlab("down")

    def netlab(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([NETLAB, *words], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def run(self, commands: list[tuple[list, dict]], patience_s: float) -> list[str]:
        """One command per host from the first on, (words, variables) each, at once; what each said. Nothing of them is left."""
        children = [
            subprocess.Popen([NETLAB, "exec", str(i + 1), *map(str, words)], env={**self.environment, **variables},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/",
                             start_new_session=True)
            for i, (words, variables) in enumerate(commands)
        ]  # fmt: skip
        try:
            until = time.monotonic() + patience_s
            said = [child.communicate(timeout=max(0, until - time.monotonic())) for child in children]
        except subprocess.TimeoutExpired:
            raise LabError(f"{Path(commands[0][0][0]).name} was not done after {patience_s:.0f} s") from None
        finally:
            for child in children:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
        for i, (child, (_, error)) in enumerate(zip(children, said)):
            if child.returncode != 0:
                raise LabError(f"host {i + 1}: {error.strip() or f'exit status {child.returncode}'}")
        return [out for out, _ in said]
