"""One command as the ranks of a job, by each launcher there is."""

from collections.abc import Mapping, Sequence

from commands import ROOT, Outcome, Running, free_port

RONDO = ROOT / "bazel-bin/tools/rondo"

# By default mpirun refuses to run as root, and more ranks than cores.
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}

# mpirun with its own temporary folder. Two that run at once and share a folder race, and one of them fails.
MPIRUN = ("sh", "-c", 'TMPDIR=$(mktemp -d) && export TMPDIR && mpirun.openmpi "$@"; code=$?; rm -r "$TMPDIR"; exit $code', "mpirun")


def by_rondo_run(ranks: int, command: Sequence, env: Mapping) -> list[Outcome]:
    return [Running(RONDO, "run", "-N", ranks, "--no-tag", "--", *command, env=env).end()]


def by_open_mpi(ranks: int, command: Sequence, env: Mapping) -> list[Outcome]:
    return [Running(*MPIRUN, "-n", ranks, *command, env={**OPEN_MPI, **env}).end()]


def by_mpich(ranks: int, command: Sequence, env: Mapping) -> list[Outcome]:
    return [Running("mpiexec.hydra", "-n", ranks, *command, env=env).end()]


def by_variables(ranks: int, command: Sequence, env: Mapping) -> list[Outcome]:
    """As the training operators of Kubernetes do: pods that know each other by name, a rank in each."""
    job = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    pods = [Running(*command, env={**env, **job, "RANK": str(rank)}) for rank in range(ranks)]
    return [pod.end() for pod in pods]


LAUNCHERS = {"rondo run": by_rondo_run, "mpirun of Open MPI": by_open_mpi, "mpiexec of MPICH": by_mpich,
             "variables as in Kubernetes": by_variables}  # fmt: skip
