"""Words and keys of plans, and intervals of their times, with every number worked out beside them."""

from __future__ import annotations

from math import exp, expm1, inf, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.placed_space import PlacedChoice
from lightloom.planning.search import plans as module
from lightloom.planning.search.plans import (
    Counts,
    _Slopes,
    division,
    division_words,
    half_width_of_ratio,
    kind_of,
    plan_words,
)

WHOLE = Strategy(1, 1, 1, 1, 8, "none", "none", "ring", 0)
PLACED = PlacedChoice(1, 1, 1e-6, 8, 0, 1.0)


@pytest.mark.parametrize(
    ("choice", "words", "key", "kind"),
    [
        (WHOLE, "one rank", (1, 1, 1, 1, 1, False), "ddp"),
        (WHOLE._replace(sharding="zero-3"), "one rank", (1, 1, 1, 1, 1, True), "fsdp"),
        (WHOLE._replace(dp=8), "data 8, replicated", (8, 1, 1, 1, 1, False), "ddp"),
        (
            WHOLE._replace(dp=2, tp=3, pp=4, cp=5, ep=6, sharding="zero-1", micro_batches=2),
            "data 2, tensor 3, pipeline 4, context 5, expert 6, ZeRO-1, 2 micro-batches",
            (2, 3, 4, 5, 6, False),
            "tensor-pipeline",
        ),
        (
            WHOLE._replace(dp=2, sharding="hybrid", recomputation="full"),
            "data 2, hybrid ZeRO, recomputing",
            (2, 1, 1, 1, 1, True),
            "tensor-pipeline",
        ),
        (
            WHOLE._replace(tp=2, sharding="zero-2", recomputation="selective"),
            "tensor 2, recomputing attention",
            (1, 2, 1, 1, 1, False),
            "tensor-pipeline",
        ),
        (WHOLE._replace(cp=2), "context 2, replicated", (1, 1, 1, 2, 1, False), "tensor-pipeline"),
        (PLACED, "placed operators", "placed", "placed"),
        (
            PLACED._replace(k=4, l=2, recomputation="full", micro_batches=3),
            "placed operators split 4 ways, data 2, recomputing, 3 micro-batches",
            "placed",
            "placed",
        ),
    ],
)
def test_plans_are_told_by_how_they_divide_the_job(choice: Any, words: str, key: object, kind: str) -> None:
    assert plan_words(choice) == words and division(choice) == key and kind_of(choice) == kind
    assert division_words(choice) == words.removesuffix(f", {choice.micro_batches} micro-batches")


def sloped(*slopes: float, seconds: float = 1.0, on: str = "here", names: tuple[str, ...] = ("a", "b")) -> _Slopes:
    """A plan whose logarithm moves so much with those of two parameters, of variances 0.04 and 0.01."""
    plan: Any = SimpleNamespace(sample_time=seconds, cluster=SimpleNamespace(accelerator=on))
    belief: Any = SimpleNamespace(names=names, covariance=np.diag([0.04, 0.01]), scatter=0.0)
    return _Slopes(plan, belief, np.array(slopes))


NORMAL = 1.645
"""Standard deviations on either side that hold 90 % of a normal distribution."""


def test_what_moves_both_times_alike_tells_no_plans_apart() -> None:
    first, second = sloped(1.0, 2.0), sloped(1.0, 1.0, seconds=exp(0.1))
    assert first.half_width == pytest.approx(NORMAL * sqrt(0.04 + 4 * 0.01))
    assert second.half_width == pytest.approx(NORMAL * sqrt(0.04 + 0.01))
    shared, apart = (first.half_width_against(second, shared=each) for each in (True, False))
    assert shared == pytest.approx(NORMAL * 0.1)
    assert apart == pytest.approx(NORMAL * sqrt(0.08 + 0.05))
    assert first.influences() == pytest.approx({"a": expm1(NORMAL * 0.2), "b": expm1(NORMAL * 0.2)})
    assert list(sloped(1.0, -4.0).influences()) == ["b", "a"]
    # One cluster for both, or two.
    elsewhere = sloped(1.0, 1.0, seconds=exp(0.1), on="there")
    assert first.distance(elsewhere) == pytest.approx(0.1 / apart)
    assert [first.distance(second), second.distance(first)] == pytest.approx([0.1 / shared] * 2)
    same, slower = sloped(1.0, 2.0), sloped(1.0, 2.0, seconds=2.0)
    assert first.distance(same) == 0.0 and first.distance(slower) == inf
    scattered: Any = SimpleNamespace(names=("a", "b"), covariance=np.diag([0.04, 0.01]), scatter=0.3)
    first, second = (_Slopes(each.plan, scattered, each.slopes) for each in (first, second))
    assert first.half_width_against(second, shared=True) == pytest.approx(sqrt((NORMAL * 0.1) ** 2 + 2 * 0.09))


def test_ratios_share_what_both_plans_rest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    slopes = {name: sloped(1.0, 2.0) for name in ("one", "same")} | {
        "other": sloped(1.0, 1.0),
        "elsewhere": sloped(1.0, 1.0, on="there"),
        "renamed": sloped(1.0, 1.0, names=("a", "c")),
    }
    plans = {name: each.plan for name, each in slopes.items()}
    of = {id(plan): slopes[name] for name, plan in plans.items()}
    monkeypatch.setattr(module, "_with_slopes", lambda plan: of.get(id(plan)))
    one, unknown = plans["one"], SimpleNamespace(cluster=plans["one"].cluster)
    assert half_width_of_ratio(one, one) == half_width_of_ratio(one, plans["same"]) == 0.0
    assert half_width_of_ratio(one, plans["other"]) == pytest.approx(NORMAL * 0.1)
    for name in ("elsewhere", "renamed"):
        assert half_width_of_ratio(one, plans[name]) == pytest.approx(NORMAL * sqrt(0.13))
    assert half_width_of_ratio(one, unknown) is None is half_width_of_ratio(unknown, one)  # type: ignore[arg-type]
    assert half_width_of_ratio(unknown, unknown) == 0.0  # type: ignore[arg-type]


def test_counts_add_up_one_by_one() -> None:
    names = list(Counts.__dataclass_fields__)
    one = Counts(**{name: number for number, name in enumerate(names, start=1)})
    two = Counts(**{name: 10 * number for number, name in enumerate(names, start=1)})
    assert one + two == Counts(**{name: 11 * number for number, name in enumerate(names, start=1)})
    assert one + Counts() == one
