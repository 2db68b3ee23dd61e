"""Steps of a fit and of programming end by their stated rules; probes, orders and unknowns are what is said of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.photonics.devices import NonIdealities, mzi
from lightloom.photonics.meshes.calibration.calibrate import measure_powers, probe_vectors
from lightloom.photonics.meshes.calibration.chip import SimulatedChip
from lightloom.photonics.meshes.calibration.fit import (
    Measured,
    Twin,
    Unknowns,
    _moved,
    _normal_equations,
    fit,
    power_derivatives,
    program,
    reachable_order,
)
from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.disturb import disturb, wiring_of
from lightloom.photonics.meshes.mapping import map_matrix
from lightloom.photonics.meshes.mesh import Mesh
from tests.photonics.meshes.strategies import haar

FIT, PROGRAMMING = (sys.modules[part.__module__] for part in (fit, program))
ROUGH = NonIdealities(phase_error=0.1, coupler_error=0.05, thermal_crosstalk=0.02, loss_db=0.2)


@given(st.integers(1, 12))
@example(1)
@example(2)
def test_no_probe_is_given_twice(inputs: int) -> None:
    """Single inputs, then waves of all inputs with k turns of phase from one end to the other: one for one input."""
    probes = probe_vectors(inputs)
    assert probes.shape == (inputs, 2 * inputs if inputs > 1 else 1)
    np.testing.assert_array_equal(probes[:, :inputs], np.eye(inputs))
    for turns in range(probes.shape[1] - inputs):
        wave = np.exp(-2j * np.pi * turns * np.arange(inputs) / inputs) / np.sqrt(inputs)
        np.testing.assert_allclose(probes[:, inputs + turns], wave, atol=1e-12)
    for one, other in combinations(probes.T, 2):
        assert abs(np.vdot(one, other)) < 0.8


def _out_of_reach(mesh: Mesh, twin: Twin) -> int:
    """Splittings that no phase θ of a device gives, by the powers that θ = 0 and θ = π split off."""
    wanted = np.abs(mzi(mesh.theta, 0.0)[:, 0, 0])
    first, second = twin.couplers
    ends = np.abs([mzi(angle, np.zeros(mesh.mzis), first=first, second=second)[:, 0, 0] for angle in (0, np.pi)])
    return int(((wanted < ends.min(0) - 1e-12) | (wanted > ends.max(0) + 1e-12)).sum())


@given(st.integers(0, 999), st.integers(0, 5), st.sampled_from([0.05, 0.15, 0.3]), st.sampled_from([3, 4]))
@example(0, 0, 0.3, 4)
@settings(deadline=None, max_examples=20)
def test_the_first_of_the_orders_with_the_fewest_splittings_out_of_reach_is_taken(
    seed: int, tries: int, spread: float, modes: int
) -> None:
    ideal = decompose(haar(modes, seed))
    couplers = spread * np.random.default_rng(seed).normal(size=(2, ideal.mzis))
    twin = replace(Twin.ideal(wiring_of(ideal)), couplers=couplers)
    tried: list[Mesh] = [ideal]

    def remembered(matrix: NDArray[Any], kind: Any) -> Mesh:
        tried.append(decompose(matrix, kind))
        return tried[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PROGRAMMING, "decompose", remembered)
        order, mesh = reachable_order(twin, ideal, tries, seed)
    outside = [_out_of_reach(candidate, twin) for candidate in tried]
    assert mesh is tried[outside.index(min(outside))]
    assert len(tried) == (outside.index(0) + 1 if 0 in outside else tries + 1)
    np.testing.assert_allclose(mesh.matrix(), ideal.matrix()[order], atol=1e-9)
    assert mesh is not ideal or order.tolist() == list(range(modes))


@pytest.mark.parametrize("seed", range(6))
def test_many_tries_find_the_best_of_all_orders(seed: int) -> None:
    ideal = decompose(haar(3, seed))
    couplers = 0.3 * np.random.default_rng(seed).normal(size=(2, ideal.mzis))
    twin = replace(Twin.ideal(wiring_of(ideal)), couplers=couplers)
    fewest = min(_out_of_reach(decompose(ideal.matrix()[list(rows)]), twin) for rows in permutations(range(3)))
    assert _out_of_reach(reachable_order(twin, ideal, 60, seed)[1], twin) == fewest


SQUARES = st.lists(st.sampled_from([0, 1, 4, 15, 16, 60, 64, 200, 256, 998, 999, 1000]), min_size=1, max_size=20)


@given(SQUARES, st.integers(0, 14))
@example([256, 64, 16, 4, 1], 14)
@example([1000, 999, 998, 256], 14)
@example([64, *[64] * 12], 14)
@example([64, *[256] * 7, 16, *[256] * 12], 14)
@settings(deadline=None)
def test_a_fit_takes_what_lowers_the_squares_and_ends_by_its_rules(values: list[int], steps: int) -> None:
    """Halving the residual is exactly the share of one half, and so no reason to end.

    The damping is the residual times a factor that every step that helps divides by 4, and every other one takes
    times 8.
    """
    script, dampings, finished = iter([*values, *[10**6] * 20]), list[float](), list[int]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FIT, "_normal_equations", lambda *_: (np.eye(1), np.ones(1), float(next(script))))
        patched.setattr(FIT, "_solve", lambda *given: dampings.append(float(given[-1])))
        patched.setattr(FIT, "_moved", lambda twin, *_: twin + 1)
        measured = Measured(
            settings=np.ones((1, 2, 1)),
            vectors=np.ones((1, 1), np.complex128),
            powers=np.ones(4),
        )
        start: Any = 0
        found: Any
        found, residuals = fit(start, measured, Unknowns(), steps=steps, tolerance=0.5, advance=finished.append)
    reference, expected, factor = iter([*values, *[10**6] * 20]), [0.0], 1.0
    expected[0] = current = float(next(reference))
    damped, quiet, refused, taken = list[float](), 0, 0, 0
    while len(expected) <= steps and quiet < 2 and refused < 8:
        damped.append(factor * np.sqrt(current))
        offered = float(next(reference))
        if offered < current:
            quiet, refused, taken, factor = (quiet + 1 if 4 * offered > current else 0), 0, taken + 1, factor / 4
            current = offered
        else:
            refused, factor = refused + 1, factor * 8
        expected.append(current)
    assert residuals == pytest.approx(np.sqrt(np.array(expected) / 4))
    assert found == taken
    assert len(finished) == len(expected) - 1 and set(finished) <= {1}
    assert dampings == pytest.approx(damped, rel=1e-9, abs=1e-11)


@given(SQUARES, st.integers(0, 14))
@example([1000, 998, 997, 996, 995], 14)
@example([1000, 999, 998, 997, 256], 14)
@example([64, *[64] * 12], 14)
@example([64, 0, 64], 14)
@settings(deadline=None)
def test_programming_takes_what_lowers_the_squares_and_ends_by_its_rules(values: list[int], steps: int) -> None:
    """A residual of n ones has the square n: from 1000 to 998 is exactly 0.2 %, and so no reason to end."""
    ideal = decompose(haar(2, 0))
    twin, target = Twin.ideal(wiring_of(ideal)), ideal.matrix()
    script, dampings = iter([*values, *[2000] * 20]), list[float]()

    def residual(*_: object) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        squares = next(script)
        return np.ones(squares), np.zeros((squares, 1))

    def solved(*given: Any) -> NDArray[np.float64]:
        dampings.append(float(given[-1]))
        return np.zeros(2 * twin.wiring.devices)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(PROGRAMMING, "_residual", residual)
        patched.setattr(PROGRAMMING, "_solve", solved)
        _, errors = program(twin, target, ideal.phases, steps=steps)
    reference, factor = iter([*values, *[2000] * 20]), 1.0
    current = next(reference)
    expected, damped, quiet, refused = [current], list[float](), 0, 0
    while len(expected) <= steps and quiet < 3 and refused < 8 and current:
        damped.append(factor * np.sqrt(current))
        offered = next(reference)
        if offered < current:
            quiet, refused, factor = (quiet + 1 if 1000 * offered > 998 * current else 0), 0, factor / 4
            current = offered
        else:
            refused, factor = refused + 1, factor * 8
        expected.append(current)
    assert errors == pytest.approx(np.sqrt(np.array(expected) / 2))
    assert dampings == pytest.approx(damped, rel=1e-9, abs=1e-11)


def _measured(modes: int, count: int) -> tuple[Twin, Measured]:
    chip = SimulatedChip(disturb(map_matrix(haar(modes, 0)), ROUGH, np.random.default_rng(0)), power_noise=1e-3)
    commanded = np.random.default_rng(1).uniform(0, 7, (count, 2, chip.wiring.devices))
    vectors = probe_vectors(modes)
    return chip.truth(), Measured(settings=commanded, vectors=vectors, powers=chip.powers(commanded, vectors))


@pytest.mark.parametrize("held", [0, 1, 2, 3, 5, 9])
def test_normal_equations_are_the_same_however_many_settings_are_held_at_a_time(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more derivatives are held than stated, but for those of a single setting."""
    twin, measured = _measured(2, 5)
    one = 6 * twin.wiring.devices * measured.powers[0].size
    expected, jacobian = power_derivatives(twin, measured.settings, measured.vectors, Unknowns())
    parts = list[int]()

    def counted(twin: Twin, part: NDArray[np.float64], *rest: Any) -> Any:
        parts.append(len(part))
        return power_derivatives(twin, part, *rest)

    monkeypatch.setattr(FIT, "_VALUES", held * one)
    monkeypatch.setattr(FIT, "power_derivatives", counted)
    matrix, gradient, squares = _normal_equations(twin, measured, Unknowns())
    difference = (measured.powers - expected).ravel()
    np.testing.assert_allclose(np.tril(matrix), np.tril(jacobian @ jacobian.T), atol=1e-10)
    np.testing.assert_allclose(gradient, jacobian @ difference, atol=1e-12)
    assert squares == pytest.approx(float((difference**2).sum()))
    size = max(held, 1)
    assert parts == [min(size, 5 - start) for start in range(0, 5, size)]


@pytest.mark.parametrize(("couplers", "heaters", "crosstalk", "loss"), list(product([False, True], repeat=4)))
def test_unknowns_are_the_rows_of_the_derivatives_and_what_a_step_moves(
    couplers: bool, heaters: bool, crosstalk: bool, loss: bool
) -> None:
    twin, measured = _measured(2, 2)
    devices = twin.wiring.devices
    unknowns = Unknowns(couplers=couplers, heaters=heaters, crosstalk=crosstalk, loss=loss)
    kept = np.repeat([True, couplers, heaters, crosstalk, loss], [2 * devices] * 3 + [1, 1])
    whole_powers, whole = power_derivatives(twin, measured.settings, measured.vectors, Unknowns())
    powers, part = power_derivatives(twin, measured.settings, measured.vectors, unknowns)
    np.testing.assert_array_equal(powers, whole_powers)
    np.testing.assert_allclose(part, whole[kept], atol=1e-14)
    step = np.random.default_rng(3).normal(size=kept.size)
    moved, before = _moved(twin, unknowns, step[kept]), _parameters(twin)
    np.testing.assert_allclose(_parameters(moved), before + np.where(kept, step, 0.0), atol=1e-14)
    fitted = _parameters(fit(twin, measured, unknowns, steps=3)[0])
    assert not (fitted - before)[~kept].any()


def _parameters(twin: Twin) -> NDArray[np.float64]:
    return np.concatenate([*twin.offsets, *twin.couplers, *twin.efficiencies, [twin.crosstalk, twin.loss_db]])


def test_what_no_power_shows_keeps_its_value() -> None:
    """Single inputs pass the first φ of each waveguide alone: their powers do not depend on it."""
    ideal = decompose(haar(2, 0))
    chip = SimulatedChip(disturb(ideal, NonIdealities(phase_error=0.3), np.random.default_rng(0)), power_noise=0.0)
    commanded, single = np.random.default_rng(1).uniform(0, 7, (6, 2, 1)), np.eye(2, dtype=np.complex128)
    measured = Measured(settings=commanded, vectors=single, powers=chip.powers(commanded, single))
    start = replace(Twin.ideal(chip.wiring), offsets=np.array([[0.0], [0.7]]))
    fitted, _ = fit(start, measured, Unknowns(couplers=False, heaters=False, crosstalk=False, loss=False))
    assert fitted.offsets[1] == pytest.approx(0.7, abs=1e-9)
    assert fitted.offsets[0] == pytest.approx(chip.truth().offsets[0], abs=1e-6)


@pytest.mark.parametrize("bits", [0, 3])
def test_measured_settings_are_those_that_the_dac_gives(bits: int) -> None:
    ideal = decompose(haar(3, 0))
    chip = SimulatedChip(disturb(ideal, NonIdealities(dac_bits=bits), np.random.default_rng(0)), power_noise=0.0)
    measured = measure_powers(chip, 6, ideal.phases, 0)
    for phases in measured.settings.swapaxes(0, 1):
        steps = phases / (2 * np.pi / 8)
        assert phases.shape == (6, 3) and np.allclose(steps, np.round(steps), atol=1e-9) == bool(bits)
    ideal_twin = Twin.ideal(chip.wiring)
    expected = np.abs(ideal_twin.propagate(measured.settings, measured.vectors)) ** 2
    np.testing.assert_allclose(measured.powers, expected, atol=1e-12)
