"""Rondo as a backend of torch.distributed.

    import rondo_torch
    import torch.distributed as dist

    dist.init_process_group("rondo")

From then on dist, DDP and FSDP work as they do with Gloo. What may be chosen comes from environment variables:

    RONDO_INTERFACE     network interfaces: eth0,ib0 or ^docker0,lo or =eth0 or 10.0.0.0/8 (default: by reachability)
    RONDO_ADDRESSES     local addresses, behind commas
    RONDO_TRANSPORT     auto (default), tcp, shm or ib; the same on all ranks
    RONDO_RAILS         connections to each peer that share large collectives (default 1); the same on all ranks
    RONDO_RECORD_DIR    where a failed job leaves its last operations, for rondo trace
    RONDO_TOKEN         the job's secret, RONDO_TLS and its kin: encryption (docs/SECURITY.md, docs/TLS.md)
"""

import atexit
import os

import torch
import torch.distributed as dist

from ._backend import RondoBackend, Settings, close_all, version

__version__ = version()
__all__ = ["RondoBackend", "Settings", "version"]


def _settings_of(environment):
    settings = Settings()
    settings.interface = environment.get("RONDO_INTERFACE", "")
    settings.addresses = environment.get("RONDO_ADDRESSES", "")
    settings.transport = environment.get("RONDO_TRANSPORT", "")
    settings.record_dir = environment.get("RONDO_RECORD_DIR", "")
    rails = environment.get("RONDO_RAILS", "1")
    if not rails.isdecimal() or not 1 <= int(rails) <= 64:
        raise ValueError(f"variable RONDO_RAILS: wants a number from 1 to 64, not {rails!r}")
    settings.rails = int(rails)
    return settings


def _create(store, rank, size, timeout):
    return RondoBackend(store, rank, size, timeout, _settings_of(os.environ))


# Whoever ends without destroy_process_group says goodbye, too: others may still wait for its last bytes.
atexit.register(close_all)

if int(torch.__version__.split(".")[0]) >= 2:
    dist.Backend.register_backend("rondo", _create, devices=["cpu"])
else:
    dist.Backend.register_backend("rondo", _create)
