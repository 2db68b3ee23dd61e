"""Prices of collectives as a collective library carries them, in the place of verified schedules.

A fabric that states what a library reaches on its links (``Fabric.library``) is priced so unless algorithms are named:
these prices are held to measured steps (:mod:`lightloom.planning.calibration`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import CLASSIC, Collective, Kind
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.registry import find
from lightloom.core.arrays import Floats, Ints
from lightloom.core.caches import cached_method
from lightloom.core.errors import BoundError, UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.transports.price import ranks_in_domain
from lightloom.planning.simulation.engine import Price, Priced

_BOUND_TOLERANCE = 1e-9
"""Share by which a closed form may lie below a proved bound, from rounding."""
_NODE_LINKS, _NETWORK_LINKS = 2, 4
"""Links that a message crosses inside a node and between nodes."""
_PASSES: Mapping[Kind, int] = dict.fromkeys(CLASSIC, 1) | {"all-reduce": 2}
"""How often the bytes of a collective pass a rank's link, but for its own share; for its energy."""


def _no_schedule(collective: Collective, fabric: Fabric, *, striped: bool) -> NoReturn:  # noqa: ARG001
    """Raise UnsupportedError: a collective of the library has no schedule."""
    raise UnsupportedError(f"the {collective.kind} of the fabric's collective library has no schedule of ours")


LIBRARY = Algorithm(
    name="library",
    build=_no_schedule,
    kinds=CLASSIC,
    declines=lambda _, fabric: None if fabric.library else f"library: the {fabric.kind_name} states none (transport)",
    rows=lambda kind, fabric: 0,  # noqa: ARG005 - a closed form lists no transfers
    summary="the fabric's collective library, by the closed form of what it reaches; not a verified schedule",
)
"""Stands in the place of an algorithm, and is in no registry of schedules."""


def carrier(name: str) -> Algorithm:
    """Return the algorithm of a name: ``LIBRARY`` for "library", otherwise the one in the registry of algorithms.

    Raises:
        UnknownNameError: no such algorithm.
    """
    return LIBRARY if name == LIBRARY.name else find(name)


class LibraryPrices:
    """Prices of a group of ranks that is a fabric of its own, by the closed form of its collective library; stands in
    the place of ``SchedulePrices``."""

    algorithm = LIBRARY

    def __init__(self, fabric: Fabric, model: CostModel) -> None:
        assert fabric.library is not None
        self.fabric = fabric
        self.model: CostModel = model
        self._library = fabric.library
        self._carried = fabric.as_carried()

    def seconds(self, kind: Kind, nbytes: Floats) -> Floats:
        """Return the seconds of collectives of ``nbytes`` bytes, [sizes], among all ranks of the group by the library's
        closed form: [sizes]."""
        ranks = np.full(len(nbytes), self.fabric.ranks)
        return self._library.seconds(kind, ranks, np.ones_like(ranks), nbytes)

    @cached_method()
    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective by the closed form, with its joules and its proved lower bound; cached.

        Raises:
            BoundError: it lies below the proved lower bound by more than rounding.
        """
        group = np.array([self.fabric.ranks]), np.ones(1, np.int64)
        seconds = float(self.seconds(kind, np.array([nbytes]))[0])
        collective, adds = Collective(kind, self.fabric.ranks, nbytes), self._library.tiers.reduction
        bound = lower_bound(collective, self._carried, self.model, switches_add=adds)
        if seconds < bound.time * (1 - _BOUND_TOLERANCE):
            raise BoundError(f"{LIBRARY.name}: {kind} costs {seconds} s, below the lower bound of {bound.time} s")
        energy = self._energy(kind, nbytes, int(ranks_in_domain(self._library.domain, *group)[0]))
        return replace(_priced(seconds, energy), proof=lambda: bound)

    def _energy(self, kind: Kind, nbytes: float, inside: int) -> float | None:
        """Return the joules of a collective of ``nbytes`` bytes over all ranks, as a ring through all ranks would send
        it, (ranks - 1) times the bytes, in an all-reduce twice, with their overhead on the wire; None where the fabric
        states no energy per bit. ``inside`` is the number of ranks of the group in each node: messages inside a node
        cross two links, those between nodes four, which is one message in ``inside``, or none where the group lies in
        one node."""
        if self.fabric.energy_per_bit is None:
            return None
        ranks = self.fabric.ranks
        leaving = 0.0 if inside == ranks else 1 / inside
        links = (1 - leaving) * _NODE_LINKS + leaving * _NETWORK_LINKS
        return 8 * self.fabric.wire_bytes(_PASSES[kind] * (ranks - 1) * nbytes) * links * self.fabric.energy_per_bit

    def schedule(self, kind: Kind, nbytes: float) -> NoReturn:
        """Refuse: a closed form has no schedule.

        Raises:
            UnsupportedError: always.
        """
        _no_schedule(Collective(kind, self.fabric.ranks, nbytes), self.fabric, striped=False)

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

    def on_axis(self, _: object) -> Callable[[Kind, Ints, Ints, Ints, Ints, Floats], Floats]:
        """Return the function that gives the seconds of columns of collectives in groups of an axis,
        :meth:`exchange_time`: the same one whatever axis of parallelism is given."""
        return self.exchange_time

    def exchange_time(
        self, kind: Kind, algorithm: Ints, ranks: Ints, stride: Ints, exchange: Ints, nbytes: Floats
    ) -> Floats:
        """Return the seconds of collectives for columns of strategies by the library's closed form, 0 where ``nbytes``
        is 0: [rows].

        Args:
            kind: of all the collectives.
            algorithm: ignored, as the library has one closed form.
            ranks: ranks of each group: [rows].
            stride: distance between neighbouring ranks of a group: [rows].
            exchange: ignored; bytes are taken as they are.
            nbytes: bytes of each collective: [rows].
        """
        return np.where(nbytes > 0, self._library.seconds(kind, ranks, stride, nbytes), 0.0)

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Return None: the library serves every kind on every group, whatever the arguments."""
        return None

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        """Return the function of kind and bytes that prices collectives in a group of ``ranks`` that lie ``stride``
        apart, whatever the algorithm and the exchange; its prices have no energy and are not held against a bound."""
        return lambda kind, nbytes: self._price(kind, ranks, stride, nbytes)

    @cached_method()
    def _price(self, kind: Kind, ranks: int, stride: int, nbytes: float) -> Priced:
        """Return the price of one collective in a group of ``ranks`` that lie ``stride`` apart; cached."""
        seconds = self._library.seconds(kind, np.array([ranks]), np.array([stride]), np.array([nbytes]))
        return _priced(float(seconds[0]), None)


def _priced(seconds: float, energy: float | None) -> Priced:
    """Return the price of a collective of the library that takes so many seconds, all of them transmission, in one
    step, with circuits that never change; ``energy`` in joules, None where unknown."""
    nothing = {"conversion": 0.0, "reconfiguration": 0.0, "setup": 0.0}
    cost = Cost(steps=1, time=seconds, transmission=seconds, static=True, energy=energy, **nothing)
    return Priced(cost=cost, algorithm=LIBRARY.name)
