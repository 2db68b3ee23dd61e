"""Fig. 6 and section I: bytes that a server sends, counted in schedules that passed the verifier."""

from __future__ import annotations

from collections.abc import Iterator
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
from lightloom.studies.optinc.paper import RING_TRAFFIC, SYNCHRONISATION

_NBYTES = 1e6


def claims() -> tuple[Claim, ...]:
    """Return the rows of Fig. 6, of section I's overhead and of the synchronisation."""
    return (*_figure_6(), *_overhead(), _synchronisation())


@cache
def sent(algorithm: str, servers: int) -> float:
    """Return the most bytes that a server sends, over the bytes of the gradient: ``ring`` or ``in-network``."""
    fabric: Fabric = OpticalAverager(ranks=servers) if algorithm == "in-network" else PacketSwitch(ranks=servers)
    schedule = build(find(algorithm), Collective("all-reduce", servers, _NBYTES), fabric).unfolded(1)
    rows = np.bincount(schedule.source, minlength=servers)[:servers]
    return float(rows.max() * schedule.chunk_nbytes / _NBYTES)


def _figure_6() -> Iterator[Claim]:
    for n, ring in RING_TRAFFIC.items():
        yield PAPER.claim("figure6.ring_n{n}", sent("ring", n), paper=ring, n=n)
        yield PAPER.claim("figure6.optinc_n{n}", sent("in-network", n), n=n)


def _overhead() -> Iterator[Claim]:
    for n in RING_TRAFFIC:
        ours, form = 100 * (sent("ring", n) / sent("in-network", n) - 1), 100 * (n - 2) / n
        yield PAPER.claim("headline.ring_overhead_n{n}", ours, n=n, form=form)


def _synchronisation() -> Claim:
    shares = {bits: 100 * synchronisation_share(1 << 20, bits) for bits in (8, 16)}
    words, most = f"less than {SYNCHRONISATION:g} %", max(shares.values())
    ours = words if most < SYNCHRONISATION else f"{most:.2f} %"
    return PAPER.claim("headline.synchronisation", ours, paper=words, shares=shares)
