"""Rondo as a backend of torch.distributed.

    import rondo_torch
    import torch.distributed as dist

    dist.init_process_group("rondo")

under torchrun, or wherever RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set. Under mpirun, mpiexec, srun or rondo run,
and under torchrun as well, ranks find each other by

    dist.init_process_group("rondo", init_method="rondo://")

From then on dist, DDP and FSDP work as they do with Gloo. What may be chosen comes from environment variables:

    RONDO_INTERFACE     network interfaces: eth0,ib0 or ^docker0,lo or =eth0 or 10.0.0.0/8 (default: by reachability)
    RONDO_ADDRESSES     local addresses, behind commas
    RONDO_PORTS         TCP ports to listen on, FIRST-LAST (default: any)
    RONDO_TRANSPORT     auto (default), tcp, shm or ib; the same on all ranks
    RONDO_RAILS         connections to each peer that share large collectives (default 1); the same on all ranks
    RONDO_WIDE_PARTIALS 1: bfloat16 and float16 are summed, averaged and multiplied in float32, and rounded once (default 0; averages
                        of float16 and of integers are wide anyway, docs/DESIGN.md); the same on all ranks
    RONDO_BLOCKING_WAIT 1 (default): wait() on work of a GPU waits in the host, as with Gloo, and raises what failed; 0: the GPU's
                        stream waits, as with NCCL, which only suits programs that load no kernel then (docs/GOTCHAS.md)
    RONDO_RECORD_DIR    where a failed job leaves its last operations, for rondo trace
    RONDO_TOKEN         the job's secret, RONDO_TLS and its kin: encryption (docs/SECURITY.md, docs/TLS.md)
"""

import os
import re
from urllib.parse import parse_qsl, urlsplit

from ._goodbye import say_at_end
from ._loading import load
from ._one_at_a_time import OneAtATime

_backend = load()  # first, because a build for another torch must not be used

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

RondoBackend, RondoStore, Settings, version = _backend.RondoBackend, _backend.RondoStore, _backend.Settings, _backend.version

__version__ = version()
__all__ = ["RondoBackend", "RondoStore", "Settings", "backend_of", "replace_gloo", "version"]

TORCH_2 = int(torch.__version__.split(".", maxsplit=1)[0]) >= 2


def _settings_of(environment, profiled_as):
    settings = Settings()
    settings.profiled_as = profiled_as
    settings.interface = environment.get("RONDO_INTERFACE", "")
    settings.addresses = environment.get("RONDO_ADDRESSES", "")
    settings.transport = environment.get("RONDO_TRANSPORT", "")
    settings.record_dir = environment.get("RONDO_RECORD_DIR", "")
    rails = environment.get("RONDO_RAILS", "1")
    if rails not in map(str, range(1, 17)):
        raise ValueError(f"variable RONDO_RAILS: wants a number from 1 to 16, not {rails!r}")
    settings.rails = int(rails)
    settings.wide_partials = _is_on(environment, "RONDO_WIDE_PARTIALS", "0")
    settings.blocking_wait = _is_on(environment, "RONDO_BLOCKING_WAIT", "1")
    return settings


def _is_on(environment, name, default):
    value = environment.get(name, default)
    if value not in ("0", "1"):
        raise ValueError(f"variable {name}: wants 0 or 1, not {value!r}")
    return value == "1"


_streams = set()


def _new_stream(index):
    """A stream of a CUDA device for the backend's own use: its number in torch, and CUDA's handle. torch has so many of each
    device, which it gives in turn; as long as there are any it is one that no other group has."""
    for _ in range(32):
        stream = torch.cuda.Stream(index)
        if stream.cuda_stream not in _streams:
            break
    _streams.add(stream.cuda_stream)
    return stream.stream_id if TORCH_2 else stream._cdata, stream.cuda_stream


def _create(store, rank, size, timeout, profiled_as="rondo", of=None):
    settings = _settings_of(os.environ, profiled_as)
    ranks = list(getattr(of, "global_ranks_in_group", None) or ())
    if ranks != list(range(len(ranks))):  # otherwise its ranks are the job's ranks
        settings.group, settings.job_ranks = str(getattr(of, "group_id", "")) or "unnamed", ranks
    with OneAtATime(rank, size) as making:
        made = RondoBackend(store, rank, size, timeout, settings)
        if making.is_disturbed:
            made.abort(making.WORDS)
        say_at_end(_backend.close_all)  # other ranks may still wait for this rank's last bytes
        return made


def _create_of(options, _):
    return _create(options.store, options.group_rank, options.group_size, options.timeout, of=options)


def replace_gloo():
    """For programs that say "gloo" themselves: from now on they get Rondo, under Gloo's name, in this process."""
    if hasattr(dist.Backend, "_ensure_backend_registered"):  # from torch 2.15 on, its own backends are registered like others
        dist.Backend._ensure_backend_registered("gloo")
        devices = dist.Backend.backend_capability["gloo"]
        dist.Backend.register_backend("gloo", _create_as_gloo, extended_api=True, devices=devices)  # registered like a third-party backend
    elif TORCH_2:
        _replace_gloo_in_helper(dist.distributed_c10d)
    else:
        _replace_gloo_class(dist.distributed_c10d)


def _create_as_gloo(options, _):
    return _create(options.store, options.group_rank, options.group_size, options.timeout, "gloo", options)


def _replace_gloo_in_helper(c10d):
    """torch 2 before 2.15 knows its own by their names, and Gloo's objects by their insides. So it makes groups of another
    name, and hears that it is Gloo's when it asks."""
    if "rondo_as_gloo" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("rondo_as_gloo", _create_as_gloo, extended_api=True, devices=["cpu", "cuda"])
    helper = c10d._new_process_group_helper

    def make(group_size, group_rank, ranks, backend, *more, **named):
        made = helper(group_size, group_rank, ranks, re.sub(r"\bgloo\b", "rondo_as_gloo", backend.lower()), *more, **named)
        known = c10d._world.pg_map.get(made[0])
        if known is not None:
            config = c10d._world.pg_backend_config
            c10d._world.pg_map[made[0]] = (known[0].replace("rondo_as_gloo", "gloo"), known[1])
            config[made[0]] = config[made[0]].replace("rondo_as_gloo", "gloo")
        return made

    c10d._new_process_group_helper = make


def _replace_gloo_class(c10d):
    gloo, wrap = c10d.ProcessGroupGloo, c10d._create_process_group_wrapper

    def create(store, rank, size, timeout):
        return _create(store, rank, size, timeout, "gloo")

    def wrap_with_gloo(*arguments, **named):
        """TORCH_DISTRIBUTED_DEBUG=DETAIL compares calls by a group beside, which must be Gloo's own."""
        c10d.ProcessGroupGloo = gloo
        try:
            return wrap(*arguments, **named)
        finally:
            c10d.ProcessGroupGloo = create

    c10d.ProcessGroupGloo, c10d._create_process_group_wrapper = create, wrap_with_gloo


def backend_of(group=None):
    """The RondoBackend of a group, or of the default one: close, abort, check and describe are there."""
    group = group or dist.distributed_c10d._get_default_group()
    found = [group]
    if TORCH_2:
        found = [group._get_backend(device) for device in map(torch.device, ("cuda", "cpu")) if device in group._device_types]
    for backend in found:
        backend = getattr(backend, "wrapped_pg", backend)  # the wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL
        if isinstance(backend, RondoBackend):
            return backend
    raise ValueError("rondo is no backend of that group")


class _Meeting:
    """Of this process with the other ranks of its job: there is one, for launchers tell a process once where to meet. Groups
    that are made again after destroy_process_group find each other in its store, each time under keys of their own."""

    met = None
    process = None  # the process that met: a forked child must meet itself, because it cannot use its parent's connection to the store
    times = 0

    @classmethod
    def rendezvous(cls, url, timeout=dist.distributed_c10d.default_pg_timeout, **_):
        """init_method="rondo://", with ?rank=1&world_size=4 where the environment does not say it: Rondo's env://."""
        parts = urlsplit(url)
        if parts.netloc or parts.path.strip("/"):
            raise ValueError(f"init_method {url!r} names a place: wants rondo://, which finds it in the environment")
        if cls.process != os.getpid():
            where = f"env://?{parts.query}" if parts.query else "env://"
            cls.met = _backend.meet(where, timeout, _settings_of(os.environ, "rondo"))
            cls.process, cls.times = os.getpid(), 0
        store, rank, world_size = cls.met
        for name, text in parse_qsl(parts.query):
            is_now = {"rank": rank, "world_size": world_size}.get(name)
            if str(is_now) != text:
                raise ValueError(f"init_method {url!r}: this process has met the others as rank {rank} of {world_size}")
        cls.times += 1
        yield dist.PrefixStore(f"meeting/{cls.times}", store), rank, world_size
        raise RuntimeError("rondo:// has no second rendezvous for a group; make it anew by init_process_group")


if not hasattr(dist.Backend, "RONDO"):  # rondo_torch_lazily may have registered it
    dist.register_rendezvous_handler("rondo", _Meeting.rendezvous)
    if TORCH_2:
        dist.Backend.register_backend("rondo", _create_of, extended_api=True, devices=["cpu", "cuda"])
    else:
        dist.Backend.register_backend("rondo", _create)

say_at_end(_backend.close_all)
