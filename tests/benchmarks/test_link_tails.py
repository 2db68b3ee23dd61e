"""Means over few fabrications, and servers that are drawn otherwise than `onn link` draws them."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.photonics import link_tails


def test_means_of_few_scatter_as_their_fabrications_do() -> None:
    rng = np.random.default_rng(0)
    shares = rng.exponential(0.05, 300)
    made = link_tails.row(shares, figure=0.05)
    low, high = made["means_of_few_95"]
    assert made["mean"] == pytest.approx(shares.mean()) and made["worst"] == shares.max()
    spread = 2 * 1.96 * shares.std() / np.sqrt(link_tails.FEW)
    assert high - low == pytest.approx(spread, rel=0.1)
    assert made["interval_95"][0] > low and made["interval_95"][1] < high
    assert made["within_a_factor_of_two"] > 0.95 and link_tails.row(shares, figure=1.0)["within_a_factor_of_two"] == 0
    assert link_tails.row(np.zeros(9), 0.1)["all_right"] == 9


def test_other_readings_have_the_size_that_they_say() -> None:
    rng = np.random.default_rng(0)
    powers = np.array([link_tails._uniform_power(rng).amplitude ** 2 for _ in range(200)])
    assert 0.9 <= powers.min() < 0.91 and 1.09 < powers.max() <= 1.1
    assert set((link_tails._fixed_power(rng).amplitude ** 2).round(12).ravel()) <= {0.9, 1.1}
    assert set(np.abs(link_tails._fixed_skew(rng).skew).ravel()) == {0.1}
    drawn, again = np.random.default_rng(1), np.random.default_rng(1)
    shares = np.sin(np.pi / 2 * link_tails._linear_skew(drawn).skew) ** 2
    assert shares == pytest.approx(np.abs(0.1 * again.normal(size=shares.shape)))
