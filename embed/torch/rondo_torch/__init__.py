"""Rondo as a backend of torch.distributed.

    import rondo_torch
    import torch.distributed as dist

    dist.init_process_group("rondo")

under torchrun, or if RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set. Under mpirun, mpiexec, srun, rondo run or torchrun, ranks
find each other by

    dist.init_process_group("rondo", init_method="rondo://")

Afterwards torch.distributed, DDP and FSDP work as they do with Gloo. Environment variables select options:

    RONDO_INTERFACE        network interfaces: eth0,ib0 or ^docker0,lo or =eth0 or 10.0.0.0/8 (default: by reachability)
    RONDO_ADDRESSES        local addresses, separated by commas (default: by reachability)
    RONDO_PORTS            TCP ports to listen on, FIRST-LAST (default: any)
    RONDO_TRANSPORT        auto (default), tcp, shm or ib; equal on all ranks
    RONDO_RAILS            number of connections to each peer that share large collectives, 1 (default) to 16; equal on all ranks
    RONDO_FP32_ACCUMULATE  1: partial sums and products of bfloat16 and float16 are kept in float32 and rounded once, at the end
                           (default 0; averages of float16 and of integers always use a wider type, docs/DESIGN.md); equal on all
                           ranks
    RONDO_BLOCKING_WAIT    1 (default): wait() on work of a GPU waits in the host, as with Gloo, and raises the work's error. 0: the
                           GPU's stream waits, as with NCCL. Only for programs that load no kernel while it waits (docs/GOTCHAS.md)
    RONDO_RECORD_DIR       directory to which a failed job writes its last operations, for rondo trace (default: none)
    RONDO_TOKEN            the job's secret; RONDO_TLS and related variables: encryption (docs/SECURITY.md, docs/TLS.md)

A failed operation raises RuntimeError, whose text names the rank, the host and the operation at fault. The text of a timeout contains
"Timed out". An invalid variable raises ValueError.
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
        raise ValueError(f"variable RONDO_RAILS: expected a number from 1 to 16, got {rails!r}")
    settings.rails = int(rails)
    settings.fp32_accumulate = _is_on(environment, "RONDO_FP32_ACCUMULATE", "0")
    settings.blocking_wait = _is_on(environment, "RONDO_BLOCKING_WAIT", "1")
    return settings


def _is_on(environment, name, default):
    value = environment.get(name, default)
    if value not in ("0", "1"):
        raise ValueError(f"variable {name}: expected 0 or 1, got {value!r}")
    return value == "1"


_streams = set()


def _new_stream(index):
    """Returns a stream of CUDA device `index` for the backend's own use: torch's number for it, and CUDA's handle. torch has a fixed
    number of streams for each device, and returns them in turn. Groups share a stream only if all streams are in use."""
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
    """From now on programs in this process that request the backend "gloo" get Rondo, under Gloo's name."""
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
    """torch 2 before 2.15 recognises its own backends by their names, and uses internals of Gloo's objects. So this makes a group of the
    backend "rondo_as_gloo", and then changes the recorded name to "gloo"."""
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
        """With TORCH_DISTRIBUTED_DEBUG=DETAIL torch compares calls through a second group, which must be one of the real Gloo."""
        c10d.ProcessGroupGloo = gloo
        try:
            return wrap(*arguments, **named)
        finally:
            c10d.ProcessGroupGloo = create

    c10d.ProcessGroupGloo, c10d._create_process_group_wrapper = create, wrap_with_gloo


def backend_of(group=None):
    """Returns the RondoBackend of `group` (default: the default group). It has the methods close, abort, check and describe.
    ValueError if the group has another backend."""
    group = group or dist.distributed_c10d._get_default_group()
    found = [group]
    if TORCH_2:
        found = [group._get_backend(device) for device in map(torch.device, ("cuda", "cpu")) if device in group._device_types]
    for backend in found:
        backend = getattr(backend, "wrapped_pg", backend)  # the wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL
        if isinstance(backend, RondoBackend):
            return backend
    raise ValueError("rondo is not a backend of the given group")


class _Rendezvous:
    """The rendezvous of this process with the other ranks of its job. A process has only one, because launchers set the address of the
    store once. Groups that are made again after destroy_process_group use its store, each time with a new prefix of keys."""

    result = None
    # The process of the result. A forked child needs its own rendezvous, because it cannot use its parent's connection to the store.
    process = None
    times = 0

    @classmethod
    def rendezvous(cls, url, timeout=dist.distributed_c10d.default_pg_timeout, **_):
        """The handler of init_method="rondo://". The environment gives the address of the store, as for Rondo's env://. The URL may end
        with ?rank=1&world_size=4 if the environment does not give these. ValueError for other parts of a URL, or for another rank or
        world size than before."""
        parts = urlsplit(url)
        if parts.netloc or parts.path.strip("/"):
            raise ValueError(f"init_method {url!r} names a host or path: expected rondo:// alone, because the environment gives the address")
        if cls.process != os.getpid():
            where = f"env://?{parts.query}" if parts.query else "env://"
            cls.result = _backend.rendezvous(where, timeout, _settings_of(os.environ, "rondo"))
            cls.process, cls.times = os.getpid(), 0
        store, rank, world_size = cls.result
        for name, text in parse_qsl(parts.query):
            is_now = {"rank": rank, "world_size": world_size}.get(name)
            if str(is_now) != text:
                raise ValueError(f"init_method {url!r}: this process was already in a rendezvous as rank {rank} of {world_size}")
        cls.times += 1
        yield dist.PrefixStore(f"rendezvous/{cls.times}", store), rank, world_size
        raise RuntimeError("rondo:// has no second rendezvous for a group; make the group again by init_process_group")


if not hasattr(dist.Backend, "RONDO"):  # rondo_torch_lazily may have registered it
    dist.register_rendezvous_handler("rondo", _Rendezvous.rendezvous)
    if TORCH_2:
        dist.Backend.register_backend("rondo", _create_of, extended_api=True, devices=["cpu", "cuda"])
    else:
        dist.Backend.register_backend("rondo", _create)

say_at_end(_backend.close_all)
