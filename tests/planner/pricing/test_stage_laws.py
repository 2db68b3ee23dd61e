"""What stages update, wait for, send and hold, counted one by one; and what jobs and divisions say of strategies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array

from lightloom.collectives.registry import Refusal
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import CircuitSwitch, PacketSwitch
from lightloom.planning.parallelism.placement.placement import Reach
from lightloom.planning.parallelism.strategy_space import SHARDINGS, Strategies, Strategy
from lightloom.planning.pricing import collective_prices, group_prices
from lightloom.planning.pricing import strategy_step as step_energy
from lightloom.planning.pricing.collective_prices import Candidate
from lightloom.planning.pricing.group_prices import (
    Division,
    circuits_stand,
    divides,
    least_channels,
    live_axes,
    seconds_a_byte,
    undivided_pair,
)
from lightloom.planning.pricing.library_prices import LibraryPrices
from lightloom.planning.pricing.placed_space import (
    exchanging,
    peers,
    placed_space,
    reach,
)
from lightloom.planning.pricing.price_lines import PriceLine
from lightloom.planning.pricing.step import _update, block_send, has_ring, replica_groups, ring_waits
from lightloom.planning.pricing.strategy_step import memory_parts, stage_memory
from lightloom.planning.reconfiguration import in_step
from lightloom.planning.reconfiguration import phases as margins_module
from lightloom.planning.simulation.placed_step import PlacedStep
from tests.planner.jobs import job, mixture, space

ROWS = st.lists(
    st.builds(
        Strategy,
        st.sampled_from([2, 4, 8]),
        st.sampled_from([1, 2, 3]),
        st.just(2),
        st.just(4),
        st.just(64),
        st.sampled_from(SHARDINGS),
        st.just("none"),
        st.just("ring"),
        st.just(0),
        ep=st.sampled_from([1, 2]),
        cp=st.sampled_from([1, 2]),
    ),
    min_size=1,
    max_size=5,
)


def in_node(strategy: Strategy, node: int) -> int:
    """Replicas of a tensor shard in a node."""
    return gcd(strategy.replicas, node // strategy.tp) if node % strategy.tp == 0 else 1


def sharers(strategy: Strategy, node: int) -> int:
    """Replicas that share the optimizer's state."""
    return {"none": 1, "hybrid": in_node(strategy, node)}.get(strategy.sharding, strategy.replicas)


@given(ROWS, st.sampled_from([1, 2, 4, 8]), st.integers(0, 9))
def test_replicas_update_all_parameters_once_those_that_nothing_uses_on_the_first_stage(
    rows: list[Strategy], node: int, seed: int
) -> None:
    """Experts are shared out among those that hold them."""
    held = np.random.default_rng(seed).uniform(1, 9, (2, len(rows), 2))
    of: Any = SimpleNamespace(
        fabric=SimpleNamespace(node_ranks=node),
        graph=SimpleNamespace(unused_parameters=5.0),
        accelerator=SimpleNamespace(update_time=lambda nbytes: nbytes / 100),
        settings=SimpleNamespace(optimizer_traffic_bytes=12),
    )
    found = _update(of, Strategies.of(*rows), held)
    groups, of_gradients = replica_groups(Strategies.of(*rows), node)
    for row, strategy in enumerate(rows):
        count = sharers(strategy, node)
        for stage in range(2):
            own = held[0, row, stage] / count + held[1, row, stage] / max(count // strategy.ep, 1)
            own += 5.0 / count if stage == 0 else 0.0
            assert found[row, stage] == pytest.approx(own * 12 / 100)
        hybrid, inside, replicas = strategy.sharding == "hybrid", in_node(strategy, node), strategy.replicas
        experts = replicas // strategy.ep if strategy.ep > 1 else 1
        everywhere = (replicas, strategy.tp)
        expected = [
            [(inside, strategy.tp) if hybrid else everywhere, (experts, strategy.tp * strategy.ep)],
            [
                (replicas // inside, strategy.tp * inside) if hybrid else everywhere,
                (experts, strategy.tp * strategy.ep),
            ],
        ]
        made = [[(int(of.ranks[row]), int(of.stride[row])) for of in each] for each in (groups, of_gradients)]
        assert made == expected


class Columns(dict[str, Any]):
    """Columns of operators, and bytes of the keys and values of each."""

    def key_value_bytes(self, samples: Any, tp: Any, cp: Any) -> Any:
        return self["key_values"] * (samples / tp / cp)[:, None]


@dataclass
class Groups:
    """A fabric with groups of every size but three."""

    ranks: int = 64
    distance_matters: bool = True
    arithmetic_share: float = 0.0
    any_pair: bool = True

    def group(self, ranks: int, stride: int) -> Groups | None:
        return None if ranks == 3 else replace(self, ranks=100 * ranks + stride)

    def message(self, stride: int) -> tuple[float, float]:
        return 1e3 * self.ranks, 1e-3 * self.ranks

    def channel_sharing(self, stride: Any) -> Any:
        return stride + 1


CONTEXTS = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 64]), st.sampled_from([1, 2])), min_size=1, max_size=4)


@settings(max_examples=40)
@given(CONTEXTS, st.booleans(), st.sampled_from([0.0, 0.25]), st.booleans(), st.booleans())
def test_attention_waits_for_each_block_that_comes_later_than_it_is_needed(
    each: list[tuple[int, int]], distance: bool, share: float, sharing: bool, light: bool
) -> None:
    rows = Strategies.of(
        *(Strategy(8, tp, 1, 2, 64 * place, "none", "none", "ring", 0, cp=cp) for place, (cp, tp) in enumerate(each, 1))
    )
    columns: Any = Columns(key_values=np.array([0.0, 4e4, 9e4]))
    fabric: Any = Groups(distance_matters=distance, arithmetic_share=share, any_pair=not light)
    times = tuple(np.random.default_rng(1).uniform(0, 9, (2, len(each), 3)))
    waits = ring_waits(columns, rows, fabric, times, sharing=sharing)
    sends, latencies = block_send(columns, rows, fabric, sharing=sharing)
    rings = has_ring(fabric, rows.cp, rows.tp)
    for row, (cp, tp) in enumerate(each):
        assert rings[row] == (cp == 1 or (cp != 3 and not light))
        part = 64 if cp == 64 else 100 * cp + (tp if distance else 1)
        latency = 0.0 if cp == 3 else 1e-3 * part
        assert latencies[row] == pytest.approx(latency)
        for operator in range(3):
            nbytes = columns["key_values"][operator] * rows.samples[row] / tp / cp * (tp + 1 if sharing else 1)
            send = np.inf if cp == 3 else nbytes / (1e3 * part)
            assert sends[row, operator] == pytest.approx(send)
            if cp == 1 or operator == 0:
                assert waits.forward[row, operator] == waits.backward[row, operator] == 0
                continue

            def late(computing: float, sending: float) -> float:
                return max(sending - computing, share * sending if share else 0.0)

            forward, backward = (seconds[row, operator] / cp for seconds in times)
            assert waits.forward[row, operator] == pytest.approx((cp - 1) * late(forward, send + latency))
            both = (cp - 1) * late(backward, 2 * send + latency) + send + latency
            assert waits.backward[row, operator] == pytest.approx(both)


METHODS = [(True, False, 2.0), (False, True, 4.0), (True, True, 0.0)]


@pytest.mark.parametrize("count", range(len(METHODS) + 1))
def test_methods_are_known_by_their_numbers_from_one_on(count: int) -> None:
    made: Any = tuple(SimpleNamespace(blocking=b, in_schedule=s, state_bytes=kept) for b, s, kept in METHODS[:count])
    of: Any = replace(job(1, 2), exchanges=made)
    numbers = np.arange(count + 1)
    assert of.blocks(numbers).tolist() == [False, *(b for b, _, _ in METHODS[:count])]
    assert of.phased(numbers).tolist() == [False, *(not s for _, s, _ in METHODS[:count])]
    assert of.kept_bytes(numbers).tolist() == [0.0, *(kept for _, _, kept in METHODS[:count])]
    for number in range(count + 1):
        strategy: Any = SimpleNamespace(exchange=number)
        assert of.exchange(strategy) is (made[number - 1] if number else None)
    assert of.parameters == sum(operator.parameters for operator in of.graph.operators) + 7


def test_a_method_that_waits_exchanges_all_gradients_once_after_the_backward_pass() -> None:
    methods: Any = (SimpleNamespace(blocking=False), SimpleNamespace(blocking=True))
    of = replace(job(2, 4), exchanges=methods)
    for number in range(3):
        strategy = Strategy(4, 1, 1, 1, 16, "none", "none", "ring", number)
        plan, usual = of.data_parallel_plan(strategy), of.model.data_parallel_plan(strategy)
        assert len(usual.exchanges) > 1
        if number < 2:
            assert plan == usual
            continue
        (once,) = plan.exchanges
        assert once.nbytes == sum(each.nbytes for each in usual.exchanges)
        assert (once.starts_after, once.needed_by) == (usual.update - 1, usual.update)


def test_copies_of_tables_lie_as_far_apart_as_axes_that_share_channels_say() -> None:
    of = job(1, 8)
    assert of.tied_pair(2) == of.fabric.message(2) and of.on("data") is of.fabric
    shares: Any = SimpleNamespace(shift=lambda stride: (stride, "shared"), fabric=lambda axis: f"{axis} part")
    shared = replace(of, shares=shares)
    answers: list[Any] = [shared.tied_pair(3), shared.on("data")]
    assert answers == [(3, "shared"), "data part"]


@given(st.tuples(*[st.sampled_from([1, 2, 4])] * 3), st.sampled_from([1, 2]), st.sampled_from([1, 2]))
def test_ranks_of_a_group_lie_as_far_apart_as_there_are_groups_of_neighbours(
    degrees: tuple[int, int, int], ep: int, cp: int
) -> None:
    """Every axis with more than one rank; all ranks of its groups together are the ranks there are."""
    dp, tp, pp = degrees
    strategy = Strategy(dp, tp, pp, 2, 64, "none", "none", "ring", 0, ep=min(ep, dp * cp), cp=cp)
    axes = {axis.name: (axis.ranks, axis.stride) for axis in live_axes(strategy)}
    ep, replicas = strategy.ep, dp * cp
    wanted = {
        "tensor": (tp, 1),
        "context": (cp, tp),
        "expert": (ep, tp),
        "data": (replicas, tp),
        "expert-data": (replicas // ep if ep > 1 else 1, tp * ep),
        "pipeline": (pp, tp * replicas),
    }
    assert axes == {name: groups for name, groups in wanted.items() if groups[0] > 1}


@pytest.mark.parametrize(
    "fabric", [CircuitSwitch(ranks=16, degree=2), CircuitSwitch(ranks=16, degree=3), PacketSwitch(ranks=16)]
)
def test_circuits_of_a_column_of_strategies_stand_as_those_of_each(fabric: Any) -> None:
    """One plane an axis, two for a pipeline of more than two stages."""
    degrees = [each for each in product((1, 2, 4, 8, 16), repeat=3) if np.prod(each) == 16]
    rows = [
        Strategy(dp, tp, pp, 2, 64, "none", "none", "ring", 0, ep=ep, cp=1)
        for dp, tp, pp in degrees
        for ep in (1, 2)
        if dp % ep == 0
    ]
    rows += rows[:3]
    found = circuits_stand(fabric, Strategies.of(*rows))
    for stands, row in zip(found, rows, strict=True):
        needed = sum(2 if axis.name == "pipeline" and axis.ranks > 2 else 1 for axis in live_axes(row))
        assert stands == (not fabric.exclusive or row.plain or needed <= fabric.shared_channels)
        if fabric.exclusive and live_axes(row):
            assert least_channels(fabric, live_axes(row)) == needed
    assert least_channels(fabric, ()) is None
    no_units: Any = [SimpleNamespace(unit=lambda _: 2), SimpleNamespace(unit=lambda _: 0)]
    assert least_channels(fabric, no_units) is None and divides(fabric) == fabric.exclusive


def test_channels_that_are_divided_bound_bytes_and_sends_by_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(exclusive: bool, unit: int = 3, part: Any = "part") -> Any:
        asked: list[Any] = []
        return SimpleNamespace(
            exclusive=exclusive,
            ranks=16,
            shared_channels=8,
            asked=asked,
            shift_unit=lambda stride: 1,
            share_unit=lambda ranks, stride: unit,
            share=lambda *told: asked.append(told) or part,  # type: ignore[func-returns-value]
            message=lambda stride: ("message", stride),
            shift=lambda stride, channels: SimpleNamespace(rate=("shift", stride), latency=channels),
        )

    monkeypatch.setattr(
        group_prices, "bandwidth_bound", lambda collective, part: (collective.ranks, collective.nbytes, part)
    )
    packets, circuits = made(False), made(True)
    assert seconds_a_byte(packets, "all-gather", 4, 2) == 0 and seconds_a_byte(circuits, "all-gather", 1, 2) == 0
    found: Any = seconds_a_byte(circuits, "all-gather", 4, 2)
    assert found == (4, 1.0, "part") and circuits.asked == [(4, 2, 6)]
    assert seconds_a_byte(made(True, part=None), "all-gather", 4, 2) == np.inf
    wholly: Any = [undivided_pair(of, stride) for of, stride in ((packets, 2), (circuits, 2), (circuits, 32))]
    assert wholly == [("message", 2), (("shift", 2), 8), ("message", 32)]


@given(st.lists(st.integers(1, 4), max_size=4))
def test_axes_hold_one_range_of_channels_after_the_other(channels: list[int]) -> None:
    axes: Any = tuple(
        SimpleNamespace(name=f"axis {place}", ranks=2 + place, stride=3) for place in range(len(channels))
    )
    fabric: Any = SimpleNamespace(share=lambda ranks, stride, held: (ranks, stride, held))
    of = Division(fabric, axes, tuple(channels))
    held = [list(range(share.first, share.first + share.channels)) for _, share in of.shares()]
    assert [channel for each in held for channel in each] == list(range(sum(channels)))
    for place, (axis, share) in enumerate(of.shares()):
        assert axis is axes[place] and (share.ranks, share.stride, share.channels) == (2 + place, 3, channels[place])
        number: Any = of.number(axis.name)
        part: Any = of.part(number)
        assert number == place and part == (2 + place, 3, channels[place])
        assert of.by_axis()[axis.name] == channels[place]
    assert of.number("tensor") is None


@pytest.mark.parametrize(
    ("recomputation", "repeats"), [("none", (0, 0, 0)), ("full", (1, 1, 0)), ("selective", (0, 1, 0))]
)
@pytest.mark.parametrize("cp", [1, 4])
def test_keys_and_values_go_around_once_forward_and_twice_with_their_gradients_backward(
    recomputation: str, repeats: tuple[int, ...], cp: int
) -> None:
    """And the gradients once more to whom they belong; a pass that is repeated sends them again."""
    columns = Columns(key_values=np.array([8.0, 4.0, 2.0]), in_block=np.array([1, 1, 0]), core=np.array([0, 1, 0]))
    rows = Strategies.of(Strategy(4, 2, 1, 2, 64, "none", recomputation, "ring", 0, cp=cp))
    of: Any = SimpleNamespace(model=SimpleNamespace(columns=columns))
    expected = 0.0
    for nbytes, again in zip(columns.key_value_bytes(rows.samples, rows.tp, rows.cp)[0], repeats, strict=True):
        expected += nbytes * ((cp - 1) * (1 + again) + 2 * (cp - 1) + 1)
    assert step_energy._ring_bytes(of, rows) == (pytest.approx(expected) if cp > 1 else 0.0)


def counted(fabric: Any, nbytes: Any, source: Any, destination: Any) -> float | None:
    """Byte-ranks: how far each byte goes."""
    if fabric.energy_per_bit is None:
        return None
    return float(sum(n * (1 + abs(int(a) - int(b))) for n, a, b in zip(nbytes, source, destination, strict=True)))


@pytest.mark.parametrize("energy", [None, 1e-12])
def test_joules_are_those_of_every_pair_of_ranks_that_sends(
    energy: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_energy, "sending_energy", counted)
    monkeypatch.setattr(step_energy, "sent_ratio", lambda settings, ratio: 2 * ratio)
    ring: Any = SimpleNamespace(ranks=8, energy_per_bit=energy, exclusive=False)
    of: Any = SimpleNamespace(fabric=ring, settings=None)
    for ranks, stride in ((4, 2), (8, 3), (2, 6)):
        assert step_energy._sends(of, 0.0, ranks, stride) == 0
        found = step_energy._sends(of, 5.0, ranks, stride)
        away = sum(1 + abs(rank - (rank + stride) % 8) for rank in range(8))
        assert np.isnan(found) if energy is None else found == pytest.approx(5.0 * ranks * away / 8)
    inside, between = coo_array(([3.0], ([0], [2])), shape=(8, 8)), coo_array(([8.0], ([4], [5])), shape=(8, 8))
    plan = SimpleNamespace(
        groups=3,
        traffic=SimpleNamespace(model_parallel=inside.tocsr(), data_parallel=between.tocsr()),
        activation_traffic=inside.tocsr(),
    )
    for micro_batches in (1, 4):
        step: Any = SimpleNamespace(plan=plan, micro_batches=micro_batches, sent_bytes=7.0)
        found_of = step_energy.placed_joules(of, step, 2.0)
        assert found_of == (None if energy is None else pytest.approx(micro_batches * 3.0 * 3 + 8.0 / 4 * 2))
        on_circuits: Any = SimpleNamespace(fabric=SimpleNamespace(energy_per_bit=energy, exclusive=True), settings=None)
        assert step_energy.placed_joules(on_circuits, step) == (None if energy is None else 21.0)


def test_energy_of_a_library_is_that_of_a_ring_through_all_nodes() -> None:
    """Inside a node a message crosses two links, between nodes four; one rank of a node sends out of it."""
    fabric: Any = SimpleNamespace(energy_per_bit=2.0, ranks=6, wire_bytes=lambda nbytes: 1.5 * nbytes)
    prices = object.__new__(LibraryPrices)
    prices.fabric = fabric
    for kind, passes in (("all-reduce", 2), ("all-gather", 1), ("all-to-all", 1), ("reduce", 1)):
        for inside in (1, 2, 3, 6):
            links = [4 if (rank + 1) % inside == 0 and inside < 6 else 2 for rank in range(6)]
            wire = 1.5 * passes * 5 * 10.0
            found = prices._energy(kind, 10.0, inside)  # type: ignore[arg-type]
            assert found == pytest.approx(8 * wire * sum(links) / 6 * 2.0)
    fabric.energy_per_bit = None
    assert prices._energy("all-reduce", 10.0, 2) is None


class Alone:
    """An algorithm with the seconds that any collective takes by it, or none where it fails at the size."""

    def __init__(self, name: str, seconds: float | None, *, by_size: bool = False) -> None:
        self.algorithm, self.seconds, self.asked = SimpleNamespace(name=name, by_size=by_size), seconds, 0
        self.built = False

    def __call__(self, kind: str, nbytes: float) -> Any:
        self.asked += 1
        if self.seconds is None:
            return Refusal("made up", f"{self.algorithm.name} fails")
        return SimpleNamespace(cost=SimpleNamespace(repeated_time=self.seconds))

    def candidate(self, bound: float, floor: float | None = None, why: str | None = None) -> Any:
        def failure() -> str | None:
            self.built = True
            return why

        line: Any = lambda nbytes: np.array(bound)  # noqa: E731
        lowest = None if floor is None else PriceLine(floor, 0.0, 0.0, 0.0)
        own: Any = self
        return Candidate(own.algorithm, lowest, False, failure, lambda: own, lambda hidden: line)


CANDIDATES = st.lists(
    st.tuples(
        *(st.integers(0, 3) for _ in range(3)),
        st.sampled_from("abc"),
        st.sampled_from(["no", "at this size", "at all"]),
    ),
    min_size=1,
    max_size=4,
)


@given(CANDIDATES)
def test_the_cheapest_prices_are_found_without_building_those_whose_floors_are_not_below(each: Any) -> None:
    """Nor asking those whose bounds are higher; of equal ones the first by name; algorithms that fail are passed
    over."""
    made = [
        Alone(name, None if fails == "at this size" else 1.0 + floor + more + most, by_size=len(each) == 1)
        for floor, more, most, name, fails in each
    ]
    candidates = [
        prices.candidate(1.0 + floor + more, 1.0 + floor, "never" if fails == "at all" else None)
        for prices, (floor, more, _, _, fails) in zip(made, each, strict=True)
    ]
    able = [prices for prices, told in zip(made, each, strict=True) if told[-1] == "no"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(collective_prices, "attempt", lambda algorithm, price: price())
        if not able:
            with pytest.raises(UnsupportedError, match=r"fails|never"):
                collective_prices._cheapest(candidates, "all-reduce", 1.0)
            assert all(prices.built for prices in made)
            return
        found: Any = collective_prices._cheapest(candidates, "all-reduce", 1.0)
    assert found.seconds == min(prices.seconds for prices in able if prices.seconds is not None)
    equal = [prices for prices in able if prices.seconds == found.seconds and prices.asked]
    assert found is min(equal, key=lambda prices: prices.algorithm.name)
    best = np.inf
    for prices, (floor, more, _, _, fails) in zip(made, each, strict=True):
        assert prices.built == (1.0 + floor < best)
        assert prices.asked == (prices.built and fails != "at all" and 1.0 + floor + more <= best)
        best = min(best, prices.seconds if prices.asked and prices.seconds is not None else np.inf)


@pytest.mark.parametrize("by_size", [False, True])
def test_the_only_algorithm_is_asked_beforehand_only_where_it_may_fail_at_a_size(by_size: bool) -> None:
    prices: Any = Alone("a", 1.0, by_size=by_size)
    found: Any = collective_prices._cheapest([prices.candidate(0.0)], "all-reduce", 3.0)
    assert found is prices and found.asked == by_size


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans()), max_size=5))
def test_the_least_price_is_that_of_floors_near_prices_and_of_others_that_may_be_below(each: Any) -> None:
    """What fails to build does not count, but floors near prices do, for which nothing is built."""
    made = [Alone(f"a{number}", 1.0) for number in range(len(each))]
    candidates = [
        replace(prices.candidate(float(floor + more), float(floor), "fails" if fails else None), near=near)
        for prices, (floor, more, near, fails) in zip(made, each, strict=True)
    ]
    found = collective_prices.LeastPrice(candidates, hidden_setup=True)(np.ones(2))
    near = [floor for floor, _, near, _ in each if near]
    others = [floor + more for floor, more, near, fails in each if not near and not fails]
    assert found.tolist() == [min([*near, *others], default=np.inf)] * 2
    for prices, (floor, _, is_near, _) in zip(made, each, strict=True):
        assert not (prices.built and is_near)
        assert prices.built or is_near or floor >= found[0]


@pytest.mark.parametrize("seed", range(4))
def test_a_stage_computes_alone_before_its_first_exchange_and_after_its_last(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, count = np.random.default_rng(seed), 9
    exchanges = {
        axis: tuple(rng.integers(0, 2, (2, 1, count)) * rng.integers(0, 2, count)) for axis in ("tensor", "expert")
    }
    monkeypatch.setattr(margins_module, "pass_exchanges", lambda *told, sharing: exchanges)
    values = rng.integers(0, 2, count) * rng.integers(0, 2, count)
    seconds = rng.uniform(1, 9, (2, 1, count))
    rows = Strategies.of(Strategy(2, 2, 3, 2, 64, "none", "none", "ring", 0, cp=1 + seed % 2))
    model = SimpleNamespace(
        chunks=lambda rows: np.array([0, 2, 6, 9]), columns={"key_values": values}, sort=np.arange(count)
    )
    of: Any = SimpleNamespace(model=model, operators=SimpleNamespace(of_sorts=lambda rows: tuple(seconds)), fabric=None)
    found = margins_module.margins(of, rows)
    for which in range(2):
        for stage, (begin, end) in enumerate([(0, 2), (2, 6), (6, 9)]):
            alone = 0.0
            for operator in range(begin, end):
                if any(each[which][0, operator] for each in exchanges.values()) or (seed % 2 and values[operator]):
                    break
                alone += seconds[which, 0, operator]
            assert found[which][stage] == pytest.approx(alone)


@pytest.mark.parametrize("assigns", [True, False])
@given(st.sampled_from([0.0, 1.0, 3.0]), st.floats(2, 60), st.tuples(*[st.floats(1, 60)] * 2), st.booleans())
def test_circuits_are_granted_anew_where_that_is_faster(
    assigns: bool, setup: float, seconds: float, again: tuple[float, float], sends: bool
) -> None:
    """With holds of ten and of four turns, each with its turn shorter than the step."""
    empty = dict.fromkeys(PlacedStep.__dataclass_fields__)
    step: Any = PlacedStep(**empty | {"step_time": seconds})  # type: ignore[arg-type]
    fabric: Any = SimpleNamespace(assigns_circuits=assigns, setup_time=setup)
    plan: Any = SimpleNamespace(traffic=SimpleNamespace(total=np.array([0.0, float(sends)])))
    periods: list[float] = []

    def simulated(timing: Any, _: Any) -> PlacedStep:
        periods.append(timing.period)
        assert timing.period == timing.hold + timing.reconfiguration
        return PlacedStep(**empty | {"step_time": again[len(periods) - 1]})  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(in_step, "regrants", lambda plan, fabric, timing: (timing, None))
        found = in_step.faster_regranted(step, plan, fabric, simulated)
    holds = [max(length * setup, seconds / 1000) for length in (10, 4)]
    tried = [hold + setup for hold in holds if assigns and setup and sends and hold + setup < seconds]
    assert periods == tried
    best = min([seconds, *again[: len(tried)]])
    assert found.step_time == best and (found is step) == (best == seconds)
    if isinstance(found, in_step.RegrantedStep):
        assert found.standing_time == seconds and found.gain == seconds - best


def test_memory_of_stages_is_the_same_column_by_column_and_row_by_row() -> None:
    """And prices, whatever else is in the column."""
    of = job(4, 8, model=mixture)
    rows = space(of, (16, 64))
    chosen = np.flatnonzero((rows.pp == 2) & (rows.virtual_stages == 1))[::7]
    together = stage_memory(of, rows.rows(chosen))
    parts = memory_parts(of, rows.rows(chosen))
    for place, row in enumerate(chosen.tolist()):
        alone = rows.rows(np.array([row]))
        assert together[place] == pytest.approx(stage_memory(of, alone)[0], rel=1e-12)
        for column, own in zip(parts, memory_parts(of, alone), strict=True):
            assert column[place] == pytest.approx(own[0], rel=1e-12)


@given(*[st.booleans()] * 4, st.sampled_from([None, 2, 40]))
def test_a_rank_reaches_as_many_at_once_as_it_has_circuits_or_ports(
    light: bool, exclusive: bool, routed: bool, ports: bool, transmitters: int | None
) -> None:
    """Of a ring's wavelengths at most sixteen, and one for the next group; links that others share are refused."""
    fabric: Any = SimpleNamespace(
        parts=(),
        any_pair=not light,
        exclusive=exclusive,
        wavelength_routed=routed,
        transmitters=transmitters,
        channels=6,
        ranks=32,
        kind_name="made up",
        ports=lambda source, destination: ports,
    )
    if light or not (exclusive or ports):
        with pytest.raises(UnsupportedError, match="placed plans on made up"):
            peers(fabric)
        return
    expected = 32 if not exclusive else min(17, transmitters or 17) if routed else 6
    assert peers(fabric) == expected
    for groups in (1, 2, 3):
        assert reach(fabric, groups) == Reach(expected if groups == 1 else expected - 1)


@pytest.mark.parametrize("name", ["terarack", "switch", "circuit-switch", "one plane"])
def test_every_way_to_divide_the_ranks_into_groups_is_placed(name: str) -> None:
    fabric = CircuitSwitch(ranks=8, degree=1) if name == "one plane" else load_fabric(name, 8)
    batches, quanta, ratios = (4, 8, 24), (1e-6, 1e-5), (1.0, 2.0)
    rows, refused = placed_space(fabric, batches, quanta, ratios)
    found = [rows[place] for place in range(len(rows))]
    expected, left_out = set(), 0
    for k, batch in product((1, 2, 4, 8), batches):
        groups = 8 // k
        if batch % groups:
            continue
        limits = exchanging(reach(fabric, groups), k)
        assert limits == sorted(set(limits)) and limits[0] == 1 and limits[-1] <= k
        every = set(
            product([k], [groups], quanta[: 1 if k == 1 else 2], [batch], limits, ratios[: 1 if groups == 1 else 2])
        )
        try:
            reach(fabric, groups).offsets(k)
            expected |= every
        except UnsupportedError:
            expected |= every if k == 1 else set()
            left_out += len(every) if k > 1 else 0
    assert {tuple(each)[:6] for each in found} == expected and len(found) == len(expected) and refused == left_out
