"""Positions, counts and ranges of meshes, and the statistics of their devices: what a reconstruction cannot show."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.function import splitting_loss_db
from lightloom.photonics.devices import NonIdealities, mzi
from lightloom.photonics.meshes.correction import cancel_crosstalk, correct, corrected
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import (
    DisturbedMesh,
    disturb,
    fabricate,
    monte_carlo,
    neighbours,
    quantised,
    spread,
    sweep,
)
from lightloom.photonics.meshes.mapping import Form, map_blocks, map_matrix
from lightloom.photonics.meshes.mesh import Kind, layout
from tests.photonics.meshes.strategies import haar, matrix_error

ENDS: list[tuple[Kind, int, int, int]] = [
    ("rectangular", 6, 6, 6),
    ("rectangular", 7, 7, 7),
    ("triangular", 6, 6, 9),
    ("triangular", 2, 6, 6),
    ("triangular", 6, 2, 6),
    ("triangular", 1, 4, 3),
    ("rectangular", 1, 1, 0),
]


@pytest.mark.parametrize(("kind", "inputs", "outputs", "depth"), ENDS)
def test_mzis_of_a_column_do_not_overlap_and_columns_are_as_few_as_documented(
    kind: Kind, inputs: int, outputs: int, depth: int
) -> None:
    place = layout(kind, inputs, outputs)
    size, lit = max(inputs, outputs), min(inputs, outputs)
    assert (place.size, place.depth) == (size, depth)
    assert place.count == len(place.columns) == size * lit - lit * (lit + 1) // 2
    positions = list(zip(place.columns.tolist(), place.modes.tolist(), strict=True))
    assert positions == sorted(set(positions))
    assert all((column, mode + 1) not in positions for column, mode in positions)
    assert all(0 <= mode < size - 1 and 0 <= column < depth for column, mode in positions)
    # On every mode, chains pass the MZIs in the order of their columns.
    for mode in range(size):
        meets = [place.columns[k] for k in place.chains if place.modes[k] in (mode, mode - 1)]
        assert meets == sorted(meets)
    assert sorted(place.chains.tolist()) == list(range(place.count))
    diagonals = [(int(place.columns[k] - place.modes[k]), int(place.columns[k])) for k in place.chains]
    assert diagonals == sorted(diagonals)
    expected = [(c, m + 2) == following for (c, m), following in pairwise(positions)]
    assert neighbours(place).tolist() == expected
    with pytest.raises(ValueError, match="read-only"):
        place.modes[:] = 0


def test_a_mapped_matrix_states_its_depth_gain_and_phases() -> None:
    wide, tall = np.random.default_rng(1).normal(size=(3, 5)), np.random.default_rng(2).normal(size=(5, 2)) / 20
    mapped = map_matrix(wide)
    assert mapped.output_mesh is not None
    assert (mapped.input_mesh.kind, mapped.output_mesh.kind) == ("triangular", "rectangular")
    assert mapped.depth == mapped.input_mesh.layout.depth + 1 + mapped.output_mesh.layout.depth == 6 + 1 + 3
    assert mapped.attenuations.max() == pytest.approx(1.0)
    theta, phi = mapped.attenuator_phases
    assert ((theta >= 0) & (theta <= np.pi)).all() and ((phi >= 0) & (phi < 2 * np.pi)).all()
    np.testing.assert_allclose(mzi(theta, phi)[:, 0, 0], mapped.attenuations, atol=1e-15)
    small = map_matrix(tall)
    assert small.gain < 1.0
    assert small.attenuations.max() == pytest.approx(1.0)
    common = map_matrix(tall, gains="common")
    assert common.gains.tolist() == [1.0] * 5
    np.testing.assert_allclose(common.attenuations, np.linalg.svd(tall, compute_uv=False))
    assert map_matrix(np.eye(4), "sigma-u").depth == 5
    for change, message in (
        ({"shape": (3, 4)}, "for a matrix of"),
        ({"attenuations": np.ones(2)}, "2 attenuations"),
        ({"attenuations": np.ones((1, 3))}, "attenuations"),
        ({"attenuations": np.array([0.5, -0.1, 1])}, "from 0 to 1"),
        ({"attenuations": np.array([0.5, 1.1, 1])}, "from 0 to 1"),
        ({"gains": np.array([1.0, 0.0, 2.0])}, r"gains\[1\]=0.0"),
        ({"gains": np.array([1.0, 2.0, np.inf])}, r"gains\[2\]=inf"),
        ({"gains": np.ones(4)}, "expected 3, one for each output"),
    ):
        with pytest.raises(ConfigError, match=message):
            replace(mapped, **change)


@pytest.mark.parametrize("form", ["svd", "economy"])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (5, 2), (4, 4)])
def test_there_are_attenuators_for_all_shared_modes_and_none_beyond_those_of_the_second_mesh(
    form: Form, shape: tuple[int, int]
) -> None:
    mapped = map_matrix(np.random.default_rng(0).normal(size=shape), form)
    assert mapped.output_mesh is not None
    most = mapped.output_mesh.inputs
    for count in range(8):
        if min(mapped.input_mesh.outputs, most) <= count <= most:
            assert replace(mapped, attenuations=np.ones(count)).matrix().shape == shape
        else:
            with pytest.raises(ConfigError, match=f"{count} attenuations for a matrix of"):
                replace(mapped, attenuations=np.ones(count))


def test_blocks_state_the_deepest_and_the_strongest() -> None:
    matrix = np.vstack([np.eye(3), 5 * np.eye(3), np.ones((1, 3))])
    mapped = map_blocks(matrix)
    assert [block.shape for block in mapped.blocks] == [(3, 3)] * 3
    assert (mapped.depth, mapped.mzis) == (4, 18)
    assert mapped.gain == pytest.approx(5.0 * np.sqrt(3))
    assert [block.gains.tolist() for block in mapped.blocks[:2]] == [[1.0] * 3, pytest.approx([5.0] * 3)]
    assert mapped.matrix().shape == (7, 3)
    np.testing.assert_allclose(map_blocks(matrix.T).matrix()[:, :6], matrix.T[:, :6], atol=1e-12)


def test_devices_have_the_stated_statistics() -> None:
    how = NonIdealities(phase_error=0.02, coupler_error=0.03, loss_db=1.0, loss_spread_db=0.2)
    made = fabricate(20_000, 10_000, how, np.random.default_rng(0))
    for errors, sigma in (
        *((errors, 0.02) for errors in made.phase_errors),
        (made.output_error, 0.02),
        *((errors, 0.03) for errors in made.couplers),
    ):
        assert errors.std() == pytest.approx(sigma, rel=0.03)
        assert abs(errors.mean()) < 4 * sigma / np.sqrt(errors.size)
    loss = -10 * np.log10(made.transmission)
    assert (loss.mean(), loss.std()) == (pytest.approx(1.0, abs=0.01), pytest.approx(0.2, rel=0.03))
    weakest = fabricate(1000, 0, NonIdealities(loss_spread_db=1.0), np.random.default_rng(0)).transmission
    assert weakest.max() == 1.0 and 0.4 < (weakest == 1.0).mean() < 0.6
    for first, second in (made.phase_errors, made.couplers):
        assert abs(np.corrcoef(first, second)[0, 1]) < 0.05


def test_phases_are_rounded_to_the_steps_of_the_dac() -> None:
    phases = np.array([0.0, 0.3, 1.2, 6.2])
    np.testing.assert_allclose(quantised(phases, 2), np.array([0, 0, 1, 4]) * np.pi / 2)
    assert quantised(phases, 0) is phases
    mesh = decompose(haar(5, 0))
    rounded = replace(
        mesh, theta=quantised(mesh.theta, 3), phi=quantised(mesh.phi, 3), output_phases=quantised(mesh.output_phases, 3)
    ).matrix()
    found = disturb(mesh, NonIdealities(dac_bits=3), np.random.default_rng(0))
    np.testing.assert_allclose(found.matrix(), rounded, atol=1e-12)
    with pytest.raises(ConfigError, match="10 devices for a mesh of 3"):
        DisturbedMesh(mesh=decompose(haar(3, 0)), non_idealities=found.non_idealities, fabrication=found.fabrication)


def test_detector_noise_has_its_stated_size() -> None:
    noise = NonIdealities(detector_noise=0.1)
    identity = decompose(np.eye(100))
    values = monte_carlo([identity], noise, matrix_error([np.eye(100)]), draws=3)
    # 10,000 elements with noise 0.1 each, over a norm of 10.
    assert values == pytest.approx(np.full(3, 0.1 * 100 / 10), rel=0.03)


def test_spreads_and_sweeps_report_their_draws() -> None:
    mesh = decompose(haar(4, 1))
    error = matrix_error([mesh.matrix()])
    drawn = monte_carlo([mesh], NonIdealities(phase_error=0.1), error, draws=5, seed=3)
    row = spread(drawn)
    assert row["mean"] == pytest.approx(np.mean(drawn))
    assert row["standard_deviation"] == pytest.approx(np.std(drawn, ddof=1))
    assert (row["least"], row["largest"]) == (min(drawn), max(drawn))
    assert spread(monte_carlo([mesh], NonIdealities(phase_error=0.1), error, draws=1))["standard_deviation"] == 0.0
    # Draw k has the same devices whatever the size of their errors, so small errors scale with it.
    tenth = monte_carlo([mesh], NonIdealities(phase_error=1e-5), error, draws=5, seed=3)
    np.testing.assert_allclose(
        10 * tenth, monte_carlo([mesh], NonIdealities(phase_error=1e-4), error, draws=5, seed=3), rtol=1e-3
    )
    base = NonIdealities(coupler_error=0.05)
    document = sweep([mesh, mesh], "dac_bits", [0.0, 4.0], lambda found, _: float(len(found)), base=base, draws=2)
    assert (document["mzis"], document["draws"], document["seed"]) == (12, 2, 0)
    assert [(r["value"], r["mean"]) for r in document["rows"]] == [(0.0, 2.0), (4.0, 2.0)]
    [only] = sweep([mesh], "phase_error", [0.0], error, base=base, draws=4, seed=3)["rows"]
    assert only["mean"] == pytest.approx(monte_carlo([mesh], base, error, draws=4, seed=3).mean())
    with pytest.raises(ConfigError, match=r"dac_bits=2\.5"):
        sweep([mesh], "dac_bits", [2.5], error)


def test_errors_of_several_matrices_are_taken_together() -> None:
    first, second = decompose(np.eye(2)), decompose(haar(3, 2))
    evaluate = matrix_error([2 * np.eye(2), second.matrix()])
    found = monte_carlo([first, second], NonIdealities(), evaluate, draws=1)[0]
    assert found == pytest.approx(np.sqrt(2 / (8 + 3)))
    calibrated = matrix_error([2 * np.eye(2), second.matrix()], calibrated=True)
    assert monte_carlo([first, second], NonIdealities(), calibrated, draws=1)[0] < 1e-12


def test_losses_and_crosstalk_in_decibels() -> None:
    assert splitting_loss_db(100, columns=3, loss_db=0.5) == pytest.approx(21.5)
    for bad in ({"servers": 1, "columns": -1}, {"servers": 1, "loss_db": -0.1}, {"servers": 1, "loss_db": np.nan}):
        with pytest.raises(ConfigError, match="expected 1, 0 and 0"):
            splitting_loss_db(**bad)


@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
def test_corrected_phases_are_settings_and_unreachable_mzis_are_counted(kind: Kind) -> None:
    mesh = decompose(haar(7, 3), kind)
    first, second = np.random.default_rng(0).normal(scale=0.3, size=(2, mesh.mzis))
    fixed = correct(mesh, first, second)
    power = np.sin(mesh.theta / 2) ** 2
    outside = (power < np.sin(first + second) ** 2) | (power > np.cos(first - second) ** 2)
    assert fixed.out_of_reach == outside.sum() > 0
    for phases in (fixed.mesh.phi, fixed.mesh.output_phases):
        assert ((phases >= 0) & (phases < 2 * np.pi)).all()
    # Within reach the splitting is the ideal one; beyond it, with ``real``, θ is left alone.
    bar = np.abs(mzi(fixed.mesh.theta, 0.0, first=first, second=second)[:, 0, 0]) ** 2
    np.testing.assert_allclose(bar[~outside], power[~outside], atol=1e-12)
    nearest = np.clip(power, np.sin(first + second) ** 2, np.cos(first - second) ** 2)
    np.testing.assert_allclose(bar, nearest, atol=1e-12)
    real = correct(mesh, first, second, real=True)
    np.testing.assert_array_equal(real.mesh.theta[outside], mesh.theta[outside])
    np.testing.assert_allclose(real.mesh.theta[~outside], fixed.mesh.theta[~outside])
    same = correct(mesh, np.zeros(mesh.mzis), np.zeros(mesh.mzis))
    assert same.out_of_reach == 0
    np.testing.assert_allclose(same.mesh.matrix(), mesh.matrix(), atol=1e-12)


@pytest.mark.parametrize("make", [decompose, map_matrix, map_blocks])
def test_whatever_is_fabricated_is_corrected(make: Any) -> None:
    ideal = make(haar(4, 5, real=True))
    found = disturb(ideal, NonIdealities(coupler_error=1e-3, thermal_crosstalk=0.02), np.random.default_rng(0))
    target = ideal.matrix()
    for real in (False, True):
        fixed = corrected(found, real=real)
        assert np.abs(fixed.matrix() - target).real.max() < 0.02 * np.abs(found.matrix() - target).max()


def test_crosstalk_is_cancelled_up_to_a_share_of_a_tenth() -> None:
    mesh = decompose(haar(4, 0))
    assert cancel_crosstalk(mesh, 0.0).theta.tolist() == (mesh.theta % (2 * np.pi)).tolist()
    for share in (-0.01, 0.11):
        with pytest.raises(ConfigError, match=r"expected 0 to 0\.1"):
            cancel_crosstalk(mesh, share)
