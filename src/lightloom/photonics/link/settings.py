"""Settings of a link: watts and decibels as they are stated; the stages turn them into fields.

    laser ─▶ modulator ─▶ path ─▶ P ─▶ [mesh ─▶ gain ─▶ unit] ... ─▶ mesh ─▶ gain ─▶ T ─▶ path ─▶ receiver

Errors are standard deviations of Gaussians. Those of devices, powers, polarisations and skews are drawn once for each
fabrication; phases of lasers and all noise are drawn for every word.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from lightloom.core.configfile import read_yaml
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.units import format_quantity, parse
from lightloom.photonics.devices import LARGEST, NonIdealities

Modulation = Literal["field", "intensity"]
Gain = Literal["electrical", "optical"]
Calibration = Literal["words", "levels", "rows", "none"]
Unit = Literal["limiting", "clip"]
_WORDS = {"modulation": Modulation, "gain": Gain, "unit": Unit, "calibration": Calibration}
_CHOICES: Mapping[str, tuple[str, ...]] = {name: get_args(words) for name, words in _WORDS.items()}
LARGEST_SWING = 1.5
"""Largest swing of a modulator that keeps values, in radians."""
_POSITIVE = ("full_scale", "bandwidth", "local_oscillator", "responsivity", "detector_bandwidth")
_MESH = ("phase_error", "coupler_error", "loss_db", "loss_spread_db", "thermal_crosstalk", "dac_bits")
_STATED = read_yaml(Path(__file__).with_suffix(".yaml"))
SOURCES: Mapping[str, str] = {name: stated["source"] for name, stated in _STATED.items()}
"""Source of each default of `Link`."""
RANGES: Mapping[str, tuple[float, float, str]] = {
    **{name: tuple(stated["range"]) for name, stated in _STATED.items() if "range" in stated},
    **{name: (0.0, largest, unit) for name, (largest, unit) in LARGEST.items() if name in _MESH},
}
"""Least and largest value of each quantity of a link with its unit; beyond them arithmetic says nothing of a link."""


def _option(default: Any, unit: str, words: str, name: str | None = None) -> Any:
    """Return a dataclass field of `Link` that an option sets, with its default, and its unit, help and name as metadata
    ``unit``, ``help`` and ``name``.

    Args:
        default: value of the field.
        unit: unit of a bare number, ``rad``, ``share``, ``symbols``, ``dB``, ``dB/Hz``, ``Hz``, ``A/W``, ``A/√Hz``,
            ``bits`` or ``W``; ``name`` for one of several words.
        words: help of the option.
        name: name of the option; None takes that of the field, with hyphens and without ``_db``.
    """
    return field(default=default, metadata={"unit": unit, "help": words, "name": name})


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link from servers through an averager and back. Sources of the defaults: `SOURCES`."""

    full_scale: float = _option(3e-3, "W", "Power of a signal at full scale on the chip.")
    """Power of a signal at full scale on the chip, in watts."""
    path_loss_db: float = _option(10.0, "dB", "From a server's laser to the chip, and from the chip to it.")
    """Loss from a server's laser to the chip, and from the chip to a server's detector, in dB."""
    modulation: Modulation = _option("field", "name", "What is proportional to the levels: field or intensity.")  # noqa: RUF009
    """``field`` if field amplitudes are proportional to the levels, ``intensity`` if powers are."""
    rin_db: float | None = _option(-150.0, "dB/Hz", "Relative intensity noise of every laser; none for no noise.")
    """Relative intensity noise of every laser, in dB/Hz, over the detectors' bandwidth; None for none."""
    phase_lock: float = _option(0.05, "rad", "Phase of a lane's laser against the chip's.")
    """Phase error of the laser of a server's lane against the chip's, in radians; drawn for every word."""
    power_error: float = _option(0.01, "share", "Of the power of a server's lane.")
    """Relative error of the power of a server's lane."""
    polarisation: float = _option(0.05, "rad", "Angle of a lane's polarisation to the chip's.")
    """Angle of a lane's polarisation to the chip's, in radians."""
    skew: float = _option(0.03, "symbols", "Time of arrival of a lane's symbols.")
    """Time of arrival of a lane's symbols, in symbols."""
    gain: Gain = _option("electrical", "name", "What amplifies behind a mesh: electrical (homodyne units) or optical.")  # noqa: RUF009
    """``electrical`` if homodyne units supply the gain behind a mesh, ``optical`` if optical amplifiers do."""
    noise_figure_db: float = _option(6.0, "dB", "Of the optical amplifiers.")
    """Noise figure of the optical amplifiers, in dB; unused with electrical gain."""
    amplifier_noise: bool = True
    """True if optical amplifiers emit noise."""
    bandwidth: float = _option(50e9, "Hz", "Of the noise of optical amplifiers.")
    """Optical bandwidth that the noise of optical amplifiers fills, in Hz."""
    local_oscillator: float = _option(1e-3, "W", "Power of every balanced detector's oscillator.")
    """Power of the local oscillator of every balanced detector, in watts."""
    responsivity: float = _option(1.0, "A/W", "Of every photodiode.")
    """Responsivity of every photodiode, in A/W."""
    noise_density: float = _option(12.86e-12, "A/√Hz", "Input-referred noise of the electrical amplifiers.")
    """Input-referred noise current of the electrical amplifiers, in A/√Hz."""
    shot_noise: bool = True
    """True if local oscillators cause shot noise."""
    detector_bandwidth: float = _option(35e9, "Hz", "Of every detector: of shot, thermal and lasers' noise.")
    """Electrical bandwidth of every detector, in Hz: of shot, thermal and lasers' intensity noise."""
    unit: Unit = _option("limiting", "name", "Behind a mesh: limiting or clip (ideal).")  # noqa: RUF009
    """Nonlinear unit behind every mesh."""
    swing: float = _option(0.25, "rad", "Of the modulators that keep values; bits swing by half a wave.")
    """Swing of the modulators of kept values, in radians; those of decided bits swing by π/2."""
    bias_error: float = _option(3e-3, "share", "Of every bias.")
    """Relative error of every bias."""
    gain_error: float = _option(3e-3, "share", "Of every gain.")
    """Relative error of every gain."""
    threshold_error: float = _option(0.01, "share", "Of the distance between levels, at receivers.")
    """Error of every threshold of a receiver, as a share of the distance between levels."""
    calibration: Calibration = _option(  # noqa: RUF009
        "words",
        "name",
        "What sets the chip: words (gains, biases), levels (gains, lanes, units), rows (gains), or none.",
    )
    """How gains and biases are set on the fabricated chip."""
    phase_error: float = _option(3e-3, "rad", "Of every phase shifter of the meshes.")
    """Error of every phase shifter of the meshes, in radians."""
    coupler_error: float = _option(0.01, "rad", "Mixing angle of every coupler.")
    """Mixing-angle error of every coupler, in radians."""
    loss_db: float = _option(0.1, "dB", "Of every interferometer.")
    """Loss of every interferometer, in dB."""
    loss_spread_db: float = _option(0.0, "dB", "Its standard deviation.")
    """Standard deviation of that loss, in dB."""
    crossing_loss_db: float = _option(0.043, "dB", "Of every crossing of waveguides between the meshes.")
    """Loss of every crossing of waveguides between the meshes, in dB."""
    thermal_crosstalk: float = _option(
        1e-3, "share", "Of a heater's phase, to each nearest heater; 0 is cancelled.", name="crosstalk"
    )
    """Share of a heater's phase that reaches each nearest heater, beyond what settings cancel."""
    dac_bits: int = _option(8, "bits", "Of the phase settings; 0 is continuous.")
    """Bits of the phase settings; 0 for continuous ones."""

    def __post_init__(self) -> None:
        """Raise UnknownNameError for an unknown word, and ConfigError for a number that is out of its range."""
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UnknownNameError(name, str(getattr(self, name)), choices)
        for name, value in asdict(self).items():
            if not isinstance(value, str | bool | None) and name != "rin_db":
                if not math.isfinite(value) or value < 0 or (value == 0 and name in _POSITIVE):
                    least = "more than 0" if name in _POSITIVE else "at least 0"
                    raise ConfigError(f"{name} = {value}: expected a finite number of {least}")
                low, high, unit = RANGES.get(name, (-math.inf, math.inf, ""))
                if not low <= value <= high:
                    raise ConfigError(f"{name} = {value:g}: expected {low:g} to {high:g} {unit}")
        if self.rin_db is not None and not -250 <= self.rin_db <= -80:
            raise ConfigError(f"rin_db = {self.rin_db}: expected -250 to -80 dB/Hz")
        if not 0 < self.swing <= LARGEST_SWING:
            raise ConfigError(f"swing = {self.swing}: expected more than 0 and at most {LARGEST_SWING} rad")
        self.non_idealities.__post_init__()

    @property
    def non_idealities(self) -> NonIdealities:
        """Errors of the meshes: the link's phase and coupler errors, loss and its spread, crosstalk and DAC bits; the
        other fields, ``heater_spread`` and ``detector_noise``, are 0."""
        return NonIdealities(**{name: getattr(self, name) for name in _MESH})


PARTS: Mapping[str, Mapping[str, Any]] = {
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
"""The parts of a link that err, and the settings with which each is ideal."""


def without(link: Link, part: str) -> Link:
    """Return the link with one part ideal; ``part`` is a key of `PARTS`, such as ``mesh loss``, any other a
    KeyError."""
    return replace(link, **PARTS[part])


def ideal(link: Link) -> Link:
    """Return the link with every part of `PARTS` ideal."""
    for part in PARTS:
        link = without(link, part)
    return link


def only(link: Link, part: str) -> Link:
    """Return the link with every part of `PARTS` ideal but ``part``, which is one of its keys, such as ``mesh loss``;
    any other is a KeyError."""
    return replace(ideal(link), **{name: getattr(link, name) for name in PARTS[part]})


def erring(link: Link) -> list[str]:
    """Return the parts, such as ``mesh loss``, that are not ideal in this link, in the order of the keys of `PARTS`.

    ``amplifier noise`` is among them with optical gain only.
    """
    parts = [part for part in PARTS if without(link, part) != link]
    return [part for part in parts if link.gain == "optical" or part != "amplifier noise"]


AMPLIFIER_LIMIT = 10 ** (17.24 / 10) * 1e-3
"""Saturated output power of a hybrid III-V/silicon optical amplifier, in watts: 17.24 dBm with 27 dB of gain and 540 mW
of electrical power (from a summary of the paper)."""

# The options of a link as text: names, units, and how values are read and shown.
#
# >>> read_options({"full-scale": "1mW", "phase-lock": "0.1rad", "rin": "-140dB/Hz"}).full_scale
# 0.001

_UNITS: Mapping[str, Mapping[str, float]] = {
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
_SHOWN = {"share": (100, "%"), "Hz": (1e-9, "GHz"), "A/√Hz": (1e12, "pA/√Hz")}
"""Factor and unit with which values are shown, where they are not shown as they are."""


class LinkOption(NamedTuple):
    """An option of a link."""

    field: str
    """Name of the field of :class:`Link` that the option sets."""
    unit: str
    """Unit in which a bare number is read; ``W`` also takes dBm, ``name`` is one of several words."""
    help: str


OPTIONS: Mapping[str, LinkOption] = {
    row.metadata["name"] or row.name.removesuffix("_db").replace("_", "-"): LinkOption(
        row.name, row.metadata["unit"], row.metadata["help"]
    )
    for row in fields(Link)
    if row.metadata
}
"""Options by name, in the order of the light."""


def read_options(texts: Mapping[str, str]) -> Link:
    """Return the link with options given as text by name, such as ``{"full-scale": "1mW"}``, and defaults for all
    others.

    Raises:
        UnknownNameError: an option or a word does not exist.
        ConfigError: a value cannot be read or is out of range.
    """
    return Link(**{find_option(name).field: read_value(name, text) for name, text in texts.items()})


def find_option(name: str) -> LinkOption:
    """Return the field, unit and help of the option ``name``, such as ``full-scale``.

    Raises:
        UnknownNameError: it does not exist.
    """
    if name not in OPTIONS:
        raise UnknownNameError("option of a link", name, OPTIONS)
    return OPTIONS[name]


def read_value(name: str, text: str) -> Any:
    """Return the value that ``text`` states for the option ``name``, in SI units or dB.

    Options of one of several words return the text unchecked, and ranges are not checked here. ``none`` for ``rin``
    gives None, bits give an int. A bare number is in the option's own unit (shares: not in percent); powers also take
    dBm.

    Raises:
        UnknownNameError: the option does not exist.
        ConfigError: the text is not a finite number with one of the option's units, a power is negative, or bits are
            not whole.
    """
    unit = find_option(name).unit
    if unit == "name":
        return text
    if name == "rin" and text == "none":
        return None
    try:
        value = _watts(text) if unit == "W" else _number(text, unit)
    except ValueError as error:
        example = show_value(name, getattr(Link(), OPTIONS[name].field)).split(" (")[0]
        raise ConfigError(f"{name} {text!r}: expected a number, e.g. {example}") from error
    if unit != "bits":
        return value
    if value != int(value):
        raise ConfigError(f"{name} {text!r}: expected a whole number")
    return int(value)


def _watts(text: str) -> float:
    """Return the watts of a power as text, in dBm or in units of power such as mW; a bare number is in watts.

    Raises:
        ValueError: it cannot be read, or is negative and not in dBm.
    """
    stripped = text.strip()
    return 1e-3 * 10 ** (_finite(stripped[:-3]) / 10) if stripped.endswith("dBm") else parse(stripped, "power")


def _number(text: str, unit: str) -> float:
    """Return the number of a text in the base unit of ``unit``, a key of `_UNITS` such as ``Hz``; a bare number is in
    that base unit.

    Raises:
        ValueError: it is not a finite number with one of its units.
    """
    stripped = text.strip()
    for suffix, scale in sorted(_UNITS[unit].items(), key=lambda item: -len(item[0])):
        if stripped.endswith(suffix):
            return _finite(stripped[: len(stripped) - len(suffix)]) * scale
    raise ValueError(text)


def _finite(text: str) -> float:
    """Return the finite number of a text.

    Raises:
        ValueError: it is not a finite number.
    """
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def show_value(name: str, value: Any) -> str:
    """Return the value of the option ``name`` as text with its unit, to four significant digits; ``none`` for None.

    Powers, above 0, are followed by their dBm to two decimals, ``3 mW (4.77 dBm)``; shares are shown in percent,
    bandwidths in GHz, noise densities in pA/√Hz; words are returned as they are.
    """
    unit = find_option(name).unit
    if value is None or unit == "name":
        return "none" if value is None else str(value)
    if unit == "W":
        return f"{format_quantity(value, 'power')} ({10 * math.log10(value / 1e-3):.2f} dBm)"
    scale, shown = _SHOWN.get(unit, (1, unit))
    return f"{scale * value:.4g} {shown}"


def sources(link: Link) -> dict[str, str]:
    """Return where the value of every option comes from, as text by the option's name: the source of its default, or
    ``given`` if the link has another value."""
    default = Link()
    return {
        name: SOURCES[option.field] if getattr(link, option.field) == getattr(default, option.field) else "given"
        for name, option in OPTIONS.items()
    }
