"""The answer on one screen: which rows it has, and how it says what takes the time and where clusters differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.machines.fabrics.grids import Mesh
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.search import answer as module
from lightloom.planning.search.answer import (
    DivisionRow,
    _percent,
    _size,
    division_rows,
    narrowest,
    plan_answer,
    three_digits,
    versus,
    waits,
)
from lightloom.planning.search.plans import Interval
from tests.planner.jobs import transformer

NAMES = ("compute_s", "exposed_communication_s", "exposed_reconfiguration_s", "idle_s")


def cluster(name: str = "here", **facts: Any) -> Any:
    chip = SimpleNamespace(chip=facts.pop("chip", "v1"), memory=facts.pop("memory", 80 * 2.0**30))
    width = facts.pop("width", 1e9)
    fabric = SimpleNamespace(
        library=facts.pop("library", None),
        kind_name=facts.pop("kind", "torus"),
        arithmetic_share=facts.pop("share", 0.0),
        cuts=lambda: [SimpleNamespace(capacity=8 * width, ranks=8)],
    )
    training = SimpleNamespace(precision="bf16")
    return SimpleNamespace(name=name, accelerator=chip, fabric=fabric, training=training, **{"ranks": 8} | facts)


HERE = cluster()


def plan(step: float = 1.0, *parts: float, dp: int = 8, batch: int = 64, **facts: Any) -> Any:
    """A plan of data, tensor and pipeline parallelism that takes so many seconds a step."""
    strategy = Strategy(dp, 8 // dp, 1, facts.pop("micro_batches", 1), batch, "none", "none", "ring", 0)
    spent = dict(zip(NAMES, (*parts, *[0.0] * (4 - len(parts))), strict=True)) if parts else dict.fromkeys(NAMES, 0.0)
    known = {
        "choice": strategy,
        "step_time": step,
        "sample_time": step / batch,
        "samples_per_second": batch / step if step else float("inf"),
        "global_batch": batch,
        "breakdown": spent,
        "cluster": HERE,
        "fits": True,
        "runnable": True,
        "gradient_exchange": None,
        "memory": 40 * 2.0**30,
        "algorithms": ("ring",),
    }
    found = SimpleNamespace(**known | facts)
    found.site = f"{found.cluster.name}, {found.cluster.ranks} ranks"
    return found


def searched(*ranking: Any, winner: int = 0, **facts: Any) -> Any:
    known = {
        "ranking": ranking,
        "winner": ranking[winner],
        "clusters": [HERE],
        "graph": transformer(1),
        "sequence_length": None,
        "request": SimpleNamespace(largest_batches=False, global_batches=(64,)),
        "utilization": lambda _: 0.42,
    }
    return SimpleNamespace(**known | facts)


@pytest.fixture(autouse=True)
def spreads(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Intervals and influences, by which nothing is computed here."""
    told: dict[str, Any] = {"intervals": {}, "influences": {}}
    monkeypatch.setattr(module, "plan_intervals", lambda *_: told["intervals"])
    monkeypatch.setattr(module, "influences", lambda _: told["influences"])
    return told


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (4.9e-4, "0 %"), (5e-4, "0.05 %"), (0.0044, "0.4 %"), (0.042, "4 %"), (0.0949, "9 %"),
     (0.095, "10 %"), (0.1249, "12 %"), (1.234, "123 %")],
)  # fmt: skip
def test_shares_have_one_digit_below_ten_per_cent(share: float, text: str) -> None:
    assert _percent(share) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (0.5, "0.5 B"), (1, "1 B"), (9.94, "9.9 B"), (10.4, "10 B"), (1023, "1023 B"), (1024, "1 KiB"),
     (9.96 * 1024, "10 KiB"), (10.4 * 1024, "10 KiB"), (2.34 * 2**30, "2.3 GiB"), (79.6 * 2**30, "80 GiB")],
)  # fmt: skip
def test_sizes_have_one_decimal_below_ten_of_their_unit(nbytes: float, text: str) -> None:
    assert _size(nbytes) == text


def test_durations_have_three_digits() -> None:
    assert [three_digits(seconds) for seconds in (1.23456, 0.0123456, 123.4)] == ["1.23 s", "12.3 ms", "123 s"]


def test_a_step_waits_for_the_network_and_for_circuits() -> None:
    assert waits(plan(2.0, 1.0, 0.5, 0.25, 0.25)) == 0.375
    assert waits(plan(0.0)) == 0.0


@pytest.mark.parametrize(("place", "holds", "close"), [(2, 0.89, True), (2, 0.9, False), (1, 0.5, False)])
def test_a_row_is_too_close_to_the_first_where_its_order_may_not_hold(place: int, holds: float, close: bool) -> None:
    assert DivisionRow(place, plan(), Interval(0.9, 1.1, False, holds)).too_close is close
    assert DivisionRow(place, plan(), None).too_close is False


def test_rows_are_the_best_that_fits_of_each_division_cluster_and_method(spreads: dict[str, Any]) -> None:
    method, there = SimpleNamespace(name="m", label="method m"), cluster("there")
    plans = [
        plan(1.0, fits=False),
        plan(2.0),
        plan(3.0),
        plan(4.0, dp=4),
        plan(5.0, gradient_exchange=method),
        plan(6.0, gradient_exchange=method),
        plan(7.0, cluster=there),
        plan(8.0, dp=2, fits=None),
    ]
    spreads["intervals"] = {id(plans[3]): Interval(1.0, 2.0, True, 1.0)}
    rows = division_rows(searched(*plans, winner=1))
    assert [row.place for row in rows] == [2, 4, 5, 7, 8]
    assert [row.plan for row in rows] == [plans[place - 1] for place in (2, 4, 5, 7, 8)]
    assert [row.interval is not None for row in rows] == [False, True, False, False, False]
    assert [row.place for row in division_rows(searched(*plans), most=None)] == [*range(1, 9)]
    # A winner that does not fit has its row.
    assert [row.place for row in division_rows(searched(*plans))][:2] == [1, 4]


def test_the_best_placed_plan_and_the_best_of_plain_gradients_are_always_shown() -> None:
    method = SimpleNamespace(name="m", label="method m")
    plans = [plan(1.0 + n, dp=dp, gradient_exchange=method) for n, dp in enumerate((8, 4, 2, 1))]
    plain = [plan(5.0, dp=8), plan(6.0, dp=4)]
    placed = [plan(7.0, dp=2, runnable=False), plan(8.0, dp=1, runnable=False)]
    ranking = [*plans, *plain, *placed]
    for most, places in (
        (3, [1, 5, 7]),
        (4, [1, 2, 5, 7]),
        (5, [1, 2, 3, 5, 7]),
        (6, [1, 2, 3, 4, 5, 7]),
        (8, [*range(1, 9)]),
    ):
        assert [row.place for row in division_rows(searched(*ranking), most=most)] == places


def told(search: Any, *, limit: float = 0.5, everything: bool = False, what_ifs: Any = ()) -> Any:
    return plan_answer(search, what_ifs, limit, 7, everything=everything)


def test_the_best_plan_is_told_in_three_lines(spreads: dict[str, Any]) -> None:
    best = plan(2.0, 1.0, 0.5, 0.3, 0.2)
    first, second, third = told(searched(best)).best
    assert first == "data 8, replicated"
    assert second == "2 s, 42 % MFU, 40 GiB of 80 GiB; 32 samples/s"
    assert third == "40 % of the step waits for the network; exchanges by ring"
    spreads["intervals"] = {id(best): Interval(1.8, 2.2, True, 1.0)}
    method = SimpleNamespace(name="m", label="method m")
    best.gradient_exchange, best.fits, best.algorithms = method, False, ()
    best.cluster = cluster(memory=None)
    first, second, third = told(searched(best, sequence_length=16)).best
    assert first == "data 8, replicated, gradients as method m, which does not fit"
    assert second == "2 s ±10 %, 42 % MFU, 40 GiB; 64 tokens/s an accelerator"
    assert third == "40 % of the step waits for the network"
    best.algorithms = ("library", "ring")
    assert told(searched(best)).best[2].endswith("; exchanges by the collective library")
    best.algorithms = ("ring", "one-stage")
    assert told(searched(best)).best[2].endswith("; exchanges by ring")


def test_a_faster_plan_that_nothing_runs_is_told_with_the_best() -> None:
    best, placed = plan(2.0), plan(1.5, runnable=False)
    last = told(searched(best, placed)).best[2]
    assert last.endswith("; placing single operators takes 25 % less, which no framework runs")
    for others in ([plan(2.0, runnable=False)], [plan(1.5, runnable=False, fits=False)], [plan(1.5)]):
        assert "placing" not in told(searched(best, *others)).best[2]
    assert "placing" not in told(searched(plan(2.0, runnable=False), placed)).best[2]


def test_columns_are_those_in_which_rows_differ() -> None:
    def names(*plans: Any) -> list[str]:
        return list(told(searched(*plans)).rows[0])

    common = ["", "plan", "step", "MFU", "memory", "waits"]
    assert names(plan(), plan(2.0, dp=4)) == common
    assert names(plan(), plan(2.0, cluster=cluster("there"))) == [*common[:2], "cluster", *common[2:]]
    assert names(plan(), plan(2.0, dp=4, batch=32)) == [*common[:2], "samples", *common[2:]]
    assert names(plan(), plan(2.0, dp=4, micro_batches=2)) == [*common[:2], "batches", *common[2:]]
    row = told(searched(plan(micro_batches=3), plan(2.0, cluster=cluster("there", ranks=1024), batch=2048))).rows[1]
    assert row == {
        "": " ", "plan": "data 8, replicated", "cluster": "there, 1,024", "samples": "2,048", "batches": "1",
        "step": "2 s", "MFU": "42 %", "memory": "40 GiB", "waits": "0 %",
    }  # fmt: skip
    method = SimpleNamespace(name="m", label="method m")
    assert told(searched(plan(gradient_exchange=method))).rows[0]["plan"] == "data 8, replicated, method m"
    none = SimpleNamespace(name="none", operators=())
    assert (
        told(searched(plan(), graph=none)).rows[0]["MFU"] == "-"
        and "MFU" not in told(searched(plan(), graph=none)).best[1]
    )


def test_what_rows_are_marked_with_is_explained(spreads: dict[str, Any]) -> None:
    plans = [plan(), plan(2.0, dp=4), plan(3.0, dp=4)]
    answer = told(searched(*plans))
    assert answer.legend.startswith("MFU: ") and answer.hidden == 1
    assert told(searched(*plans), everything=True).hidden == 0
    assert told(searched(plan(micro_batches=2))).legend.startswith("batches: ")
    spreads["intervals"] = {id(plans[1]): Interval(1.0, 4.0, False, 0.6)}
    close = told(searched(*plans))
    assert close.legend.startswith("= too close") and [row[""] for row in close.rows] == [" ", "="]


def test_an_answer_rests_on_assumptions_and_most_of_all_on_the_first_influence(spreads: dict[str, Any]) -> None:
    assert told(searched(plan())).rests == "7 assumptions and fitted numbers; no spread of a price is known"
    spreads["influences"] = {"link_rate": 0.123, "other": 0.01}
    assert told(searched(plan())).rests == (
        "7 assumptions and fitted numbers; most of all on link rate, ±12 % of the step"
    )


def test_the_question_names_the_cluster_or_how_many_there_are() -> None:
    assert told(searched(plan())).question == f"{transformer(1).name} in bf16 on 8 V1 (here), 64 samples a step"
    several = told(searched(plan(batch=2048), clusters=[HERE, cluster("there")], sequence_length=1024))
    assert several.question.endswith(" in bf16 on 2 clusters, 2,048 x 1,024 tokens a step")
    request = SimpleNamespace(largest_batches=True, global_batches=None)
    assert told(searched(plan(), request=request)).question.endswith("64 samples a step, the largest that fits")


@pytest.mark.parametrize(
    ("amount", "unit", "assumed", "batch", "length", "words"),
    [
        (64, "images", False, 64, None, "64 samples a step (published: 64 images)"),
        (64, "images", True, 64, None, "64 samples a step (assumed: 64 images)"),
        (64, "images", True, 57, None, "57 samples a step (assumed: 64 images)"),
        (64, "images", False, 2, None, "2 samples a step (published: 64 images)"),
        (64, "images", False, 64, 197, "64 x 197 tokens a step (published: 64 images)"),
        (4_000_000, "tokens", False, 3000, 1024, "3,000 x 1,024 tokens a step (3.1M, published: 4M tokens)"),
        (4_000_000, "tokens", False, 3905, 1024, "3,905 x 1,024 tokens a step (published: 4M tokens)"),
        (1_000_000, "tokens", False, 500, 1024, "500 x 1,024 tokens a step (512,000, published: 1M tokens)"),
        (999_999, "tokens", False, 2, 1024, "2 x 1,024 tokens a step (2,048, published: 999,999 tokens)"),
    ],
)
def test_a_batch_that_nobody_states_is_told_with_what_is_published(
    amount: int, unit: str, assumed: bool, batch: int, length: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = SimpleNamespace(assumed=assumed, amount=amount, unit=unit)
    monkeypatch.setattr(module, "default_batch", lambda *_: SimpleNamespace(published=published))
    request = SimpleNamespace(largest_batches=False, global_batches=None)
    found = searched(plan(batch=batch), request=request, sequence_length=length)
    assert told(found).question.endswith(words)
    monkeypatch.setattr(module, "default_batch", lambda *_: None)
    assert told(found).question.endswith("a step")


@pytest.mark.parametrize(
    ("facts", "limit", "words"),
    [
        ({"ranks": 1}, 0.5, "computing: one accelerator exchanges nothing"),
        ({}, 0.981, "computing: faster networks gain at most 2 % at this batch"),
        ({}, 0.97, "the network: exchanges that take no time would gain at most 3 %"),
        ({"share": 0.1}, 0.875, "the network: exchanges that take no time would gain at most 12 %"),
        ({"share": 0.1}, 0.72, "the network: exchanges that take no time would gain at most 28 %; they also slow the "
         "computing beside them"),
        ({"share": 0.0}, 0.72, "the network: exchanges that take no time would gain at most 28 %"),
    ],
)  # fmt: skip
def test_the_limit_is_computing_or_the_network(facts: dict[str, Any], limit: float, words: str) -> None:
    best = plan(1.0, 0.75, 0.25, cluster=cluster(**facts))
    assert told(searched(best), limit=limit).limit == words


def test_what_ifs_are_of_the_time_of_a_sample() -> None:
    assert told(searched(plan())).what_if == []
    assert told(searched(plan()), what_ifs=("twice as fast",)).what_if == ["twice as fast", "(of the time of a sample)"]


def test_another_cluster_is_told_by_its_time_its_plan_and_on_what_the_difference_is_spent() -> None:
    there = cluster("there", ranks=16, library=object(), kind="switch", width=2e9, memory=None, chip="v2")
    ours, theirs = plan(1.0, 0.5, 0.25, 0.25), plan(3.0, 1.0, 1.0, 0.0, 1.0, batch=128, cluster=there, dp=4)
    assert list(versus(searched(ours), searched(theirs))) == [
        "there is 50 % slower a sample: 3 s for 128 samples",
        "  not comparable as they are: software costs nothing on here, where no library was measured;",
        "  --set fabric.transport=ideal on the other one compares the networks alone",
        "  data 4, tensor 2, replicated; 33 % of the step waits for the network",
        "  a sample: +7.81 ms idle, +3.91 ms waiting for the network, -3.91 ms waiting for circuits",
        "  ranks: 8 V1 here, 16 V2 there",
        "  network: torus, ideal here, switch, library there",
        "  narrowest cut: 8 Gb/s a rank here, 16 Gb/s a rank there",
        "  memory: 80 GiB here, 0 B there",
    ]
    assert next(versus(searched(theirs), searched(ours))) == "here is 33 % faster a sample: 1 s for 64 samples"


@pytest.mark.parametrize(
    ("step", "change", "parts"),
    [
        (1.0, "as fast", "no difference"),
        (1.0004, "as fast", "no difference"),
        (1.0006, "0.06 % slower a sample", "+9.37 µs computing"),
        (0.9994, "0.06 % faster a sample", "-9.38 µs computing"),
    ],
)
def test_plans_within_half_a_thousandth_are_as_fast(step: float, change: str, parts: str) -> None:
    told = list(versus(searched(plan(1.0, 1.0)), searched(plan(step, step))))
    assert told[0].startswith(f"here is {change}: ") and told[2] == f"  a sample: {parts}" and len(told) == 3


def test_the_narrowest_cut_is_that_of_the_least_for_a_rank() -> None:
    cuts = [SimpleNamespace(capacity=8e9, ranks=4), SimpleNamespace(capacity=3e9, ranks=2)]
    fabric: Any = SimpleNamespace(cuts=lambda: cuts)
    assert narrowest(fabric) == 1.5e9
    fabric.cuts = list
    assert narrowest(fabric) == 0.0 and narrowest(Mesh(ranks=9)) > 0
