"""Prices of exchanges that have phases of their own: each phase at the price of its collective, and the coding.

    int4     all-to-all of codes, all-gather of codes, coding
    diloco   what its inner method takes, every so many steps: a step pays its share

A step pays 1 / every of an exchange that comes every so many steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.cost.price import Cost
from lightloom.collectives.registry import Algorithm
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Kind
from lightloom.core.errors import UnsupportedError
from lightloom.exchange.method import Phase, nbytes_of_terms, sum_over_hops
from lightloom.planner.gradients.priced import PricedExchange
from lightloom.planner.pricing.cheapest import CheapestPrices, CollectivePrices
from lightloom.planner.pricing.price_line import ExchangeLine, LowerPrice
from lightloom.simulation.lower import Priced

_TIMES = ("time", "transmission", "conversion", "reconfiguration", "encode", "decode")


class GroupPhase(NamedTuple):
    """A collective of an exchange in a group of ranks."""

    kind: Kind
    nbytes: float
    ranks: int
    stride: int


def group_phases(
    exchange: PricedExchange, kind: Kind, values: float, ranks: int, stride: int, *, in_network: bool
) -> list[GroupPhase]:
    """The collectives of an exchange of so many values, in order, in the place of one of ``kind``.

    Sums that are added up around a ring become a reduce-scatter of their mean size and an all-gather of finished ones.
    Where the network adds up light, what all ranks have to agree on takes an all-reduce like everything else.
    """
    found: list[GroupPhase] = []
    for phase in exchange.phases(kind, values, ranks):
        members = exchange.method.ranks_of(phase, ranks)
        apart = ranks // members * stride if phase.where == "between nodes" else stride
        if members == 1:
            continue
        if phase.nbytes_by_terms:
            sizes = ("reduce-scatter", sum_over_hops(phase, members)), ("all-gather", nbytes_of_terms(phase, members))
            found += [GroupPhase(part, nbytes, members, apart) for part, nbytes in sizes]  # type: ignore[arg-type]
        elif in_network and phase.kind == "all-gather":
            found.append(GroupPhase("all-reduce", phase.nbytes / members, members, apart))
        else:
            found.append(GroupPhase(phase.kind, phase.nbytes, members, apart))
    return found


@dataclass(frozen=True, slots=True)
class CarriedExchange:
    """One exchange, as it is carried; stands in the place of the prices of one algorithm."""

    prices: ExchangePrices
    algorithm: Algorithm
    """Of its phase of most bytes."""

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        return self.prices(kind, nbytes)

    def cost(self, kind: Kind, nbytes: float) -> tuple[Cost, Bound]:
        """The cost of one exchange, and the bounds that its phases were held against."""
        return self.prices.cost(kind, nbytes)

    def values_nbytes(self, kind: Kind, nbytes: float) -> float | None:
        """Bytes of float32 that are exchanged in the place of a collective; None where this kind is left as it is."""
        return self.prices.values_nbytes(kind, nbytes)

    def sent_nbytes(self, kind: Kind, nbytes: float) -> float:
        """Size of the plain collective that sends as many bytes."""
        return self.prices.sent_nbytes(kind, nbytes)


class ExchangePrices:
    """Prices of a method among a group of ranks; calls as the simulator's ``Price``."""

    def __init__(
        self,
        exchange: PricedExchange,
        plain: Callable[[int, int], CheapestPrices],
        element_bytes: Mapping[Kind, int],
        ranks: int,
        stride: int,
        *,
        in_network: bool,
    ) -> None:
        """Price an exchange.

        Args:
            exchange: with its engine.
            plain: prices of collectives as they are, in groups of so many ranks so far apart.
            element_bytes: bytes of one gradient in the kinds of collectives that carry them.
            ranks: ranks of the group.
            stride: their distance.
            in_network: whether the fabric adds up light on its way.
        """
        self.exchange = exchange
        self._plain = plain
        self._element_bytes = element_bytes
        self._group = ranks, stride
        self._in_network = in_network
        self._costs: dict[tuple[Kind, float], tuple[Priced, Bound]] = {}

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        return self._entry(kind, nbytes)[0]

    def cost(self, kind: Kind, nbytes: float) -> tuple[Cost, Bound]:
        """A step's share of the cost of one exchange, and of the bounds that its phases were held against."""
        priced, bound = self._entry(kind, nbytes)
        return priced.cost, bound

    def choice(self, kind: Kind, nbytes: float) -> CollectivePrices | CarriedExchange:
        """What carries an exchange."""
        if kind not in self._element_bytes:
            return self._plain(*self._group).choice(kind, nbytes)
        phases = self.phases(kind, nbytes)
        if not phases:
            return self._plain(*self._group).choice(kind, nbytes)
        largest = max(phases, key=lambda phase: phase.nbytes)
        algorithm = self._plain(largest.ranks, largest.stride).choice(largest.kind, largest.nbytes).algorithm
        return CarriedExchange(self, algorithm)

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """The verified schedule of an exchange of one phase.

        Raises:
            UnsupportedError: it has several.
        """
        if kind not in self._element_bytes:
            return self._plain(*self._group).schedule(kind, nbytes)
        phases = self.phases(kind, nbytes)
        if len(phases) != 1:
            raise UnsupportedError(f"{self.exchange.name}: {len(phases)} collectives have no schedule in common")
        return self._plain(phases[0].ranks, phases[0].stride).schedule(phases[0].kind, phases[0].nbytes)

    def phases(self, kind: Kind, nbytes: float) -> list[GroupPhase]:
        """The collectives of an exchange in the place of one of so many bytes."""
        values = nbytes / self._element_bytes[kind]
        return group_phases(self.exchange, kind, values, *self._group, in_network=self._in_network)

    def algorithms(self, kind: Kind, nbytes: float) -> tuple[str, ...]:
        """Names of the algorithms that carry its phases, in their order; of a kind that is left as it is, of that."""
        if kind not in self._element_bytes:
            return (self.choice(kind, nbytes).algorithm.name,)
        carriers = (self._plain(phase.ranks, phase.stride) for phase in self.phases(kind, nbytes))
        phases = zip(carriers, self.phases(kind, nbytes), strict=True)
        return tuple(carrier.choice(phase.kind, phase.nbytes).algorithm.name for carrier, phase in phases)

    def values_nbytes(self, kind: Kind, nbytes: float) -> float | None:
        """Bytes of float32 that are exchanged in the place of a collective; None where this kind is left as it is."""
        return 4 * nbytes / self._element_bytes[kind] if kind in self._element_bytes else None

    def sent_nbytes(self, kind: Kind, nbytes: float) -> float:
        """Size of the plain collective that sends as many bytes a step."""
        values = nbytes / self._element_bytes[kind]
        return self.exchange.sent_bytes(kind, values, self._group[0]) / self.exchange.every

    def lines(
        self, kind: Kind, lines_of: Callable[[Kind, int, int], Sequence[LowerPrice]]
    ) -> Sequence[LowerPrice] | None:
        """Lower bounds of these prices; None for a kind that is left as it is.

        Args:
            kind: of the collectives.
            lines_of: lower bounds of the plain prices of a kind in groups of so many ranks so far apart.
        """
        if kind not in self._element_bytes:
            return None
        phases = self.phases(kind, 1.0)
        parts = tuple((tuple(lines_of(phase.kind, phase.ranks, phase.stride)), phase.nbytes) for phase in phases)
        if not all(lines for lines, _ in parts):
            return []
        nothing, some = (sum(self._coding(kind, nbytes)) for nbytes in (0.0, 1.0))
        return [ExchangeLine(parts, nothing, some - nothing, self.exchange.every)]

    def _coding(self, kind: Kind, nbytes: float) -> tuple[float, float]:
        return self.exchange.coding(kind, nbytes / self._element_bytes[kind], self._group[0])

    def _entry(self, kind: Kind, nbytes: float) -> tuple[Priced, Bound]:
        if kind not in self._element_bytes:
            plain = self._plain(*self._group)
            return plain(kind, nbytes), plain.cost(kind, nbytes)[1]
        if (kind, nbytes) not in self._costs:
            self._costs[kind, nbytes] = self._price(kind, nbytes)
        return self._costs[kind, nbytes]

    def _price(self, kind: Kind, nbytes: float) -> tuple[Priced, Bound]:
        phases = self.phases(kind, nbytes)
        carriers = [self._plain(phase.ranks, phase.stride).choice(phase.kind, phase.nbytes) for phase in phases]
        priced = [carrier(phase.kind, phase.nbytes) for carrier, phase in zip(carriers, phases, strict=True)]
        bounds = [carrier.cost(phase.kind, phase.nbytes)[1] for carrier, phase in zip(carriers, phases, strict=True)]
        coding, every = self._coding(kind, nbytes), self.exchange.every
        whole = _together(priced, *coding)
        largest = max(bounds, key=lambda bound: bound.time, default=Bound(0.0, "nothing"))
        shared = {name: getattr(whole.cost, name) / every for name in (*_TIMES, "setup")}
        energy = None if whole.cost.energy is None else whole.cost.energy / every
        cost = replace(whole.cost, **shared, energy=energy)
        bound = replace(largest, time=sum(bound.time for bound in bounds) / every)
        return replace(whole, cost=cost), bound


def _together(priced: Sequence[Priced], encode: float, decode: float) -> Priced:
    """One cost of all phases; circuits stay where all phases have the same."""
    keys = {each.circuits for each in priced}
    static = (bool(priced) and len(keys) == 1 and None not in keys) or (len(priced) == 1 and priced[0].cost.static)
    costs = [each.cost for each in priced]
    sums = {name: sum(getattr(cost, name) for cost in costs) for name in _TIMES}
    setup = costs[0].setup if static else 0.0
    again = sum(cost.setup for cost in costs[1:]) if static else 0.0
    energies = [cost.energy for cost in costs]
    cost = Cost(
        steps=sum(cost.steps for cost in costs),
        time=sums["time"] - again + encode + decode,
        transmission=sums["transmission"],
        conversion=sums["conversion"],
        reconfiguration=sums["reconfiguration"] - again,
        setup=setup,
        static=static,
        energy=None if None in energies else sum(energy for energy in energies if energy is not None),
        encode=sums["encode"] + encode,
        decode=sums["decode"] + decode,
    )
    return Priced(cost=cost, circuits=next(iter(keys)) if static and len(keys) == 1 else None)


def phase_document(phase: Phase) -> dict[str, object]:
    """A phase in plain types."""
    return {
        "kind": phase.kind,
        "bytes": phase.nbytes,
        "bytes_by_terms": [list(size) for size in phase.nbytes_by_terms],
        "where": phase.where,
        "hideable": phase.hideable,
    }
