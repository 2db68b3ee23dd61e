"""A first twin of a mesh whose phases are wholly unknown, from sweeps of θ and of φ, a column at a time.

From the last column to the first, with random phases in front of it and pure states (cross or bar) behind it:

1. An interferometer's two outputs reach one detector each. Averaged over φ and φ + π, their powers go as cos(θ - θ*):
   three settings of θ, for all interferometers of the column at once, give θ* up to half a turn, a pure state.
2. Which of the two it is, cross or bar, shows when an interferometer in front of it is turned: one detector of the two
   sees that. In the first column the inputs themselves show it.

Then, from the first column to the last, with pure states before and behind and an even splitting in it: the powers of
coherent inputs at three settings of φ give the offset of φ.

Light must enter at every waveguide and be detected at every one: where a single output of an interferometer is seen, or
lit, its two states look alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.photonics.meshes.calibration.chip import Chip
from lightloom.photonics.meshes.calibration.twin import Fields, Settings, Twin
from lightloom.photonics.meshes.wiring import Wiring

_THIRDS = 2 * np.pi / 3 * np.arange(3)


def first_twin(chip: Chip, seed: int) -> Twin:
    """Return a twin with offsets of all phases, good enough for :func:`fit` to start from.

    Measures 7 settings a column and one for each interferometer with single inputs, then 3 a column with coherent ones.
    """
    wiring = chip.wiring
    rng = np.random.default_rng((seed, 3))
    theta, phi = rng.uniform(0, 2 * np.pi, (2, wiring.devices))
    scores = np.zeros(wiring.devices)  # above 0 for the bar state
    for column in reversed(wiring.slices):
        _learn_states(chip, Settings(theta=theta, phi=phi), column, scores)
        theta[column] = _pure_states(chip, Settings(theta=theta, phi=phi), column, scores)
    _learn_states_from_inputs(chip, Settings(theta=theta, phi=phi), scores)
    bars = scores > 0
    twin = replace(Twin.ideal(wiring), theta_offset=np.where(bars, np.pi, 0.0) - theta)
    return _with_entry_phases(chip, twin, theta, bars)


def _learn_states(chip: Chip, settings: Settings, column: slice, scores: Floats) -> None:
    """Turn each interferometer of ``column`` by π, and add to the scores of those behind it what the outputs show."""
    wiring, count = chip.wiring, column.stop - column.start
    theta = np.tile(settings.theta, (count + 1, 1))
    theta[np.arange(count) + 1, np.arange(column.start, column.stop)] += np.pi
    powers = chip.powers(Settings(theta=theta, phi=np.tile(settings.phi, (count + 1, 1))), _single(wiring))
    changes = np.abs(powers[1:] - powers[0]).sum(2)
    ends = _ends(wiring, scores > 0)
    for device, seen in zip(range(column.start, column.stop), changes, strict=True):
        for mode in (wiring.upper[device], wiring.lower[device]):
            _score_next(wiring, device, int(mode), seen, ends, scores)


def _learn_states_from_inputs(chip: Chip, settings: Settings, scores: Floats) -> None:
    """Add to the scores of the first interferometer behind each input what single inputs show."""
    wiring = chip.wiring
    single = Settings(theta=settings.theta[None], phi=settings.phi[None])
    powers = chip.powers(single, _single(wiring))[0]
    # The last interferometers first: an input that passes one reaches it in a known state.
    ends = _ends(wiring, scores > 0)
    for mode in range(wiring.inputs):
        _score_next(wiring, -1, mode, powers[:, mode], ends, scores)


def _score_next(wiring: Wiring, device: int, mode: int, seen: Floats, ends: Ints, scores: Floats) -> None:
    """Add to the score of the next interferometer on ``mode`` behind ``device`` what its two outputs have seen."""
    on_upper = wiring.upper[device + 1 :] == mode
    behind = np.flatnonzero(on_upper | (wiring.lower[device + 1 :] == mode))
    if behind.size:
        following = device + 1 + int(behind[0])
        upper_end, lower_end = ends[following]
        straight = seen[upper_end] - seen[lower_end]
        scores[following] += straight if on_upper[behind[0]] else -straight


def _pure_states(chip: Chip, settings: Settings, column: slice, scores: Floats) -> Floats:
    """Return θ of the interferometers of ``column`` at which each is in its cross or in its bar state."""
    wiring = chip.wiring
    theta, phi = (np.tile(part, (6, 1)) for part in (settings.theta, settings.phi))
    theta[:, column] = np.repeat(_THIRDS, 2)[:, None]
    phi[:, column] += np.pi * (np.arange(6) % 2)[:, None]
    powers = chip.powers(Settings(theta=theta, phi=phi), _single(wiring)).reshape(3, 2, wiring.outputs, -1).mean(1)
    # Each power goes as cos(θ - θ*) or as its opposite; squared, the sign is gone.
    squares = (np.tensordot(np.exp(1j * _THIRDS), powers, 1) ** 2).sum(1)
    ends = _ends(wiring, scores > 0)[column]
    return np.asarray(0.5 * np.angle(squares[ends[:, 0]] + squares[ends[:, 1]]))


def _with_entry_phases(chip: Chip, twin: Twin, theta: Floats, bars: Mask) -> Twin:
    """Return the twin with offsets of φ, found column by column."""
    wiring = twin.wiring
    vectors: Fields = np.fft.fft(np.eye(wiring.inputs), norm="ortho")
    offsets, ends, waves = np.zeros(wiring.devices), _ends(wiring, bars), np.exp(-1j * _THIRDS)
    for column in wiring.slices:
        split, phi = np.tile(theta, (3, 1)), np.zeros((3, wiring.devices))
        split[:, column] += np.where(bars[column], -np.pi / 2, np.pi / 2)
        phi[:, column] = _THIRDS[:, None]
        settings = Settings(theta=split, phi=phi)
        expected = np.abs(replace(twin, phi_offset=offsets).propagate(settings, vectors)) ** 2
        measured_wave, expected_wave = (
            np.tensordot(waves, powers, 1) for powers in (chip.powers(settings, vectors), expected)
        )
        products = (measured_wave * expected_wave.conj()).sum(1)
        offsets[column] = np.angle(products[ends[column, 0]] + products[ends[column, 1]])
    return replace(twin, phi_offset=offsets)


def _single(wiring: Wiring) -> Fields:
    return np.eye(wiring.inputs, dtype=np.complex128)


def _ends(wiring: Wiring, bars: Mask) -> Ints:
    """Return the output that each output of each interferometer reaches [devices, 2], through those behind it."""
    output = np.arange(wiring.outputs)
    ends = np.empty((wiring.devices, 2), np.int64)
    for device in range(wiring.devices - 1, -1, -1):
        pair = [wiring.upper[device], wiring.lower[device]]
        ends[device] = output[pair]
        if not bars[device]:
            output[pair] = output[pair[::-1]]
    return ends
