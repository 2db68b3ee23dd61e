"""Any matrix as meshes: exact where it says so, with as many MZIs as the formulas say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.core.errors import InputError
from lightloom.photonics.averaging.function import (
    preprocessing_matrix,
    splitting_loss_db,
    splitting_matrix,
)
from lightloom.photonics.meshes.decompose import switch
from lightloom.photonics.meshes.mapping import (
    Form,
    MappedBlocks,
    approximate,
    approximated_count,
    compact_count,
    connected_components,
    crossings,
    decibels,
    full_count,
    map_blocks,
    map_components,
    map_matrix,
    network_count,
    row_gains,
    sigma_u,
)

sizes = st.integers(1, 20)


def matrices(outputs: int, inputs: int, seed: int, real: bool) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    made: NDArray[Any] = rng.normal(size=(outputs, inputs)) * float(rng.choice([0.01, 1, 30]))
    return made if real else made + 1j * rng.normal(size=made.shape)


@given(sizes, sizes, st.integers(0, 999), st.booleans(), st.sampled_from(["svd", "economy"]))
@settings(max_examples=60, deadline=None)
def test_mapping_is_exact_and_takes_the_counted_mzis(
    outputs: int, inputs: int, seed: int, real: bool, form: Form
) -> None:
    matrix = matrices(outputs, inputs, seed, real)
    mapped = map_matrix(matrix, form)
    scale = float(np.linalg.norm(matrix, 2))
    assert np.abs(mapped.matrix() - matrix).max() <= 1e-12 * max(scale, 1)
    assert mapped.mzis == full_count(outputs, inputs, "economy" if form == "economy" else "paper")
    assert (mapped.attenuations <= 1).all()
    passive = matrix / mapped.gains[:, None]
    assert np.linalg.norm(passive, 2) == pytest.approx(1.0)
    np.testing.assert_allclose(np.linalg.norm(passive, axis=1), np.linalg.norm(passive[0]))
    common = map_matrix(matrix, form, gains="common")
    assert common.gains == pytest.approx(np.full(outputs, max(1.0, scale)))
    assert np.abs(common.matrix() - matrix).max() <= 1e-12 * max(scale, 1)


@given(sizes, sizes, st.integers(0, 999), st.sampled_from(["svd", "economy", "compact"]), st.floats(0.05, 0.9))
@settings(max_examples=60, deadline=None)
def test_components_are_exact_and_nothing_joins_them(
    outputs: int, inputs: int, seed: int, form: Form, share: float
) -> None:
    rng = np.random.default_rng(seed)
    matrix = matrices(outputs, inputs, seed, True) * (rng.random((outputs, inputs)) < share)
    mapped = map_components(matrix, form)
    assert np.abs(mapped.matrix() - matrix).max() <= 1e-12 * max(float(np.linalg.norm(matrix, 2)), 1)
    parts = connected_components(matrix)
    rest = matrix.copy()
    for rows, columns in parts:
        assert len(connected_components(matrix[np.ix_(rows, columns)])) == 1
        rest[np.ix_(rows, columns)] = 0
    assert not rest.any()
    for ends in zip(*parts, strict=True):
        assert np.unique(np.concatenate(ends)).size == sum(end.size for end in ends)
    if form == "compact":
        ranks = [int(np.linalg.matrix_rank(matrix[np.ix_(rows, columns)])) for rows, columns in parts]
        sides = zip(parts, ranks, strict=True)
        counts = [compact_count(rows.size, columns.size, rank) for (rows, columns), rank in sides]
        assert mapped.mzis == sum(counts) <= map_components(matrix, "economy").mzis


@pytest.mark.parametrize("seed", [0, 1])
def test_components_lie_beside_each_other(seed: int) -> None:
    """As deep as the deepest of them, with all of their MZIs, each alone as it is beside the others."""
    first, second = matrices(2, 3, seed, False), matrices(5, 4, seed, False)
    mapped = map_components(np.block([[first, np.zeros((2, 4))], [np.zeros((5, 3)), second]]))
    parts = [map_matrix(part, "compact") for part in (first, second)]
    assert mapped.depth == max(part.depth for part in parts) > min(part.depth for part in parts)
    assert mapped.mzis == sum(part.mzis for part in parts)
    np.testing.assert_allclose(mapped.gains, np.concatenate([part.gains for part in parts]))
    assert mapped.gain == mapped.gains.max()


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 5)])
def test_a_dark_matrix_has_no_components(shape: tuple[int, int]) -> None:
    dark = map_components(np.zeros(shape))
    assert (dark.blocks, dark.depth, dark.mzis, dark.gain) == ((), 0, 0, 1.0)
    assert np.array_equal(dark.matrix() @ np.ones(shape[1]), np.zeros(shape[0]))


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8), st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_a_compact_mapping_leaves_out_modes_beyond_the_rank(outputs: int, inputs: int, rank: int, seed: int) -> None:
    rank = min(rank, outputs, inputs)
    matrix = matrices(outputs, rank, seed, False) @ matrices(rank, inputs, seed + 1, False)
    mapped = map_matrix(matrix, "compact")
    assert np.abs(mapped.matrix() - matrix).max() <= 1e-11 * max(float(np.linalg.norm(matrix, 2)), 1)
    assert mapped.mzis == rank * (outputs + inputs) - rank**2
    # A rank that is not that of the matrix, or none, is refused.
    for wrong in (0, min(outputs, inputs) + 1):
        with pytest.raises(InputError, match="expected 1 to"):
            compact_count(outputs, inputs, wrong)


@given(st.permutations(range(9)))
def test_crossings_are_exchanges_of_neighbours(places: list[int]) -> None:
    """Bubble sort exchanges neighbours, as a crossing does, and needs the fewest of them."""
    order, exchanged = list(places), 0
    for last in range(len(order) - 1, 0, -1):
        for k in range(last):
            if order[k] > order[k + 1]:
                order[k], order[k + 1] = order[k + 1], order[k]
                exchanged += 1
    assert crossings(places).sum() == 2 * exchanged


def test_shared_waveguides_cost_gain() -> None:
    """A splitter to k blocks, or a combiner of k, loses a factor of √k, which amplifiers make up for."""
    for matrix in (np.vstack([np.eye(2)] * 4), np.hstack([np.eye(2)] * 4)):
        assert map_blocks(matrix).gains.tolist() == pytest.approx([2.0] * len(matrix))
        assert map_matrix(matrix).gains.tolist() == pytest.approx(map_blocks(matrix).gains.tolist())


def test_gains_make_up_for_the_input_that_most_blocks_share_and_for_combiners_of_each_output() -> None:
    first, second = (map_matrix(matrices(2, 2, seed, False)) for seed in (0, 1))
    inputs, outputs = (np.array([0, 1]), np.array([1, 2])), (np.array([2, 0]), np.array([0, 3]))
    joined = MappedBlocks(shape=(5, 3), blocks=(first, second), inputs=inputs, outputs=outputs)
    most = max(2 * first.gains[1], 2 * second.gains[0])
    expected = [most, 1.0, np.sqrt(2) * first.gains[0], np.sqrt(2) * second.gains[1], 1.0]
    np.testing.assert_allclose(joined.gains, expected)
    total = np.zeros((5, 3), np.complex128)
    total[np.ix_([2, 0], [0, 1])] += first.matrix()
    total[np.ix_([0, 3], [1, 2])] += second.matrix()
    np.testing.assert_allclose(joined.matrix(), total, atol=1e-12)
    many = joined.joined([np.stack([block.matrix(), 2 * block.matrix()])[:, None] for block in joined.blocks])
    np.testing.assert_allclose(many, np.stack([total, 2 * total])[:, None], atol=1e-12)


def test_zeros_and_rank_one_are_matrices_too() -> None:
    for matrix in (np.zeros((3, 5)), np.outer([1.0, 2, 3], [0.5, -1]), np.eye(4)):
        for form in ("svd", "economy"):
            assert np.abs(map_matrix(matrix, form).matrix() - matrix).max() <= 1e-14


@given(sizes, sizes, st.integers(0, 999), st.booleans())
@settings(max_examples=40, deadline=None)
def test_blocks_carry_out_the_approximation(outputs: int, inputs: int, seed: int, real: bool) -> None:
    matrix = matrices(outputs, inputs, seed, real)
    mapped = map_blocks(matrix)
    rows = np.abs(mapped.matrix() - approximate(matrix)).max()
    assert rows <= 1e-12 * max(np.abs(matrix).max() * len(matrix), 1)
    assert mapped.mzis == approximated_count(outputs, inputs)


@given(st.integers(1, 12), st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_the_scales_are_the_least_squares_ones(size: int, seed: int) -> None:
    """Eq. 6: no other scale of a row comes closer; and what has the form Σ·U already is kept."""
    matrix = matrices(size, size, seed, real=True)
    unitary, scales = sigma_u(matrix)
    np.testing.assert_allclose(unitary @ unitary.T, np.eye(size), atol=1e-12)
    best = np.linalg.norm(matrix - scales[:, None] * unitary, axis=1)
    for nudge in (0.99, 1.01):
        assert (np.linalg.norm(matrix - nudge * scales[:, None] * unitary, axis=1) >= best - 1e-12).all()
    projected = 0.7 * unitary
    np.testing.assert_allclose(approximate(projected), projected, atol=1e-12)


def test_p_takes_the_mean_of_the_digits_and_t_gives_it_to_all() -> None:
    digits = np.random.default_rng(0).integers(0, 4, (3, 6))  # servers, signals
    found = preprocessing_matrix(3, 6, 3) @ digits.reshape(-1)
    np.testing.assert_allclose(found, (digits[:, 0::2] * 4 + digits[:, 1::2]).mean(0))
    odd = preprocessing_matrix(2, 5, 3)  # the first group has one digit
    np.testing.assert_allclose(odd[:, :5] * 2, [[1, 0, 0, 0, 0], [0, 4, 1, 0, 0], [0, 0, 0, 4, 1]])
    assert splitting_matrix(1, 3).tolist() == np.eye(3).tolist()
    split = splitting_matrix(3, 4)
    np.testing.assert_allclose(split.T @ split, np.eye(4), atol=1e-15)
    for matrix in (preprocessing_matrix(3, 6, 3), split):
        assert np.abs(map_matrix(matrix).matrix() - matrix).max() <= 1e-12
    assert splitting_loss_db(4, columns=10, loss_db=0.1) == pytest.approx(7.0206, abs=1e-4)
    copies = np.abs(split @ [0, 0, 1, 0]) ** 2
    assert copies[2] == pytest.approx(10 ** (-splitting_loss_db(3) / 10))


@given(st.permutations(range(13)), st.sampled_from(["rectangular", "triangular"]))
@settings(max_examples=30, deadline=None)
def test_a_mesh_switches_any_permutation(destinations: list[int], kind: Any) -> None:
    mesh = switch(destinations, kind)
    assert np.isin(mesh.theta, [0.0, np.pi]).all()
    np.testing.assert_allclose(mesh.propagate(np.arange(13))[destinations], np.arange(13), atol=1e-13)


def test_bad_input_is_refused() -> None:
    for call, message in [
        (lambda: map_matrix(np.full((2, 2), np.nan)), "finite number"),
        (lambda: map_matrix(np.eye(2), "qr"), "unknown form"),  # type: ignore[arg-type]
        (lambda: map_matrix(np.eye(2), gains="columns"), "unknown gains"),  # type: ignore[arg-type]
        (lambda: map_matrix(np.ones((2, 3)), "sigma-u"), "map_blocks"),
        (lambda: map_components(np.eye(3), "sigma-u"), "sigma-u"),
        (lambda: sigma_u(np.ones((2, 3))), "expected a square one"),
        (lambda: switch([0, 0]), "expected each of 0 to 1 once"),
        (lambda: switch([]), "expected each"),
        (lambda: full_count(0, 3), "at least 1 x 1"),
        (lambda: full_count(3, 0), "at least 1 x 1"),
        (lambda: compact_count(0, 3, 1), "at least 1 x 1"),
        (lambda: approximated_count(3, 0), "at least 1 x 1"),
        (lambda: network_count([4]), "at least an input"),
        (lambda: network_count([4, 4], [2]), "approximated layer 2"),
        (lambda: preprocessing_matrix(0, 4, 4), "servers=0"),
        (lambda: preprocessing_matrix(2, 4, 3), "inputs=3"),
        (lambda: splitting_matrix(0, 1), "servers=0"),
        (lambda: preprocessing_matrix(2, 0, 1), "signals=0"),
        (lambda: preprocessing_matrix(2, 4, 0), "inputs=0"),
        (lambda: splitting_matrix(1, 0), "signals=0"),
        (lambda: splitting_loss_db(0), "servers=0"),
        (lambda: splitting_loss_db(1, columns=-1), "columns=-1"),
        (lambda: splitting_loss_db(1, loss_db=-1.0), "loss_db=-1.0"),
        (lambda: splitting_loss_db(1, loss_db=np.nan), "loss_db=nan"),
    ]:
        with pytest.raises(InputError, match=message):
            call()  # type: ignore[no-untyped-call]


def test_gains_of_rows_scale_each_row_to_length_one_and_all_to_norm_one() -> None:
    """Rows of zeros, and matrices of zeros, stay as they are."""
    matrix = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [0.0, 12.0, 5.0]])
    lengths = np.array([5.0, 1.0, 13.0])
    gains = row_gains(matrix)
    assert gains / gains[1] == pytest.approx(lengths)
    assert np.linalg.norm(matrix / gains[:, None], 2) == pytest.approx(1)
    assert row_gains(np.zeros((2, 3))).tolist() == [1.0, 1.0]


@given(st.integers(1, 6), st.integers(0, 999), st.booleans(), st.floats(-3.0, 3.0))
@settings(max_examples=30, deadline=None)
def test_scales_of_the_approximation_are_gains_or_attenuations(
    size: int, seed: int, real: bool, decades: float
) -> None:
    """With a gain for each output nothing but rows of zeros is attenuated; with a common one, all below the largest."""
    matrix = matrices(size, size, seed, real) * 10**decades
    matrix[seed % 7 : seed % 7 + 1] = 0.0
    unitary, scales = sigma_u(matrix)
    rows, common = (map_matrix(matrix, "sigma-u", gains=gains) for gains in ("rows", "common"))
    for mapped in (rows, common):
        np.testing.assert_allclose(mapped.matrix(), scales[:, None] * unitary, atol=1e-12 * max(1.0, scales.max()))
    assert rows.attenuations.tolist() == (scales > 0).tolist()
    assert rows.gains.tolist() == np.where(scales > 0, scales, 1.0).tolist()
    assert common.gains.tolist() == [max(1.0, scales.max())] * size


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 5), st.integers(0, 999), st.floats(-9.0, 6.0))
@settings(max_examples=30, deadline=None)
def test_a_compact_form_has_as_many_attenuators_as_the_matrix_has_rank(
    outputs: int, inputs: int, rank: int, seed: int, decades: float
) -> None:
    """Whatever its scale; a matrix of zeros has one."""
    rng = np.random.default_rng(seed)
    matrix = 10**decades * rng.normal(size=(outputs, rank)) @ rng.normal(size=(rank, inputs))
    for gains in ("rows", "common"):
        mapped = map_matrix(matrix, "compact", gains=gains)
        assert mapped.attenuations.size == max(1, min(rank, outputs, inputs))
        np.testing.assert_allclose(mapped.matrix(), matrix, atol=1e-10 * 10**decades * 30)


def test_gains_in_decibels_are_those_of_powers() -> None:
    assert [decibels(gain) for gain in (0.1, 1.0, 10.0**0.5, 100.0)] == pytest.approx([-20.0, 0.0, 10.0, 40.0])
