"""Groups of ranks, their leaders and the aggregator above them. Source: INCEPTIONN, Fig. 1b and 1c."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Groups:
    """The ranks of each group; the first rank of a group leads it.

    Raises:
        ConfigError: a group is empty, or the ranks are not 0, 1, … each once.
    """

    members: tuple[tuple[int, ...], ...]
    aggregator: int | None = None
    """The rank that adds up what the leaders send (Fig. 1b); without one they form a ring (Fig. 1c)."""

    def __post_init__(self) -> None:
        ranks = [rank for group in self.members for rank in group]
        ranks += [] if self.aggregator is None else [self.aggregator]
        if not self.members or not all(self.members) or sorted(ranks) != list(range(len(ranks))):
            raise ConfigError(f"groups {self.members}, aggregator {self.aggregator}: expected each rank from 0 once")

    @classmethod
    def of(cls, groups: int, size: int, *, aggregator: bool = False) -> Groups:
        """``groups`` groups of ``size`` neighbouring ranks; the aggregator, if any, comes last."""
        members = tuple(tuple(range(group * size, (group + 1) * size)) for group in range(groups))
        return cls(members, groups * size if aggregator else None)

    @property
    def leaders(self) -> tuple[int, ...]:
        """Leader of each group."""
        return tuple(group[0] for group in self.members)

    @property
    def slices(self) -> int:
        """Number of parts of what the leaders exchange; enough to keep every hop of a group busy."""
        return max(len(group) for group in self.members)
