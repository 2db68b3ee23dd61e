"""What an exchange of several phases costs, given what each phase does: sums, circuits that stay, and what binds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.collectives.bounds.lower_bound import Bound
from lightloom.collectives.collective import Kind
from lightloom.collectives.cost.price import Cost
from lightloom.collectives.levels import GroupPhase
from lightloom.core.errors import UnsupportedError
from lightloom.planning.pricing.collective_prices import ExchangePrices, PhasedPrices
from lightloom.planning.simulation.engine import Priced
from tests.planner.gradients.exchanges import by_name


def priced(steps: int, transmission: float, conversion: float, setup: float, energy: float) -> Priced:
    """On circuits that stay."""
    time = transmission + conversion + setup
    cost = Cost(
        steps=steps,
        time=time,
        transmission=transmission,
        conversion=conversion,
        reconfiguration=setup,
        setup=setup,
        static=True,
        energy=energy,
    )
    return Priced(cost=cost, circuits="ring")


GATHER, SCATTER = priced(3, 4.0, 1.0, 2.0, 30.0), priced(5, 5.0, 1.5, 2.5, 40.0)


@dataclass(frozen=True)
class Carriers:
    """A price and a bound of every kind, whatever the bytes."""

    prices: dict[Kind, Priced]
    bounds: dict[Kind, float]

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        return replace(self.prices[kind], proof=lambda: Bound(self.bounds[kind], f"what binds an {kind}"))


def exchanged(
    name: str, gather: Priced = GATHER, scatter: Priced = SCATTER, bounds: tuple[float, float] = (1.0, 1.0)
) -> tuple[Priced, Bound]:
    """One exchange of 1 MiB of values among four ranks."""
    prices: dict[Kind, Priced] = {"all-gather": gather, "all-to-all": scatter, "all-reduce": scatter}
    carriers = Carriers(prices, dict(zip(prices, (*bounds, bounds[1]), strict=True)))
    method = by_name(name, rate=1e6)
    carried = ExchangePrices(method, lambda _ranks, _stride: carriers, {"all-reduce": 4}, 4, 1, lambda *_: False)  # type: ignore[arg-type, return-value]
    priced = carried("all-reduce", 4.0 * 2**20)
    return priced, priced.bound


def coding(name: str) -> tuple[float, float]:
    return by_name(name, rate=1e6).coding("all-reduce", 2.0**20, 4)


def test_phases_on_the_same_circuits_set_them_up_once() -> None:
    found, _ = exchanged("int4")
    encode, decode = coding("int4")
    assert found.circuits == "ring"
    cost = found.cost
    assert (cost.steps, cost.transmission, cost.conversion, cost.energy) == (8, 9.0, 2.5, 70.0)
    assert cost.static and cost.setup == cost.reconfiguration in (2.0, 2.5)
    assert (cost.encode, cost.decode) == (encode, decode) and min(encode, decode) > 0
    parts = cost.transmission + cost.conversion + cost.reconfiguration + cost.encode + cost.decode
    assert cost.time == pytest.approx(parts)


@pytest.mark.parametrize("other", ["star", None])
def test_phases_on_other_circuits_pay_for_them_again(other: str | None) -> None:
    found, _ = exchanged("int4", gather=replace(GATHER, circuits=other))
    assert found.circuits is None
    assert (found.cost.static, found.cost.setup, found.cost.reconfiguration) == (False, 0.0, 4.5)
    assert found.cost.time == pytest.approx(16.0 + sum(coding("int4")))


def test_a_part_whose_energy_is_not_known_leaves_the_sum_unknown() -> None:
    assert exchanged("int4", scatter=replace(SCATTER, cost=replace(SCATTER.cost, energy=None)))[0].cost.energy is None


@pytest.mark.parametrize(("bounds", "kind"), [((3.0, 2.0), "all-gather"), ((2.0, 3.0), "all-to-all")])
def test_an_exchange_is_bound_by_its_longest_phase(bounds: tuple[float, float], kind: str) -> None:
    assert exchanged("int4", bounds=bounds)[1] == Bound(5.0, f"what binds an {kind}")


def test_a_step_pays_its_share_of_what_comes_every_so_many_steps() -> None:
    (once, bound), (seldom, part) = exchanged("localsgd:every=1"), exchanged("localsgd:every=20")
    for name in ("time", "transmission", "conversion", "reconfiguration", "setup", "encode", "decode", "energy"):
        assert getattr(seldom.cost, name) == pytest.approx(getattr(once.cost, name) / 20)
    assert part.time == pytest.approx(bound.time / 20) and part.bound_by == bound.bound_by
    assert seldom.circuits == once.circuits == "ring" and seldom.cost.static


class Phased(PhasedPrices):
    """A collective in as many phases as are given."""

    def __init__(self, *phases: GroupPhase) -> None:
        self.asked: list[object] = []
        self.ranks, self.stride, self.on_parts, self._phases = 4, 1, False, list(phases)
        self.plain = self._plain

    def _plain(self, ranks: int, stride: int) -> Any:
        def schedule(kind: Kind, nbytes: float) -> str:
            self.asked.append((ranks, stride, kind, nbytes))
            return f"schedule of {kind}"

        return SimpleNamespace(schedule=schedule)

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        raise NotImplementedError

    def phases(self, kind: Kind, nbytes: float) -> list[GroupPhase]:
        return self._phases


def test_a_collective_of_one_phase_alone_has_a_schedule() -> None:
    first, second = GroupPhase("all-to-all", 8.0, 2, 3), GroupPhase("all-gather", 4.0, 4, 1)
    one = Phased(first)
    assert one.schedule("all-reduce", 16.0) == "schedule of all-to-all"  # type: ignore[comparison-overlap]
    assert one.asked == [(2, 3, "all-to-all", 8.0)]
    assert (one.every, one.coding("all-reduce", 1.0)) == (1, (0.0, 0.0))
    for phases in ([], [first, second]):
        with pytest.raises(UnsupportedError, match=f"all-reduce: {len(phases)} collectives have no schedule in common"):
            Phased(*phases).schedule("all-reduce", 16.0)
