"""Collectives as pre- and postconditions: who holds what before, who must hold what after.

Data is cut into chunks. A chunk is held as the set of ranks whose contributions are already summed into it:

    kind             before                          after
    all-gather       the owner holds {owner}         every rank holds {owner}
    reduce-scatter   every rank r holds {r}          the owner holds {0, ..., N−1}
    all-reduce       every rank r holds {r}          every rank holds {0, ..., N−1}
    all-to-all       the source holds {source}       the destination holds {source}
    broadcast        rank 0 holds {0}                every rank holds {0}
    reduce           every rank r holds {r}          rank 0 holds {0, ..., N−1}

An all-to-all has a block for every ordered pair of ranks; what a rank has for itself counts, but stays where it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.fields import MAXIMUM_RANKS

Kind = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "broadcast", "reduce"]
KINDS: tuple[str, ...] = get_args(Kind)
FROM_ALL_GATHER = KINDS[:3]
"""What an algorithm that knows all-gather serves (:mod:`lightloom.collectives.schedule.compose`)."""
ROOTED = KINDS[4:]
"""Rank 0 owns every chunk, however many there are."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation over all ranks of a fabric.

    ``nbytes`` is what every rank holds at the end of an all-gather or a broadcast, at the start of a reduce-scatter, an
    all-reduce or a reduce, and at both of an all-to-all.
    """

    kind: Kind
    ranks: int
    nbytes: float

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownNameError("collective", str(self.kind), KINDS)
        if not 2 <= self.ranks <= MAXIMUM_RANKS:
            raise ConfigError(f"ranks={self.ranks}: a collective needs 2 to {MAXIMUM_RANKS} ranks")
        if not (math.isfinite(self.nbytes) and self.nbytes >= 0):
            raise ConfigError(f"nbytes={self.nbytes}: expected a finite size that is not negative")

    @property
    def nbytes_per_rank(self) -> float:
        """One rank's share, ``d`` in the papers."""
        return self.nbytes / self.ranks

    @property
    def distinct_nbytes(self) -> float:
        """Bytes of all chunks together, each counted once, wherever it is held."""
        return self.nbytes * (self.ranks if self.kind == "all-to-all" else 1)

    def of_kind(self, kind: Kind) -> Collective:
        """The same ranks and size, another kind."""
        return Collective(kind, self.ranks, self.nbytes)
