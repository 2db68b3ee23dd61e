"""Prices of collectives in one group of ranks that several algorithms, or several collectives in turn, may carry.

    CheapestPrices     of several algorithms the cheapest for each kind and size
    ExchangePrices     a method of exchanging gradients: each phase at the price of its collective, and the coding
    LevelPrices        a fabric of parts: each level at the price of its collective on a part

All are called with a kind and bytes, and return a ``Priced``, as are those that they choose among
(:mod:`~lightloom.planning.pricing.schedule_prices`, :mod:`~lightloom.planning.pricing.library_prices`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import Bound, lower_bound
from lightloom.collectives.collective import ROOTED, TO_OR_FROM_ROOT, Collective, Kind
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.levels import GroupPhase, levels
from lightloom.collectives.registry import Refusal, attempt, keeps_to
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats
from lightloom.core.caches import cached_method
from lightloom.core.errors import BoundError, UnsupportedError
from lightloom.core.results import attributes
from lightloom.exchange.method import Phase, nbytes_of_terms, sum_over_hops
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.pricing.price_lines import CollectivePrices, LowerPrice, PriceLine, exchange_line
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.simulation.engine import Price, Priced

# The cheapest of several algorithms for each collective of a group.

STRIPED = "-striped"
"""Suffix of the name of an algorithm's striped form."""
_NOT_CHEAPER = 1 + 1e-9
"""Factor above the best price from which lower bounds are not followed up."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An algorithm that may carry a kind of collective in a group, built where a price asks for it."""

    algorithm: Algorithm
    floor: PriceLine | None
    """A lower bound of its prices for which nothing is built; None where there is none."""
    near: bool
    """True where the floor follows from what the algorithm sends, so that it is near its prices."""
    failure: Callable[[], str | None]
    """Return the reason that it fails, None where it does not; builds its schedule the first time, cached."""
    prices: Callable[[], CollectivePrices]
    line: Callable[[bool], LowerPrice]
    """Return the lower bound of its prices, with the first set-up of circuits hidden or not; cached."""
    spare: bool = False
    """True where the striped form of the algorithm, than which it is not faster, comes before: it counts only where
    that fails."""


def _in_turn(candidates: Sequence[Candidate], worth: Callable[[PriceLine], bool]) -> Iterator[Candidate | str]:
    """Yield the candidates, built, whose floors are ``worth`` building at that moment, or the reason that one fails;
    those without a floor always are."""
    failed: set[str] = set()
    for each in candidates:
        if each.spare and f"{each.algorithm.name}{STRIPED}" not in failed:
            continue
        if each.floor is None or worth(each.floor):
            why = each.failure()
            failed |= set() if why is None else {each.algorithm.name}
            yield each if why is None else why


class LeastPrice:
    """The least of the lower bounds of several algorithms, a :class:`LowerPrice`: of their floors where these are near
    their prices; any other algorithm is built where its floor is below the least at some size that is asked for."""

    def __init__(self, candidates: Sequence[Candidate], *, hidden_setup: bool) -> None:
        self._candidates, self._hidden_setup = candidates, hidden_setup
        self._near = np.array([each.floor for each in candidates if each.near], np.float64).reshape(-1, 4).T
        self._others = [each for each in candidates if not each.near]

    def __call__(self, nbytes: Floats, /) -> Floats:
        """Return the least seconds at each size (bytes), in its shape; infinite where every algorithm fails."""
        floors = PriceLine(*self._near.reshape(*self._near.shape, *[1] * np.ndim(nbytes)))
        least = np.array(floors(nbytes).min(axis=0, initial=np.inf))
        for each in _in_turn(self._others, lambda floor: bool((floor(nbytes) < least).any())):
            if isinstance(each, Candidate):
                np.minimum(least, each.line(self._hidden_setup)(nbytes), out=least)
        return least


class CheapestPrices:
    """Prices of the cheapest of several algorithms for each collective."""

    def __init__(self, candidates: Callable[[Kind], Sequence[Candidate]]) -> None:
        """``candidates`` are the algorithms that may serve a kind of collective, those that build by size last."""
        self._candidates = candidates

    @cached_method()
    def choice(self, kind: Kind, nbytes: float) -> CollectivePrices:
        """Return the prices of the algorithm that carries a collective of ``nbytes`` bytes in the least time, its
        circuits in place; cached. A single candidate whose schedule serves all sizes is returned without a price.

        Raises:
            UnsupportedError: no algorithm carries this kind, or every one fails at this size.
        """
        return _cheapest(self._candidates(kind), kind, nbytes)

    def carrier(self, kind: Kind, nbytes: float) -> CollectivePrices:
        """Return the prices of the schedule that carries a collective of ``nbytes`` bytes in the least time, that one
        schedule for all sizes, as where the algorithm of :meth:`choice` builds by size."""
        prices = self.choice(kind, nbytes)
        if isinstance(prices, SchedulePrices) and prices.algorithm.by_size:
            return prices.at(prices.built_for(kind, nbytes))
        return prices

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective of ``nbytes`` bytes by the algorithm that :meth:`choice` picks."""
        return self.choice(kind, nbytes)(kind, nbytes)

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """Return the verified schedule of one collective of ``nbytes`` bytes by the algorithm that carries it in the
        least time.

        Raises:
            UnsupportedError: every algorithm fails at this size, or a collective library carries it.
        """
        return self.choice(kind, nbytes).schedule(kind, nbytes)


def _cheapest(candidates: Sequence[Candidate], kind: Kind, nbytes: float) -> CollectivePrices:
    """Return the prices of the candidate that carries a collective in the least time with its circuits in place
    (``Cost.repeated_time``), of equal ones the first by name.

    A candidate whose floor is not below the best price so far is not built, one whose lower bound is above it is not
    priced, and a single candidate whose schedule serves all sizes is returned unpriced.

    Args:
        candidates: algorithms, those that build by size last.
        kind: of the collective.
        nbytes: its size in bytes.

    Raises:
        UnsupportedError: every algorithm fails, at this size or at all, which any exception but BoundError means; with
            their reasons.
        BoundError: a cost lies below its lower bound.
    """
    size = np.array(nbytes)
    priced: list[tuple[float, str, CollectivePrices]] = []
    failures: list[str] = []

    def least() -> float:
        """Return the least seconds of those priced so far."""
        return min((seconds for seconds, _, _ in priced), default=np.inf)

    for each in _in_turn(candidates, lambda floor: bool(floor(size) < least())):
        if isinstance(each, str):
            failures.append(each)
            continue
        prices = each.prices()
        if len(candidates) == 1 and not each.algorithm.by_size:
            return prices
        if each.line(False)(size) > least() * _NOT_CHEAPER:
            continue
        outcome = attempt(each.algorithm, partial(prices, kind, nbytes))
        if isinstance(outcome, Refusal):
            failures.append(outcome.why)
        else:
            priced.append((outcome.cost.repeated_time, each.algorithm.name, prices))
    if not priced:
        raise UnsupportedError("; ".join(dict.fromkeys(failures)))
    return min(priced, key=lambda each: each[:2])[2]


# Prices of exchanges that have phases of their own: each phase at the price of its collective, and the coding.
#
# int4     all-to-all of codes, all-gather of codes, coding
# diloco   what its inner method takes, every so many steps: a step pays its share
#
# A step pays 1 / every of an exchange that comes every so many steps.

_TIMES = ("time", "transmission", "conversion", "reconfiguration", "encode", "decode")


def group_phases(
    exchange: PricedExchange, kind: Kind, values: float, ranks: int, stride: int, adds: Callable[[int, int], bool]
) -> list[GroupPhase]:
    """Return the collectives of an exchange (kind, bytes at a rank, ranks, stride; the bytes are those at the end of an
    all-gather, at the start of other kinds), in order, in the place of one of ``kind``; phases among a single rank are
    left out, and phases between nodes have fewer ranks that lie further apart.

    Sums that are added up around a ring become a reduce-scatter of their mean size and an all-gather of finished ones.
    Where the network of a phase adds up light, an all-gather becomes an all-reduce of one rank's share.

    Args:
        exchange: the method on the model's gradient.
        kind: of the collective that the exchange stands for; of a reduce-scatter only the first phase is taken.
        values: number of gradients that are exchanged.
        ranks: ranks of the group.
        stride: distance between neighbouring ranks of the group.
        adds: returns, for a phase's number of ranks and their stride, whether the network adds up light there.
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
        elif phase.kind == "all-gather" and adds(members, apart):
            found.append(GroupPhase("all-reduce", phase.nbytes / members, members, apart))
        else:
            found.append(GroupPhase(phase.kind, phase.nbytes, members, apart))
    return found


class PhasedPrices(ABC):
    """Prices of a group of ranks in which several collectives, one after the other, carry one collective."""

    plain: Callable[[int, int], CheapestPrices | LevelPrices]
    """Prices of collectives as they are, in groups of so many ranks so far apart."""
    ranks: int
    """Ranks of the group."""
    stride: int
    """Distance between its ranks."""
    on_parts: bool
    """True on a fabric of parts, each of which has circuits of its own."""

    @abstractmethod
    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective."""

    @abstractmethod
    def phases(self, kind: Kind, nbytes: float) -> list[GroupPhase]:
        """Return the collectives that carry one of ``kind`` and ``nbytes`` bytes, in order, each with its kind, bytes,
        ranks and stride."""

    def coding(self, kind: Kind, nbytes: float) -> tuple[float, float]:
        """Return the seconds in which a rank encodes and those in which it decodes in one whole collective of
        ``nbytes`` bytes before coding; both 0 unless a method codes what is sent."""
        return 0.0, 0.0

    @property
    def every(self) -> int:
        """Number of steps that share one exchange; 1 unless a method exchanges less often."""
        return 1

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """Return the verified schedule of the one phase that carries a collective of ``nbytes`` bytes.

        Raises:
            UnsupportedError: the number of its phases is not 1, or no algorithm has a schedule for it.
        """
        phases = self.phases(kind, nbytes)
        if len(phases) != 1:
            raise UnsupportedError(f"{kind}: {len(phases)} collectives have no schedule in common")
        return self.plain(phases[0].ranks, phases[0].stride).schedule(phases[0].kind, phases[0].nbytes)

    def algorithms(self, kind: Kind, nbytes: float) -> tuple[str, ...]:
        """Return the names of the algorithms that carry the phases of a collective, in the order of the phases, in each
        the cheapest; a phase on a fabric of parts gives a name for each of its levels."""
        names: list[str] = []
        for phase in self.phases(kind, nbytes):
            prices = self.plain(phase.ranks, phase.stride).choice(phase.kind, phase.nbytes)
            names += prices.algorithms(*phase[:2]) if isinstance(prices, LevelPrices) else (prices.algorithm.name,)
        return tuple(names)

    def lines(self, kind: Kind, lines_of: Callable[..., Sequence[LowerPrice]]) -> Sequence[LowerPrice]:
        """Return a list with one lower bound of these prices, a function of the bytes of the collective; empty where
        some phase has none.

        Args:
            kind: of the collectives that are carried.
            lines_of: takes a kind and, as keywords, ``ranks`` and ``stride``, and returns the lower bounds of the plain
                prices in such groups, one for each algorithm.
        """
        phases = self.phases(kind, 1.0)
        parts = [(lines_of(phase.kind, ranks=phase.ranks, stride=phase.stride), phase.nbytes) for phase in phases]
        if not all(lines for lines, _ in parts):
            return []
        nothing, some = (sum(self.coding(kind, nbytes)) for nbytes in (0.0, 1.0))
        return [exchange_line(parts, (nothing, some - nothing), self.every)]

    def sums(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective of ``nbytes`` bytes before coding as a step's share (1 / ``every``) of the
        sums over all phases, coding included.

        Its bound is the same share of the sum of the phases' bounds, set by the resource of the largest one; its
        algorithm is that of the phase with the most bytes. Joules are those of all ranks. Without phases all amounts
        are 0 and the algorithm is that of the plain price.
        """
        phases = self.phases(kind, nbytes)
        priced = [self.plain(phase.ranks, phase.stride)(phase.kind, phase.nbytes) for phase in phases]
        # Of a collective with a root, only the groups of the root's counterparts exchange between groups.
        rooted = kind in (*ROOTED, *TO_OR_FROM_ROOT)
        copies = [1 if rooted and phase.stride > self.stride else self.ranks // phase.ranks for phase in phases]
        places = [phase.stride if self.on_parts else 0 for phase in phases]
        whole = _together(priced, *self.coding(kind, nbytes), places, copies)
        sizes = [phase.nbytes for phase in phases]
        main = priced[sizes.index(max(sizes))] if phases else self.plain(self.ranks, self.stride)(kind, nbytes)
        shared = {name: getattr(whole.cost, name) / self.every for name in (*_TIMES, "setup")}
        energy = None if whole.cost.energy is None else whole.cost.energy / self.every
        cost = replace(whole.cost, **shared, energy=energy)

        def proved() -> Bound:
            """Return the step's share of the sum of the phases' bounds, as set by the largest."""
            bounds = [each.bound for each in priced]
            largest = max(bounds, key=lambda bound: bound.time, default=Bound(0.0, "nothing"))
            return replace(largest, time=sum(bound.time for bound in bounds) / self.every)

        return replace(whole, cost=cost, algorithm=main.algorithm, proof=proved)


@dataclass(eq=False)
class LevelPrices(PhasedPrices):
    """Prices of a group of ranks on a fabric of parts, level by level (:func:`lightloom.collectives.levels.levels`);
    ``fabric`` is the group's, ``stride`` the distance between its ranks in the whole fabric."""

    plain: Callable[[int, int], CheapestPrices | LevelPrices]
    fabric: Fabric
    ranks: int
    stride: int
    model: CostModel
    on_parts = True

    def choice(self, kind: Kind, nbytes: float) -> LevelPrices:
        """Return these prices themselves, as each level chooses its own algorithm."""
        return self

    def phases(self, kind: Kind, nbytes: float) -> list[GroupPhase]:
        """Return the collectives of the levels of the fabric of parts that carry one of ``kind`` and ``nbytes`` bytes,
        in order, each with its kind, bytes, ranks and stride: for an all-reduce a reduce-scatter inside the innermost
        part, an all-reduce of the shares between parts and an all-gather inside; for other kinds, and an all-reduce
        where the innermost part adds up in its network, the same kind inside, then between, but between first for
        all-gathers, broadcasts and scatters. UnsupportedError for a permute, a barrier, or a kind whose parts have
        sizes."""
        return levels(kind, nbytes, self.fabric, self.stride)

    @cached_method()
    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of a collective as the sums over all its levels, with the lower bound of any schedule on the
        whole fabric of parts; cached.

        Raises:
            BoundError: the time lies below the bound.
        """
        whole = self.sums(kind, nbytes)
        bound = lower_bound(Collective(kind, self.fabric.ranks, nbytes), self.fabric, self.model)
        if not keeps_to(whole.cost, bound):
            raise BoundError(
                f"{kind} on {self.fabric.heading()} costs {whole.cost.time} s level by level, below the lower bound of "
                f"{bound.time} s set by {bound.bound_by}"
            )
        return replace(whole, proof=lambda: bound)


@dataclass(eq=False)
class ExchangePrices(PhasedPrices):
    """Prices of an exchange method that has phases of its own, among a group of ranks."""

    exchange: PricedExchange
    """The method, and the engine that encodes and decodes for it."""
    plain: Callable[[int, int], CheapestPrices | LevelPrices]
    element_bytes: Mapping[Kind, int]
    """Bytes of one gradient in the kinds of collectives that carry them."""
    ranks: int
    stride: int
    adds: Callable[[int, int], bool]
    """True where the fabric adds up light on its way in groups of so many ranks so far apart."""
    on_parts: bool = False

    @property
    def every(self) -> int:
        """Number of training steps from one exchange to the next; 1 for methods that exchange at every step."""
        return self.exchange.every

    def choice(self, kind: Kind, nbytes: float) -> CollectivePrices | LevelPrices | ExchangePrices:
        """Return these prices for a collective of ``nbytes`` uncompressed bytes that the method carries in at least one
        phase, otherwise those of the algorithm that carries it as it is."""
        if kind in self.element_bytes and self.phases(kind, nbytes):
            return self
        return self.plain(self.ranks, self.stride).choice(kind, nbytes)

    def phases(self, kind: Kind, nbytes: float) -> list[GroupPhase]:
        """Return the collectives of an exchange, in order, in the place of one of ``kind`` and ``nbytes`` uncompressed
        bytes, each with its kind, bytes, ranks and stride; a kind that carries no gradients is returned as its only
        phase. Empty where the group has one rank in every phase."""
        if kind not in self.element_bytes:
            return [GroupPhase(kind, nbytes, self.ranks, self.stride)]
        return group_phases(self.exchange, kind, nbytes / self.element_bytes[kind], self.ranks, self.stride, self.adds)

    def values_nbytes(self, kind: Kind, nbytes: float) -> float | None:
        """Return the bytes as float32, 4 a value, of the gradients in a collective of ``nbytes`` uncompressed bytes;
        None where this kind carries no gradients."""
        return 4 * nbytes / self.element_bytes[kind] if kind in self.element_bytes else None

    def sent_nbytes(self, kind: Kind, nbytes: float) -> float:
        """Return the size in bytes of the plain collective of ``kind`` whose ranks send as many bytes as the method
        does in the place of one of ``nbytes`` uncompressed bytes; divided by ``every``, so a step's share. ``kind``
        must carry gradients."""
        return self.exchange.sent_bytes(kind, nbytes / self.element_bytes[kind], self.ranks) / self.exchange.every

    def coding(self, kind: Kind, nbytes: float) -> tuple[float, float]:
        """Return the seconds of encoding and of decoding of a rank in one whole exchange, not a step's share; ``kind``
        must carry gradients; ``nbytes`` is the size of the collective before coding."""
        return self.exchange.coding(kind, nbytes / self.element_bytes[kind], self.ranks)

    @cached_method()
    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        """Return the price of an exchange in the place of a collective of ``nbytes`` uncompressed bytes, a step's share
        of it; for a kind that carries no gradients the plain price. Cached."""
        if kind not in self.element_bytes:
            return self.plain(self.ranks, self.stride)(kind, nbytes)
        return self.sums(kind, nbytes)


def _together(
    priced: Sequence[Priced], encode: float, decode: float, places: Sequence[int], copies: Sequence[int]
) -> Priced:
    """Return one price of all phases one after the other, with coding; its algorithm and bound are left at their
    defaults.

    Circuits stay, and are set up once, where all phases whose circuits share a place have the same circuits.

    Args:
        priced: price of each phase.
        encode: seconds of encoding, added to those of the phases.
        decode: seconds of decoding, added likewise.
        places: for each phase, a number that is equal for phases whose circuits share links.
        copies: for each phase, the number of groups that run it at once; the joules are those of all of them, and None
            where those of any phase are.
    """
    costs = [each.cost for each in priced]
    circuits: dict[int, list[Priced]] = {}
    for each, place in zip(priced, places, strict=True):
        if each.circuits is not None or each.cost.reconfiguration:
            circuits.setdefault(place, []).append(each)
    keys = {place: {each.circuits for each in found} for place, found in circuits.items()}
    same = all(len(found) == 1 and None not in found for found in keys.values())
    static = same or (len(priced) == 1 and priced[0].cost.static)
    setup = sum(found[0].cost.setup for found in circuits.values()) if static else 0.0
    again = sum(cost.setup for cost in costs) - setup if static else 0.0
    sums = {name: sum(getattr(cost, name) for cost in costs) for name in _TIMES}
    sums |= {"time": sums["time"] - again + encode + decode, "reconfiguration": sums["reconfiguration"] - again}
    sums |= {"encode": sums["encode"] + encode, "decode": sums["decode"] + decode}
    energies = [None if cost.energy is None else cost.energy * count for cost, count in zip(costs, copies, strict=True)]
    energy = None if None in energies else sum(energy for energy in energies if energy is not None)
    steps = sum(cost.steps for cost in costs)
    cost = Cost(steps=steps, setup=setup, static=static, energy=energy, **sums)
    kept = " ".join(str(key) for found in keys.values() for key in found) if same else None
    return Priced(cost=cost, circuits=kept or None)


def phase_document(phase: Phase) -> dict[str, object]:
    """Return a phase of an exchange in plain types, for JSON: ``kind`` of its collective, ``bytes``, ``bytes_by_terms``
    (pairs of number of summed gradients and bytes), ``where`` (the ranks that it joins, such as "everywhere" or
    "between nodes") and ``hideable`` (true if it may run behind the backward pass)."""
    sizes = [list(size) for size in phase.nbytes_by_terms]
    return {**attributes(phase, "kind bytes=nbytes"), "bytes_by_terms": sizes, **attributes(phase, "where hideable")}


def given_bytes(price: Price, kind: Kind, nbytes: float, ranks: int) -> float:
    """Return the bytes that a rank of a group gives to the network in a collective at these prices, coded ones as they
    are sent, summed over phases; of a method that exchanges every so many steps, a step's share.

    Where the network adds up schedules' data on its way, a rank gives all of it once; elsewhere as many bytes as around
    a ring, (ranks - 1) / ranks of the size, twice that in an all-reduce.

    Args:
        price: prices of the group.
        kind: of the collective.
        nbytes: its size before coding.
        ranks: ranks of the group.
    """
    chosen = price.choice(kind, nbytes) if isinstance(price, CheapestPrices | ExchangePrices | LevelPrices) else None
    if isinstance(chosen, PhasedPrices):
        phases = chosen.phases(kind, nbytes)
        return sum(given_bytes(chosen.plain(each.ranks, each.stride), *each[:3]) for each in phases) / chosen.every
    if isinstance(chosen, SchedulePrices):
        nbytes = chosen.sent_nbytes(kind, nbytes)
        if chosen.fabric.in_network_reduction:
            return nbytes
    return (2 if kind == "all-reduce" else 1) * nbytes * (ranks - 1) / ranks
