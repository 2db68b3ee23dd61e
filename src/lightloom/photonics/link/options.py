"""The options of a link as text: names, units, and how values are read and shown.

>>> read_options({"full-scale": "1mW", "phase-lock": "0.1rad", "rin": "-140dB/Hz"}).full_scale
0.001
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.units import format_quantity, parse
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.sources import SOURCES

_UNITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "rad": {"": 1.0, "rad": 1.0, "mrad": 1e-3},
        "share": {"": 1.0, "%": 0.01},
        "symbols": {"": 1.0, "T": 1.0, "symbols": 1.0},
        "dB": {"": 1.0, "dB": 1.0},
        "dB/Hz": {"": 1.0, "dB/Hz": 1.0, "dBc/Hz": 1.0},
        "Hz": {"": 1.0, "Hz": 1.0, "MHz": 1e6, "GHz": 1e9},
        "A/W": {"": 1.0, "A/W": 1.0},
        "A/√Hz": {"": 1.0, "A/rtHz": 1.0, "pA/rtHz": 1e-12, "A/√Hz": 1.0, "pA/√Hz": 1e-12},
        "bits": {"": 1.0, "bits": 1.0},
    }
)


@dataclass(frozen=True, slots=True)
class LinkOption:
    """An option of a link."""

    field: str
    """Field of `Link`."""
    unit: str
    """Unit in which a bare number is read; ``W`` also takes dBm, ``name`` is one of several words."""
    help: str


OPTIONS: Mapping[str, LinkOption] = MappingProxyType(
    {
        "full-scale": LinkOption("full_scale", "W", "Power of a signal at full scale on the chip."),
        "path-loss": LinkOption("path_loss_db", "dB", "From a server's laser to the chip, and from the chip to it."),
        "modulation": LinkOption("modulation", "name", "What is proportional to the levels: field or intensity."),
        "rin": LinkOption("rin_db", "dB/Hz", "Relative intensity noise of every laser; none for no noise."),
        "phase-lock": LinkOption("phase_lock", "rad", "Phase of a lane's laser against the chip's."),
        "power-error": LinkOption("power_error", "share", "Of the power of a server's lane."),
        "polarisation": LinkOption("polarisation", "rad", "Angle of a lane's polarisation to the chip's."),
        "skew": LinkOption("skew", "symbols", "Time of arrival of a lane's symbols."),
        "gain": LinkOption("gain", "name", "What amplifies behind a mesh: electrical (homodyne units) or optical."),
        "noise-figure": LinkOption("noise_figure_db", "dB", "Of the optical amplifiers."),
        "bandwidth": LinkOption("bandwidth", "Hz", "Of the noise of optical amplifiers."),
        "local-oscillator": LinkOption("local_oscillator", "W", "Power of every balanced detector's oscillator."),
        "responsivity": LinkOption("responsivity", "A/W", "Of every photodiode."),
        "noise-density": LinkOption("noise_density", "A/√Hz", "Input-referred noise of the electrical amplifiers."),
        "detector-bandwidth": LinkOption(
            "detector_bandwidth", "Hz", "Of every detector: of shot, thermal and lasers' noise."
        ),
        "unit": LinkOption("unit", "name", "Behind a mesh: limiting, clip (ideal), electro-optic or saturable."),
        "swing": LinkOption("swing", "rad", "Of the modulators that keep values; bits swing by half a wave."),
        "bias-error": LinkOption("bias_error", "share", "Of every bias."),
        "gain-error": LinkOption("gain_error", "share", "Of every gain."),
        "threshold-error": LinkOption("threshold_error", "share", "Of the distance between levels, at receivers."),
        "calibration": LinkOption(
            "calibration",
            "name",
            "What sets the chip: words (gains, biases), levels (gains, lanes, units), rows (gains), or none.",
        ),
        "phase-error": LinkOption("phase_error", "rad", "Of every phase shifter of the meshes."),
        "coupler-error": LinkOption("coupler_error", "rad", "Mixing angle of every coupler."),
        "loss": LinkOption("loss_db", "dB", "Of every interferometer."),
        "loss-spread": LinkOption("loss_spread_db", "dB", "Its standard deviation."),
        "crossing-loss": LinkOption("crossing_loss_db", "dB", "Of every crossing of waveguides between the meshes."),
        "crosstalk": LinkOption(
            "thermal_crosstalk", "share", "Of a heater's phase, to each nearest heater; 0 is cancelled."
        ),
        "dac-bits": LinkOption("dac_bits", "bits", "Of the phase settings; 0 is continuous."),
    }
)
"""Options by name, in the order of the light."""


def read_options(texts: Mapping[str, str]) -> Link:
    """Return the link with these options, and defaults for all others.

    Raises:
        UnknownNameError: an option or a word does not exist.
        ConfigError: a value cannot be read or is out of range.
    """
    return Link(**{find_option(name).field: read_value(name, text) for name, text in texts.items()})


def find_option(name: str) -> LinkOption:
    """Return the option of that name.

    Raises:
        UnknownNameError: it does not exist.
    """
    if name not in OPTIONS:
        raise UnknownNameError("option of a link", name, OPTIONS)
    return OPTIONS[name]


def read_value(name: str, text: str) -> Any:
    """Return the value of an option in SI units, dB or words.

    Raises:
        ConfigError: not a finite number with one of its units.
    """
    unit = find_option(name).unit
    if unit == "name":
        return text
    if name == "rin" and text == "none":
        return None
    try:
        value = _watts(text) if unit == "W" else _number(text, unit)
    except ValueError as error:
        raise ConfigError(f"{name} {text!r}: expected a number, e.g. {_example(name)}") from error
    if unit != "bits":
        return value
    if value != int(value):
        raise ConfigError(f"{name} {text!r}: expected a whole number")
    return int(value)


def _watts(text: str) -> float:
    stripped = text.strip()
    if stripped.endswith("dBm"):
        return 1e-3 * 10 ** (_finite(stripped[:-3]) / 10)
    return parse(stripped, "power")


def _number(text: str, unit: str) -> float:
    stripped = text.strip()
    for suffix, scale in sorted(_UNITS[unit].items(), key=lambda item: -len(item[0])):
        if stripped.endswith(suffix):
            return _finite(stripped[: len(stripped) - len(suffix)]) * scale
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def show_value(name: str, value: Any) -> str:
    """Return a value in words, with its unit."""
    unit = find_option(name).unit
    if value is None:
        return "none"
    if unit == "name":
        return str(value)
    if unit == "W":
        return f"{format_quantity(value, 'power')} ({10 * math.log10(value / 1e-3):.2f} dBm)"
    if unit == "share":
        return f"{100 * value:.4g} %"
    if unit == "Hz":
        return f"{value / 1e9:.4g} GHz"
    if unit == "A/√Hz":
        return f"{value * 1e12:.4g} pA/√Hz"
    return f"{value:.4g} {unit}"


def _example(name: str) -> str:
    return show_value(name, getattr(Link(), OPTIONS[name].field)).split(" (")[0]


def sources(link: Link) -> dict[str, str]:
    """Return the source of every option: that of its default, or that it was given."""
    default = Link()
    return {
        name: SOURCES[option.field] if getattr(link, option.field) == getattr(default, option.field) else "given"
        for name, option in OPTIONS.items()
    }
