"""A collective on a fabric of parts, as collectives that the parts carry one after the other.

    rank = place + stride · group        inside: the ranks of a group; between: those in one place of all groups

    all-reduce        reduce-scatter inside, all-reduce of a share between, all-gather inside; where what is inside only
                      adds in its network: all-reduce inside, all-reduce between
    reduce-scatter    inside, then of a share between
    all-gather        of a share between, then inside
    all-to-all        inside, then between: of blocks for one place, then for one group
    reduce            inside, then between
    broadcast         between, then inside
    gather, scatter   inside and between, or the other way, of the data of a group inside

Parts may have parts of their own: inside is then the innermost one, and between all others. A level begins when the one
before has ended.
"""

from __future__ import annotations

from typing import NamedTuple

from lightloom.collectives.collective import CLASSIC, TO_OR_FROM_ROOT, Kind
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric


class GroupPhase(NamedTuple):
    """A collective in all groups of a fabric that lie alike."""

    kind: Kind
    nbytes: float
    ranks: int
    """Ranks of a group."""
    stride: int
    """Distance between neighbouring ranks of a group."""


def levels(kind: Kind, nbytes: float, fabric: Fabric, stride: int = 1) -> list[GroupPhase]:
    """Return the collectives, one after the other, that together carry a collective on a fabric of parts, each with its
    kind, its bytes, the ranks of a group and the stride between them.

    All groups of a phase run it at once. With n the ranks of the innermost part, the phases are: an all-reduce, the
    reduce-scatter inside the innermost parts, the all-reduce of ``nbytes`` / n between them, the all-gather inside
    (or, where the innermost part only adds in its network, all-reduce inside, then between, of all bytes); of any other
    kind the same kind inside and between, between first in an all-gather, a broadcast and a scatter. Between takes
    ``nbytes`` / n in a reduce-scatter and an all-gather; inside takes ``nbytes`` over the number of innermost parts in
    a gather and a scatter.

    Args:
        kind: of the collective.
        nbytes: its bytes, as ``Collective`` counts them.
        fabric: with parts (``Fabric.parts``), a group of a larger one or the whole.
        stride: distance between neighbouring ranks of the fabric in the larger one; strides in the result are in the
            larger one too.

    Raises:
        UnsupportedError: a permute, a barrier, or a kind whose parts have sizes.
    """
    inside = fabric
    while inside.parts:
        inside = inside.parts[0]
    within = (inside.ranks, stride)
    across = (fabric.ranks // inside.ranks, stride * inside.ranks)
    share = nbytes / inside.ranks
    if kind == "all-reduce" and not inside.in_network_reduction:
        return [
            GroupPhase("reduce-scatter", nbytes, *within),
            GroupPhase("all-reduce", share, *across),
            GroupPhase("all-gather", nbytes, *within),
        ]
    if kind not in (known := (*CLASSIC, *TO_OR_FROM_ROOT)):
        raise UnsupportedError(f"{kind} on {fabric.heading()}: expected one of {', '.join(known)}")
    own = nbytes * inside.ranks / fabric.ranks if kind in TO_OR_FROM_ROOT else nbytes
    other = share if kind in ("reduce-scatter", "all-gather") else nbytes
    phases = [GroupPhase(kind, own, *within), GroupPhase(kind, other, *across)]
    return phases[::-1] if kind in ("all-gather", "broadcast", "scatter") else phases
