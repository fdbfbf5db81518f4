"""A Slurm cluster of one node, set up in a folder of its own and taken down with it.

Its daemons (munged, slurmctld, slurmd) are children that stay in the foreground, with configuration, keys, sockets and logs
in the folder and ports of 127.0.0.1 that no other process has, so the machine's own Slurm, if any, is left alone. It takes
root: slurmd starts tasks as the user who asks. No cgroups (proctrack/linuxproc, task/none), no accounting.
"""

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

from commands import Running, free_port, wait_until

DAEMONS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")

CONFIGURATION = """
ClusterName=rondotest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def why_not():
    """What this machine lacks, in words; None: a cluster can be set up."""
    missing = [program for program in DAEMONS if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")]
    if missing:
        return f"Slurm is not installed: no {', '.join(missing)} (tools/dev/packages/install slurm)"
    if os.geteuid() != 0:
        return "a Slurm of its own needs root"
    return None


class Cluster:
    """Up within the `with` block."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rondo_slurm_", ignore_cleanup_errors=True)))
            self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"),
                                "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
            for name in ("state", "spool"):
                (self.folder / name).mkdir()
            key = self.folder / "munge.key"
            key.write_bytes(os.urandom(1024))
            key.chmod(0o400)
            (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
                host=socket.gethostname().split(".")[0], folder=self.folder, controller_port=free_port(),
                node_port=free_port()))
            self._start(stack, "munged", "--foreground", "--force", f"--key-file={key}",
                        f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                        f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed")
            wait_until(lambda: (self.folder / "munge.socket").exists(), "munged listens")
            self._start(stack, "slurmctld", "-D")
            self._start(stack, "slurmd", "-D")
            stack.callback(self._cancel_all)
            wait_until(self._idle, "the node is idle")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def start(self, *command, env=None):
        return Running(*command, env={**self.environment, **(env or {})})

    def run(self, *command, env=None):
        return self.start(*command, env=env).end()

    def _start(self, stack, *command):
        with open(self.folder / f"{command[0]}.out", "wb") as log:
            daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      env={**os.environ, **self.environment}, start_new_session=True)
        stack.callback(_end, daemon)

    def _ask(self, *command):
        return subprocess.run(command, env={**os.environ, **self.environment}, capture_output=True, text=True,
                              check=False).stdout

    def _idle(self):
        return re.search(r"State=IDLE\s", self._ask("scontrol", "show", "node"))

    def _cancel_all(self):
        """Jobs of cases that failed must not outlive the daemons."""
        self._ask("scancel", "--user=root")
        wait_until(lambda: not self._ask("squeue", "--noheader").strip(), "all jobs have ended")


def _end(daemon):
    daemon.terminate()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
