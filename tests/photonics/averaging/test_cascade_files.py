"""Cascades that are stored come back as they were, are mapped exactly, and err only where their devices do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.photonics.averaging.cascade import (
    Cascade,
    PlainLevel,
    build_cascade,
    cascade_hash,
    is_cascade,
    load_cascade,
    random_codes,
    save_cascade,
)
from lightloom.photonics.averaging.construct import Construction
from lightloom.photonics.averaging.function import LEVELS, symbols_for
from lightloom.photonics.averaging.mapped import cascade_accuracy, cascade_matrices, map_cascade
from lightloom.photonics.averaging.networks import LayeredNetwork
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.disturb import monte_carlo, spread


@pytest.fixture(scope="module")
def cascade() -> Cascade:
    return build_cascade(2, 2, 4, "clipped")


def test_a_stored_cascade_is_recognised_and_averages_alike(cascade: Cascade, tmp_path: Path) -> None:
    path = save_cascade(tmp_path / "cascade.npz", cascade)
    assert is_cascade(path)
    read = load_cascade(path)
    assert (read.bits, read.groups, read.servers, read.mzi_count) == (4, 2, 2, cascade.mzi_count)
    assert cascade_hash(read) == cascade_hash(cascade)
    for level, stored in ((cascade.first, read.first), (cascade.second, read.second)):
        assert isinstance(stored, Construction) and stored.name == level.name
        assert stored.network.same_weights(level.network)
    codes = random_codes(2, 2, 4, 1000, np.random.default_rng(0))
    np.testing.assert_array_equal(read.average(codes), codes.sum(axis=(0, 1)) // 4)


def test_weights_of_another_make_are_a_level_without_proof(cascade: Cascade, tmp_path: Path) -> None:
    network = cascade.second.network
    moved = LayeredNetwork(
        (network.weights[0] * (1 + 1e-13), *network.weights[1:]),
        network.biases,
        network.nonlinearity,
        network.full_scale,
    )
    other = Cascade(4, 2, 2, cascade.first, PlainLevel("trained", cascade.second.function, moved))
    read = load_cascade(save_cascade(tmp_path / "cascade.npz", other))
    assert not isinstance(read.second, Construction) and read.second.verify().wrong_outputs == 0
    assert cascade_hash(other) != cascade_hash(cascade)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"schema": "lightloom.cascade/9"}, "schema 'lightloom.cascade/9', expected 'lightloom.cascade/1'"),
        ({"groups": 0}, "groups = 0"),
        ({"groups": 2.5}, "groups = 2.5: expected a whole number"),
        ({"servers": -1}, "servers = -1"),
        ({"bits": 8}, "level 1: a network from 2 to 2 signals, expected 4 to 4"),
        ({"first_weights_1": np.full((2, 2), np.nan)}, "NaN"),
        ({"second_nonlinearity": "tanh"}, "nonlinearity = 'tanh'"),
        ({"second_biases_1": None}, "second_biases_1 is missing"),
    ],
)
def test_spoilt_files_are_refused(changes: dict[str, object], complaint: str, cascade: Cascade, tmp_path: Path) -> None:
    path = save_cascade(tmp_path / "cascade.npz", cascade)
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files} | changes
    np.savez(path, **{name: value for name, value in content.items() if value is not None})
    with pytest.raises(ConfigError) as refused:
        load_cascade(path)
    assert str(path) in str(refused.value) and complaint in str(refused.value)


def test_matrices_with_units_carry_the_function_in_units_of_amplitude(cascade: Cascade) -> None:
    """Codes through every matrix and the units between, by hand; T sends every server the same share of the light."""
    matrices = cascade_matrices(cascade, units=True)
    codes = random_codes(2, 2, 4, 200, np.random.default_rng(0))
    signals = symbols_for(4)
    digits = [(codes >> 2 * (signals - 1 - place)) & (LEVELS - 1) for place in range(signals)]
    lanes = np.stack(digits, axis=2) / (LEVELS - 1)  # groups, servers, signals, n

    def level(number: int, light: np.ndarray) -> np.ndarray:
        network = (cascade.first, cascade.second)[number - 1].network
        depth = len(network.weights)
        for layer in range(1, depth + 1):
            unit = network.full_scale[layer].max() or 1.0
            light = matrices[f"level {number} layer {layer}"] @ light + network.biases[layer - 1][:, None] / unit
            light = np.clip(light, 0, 1 / unit) if layer < depth else light
        return light

    groups = [level(1, matrices["level 1 P"] @ lanes[group].reshape(-1, 200)) for group in range(2)]
    outputs = level(2, matrices["level 2 P"] @ np.concatenate(groups))
    received = (matrices["T"] @ outputs).reshape(4, signals, 200) * np.sqrt(4)
    exact = codes.sum(axis=(0, 1)) // 4
    scale = cascade.second.network.full_scale[-1].max()
    for server in received:
        np.testing.assert_array_equal(cascade.second.function.decide(server * scale), exact)


def test_fabricated_cascades_err_with_their_devices_alone(cascade: Cascade) -> None:
    mapped = map_cascade(cascade)
    assert len(mapped.matrices) == 2 * len(mapped.first.matrices) + len(mapped.second.matrices)
    assert mapped.mzis == sum(matrix.mzis for matrix in mapped.matrices)
    judge = cascade_accuracy(mapped, samples=2000)
    exact = spread(monte_carlo(mapped.matrices, NonIdealities(), judge, draws=1))
    spoilt = spread(monte_carlo(mapped.matrices, NonIdealities(phase_error=0.1), judge, draws=2))
    noisy = spread(monte_carlo(mapped.matrices, NonIdealities(detector_noise=0.05), judge, draws=1))
    assert exact["least"] == 1.0
    assert spoilt["largest"] < 0.99 and noisy["largest"] < 0.99
