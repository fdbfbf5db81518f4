"""What torch 2.5 and later calls when it is imported (entry point torch.backends): from then on the name "rondo" and the init_method
"rondo://" are known to torch.distributed, and rondo_torch is imported when one of them is used."""


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

    return rondo_torch._Meeting.rendezvous(url, **named)
