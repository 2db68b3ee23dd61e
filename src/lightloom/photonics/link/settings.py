"""What a link is made of: watts and decibels as they are stated; the stages turn them into fields.

    laser ─▶ modulator ─▶ path ─▶ P ─▶ [mesh ─▶ gain ─▶ unit] ... ─▶ mesh ─▶ gain ─▶ T ─▶ path ─▶ receiver

Errors are standard deviations of Gaussians. Those of devices, powers, polarisations and skews are drawn once for each
fabrication; phases of lasers and all noise are drawn for every word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.devices import LARGEST, NonIdealities

Modulation = Literal["field", "intensity"]
Gain = Literal["electrical", "optical"]
Calibration = Literal["words", "levels", "rows", "none"]
Unit = Literal["limiting", "clip", "electro-optic", "saturable"]
_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "modulation": get_args(Modulation),
        "gain": get_args(Gain),
        "unit": get_args(Unit),
        "calibration": get_args(Calibration),
    }
)
LARGEST_SWING = 1.5
"""Largest swing of a modulator that keeps values, in radians."""
LARGEST_NOISE_FIGURE_DB = 100.0
"""Largest noise figure of an optical amplifier, in dB; real ones have 4 to 10."""
_POSITIVE = ("full_scale", "bandwidth", "local_oscillator", "responsivity", "detector_bandwidth")
_MESH = (
    "phase_error",
    "coupler_error",
    "loss_db",
    "loss_spread_db",
    "thermal_crosstalk",
    "dac_bits",
)
RANGES: Mapping[str, tuple[float, float, str]] = MappingProxyType(
    {
        "full_scale": (1e-15, 1e3, "W"),
        "path_loss_db": (0.0, 100.0, "dB"),
        "phase_lock": (0.0, 10.0, "rad"),
        "power_error": (0.0, 10.0, "of a server's power"),
        "polarisation": (0.0, 10.0, "rad"),
        "skew": (0.0, 10.0, "symbols"),
        "noise_figure_db": (0.0, LARGEST_NOISE_FIGURE_DB, "dB"),
        "bandwidth": (1.0, 1e15, "Hz"),
        "local_oscillator": (1e-15, 1e3, "W"),
        "responsivity": (1e-6, 10.0, "A/W"),
        "noise_density": (0.0, 1e-3, "A/√Hz"),
        "detector_bandwidth": (1.0, 1e15, "Hz"),
        "bias_error": (0.0, 10.0, "of a bias"),
        "crossing_loss_db": (0.0, 10.0, "dB"),
        "gain_error": (0.0, 10.0, "of a gain"),
        "threshold_error": (0.0, 100.0, "distances between levels"),
        **{name: (0.0, largest, unit) for name, (largest, unit) in LARGEST.items() if name in _MESH},
    }
)
"""Least and largest value of each quantity of a link with its unit; beyond them arithmetic says nothing of a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link from servers through an averager and back. Sources of the defaults: `sources.SOURCES`."""

    full_scale: float = 3e-3
    """Power of a signal at full scale on the chip, in watts."""
    path_loss_db: float = 10.0
    """Loss from a server's laser to the chip, and from the chip to a server's detector, in dB."""
    modulation: Modulation = "field"
    """Whether field amplitudes or powers are proportional to the levels."""
    rin_db: float | None = -150.0
    """Relative intensity noise of every laser, in dB/Hz, over the detectors' bandwidth; None for none."""
    phase_lock: float = 0.05
    """Phase error of the laser of a server's lane against the chip's, in radians; drawn for every word."""
    power_error: float = 0.01
    """Relative error of the power of a server's lane."""
    polarisation: float = 0.05
    """Angle of a lane's polarisation to the chip's, in radians."""
    skew: float = 0.03
    """Time of arrival of a lane's symbols, in symbols."""
    gain: Gain = "electrical"
    """Whether homodyne units or optical amplifiers supply the gain behind a mesh."""
    noise_figure_db: float = 6.0
    """Noise figure of the optical amplifiers, in dB; unused with electrical gain."""
    amplifier_noise: bool = True
    """Whether optical amplifiers emit noise."""
    bandwidth: float = 50e9
    """Optical bandwidth that the noise of optical amplifiers fills, in Hz."""
    local_oscillator: float = 1e-3
    """Power of the local oscillator of every balanced detector, in watts."""
    responsivity: float = 1.0
    """Responsivity of every photodiode, in A/W."""
    noise_density: float = 12.86e-12
    """Input-referred noise current of the electrical amplifiers, in A/√Hz."""
    shot_noise: bool = True
    """Whether local oscillators cause shot noise."""
    detector_bandwidth: float = 35e9
    """Electrical bandwidth of every detector, in Hz: of shot, thermal and lasers' intensity noise."""
    unit: Unit = "limiting"
    """Nonlinear unit behind every mesh."""
    swing: float = 0.25
    """Swing of the modulators of kept values, in radians; those of decided bits swing by π/2."""
    bias_error: float = 3e-3
    """Relative error of every bias."""
    gain_error: float = 3e-3
    """Relative error of every gain."""
    threshold_error: float = 0.01
    """Error of every threshold of a receiver, as a share of the distance between levels."""
    calibration: Calibration = "words"
    """How gains and biases are set on the fabricated chip."""
    phase_error: float = 3e-3
    """Error of every phase shifter of the meshes, in radians."""
    coupler_error: float = 0.01
    """Mixing-angle error of every coupler, in radians."""
    loss_db: float = 0.1
    """Loss of every interferometer, in dB."""
    loss_spread_db: float = 0.0
    """Standard deviation of that loss, in dB."""
    crossing_loss_db: float = 0.043
    """Loss of every crossing of waveguides between the meshes, in dB."""
    thermal_crosstalk: float = 1e-3
    """Share of a heater's phase that reaches each nearest heater, beyond what settings cancel."""
    dac_bits: int = 8
    """Bits of the phase settings; 0 for continuous ones."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UnknownNameError(name, str(getattr(self, name)), choices)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, str | bool) or value is None or field.name == "rin_db":
                continue
            if not math.isfinite(value) or value < 0 or (value == 0 and field.name in _POSITIVE):
                least = "more than 0" if field.name in _POSITIVE else "at least 0"
                raise ConfigError(f"{field.name} = {value}: expected a finite number of {least}")
            low, high, unit = RANGES.get(field.name, (-math.inf, math.inf, ""))
            if not low <= value <= high:
                raise ConfigError(f"{field.name} = {value:g}: expected {low:g} to {high:g} {unit}")
        if self.rin_db is not None and not -250 <= self.rin_db <= -80:
            raise ConfigError(f"rin_db = {self.rin_db}: expected -250 to -80 dB/Hz")
        if not 0 < self.swing <= LARGEST_SWING:
            raise ConfigError(f"swing = {self.swing}: expected more than 0 and at most {LARGEST_SWING} rad")
        self.non_idealities.__post_init__()

    @property
    def non_idealities(self) -> NonIdealities:
        """Errors of the meshes."""
        return NonIdealities(**{name: getattr(self, name) for name in _MESH})


PARTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "mesh phases": {"phase_error": 0.0},
        "phase settings": {"dac_bits": 0},
        "crosstalk": {"thermal_crosstalk": 0.0},
        "mesh couplers": {"coupler_error": 0.0},
        "mesh loss": {"loss_db": 0.0, "loss_spread_db": 0.0},
        "crossings": {"crossing_loss_db": 0.0},
        "phase lock": {"phase_lock": 0.0},
        "server power": {"power_error": 0.0},
        "polarisation": {"polarisation": 0.0},
        "skew": {"skew": 0.0},
        "laser noise": {"rin_db": None},
        "modulation": {"modulation": "field"},
        "amplifier noise": {"amplifier_noise": False},
        "shot noise": {"shot_noise": False},
        "thermal noise": {"noise_density": 0.0},
        "limiters": {"unit": "clip"},
        "biases": {"bias_error": 0.0},
        "gains": {"gain_error": 0.0},
        "thresholds": {"threshold_error": 0.0},
    }
)
"""The parts of a link that err, and the settings with which each is ideal."""


def without(link: Link, part: str) -> Link:
    """Return the link with one part ideal."""
    return replace(link, **PARTS[part])


def ideal(link: Link) -> Link:
    """Return the link with every part ideal."""
    for part in PARTS:
        link = without(link, part)
    return link


def only(link: Link, part: str) -> Link:
    """Return the link with every other part ideal."""
    return replace(ideal(link), **{name: getattr(link, name) for name in PARTS[part]})


def erring(link: Link) -> list[str]:
    """Return the parts that are not ideal already."""
    parts = [part for part in PARTS if without(link, part) != link]
    return [part for part in parts if link.gain == "optical" or part != "amplifier noise"]
