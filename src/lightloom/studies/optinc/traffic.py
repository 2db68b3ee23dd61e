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
from lightloom.photonics.block_quantisation import BlockQuantisation
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
    verified = "counted in the schedule, which passed the verifier"
    return [
        Claim(id=f"optinc.figure6.{label}_n{n}", paper=paper, ours=sent(algorithm, n), unit="gradients", why=verified)
        for n, ring in RING_TRAFFIC.items()
        for label, algorithm, paper in (("ring", "ring", ring), ("optinc", "in-network", 1.0))
    ]


def _overhead() -> list[Claim]:
    return [
        Claim(
            id=f"optinc.headline.ring_overhead_n{n}",
            paper=paper,
            ours=100 * (sent("ring", n) / sent("in-network", n) - 1),
            unit="%",
            why=f"(N-2)/N = {100 * (n - 2) / n:g} %, from the same schedules",
        )
        for n, paper in OVERHEAD.items()
    ]


def _synchronisation() -> Claim:
    shares = {bits: 100 * BlockQuantisation(bits=bits).synchronisation_share(1 << 20) for bits in (8, 16)}
    words = f"less than {SYNCHRONISATION:g} %"
    return Claim(
        id="optinc.headline.synchronisation",
        paper=words,
        ours=words if max(shares.values()) < SYNCHRONISATION else f"{max(shares.values()):.2f} %",
        unit="",
        why=f"one byte of exponent for a block of 256: {shares[8]:.2f} % at 8 bits, {shares[16]:.2f} % at 16. The "
        "paper does not state its block",
    )
