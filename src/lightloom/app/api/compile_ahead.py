"""Compile what plans, collectives, averagers and codecs call, once, for every machine that a wheel is installed on.

    python -m lightloom.app.api.compile_ahead

writes the extension module ``lightloom.core._kernels``. Building a wheel and installing from source do it; by hand it
serves after a kernel was changed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Any

_PLANNED = {
    **dict.fromkeys(("terarack-64", "sip-ocs-1024", "h100-512-two-tier", "dgx-h100-64", "dadiannao-100g"), 16),
    "tpu-v4-1024": 64,
    "inceptionn-4": 4,
    "optinc-4": 4,
}
"""Clusters of the catalog with fabrics of each kind, and of their ranks enough for all kinds of plans."""

_FABRICS = ("wdm-ring", "circuit-switch", "torus", "mesh", "ring", "switch", "two-tier-400g", "fat-tree-400g")
_FEW_CHANNELS: dict[str, dict[str, object]] = {"wdm-ring": {"wavelengths": 1}, "circuit-switch": {"degree": 2}}
"""Fabrics again, with so few channels that blocks of an all-to-all share circuits."""
_RANKS = 16
_EFFORT = 1 / 1000
"""Share of the usual effort of searches: which schedule they find does not matter here."""


def main() -> int:
    """Plan and rank collectives on few ranks, so that each kernel is called with the types that it takes, and build
    what was called into the extension module ``lightloom.core._kernels``; return 0, or 1 where there is no C compiler
    (nothing is run then) or it fails.

    Must run before numba is imported: it sets environment variables of this process, for code that runs on every
    processor of the architecture. Messages go to stderr.
    """
    with tempfile.TemporaryDirectory() as folder:
        # Before numba is imported: code that every processor of the architecture runs; and no searches of before, which
        # would not be searched again and leave their kernels out. Of codecs those kernels that serve where the C ones
        # were not built.
        os.environ.update(
            NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="", LIGHTLOOM_CACHE=folder, LIGHTLOOM_KERNEL="fallback"
        )
        from lightloom.collectives.synthesis.engine import cache
        from lightloom.core import kernel_build
        from lightloom.core.kernels import Kernel

        if shutil.which(kernel_build.compiler()[0]) is None:
            sys.stderr.write("no kernels built: there is no C compiler\n")
            return 1
        kernel_build.name_no_files()
        called: dict[tuple[Kernel, Any], None] = {}
        Kernel.calls_ahead = called
        cache.SCALE = _EFFORT
        _search()
        _encode()
        try:
            built = kernel_build.build(called)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.stderr.write(f"no kernels built: {error}\n")
            return 1
        sys.stderr.write(f"{built} of {len(called)} kernels built\n")
    return 0


def _search() -> None:
    """Plan and rank collectives on fabrics of each kind, and price what these do not ask for.

    That is placements of few operators, codecs within collectives, failures, stragglers, steps that nothing orders,
    small shares on circuits that stand, and circuits that come round (SiP-ML's study).
    """
    from dataclasses import replace

    import numpy as np

    from lightloom.app.api.collectives import collective
    from lightloom.app.api.planning import plan
    from lightloom.collectives.bounds.lower_bound import lower_bound
    from lightloom.collectives.collective import KINDS, Collective
    from lightloom.collectives.cost.stepped import cost, straggling
    from lightloom.collectives.registry import around_failures, build, find
    from lightloom.core.errors import LightloomError
    from lightloom.machines.fabrics.failures import Failure
    from lightloom.machines.fabrics.load import load_fabric
    from lightloom.models.decoder import TransformerSizes, transformer_graph
    from lightloom.papers.study import STUDIES

    sizes = TransformerSizes(hidden=256, layers=2, heads=4, ffn=1024, vocabulary=1000, sequence_length=64)
    graph = transformer_graph(sizes, batch=_RANKS)
    for cluster, ranks in _PLANNED.items():
        plan(graph, cluster, reconfigure_in_step=cluster == "sip-ocs-1024", set={"ranks": ranks})
    for fabric, fields in (*((fabric, {}) for fabric in _FABRICS), *_FEW_CHANNELS.items()):
        for kind in KINDS:
            # A fabric need not carry every kind.
            with suppress(LightloomError):
                collective(kind, fabric=fabric, ranks=_RANKS, nbytes=1e6, set=fields)

    sizes = TransformerSizes(hidden=64, layers=1, heads=1, ffn=64, vocabulary=100, sequence_length=16)
    graph = transformer_graph(sizes, batch=4)
    plan(replace(graph, operators=graph.operators[:6]), "inceptionn-4", strategy="placed")
    plan(graph, "inceptionn-4", exchange="inceptionn", exchange_ratio=8, exchange_engine="nic")
    gather, ring = Collective("all-gather", _RANKS, 1e6), load_fabric("wdm-ring", _RANKS, set={"wavelengths": 4})
    around_failures(gather, ring, [[Failure.parse("wavelength:3")]])
    for algorithm in ("synthesized", "ring-two-way-striped"):
        straggling(build(find(algorithm), gather, ring), ring, late=1e-5)
    links = load_fabric("ring", _RANKS)
    cost(replace(build(find("ring"), gather, links), dependencies=np.zeros((0, 2), np.int64)), links)
    lower_bound(Collective("all-gather", 4 * _RANKS, 1e3), load_fabric("wdm-ring", 4 * _RANKS, set={"wavelengths": 4}))
    lower_bound(Collective("broadcast", _RANKS, 1e3), load_fabric("wdm-ring", _RANKS, set={"hop_latency": 1e-6}))
    STUDIES["sipml"]()


def _encode() -> None:
    """Call what averagers of codes call, encode and decode gradients, decompose matrices, and let clusters fail."""
    from typing import get_args

    import numpy as np

    from lightloom.app.api.goodput import goodput
    from lightloom.exchange.compression.inceptionn import Inceptionn
    from lightloom.exchange.compression.kernels import current
    from lightloom.exchange.compression.stream import tag_histogram
    from lightloom.photonics.averaging.block_quantisation import CodeBuffers, mean_codes
    from lightloom.photonics.meshes.decompose import decompose
    from lightloom.photonics.meshes.mesh import Kind

    for bits in (16, 32):
        buffers = CodeBuffers.of((3,), bits)
        values, codes = np.ones(3, np.float32), np.empty(3, buffers.code_type)
        scales = buffers.scales(values)
        buffers.encode(values, scales, codes)
        buffers.decode(codes, scales, values)
        mean_codes(codes[None], "floor", np.empty_like(codes))
    codec, gradients = Inceptionn(), np.ones(24, np.float32)
    encoded = codec.encode_leaving(gradients)
    codec.decode(encoded)
    codec.decode_adding(encoded, gradients)
    tag_histogram(encoded)
    current().xxh64(np.ones(24, np.uint8), 0)
    for kind in get_args(Kind):
        decompose(np.eye(4), kind).matrix()
    goodput("dgx-h100-64", simulate=True)


if __name__ == "__main__":
    sys.exit(main())
