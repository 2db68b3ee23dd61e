"""Networks on meshes: exact on ideal devices, and worse the worse the devices are."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.mapped import (
    Calibration,
    averaging_accuracy,
    fabricated,
    map_network,
)
from lightloom.photonics.averaging.networks import LayeredNetwork
from lightloom.photonics.averaging.proof import verify
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.correction import corrected
from lightloom.photonics.meshes.disturb import disturb, sweep
from lightloom.photonics.meshes.mapping import (
    FORMS,
    Form,
    MeshMapping,
    approximate,
    map_matrix,
    network_count,
)
from lightloom.photonics.meshes.mesh import KINDS, Kind


@cache
def sturdy() -> Construction:
    """A network that bears noise."""
    return build(2, 4, noise=1e-2, nonlinearity="clipped")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_ideal_devices_carry_the_network_out(form: Form, kind: Kind) -> None:
    mapped = map_network(sturdy().network, MeshMapping(form=form, mesh=kind))
    light = np.random.default_rng(0).random((len(sturdy().function.inputs), 50)) * 3
    found = fabricated(mapped, NonIdealities(), np.random.default_rng(0), calibration="none")
    weights = sturdy().network.weights
    wanted = tuple(approximate(w) for w in weights) if form == "sigma-u" else weights
    ideal = replace(sturdy().network, weights=wanted)
    assert found(light) == pytest.approx(ideal(light), abs=1e-10)


def test_mzis_are_those_of_the_closed_forms() -> None:
    layers = sturdy().network.layers
    assert map_network(sturdy().network, MeshMapping(form="svd")).mzis == network_count(layers) == sturdy().mzi_count
    assert map_network(sturdy().network, MeshMapping(form="economy")).mzis == network_count(
        layers, convention="economy"
    )
    mapped = map_network(sturdy().network)
    assert mapped.depth == sum(each.depth for each in mapped.matrices)


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("phase_error", [0, 1e-3, 0.3]),
        ("coupler_error", [0, 1e-3, 0.3]),
        ("loss_spread_db", [0, 1e-3, 1.0]),
        ("detector_noise", [0, 1e-3, 0.3]),
        ("thermal_crosstalk", [0, 1e-6, 0.1]),
    ],
)
def test_accuracy_is_whole_on_good_devices_and_lost_on_bad_ones(parameter: str, values: list[float]) -> None:
    mapped = map_network(sturdy().network)
    evaluate = averaging_accuracy(mapped, sturdy().function)
    none, little, much = (row["mean"] for row in sweep(mapped.matrices, parameter, values, evaluate, draws=2)["rows"])
    assert none == 1
    assert little > 0.99
    assert much < 0.6


def test_even_loss_is_made_up_for_by_amplifiers() -> None:
    """One MZI: every path is as long, so that one factor restores it."""
    function = AveragingFunction.of(2, 2)
    network = build(2, 2).network
    mapped = map_network(network, MeshMapping(form="svd"))
    non_idealities = NonIdealities(loss_db=2.0)
    calibrations: tuple[tuple[Calibration, bool], ...] = (("rows", True), ("matrix", True), ("none", False))
    for calibration, right in calibrations:
        found = fabricated(mapped, non_idealities, np.random.default_rng(0), calibration=calibration)
        assert (verify(found, function).wrong_outputs == 0) == right


def test_known_couplers_and_crosstalk_are_made_up_for() -> None:
    rng = np.random.default_rng(3)
    for shape in ((6, 6), (9, 4), (4, 9)):
        weights = rng.normal(size=shape)
        mapped = map_matrix(weights)
        found = disturb(mapped, NonIdealities(coupler_error=0.01, thermal_crosstalk=0.01), rng)
        scale = np.abs(weights).max()
        before = np.abs(found.matrix() - weights).max() / scale
        after = np.abs(corrected(found).matrix() - weights).max() / scale
        assert after < before / 5


def test_what_cannot_be_corrected_is_left_in_quadrature() -> None:
    """Sparse real matrices cross and pass exactly, beyond the couplers' reach; real parts meet that in second order."""
    non_idealities = NonIdealities(coupler_error=1e-3)
    for matrix in build(4, 8).network.weights:
        found = disturb(map_matrix(matrix), non_idealities, np.random.default_rng(1))
        size = np.abs(matrix).max()
        left = corrected(found, real=True).matrix() - matrix
        assert np.abs(left.real).max() < 1e-4 * size


@pytest.mark.long
def test_detectors_noise_reaches_units_and_receivers() -> None:
    """A network of one layer has receivers alone: 1 - accuracy is twice the Gaussian tail at half a level."""
    function = AveragingFunction.of(1, 2, 1)
    network = LayeredNetwork((np.eye(1),), (np.zeros(1),), "relu", (np.array([3.0]), np.array([3.0])))
    mapped = map_network(network)
    evaluate = averaging_accuracy(mapped, function, samples=4)
    non_idealities = NonIdealities(detector_noise=0.1)
    rng = np.random.default_rng(0)
    right = np.mean([evaluate([disturb(mapped.matrices[0], non_idealities, rng)], rng) for _ in range(800)])
    from scipy.special import ndtr

    # Levels 0 and 3 err to one side only.
    assert 1 - right == pytest.approx(1.5 * ndtr(-0.5 / 0.3), rel=0.15)
