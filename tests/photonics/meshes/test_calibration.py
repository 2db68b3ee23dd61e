"""A twin is the chip, its derivatives are exact, and what is fitted from noisy powers alone implements the matrix."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.calibration.calibrate import (
    _NEAR,
    OUTPUT_ORDERS,
    Conditions,
    calibrate,
    default_settings,
    first_twin,
    probe_vectors,
    random_mesh,
    target_of,
    try_calibration,
)
from lightloom.photonics.meshes.calibration.chip import SimulatedChip
from lightloom.photonics.meshes.calibration.fit import (
    Measured,
    Twin,
    Unknowns,
    _aligned,
    _moved,
    _residual,
    fit,
    phase_free_error,
    power_derivatives,
    program,
)
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import design, disturb, wiring_of
from lightloom.photonics.meshes.mapping import MappedMatrix, map_matrix
from lightloom.photonics.meshes.mesh import Kind, Mesh
from tests.photonics.meshes.strategies import expected_error, haar

SILICON = NonIdealities(phase_error=0.1, coupler_error=0.02)


@st.composite
def chips(draw: st.DrawFn) -> Mesh | MappedMatrix:
    """Meshes of both kinds, and mapped matrices of all shapes and forms."""
    rows, columns, seed = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(0, 999))
    kind = draw(st.sampled_from(["rectangle", "triangle", "fan", "economy", "svd", "sigma-u"]))
    if kind == "rectangle":
        return decompose(haar(rows, seed))
    if kind == "triangle":
        return decompose(haar(rows, seed), "triangular")
    if kind == "fan":
        wide = haar(max(rows, columns), seed)[:, : min(rows, columns)]
        return decompose(wide if rows > columns else wide.T, "triangular")
    matrix = np.random.default_rng(seed).normal(size=(rows, rows if kind == "sigma-u" else columns))
    return map_matrix(matrix, kind)  # type: ignore[arg-type]


@given(st.integers(1, 300), st.integers(1, 9), st.integers(1, 9))
@settings(deadline=None)
def test_there_are_ten_powers_for_each_unknown_and_one_setting_less_would_be_too_few(
    devices: int, inputs: int, outputs: int
) -> None:
    """A device has two offsets, two couplers and two heaters."""
    count, powers = default_settings(devices, inputs, outputs), probe_vectors(inputs).shape[1] * outputs
    assert count * powers >= 10 * 6 * devices and count >= 12
    assert count == 12 or (count - 1) * powers < 10 * 6 * devices


WIDE, TALL = (map_matrix(np.random.default_rng(0).normal(size=shape), "svd") for shape in ((3, 5), (5, 3)))
"""V† and Σ have different numbers of outputs."""


@given(chips(), st.integers(0, 99))
@example(WIDE, 0)
@example(TALL, 0)
@settings(max_examples=40, deadline=None)
def test_the_true_twin_has_the_powers_of_the_chip(ideal: Mesh | MappedMatrix, seed: int) -> None:
    errors = replace(SILICON, thermal_crosstalk=0.01, loss_db=0.3, heater_spread=0.02)
    chip = SimulatedChip(disturb(ideal, errors, np.random.default_rng(seed)), power_noise=0.0)
    commanded = np.random.default_rng(seed).uniform(0, 7, (3, 2, chip.wiring.devices))
    vectors = probe_vectors(chip.wiring.inputs)
    expected = np.abs(chip.truth().propagate(commanded, vectors)) ** 2
    np.testing.assert_allclose(chip.powers(commanded, vectors), expected, atol=1e-12)


@given(chips())
@settings(max_examples=40, deadline=None)
def test_designed_phases_implement_the_matrix_on_an_ideal_twin(ideal: Mesh | MappedMatrix) -> None:
    twin = Twin.ideal(wiring_of(ideal))
    matrix = twin.propagate(design(ideal), np.eye(twin.wiring.inputs, dtype=np.complex128))
    assert phase_free_error(matrix, target_of(ideal)) <= 1e-7


@pytest.mark.parametrize("shape", [(4, 4), (3, 5)])
def test_derivatives_of_powers_are_those_of_finite_differences(shape: tuple[int, int]) -> None:
    ideal = map_matrix(np.random.default_rng(0).normal(size=shape))
    errors = replace(SILICON, thermal_crosstalk=0.02, loss_db=0.2, heater_spread=0.03)
    twin = SimulatedChip(disturb(ideal, errors, np.random.default_rng(1))).truth()
    commanded = np.random.default_rng(2).uniform(0, 7, (2, 2, twin.wiring.devices))
    vectors, unknowns = probe_vectors(shape[1]), Unknowns()
    _, jacobian = power_derivatives(twin, commanded, vectors, unknowns)
    assert len(jacobian) == 6 * twin.wiring.devices + 2
    for parameter in range(0, len(jacobian), 5):
        step = np.zeros(len(jacobian))
        step[parameter] = 1e-6
        up, down = (
            power_derivatives(_moved(twin, unknowns, sign * step), commanded, vectors, unknowns)[0] for sign in (1, -1)
        )
        np.testing.assert_allclose(jacobian[parameter], ((up - down) / 2e-6).ravel(), atol=1e-7)


def test_a_fit_ends_when_two_steps_in_a_row_gain_little_or_eight_nothing() -> None:
    ideal = random_mesh(2, "rectangular", 1)
    chip = SimulatedChip(disturb(ideal, SILICON, np.random.default_rng(1)), power_noise=1e-3)
    commanded, vectors = np.random.default_rng(2).uniform(0, 7, (6, 2, chip.wiring.devices)), probe_vectors(2)
    measured = Measured(settings=commanded, vectors=vectors, powers=chip.powers(commanded, vectors))
    start = Twin.ideal(chip.wiring)
    fitted, whole = fit(start, measured, Unknowns())
    assert 3 < len(whole) < 61
    assert fit(start, measured, Unknowns(), steps=3)[1] == whole[:4]
    for first, tolerance in ((start, 1e-3), (start, 0.5), (fitted, 0.02)):
        _, residuals = fit(first, measured, Unknowns(), tolerance=tolerance)
        quiet = refused = 0
        ended = []
        for before, after in pairwise(residuals):
            refused = 0 if after < before else refused + 1
            if after < before:
                quiet = quiet + 1 if after > before * (1 - tolerance) else 0
            ended.append(quiet >= 2 or refused >= 8)
        assert not any(ended[:-1]) and (ended[-1] or len(residuals) == 61)


@pytest.mark.parametrize("seed", range(4))
def test_eight_modes_are_calibrated_from_1792_noisy_powers(seed: int) -> None:
    trial = try_calibration(random_mesh(8, "rectangular", seed), SILICON, Conditions(), seed)
    assert trial.calibration.measurements == 1792
    assert trial.before > 0.15
    assert trial.after <= 4e-3
    assert 0.9e-3 <= trial.calibration.residuals[-1] <= 1.05e-3


@pytest.mark.parametrize(("kind", "modes"), [("rectangular", 6), ("triangular", 5)])
def test_wholly_unknown_offsets_are_found_by_sweeps(kind: Kind, modes: int) -> None:
    trial = try_calibration(random_mesh(modes, kind, 3), SILICON, Conditions(unknown_offsets=True), 3)
    mesh_layout = random_mesh(modes, kind, 3).layout
    sweeps = 10 * mesh_layout.depth + mesh_layout.count + 1
    assert trial.calibration.measured_settings == default_settings(mesh_layout.count, modes, modes) + sweeps
    assert trial.before > 0.4 and trial.after <= 4e-3


@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
@pytest.mark.parametrize("modes", range(1, 8))
def test_sweeps_without_noise_find_every_offset_of_exact_couplers(kind: Kind, modes: int) -> None:
    ideal = random_mesh(modes, kind, modes)
    chip = SimulatedChip(disturb(ideal, NonIdealities(), np.random.default_rng(0)), power_noise=0.0, seed=modes)
    chip.scramble()
    anywhere, vectors = np.random.default_rng(1).uniform(0, 7, (3, 2, chip.wiring.devices)), probe_vectors(modes)
    expected = np.abs(first_twin(chip, modes).propagate(anywhere, vectors)) ** 2
    np.testing.assert_allclose(chip.powers(anywhere, vectors), expected, atol=1e-12)


def test_another_order_of_outputs_avoids_what_couplers_cannot_split() -> None:
    ideal, coarse = random_mesh(6, "rectangular", 3), replace(SILICON, coupler_error=0.1)
    stuck = try_calibration(ideal, coarse, Conditions(power_noise=1e-5, output_orders=0), 3)
    free = try_calibration(ideal, coarse, Conditions(power_noise=1e-5, aging=0.01), 3)
    assert free.calibration.order.tolist() != sorted(free.calibration.order) == list(range(6))
    assert stuck.after > 0.01 and free.after < 1e-4
    assert free.renewed is not None and free.aged is not None and free.renewed < 0.1 * free.aged
    np.testing.assert_allclose(free.calibration.programmed.matrix(), ideal.matrix()[free.calibration.order], atol=1e-9)


def test_outputs_stay_in_order_where_couplers_reach() -> None:
    """Other orders are tried only where the fitted twin says that a splitting is out of reach."""
    ideal = random_mesh(6, "rectangular", 3)
    default, fixed = (
        try_calibration(ideal, SILICON, Conditions(output_orders=orders), 1) for orders in (OUTPUT_ORDERS, 0)
    )
    assert default.limit < 1e-9
    assert default.calibration.order.tolist() == list(range(6)) and default.after == fixed.after


@pytest.mark.parametrize(("inputs", "outputs"), [(2, 5), (5, 2)])
def test_unknown_offsets_of_a_mesh_with_dark_waveguides_are_refused(inputs: int, outputs: int) -> None:
    """Neither bar nor cross states show where light enters or leaves unseen."""
    ideal = decompose(haar(5, 0)[:outputs, :inputs], "triangular")
    chip = SimulatedChip(disturb(ideal, SILICON, np.random.default_rng(0)))
    with pytest.raises(UnsupportedError, match=f"{inputs} inputs and {outputs} outputs"):
        calibrate(chip, ideal, unknown_offsets=True)


def test_unknown_offsets_of_a_mapped_matrix_are_refused() -> None:
    chip = SimulatedChip(disturb(map_matrix(np.ones((2, 2))), SILICON, np.random.default_rng(0)))
    with pytest.raises(UnsupportedError, match="only those of a single mesh"):
        calibrate(chip, map_matrix(np.ones((2, 2))), unknown_offsets=True)


def test_the_error_follows_the_noise() -> None:
    errors = [
        try_calibration(random_mesh(6, "rectangular", 1), SILICON, Conditions(power_noise=noise), 1).after
        for noise in (1e-5, 1e-4, 1e-3)
    ]
    assert errors[1] == pytest.approx(10 * errors[0], rel=0.3)
    assert errors[2] == pytest.approx(10 * errors[1], rel=0.3)


def test_a_known_twin_is_programmed_as_exactly_as_its_couplers_allow() -> None:
    ideal = random_mesh(8, "rectangular", 2)
    chip = SimulatedChip(disturb(ideal, SILICON, np.random.default_rng(0)))
    programmed, errors = program(chip.truth(), target_of(ideal), chip.designed)
    assert chip.error(programmed, target_of(ideal)) == pytest.approx(errors[-1], abs=1e-12)
    assert errors[-1] <= 1e-10


def test_errors_are_those_of_the_best_phases_and_gain_unless_real_parts_are_detected() -> None:
    """Row by row the overlap has its greatest real part where phases align; the best gain leaves this."""
    chip = SimulatedChip(disturb(random_mesh(4, "rectangular", 2), SILICON, np.random.default_rng(0)))
    target, commanded = target_of(random_mesh(4, "rectangular", 2)), chip.designed
    matrix = chip.matrix(commanded)
    overlap = np.abs((matrix.conj() * target).sum(1)).sum() / (np.linalg.norm(matrix) * np.linalg.norm(target))
    assert chip.error(commanded, target) == phase_free_error(matrix, target) == pytest.approx(np.sqrt(1 - overlap**2))
    assert chip.error(commanded, target, real=True) < 0.9 * chip.error(commanded, target)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("ideal", [random_mesh(6, "rectangular", 2), decompose(np.eye(6)[[2, 0, 1, 5, 3, 4]])])
def test_steps_end_where_three_in_a_row_hardly_help_or_eight_do_not(ideal: Mesh, seed: int) -> None:
    """Couplers so far off that splittings are out of reach: no step of all leads to the matrix."""
    chip = SimulatedChip(disturb(ideal, replace(SILICON, coupler_error=0.2), np.random.default_rng(seed)))
    squares = np.array(program(chip.truth(), target_of(ideal), chip.designed)[1]) ** 2
    quiet, refused, ended = 0, 0, []
    for before, after in pairwise(squares):
        refused = refused + 1 if after == before else 0
        quiet = quiet if after == before else quiet + 1 if after > 0.998 * before else 0
        ended.append(quiet == 3 or refused == 8)
    assert ended == [False] * (len(squares) - 2) + [True]


def test_programs_start_from_exact_phases_where_couplers_reach_for_any_phase() -> None:
    """No step is needed, in whichever half turn a designed phase lies."""
    rng, mesh = np.random.default_rng(0), random_mesh(6, "rectangular", 0)
    half_turns = np.pi * rng.integers(-2, 4, mesh.mzis)
    ideal = replace(mesh, theta=half_turns + rng.uniform(0.8, np.pi - 0.8, mesh.mzis))
    chip = SimulatedChip(disturb(ideal, NonIdealities(coupler_error=0.05), rng))
    assert program(chip.truth(), target_of(ideal), chip.designed)[1][0] < 1e-12


def test_real_parts_are_programmed_where_splittings_are_out_of_reach() -> None:
    ideal = decompose(np.eye(6)[[2, 0, 1, 5, 3, 4]])
    chip = SimulatedChip(disturb(ideal, SILICON, np.random.default_rng(3)))
    target = target_of(ideal)
    whole = chip.error(program(chip.truth(), target, chip.designed)[0], target, real=True)
    real = chip.error(program(chip.truth(), target, chip.designed, real=True)[0], target, real=True)
    assert real < 0.3 * whole


@pytest.mark.parametrize("spread", [0.01, 0.05])
def test_heaters_of_other_efficiencies_are_fitted_and_ruin_what_takes_them_for_nominal(spread: float) -> None:
    """A spread of a percent that is not fitted leaves twenty times the error, and powers that no twin explains."""
    errors = replace(SILICON, heater_spread=spread)
    nominal = Conditions(unknowns=Unknowns(heaters=False))
    trials = [
        [try_calibration(random_mesh(8, "rectangular", seed), errors, how, seed) for seed in range(3)]
        for how in (Conditions(), nominal)
    ]
    fitted, ignored = (float(np.median([trial.after for trial in row])) for row in trials)
    assert fitted <= 3e-3 and ignored > 10 * fitted
    for of_fitted, of_ignored in zip(*trials, strict=True):
        assert of_fitted.calibration.residuals[-1] < 1.1e-3 and of_ignored.calibration.residuals[-1] > 3e-3
        assert of_fitted.limit < 1e-2


def test_the_spread_of_heaters_leaves_the_draws_of_all_other_errors() -> None:
    plain, spread = (
        disturb(random_mesh(4, "rectangular", 0), replace(SILICON, heater_spread=share), np.random.default_rng(0))
        for share in (0.0, 0.02)
    )
    for name in ("phase_errors", "output_error", "couplers", "transmission"):
        assert np.array_equal(getattr(plain.fabrication, name), getattr(spread.fabrication, name))
    assert (plain.fabrication.efficiencies == 1).all()
    assert 0.005 < np.std(spread.fabrication.efficiencies) < 0.05


def test_crosstalk_is_fitted_and_ruins_what_ignores_it() -> None:
    ideal, errors = random_mesh(6, "rectangular", 0), replace(SILICON, thermal_crosstalk=5e-3)
    fitted = try_calibration(ideal, errors, Conditions(), 0)
    ignored = try_calibration(ideal, errors, Conditions(unknowns=Unknowns(crosstalk=False)), 0)
    assert fitted.calibration.twin.crosstalk == pytest.approx(5e-3, abs=2e-4)
    assert fitted.after <= 4e-3 and ignored.after > 5 * fitted.after


@pytest.mark.parametrize("bits", [6, 10])
def test_a_dac_adds_its_rounding(bits: int) -> None:
    errors = replace(SILICON, dac_bits=bits)
    found = [try_calibration(random_mesh(6, "rectangular", k), errors, Conditions(power_noise=1e-5), k) for k in (1, 2)]
    rounding = expected_error(NonIdealities(dac_bits=bits), 6)
    assert 0.6 * rounding <= np.mean([trial.after for trial in found]) <= 1.4 * rounding


def test_drift_adds_to_the_error_and_a_short_second_calibration_removes_it() -> None:
    ideal = random_mesh(6, "rectangular", 1)
    still = try_calibration(ideal, SILICON, Conditions(aging=0.02), 1)
    assert still.aged is not None and still.renewed is not None
    assert still.aged == pytest.approx(expected_error(NonIdealities(phase_error=0.02), 6), rel=0.4)
    assert still.renewed < 0.2 * still.aged
    drifting = try_calibration(ideal, SILICON, Conditions(drift=3e-3), 1)
    assert still.after < drifting.after < 0.02


@pytest.mark.parametrize("quadrature", [1.0, 0.1])
def test_derivatives_of_what_is_programmed_are_those_of_finite_differences(quadrature: float) -> None:
    """By θ, φ and the phases of the outputs, the gain and the phases that align the outputs held."""
    ideal = random_mesh(4, "rectangular", 1)
    twin = SimulatedChip(disturb(ideal, SILICON, np.random.default_rng(1))).truth()
    twin = replace(twin, offsets=np.zeros_like(twin.offsets))
    devices, target = twin.wiring.devices, target_of(random_mesh(4, "rectangular", 2))
    phases = np.random.default_rng(2).uniform(0, 7, (2, devices))

    def matrix(step: NDArray[np.float64]) -> NDArray[np.complex128]:
        settings = phases + step[: 2 * devices].reshape(2, devices)
        fields = twin.propagate(settings, np.eye(4, dtype=np.complex128))
        return np.asarray(np.exp(1j * step[2 * devices :])[:, None] * fields)

    _, factors = _aligned(matrix(np.zeros(2 * devices + 4)), target)
    residual, jacobian = _residual(twin, phases, target, quadrature)

    def lacking(step: NDArray[np.float64]) -> NDArray[np.float64]:
        difference = (factors[:, None] * matrix(step) - target).ravel()
        return np.concatenate([difference.real, quadrature * difference.imag])

    np.testing.assert_allclose(residual, lacking(np.zeros(2 * devices + 4)), atol=1e-12)
    for parameter, step in enumerate(1e-6 * np.eye(2 * devices + 4)):
        np.testing.assert_allclose(jacobian[:, parameter], (lacking(step) - lacking(-step)) / 2e-6, atol=1e-7)


class Shown(Exception):
    """What a chip was asked for."""

    def __init__(self, settings: NDArray[np.float64]) -> None:
        self.settings = settings


def test_every_other_setting_is_near_what_the_first_twin_takes_for_the_design() -> None:
    """Offsets that the twin knows are subtracted; the other settings are anywhere."""
    ideal = random_mesh(4, "rectangular", 0)
    wiring, designed = wiring_of(ideal), design(ideal)

    class Asked:
        dac_bits = 0

        def __init__(self) -> None:
            self.wiring = wiring

        def powers(self, settings: NDArray[np.float64], vectors: object) -> NoReturn:
            raise Shown(settings)

    offsets = np.repeat([[2.0], [-1.0]], wiring.devices, axis=1)
    start = replace(Twin.ideal(wiring), offsets=offsets)
    with pytest.raises(Shown) as shown:
        calibrate(Asked(), ideal, start=start, settings=200)
    for asked, near in zip(shown.value.settings.swapaxes(0, 1), designed - offsets, strict=True):
        apart = np.abs((asked - near + np.pi) % (2 * np.pi) - np.pi)
        assert asked.shape == (200, wiring.devices)
        assert np.sqrt(np.mean(apart[::2] ** 2)) == pytest.approx(_NEAR, rel=0.1)
        assert np.sqrt(np.mean(apart[1::2] ** 2)) == pytest.approx(np.pi / np.sqrt(3), rel=0.1)


def test_what_powers_do_not_show_does_not_change_them() -> None:
    ideal = random_mesh(4, "rectangular", 0)
    fabricated = disturb(ideal, SILICON, np.random.default_rng(0))
    turned = replace(
        fabricated, fabrication=replace(fabricated.fabrication, output_error=np.array([0.3, 1.0, -2.0, 0.1]))
    )
    chips = (SimulatedChip(fabricated), SimulatedChip(turned))
    powers = [chip.powers(chip.designed[None], probe_vectors(4)) for chip in chips]
    np.testing.assert_allclose(powers[0], powers[1], atol=1e-12)


@pytest.mark.parametrize("noise", [None, 0.02])
def test_detectors_are_as_noisy_as_stated(noise: float | None) -> None:
    """By a thousandth of the input power unless stated, anew in every measurement, and as the seed has it."""
    fabricated = disturb(random_mesh(6, "rectangular", 0), SILICON, np.random.default_rng(0))
    single = np.eye(6, dtype=np.complex128)
    often = np.tile(SimulatedChip(fabricated).designed, (10, 1, 1))
    make = (
        partial(SimulatedChip, fabricated) if noise is None else partial(SimulatedChip, fabricated, power_noise=noise)
    )
    exact, unseeded = SimulatedChip(fabricated, power_noise=0.0), make()
    apart, again, other = (make(seed=seed).powers(often, single) for seed in (0, 0, 1))
    assert np.std(np.subtract(apart, exact.powers(often, single))) == pytest.approx(noise or 1e-3, rel=0.2)
    np.testing.assert_array_equal(apart, again)
    np.testing.assert_array_equal(unseeded.powers(often, single), apart)
    assert not np.array_equal(apart, other) and not np.array_equal(apart[0], apart[1])


@pytest.mark.parametrize(
    "ideal",
    [
        random_mesh(20, "rectangular", 0),
        map_matrix(np.random.default_rng(0).normal(size=(20, 20)), "sigma-u"),
        map_matrix(np.random.default_rng(0).normal(size=(15, 15))),
    ],
    ids=["mesh", "Σ·U", "U·Σ·V†"],
)
def test_phases_walk_by_the_stated_steps_and_are_scrambled_over_a_whole_turn(ideal: Mesh | MappedMatrix) -> None:
    """θ and φ of every device by themselves; once for each setting where the chip drifts, and never where not."""
    fabricated = disturb(ideal, NonIdealities(), np.random.default_rng(0))
    still, drifting = SimulatedChip(fabricated), SimulatedChip(fabricated, drift=0.05)
    often = np.tile(still.designed, (4, 1, 1))
    for chip in (still, drifting):
        chip.powers(often, np.eye(chip.wiring.inputs, 1, dtype=np.complex128))
    assert not still.truth().offsets.any()
    still.age(0.1)
    for chip in (still, drifting):
        steps = chip.truth().offsets
        assert steps.all() and steps.std(axis=1) == pytest.approx([0.1, 0.1], rel=0.2)
        assert abs(np.mean(np.prod(steps, axis=0))) < 0.003 and abs(steps.mean()) < 0.02
    still.scramble()
    anywhere = still.truth().offsets
    assert np.histogram(anywhere, 6, (0, 2 * np.pi))[0] == pytest.approx(np.full(6, anywhere.size / 6), rel=0.4)
    assert abs(np.mean(np.prod(anywhere - np.pi, axis=0))) < 0.3 * np.pi**2 / 3


class Watched:
    """A chip that keeps what it was set to."""

    def __init__(self, chip: SimulatedChip) -> None:
        self.chip, self.wiring, self.dac_bits = chip, chip.wiring, chip.dac_bits
        self.asked: list[tuple[NDArray[np.float64], NDArray[np.complex128]]] = []

    def powers(self, settings: NDArray[np.float64], vectors: NDArray[np.complex128]) -> NDArray[np.float64]:
        self.asked.append((settings, vectors))
        return self.chip.powers(settings, vectors)


@pytest.mark.parametrize("kind", ["rectangular", "triangular"])
def test_coherent_light_meets_one_column_of_even_splittings_among_pure_states(kind: Kind) -> None:
    chip = SimulatedChip(disturb(random_mesh(5, kind, 0), NonIdealities(), np.random.default_rng(0)), power_noise=0.0)
    chip.scramble()
    watched, wiring = Watched(chip), chip.wiring
    first_twin(watched, 0)
    coherent = [commanded for commanded, vectors in watched.asked if not np.array_equal(vectors, np.eye(5))]
    assert len(coherent) == len(wiring.slices)
    for commanded, column in zip(coherent, wiring.slices, strict=True):
        bar: NDArray[np.float64] = np.sin((commanded[:, 0] + chip.truth().offsets[0]) / 2) ** 2
        even = np.isin(np.arange(wiring.devices), np.arange(column.start, column.stop))
        np.testing.assert_allclose(bar[:, even], 0.5, atol=1e-9)
        np.testing.assert_allclose(bar[:, ~even] * (1 - bar[:, ~even]), 0, atol=1e-9)


def test_nonsense_is_refused() -> None:
    fabricated = disturb(random_mesh(2, "rectangular", 0), SILICON, np.random.default_rng(0))
    for wrong in (-0.5, np.nan, np.inf):
        for name in ("power_noise", "drift"):
            with pytest.raises(ConfigError, match=f"{name}={wrong}: expected a finite number of at least 0"):
                SimulatedChip(fabricated, **{name: wrong})  # type: ignore[arg-type]
    for name in ("power_noise", "drift", "aging"):
        with pytest.raises(ConfigError, match=f"{name}=-1.0: expected a finite number of at least 0"):
            Conditions(**{name: -1.0})  # type: ignore[arg-type]
        assert getattr(Conditions(**{name: 10.0}), name) == 10  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=f"{name}=10.5: expected at most 10 "):
            Conditions(**{name: 10.5})  # type: ignore[arg-type]
    assert Conditions(settings=1).settings == 1
    with pytest.raises(ConfigError, match="settings=0: expected at least 1"):
        Conditions(settings=0)
    chip = SimulatedChip(disturb(random_mesh(3, "rectangular", 0), SILICON, np.random.default_rng(0)))
    with pytest.raises(ConfigError, match="a chip of 3 interferometers, 6 phases for it"):
        calibrate(chip, random_mesh(4, "rectangular", 0))
    with pytest.raises(ConfigError, match="settings=0: expected at least 1"):
        calibrate(chip, random_mesh(3, "rectangular", 0), settings=0)
    with pytest.raises(ConfigError, match="modes=0"):
        random_mesh(0, "rectangular", 0)
