"""Limits that predictions keep on the measured tables, where these are at hand."""

from __future__ import annotations

import os

import pytest
from benchmarks.accuracy import PRIOR_LIMITS, collectives, priors_only

from lightloom.planning.calibration.accuracy import accuracy
from lightloom.planning.calibration.rows import read_steps

pytestmark = pytest.mark.skipif("LIGHTLOOM_MEASURED" not in os.environ, reason="needs the measured tables")


def test_priors_alone_predict_the_largest_runs_of_megatron() -> None:
    """The smallest of the tables."""
    assert accuracy(read_steps("megatron-sc21.csv")).scores.mean <= PRIOR_LIMITS["megatron-sc21"]


@pytest.mark.slow
def test_priors_alone_keep_their_limits() -> None:
    names = ("megatron-a100", "megatron-sc21", "foundry-a100-40", "foundry-h100-small")
    _, checks = priors_only({name: read_steps(f"{name}.csv") for name in names})
    assert not [check.line() for check in checks if not check.holds]


def test_links_of_a_node_carry_over_to_other_counts() -> None:
    assert not [check.line() for check in collectives() if not check.holds]
