"""Levels of lanes, units, amplifiers and receivers, set on the chip: `onn link` and `onn build --tolerate` agree."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.photonics.averaging.construct import build
from lightloom.photonics.averaging.mapped import output_factors, set_levels
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.link.settings import Link, ideal
from lightloom.photonics.link.simulate import Chip, FabricatedLink, design_chip, fabricated, light
from lightloom.photonics.link.word_errors import word_errors
from lightloom.photonics.meshes.mapping import MeshMapping
from lightloom.photonics.tolerance import averagers_of, count_wrong_words

AS_TOLERATED = replace(ideal(Link()), gain="optical", calibration="levels")
"""The parts that `onn build --tolerate` lets err, and how it sets the chip."""


@cache
def chip() -> Chip:
    network = build(2, 4, noise=3e-3, nonlinearity="clipped").network
    mapping = MeshMapping(form="compact", components=True)
    return design_chip(network, FunctionArguments(servers=2, bits=4), mapping)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["rows", "levels", "matrix", "none"]))
def test_factors_leave_no_error_along_what_they_scale(seed: int, setting: str) -> None:
    """Least squares: the error of every scaled row is orthogonal to the row, and no setting is worse than none."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(3, 4))
    matrices = target * rng.uniform(0.5, 1.5, (2, 1, 1)) + 0.1 * rng.normal(size=(2, 3, 4))
    levels = set_levels(matrices, target, setting)  # type: ignore[arg-type]
    np.testing.assert_allclose(levels.matrices, levels.outputs[..., None] * matrices * levels.inputs[..., None, :])
    if setting == "rows":
        assert np.abs(((target - levels.matrices) * levels.matrices).sum(-1)).max() < 1e-9
        # A diagonal covariance of one makes no difference, nor does a common factor.
        again = output_factors(matrices, target, 3.0 * np.eye(4))
        np.testing.assert_allclose(again, levels.outputs)
    if setting in ("rows", "matrix"):
        assert ((target - levels.matrices) ** 2).sum() <= ((target - matrices) ** 2).sum() + 1e-12


@given(st.integers(0, 2**32 - 1))
def test_loss_of_paths_is_made_up_for(seed: int) -> None:
    """Loss that belongs to inputs and outputs, as that of unequal paths: three passes leave little."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=(3, 4))
    before, behind = rng.uniform(0.9, 1.1, 4), rng.uniform(0.9, 1.1, 3)
    lossy = behind[:, None] * target * before
    left = np.linalg.norm(set_levels(lossy, target, "levels").matrices - target)
    assert left < 0.5 * np.linalg.norm(lossy - target)
    dark = set_levels(np.zeros((3, 4)), target, "levels")
    assert (dark.outputs == 1).all() and (dark.inputs == 1).all()


def test_the_link_sets_the_levels_that_tolerance_sets() -> None:
    """The same fabricated meshes: equal matrices between detections, gains, and biases at the receivers."""
    link = replace(AS_TOLERATED, phase_error=0.02, loss_db=0.5, coupler_error=0.02)
    made, mapped = FabricatedLink(chip(), link), chip().mapped
    rng = made.stream("meshes")
    drawn = [fabricated(part, link.non_idealities, rng) * part.gains[:, None] for part in mapped.matrices]
    batch = averagers_of(mapped, [matrix[None] for matrix in drawn])
    layers = [layer.matrix for layer in made.layers]
    lanes = drawn[0].shape[1]
    np.testing.assert_allclose(layers[0][: len(batch.gains[0][0]), :lanes], batch.hidden[0][0], atol=1e-5)
    for matrix, hidden in zip(layers[1:-1], batch.hidden[1:], strict=True):
        np.testing.assert_allclose(matrix, hidden[0], atol=1e-5)
    outputs = np.sqrt(mapped.arguments.servers)
    np.testing.assert_allclose(made.exit @ layers[-1], outputs * batch.last[0], atol=1e-5)
    np.testing.assert_allclose(made.exit[:, : layers[-1].shape[0] // 2], outputs * batch.splitting[0], atol=1e-5)
    assert made.raised > 1


@pytest.mark.parametrize(
    ("errors", "full_scale"),
    [
        (NonIdealities(loss_db=0.8), None),
        (NonIdealities(phase_error=0.02, coupler_error=0.02, loss_db=0.4), 2e-4),
    ],
)
def test_both_count_as_many_wrong_words(errors: NonIdealities, full_scale: float | None) -> None:
    """Word error rates between 1e-3 and 0.5, each inside the 95 % interval of the other."""
    tried, fabrications = 800, 40
    link = replace(AS_TOLERATED, amplifier_noise=full_scale is not None)
    link = replace(link, phase_error=errors.phase_error, coupler_error=errors.coupler_error, loss_db=errors.loss_db)
    if full_scale is not None:
        link = replace(link, full_scale=full_scale)
    ours = word_errors(chip(), link, words=tried, fabrications=fabrications)
    theirs = count_wrong_words(chip().mapped, errors, full_scale, fabrications=fabrications, words=tried)
    assert 1e-3 < theirs.rate < 0.5
    assert ours.interval[0] <= theirs.rate <= ours.interval[1]
    assert theirs.interval[0] <= ours.rate <= theirs.interval[1]


def test_levels_bear_the_loss_that_gains_alone_do_not() -> None:
    lossy = replace(AS_TOLERATED, loss_db=0.8)
    rates = {
        how: word_errors(chip(), replace(lossy, calibration=how), words=500, fabrications=1).rate
        for how in ("rows", "words", "levels")
    }
    assert rates["levels"] < min(rates["rows"], rates["words"])
    errors = word_errors(chip(), lossy, words=100, fabrications=1)
    lit, plain = (light(chip(), lossy, errors.peaks, raised) for raised in (errors.raised, 1.0))
    laser = "laser_per_server_lane_watts"
    assert lit["levels_raised_db"] > 0 and lit[laser] == pytest.approx(errors.raised * plain[laser])
