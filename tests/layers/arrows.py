"""The arrows between folders, as data: tests/layers/check asks the build graph, tools/dev/lint looks at every #include.

    base <- transport <- collectives <- embed, tools     base <- rendezvous <- collectives <- simulation <- tools
    tools/common <- each subcommand's folder             tools/run <- tools/perf <- tools/tune
    tools/dev, what only developers run, is reached by no subcommand
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    folder: str
    sees: tuple[str, ...]  # folders it may depend on besides itself and third_party; subfolders included
    shuns: tuple[str, ...] = ()  # except these
    sans_io: bool = False  # must not depend on Asio
    required: bool = True  # whether a missing BUILD file is a failure; otherwise the folder may not exist yet


# The folders that the tools use.
PRODUCT = ("base", "transport", "rendezvous", "collectives", "cuda")

LAYERS = [
    Layer("base", (), sans_io=True),
    Layer("transport", ("base",)),
    # No other transport uses the reference or the simulator, and upgrade/ does not use any transport.
    Layer("transport/tcp", ("base", "transport"), shuns=("transport/inproc", "transport/sim")),
    Layer("transport/shm", ("base", "transport"), shuns=("transport/inproc", "transport/sim")),
    Layer("transport/ib", ("base", "transport"), shuns=("transport/inproc", "transport/sim")),
    Layer("transport/upgrade", ("base", "transport"), shuns=("transport/tcp", "transport/shm", "transport/ib")),
    Layer("transport/fault", ("base", "transport")),
    Layer("rendezvous", ("base",)),
    Layer("rendezvous/launchers", ("base", "rendezvous"), shuns=("rendezvous/url",)),
    Layer("collectives/schedule", ("base",), sans_io=True),
    Layer("collectives/algorithms", ("base", "collectives/schedule"), sans_io=True),
    Layer("collectives/model", ("base", "collectives/schedule", "collectives/algorithms"), sans_io=True, required=False),
    Layer("collectives/kernels", ("base",), sans_io=True),
    Layer("collectives/integrity", ("base", "collectives/schedule"), sans_io=True),
    Layer("collectives/framing", ("base", "transport"), sans_io=True),
    Layer(
        "collectives/engine",
        (
            "base",
            "transport",
            "collectives/schedule",
            "collectives/algorithms",
            "collectives/kernels",
            "collectives/framing",
        ),
        sans_io=True,
    ),
    # Engines and schedules do not use the intranode path.
    Layer(
        "collectives/intranode",
        (
            "base",
            "transport",
            "collectives/engine",
            "collectives/schedule",
            "collectives/algorithms",
            "collectives/kernels",
            "collectives/framing",
        ),
        sans_io=True,
    ),
    Layer("collectives/point_to_point", ("base", "transport", "collectives/framing"), sans_io=True),
    Layer("collectives/recorder", ("base", "collectives/schedule", "collectives/point_to_point"), sans_io=True),
    # Communicators use devices, but devices do not use communicators.
    Layer(
        "collectives/device",
        (
            "base",
            "transport",
            "collectives/schedule",
            "collectives/algorithms",
            "collectives/kernels",
            "collectives/framing",
            "collectives/engine",
        ),
    ),
    Layer(
        "collectives/communicator",
        (
            "base",
            "transport",
            "collectives/schedule",
            "collectives/algorithms",
            "collectives/model",
            "collectives/kernels",
            "collectives/integrity",
            "collectives/framing",
            "collectives/engine",
            "collectives/device",
            "collectives/intranode",
            "collectives/point_to_point",
            "collectives/recorder",
        ),
    ),
    Layer("collectives", ("base", "transport", "rendezvous"), shuns=("transport/fault",)),
    Layer("cuda", ("base", "transport", "collectives"), required=False),
    Layer("embed", ("base", "transport", "rendezvous", "collectives", "cuda"), shuns=("transport/fault",), required=False),
    Layer("simulation", ("base", "transport", "rendezvous", "collectives"), shuns=("transport/fault",)),
    Layer("tools", (*PRODUCT, "embed", "simulation")),
    Layer("tools/common", PRODUCT),
    Layer("tools/run", (*PRODUCT, "tools/common")),
    Layer("tools/perf", (*PRODUCT, "tools/common", "tools/run")),
    Layer("tools/tune", (*PRODUCT, "tools/common", "tools/run", "tools/perf")),
    Layer("tools/doctor", (*PRODUCT, "tools/common")),
    Layer("tools/trace", (*PRODUCT, "tools/common")),
    Layer("tools/explain", (*PRODUCT, "tools/common")),
    Layer("tools/verify", (*PRODUCT, "tools/common")),
    Layer("tools/store", (*PRODUCT, "tools/common")),
    Layer("tools/chaos", (*PRODUCT, "tools/common", "simulation")),
    Layer("tools/dev", PRODUCT),
    Layer("examples", ("base", "transport", "rendezvous", "collectives", "cuda", "embed"), required=False),
]


def within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def layers_of(path: str) -> list[Layer]:
    """Every layer that the path lies in: collectives/engine/x.cc obeys the engine's arrows and those of collectives."""
    return [layer for layer in LAYERS if within(path, layer.folder)]


def may_see(layer: Layer, path: str) -> bool:
    if any(within(path, folder) for folder in layer.shuns):
        return False
    return any(within(path, folder) for folder in (layer.folder, *layer.sees, "third_party"))
