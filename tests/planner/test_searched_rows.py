"""Which rows a search looks at, and which bounds it takes of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_size
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.decoder import TransformerSizes, transformer_graph
from lightloom.planning.parallelism.strategy_space import Strategies
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.library_prices import LIBRARY
from lightloom.planning.pricing.placed_space import (
    PartTable,
    PlacedChoice,
    PlacedRows,
    distinct,
    placed_space,
    smaller,
)
from lightloom.planning.pricing.strategy_step import StrategyStep
from lightloom.planning.search import rows
from lightloom.planning.search.bounds import coarse_bound, memory
from lightloom.planning.search.plans import Counts
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.rows import ClusterRows, TooLargeError, kinds_of, searched_rows
from tests.planner.gradients.exchanges import coded
from tests.planner.jobs import MadeUp, cluster, transformer, verified_job
from tests.planner.test_split_bounds import job_on
from tests.simulation.prices import linear

BATCHES = (8, 16)
SPLIT = ("ddp", "fsdp", "tensor-pipeline")


def listed(of: PlacedRows | Strategies) -> list[Any]:
    """Its choices."""
    return [of[row] for row in range(len(of))]


def made_on(ranks: int = 4, memory_bytes: float | None = None, **asked: Any) -> ClusterRows:
    """Rows of a small transformer at made-up prices."""
    on = cluster(ranks)
    on = replace(on, accelerator=on.accelerator.model_copy(update={"memory": memory_bytes}))
    prices: Any = MadeUp(linear(1e10, 1e-6))
    return ClusterRows(transformer(2), on, SearchRequest(**{"global_batches": (16,)} | asked), prices)


@pytest.mark.parametrize("pins", [Pins(), Pins(micro_batches=2)])
def test_placed_rows_are_searched_that_fit_and_are_not_too_fine(pins: Pins, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those divided further that would take more than half of the memory; all are counted."""
    request = SearchRequest(strategies=("placed",), quanta=(1e-7, 1e-5), pins=pins)
    whole = job_on(4, 4, 1, 64)
    table = PartTable(whole.model)
    plain = distinct(whole, table, placed_space(whole.fabric, BATCHES, request.quanta)[0])
    held = np.sort(coarse_bound(whole, table, plain).memory)
    for limit in (None, held[0] / 2, np.median(held), held[-1], 3 * held[-1]):
        job, capacity = whole, np.inf
        if limit is not None:
            capacity = float(limit)
            job = replace(whole, accelerator=whole.accelerator.model_copy(update={"memory": capacity}))
        if any(value is not None for _, value in pins):
            every = listed(smaller(plain, dict(pins)))
        else:
            large = coarse_bound(job, table, plain).memory > capacity / 2
            every = listed(plain) + listed(distinct(job, table, smaller(plain.rows(large), dict(pins))))
        look = coarse_bound(job, table, PlacedRows.of(every))
        for finest in (0, int(np.median(look.sub_operators)), look.sub_operators.max()):
            monkeypatch.setattr(rows, "MOST_SUB_OPERATORS", finest)
            found = searched_rows(job, request, BATCHES)
            fine = look.sub_operators > finest
            wanted = np.flatnonzero(~fine & (look.memory <= capacity))
            assert listed(found.rows) == [every[row] for row in wanted]
            assert found.bound.tolist() == look.bound[wanted].tolist()
            assert (found.counts.rows, found.counts.too_fine) == (len(every), fine.sum())
            assert found.counts.too_large == len(every) - fine.sum() - len(wanted) and found.counts.refused == 0
            told = f"{fine.sum()} placed plans have more than {finest} sub-operators"
            assert found.refusals == [told] * bool(fine.any())
            least = f"the smallest placed plan needs at least {format_size(look.memory.min())} a device"
            assert found.needed == [least] * bool((look.memory > capacity).any())


def test_placed_rows_without_circuits_or_with_codecs_between_hops_are_refused_and_counted() -> None:
    narrow: dict[str, Any] = {"ranks": 12, "fabric": {"base": "circuit-switch", "degree": 2}}
    job = verified_job(transformer(1, 64), load_cluster("terarack-64", set=narrow))
    request = SearchRequest(strategies=("placed",), quanta=(1e-6,))
    _, refused = placed_space(job.fabric, (12,), request.quanta)
    found = searched_rows(job, request, (12,))
    assert found.counts.refused == refused > 0 and found.counts.rows == refused + len(found.rows)
    assert [line.split(", of a degree D of 2")[0] for line in found.refusals] == [
        f"{refused} placed plans have groups without circuits between their devices"
    ]
    on_switch = job_on(4, 4, 1, 64)
    between, in_line = coded(8.0), coded(3.0, "nic", 3.2e9)
    for exchanges in product((False, True), repeat=2):
        methods = tuple(each for each, there in zip((between, in_line), exchanges, strict=True) if there)
        found = searched_rows(replace(on_switch, exchanges=methods), request, (4,))
        assert set(found.rows.ratio.tolist()) == ({1.0, in_line.placed_ratio} if exchanges[1] else {1.0})
        assert found.refusals == ["placed plans take codecs in line with the links only"] * exchanges[0]


def test_second_bounds_are_taken_once_of_rows_of_one_kind_and_are_those_of_each_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Together with the least of the others, as many as asked for; rows without a bound are refused."""
    made = made_on(strategies=SPLIT)
    first = sorted(made.first((16,)))
    space = made._strategies
    assert space is not None
    choices = [space[row.number] for row in first]
    # Some above the first bounds, some below, some infinite.
    second = {
        choice: (2.0, 0.5, np.inf)[place % 3] * row.per_sample * choice.global_batch
        for place, (row, choice) in enumerate(zip(first, choices, strict=True))
    }
    taken: list[Strategies] = []

    def bounds(_: object, some: Strategies) -> Any:
        taken.append(some)
        return np.array([second[some[row]] for row in range(len(some))])

    monkeypatch.setattr(rows, "bounds", bounds)
    refused = made.counts.refused
    for place, (row, choice) in enumerate(zip(first, choices, strict=True)):
        alone = second[choice] / choice.global_batch
        wanted = row._replace(per_sample=max(row.per_sample, alone), bounded=2) if place % 3 < 2 else None
        assert made.refined(row, first[:place:-1], 5) == wanted
        assert wanted is None or (wanted.last and not row.last)
    assert made.counts.refused - refused == len(first[2::3])
    assert len({kind for some in taken for kind in kinds_of(some).tolist()}) == 3 and len(taken) > 3
    of_kind = [[choice for row, choice in zip(first, choices, strict=True) if row.kind == kind] for kind in range(3)]
    for some in taken:
        left = of_kind[int(kinds_of(some)[0])]
        together, left[:] = left[:5], left[5:]
        assert [some[row] for row in range(len(some))] == together
    assert not any(of_kind)


@pytest.mark.parametrize("must_fit", [True, False])
@pytest.mark.parametrize("least", [None, 0.5, 1.0, 1.5, 1e9])
def test_strategies_are_searched_that_fit_and_have_a_bound(
    must_fit: bool, least: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those of least memory where none fits and none must; all are counted."""
    free = made_on(strategies=SPLIT)
    every = free.strategies((16,))
    held = memory(free.job, every)
    capacity = None if least is None else least * float(held.min())
    made = made_on(memory_bytes=capacity, strategies=SPLIT, must_fit=must_fit)
    assert made.capacity == (np.inf if capacity is None else capacity)
    monkeypatch.setattr(rows, "bounds", lambda _, some, **__: np.where(some.tp == 2, np.inf, some.dp * 1.0))
    fits = held <= made.capacity
    none = not fits.any()
    if none and not must_fit:
        fits = held == held.min()
    wanted = {each for each, there in zip(listed(every), fits, strict=True) if there and each.tp != 2}
    first = made.first((16,))
    assert made._strategies is not None
    found = [made._strategies[row.number] for row in first]
    assert set(found) == wanted and len(found) == len(wanted) == made.counts.bounded
    assert [row.per_sample for row in first] == [each.dp / each.global_batch for each in found]
    assert made.counts.too_large == len(every) - fits.sum()
    assert made.counts.rows == len(every) == made.counts.refused + made.counts.too_large + len(found)
    assert made.too_large == none == isinstance(made.nothing(), TooLargeError)
    told = f"has {format_size(made.capacity)} of memory, but the smallest strategy needs {format_size(held.min())} a"
    assert (told in str(made.nothing())) == none


def test_placed_rows_are_refined_until_they_have_no_place_or_no_circuits() -> None:
    made: Any = made_on(strategies=("placed",), quanta=(1e-6,))
    first = made.first((16,))
    answers: dict[str, float | str] = {}

    def ask(name: str) -> float:
        if isinstance(answer := answers[name], str):
            raise UnsupportedError(answer)
        return answer

    made._plans = SimpleNamespace(
        identity=lambda choice: choice,
        structure_bound=lambda choice: ask("place"),
        circuits_bound=lambda choice: ask("circuits"),
        partitions=0,
        placements=0,
    )
    for row in first:
        batch = made._placed[row.number].global_batch
        for factor in (0.5, 2.0):
            answers |= {"place": factor * row.per_sample * batch, "circuits": 3 * factor * row.per_sample * batch}
            placed = made.refined(row)
            assert placed == row._replace(per_sample=pytest.approx(row.per_sample * max(1, factor)), bounded=2)
            last = made.refined(placed)
            assert last.per_sample == pytest.approx(row.per_sample * 3 * factor) and last.bounded == 3
            assert (row.last, placed.last, last.last) == (False, False, True)
        assert made.undivided(row) == (made._placed[row.number].k == 1)
    assert {made.undivided(row) for row in first} == {True, False}
    before = made.counts
    answers |= {"circuits": "no circuit from 0 to 1"}
    assert made.refined(placed) is None and made.refined(placed) is None
    assert made.refusals == ("2 placed plans have no circuits that serve them; of the first, no circuit from 0 to 1",)
    assert made.counts == before + Counts(refused=2) and not made.too_large
    answers |= {"place": "no room"}
    assert made.refined(row) is None
    assert made.counts == before + Counts(refused=2, too_large=1) and made.too_large
    assert "but no room: expected more memory" in str(made.nothing())


def test_a_strategy_whose_algorithms_fail_at_its_sizes_is_refused_and_the_reason_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = made_on(strategies=SPLIT)
    first = made.first((16,))
    before = made.counts

    def fails(*_: object) -> None:
        raise UnsupportedError("no such schedule")

    monkeypatch.setattr(made, "_strategy_plan", fails)
    assert made.simulated(first[0]) is None and made.simulated(first[1]) is None
    assert made.counts == before + Counts(refused=2) and made.refusals == ("no such schedule",)
    refused: Any = [SimpleNamespace(strategy="ddp", why=f"reason {number}") for number in (1, 1, *range(2, 10))]
    told = str(made.nothing(refused))
    assert f"none of {before.rows} plans is feasible: no such schedule; ddp: reason 1; ddp: reason 2" in told
    assert told.count("reason 1") == 1 and told.endswith("reason 5")


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_winner_gives_way_to_faster_forms_of_itself_alone(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other schedules are tried where none are given, as long as they are simulated and there is something to send."""
    made: Any = made_on(strategies=SPLIT)
    space = made.strategies((16,))
    split = next(each for each in listed(space) if not each.plain)
    plain = next(each for each in listed(space) if each.plain)
    other = SimpleNamespace(step_time=factor)
    monkeypatch.setattr(made, "_strategy_plan", lambda *_: other)
    monkeypatch.setattr(made, "_placed_plan", lambda *_: other)
    made.prices = SimpleNamespace(with_choices=lambda _: made.job.pricing)
    made._plans = SimpleNamespace(simulate_replaced=lambda _: other)

    def refined(choice: Any, *algorithms: str) -> bool:
        plan = SimpleNamespace(choice=choice, step_time=1.0, algorithms=algorithms, bound=0.0)
        better = made.refine_winner(plan)
        assert better is plan or better is other
        return better is other

    faster = factor < 1
    placed = PlacedChoice(2, 2, 1e-6, 16, 1, 1.0)
    assert refined(split, "ring") == refined(placed) == faster
    assert not refined(plain, "ring") and not refined(split) and not refined(split, LIBRARY.name)
    for changes in ({"algorithms": ("ring",)}, {"cost_model": "paper"}):
        made.request = replace(SearchRequest(), **changes)
        assert not refined(split, "ring") and refined(placed) == faster


def test_plans_say_what_their_steps_take_and_no_less_than_their_rows() -> None:
    """The memory of the fullest device or stage, the last bound of a step, the method by which gradients go."""
    in_line = coded(3.0, "nic", 3.2e9)
    made = made_on(strategies=("ddp", "tensor-pipeline", "placed"), quanta=(1e-8, 1e-3), exchanges=(in_line,))
    first, uneven, alike, ratios, numbers = made.first((16,)), 0, 0, set(), set()
    searched = searched_rows(made.job, made.request, (16,))
    bounds = dict(enumerate((searched.bound / searched.rows.global_batch).tolist()))
    assert {row.number: row.per_sample for row in first if row.kind == 3} == bounds
    random = Random(2)
    split, placed = ([row for row in first if (row.kind == 3) == there] for there in (False, True))
    for row in random.sample(split, 8) + random.sample(placed, 12):
        while not row.last and (refined := made.refined(row)) is not None:
            row = refined
        if not row.last:
            # Cut as another row, by another quantum or limit.
            identities = [made._plans.identity(made._placed[number]) for number in range(len(made._placed))]
            assert row.bounded == 1 and identities.count(identities[row.number]) > 1
            alike += 1
            continue
        plan = made.simulated(row)
        assert plan is not None
        assert plan.bound / plan.global_batch == pytest.approx(row.per_sample) and plan.bound <= plan.step_time
        assert plan.cluster is made.cluster and plan.breakdown == plan.step.breakdown
        ledger = plan.ledger
        assert (ledger.step_time, ledger.samples, ledger.cluster) == (plan.step_time, 16, made.ledger)
        goodput = made.goodput.most, made.goodput.missing, made.goodput.spare_share
        assert (ledger.goodput, ledger.goodput_missing, ledger.spare_share) == goodput
        if isinstance(plan.choice, PlacedChoice):
            assert plan.placed is not None and plan.memory == max(plan.placed.memory)
            assert plan.gradient_exchange is (in_line if plan.choice.ratio > 1 else None)
            ratios.add(plan.choice.ratio)
            uneven += min(plan.placed.memory) < max(plan.placed.memory)
        else:
            assert plan.memory == memory(made.job, Strategies.of(plan.choice))[0]
            assert plan.gradient_exchange is (in_line if plan.choice.exchange else None)
            numbers.add(plan.choice.exchange)
    assert uneven and alike and len(ratios) == len(numbers) == 2
    made_so_far = made._plans.partitions, made._plans.placements
    assert (made.counts.partitioned, made.counts.placed) == made_so_far and min(made_so_far) > 0


def test_each_strategy_has_its_largest_batch_that_fits_where_that_is_asked_for() -> None:
    batches = (4, 8, 16)
    whole = made_on(strategies=SPLIT, global_batches=batches)
    every = whole.strategies(batches)
    held = memory(whole.job, every)
    made = made_on(strategies=SPLIT, global_batches=batches, largest_batches=True, memory_bytes=float(np.median(held)))
    first = made.first(batches)
    space = made._strategies
    assert space is not None
    fitting = [each for each, there in zip(listed(every), held <= np.median(held), strict=True) if there]
    most = {}
    for each in sorted(fitting, key=lambda each: each.global_batch):
        most[each._replace(global_batch=0)] = each
    assert {space[row.number] for row in first} == set(most.values()) and len(first) == len(most)
    assert len({each.global_batch for each in most.values()}) > 1


def test_attention_is_recomputed_alone_where_it_keeps_scores() -> None:
    sizes = TransformerSizes(hidden=64, layers=2, heads=4, ffn=256, vocabulary=100, sequence_length=16)
    for attention, kinds in (("flash", {"none", "full"}), ("unfused", {"none", "full", "selective"})):
        on = cluster(2)
        on = replace(on, training=on.training.model_copy(update={"attention": attention}))
        prices: Any = MadeUp(linear(1e10, 1e-6))
        made = ClusterRows(transformer_graph(sizes, 1), on, SearchRequest(strategies=SPLIT), prices)
        assert {each.recomputation for each in listed(made.strategies((4,)))} == kinds


def test_reasons_name_what_would_do() -> None:
    made = made_on(strategies=SPLIT)
    assert not made.refusals
    none = (
        "no global batch divides evenly among replicas and micro-batches: expected a multiple of 4, one sample a rank"
    )
    assert str(made.nothing()).endswith(none)
    pinned = made_on(strategies=SPLIT, pins=Pins(tp=2))
    assert str(pinned.nothing()).endswith(f"{none}; or other options that pin a choice")
    made._counts = Counts(rows=5)
    assert str(made.nothing()).endswith("none of 5 plans is feasible: ")
    made._counts, made._unserved = Counts(), ["first", "second", "third"]
    told = "3 placed plans have no circuits that serve them; of the first, first"
    assert list(made.refusals) == [told] and str(made.nothing()).endswith(f"none of 0 plans is feasible: {told}")
    made._needed = ["one", "one", "other"]
    assert "but one: expected more memory" in str(made.nothing())
    made._needed = ["one", "two", "other"]
    assert "but one; two: expected more memory" in str(made.nothing()) and made.too_large


def test_circuits_that_follow_the_step_are_refused_where_only_placed_plans_have_them() -> None:
    """On a ring of wavelengths strategies keep theirs; planes of a switch can be shared out among groups."""
    ring = cluster(4)
    for kinds, anew in product((("ddp",), ("ddp", "placed")), (False, True)):
        prices = GroupPrices(ring.fabric, ring.training)
        request = SearchRequest(strategies=kinds, reconfigure_in_step=anew)
        if anew and "placed" not in kinds:
            with pytest.raises(UnsupportedError, match="only placed plans are granted wavelengths anew"):
                ClusterRows(transformer(1), ring, request, prices)
        else:
            made = ClusterRows(transformer(1), ring, request, prices)
            assert made._planes is None and made._plans._regrants == anew
    switch = load_cluster("terarack-64", set={"ranks": 4, "fabric": {"base": "circuit-switch", "degree": 4}})
    for anew in (False, True):
        request = SearchRequest(strategies=("ddp",), reconfigure_in_step=anew)
        prices = GroupPrices(switch.fabric, switch.training)
        assert (ClusterRows(transformer(1), switch, request, prices)._planes is not None) == anew


def test_circuits_of_all_axes_are_proved_where_axes_divide_the_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    proved: list[Any] = []
    monkeypatch.setattr(rows, "verify_standing", lambda *given: proved.append(given))
    made = made_on(strategies=SPLIT)
    plan = next(plan for row in made.first((16,)) if (plan := made.simulated(row)) is not None)
    rows.verify_winner(plan)
    assert plan.division is None and not proved
    assert isinstance(plan.step, StrategyStep)
    divided = replace(plan, step=replace(plan.step, division=SimpleNamespace()))  # type: ignore[arg-type]
    rows.verify_winner(divided)
    assert proved == [(plan.job, plan.choice, divided.step)]


def test_what_placed_plans_lack_is_said() -> None:
    """Memory, or links between groups."""
    made = made_on(strategies=("placed",), quanta=(1e-6,), memory_bytes=1e4)
    assert made.first((16,)) == [] and made.too_large and made.counts.too_large == made.counts.rows > 0
    assert "the smallest placed plan needs at least" in str(made.nothing())
    on = load_cluster("terarack-64", set={"ranks": 4, "fabric": {"base": "ring"}})
    prices: Any = MadeUp(linear(1e10, 1e-6))
    none = ClusterRows(transformer(1), on, SearchRequest(strategies=("placed",)), prices)
    assert none.first((16,)) == [] and none.counts == Counts()
    (why,) = none.refusals
    assert "placed plans on ring" in why and str(none.nothing()).endswith(f"none of 0 plans is feasible: {why}")


def test_choices_that_contradict_each_other_have_no_rows() -> None:
    with pytest.raises(ConfigError, match="--tp 3: 3 ranks in all"):
        made_on(strategies=SPLIT, pins=Pins(tp=3)).first((16,))
