"""The search over designs with made-up results: order, budgets, what is left out and why, what is told meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.clusters.load import cluster_from
from lightloom.machines.parts.bill import Bill, Line
from lightloom.machines.parts.part import Part
from lightloom.models.graph import ComputeGraph
from lightloom.planning.designs.explore import (
    Bounded,
    Candidate,
    Evaluated,
    Exploration,
    Question,
    Task,
    assess,
    explore,
    resumed,
    solve_task,
)
from lightloom.planning.designs.page import break_even, design_page, front_figure, price_text, ratio, rival_break_even
from lightloom.planning.designs.space import Design, Front, Technology, Worth, read_space
from lightloom.planning.economics import ledger
from lightloom.planning.economics.ledger import Site
from tests.planner.jobs import transformer

SITE = Site(host_price=20_000)


def question(site: Site = SITE, batch: int = 4) -> Question:
    return Question(graph=transformer(1), batch_per_rank=batch, site=site)


def design(bandwidth: str, technology: Technology = "electrical", *, ranks: int = 8, **more: Any) -> Design:
    fields: dict[str, Any] = {"fabric": "two-tier-400g", "settings": {}, **more}
    return Design(family=bandwidth, technology=technology, ranks=ranks, accelerator="h100", folder=".", **fields)


class Solver:
    """Does tasks by a table: seconds a sample at the bound and of the plan, by family; and keeps what it was asked."""

    def __init__(self, **seconds: tuple[float, float]) -> None:
        self.seconds, self.asked, self.waves = seconds, list[tuple[str, float | None]](), list[int]()
        self.limit: dict[str, str] = {}
        self.why: dict[str, str] = {}
        self.left_out: dict[str, str] = {}

    def __call__(self, tasks: Sequence[Task]) -> Iterable[Bounded | Evaluated]:
        self.waves.append(len(tasks))
        self.asked += [(task.design.family, task.below) for task in tasks]
        return [self._solved(task) for task in reversed(tasks)]

    def _solved(self, task: Task) -> Bounded | Evaluated:
        name = task.design.family
        least, found = self.seconds.get(name, (1.0, 1.0))
        if task.below is None:
            return Bounded(design=task.design, least_time=least, bounded=True, limit=self.limit.get(name, ""))
        if name in self.why:
            return Evaluated(design=task.design, why=self.why[name])
        if found > task.below:
            return Evaluated(design=task.design, left_out=self.left_out.get(name, ""))
        return Evaluated(design=task.design, sample_time=found, step_time=32 * found, label=f"plan of {name}")


@pytest.fixture(autouse=True)
def _no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exchanges that take no time are no bound here."""
    monkeypatch.setattr("lightloom.planning.designs.explore.least_time", lambda *_: 1e-3)


def search(designs: Sequence[Design], run: Solver, asked: Question | None = None, **more: Any) -> Exploration:
    return explore(asked or question(), designs, run, **more)


def names(found: Iterable[Candidate | Bounded]) -> list[str]:
    return [each.design.family for each in found]


def test_designs_are_ranked_by_dollars_and_marked_on_fronts() -> None:
    run = Solver(a=(1.0, 3.0), b=(1.0, 2.0), c=(1.0, 4.0))
    found = search([design("a"), design("b"), design("c", "optical")], run, prune=False)
    assert names(found.candidates) == ["b", "a", "c"]
    assert [each.on_front for each in found.candidates] == [True, False, False]
    assert [each.leads for each in found.candidates] == [True, False, True]
    assert names(found.front) == ["b"]
    assert not found.beaten and not found.refused and not found.over_budget and not found.unsearched
    assert run.asked.count(("a", None)) == 1 and ("c", inf) in run.asked


def test_bounds_leave_out_what_an_evaluated_design_of_its_technology_beats() -> None:
    run = Solver(a=(1.0, 2.0), b=(2.5, 2.6), c=(3.0, 3.1))
    found = search([design("a"), design("b"), design("c", "optical")], run)
    assert names(found.candidates) == ["a", "c"] and names(found.beaten) == ["b"]
    assert not any(name == "b" and below is not None for name, below in run.asked)
    assert found.beaten[0].least_time == 2.5


def test_a_design_at_its_cutoff_is_beaten_and_one_below_it_is_searched_up_to_it() -> None:
    run = Solver(a=(1.0, 2.0), b=(2.0, 2.0), c=(1.999, 2.5))
    found = search([design("a"), design("b"), design("c")], run)
    assert names(found.candidates) == ["a"] and sorted(names(found.beaten)) == ["b", "c"]
    (below,) = [below for name, below in run.asked if name == "c" and below is not None]
    assert below == pytest.approx(2.0)


def test_the_most_promising_design_is_searched_first_and_as_many_at_once_as_asked() -> None:
    designs = [design(name) for name in "abcd"]
    seconds = {"a": (4.0, 9.0), "b": (1.0, 9.0), "c": (3.0, 9.0), "d": (2.0, 9.0)}
    run = Solver(**seconds)
    search(designs, run, prune=False)
    assert [name for name, below in run.asked if below is not None] == ["b", "d", "c", "a"]
    assert set(run.waves) == {1}
    run = Solver(**seconds)
    search(designs, run, prune=False, jobs=3)
    assert max(run.waves) == 3 and sum(run.waves) == 8
    assert next(name for name, below in run.asked if below is not None) == "b"


def test_what_is_not_bounded_on_its_own_fabric_is_bounded_first() -> None:
    run = Solver(a=(1.0, 2.0))
    search([design("a")], run)
    assert run.asked == [("a", None), ("a", inf)]


def test_a_beaten_design_of_which_plans_were_not_tried_is_refused_and_says_so() -> None:
    run = Solver(a=(1.0, 2.0), b=(2.5, 2.6))
    run.limit["b"] = "too large"
    found = search([design("a"), design("b")], run)
    assert names(found.candidates) == ["a"] and not found.beaten
    assert [each.why for each in found.refused] == ["beaten as far as it was tried: too large"]


def test_a_slower_design_of_which_algorithms_failed_is_refused_and_says_so() -> None:
    run = Solver(a=(1.0, 2.0), b=(1.5, 2.6), c=(1.5, 2.7))
    run.left_out["b"] = "ring raises MemoryError"
    found = search([design("a"), design("b"), design("c")], run)
    assert names(found.beaten) == ["c"]
    assert [each.why for each in found.refused] == ["beaten as far as it was tried: ring raises MemoryError"]


@pytest.mark.parametrize(("least", "first"), [(0.6, "a"), (0.4, "b")])
def test_a_design_with_something_unknown_is_half_as_promising(
    least: float, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown: dict[str, dict[str, float]] = {"a": {}, "b": {"price of engine": 8.0}}
    monkeypatch.setattr(
        "lightloom.planning.designs.explore.assess",
        lambda _, each: Bounded(design=each, worth=worth(unknown=unknown[each.family])),
    )
    run = Solver(a=(1.0, 2.0), b=(least, 2.0))
    search([design("a"), design("b")], run, prune=False)
    assert next(name for name, below in run.asked if below is not None) == first


def test_designs_without_a_plan_are_refused_with_the_reason() -> None:
    run = Solver(a=(1.0, 2.0), b=(0.5, 2.0))
    run.why["b"] = "no plan fits"
    found = search([design("a"), design("b"), design("c", fabric="no such fabric")], run)
    assert names(found.candidates) == ["a"]
    assert {each.design.family: each.why for each in found.refused} == {
        "b": "no plan fits",
        "c": next(each.why for each in found.refused if each.design.family == "c"),
    }
    assert names(found.refused) == ["c", "b"]
    run.why["a"] = "none either"
    with pytest.raises(UnsupportedError, match=r"none of 2 designs has a plan: b: no plan fits"):
        search([design("a"), design("b")], run)


def test_budgets_hold_what_costs_as_much_and_count_what_is_over() -> None:
    worth = assess(question(), design("a")).worth
    assert worth is not None
    pair = [design("a"), design("b", ranks=16)]
    run = Solver(a=(1.0, 2.0), b=(1.0, 2.0))
    budgets: list[dict[str, Any]] = [{"dollars": worth.capital}, {"watts": worth.watts}]
    for budget in budgets:
        found = search(pair, run, **budget)
        assert names(found.candidates) == ["a"] and found.over_budget == 1
    assert search(pair, run, dollars=inf).over_budget == 0
    with pytest.raises(UnsupportedError) as refused:
        search(pair, run, dollars=0.999 * worth.capital)
    assert f"budget of ${0.999 * worth.capital:,.0f}: the cheapest of 2 designs costs " in str(refused.value)
    assert f"${worth.capital:,.0f} and the least draws {worth.watts:,.0f} W" in str(refused.value)
    with pytest.raises(UnsupportedError, match=r"budget of \$1 and 2 W: "):
        search(pair, run, dollars=1.0, watts=2.0)


def test_progress_is_told_of_every_design_once_and_of_the_best_so_far() -> None:
    done, told = list[int](), list[tuple[str, int]]()
    run = Solver(a=(1.0, 3.0), b=(0.5, 4.0), c=(2.0, 2.0), d=(9.0, 9.0))
    designs = [design("a"), design("b"), design("c", "optical"), design("d"), design("e", fabric="no such fabric")]
    designs += [design("f", ranks=64)]
    worth = assess(question(), designs[0]).worth
    assert worth is not None
    search(
        designs,
        run,
        dollars=worth.capital,
        advance=done.append,
        tell=lambda best, count: told.append((best.design.family, count)),
    )
    assert sum(done) == len(designs) and done[0] == 2
    assert {count for _, count in told} == {len(designs)}
    assert list(dict.fromkeys(name for name, _ in told)) == ["b", "a", "c"]


def test_an_interrupted_search_keeps_what_it_has_and_names_what_it_lacks() -> None:
    def stopping(after: int) -> Callable[[Sequence[Task]], Iterable[Bounded | Evaluated]]:
        run, calls = Solver(a=(1.0, 2.0), b=(1.5, 1.9), c=(1.0, 1.0)), list[int]()

        def stop(tasks: Sequence[Task]) -> Iterable[Bounded | Evaluated]:
            calls.append(len(tasks))
            if len(calls) > after:
                raise KeyboardInterrupt
            return run(tasks)

        return stop

    designs = [design("a"), design("b"), design("c", "optical")]
    found = explore(question(), designs, stopping(3))
    assert names(found.candidates) == ["a"] and [each.family for each in found.unsearched] == ["b", "c"]
    with pytest.raises(KeyboardInterrupt):
        explore(question(), designs, stopping(2))


def test_without_a_batch_the_largest_that_fits_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of designs of several numbers of ranks, that which all of these fit; the first design with a plan decides."""

    def fits(task: Task) -> Bounded:
        most = {8: 16, 16: 4}[task.design.ranks]
        if task.design.family == "odd":
            return Bounded(design=task.design, why="no plan at all")
        large = task.question.batch_per_rank > most
        return Bounded(design=task.design, why="too large" if large else "", too_large=large)

    monkeypatch.setattr("lightloom.planning.designs.explore.solve_task", fits)
    for designs, batch in (
        ([design("odd"), design("a")], 16),
        ([design("a"), design("b", ranks=16)], 4),
        ([design("odd")], 32),
    ):
        assert search(designs, Solver(), question(batch=0)).question.batch_per_rank == batch
    assert search([design("b", ranks=16)], Solver(), question(batch=7)).question.batch_per_rank == 7
    monkeypatch.setattr(
        "lightloom.planning.designs.explore.solve_task",
        lambda task: Bounded(design=task.design, why="too large", too_large=True),
    )
    assert search([design("a")], Solver(), question(batch=0)).question.batch_per_rank == 1


def test_speed_counts_where_numbers_of_ranks_differ() -> None:
    run = Solver(a=(1.0, 2.0), b=(1.0, 1.5))
    found = search([design("a"), design("b", ranks=16)], run, prune=False)
    assert [each.on_front for each in found.candidates] == [True, True]
    run = Solver(a=(1.0, 2.0), b=(1.0, 2.0))
    found = search([design("a"), design("b", ranks=16)], run, prune=False)
    assert [(each.design.family, each.on_front) for each in found.candidates] == [("a", True), ("b", False)]


def worth(**changes: Any) -> Worth:
    fields: dict[str, Any] = {"goodput": 1.0, "spare_share": 0.0, "capital": 100.0, "cost_rate": 1e-3, "watts": 10.0}
    fields |= {"electricity": 1e-3, "pue": 1.5, "fabric_dollars": 1.0, "fabric_watts": 1.0, "fabric_bandwidth": None}
    fields |= {"unknown": {}, "unknown_rates": {}, "alike": {}, "ranks": 8}
    return Worth(**{**fields, **changes})


def candidate(name: str, time: float, technology: Technology = "electrical", **changes: Any) -> Candidate:
    made = design(name, technology, ranks=int(changes.get("ranks", 8)))
    found = Evaluated(design=made, sample_time=time, step_time=time, label=f"plan of {name}")
    return Candidate(design=made, worth=worth(**changes), least_time=time, evaluated=found, on_front=True, leads=True)


def exploration(*candidates: Candidate) -> Exploration:
    return Exploration(question=question(), candidates=candidates, beaten=(), refused=())


def test_the_best_design_depends_on_what_counts() -> None:
    """Dollars, joules or seconds; of known prices; and of dear hosts."""
    cheap, cool = candidate("cheap", 2.0, capital=1.0, watts=20.0), candidate("cool", 2.0, watts=1.0)
    quick = candidate("quick", 1.0, capital=1e3, watts=50.0)
    unpriced = candidate("unpriced", 2.0, capital=0.5, watts=0.5, unknown={"price of engine": 8.0})
    light = candidate("light", 9.0, "optical")
    found = exploration(cheap, cool, quick, unpriced, light)

    def best(objective: int, **more: bool) -> str:
        chosen = found.best("electrical", objective, **more)
        assert chosen is not None
        return chosen.design.family

    assert [best(objective) for objective in range(3)] == ["unpriced", "unpriced", "quick"]
    assert [best(objective, known=True) for objective in range(3)] == ["cheap", "cool", "quick"]
    assert best(0, dear=True) == best(1, dear=True, known=True) == "quick"
    assert found.best("optical", 0) is light
    assert exploration(cheap).best("optical", 0) is exploration(cheap).best("optical", 0, dear=True) is None
    assert exploration(unpriced).best("electrical", 0, known=True) is None


def test_equal_designs_count_together_where_all_that_counts_is_equal() -> None:
    a, b, c = candidate("a", 2.0), candidate("b", 2.0), candidate("c", 2.0, "optical")
    d, e = candidate("d", 2.0, unknown={"price of engine": 8.0}), candidate("e", 3.0)
    found = exploration(a, b, c, d, e)
    assert [(each.design.family, count) for each, count in found.distinct([e, a, c, b, d])] == [
        ("e", 1),
        ("a", 2),
        ("c", 1),
        ("d", 1),
    ]


def test_what_is_left_out_stands_behind_the_plan() -> None:
    made = replace(candidate("a", 1.0).evaluated, left_out="too large")
    assert made.plan == "plan of a (left out: too large)"
    assert replace(made, left_out="").plan == "plan of a"


def test_upper_bounds_are_where_something_is_unknown() -> None:
    assert not worth().at_most(0) and not worth().at_most(1)
    price = worth(unknown={"price of engine": 1.0})
    assert price.at_most(0) and not price.at_most(1)
    power = worth(alike={"power of host": 1.0})
    assert power.at_most(0) and power.at_most(1)
    life = worth(unknown_rates={"engine": 1.0})
    assert life.at_most(0) and life.at_most(1)
    both = worth(unknown={"price of a": 1.0, "power of b": 1.0}, alike={"price of c": 1.0})
    assert both.unknown_of(0) == ("price of a", "power of b", "price of c")
    assert both.unknown_of(1) == ("power of b",)
    assert both.unknown_of(0, both.alike) == ("price of c",) and both.unknown_of(1, both.alike) == ()


def test_figures_of_what_is_unknown_reach_the_whole_and_those_of_the_fabric_its_share() -> None:
    unknown = worth(unknown={"price of engine": 16.0, "power of engine": 16.0}, alike={"price of host": 8.0})
    assumed = unknown.assuming({"price of engine": 3.0, "power of engine": 2.0, "price of host": 5.0})
    assert assumed.capital == 100 + 48 + 40 and assumed.watts == 10 + 32 * 1.5
    assert assumed.fabric_dollars == 1 + 48 / 8 and assumed.fabric_watts == 1 + 32 / 8
    assert not assumed.variables
    part = unknown.assuming({"price of engine": 3.0})
    assert dict(part.variables) == {"power of engine": 16.0, "price of host": 8.0}


def test_rivals_are_of_the_other_technology_one_by_dollars_and_one_by_joules() -> None:
    own = candidate("own", 1.0)
    cheap, cool = candidate("cheap", 1.0, "optical", capital=1.0), candidate("cool", 1.0, "optical", watts=1.0)
    cheap = replace(cheap, worth=replace(cheap.worth, watts=20.0))
    even = rival_break_even(own, exploration(own, cheap, cool))
    assert even is not None and (even.dollars_rival, even.joules_rival) == (cheap, cool)
    assert even.fabric_dollars < 1.0 and even.fabric_watts < 1.0 and even.energy_per_bit is None
    back = rival_break_even(cheap, exploration(own, cheap, cool))
    assert back is not None and back.dollars_rival is back.joules_rival is own
    assert rival_break_even(own, exploration(own)) is None
    fast = replace(own, worth=replace(own.worth, fabric_bandwidth=1e9))
    told = break_even(fast, own)
    assert told.energy_per_bit == pytest.approx(told.fabric_watts / 8e9)


def test_a_part_has_a_break_even_price_where_it_alone_is_unpriced() -> None:
    rival = candidate("rival", 1.0, "optical")
    one = candidate("one", 1.0, capital=52.0, unknown={"price of engine": 16.0, "power of engine": 16.0})
    even = break_even(one, rival)
    assert (even.part, even.part_count) == ("engine", 2.0)
    assert even.part_price == pytest.approx(3.0)
    two = candidate("two", 1.0, unknown={"price of engine": 16.0, "price of lock": 8.0})
    assert [getattr(break_even(two, rival), name) for name in ("part", "part_price", "part_count")] == [None] * 3
    document = even.to_json()
    assert document["unknown_part"] == "engine" and document["rival_by_dollars"] == "rival"


def test_ratios_know_no_limit_without_unknowns_and_no_crossing_with_two() -> None:
    first, second = candidate("first", 1.0), candidate("second", 2.0)
    assert ratio(first, second, 0).limit is None and ratio(first, second, 0).least == pytest.approx(2.0)
    assert ratio(first, second, 1).least == pytest.approx(2.0)
    host = {"price of host": 8.0}
    # The slower one is cheaper, so that a price of the host makes both equal.
    first, second = candidate("first", 1.0, capital=300.0, alike=host), candidate("second", 2.0, alike=host)
    crossing = ratio(first, second, 0)
    assert crossing.limit == pytest.approx(2.0) and crossing.equal_at is not None
    assert ratio(first, second, 1).limit is None
    two = {**host, "power of host": 8.0}
    pair = [replace(each, worth=replace(each.worth, alike=two)) for each in (first, second)]
    assert ratio(pair[0], pair[1], 0).equal_at is None and ratio(pair[0], pair[1], 1).limit == pytest.approx(2.0)
    same = candidate("same", 1.0, capital=200.0, alike=host)
    assert ratio(same, replace(same, worth=replace(same.worth, capital=1.0)), 0).equal_at is None


@pytest.mark.parametrize(
    ("dollars", "more", "words"),
    [
        (-1.0, {}, "no price"),
        (-1.0, {"price of host": -0.5}, "no price"),
        (-1.0, {"price of host": 0.0}, "no price"),
        (-1.0, {"price of host": 0.5}, "-$ 1 + 0.5 x price of host"),
        (0.0, {}, "$ 0"),
        (119.0, {"price of host": -0.0013}, "$ 119 - 0.0013 x price of host"),
        (119.0, {"price of host": 0.0}, "$ 119 + 0 x price of host"),
    ],
)
def test_break_even_prices_are_functions_in_words(dollars: float, more: dict[str, float], words: str) -> None:
    assert price_text(dollars, more).replace("$ ", "$").replace("$", "$ ") == words


def test_a_page_holds_all_designs_and_marks_the_front_and_the_bounds() -> None:
    first = candidate("first", 1.0)
    second = replace(candidate("second", 2.0, unknown={"price of engine": 8.0}), on_front=False)
    alike = replace(candidate("alike", 2.0, unknown={"price of engine": 8.0}), on_front=False)
    light = candidate("light", 3.0, "optical", ranks=1024)
    beaten = Bounded(design=design("beaten"), least_time=1e-3)
    refused = Bounded(design=design("refused", ranks=4096), why="no plan")
    found = replace(exploration(first, second, alike, light), beaten=(beaten,), refused=(refused,))
    page = design_page("t", "h", found, [("a", "b")], ["note"])
    electrical, optical, left_out, without = page.tables
    assert [table.title for table in (electrical, optical)] == ["Electrical designs", "Optical designs"]
    assert [row[0] for row in electrical.rows] == ["* first", "second (2 alike)"]
    assert [row[2].startswith("≤ ") for row in electrical.rows] == [False, True]
    assert [row[3].startswith("≤ ") for row in electrical.rows] == [False, False]
    assert [row[8] for row in electrical.rows] == ["", "price of engine"]
    assert optical.rows[0][1] == "1,024" and optical.rows[0][-1] == "plan of light"
    assert all(row[6] for row in electrical.rows)
    assert left_out.rows == (("beaten", "8", "1 ms"),)
    assert without.rows == (("refused", "4,096", "no plan"),)
    assert (page.title, page.headline, page.facts, page.notes) == ("t", "h", (("a", "b"),), ("note",))
    alone = design_page("t", "h", exploration(first), [], [])
    assert alone.tables[0].rows[0][6] == "" and alone.tables[1].rows == ()


def test_numbers_stand_at_the_best_designs_and_arrows_at_upper_bounds() -> None:
    first, second = candidate("first", 1.0), replace(candidate("second", 2.0), leads=False)
    bound = candidate("bound", 3.0, "optical", unknown={"price of engine": 8.0})
    (axes,) = front_figure(exploration(first, second, bound)).axes
    points = [line for line in axes.lines if len(np.asarray(line.get_xdata())) == 1]
    assert [line.get_marker() for line in points] == ["o", "o", "<"]
    assert [line.get_markerfacecolor() != "none" for line in points] == [True, False, True]
    assert [text.get_text() for text in axes.texts] == ["1", "2"]
    legend = axes.get_legend()
    assert legend is not None
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ["electrical", "optical", "first", "bound", "no design beats these"]
    joined = next(line for line in axes.lines if line.get_label() == "no design beats these")
    grid = axes.get_xgridlines()[0]
    assert 0 < grid.get_linewidth() < joined.get_linewidth()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("samples per dollar", "samples per joule")


def test_a_fabric_of_which_nothing_states_what_it_is_built_of_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_from({"ranks": 8, "accelerator": "h100", "fabric": "torus"}, name="torus")
    monkeypatch.setattr(ledger, "fabric_bill", lambda *_: Bill(8, (), ("parts of a torus",)))
    with pytest.raises(UnsupportedError, match="nothing states parts of a torus: the design has no price"):
        Worth.of(cluster, Site())
    refused = assess(question(), design("a", fabric="torus"))
    assert refused.worth is None and refused.why.startswith("nothing states")


def test_a_fabric_of_which_nothing_is_priced_counts_as_nothing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_from({"ranks": 8, "accelerator": "h100", "fabric": "torus"}, name="torus")
    fields = {"name": "lamp", "kind": "transceiver", "rate": "100Gbps", "description": "of which nothing is stated"}
    bill = Bill(8, (Line(Part.model_validate(fields), 2, "two a rank"),))
    monkeypatch.setattr(ledger, "fabric_bill", lambda *_: bill)
    found = Worth.of(cluster, Site())
    assert (found.fabric_dollars, found.fabric_watts, found.fabric_bandwidth) == (0.0, 0.0, None)
    assert found.unknown["price of lamp"] == found.unknown["power of lamp"] == 16


def test_a_price_of_the_whole_fabric_stands_for_those_of_its_parts() -> None:
    priced = assess(question(), design("a", fabric_price=123.0)).worth
    assert priced is not None and priced.fabric_dollars == pytest.approx(123.0)
    assert not any(name.startswith("price") for name in priced.unknown)


def test_designs_are_named_by_what_differs_in_their_family(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        "assumptions: [first]\nfamilies:\n"
        "  - {name: tiers, technology: electrical, fabric: two-tier-400g,\n"
        "     set: {tiers.node.size: [4, 8], taper: [1.0]}, fabric_price: $ 5}\n"
        "  - {name: switch, technology: optical, fabric: switch}\n"
    )
    designs = list(read_space(path).designs([8, 16], "h100", tmp_path))
    assert [each.name for each in designs] == ["tiers: size 4", "tiers: size 8"] * 2 + ["switch"] * 2
    assert [each.ranks for each in designs] == [8, 8, 16, 16, 8, 16]
    assert [each.technology for each in designs] == ["electrical"] * 4 + ["optical"] * 2
    assert [each.fabric_price for each in designs] == [5.0] * 4 + [None] * 2
    assert designs[0].settings == {"tiers.node.size": 4, "taper": 1.0} and designs[0].folder == str(tmp_path)
    assert len({each.key for each in designs}) == 6
    assert read_space(path).assumptions == ("first",)


def test_a_design_that_is_no_cluster_says_which(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="design 'a'"):
        design("a", fabric={"kind": "torus", "wings": 2}).cluster()


def test_the_front_of_equals_is_all_of_them_and_beats_nothing_beyond_rounding() -> None:
    front = Front(by_speed=False)
    assert front.cutoff(worth()) == inf and front.on_front() == []
    front.add(worth(), 1.0, 0.0)
    front.add(worth(), 1.0 + 1e-12, 0.0)
    assert front.on_front() == [True, True]
    front.add(worth(), 1.1, 0.0)
    assert front.on_front() == [True, True, False]
    assert front.cutoff(worth()) == pytest.approx(1.0)


def test_a_search_resumes_from_what_was_stored_of_the_same_question(tmp_path: Path) -> None:
    graph: ComputeGraph = transformer(1)
    tasks = [Task(question=question(), design=design("a")), Task(question=question(), design=design("b"), below=inf)]
    slow = replace(tasks[1], below=1.0)
    run = Solver(a=(1.5, 2.0), b=(1.0, 2.0))
    with resumed(run, tmp_path / "kept", graph) as kept:
        first = list(kept(tasks))
    assert [each.design.family for each in first] == ["a", "b"] and run.waves == [2]
    with resumed(run, tmp_path / "kept", graph) as kept:
        assert list(kept(tasks)) == first and run.waves == [2, 0]
        (never,) = kept([slow])
        assert isinstance(never, Evaluated) and never.sample_time == inf
        (again,) = kept([slow])
        assert again == never and run.waves == [2, 0, 1, 0]
        list(kept([replace(tasks[0], question=question(batch=8))]))
        list(kept([replace(tasks[0], question=question(Site(host_price=1.0)))]))
        assert run.waves[-2:] == [1, 1]
    with pytest.raises(ConfigError), resumed(run, tmp_path / "kept", replace(graph, name="another")):
        pass


def test_designs_are_ranked_by_dollars_and_not_by_joules(monkeypatch: pytest.MonkeyPatch) -> None:
    worths = {"a": worth(capital=1e6, watts=1.0), "b": worth(capital=1.0, watts=1e3), "c": worth(capital=1e5)}
    monkeypatch.setattr(
        "lightloom.planning.designs.explore.assess", lambda _, each: Bounded(design=each, worth=worths[each.family])
    )
    found = search([design(name) for name in "abc"], Solver(), prune=False)
    points = [each.point[0] for each in found.candidates]
    assert points == sorted(points, reverse=True) and names(found.candidates) == ["b", "c", "a"]


def test_a_plan_is_found_at_the_time_below_which_it_is_asked_for_and_not_below() -> None:
    made = design("a", fabric="switch")
    first = solve_task(Task(question=question(), design=made, below=inf))
    bound = solve_task(Task(question=question(), design=made))
    assert isinstance(first, Evaluated) and isinstance(bound, Bounded)
    assert 0 < bound.least_time <= first.sample_time < inf and bound.bounded and not bound.limit
    again = solve_task(Task(question=question(), design=made, below=first.sample_time))
    assert again == first
    less = solve_task(Task(question=question(), design=made, below=0.99 * first.sample_time))
    assert isinstance(less, Evaluated) and less.sample_time == inf and not less.why


def test_a_design_whose_memory_holds_no_plan_is_too_large() -> None:
    found = solve_task(Task(question=question(batch=10**8), design=design("a", fabric="switch")))
    assert isinstance(found, Bounded) and found.too_large and found.why and not found.bounded


def test_a_task_without_a_plan_comes_back_with_the_reason() -> None:
    odd = design("a", fabric="no such fabric")
    for below in (inf, 1.0):
        found = solve_task(Task(question=question(), design=odd, below=below))
        assert isinstance(found, Evaluated) and "no such fabric" in found.why and found.sample_time == inf
    bound = solve_task(Task(question=question(), design=odd))
    assert isinstance(bound, Bounded) and bound.why == found.why and not bound.bounded and not bound.too_large
