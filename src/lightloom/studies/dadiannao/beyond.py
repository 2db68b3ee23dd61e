"""Beyond the paper: faster links, other topologies, and a broadcast that uses both axes of the mesh."""

from __future__ import annotations

from math import inf

from lightloom.core.claims import Claim
from lightloom.parallelism.dadiannao import ChipLink, Hops, link_of, mesh_hops, ring_hops, tree_hops
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.model import FITTED, MIXED, Figures, chip, links, mean, saved, time_of

SPEEDS = ("400-O", "800-O", "1600-O", "3200-O")
"""Kinds of links by their bandwidth in one direction."""
TOPOLOGIES: dict[str, Hops] = {"mesh": mesh_hops, "ring": ring_hops, "tree": tree_hops}


def link(name: str) -> ChipLink:
    """Return a link; ``infinite`` has infinite bandwidth, ``ideal`` also no latency."""
    if name in ("infinite", "ideal"):
        return ChipLink(bandwidth=inf, latency=link_of(chip(), "400-O").latency if name == "infinite" else 0.0)
    return link_of(chip(), name)


def time_saved(name: str, topology: str = "mesh") -> Figures:
    """Return the percentage of time saved over the electrical mesh in each case."""
    return saved(link(name), links(MIXED)["25-E"], FITTED, time_of, hops=TOPOLOGIES[topology])


def both_axes() -> Figures:
    """Per cent of time that the electrical mesh saves when its broadcasts use both axes at once.

    The bandwidth term of Eq. 3 halves (:mod:`lightloom.studies.dadiannao.mesh_broadcast`), as if links were twice as
    fast.
    """
    electrical = links(MIXED)["25-E"]
    doubled = ChipLink(bandwidth=2 * electrical.bandwidth, latency=electrical.latency)
    return saved(doubled, electrical, FITTED, time_of)


def claims() -> tuple[Claim, ...]:
    """Return rows without a value of the paper."""
    rows = [_row(f"beyond_{name.lower().replace('-o', 'g')}", time_saved(name), _WHY.get(name, "")) for name in SPEEDS]
    rows += [_row(f"beyond_{name}", time_saved(name), _WHY[name]) for name in ("infinite", "ideal")]
    rows += [
        _row(f"beyond_{name.lower().replace('-o', 'g')}_{topology}", time_saved(name, topology), _WHY[topology])
        for topology in ("ring", "tree")
        for name in SPEEDS
    ]
    rows.append(
        _row(
            "beyond_both_axes_25",
            both_axes(),
            "electrical links, every share halved: one half along rows "
            "first, the other along columns first. The schedule is built and verified, and saves as much as "
            "100 Gb/s optics do in the same units",
        )
    )
    return tuple(rows)


_WHY = {
    "infinite": "no time on the links but 160 ns a hop",
    "ideal": "no communication at all: what is left is computation",
    "ring": "the chips in one ring, (p − 1) · 160 ns a broadcast",
    "tree": "ceil(log2 p) · 160 ns a broadcast, which needs switches: on a mesh the hops sum to about 2(√p − 1) again",
}


def _row(what: str, figures: Figures, why: str) -> Claim:
    large, dense = mean(figures, batch=256), figures["DenseNet121", 256]
    return PAPER.claim(
        "headline.{what}",
        round(mean(figures), 2),
        why="beyond the paper; fitted computation, bandwidth in one direction"
        + (f"; {why}" if why else "")
        + f". At batch 256: {large:.1f} %, DenseNet121 there {dense:.1f} %",
        what=what,
    )
