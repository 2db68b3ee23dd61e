"""Verification counts what is wrong, and noise limits are where accuracy falls."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from lightloom.core.errors import InputError
from lightloom.photonics.averaging.circuits import lsb_ripple
from lightloom.photonics.averaging.compiler import Realisation, realise
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.networks import LayeredNetwork, largest_gain_db
from lightloom.photonics.averaging.proof import (
    adversarial_points,
    input_bound,
    noise_limit,
    noisy_accuracy,
    verify,
    with_measured_full_scale,
)


def test_verification_finds_every_error_that_was_put_in() -> None:
    function = AveragingFunction.of(3, 6)

    def network(light: np.ndarray) -> np.ndarray:
        points = np.rint(light * 3).astype(np.int64)
        outputs = function.ideal(points)
        outputs[1] += np.where((points == 5).all(axis=0) & (outputs[1] < 3), 1, 0)
        outputs[2] -= np.where((points == 3).all(axis=0), 1, 0)
        return outputs

    result = verify(network, function)
    assert result.exhaustive
    assert result.checked_inputs == 1000
    assert result.errors == {4: 1, -1: 1}

    assert result.accuracy == pytest.approx(0.998)


def test_hard_points_catch_what_uniform_ones_miss() -> None:
    """A network blind to the last bit of T errs at every carry: nearly half of the hard points beside one."""
    function = AveragingFunction.of(64, 16)

    def blind(light: np.ndarray) -> np.ndarray:
        points = np.rint(light * 64).astype(np.int64)
        points[-1] += points[-1] < function.inputs[-1].maximum
        return function.ideal(points)

    result = verify(blind, function, samples=20_000)
    assert not result.exhaustive
    assert result.accuracy < 0.95
    points = np.concatenate(list(adversarial_points(function, 1000, 0)), axis=1)
    assert points.shape == (4, 1010)


def test_nan_outputs_are_wrong_and_shapes_are_checked() -> None:
    function = AveragingFunction.of(2, 4)
    assert verify(lambda light: np.full((2, light.shape[1]), np.nan), function).largest_deviation == np.inf
    with pytest.raises(InputError, match="the network gives"):
        verify(lambda light: light[:1], function)


def test_accuracy_falls_with_noise_and_the_limit_lies_between() -> None:
    function = AveragingFunction.of(4, 4)
    network = realise(lsb_ripple(function), function, Realisation(bounded=True, window=Fraction(1, 4))).network
    limit = noise_limit(network, function, evaluations=30_000, lowest=1e-3)
    assert noisy_accuracy(network, function, 0.0, 1000) == 1
    assert noisy_accuracy(network, function, limit, 30_000) >= 0.9999
    curve = [1 - noisy_accuracy(network, function, factor * limit, 30_000) for factor in (0.5, 1, 2, 10)]
    assert (np.diff(curve) >= 0).all()
    assert curve[-1] > 0.1
    assert limit < input_bound(function)


def test_no_network_passes_the_inputs_own_noise() -> None:
    """The ideal function itself, fed noisy inputs, is already wrong more often than the target just above the bound."""
    function = AveragingFunction.of(4, 8)
    sigma = 1.01 * input_bound(function)
    rng = np.random.default_rng(0)
    points = np.concatenate(list(function.grid()), axis=1)
    noisy = points + rng.normal(0, sigma * 12, points.shape)
    nearest = np.clip(np.rint(noisy), 0, 12).astype(np.int64)
    assert (function.average(nearest) != function.average(points)).mean() > 1e-4


def test_full_scale_is_measured_on_the_grid() -> None:
    function = AveragingFunction.of(4, 8)
    network = with_measured_full_scale(LayeredNetwork.of([2 * np.eye(4), -np.eye(4)]), function)
    assert [s.tolist() for s in network.full_scale] == [[3.0] * 4, [6.0] * 4, [6.0] * 4]
    # In units of amplitude the first matrix has rows 2 * 3 / 6, the second -6 / 6.
    assert largest_gain_db(network) == pytest.approx(0.0)
    assert largest_gain_db(LayeredNetwork.of([[[3.0, 4.0], [0.0, 0.0]]])) == pytest.approx(20 * np.log10(5))
    assert with_measured_full_scale(build(4, 8).network, function).full_scale[0].tolist() == [3.0] * 4


def test_noise_needs_a_sane_sigma_and_a_generator() -> None:
    construction = build(4, 8)
    with pytest.raises(InputError, match="sigma"):
        noisy_accuracy(construction.network, construction.function, -1.0)
    with pytest.raises(InputError, match="random generator"):
        construction.network(np.ones((4, 1)), 0.1)
