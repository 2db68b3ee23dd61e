"""Prices of collectives as a collective library carries them, in the place of verified schedules.

A fabric that states what a library reaches on its links (``Fabric.library``) is priced so unless algorithms are named:
these prices are held to measured steps (:mod:`lightloom.calibration`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NoReturn

import numpy as np

from lightloom.collectives.bounds.lower_bound import Bound, lower_bound
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.registry import Algorithm, find
from lightloom.collectives.spec import CLASSIC, Collective, Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import BoundError, UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.planner.pricing.price_line import Chords, LowerPrice, dense_chords
from lightloom.simulation.lower import Price, Priced
from lightloom.transports.library import ranks_in_domain

_ROUNDING = 1e-9
_NODE_LINKS, _NETWORK_LINKS = 2, 4
"""Links that a message crosses inside a node and between nodes."""
_PASSES: Mapping[Kind, int] = {
    "all-reduce": 2,
    "all-gather": 1,
    "reduce-scatter": 1,
    "all-to-all": 1,
    "broadcast": 1,
    "reduce": 1,
}
"""How often the bytes of a collective pass a rank's link, but for its own share; for its energy."""


def _declines(kind: str, fabric: Fabric) -> str | None:  # noqa: ARG001 - all kinds alike
    return None if fabric.library else f"library: the {fabric.kind_name} states none (transport)"


def _no_schedule(collective: Collective, fabric: Fabric, *, striped: bool) -> NoReturn:  # noqa: ARG001
    raise UnsupportedError(f"the {collective.kind} of the fabric's collective library has no schedule of ours")


LIBRARY = Algorithm(
    name="library",
    build=_no_schedule,
    kinds=CLASSIC,
    declines=_declines,
    rows=lambda kind, fabric: 0,  # noqa: ARG005 - a closed form lists no transfers
    summary="the fabric's collective library, by the closed form of what it reaches; not a verified schedule",
)
"""Stands in the place of an algorithm, and is in no registry of schedules."""


def carrier(name: str) -> Algorithm:
    """Return the library or an algorithm by name.

    Raises:
        UnknownNameError: no such algorithm.
    """
    return LIBRARY if name == LIBRARY.name else find(name)


class LibraryPrices:
    """Prices of a group of ranks that is a fabric of its own; stands in the place of ``SchedulePrices``."""

    algorithm = LIBRARY

    def __init__(self, fabric: Fabric, model: CostModel) -> None:
        assert fabric.library is not None
        self.fabric = fabric
        self.model: CostModel = model
        self._library = fabric.library
        self._carried = fabric.as_carried()
        self._costs: dict[tuple[Kind, float], tuple[Cost, Bound]] = {}

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        return Priced(cost=self.cost(kind, nbytes)[0])

    def cost(self, kind: Kind, nbytes: float) -> tuple[Cost, Bound]:
        """The cost of one collective, and the bound it was held against.

        Raises:
            BoundError: the closed form lies below a proved bound.
        """
        if (kind, nbytes) not in self._costs:
            self._costs[kind, nbytes] = self._cost(kind, nbytes)
        return self._costs[kind, nbytes]

    def seconds(self, kind: Kind, nbytes: Floats) -> Floats:
        """Seconds of collectives, in the shape of ``nbytes``: [sizes]."""
        ranks = np.full(len(nbytes), self.fabric.ranks)
        return self._library.seconds(kind, ranks, np.ones_like(ranks), nbytes)

    def below(self, kind: Kind) -> Chords:
        """Return chords below the seconds of a kind of collective."""
        return dense_chords(partial(self.seconds, kind))

    def _cost(self, kind: Kind, nbytes: float) -> tuple[Cost, Bound]:
        group = np.array([self.fabric.ranks]), np.ones(1, np.int64)
        seconds = float(self.seconds(kind, np.array([nbytes]))[0])
        collective, adds = Collective(kind, self.fabric.ranks, nbytes), self._library.tiers.reduction
        bound = lower_bound(collective, self._carried, self.model, switches_add=adds)
        if seconds < bound.time * (1 - _ROUNDING):
            raise BoundError(f"{LIBRARY.name}: {kind} costs {seconds} s, below the lower bound of {bound.time} s")
        energy = self._energy(kind, nbytes, int(ranks_in_domain(self._library.domain, *group)[0]))
        return _priced(seconds, energy).cost, bound

    def _energy(self, kind: Kind, nbytes: float, inside: int) -> float | None:
        """Joules of a ring through all nodes; None where the energy per bit has no source."""
        if self.fabric.energy_per_bit is None:
            return None
        ranks = self.fabric.ranks
        leaving = 0.0 if inside == ranks else 1 / inside
        links = (1 - leaving) * _NODE_LINKS + leaving * _NETWORK_LINKS
        bits = 8 * self.fabric.wire_bytes(_PASSES[kind] * (ranks - 1) * nbytes)
        return bits * links * self.fabric.energy_per_bit

    def choice(self, kind: Kind, nbytes: float) -> LibraryPrices:
        """The prices that serve a collective: these."""
        return self

    def schedule(self, kind: Kind, nbytes: float) -> NoReturn:
        """There is none.

        Raises:
            UnsupportedError: always.
        """
        _no_schedule(Collective(kind, self.fabric.ranks, nbytes), self.fabric, striped=False)

    def built_for(self, kind: Kind, nbytes: float) -> float:
        """0: one form serves all sizes."""
        return 0.0

    @property
    def cached(self) -> Mapping[tuple[Kind, float, float], tuple[Priced, Bound]]:
        """Nothing: a closed form is not worth keeping."""
        return {}

    def drop_schedules(self) -> None:
        """Do nothing: a closed form keeps no schedules."""


class LibraryPricing:
    """Prices of the library alone for all groups of a fabric, without looking for the parts of the fabric.

    Stands in the place of ``GroupPrices`` where strategies are priced and none is searched.
    """

    def __init__(self, fabric: Fabric) -> None:
        """``fabric`` states what its library reaches."""
        assert fabric.library is not None
        self._library = fabric.library

    def exchange_time(
        self, kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats
    ) -> Floats:
        """Seconds of collectives for columns of strategies (``ExchangeTime``); 0 where nothing is sent."""
        return np.where(nbytes > 0, self._library.seconds(kind, ranks, stride, nbytes), 0.0)

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Return None: the library serves every kind on every group."""
        return None

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        """Prices of a group of ``ranks`` that lie ``stride`` apart."""
        group = np.array([ranks]), np.array([stride])

        def price(kind: Kind, nbytes: float) -> Priced:
            return _priced(float(self._library.seconds(kind, *group, np.array([nbytes]))[0]), None)

        return price

    def algorithm(self, kind: Kind, nbytes: float, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str:
        """Return the name that plans show for what carries the collective, whatever is asked for."""
        return LIBRARY.name

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        """Chords below the one price."""
        group = np.array([ranks]), np.array([stride])
        return [dense_chords(lambda nbytes: self._library.seconds(kind, *group, nbytes[None])[0])]


def _priced(seconds: float, energy: float | None) -> Priced:
    cost = Cost(
        steps=1,
        time=seconds,
        transmission=seconds,
        conversion=0.0,
        reconfiguration=0.0,
        setup=0.0,
        static=True,
        energy=energy,
    )
    return Priced(cost=cost)
