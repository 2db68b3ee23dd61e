"""What a search looks at, in which order, and what it ranks: on made-up rows, replayed from a plain list."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.group_prices import AUTO, GroupPrices
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search import search as searching
from lightloom.planning.search.plans import Counts, order
from lightloom.planning.search.request import KINDS, SearchRequest
from lightloom.planning.search.rows import Row, TooLargeError
from lightloom.planning.search.search import (
    _REFINED,
    COMPARED,
    NotFasterError,
    _batches,
    _distinct,
    _Search,
)
from tests.planner.jobs import transformer

PLACED = KINDS.index("placed")


def plan_of(choice: Strategy | PlacedChoice, time: float, fits: bool | None = True, **more: Any) -> Any:
    """A plan as far as a search looks at it."""
    named = {
        "algorithm": "ring",
        "strategy": "",
        "label": "",
        "algorithms": ("ring",),
        "in_step": None,
        "division": None,
    }
    given: dict[str, Any] = {"communication_time": 0.0, "gradient_exchange": None, "energy_per_sample": 0.0}
    given["runnable"] = isinstance(choice, Strategy)
    return SimpleNamespace(choice=choice, sample_time=time, fits=fits, **(named | given | more))


def choice_of(row: Row) -> Strategy | PlacedChoice:
    """One for each row."""
    if row.kind == PLACED:
        return PlacedChoice(row.number + 1, 1, 1e-6, 8, 1, 1.0)
    return Strategy(row.number + 1, row.kind + 1, 1, 1, 8, "none", "none", AUTO, 0)


FABRIC = SimpleNamespace(grid=None)


class Rows:
    """Rows with made-up bounds and times; some turn out to be impossible when they are refined or simulated."""

    cluster = SimpleNamespace(name="made up")
    compared: Any = None
    """Plans and refusals of algorithms that are compared, where a search asks for them."""
    by_equations = False

    def __init__(self, random: Random) -> None:
        self.looks: list[tuple[str, Row]] = []
        self.counts, self.refusals, self.too_large = Counts(rows=3), (), random.random() < 0.5
        self.bounds: dict[tuple[int, int], list[float | None]] = {}
        self.plans: dict[tuple[int, int], Any] = {}
        self.refined_as: Any = None
        few = random.random() < 0.4
        for kind in range(len(KINDS)):
            for number in range(random.choice((0, 0, 0, 1) if few else (0, 1, 3, 6, 40 if kind == PLACED else 6))):
                bounds: list[Any] = sorted(random.randrange(9) for _ in range(3 if kind == PLACED else 2))
                time = max(bounds) + random.randrange(4)
                if random.random() < 0.1:
                    bounds[random.randrange(1, len(bounds))] = None
                row = Row(float(bounds[0]), kind, number, 1)
                self.bounds[kind, number] = bounds
                possible, fits = random.random() < 0.9, random.choice((True, True, None, False))
                fits = False if few else fits
                self.plans[kind, number] = plan_of(choice_of(row), float(time), fits) if possible else None

    def first(self, _: object) -> list[Row]:
        return [Row(float(bounds[0] or 0), *key, 1) for key, bounds in self.bounds.items()]

    def refined(self, row: Row, others: object = (), at_once: int = 1) -> Row | None:
        self.looks.append(("refined", row))
        bound = self.bounds[row.kind, row.number][row.bounded]
        return None if bound is None else row._replace(per_sample=float(bound), bounded=row.bounded + 1)

    def simulated(self, row: Row) -> Any:
        self.looks.append(("simulated", row))
        return self.plans[row.kind, row.number]

    def undivided(self, row: Row) -> bool:
        return row.kind == PLACED and row.number % 4 == 3

    def of_one_quantum(self, rows: list[Row]) -> list[Row]:
        return rows

    def nothing(self, refused: object = ()) -> UnsupportedError:
        return TooLargeError(f"nothing, {refused}")

    def refine_winner(self, plan: Any) -> Any:
        if self.refined_as is None:
            return plan
        choice = self.refined_as if plan.runnable else PlacedChoice(99, 1, 1e-6, 8, 1, 1.0)
        return plan_of(choice, plan.sample_time, plan.fits, algorithm="")


def search_of(rows: Rows, advance: Any, compared: tuple[list[Any], list[Any]], **asked: Any) -> Any:
    """A search over such rows."""
    of: Any = object.__new__(_Search)
    of._rows, of._request, of._advance = rows, SearchRequest(**asked), advance
    rows.compared = compared
    of._best, of._refined, of._found = inf, 0, []
    return of


class Replay:
    """The same search, from a list whose least row is looked for every time; placed rows come after all others."""

    def __init__(self, rows: Rows, best: float) -> None:
        self.rows, self.best, self.refined = rows, best, 0
        self.looks: list[tuple[str, Row]] = []
        self.found: list[tuple[Any, Row]] = []

    def play(self, pending: list[Row], stop: Any) -> None:
        while pending and not stop(min(pending)):
            row = min(pending)
            pending.remove(row)
            bounds = self.rows.bounds[row.kind, row.number]
            if row.bounded < len(bounds):
                self.looks.append(("refined", row))
                self.refined += row.kind == PLACED
                if (bound := bounds[row.bounded]) is not None:
                    pending.append(Row(float(bound), row.kind, row.number, row.bounded + 1))
                continue
            self.looks.append(("simulated", row))
            if (plan := self.rows.plans[row.kind, row.number]) is not None:
                self.found.append((plan, row))
                self.best = self.best if plan.fits is False else min(self.best, plan.sample_time)

    def run(self, pending: list[Row], prune: bool) -> None:
        parts = [[row for row in pending if (row.kind == PLACED) is placed] for placed in (False, True)]
        for part in parts:
            self.play(part, lambda row: prune and row.per_sample >= self.best)
        pending = [row for part in parts for row in part]
        found = {row.kind for _, row in self.found}
        for kind in sorted({row.kind for row in pending} - found):
            self.refined = 0
            self.play([row for row in pending if row.kind == kind], self.known)
        if not any(self.rows.undivided(row) for _, row in self.found):
            self.play(sorted(row for row in pending if self.rows.undivided(row))[:1], lambda _: False)

    def known(self, row: Row) -> bool:
        times = [plan.sample_time for plan, found in self.found if found.kind == row.kind]
        enough = len(times) >= COMPARED or self.refined >= _REFINED
        return bool(times) and (enough or row.per_sample >= min(times))


@pytest.mark.parametrize("prune", [True, False])
def test_rows_are_simulated_in_the_order_of_their_bounds_until_none_can_win(
    prune: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, refused, soon, ranked, stays = Random(4), 0, 0, 0, 0
    verified: list[Any] = []
    monkeypatch.setattr(searching, "verify_winner", verified.append)
    monkeypatch.setattr(searching, "compared_plans", lambda rows, *_: rows.compared)
    for _ in range(250):
        rows = Rows(random)
        told: list[None] = []
        alone = [
            plan_of(
                Strategy(1, 9, 1, 1, 8, "none", "none", str(number), 0), random.randrange(12), random.random() < 0.6
            )
            for number in range(random.choice((0, 0, 1, 3)))
        ]
        compare, must_fit = random.random() < 0.5, random.random() < 0.5
        rows.refined_as = random.choice((None, choice_of(Row(0.0, 0, 99, 1))))
        asked = {"prune": prune, "compare": compare, "must_fit": must_fit}
        of = search_of(rows, lambda told=told: told.append(None), (alone, ["why", "why"] if alone else []), **asked)
        alone, why = (alone, ["why"] if alone else []) if compare else ([], [])
        fit = [plan.sample_time for plan in alone if plan.fits]
        replay = Replay(rows, min(fit, default=inf))
        early = compare and not rows.bounds and must_fit and rows.too_large
        if not early:
            replay.run(rows.first(()), prune)
        plans = sorted([*alone, *(plan for plan, _ in replay.found)], key=order)
        if early or not plans or (must_fit and plans[0].fits is False):
            with pytest.raises(TooLargeError, match=r"nothing, \(\)" if early else f"nothing, \\{why}"):
                of.run(())
            refused, soon = refused + 1, soon + early
            assert rows.looks == replay.looks
            continue
        ranking, without, counts, _ = of.run(())
        assert rows.looks == replay.looks and len(told) == len(rows.looks)
        assert verified[-1] is ranking[0]
        refined = [plans[0], min(plans, key=lambda plan: (plan.fits is False, plan.sample_time))]
        refined = [plan for plan in refined if plan.fits is not False and rows.refined_as is not None]
        assert (ranking[0] is plans[0]) != bool(refined) and ranking[0].sample_time == plans[0].sample_time
        # A runnable plan with other schedules stands beside itself, a placed one that is placed again in its own place.
        kept = bool(refined) and plans[0].runnable
        made = [plan for plan in ranking if all(plan is not each for each in plans)]
        assert sorted(plan.sample_time for plan in made) == sorted({id(p): p.sample_time for p in refined}.values())
        rest = [plan for plan in plans if plan.runnable or all(plan is not each for each in refined)]
        assert [plan for plan in ranking if plan not in made] == rest and ranking == sorted(ranking, key=order)
        assert counts == Counts(rows=3 + len(alone) + len(why), refused=len(why), simulated=len(ranking))
        assert without == why
        possible = {
            kind: [
                plan.sample_time
                for key, plan in rows.plans.items()
                if plan is not None and plan.runnable is kind
                if plan.fits is not False and None not in rows.bounds[key]
            ]
            for kind in (True, False)
        }
        runnable = [*fit, *possible[True]]
        fitting = [plan for plan in plans if plan.fits is not False]
        assert not fitting or fitting[0].sample_time == min(runnable or possible[False])
        assert not fitting or min(plan.sample_time for plan in fitting) == min([*runnable, *possible[False]])
        ranked, stays = ranked + 1, stays + kept
    assert min(refused, ranked, stays) > 5 and soon > 1


@pytest.mark.parametrize(("placed", "refined", "simulated"), [(200, 45, 43), (30, 45, 15), (20, 40, 0)])
def test_of_placed_rows_refined_in_vain_one_is_simulated(
    placed: int, refined: int, simulated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where divisions are compared and no plan is placed: 12 bounds while one might win, 32 for comparison, and those
    that the row of the least bound lacks then. Of 200 rows, 44 have a second bound by then, all above all first ones
    and the least the last; of 30 all have one, and 14 the third."""
    monkeypatch.setattr(searching, "verify_winner", lambda plan: None)
    rows: Any = Rows(Random(0))
    rows.job = SimpleNamespace(fabric=SimpleNamespace(exclusive=False, library=True))
    rows.cluster = SimpleNamespace(name="made up", ranks=8)
    rows.undivided = lambda row: row.number == 0
    rows.bounds = {(0, 0): [1.0, 1.0]} | {
        (PLACED, number): [2.0 + number / 1000, 9.0 - number / 1000, 10.0] for number in range(placed)
    }
    rows.plans = {
        (kind, number): plan_of(choice_of(Row(0.0, kind, number, 1)), 11.0 if kind == PLACED else 3.0)
        for kind, number in rows.bounds
    }
    search_of(rows, lambda: None, ([], []), divisions=3, compare=False).run(())
    looks = [(what, row.number) for what, row in rows.looks if row.kind == PLACED]
    assert sum(what == "refined" for what, _ in looks) == refined
    assert [number for what, number in looks if what == "simulated"] == [simulated]


def test_the_fastest_plan_is_that_of_all_rows_if_it_is_fast_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    random, outcomes = Random(5), []
    verified: list[Any] = []
    monkeypatch.setattr(searching, "verify_winner", verified.append)
    for _ in range(150):
        rows, below = Rows(random), random.choice((0.0, 3.0, 6.0, inf))
        of = search_of(rows, lambda: None, ([], []))
        of._best = below
        pending = rows.first(())
        pending = [row for row in pending if row.kind != PLACED] or pending
        there, replay = bool(pending), Replay(rows, below)
        replay.play(pending, lambda row, replay=replay: row.per_sample >= replay.best)
        plans = sorted((plan for plan, _ in replay.found), key=order)
        if plans and plans[0].fits is not False and plans[0].sample_time <= below:
            assert of.fastest(()) is plans[0] is verified[-1]
            outcomes.append("found")
        elif not there or (not plans and not pending):
            with pytest.raises(TooLargeError, match="nothing"):
                of.fastest(())
            outcomes.append("nothing")
        else:
            with pytest.raises(NotFasterError, match=r"made up: every plan takes more than"):
                of.fastest(())
            outcomes.append("slower")
        assert rows.looks == replay.looks
    assert all(outcomes.count(each) > 5 for each in ("found", "nothing", "slower"))


def test_a_step_whose_circuits_follow_it_is_proved_on_its_timeline() -> None:
    """Of the winner alone, where it has such circuits."""

    class Timed(SimpleNamespace):
        played = 0

        @property
        def timeline(self) -> None:
            Timed.played += 1

    for in_step in (None, "circuits"):
        rows, row = Rows(Random(0)), Row(0.0, 2, 0, 1)
        rows.bounds, Timed.played = {(2, 0): [0.0, 1.0]}, 0
        rows.plans = {(2, 0): Timed(**vars(plan_of(choice_of(row), 1.0, in_step=in_step)))}
        search_of(rows, lambda: None, ([], []), compare=False).run(())
        assert Timed.played == (in_step is not None)


def test_batches_are_powers_of_two_for_each_rank_of_the_largest_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters: Any = [SimpleNamespace(ranks=ranks, fabric=FABRIC) for ranks in (4, 6, 2)]
    graph: Any = None
    monkeypatch.setattr(searching, "default_batch", lambda *_: None)
    assert _batches(graph, clusters, SearchRequest(global_batches=[9, 3, 9])) == [(9, 3)]
    assert _batches(graph, clusters, SearchRequest()) == [(6 * samples,) for samples in (32, 16, 8, 4, 2, 1)]
    powers = tuple(6 * 2**power for power in range(11))
    assert _batches(graph, clusters, SearchRequest(largest_batches=True)) == [powers] and powers[-1] == 6 * 1024
    monkeypatch.setattr(searching, "default_batch", lambda _, ranks: SimpleNamespace(samples=8 * ranks))
    assert _batches(graph, clusters, SearchRequest()) == [(6 * samples,) for samples in (8, 4, 2, 1)]


def test_each_strategy_is_ranked_once_with_the_same_algorithms() -> None:
    """Compared plans stay, but for one of several without exchanges; so does what chose its algorithms by itself,
    unless it chose what is ranked already."""
    one, two = (Strategy(dp, 1, 1, 1, 8, "none", "none", "ring", 0) for dp in (1, 2))
    compared = [
        plan_of(one, 1.0),
        plan_of(one, 1.0),
        plan_of(two, 1.0, algorithms=()),
        plan_of(two, 1.0, algorithms=()),
    ]
    auto, other = one._replace(algorithm=AUTO), two._replace(algorithm=AUTO)
    placed = PlacedChoice(1, 1, 1e-6, 8, 1, 1.0)
    found = [
        plan_of(auto, 1.0),
        plan_of(auto, 1.0, algorithms=("ring", "tree")),
        plan_of(auto, 1.0, algorithms=("ring", "tree")),
        plan_of(other, 1.0, algorithms=()),
        plan_of(one, 1.0),
        plan_of(placed, 1.0),
        plan_of(placed, 1.0),
    ]
    kept = [*compared[:3], found[1], *found[4:]]
    assert [id(plan) for plan in _distinct(found, compared)] == [id(plan) for plan in kept]


def test_compared_plans_have_their_largest_batch_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or their largest one, where none fits."""
    monkeypatch.setattr(searching, "compared_plans", lambda rows, *_: rows.compared)
    random = Random(6)
    for _ in range(20):
        base = Strategy(1, 1, 1, 1, 1, "none", "none", "ring", 0)
        kinds = [
            ("ddp", base),
            ("fsdp", base),
            ("ddp", base._replace(algorithm="tree")),
            ("ddp", base._replace(exchange=1)),
        ]
        plans = [
            plan_of(
                choice, 1.0, random.choice((True, None, False)), strategy=kind, global_batch=batch, key=(kind, choice)
            )
            for kind, choice in kinds
            for batch in (4, 8, 16)
        ]
        random.shuffle(plans)
        of = search_of(Rows(random), lambda: None, (plans, ["why", "why"]), largest_batches=True)
        found, refused = of._compared_algorithms((), [Row(0.0, 0, 0, 1)])
        assert refused == ["why"] and {plan.key for plan in found} == set(kinds) and len(found) == len(kinds)
        for plan in found:
            same = [each for each in plans if each.key == plan.key]
            fitting = [each for each in same if each.fits is not False] or same
            assert plan is max(fitting, key=lambda each: each.global_batch)


def test_clusters_are_searched_apart_and_fail_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller batches are tried where one of them has too little memory, which more would give no plan otherwise."""
    clusters: Any = tuple(SimpleNamespace(ranks=4, name=name, accelerator=None) for name in ("one", "other"))
    answers: dict[str, Exception] = {}
    tried: list[Any] = []

    class Failing:
        def __init__(self, rows: Any, *_: object) -> None:
            self.name = rows.cluster.name

        def run(self, batches: tuple[int, ...]) -> None:
            tried.append((self.name, batches))
            raise answers[self.name]

    monkeypatch.setattr(searching, "_Search", Failing)
    monkeypatch.setattr(searching, "ClusterRows", lambda _, cluster, *__: SimpleNamespace(cluster=cluster))
    monkeypatch.setattr(searching, "GroupPrices", lambda *_: None)
    monkeypatch.setattr(searching, "default_batch", lambda *_: None)
    for cluster in clusters:
        cluster.fabric, cluster.training = FABRIC, None
    graph: Any = None
    answers |= {"one": UnsupportedError("no circuits"), "other": TooLargeError("no room")}
    with pytest.raises(TooLargeError, match=r"^no circuits; no room$"):
        searching.search(graph, clusters)
    assert tried == [(name, (4 * samples,)) for samples in (32, 16, 8, 4, 2, 1) for name in ("one", "other")]
    answers["other"] = UnsupportedError("no circuits")
    tried.clear()
    with pytest.raises(UnsupportedError, match=r"^no circuits$") as refused:
        searching.search(graph, clusters)
    assert not isinstance(refused.value, TooLargeError) and len(tried) == 2
    answers["one"] = TooLargeError("no room")
    tried.clear()
    with pytest.raises(TooLargeError):
        searching.search(graph, clusters, SearchRequest(global_batches=[8]))
    assert len(tried) == 2


def test_the_fastest_plan_is_asked_for_at_one_batch() -> None:
    anything: Any = None
    for batches in (None, (8, 16)):
        with pytest.raises(ConfigError, match="expected one"):
            searching.fastest(
                anything, anything, replace(SearchRequest(), global_batches=batches), 1.0, prices=anything
            )


def test_the_electrical_reference_is_simulated_at_one_batch_of_the_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    on, asked, saved = load_cluster("terarack-64", set={"ranks": 4}), [], []
    slow, fast = (plan_of(Strategy(4, 1, 1, 1, 8, "none", "none", "ring", 0), time) for time in (2.0, 1.0))

    def recorded(rows: Any, batches: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
        asked.append((rows.cluster, rows.request, batches, rows.job.fabric, rows.prices.fabric))
        return [slow, fast], []

    monkeypatch.setattr(searching, "compared_plans", recorded)
    monkeypatch.setattr(GroupPrices, "save", lambda self: saved.append(self.fabric))
    request, graph = SearchRequest(algorithms=("ring",)), transformer(1)
    assert searching._reference(graph, (on,), request, 8) == (fast, slow)
    reference = on.reference
    assert reference is not None and reference != on.fabric
    expected = replace(on, fabric=reference, reference=None), replace(request, algorithms=()), (8,)
    assert asked == [(*expected, reference, reference)] and saved == [reference]
    without = replace(on, reference=None)
    kinds = replace(request, strategies=("tensor-pipeline", "placed"))
    for clusters, other in (
        ((on, on), request),
        ((without,), request),
        ((on,), replace(request, compare=False)),
        ((on,), kinds),
    ):
        assert searching._reference(graph, clusters, other, 8) == ()
    assert len(asked) == 1


def test_given_prices_are_those_of_every_plan_and_are_kept() -> None:
    on = load_cluster("terarack-64", set={"ranks": 2})
    prices: Any = GroupPrices(on.fabric, on.training, choices=("ring",))
    request = SearchRequest(global_batches=(4,), strategies=("ddp",), algorithms=("ring",), compare=False)
    saved: list[None] = []
    prices.save = lambda: saved.append(None)
    found = searching.search(transformer(1), on, request, prices=prices)
    assert {id(plan.job.pricing) for plan in found.ranking} == {id(prices)} and len(saved) == 1
    fastest = searching.fastest(transformer(1), on, request, inf, prices=prices)
    assert id(fastest.job.pricing) == id(prices) and len(saved) == 2
    assert fastest.sample_time == found.winner.sample_time
    with pytest.raises(NotFasterError):
        searching.fastest(transformer(1), on, request, 0.99 * found.winner.sample_time, prices=prices)


@pytest.mark.parametrize("name", ["dgx-h100-64", "terarack-64", "inceptionn-4"])
def test_a_free_network_keeps_the_ranks_of_a_node(name: str) -> None:
    """What hybrid sharding holds depends on them, so that the bound would miss plans without."""
    on = load_cluster(name)
    free = searching.free_rows(transformer(2), on, SearchRequest(global_batches=(on.ranks,)), splits_neurons=False)
    assert free.cluster.fabric.node_ranks == on.fabric.node_ranks and free.cluster.ranks == on.ranks
