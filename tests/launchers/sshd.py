"""Hosts with an sshd each, for tests: network namespaces of this machine, set up and taken down by a with statement.

Nothing of the machine's own ssh is read or touched: keys, known hosts and both configurations are in a temporary folder, and each
sshd sees a /run of its own, in which it has its folder.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev/lab")]

# pylint: disable=wrong-import-position
import hosts  # noqa: E402
from commands import Running, wait_until  # noqa: E402

SSHD = "/usr/sbin/sshd"

SERVER = """
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
UsePAM no
PidFile none
"""

# b and c are hosts 2 and 3. Each of the other names is b with one setting that is wrong.
CLIENT = """
Host unwelcome
  IdentityFile {folder}/unknown_key
Host * !unwelcome
  IdentityFile {folder}/key
Host impostor
  HostKeyAlias nobody
Host nowhere
  HostName 10.77.0.99
Host behind
  ProxyJump c
Host fe80*
  HostName %h
  HostKeyAlias 10.77.0.2
Host c
  HostName 10.77.0.3
Host *
  HostName 10.77.0.2
  User root
  IdentitiesOnly yes
  IdentityAgent none
  StrictHostKeyChecking yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
"""


def why_not():
    """What this machine lacks, in words; None: hosts can be set up."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ssh") or not os.path.exists(SSHD):
        return "no ssh or sshd (tools/dev/packages/install ssh)"
    return None


class Hosts:
    """Up within the `with` block: host 1, on which commands are started, and b and c, which ssh reaches from there."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rondo_sshd_")))
            self.lab = stack.enter_context(hosts.Lab(3, "1gbit", "s"))
            for key in ("host_key", "key", "unknown_key"):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
            host_key = (self.folder / "host_key.pub").read_text()
            (self.folder / "known_hosts").write_text("".join(f"{address} {host_key}" for address in self.lab.addresses))
            (self.folder / "server").write_text(SERVER.format(folder=self.folder))
            (self.folder / "client").write_text(CLIENT.format(folder=self.folder))
            self.ssh = f"ssh -F {self.folder}/client"
            for host in (2, 3):
                stack.callback(self._start_sshd(host).kill)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def link_local(self, host):
        """Its IPv6 address, by which others need their interface, too; None: this machine has no IPv6."""
        shown = subprocess.run(["ip", "-n", f"{self.lab.name}-h{host}", "-6", "addr", "show", "dev", "eth0", "-tentative"],
                               capture_output=True, text=True, check=True)
        match = re.search(r"fe80::[0-9a-f:]+", shown.stdout)
        return f"{match[0]}%eth0" if match else None

    def start(self, *command, env=None):
        """A command on host 1."""
        return Running(hosts.NETLAB, "exec", 1, *command, env={"NETLAB": self.lab.name, **(env or {})})

    def processes(self, host):
        """What runs on host 2 or 3 beside its sshd, by name; sessions of that are named as it is."""
        listed = subprocess.run(["ip", "netns", "pids", f"{self.lab.name}-h{host}"], capture_output=True, text=True, check=True)
        names = []
        for pid in listed.stdout.split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # has ended
                names.append(pathlib.Path(f"/proc/{pid}/comm").read_text().strip())
        names.remove("sshd")
        return names

    def quiet(self):
        """Neither b nor c has a process of ours, or an ssh session."""
        return not self.processes(2) and not self.processes(3)

    def _start_sshd(self, host):
        script = f"mount -t tmpfs none /run && mkdir /run/sshd && exec {SSHD} -D -e -f {self.folder}/server"
        sshd = Running(hosts.NETLAB, "exec", host, "sh", "-c", script, env={"NETLAB": self.lab.name})
        wait_until(lambda: "Server listening" in sshd.text() or sshd.process.poll() is not None, "sshd listens")
        assert sshd.process.poll() is None, sshd.text()
        return sshd
