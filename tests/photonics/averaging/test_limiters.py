"""Networks whose kept values bend by what is proved: right on every point of the grid."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.photonics.averaging.construct import Construction, build, candidates
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.nonlinear import linear_height

FUNCTION = AveragingFunction.of(2, 4)


@cache
def construction() -> Construction:
    return next(c for c in candidates(FUNCTION, "clipped") if c.name == "lsb-ripple")


@given(st.integers(0, 2**32), st.floats(0, 1))
def test_values_may_bend_by_what_is_proved(seed: int, share: float) -> None:
    """Units that keep values are off by up to the proved share of full scale; the last layer is linear."""
    made, rng = construction(), np.random.default_rng(seed)
    assert made.proof.bend is not None
    most = share * made.proof.bend
    points = next(FUNCTION.grid())
    signal = FUNCTION.light(points)
    network = made.network
    for index, (weights, biases) in enumerate(zip(network.weights, network.biases, strict=True), 1):
        signal = weights @ signal + biases[:, None]
        if index < len(network.weights):
            decides = [gadget.ramp is not None for gadget in made.realised.layers[index] for _ in gadget.units]
            ideal = np.clip(signal, 0, 1)
            bent = np.clip(ideal + rng.uniform(-most, most, ideal.shape), 0, 1)
            signal = np.where(np.array(decides)[:, None], ideal, bent)
    assert (FUNCTION.decide(signal) == FUNCTION.expected(points)).all()


def test_modulators_bend_by_their_swing() -> None:
    made = construction()
    assert made.proof.bend is not None and "may bend by" in made.proof.steps[-1]
    assert build(2, 4).proof.bend is None
    bends = [1 - linear_height(swing) * np.sin(swing) for swing in (0.1, 0.25, 0.5)]
    assert bends == sorted(bends) and bends[2] == pytest.approx(0.0106, rel=0.02)
