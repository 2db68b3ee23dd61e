"""Intervals of plans: they follow from spreads, and what moves two plans alike does not tell them apart."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from lightloom.machines.accelerators.kernels import PRIORS, Prior
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.decoder import TransformerSizes, transformer_graph
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.job import (
    PRIOR_SCATTER,
    _lay_over,
    belief_of,
    half_widths,
)
from lightloom.planning.pricing.strategy_step import simulate
from lightloom.planning.search.document import intervals_basis, plan_row
from lightloom.planning.search.plans import PlanSearch, _with_slopes
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search

SIZES = TransformerSizes(hidden=1024, layers=4, heads=16, ffn=4096, vocabulary=1024, sequence_length=512)


def cluster(**settings: object) -> Cluster:
    return load_cluster("a100-1024-two-tier", set={"ranks": 16, "accelerator": "a100", **settings})


def found(on: Cluster, **pins: Any) -> PlanSearch:
    request = SearchRequest(
        global_batches=[64],
        pins=replace(Pins(recomputation="none"), **pins),
        compare=False,
        prune=False,
        strategies=["tensor-pipeline"],
    )
    return search(transformer_graph(SIZES, 1), on, request)


@pytest.fixture(scope="module")
def ranked() -> PlanSearch:
    return found(cluster(), pp=2, tp=2, virtual_stages=1, sequence_parallel=False)


@pytest.mark.long
def test_every_plan_that_is_shown_has_an_interval_around_its_time(ranked: PlanSearch) -> None:
    assert len(ranked.intervals) == min(len(ranked.ranking), 12)
    rows = [plan_row(plan, ranked) for plan in ranked.ranking if id(plan) in ranked.intervals]
    for row in rows:
        assert row["low_s"] < row["iteration_time_s"] < row["high_s"]
        assert row["low_s"] * row["high_s"] == pytest.approx(row["iteration_time_s"] ** 2)
        assert row["high_s"] / row["iteration_time_s"] > np.exp(PRIOR_SCATTER)
        # Watts flow for as long as the step takes, so that its interval reaches joules and dollars.
        for of in (row["energy"]["high_j"] / row["energy"]["low_j"], _spread(row, "dollars_per_step")):
            assert of >= row["high_s"] / row["low_s"] * (1 - 1e-9)
        assert _spread(row, "samples_per_joule") == pytest.approx(_spread(row, "metered_joules_per_step"))
        most = row["ledger"]["samples_per_dollar"]["high"]
        assert most == pytest.approx(row["global_batch"] / row["ledger"]["dollars_per_step"]["low"])
    assert rows[0]["told_apart"] is None
    assert {row["told_apart"] for row in rows[1:]} <= {True, False}


def _spread(row: dict[str, Any], name: str) -> float:
    total = row["ledger"][name]
    return float(total["high"] / total["low"])


def test_slopes_are_those_of_simulating_again(ranked: PlanSearch) -> None:
    priced = _with_slopes(ranked.winner)
    assert priced is not None
    assert isinstance(ranked.winner.choice, Strategy)
    slopes = dict(zip(priced.belief.names, priced.slopes, strict=True))
    assert slopes["gemm_fraction"] < 0 < slopes["fusion"]
    assert 0 < slopes["step_overhead"] < 1
    more = cluster(**{"accelerator.kernels.step_overhead": 1.01 * PRIORS["step_overhead"].value})
    job = ranked.winner.job.repriced(more.accelerator, more.fabric, ranked.winner.job.pricing)
    ratio = np.log(simulate(job, ranked.winner.choice).step_time / ranked.winner.step_time) / np.log(1.01)
    assert ratio == pytest.approx(slopes["step_overhead"], rel=0.01)


def test_certain_parameters_leave_the_scatter(ranked: PlanSearch) -> None:
    priced = _with_slopes(ranked.winner)
    assert priced is not None
    certain = half_widths(priced.slopes[None], np.zeros_like(priced.belief.covariance), priced.belief.scatter)[0]
    assert certain == pytest.approx(PRIOR_SCATTER)
    assert priced.half_width > certain


def test_a_calibration_brings_its_covariance_and_scatter() -> None:
    on = cluster(accelerator="a100-calibrated")
    belief, calibration = belief_of(on.accelerator, on.fabric), on.accelerator.calibration
    assert belief is not None
    assert calibration is not None
    assert belief.scatter == calibration.scatter
    order = [list(calibration.parameters).index(name) for name in belief.names]
    np.testing.assert_array_equal(belief.covariance, np.array(calibration.covariance)[np.ix_(order, order)])


def test_a_flat_efficiency_has_no_interval_and_says_so() -> None:
    flat = found(cluster(**{"accelerator.efficiency": 0.5}), pp=2, tp=2, virtual_stages=1, micro_batches=4)
    assert flat.intervals == {}
    assert plan_row(flat.winner, flat)["low_s"] is None
    assert "no interval is known" in intervals_basis(flat.winner)


def test_a_calibration_replaces_what_it_was_fitted_to_and_nothing_else() -> None:
    calibration = cluster(accelerator="a100-calibrated").accelerator.calibration
    assert calibration is not None
    (first, fitted), (second, other) = list(calibration.parameters.items())[:2]
    priors = {
        "of a link": Prior(1.0, fitted.spread, "", ""),
        second: Prior(other.value, 2 * other.spread, "stated anew", ""),
        first: Prior(fitted.value, fitted.spread, "", ""),
    }
    covariance = np.diag([1.0, 2.0, 3.0])
    _lay_over(covariance, priors, calibration)
    np.testing.assert_array_equal(covariance, np.diag([1.0, 2.0, calibration.covariance[0][0]]))
    _lay_over(covariance, {second: priors[second]}, calibration)
    np.testing.assert_array_equal(covariance, np.diag([1.0, 2.0, calibration.covariance[0][0]]))


def test_half_widths_hold_nine_of_ten_and_add_as_independent_errors_do() -> None:
    """Of a normal logarithm; of the scatter, which is a half-width already, as it is given."""
    covariance, slopes = np.array([[0.04, 0.01], [0.01, 0.09]]), np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -1.0]])
    nine_of_ten = NormalDist().inv_cdf(0.95)
    assert half_widths(slopes, covariance, 0.0) == pytest.approx(nine_of_ten * np.sqrt([0.04, 0.36, 0.11]), rel=1e-3)
    squares = half_widths(slopes, covariance, 0.0) ** 2
    assert half_widths(slopes, covariance, 0.3) == pytest.approx(np.sqrt(squares + 0.09))
