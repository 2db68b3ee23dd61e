"""Wrong words of fabricated averagers, against single fabrications and closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.function import digits
from lightloom.photonics.averaging.mapped import MappedAverager, map_averager
from lightloom.photonics.averaging.networks import FunctionArguments, LayeredNetwork
from lightloom.photonics.devices import NonIdealities, amplifier_noise
from lightloom.photonics.meshes import disturb as batched
from lightloom.photonics.meshes.disturb import disturb, fabricated_matrices, monte_carlo, spread
from lightloom.photonics.meshes.mapping import (
    MeshMapping,
    map_blocks,
    map_components,
    map_matrix,
)
from lightloom.photonics.tolerance import (
    count_wrong_words,
    fabricate_averagers,
    noise_behind,
    received_levels,
    words_right,
)

ARGUMENTS = FunctionArguments(servers=2, bits=4, inputs=2)


@cache
def network() -> LayeredNetwork:
    """A small network that bears noise."""
    return build(2, 4, noise=1e-2, nonlinearity="clipped", inputs=2).network


@cache
def averager(form: str = "compact", components: bool = True) -> MappedAverager:
    """That network on meshes."""
    return map_averager(network(), ARGUMENTS, MeshMapping(form=form, components=components))  # type: ignore[arg-type]


HOW = NonIdealities(phase_error=0.02, coupler_error=0.03, loss_db=0.2, loss_spread_db=0.05, dac_bits=9)


@pytest.mark.parametrize("make", [map_matrix, map_blocks, map_components])
def test_batches_have_the_statistics_of_single_fabrications(make: object) -> None:
    weights = np.array([[1.0, 2, 0], [0, 3, 0], [0, 0, 0.5], [0, 0, -2]])
    part = make(weights)  # type: ignore[operator]
    batch = fabricated_matrices(part, HOW, np.random.default_rng(0), 400)
    rng = np.random.default_rng(1)
    single = np.stack([disturb(part, HOW, rng).matrix() for _ in range(400)])
    for of in (np.real, np.imag):
        np.testing.assert_allclose(of(batch).mean(0), of(single).mean(0), atol=0.03)
        np.testing.assert_allclose(of(batch).std(0), of(single).std(0), atol=0.03, rtol=0.15)
    ideal = fabricated_matrices(part, NonIdealities(), rng, 2)
    np.testing.assert_allclose(ideal, np.broadcast_to(part.matrix(), ideal.shape), atol=1e-12)
    crossed = NonIdealities(thermal_crosstalk=0.01, dac_bits=7, loss_db=0.3)
    np.testing.assert_allclose(
        fabricated_matrices(part, crossed, rng, 1)[0], disturb(part, crossed, rng).matrix(), atol=1e-12
    )


def test_every_error_of_a_device_is_a_draw_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both phases, both couplers and the loss: no draw is used twice, and none is left out."""
    used: list[NDArray[np.float64]] = []

    def matrices(
        *phases: NDArray[np.float64], transmission: NDArray[np.float64], **couplers: NDArray[np.float64]
    ) -> None:
        used.extend(phase / HOW.phase_error for phase in phases)
        used.extend(error / HOW.coupler_error for error in couplers.values())
        used.append((-10 * np.log10(transmission) - HOW.loss_db) / HOW.loss_spread_db)

    draws = SimpleNamespace(normal=lambda size: np.arange(math.prod(size), dtype=float).reshape(size))
    monkeypatch.setattr(batched, "mzi", matrices)
    beside: Any = np.zeros(2, np.bool_)
    how = replace(HOW, dac_bits=0)
    fabrication = batched.fabricate((2, 3), 0, how, cast("Any", draws))
    batched.disturbed_devices(np.zeros((2, 3)), beside, how, fabrication)
    assert np.sort(np.concatenate(used).ravel()) == pytest.approx(np.arange(5 * 2 * 3), abs=1e-9)


@pytest.mark.parametrize(("form", "components"), [("compact", True), ("svd", True), ("economy", False)])
def test_ideal_averagers_err_never_and_bad_ones_nearly_always(form: str, components: bool) -> None:
    mapped = averager(form, components)
    assert count_wrong_words(mapped, NonIdealities(), None, fabrications=2, words=400).rate == 0
    # Loss that amplifiers and receivers make up for: the paths of a compact mapping differ little here.
    assert count_wrong_words(mapped, NonIdealities(phase_error=0.5), None, fabrications=5, words=200).rate > 0.3
    assert count_wrong_words(mapped, NonIdealities(), 1e-9, fabrications=1, words=400).rate > 0.5


def test_all_codes_arrive_on_ideal_devices() -> None:
    """Every pair of codes of two servers, through P, the layers and T, at both servers."""
    first, second = np.divmod(np.arange(256), 16)
    codes = np.stack([first, second])
    batch = fabricate_averagers(averager(), NonIdealities(), np.random.default_rng(0), 1)
    levels = received_levels(batch, codes[None], [None] * len(batch.gains), np.random.default_rng(0))
    expected = digits(codes.sum(0) // 2, 4).swapaxes(-1, -2)
    for server in range(2):
        assert (expected == levels[0, server].T).all()


def test_the_noise_of_an_amplifier_is_the_closed_form() -> None:
    """One layer that doubles a field: errors are those of a Gaussian at half a level."""
    doubling = LayeredNetwork((np.array([[2.0]]),), (np.array([-1.5]),), "relu", (np.array([3.0]), np.array([3.0])))
    mapped = map_averager(doubling, FunctionArguments(servers=1, bits=2, inputs=1))
    [gain] = [float(matrix.gains[0]) for matrix in mapped.layers.matrices]
    assert gain == pytest.approx(2.0)
    sigma = float(noise_behind(np.array([gain]), 2e-7)[0])
    assert sigma == pytest.approx(amplifier_noise(4.0, 6.0, 50e9, 2e-7))
    # Levels 0..3 become 0 (and lower), 0.5, 2.5 and 3 (and higher) of those received: count against the Gaussian.
    outputs = 2 * np.arange(4.0) - 1.5
    right = [
        ndtr((upper - output) / (3 * sigma)) - ndtr((lower - output) / (3 * sigma))
        for output, lower, upper in zip(outputs, (-np.inf, 0.5, 1.5, 2.5), (0.5, 1.5, 2.5, np.inf), strict=True)
    ]
    rate = count_wrong_words(mapped, NonIdealities(), 2e-7, fabrications=1, words=40_000).rate
    # Near-equal words of one server are uniform too, as one server's code is the common one, within the range.
    assert rate == pytest.approx(1 - np.mean(right), abs=0.05)


def test_no_gain_adds_no_noise_and_power_must_be_positive() -> None:
    assert noise_behind(np.array([0.5, 1.0]), 1e-3).tolist() == [0.0, 0.0]
    with pytest.raises(ConfigError, match="power=0"):
        noise_behind(np.array([2.0]), 0.0)


def test_amplifiers_make_up_for_loss_with_more_gain() -> None:
    lossy = fabricate_averagers(averager(), NonIdealities(loss_db=1.0), np.random.default_rng(0), 2)
    ideal = fabricate_averagers(averager(), NonIdealities(), np.random.default_rng(0), 2)
    for louder, designed, part in zip(lossy.gains, ideal.gains, averager().layers.matrices, strict=True):
        np.testing.assert_allclose(designed, np.broadcast_to(part.gains, designed.shape))
        assert (louder > designed * 1.05).all()
    # The receivers' scale makes up for T.
    np.testing.assert_allclose(lossy.last, ideal.last, atol=0.1 * np.abs(ideal.last).max())


def test_one_fabrication_is_judged_as_many_are() -> None:
    """The evaluation for Monte Carlo runs: nothing wrong on ideal devices, noise of detectors included."""
    mapped = averager()
    evaluate = words_right(mapped, words=500)
    assert spread(monte_carlo(mapped.matrices, NonIdealities(), evaluate, draws=2))["least"] == 1
    assert spread(monte_carlo(mapped.matrices, NonIdealities(detector_noise=0.3), evaluate, draws=1))["mean"] < 0.7
    lossy = NonIdealities(loss_db=0.05)
    assert spread(monte_carlo(mapped.matrices, lossy, evaluate, draws=1))["mean"] == 1
    uncalibrated = words_right(mapped, words=500, calibration="none")
    assert spread(monte_carlo(mapped.matrices, NonIdealities(loss_db=0.5), uncalibrated, draws=1))["mean"] < 0.9
