"""Compile what plans and collectives call, once, for every machine that a wheel is installed on.

    python -m lightloom.api.compile_ahead

fills ``lightloom/compiled`` beside the package's modules. Building a wheel and installing from source do it; by hand it
serves where another version of numba is installed than the package was built with.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress

_PLANNED = {
    "terarack-64": 16,
    "sip-ocs-1024": 16,
    "h100-512-two-tier": 16,
    "dgx-h100-64": 16,
    "tpu-v4-1024": 64,
    "dadiannao-100g": 16,
    "inceptionn-4": 4,
    "optinc-4": 4,
}
"""Clusters of the catalog with fabrics of each kind, and of their ranks enough for all kinds of plans."""

_FABRICS = ("wdm-ring", "circuit-switch", "torus", "mesh", "ring", "switch", "two-tier-400g", "fat-tree-400g")
_RANKS = 16
_EFFORT = 1 / 1000
"""Of what searches take by themselves: which schedule they find does not matter here."""


def main() -> int:
    """Plan and rank collectives on few ranks, so that each kernel compiles for the types that it is called with."""
    # Before numba is imported: code that every processor of the architecture runs.
    os.environ.update(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    from lightloom.collectives.synthesis.engine import effort
    from lightloom.core.kernel_cache import AHEAD, KernelCache

    KernelCache.fills_ahead = True
    effort.SCALE = _EFFORT
    with tempfile.TemporaryDirectory() as folder:
        # What searches found before is not searched again, and would leave their kernels out.
        os.environ["LIGHTLOOM_CACHE"] = folder
        _search()
    kept = KernelCache.used
    for path in AHEAD.rglob("*.nb?"):
        if path not in kept:
            path.unlink()
    return 0 if kept else 1


def _search() -> None:
    from lightloom.api.collectives import collective
    from lightloom.api.planning import plan
    from lightloom.collectives.spec import KINDS
    from lightloom.core.errors import LightloomError
    from lightloom.workloads.transformer import TransformerSizes, transformer_graph

    sizes = TransformerSizes(hidden=256, layers=2, heads=4, ffn=1024, vocabulary=1000, sequence_length=64)
    graph = transformer_graph(sizes, batch=_RANKS)
    for cluster, ranks in _PLANNED.items():
        plan(graph, cluster, reconfigure_in_step=cluster == "sip-ocs-1024", set={"ranks": ranks})
    for fabric in _FABRICS:
        for kind in KINDS:
            # A fabric need not carry every kind.
            with suppress(LightloomError):
                collective(kind, fabric=fabric, ranks=_RANKS, nbytes=1e6)


if __name__ == "__main__":
    sys.exit(main())
