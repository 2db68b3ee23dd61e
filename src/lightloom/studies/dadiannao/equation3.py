"""Eq. 3 compared with built and verified schedules, and with its literal text."""

from __future__ import annotations

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.core.claims import Claim
from lightloom.fabrics.mesh import Mesh
from lightloom.parallelism.dadiannao import ChipLink, broadcast_time, link_of, literal_hops, mesh_hops
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.model import chip

_SHARE = 2.0**20
_SQUARE, _OBLONG, _LARGE = 64, 35, 904


def mesh_broadcast(fabric: Mesh, share: float, *, both_axes: bool = False) -> Schedule:
    """The verified all-gather of ``share`` bytes of every chip.

    Raises:
        UnsupportedError: both axes at once on a mesh that is not square.
    """
    algorithm = find("mesh-broadcast-both-axes" if both_axes else "mesh-broadcast")
    return build(algorithm, Collective("all-gather", fabric.ranks, fabric.ranks * share), fabric)


def built_time(chips: int, link: ChipLink, share: float = _SHARE, *, both_axes: bool = False) -> float:
    """Return the duration of the broadcast on the most square mesh of so many chips, in seconds."""
    fabric = Mesh(ranks=chips, bandwidth=link.bandwidth, hop_latency=link.latency)
    return cost(mesh_broadcast(fabric, share, both_axes=both_axes), fabric).time


def claims() -> tuple[Claim, ...]:
    """Return the rows, for 100 Gb/s links in one direction and 1 MiB per chip."""
    link = link_of(chip(), "100-O")
    fabric = Mesh(ranks=_SQUARE, bandwidth=link.bandwidth, hop_latency=link.latency)
    halved = mesh_broadcast(fabric, _SHARE, both_axes=True)
    bound = lower_bound(halved.collective, fabric)
    square, oblong = (broadcast_time(_SHARE, chips, link) for chips in (_SQUARE, _OBLONG))
    return (
        _row("time_64", square, built_time(_SQUARE, link)),
        _row("time_35", oblong, built_time(_OBLONG, link)),
        _row("time_64_both_axes", square, cost(halved, fabric).time, bound=bound, bound_us=bound.time * 1e6),
        PAPER.claim(
            "example.equation_3_literal_latencies_904", round(mesh_hops(_LARGE), 2), paper=literal_hops(_LARGE)
        ),
    )


def _row(what: str, paper: float, ours: float, **values: object) -> Claim:
    return PAPER.claim(f"example.equation_3_{what}", round(ours * 1e6, 4), paper=round(paper * 1e6, 4), **values)
