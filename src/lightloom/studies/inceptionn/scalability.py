"""Figure 15: gradient exchange time of four to eight workers, and up to 1024."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, find
from lightloom.collectives.spec import Collective
from lightloom.core.claims import Claim
from lightloom.fabrics.packet_switch import PacketSwitch
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.models import Link, link_of, ring, worker_aggregator
from lightloom.studies.inceptionn.paper import MODELS, size_bytes
from lightloom.studies.inceptionn.tables import slug

MEASURED = range(4, 9)
"""Workers of the paper's cluster."""
FURTHER = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


def claims() -> tuple[Claim, ...]:
    """Return the rows of the figure."""
    return (*_growth(), *_built())


@cache
def curves(model: str) -> dict[str, dict[int, float]]:
    """Return the seconds of an exchange by workers, for WA and INC, at 10 Gbit/s with Table II's speed of sums."""
    link, nbytes = link_of(model), size_bytes(model)
    counts = sorted({*MEASURED, *FURTHER})
    return {
        "WA": {p: worker_aggregator(p, nbytes, link) for p in counts},
        "INC": {p: ring(p, nbytes, link) for p in counts},
    }


def _growth() -> list[Claim]:
    return [
        PAPER.claim(
            f"figure15.{{model}}_{name.lower()}_growth",
            _shape(curves(model)[name]),
            paper=paper,
            model=slug(model),
        )
        for name, paper in (("WA", "almost linear"), ("INC", "almost constant"))
        for model in MODELS
    ]


def _shape(seconds: dict[int, float]) -> str:
    first, last = seconds[MEASURED[0]], seconds[MEASURED[-1]]
    if last / first <= 1.2:
        return "almost constant"
    linear = last / first / (MEASURED[-1] / MEASURED[0])
    return "almost linear" if abs(linear - 1) <= 0.15 else f"grows {last / first:.2f} times"


def _built() -> Iterator[Claim]:
    """The closed form against a schedule that is built, verified and costed on a 10 Gbit/s switch."""
    for p in (4, 8, 64):
        form, ours = 1e3 * ring(p, p * 2**20, Link()), 1e3 * _ring_seconds(p, p * 2**20)
        yield PAPER.claim("figure15.ring_form_p{p}", round(ours, 4), paper=round(form, 4), tolerance=0.001 * form, p=p)


def _ring_seconds(p: int, nbytes: int) -> float:
    fabric = PacketSwitch(ranks=p, bandwidth=10e9 / 8, hop_latency=0.0)
    schedule = build(find("ring"), Collective("all-reduce", p, nbytes), fabric)
    return cost(schedule, fabric).time
