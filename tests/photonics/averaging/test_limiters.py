"""Networks with limiters in place of clip(u, 0, 1): what is proved holds on every point of the grid."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.construct import Construction, build, candidates
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proof import (
    CLIP,
    Limiter,
    check_digits,
    error_with_limiters,
    half_wave,
    saturating,
)
from lightloom.photonics.nonlinear import LimitingHomodyne

FUNCTION = AveragingFunction.of(2, 4)


@cache
def construction() -> Construction:
    return next(c for c in candidates(FUNCTION, "clipped") if c.name == "lsb-ripple")


def run(made: Construction, deciding: Limiter, keeping: Limiter) -> Floats:
    """The outputs on the whole grid, hidden units replaced and the last layer linear."""
    network, layers = made.network, made.realised.layers
    signal = FUNCTION.light(next(FUNCTION.grid()))
    for index, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True), 1):
        signal = weights @ signal + biases[:, None]
        if index < len(network.weights):
            decides = [gadget.ramp is not None for gadget in layers[index] for _ in gadget.units]
            ways = [deciding if decided else keeping for decided in decides]
            signal = np.stack([np.interp(row, f.arguments, f.values) for row, f in zip(signal, ways, strict=True)])
    return signal


def limiter(start: float, bends: Floats, end: float) -> Limiter:
    """A monotone limiter from ``start`` to ``end`` on [-2, 3], which leaves clip(u, 0, 1) by up to ``bends``."""
    u = np.linspace(-2, 3, len(bends))
    return Limiter("drawn", u, np.maximum.accumulate(np.clip(np.clip(u, 0, 1) + bends, start, end)))


@given(st.integers(0, 2**32), st.floats(0, 0.4), st.floats(0, 0.03), st.floats(0, 0.1), st.floats(0.9, 1.0))
def test_what_is_proved_of_limiters_holds(seed: int, coarse: float, fine: float, start: float, end: float) -> None:
    made, rng = construction(), np.random.default_rng(seed)
    deciding = limiter(start, rng.uniform(-coarse, coarse, 60), end)
    keeping = limiter(0.0, rng.uniform(-fine, fine, 400), 1.0)
    error, margin = error_with_limiters(made.realised, deciding, keeping), check_digits(made.realised.circuit, FUNCTION)
    deviation = np.abs(run(made, deciding, keeping) - made.network(FUNCTION.light(next(FUNCTION.grid())))).max()
    # The bound includes the bend of the last layer's modulators, which are linear here.
    assert deviation <= error + 1e-9
    if error < margin:
        points = next(FUNCTION.grid())
        assert (FUNCTION.decide(run(made, deciding, keeping)) == FUNCTION.expected(points)).all()


def test_modulators_decide_as_clips_do_and_bend_by_their_swing() -> None:
    made = construction()
    assert error_with_limiters(made.realised, half_wave(), CLIP) == pytest.approx(made.proof.float64_error, rel=1e-3)
    assert error_with_limiters(made.realised, saturating(6.0), CLIP) < 1e-6
    assert error_with_limiters(made.realised, saturating(0.2), CLIP) > 1
    assert made.proof.bend is not None and "may bend by" in made.proof.steps[-1]
    bends = [LimitingHomodyne(full_scale=1.0, swing=swing).bend for swing in (0.1, 0.25, 0.5)]
    assert bends == sorted(bends) and bends[2] == pytest.approx(0.0106, rel=0.02)


def test_plain_relus_have_no_limiters() -> None:
    made = build(2, 4)
    assert made.proof.bend is None
    with pytest.raises(ConfigError, match="plain ReLUs"):
        error_with_limiters(made.realised, half_wave(), CLIP)


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([0.0], [0.0]),
        ([0.0, 1.0], [0.0, 2.0]),
        ([0.0, 1.0], [1.0, 0.0]),
        ([1.0, 0.0], [0.0, 1.0]),
        ([0.2, 1.0], [0.0, 1.0]),
        ([0.0, float("nan")], [0.0, 1.0]),
    ],
)
def test_other_functions_are_no_limiters(arguments: list[float], values: list[float]) -> None:
    with pytest.raises(ConfigError, match="limiter x"):
        Limiter("x", np.array(arguments), np.array(values))
