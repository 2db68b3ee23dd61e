"""Beyond the paper: faster links, other topologies, and a broadcast that uses both axes of the mesh."""

from __future__ import annotations

from math import inf

from lightloom.core.claims import Claim
from lightloom.parallelism.dadiannao import ChipLink, Hops, link_of, mesh_hops, ring_hops, tree_hops
from lightloom.studies.dadiannao import PAPER
from lightloom.studies.dadiannao.model import FITTED, MIXED, Figures, chip, links, mean, saved

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
    return saved("time", link(name), links(MIXED)["25-E"], FITTED, hops=TOPOLOGIES[topology])


def both_axes() -> Figures:
    """Per cent of time that the electrical mesh saves when its broadcasts use both axes at once.

    The bandwidth term of Eq. 3 halves (:mod:`lightloom.collectives.algorithms.mesh_broadcast`), as if links were twice
    as fast.
    """
    electrical = links(MIXED)["25-E"]
    doubled = ChipLink(bandwidth=2 * electrical.bandwidth, latency=electrical.latency)
    return saved("time", doubled, electrical, FITTED)


def claims() -> tuple[Claim, ...]:
    """Return rows without a value of the paper."""
    rows = [_row(name, time_saved(name)) for name in (*SPEEDS, "infinite", "ideal")]
    rows += [_row(f"{name}_{topology}", time_saved(name, topology)) for topology in ("ring", "tree") for name in SPEEDS]
    return (*rows, _row("both_axes_25", both_axes()))


def _row(what: str, figures: Figures) -> Claim:
    large, dense = mean(figures, batch=256), figures["DenseNet121", 256]
    remark = next((f"; {text}" for key, text in PAPER.tables["beyond"].items() if key in what), "")
    what = f"beyond_{what.lower().replace('-o', 'g')}"
    return PAPER.claim("headline.{what}", round(mean(figures), 2), what=what, remark=remark, large=large, dense=dense)
