"""Networks in wider layers, the paper's structures among them: the same function, and every matrix of squares Σ · U."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.photonics.averaging.construct import Construction, build, embed, recognise
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.mapped import map_network
from lightloom.photonics.averaging.networks import TABLE_I, TABLE_II, LayeredNetwork, PaperNetwork, light_units
from lightloom.photonics.averaging.proof import noise_limit, verify, with_measured_full_scale
from lightloom.photonics.meshes.files import load_phases, save_phases
from lightloom.photonics.meshes.mapping import MeshMapping, approximate, square_places

ROUNDING = 4e-15
GRIDS = (28_561, 390_625, 5_764_801, 13_845_841)


def overlap(network: LayeredNetwork) -> float:
    """The largest cosine of the angle between two rows of a square of any matrix."""
    largest = 0.0
    for matrix in network.weights:
        for rows, columns in square_places((matrix.shape[0], matrix.shape[1])):
            square = matrix[np.ix_(rows, columns)]
            lengths = np.linalg.norm(square, axis=1)
            units = square[lengths > 0] / lengths[lengths > 0, None]
            largest = max(largest, float(np.abs(units @ units.T - np.eye(len(units))).max(initial=0.0)))
    return largest


@settings(max_examples=40, deadline=None)
@given(st.data(), st.lists(st.integers(1, 5), min_size=3, max_size=6), st.sampled_from(["relu", "clipped"]))
def test_any_network_fits_into_any_layers_that_are_wide_enough(data: st.DataObject, live: list[int], kind: str) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shapes = list(zip(live[1:], live, strict=False))
    plain = LayeredNetwork.of(
        [rng.standard_normal(s) for s in shapes],
        [rng.standard_normal(n) for n, _ in shapes],
        kind,  # type: ignore[arg-type]
    )
    least = max(live) * max(live[0], live[-1], 2)
    wide = [live[0], *(data.draw(st.integers(least, least + 30)) for _ in live[1:-1]), live[-1]]
    whole = embed(plain, wide).network
    light = rng.random((live[0], 50))
    assert whole.layers == tuple(wide)
    np.testing.assert_allclose(whole(light), plain(light), rtol=0, atol=1e-12)
    assert overlap(whole) < ROUNDING
    for matrix in whole.weights:
        np.testing.assert_allclose(approximate(matrix), matrix, rtol=0, atol=1e-13 * np.abs(matrix).max())
    pruned = whole.pruned(noise=False)
    assert pruned.layers == plain.layers and max(whole.pruned(noise=True).layers) <= max(wide)
    np.testing.assert_allclose(whole.pruned(noise=True)(light), plain(light), rtol=0, atol=1e-12)


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(servers=st.integers(1, 5), bits=st.integers(1, 6), width=st.integers(60, 90), depth=st.integers(5, 8))
def test_small_averagers_are_exact_in_wide_layers(servers: int, bits: int, width: int, depth: int) -> None:
    function = AveragingFunction.of(servers, bits)
    layers = [len(function.inputs), *[width] * depth, function.outputs]
    made = build(servers, bits, layers=layers)
    assert made.network.layers == tuple(layers) and made.proof.float64
    assert made.verify().wrong_outputs == 0 and overlap(made.network) < ROUNDING


@cache
def printed(row: PaperNetwork) -> Construction:
    return build(row.servers, row.bits, layers=row.layers)


@pytest.mark.long
def test_the_papers_first_structure_without_training(tmp_path: Path) -> None:
    made = printed(TABLE_I[0])
    points = np.concatenate(list(made.function.grid()), axis=1)
    signals = np.asarray(made.network(made.function.light(points)), np.float64)  # all of them, dark ones too
    assert (made.function.decide(signals) == made.function.expected(points)).all()
    assert made.mzi_count == TABLE_I[0].area(units=False) == 41_664
    found = recognise(made.network, made.function)
    assert found is not None and found.name == made.name and found.proof.steps == made.proof.steps
    replayed(made, tmp_path / "phases.npz")


def replayed(made: Construction, path: Path) -> None:
    """Every input through the network that the phases of a file implement."""
    network = made.network
    save_phases({str(i): m for i, m in enumerate(map_network(network, MeshMapping(form="sigma-u")).matrices)}, path)
    units = light_units(network)
    matrices = [part.matrix().real for part in load_phases(path).values()]
    weights = tuple(m * units[i + 1] / units[i] for i, m in enumerate(matrices))
    result = verify(LayeredNetwork(weights, network.biases, network.nonlinearity, network.full_scale), made.function)
    assert result.exhaustive and result.wrong_outputs == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_the_papers_structures_on_their_whole_grids(number: int, tmp_path: Path) -> None:
    """Every matrix of a network is of squares: so it stands for each selection of layers, as in Table II."""
    row = TABLE_I[number]
    made = printed(row)
    result = made.verify()
    assert (result.exhaustive, result.checked_inputs, result.wrong_outputs) == (True, GRIDS[number], 0)
    assert overlap(made.network) < ROUNDING
    for other in (row, *(TABLE_II if number == 3 else ())):
        assert other.layers == made.network.layers and made.mzi_count <= other.area(units=False)
    replayed(made, tmp_path / "phases.npz")


@pytest.mark.long
def test_dark_signals_count_in_the_tolerance() -> None:
    """What a signal is off by that should be 0 reaches others through the entries that make rows orthogonal."""
    made = printed(TABLE_I[0])
    alone = Construction(made.name, made.function, made.realised)
    assert 0 < made.proof.tolerance < alone.proof.tolerance
    silent = with_measured_full_scale(made.network, made.function)
    limits = [noise_limit(n, made.function, evaluations=20_000) for n in (made.network, silent)]
    assert 3e-4 < limits[0] < limits[1] < 2e-3


@pytest.mark.long
def test_too_narrow_layers_are_refused() -> None:
    for layers in ((4, 8, 4), (4, 12, 12, 12, 12, 12, 4), (4, 4), (3, 64, 64, 64, 64, 64, 4)):
        with pytest.raises(UnsupportedError, match="fits into"):
            build(4, 8, layers=layers)
