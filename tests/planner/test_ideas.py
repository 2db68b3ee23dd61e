"""The five ideas together: values of sets, exact Shapley values, and plans that pinned questions find again."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lightloom as ll
from lightloom.app.api.composing import _SHOWN, Composition, compose
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.economics.ledger import ClusterLedger, Site
from lightloom.planning.ideas import ALL, IDEAS, NONE, Equal, equal_networks, networks, shapley, subsets
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.search.answer import three_digits
from lightloom.planning.search.plans import Plan
from lightloom.planning.search.search import search

TIMES = st.lists(st.floats(0.1, 10.0), min_size=32, max_size=32)


@given(TIMES)
def test_shapley_values_are_means_over_all_orders_and_add_up(drawn: list[float]) -> None:
    times = dict(zip(subsets(), drawn, strict=True))
    values = shapley(times)
    assert sum(values.values()) == pytest.approx(times[NONE] - times[ALL], abs=1e-9)
    orders = list(permutations(IDEAS))
    for idea in IDEAS:
        before = [frozenset(order[: order.index(idea)]) for order in orders]
        mean = sum(times[ideas] - times[ideas | {idea}] for ideas in before) / len(orders)
        assert values[idea] == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize(("ranks", "bandwidth"), [(16, 50e9), (64, 12.5e9), (64, 1e9)])
def test_networks_give_every_rank_the_same_bandwidth(ranks: int, bandwidth: float) -> None:
    for network in networks(ranks, bandwidth):
        receives = network.fabric.total_receive_bandwidth() / ranks
        # Ranks on the edges of a mesh have fewer links; a mesh of 2 x 4 has 20 of 32.
        missing = {"optical mesh": ranks**-0.5, "meshes with averagers": 12 / 32 / 2}.get(network.name, 0.0)
        assert receives == pytest.approx(bandwidth * (1 - missing), rel=1e-6), network.name


@pytest.mark.long
@pytest.mark.parametrize("equal", ["power", "dollars"])
def test_equal_networks_cost_what_the_ring_costs_and_say_what_has_no_figure(equal: Equal) -> None:
    """Each has the most bandwidth for that; the ring of which it is asked keeps its own."""
    found, refused = equal_networks(16, 50e9, equal, Site())
    assert refused and all(f"no {equal} of" in why or f"more {equal} at any" in why for why in refused.values())

    def spent(fabric: Fabric) -> float:
        ledger = ClusterLedger.of_fabric(fabric)
        total = ledger.static_power if equal == "power" else ledger.dollars
        assert not total.missing and total.value is not None
        return total.value

    ring = spent(networks(16, 50e9)[0].fabric)
    for network in found:
        bandwidth = network.fabric.total_receive_bandwidth() / 16
        place = [each.name for each in networks(16, 50e9)].index(network.name)
        assert spent(network.fabric) <= ring
        more = networks(16, 1.01 * bandwidth)[place].fabric
        total = ClusterLedger.of_fabric(more)
        known = total.static_power if equal == "power" else total.dollars
        dearer = bool(known.missing) or (known.value or 0.0) > ring
        assert bandwidth > 200 * 50e9 or network.name in ("electrical ring", "optical mesh") or dearer, network.name


@pytest.fixture(scope="module", params=[(4, 100), (16, 64)], ids=["4 ranks", "16 ranks"])
def small(request: pytest.FixtureRequest) -> Composition:
    ranks, batch = request.param
    return compose("hdc", ranks=ranks, accelerator="titan-xp", bandwidth="10Gbps", global_batch=batch)


@pytest.mark.long
def test_more_ideas_are_never_slower_and_equal_the_best_of_all_pinned_plans(small: Composition) -> None:
    composed = small.composed
    values = composed.values
    times: dict[frozenset[str], float] = {}
    for best in composed.found:
        every = replace(best.request, prune=False, compare=True)
        for plan in search(composed.graph, best.plan.cluster, every).ranking:
            network = best.ideas - {"compression"}
            coded = plan.gradient_exchange is not None and "averaging" not in network
            ideas = network | ({"compression"} if coded else NONE)
            times[ideas] = min(times.get(ideas, float("inf")), plan.sample_time)
    for ideas, best in values.items():
        assert best.time == min(time for used, time in times.items() if used <= ideas)
        assert all(values[fewer].time >= best.time for fewer in values if fewer <= ideas)


@pytest.mark.long
def test_rows_are_the_plans_that_the_planner_finds_on_their_clusters(small: Composition) -> None:
    for row, document in zip(small.plans, small.rows(), strict=True):
        request = row.best.request
        found = search(small.composed.graph, row.best.plan.cluster, replace(request, divisions=8)).ranking
        assert document["iteration_time_s"] in [plan.step_time for plan in found]
        fastest = min(plan.step_time for plan in found if plan.fits is not False)
        assert document["iteration_time_s"] == pytest.approx(fastest, rel=1e-12)
        if not request.exchanges and request.strategies != ("placed",):
            same = ll.plan(
                "hdc",
                row.best.plan.cluster,
                global_batch=row.best.plan.global_batch,
                every_algorithm=False,
                strategy=request.strategies,
                algorithm=request.algorithms or "all",
            )
            assert same.winner.step_time == document["iteration_time_s"]


@pytest.mark.long
def test_sets_that_cannot_be_are_named_and_have_no_plan(small: Composition) -> None:
    impossible = small.composed.impossible()
    assert all(len(ideas) == 2 and why for ideas, why in impossible.items())
    assert frozenset({"averaging", "compression"}) in impossible and frozenset({"placement", "mesh"}) in impossible
    assert not any(ideas <= best.ideas for ideas in impossible for best in small.composed.found)


@pytest.mark.long
def test_networks_are_told_by_their_accelerator_alone(small: Composition) -> None:
    """All rows have the same accelerator and training, and software that costs nothing."""
    assert {row.best.plan.cluster.accelerator.name for row in small.plans} == {"titan-xp"}
    assert {row.best.plan.cluster.training.precision for row in small.plans} == {"fp32"}
    assert all(row.best.plan.cluster.fabric.library is None for row in small.plans)


@pytest.mark.long
def test_the_answer_tells_each_row_its_gain_and_what_each_idea_is_worth(small: Composition) -> None:
    rows, shown, answer = small.rows(), small.display_rows(), small.answer()
    assert [row["name"] for row in rows] == [row.name for row in small.plans]
    assert [each["idea"] for each in shown[: len(rows)]] == [row["name"] for row in rows]
    for row, text, plan in zip(rows, shown[: len(rows)], small.plans, strict=True):
        assert row["ratio_to_bound"] >= 1 - 1e-9
        assert float(text["vs bound"]) == pytest.approx(row["ratio_to_bound"], rel=5e-3)
        dollars = plan.best.plan.ledger.dollars.value
        assert dollars is not None
        assert row["dollars_per_million_samples"] == 1e6 * dollars / plan.best.plan.global_batch
        known = text["$ a million"].removeprefix("≥ ")
        assert float(known) == pytest.approx(row["dollars_per_million_samples"], rel=5e-3)
        assert text["$ a million"].startswith("≥ ") == bool(row["dollars_missing"])
        assert text["J a sample"].startswith("≥ ") == bool(row["joules_missing"])
        assert text["step"] == three_digits(row["iteration_time_s"])
        share = (row["exposed_communication_s"] + row["exposed_reconfiguration_s"]) / row["iteration_time_s"]
        assert float(text["waits"].removesuffix(" %")) == pytest.approx(100 * share, abs=0.51)
        assert float(text["sets circuits"].replace(",", "")) == pytest.approx(row["reconfigurations"], rel=5e-3)
        joules = plan.best.plan.ledger.metered.value
        assert joules is not None and row["joules_per_sample"] == joules / plan.best.plan.global_batch
        assert text["gain"] == str(plan.gain) and (text[""] == "=") == (not plan.gain.known)
        baseline = small.composed.baseline.time
        assert plan.gain.share == pytest.approx(1 - plan.best.time / baseline)
    assert all(set(text.values()) - {" ", text["idea"]} == {"–"} for text in shown[len(rows) :])
    assert sorted(text["idea"] for text in shown) == sorted([*_SHOWN, "best of all"])
    assert [row["idea"] for row in answer.rows] == [
        text["idea"] for text in shown[: len(rows)] if text["idea"] != "best of all"
    ]
    less = re.fullmatch(r".+, (.+) % less than the best electrical plan", answer.best[1])
    assert (float(less[1]) if less else 0.0) == pytest.approx(100 * small.plans[-1].gain.share, abs=0.051)
    worth = {line.split(" alone ")[0] for line in answer.what_if}
    assert worth == {idea for idea, gains in small.gains().items() if {str(gain) for gain in gains} != {"0 %"}}
    assert answer.rests.startswith("ideal software everywhere, and INCEPTIONN's least printed ratio")
    assert ("no spread of a price is known" in answer.rests) == all(not row.gain.half_width for row in small.plans)
    # Waiting for the network and for circuits are told apart, as in a plan's own breakdown.
    parts = {"compute_s": 1.0, "exposed_communication_s": 2.0, "exposed_reconfiguration_s": 3.0, "idle_s": 0.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "breakdown", property(lambda plan: parts))
        exposed = {(row["exposed_communication_s"], row["exposed_reconfiguration_s"]) for row in small.rows()}
    assert exposed == {(2.0, 3.0)}
    left = replace(small, left_out=("torus", "mesh")).answer()
    assert left.rests == f"{answer.rests}; left out (--report says why): torus, mesh"


@pytest.mark.long
def test_bytes_and_settings_of_circuits_are_those_of_replicas_that_exchange_all_gradients(small: Composition) -> None:
    """Of data parallelism without a codec: gradients of float32 around, once each where light adds them up."""
    seen = set[str]()
    for best in small.composed.found:
        plan, (sent, changes) = best.plan, best.plan.sent_and_set
        assert 0 <= sent < math.inf and changes >= 0
        assert plan.cluster.fabric.setup_time > 0 or plan.cluster.fabric.parts or changes == 0
        choice = plan.choice
        if not isinstance(choice, Strategy) or not choice.plain or choice.sharding != "none":
            continue
        values = plan.job.graph.parameters
        ranks = plan.cluster.ranks
        gradients, ways = values * plan.cluster.training.gradient_bytes, 2 * (ranks - 1) / ranks
        method = "" if plan.gradient_exchange is None else plan.gradient_exchange.name.partition(":")[0]
        if method == "":
            assert sent == pytest.approx(ways * gradients)
        elif method == "optical":
            # Codes of 16 bits and a byte of exponent a block of 256, each once.
            assert sent == pytest.approx(2 * values + values / 256, rel=1e-3)
        else:
            assert sent < ways * gradients
        seen.add(method)
    assert {"optical", "inceptionn"} <= seen
