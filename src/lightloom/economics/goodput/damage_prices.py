"""What a failed link costs in steps that go on without it, as ``lightloom damage`` prices it."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.collectives.around_failures import around_failures
from lightloom.collectives.spec import Collective
from lightloom.core.units import format_size
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.failures import Failure
from lightloom.parts.part import Kind

MOST_RANKS = 64
"""Larger rings are priced as rings of so many nodes: searches take seconds there, and the slowdown of a long message is
set by channels and broken links, not by the number of nodes."""
_CHANNELS_OF_A_LASER = 16
"""Wavelengths of one light source (a SuperNova of Ayar Labs has 16)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagePrice:
    """Times as long as an all-reduce takes around a failure."""

    slowdown: float | None
    """None where the option cannot be priced; ``why`` says why then, and otherwise what was priced."""
    why: str


def damage_price(fabric: Fabric, kind: Kind | None, nbytes: float) -> DamagePrice:
    """Return the slowdown of an all-reduce of ``nbytes`` after one part of this kind has failed."""
    if not fabric.may_fail or fabric.damaged:
        return DamagePrice(slowdown=None, why=f"lightloom damage does not serve a fabric of kind {fabric.kind_name}")
    failures = [failure for failure in _failures(fabric, kind) if failure.what in fabric.may_fail]
    if not failures:
        return DamagePrice(slowdown=None, why=f"lightloom damage has no failure for a {kind or 'network'} part")
    ranks = min(fabric.ranks, MOST_RANKS)
    part = fabric if ranks == fabric.ranks else fabric.group(ranks)
    if part is None:
        return DamagePrice(slowdown=None, why=f"a {fabric.kind_name} of {fabric.ranks:,} ranks has no part of {ranks}")
    request = Collective("all-reduce", ranks, nbytes)
    slowdown = around_failures(request, part, [[], failures])[1]["slowdown"]
    named = failures[0].text() if len(failures) == 1 else f"{failures[0].text()} to {failures[-1].text()}"
    return DamagePrice(
        slowdown=max(float(slowdown), 1.0),
        why=f"{slowdown:.3g} times the time of an all-reduce of {format_size(nbytes)} on {ranks} ranks, around {named}",
    )


def _failures(fabric: Fabric, kind: Kind | None) -> list[Failure]:
    """Return what one failed part of a kind leaves dead; all nodes are alike, so that it is node 0."""
    if kind in ("engine", "transceiver", "modulator", "receiver", "ring", "nic"):
        return [Failure.parse("transceiver:0:0")]
    if kind == "light-source":
        lit = min(_CHANNELS_OF_A_LASER, fabric.channels)
        return [Failure.parse(f"transceiver:0:{channel}") for channel in range(lit)]
    if kind in ("fibre", "cable", "amplifier"):
        return [Failure.parse("cable:0")]
    return []
