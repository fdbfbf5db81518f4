"""torch 2.5 and later calls register() when torch is imported (entry point torch.backends). It registers the backend "rondo" and the
init_method "rondo://" with torch.distributed. rondo_torch is imported when one of them is first used."""


def register():
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, "RONDO"):
        dist.Backend.register_backend("rondo", _create_of, extended_api=True, devices=["cpu", "cuda"])
        dist.register_rendezvous_handler("rondo", _rendezvous)


def _create_of(*arguments):
    import rondo_torch

    return rondo_torch._create_of(*arguments)


def _rendezvous(url, **named):
    import rondo_torch

    return rondo_torch._Rendezvous.rendezvous(url, **named)
