"""A collective on all ranks as a sequence of collectives on groups of them.

Ranks lie on axes: rank = x₀ + n₀·x₁ + n₀·n₁·x₂ + ..., so that the ranks of a domain are neighbours and those of a rail
lie a domain apart. A phase carries one kind of collective in every group along one axis at once.

    axes (4, 3)        domain 0     domain 1     domain 2
    rail 0                0            4            8       hierarchical all-reduce:
    rail 1                1            5            9         reduce-scatter in every domain   (axis 0)
    rail 2                2            6           10         all-reduce along every rail      (axis 1)
    rail 3                3            7           11         all-gather in every domain       (axis 0)

What each phase finds follows from the phases before, axis by axis:

    kind               before, on every axis        after                          phases along an axis
    all-gather         a rank holds its own share   holds those of all             all-gather
    reduce-scatter     holds all, not summed        its own, summed                reduce-scatter
    all-reduce         holds all, not summed        holds all, summed              reduce-scatter and later all-gather;
                                                                                   or all-reduce, along one axis
    all-to-all         blocks are at their source   at their destination           all-to-all
    broadcast          only coordinate 0 holds it   all do                         broadcast
    reduce             each holds its part          coordinate 0 holds the sum     reduce

An all-reduce along a second axis would store the sums of the first one, which are not complete, over contributions that
ranks hold; the verifiers refuse that, since the bounds of all-reduces take for granted that no schedule does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.spec import KINDS, Kind
from lightloom.core.errors import ConfigError, UnknownNameError


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of collective in every group along an axis, by a flat algorithm."""

    kind: Kind
    axis: int
    algorithm: Algorithm

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownNameError("collective", str(self.kind), KINDS)

    def __str__(self) -> str:
        return f"{self.kind} along axis {self.axis} by {self.algorithm.name}"


def strides(sizes: Sequence[int]) -> list[int]:
    """Ranks between neighbours on each axis."""
    return [prod(sizes[:axis]) for axis in range(len(sizes))]


def check_phases(kind: Kind, ranks: int, sizes: Sequence[int], phases: Sequence[Phase]) -> None:
    """Prove that the phases together serve the kind on all ranks.

    Raises:
        ConfigError: they do not, or the axes do not hold the ranks.
    """
    if not sizes or min(sizes) < 2 or prod(sizes) != ranks:
        axes = " x ".join(map(str, sizes)) or "none"
        raise ConfigError(f"axes {axes} hold {prod(sizes)} ranks: expected axes of 2 or more that hold {ranks}")
    for phase in phases:
        if not 0 <= phase.axis < len(sizes):
            raise ConfigError(f"{phase}: expected an axis from 0 to {len(sizes) - 1}")
    for axis in range(len(sizes)):
        along: list[Kind] = [phase.kind for phase in phases if phase.axis == axis]
        wanted: list[list[Kind]] = [[kind], ["reduce-scatter", "all-gather"]] if kind == "all-reduce" else [[kind]]
        if along not in wanted:
            expected = " or ".join(" then ".join(way) for way in wanted)
            given = ", ".join(along) or "nothing"
            raise ConfigError(f"{kind} along axis {axis} of {sizes[axis]} ranks by {given}: expected {expected}")
    whole = [phase.axis for phase in phases if phase.kind == "all-reduce"]
    if len(whole) > 1:
        raise ConfigError(
            f"all-reduce along axes {whole[0]} and {whole[1]}: expected one axis, and reduce-scatter then all-gather "
            "along the others"
        )
