"""Balanced homodyne detection, and optical amplification: noise in units of the field of full scale.

    photocurrent = 2 R √(P_LO P) Re(field),   variance = 2 e R P_LO B + i_n² B

The oscillator's mean power cancels between the two photodiodes, its shot noise does not. Its relative intensity noise
multiplies the signal (`simulate`).
"""

from __future__ import annotations

import math

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.photonics.detection import homodyne_variance
from lightloom.photonics.devices import amplifier_noise
from lightloom.photonics.link.settings import Link


def homodyne_noise(link: Link, loss_db: float = 0.0) -> float:
    """Return the noise of a detected field, relative to full scale behind ``loss_db`` of loss."""
    shining = link.local_oscillator if link.shot_noise else 0.0
    current = math.sqrt(homodyne_variance(shining, link.responsivity, link.noise_density, link.detector_bandwidth))
    power = link.full_scale * 10 ** (-loss_db / 10)
    return current / (2 * link.responsivity * math.sqrt(link.local_oscillator * power))


def emitted_noise(link: Link, gains: Floats) -> Floats:
    """Return the field noise per quadrature behind optical amplifiers of amplitude ``gains``, relative to full scale.

    A gain of at most 1 is an attenuator and adds none.
    """
    if link.gain == "electrical" or not link.amplifier_noise:
        return np.zeros_like(gains)
    return amplifier_noise(np.maximum(np.square(gains), 1.0), link.noise_figure_db, link.bandwidth, link.full_scale)
