"""Senders: levels of PAM4 to fields at the chip.

    field of a lane = √(1 + power error) · √(1 + laser noise) · cos(polarisation) · e^{i phase} · level / 3

in units of the field of a full level. Every lane of a server has a laser, a modulator and a fibre of its own, whose
errors are drawn on their own. A skewed lane's symbols are read off their centre: with raised-cosine
transitions one symbol long, the neighbour's share at an offset of s symbols is sin²(π s / 2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lightloom.core.arrays import Float32s, Floats, Ints
from lightloom.photonics.link.settings import Link
from lightloom.photonics.pam4 import LEVELS, symbols_for


@dataclass(frozen=True, slots=True, eq=False)
class Senders:
    """The static errors of the servers' lanes of one fabrication; every array is [servers, signals]."""

    amplitude: Floats
    """Field that reaches the chip's polarisation, relative to the design."""
    skew: Floats
    """Time of arrival in symbols: positive lanes are late."""

    @classmethod
    def draw(cls, servers: int, signals: int, link: Link, rng: np.random.Generator) -> Senders:
        """Draw the lanes of one fabrication."""
        power, angle, late = rng.normal(size=(3, servers, signals))
        amplitude = np.sqrt(np.maximum(1 + link.power_error * power, 0.0)) * np.cos(link.polarisation * angle)
        return cls(amplitude, np.clip(link.skew * late, -1.0, 1.0))


def digits(codes: Ints, bits: int) -> Float32s:
    """Return the levels [..., signals, words] of codes [..., words], most significant first."""
    count = symbols_for(bits)
    shifts = 2 * np.arange(count - 1, -1, -1, dtype=np.int64)[:, None]
    return ((codes[..., None, :] >> shifts) & (LEVELS - 1)).astype(np.float32)


def modulate(codes: Ints, bits: int, link: Link, senders: Senders, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return the fields of all lanes as real and imaginary parts, [2, servers · signals, words].

    Consecutive words are consecutive symbols of every lane; the row of a lane is server · signals + signal.
    """
    levels = digits(codes, bits) / np.float32(LEVELS - 1)
    fields = np.sqrt(levels) if link.modulation == "intensity" else levels
    if senders.skew.any():
        share = (np.sin(np.pi / 2 * senders.skew) ** 2).astype(np.float32)[..., None]
        late = (senders.skew > 0)[..., None]
        beside = np.where(late, np.roll(fields, 1, axis=2), np.roll(fields, -1, axis=2))
        fields = fields + share * (beside - fields)
    strength = np.broadcast_to(senders.amplitude.astype(np.float32)[..., None], fields.shape)
    if link.rin_db is not None:
        strength = strength * laser_noise(link, fields.shape, rng)
    along, across = strength, np.zeros_like(strength)
    if link.phase_lock:
        angles = np.float32(link.phase_lock) * rng.standard_normal(fields.shape, np.float32)
        along, across = strength * np.cos(angles), strength * np.sin(angles)
    return np.stack([fields * along, fields * across]).reshape(2, -1, codes.shape[1])


def laser_noise(link: Link, shape: tuple[int, ...], rng: np.random.Generator) -> Float32s:
    """Return amplitudes of lasers with relative intensity noise over the detectors' bandwidth, around 1.

    Intensity noise is seen where light is detected, and only as fast as detectors are.
    """
    if link.rin_db is None:
        return np.ones(shape, np.float32)
    deviation = np.float32(np.sqrt(10 ** (link.rin_db / 10) * link.detector_bandwidth))
    return np.asarray(np.sqrt(np.maximum(1 + deviation * rng.standard_normal(shape, np.float32), 0)), np.float32)
