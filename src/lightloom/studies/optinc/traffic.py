"""Fig. 6 and section I: bytes that a server sends, counted in schedules that passed the verifier."""

from __future__ import annotations

from functools import cache

import numpy as np

from lightloom.collectives.registry import build, find
from lightloom.collectives.spec import Collective
from lightloom.core.claims import Claim
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.optical_averager import OpticalAverager
from lightloom.fabrics.packet_switch import PacketSwitch
from lightloom.photonics.block_quantisation import synchronisation_share
from lightloom.studies.optinc import PAPER
from lightloom.studies.optinc.paper import OVERHEAD, RING_TRAFFIC, SYNCHRONISATION

_NBYTES = 1e6


def claims() -> tuple[Claim, ...]:
    """Return the rows of Fig. 6, of section I's overhead and of the synchronisation."""
    return (*_figure_6(), *_overhead(), _synchronisation())


@cache
def sent(algorithm: str, servers: int) -> float:
    """Return the most bytes that a server sends, over the bytes of the gradient: ``ring`` or ``in-network``."""
    fabric: Fabric = OpticalAverager(ranks=servers) if algorithm == "in-network" else PacketSwitch(ranks=servers)
    schedule = build(find(algorithm), Collective("all-reduce", servers, _NBYTES), fabric)
    rows = np.bincount(schedule.source, minlength=servers)[:servers]
    return float(rows.max() * schedule.chunk_nbytes / _NBYTES)


def _figure_6() -> list[Claim]:
    return [
        PAPER.claim("figure6.{label}_n{n}", sent(algorithm, n), paper=paper, label=label, n=n)
        for n, ring in RING_TRAFFIC.items()
        for label, algorithm, paper in (("ring", "ring", ring), ("optinc", "in-network", 1.0))
    ]


def _overhead() -> list[Claim]:
    return [
        PAPER.claim(
            "headline.ring_overhead_n{n}",
            100 * (sent("ring", n) / sent("in-network", n) - 1),
            paper=paper,
            why=f"(N-2)/N = {100 * (n - 2) / n:g} %, from the same schedules",
            n=n,
        )
        for n, paper in OVERHEAD.items()
    ]


def _synchronisation() -> Claim:
    shares = {bits: 100 * synchronisation_share(1 << 20, bits) for bits in (8, 16)}
    words = f"less than {SYNCHRONISATION:g} %"
    return PAPER.claim(
        "headline.synchronisation",
        words if max(shares.values()) < SYNCHRONISATION else f"{max(shares.values()):.2f} %",
        paper=words,
        shares=shares,
    )
