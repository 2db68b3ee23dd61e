"""What an averager is asked to tolerate: errors of its devices, a power of full scale, and a word error rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lightloom.core.errors import ConfigError, InputError, UnknownNameError
from lightloom.core.units import parse
from lightloom.photonics.devices import LARGEST, NonIdealities
from lightloom.photonics.link.settings import RANGES
from lightloom.photonics.tolerance.fabricated import Amplifiers

DEVICE_FIELDS = {
    "phase-error": ("phase_error", "rad"),
    "coupler-error": ("coupler_error", "rad"),
    "loss": ("loss_db", "dB"),
    "loss-spread": ("loss_spread_db", "dB"),
    "crosstalk": ("thermal_crosstalk", ""),
    "dac-bits": ("dac_bits", ""),
}
"""Field of `NonIdealities` and unit, by the name in a request."""
POWER = "power"
_EXAMPLE = "phase-error=3e-3,coupler-error=1e-2,power=3mW,loss=0.1dB"
LEAST_WORD_ERRORS = 1e-7
"""Smaller rates need more than 400 million words to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Errors that an averager must bear all at once with at most ``word_errors`` wrong words.

    Raises:
        InputError: the power is not positive, or the word error rate is out of range.
    """

    devices: NonIdealities
    full_scale: float | None
    """Power of full scale in watts, from which the noise of amplifiers follows; None has none."""
    word_errors: float

    def __post_init__(self) -> None:
        if self.full_scale is not None and not 0 < self.full_scale < math.inf:
            raise InputError(f"power = {self.full_scale} W: expected more than 0")
        if not LEAST_WORD_ERRORS <= self.word_errors < 1:
            raise InputError(
                f"word errors = {self.word_errors}: expected a share from {LEAST_WORD_ERRORS:g} to below 1"
            )

    @property
    def amplifiers(self) -> Amplifiers | None:
        """Amplifiers at that power of full scale."""
        return None if self.full_scale is None else Amplifiers(full_scale=self.full_scale)

    @property
    def errors(self) -> dict[str, float]:
        """Errors that are not 0, by name; ``power`` in watts."""
        given = {name: float(getattr(self.devices, field)) for name, (field, _) in DEVICE_FIELDS.items()}
        power = {} if self.full_scale is None else {POWER: self.full_scale}
        return {name: value for name, value in given.items() if value} | power

    def scaled(self, share: float) -> Tolerance:
        """Return the request with all errors times ``share``; noise falls with the square root of the power.

        An error that would exceed the largest one of its kind stops there.
        """
        devices = self.devices
        for field, _ in DEVICE_FIELDS.values():
            if field != "dac_bits":
                value = min(getattr(devices, field) * share, LARGEST[field][0])
                devices = replace(devices, **{field: value})  # type: ignore[arg-type, unused-ignore]
        power = None if self.full_scale is None else self.full_scale / share**2
        return replace(self, devices=devices, full_scale=power)

    def only(self, name: str, value: float) -> Tolerance:
        """Return the request with one error alone, of that value."""
        if name == POWER:
            return replace(self, devices=NonIdealities(), full_scale=value)
        field = DEVICE_FIELDS[name][0]
        return replace(self, devices=NonIdealities(**{field: value}), full_scale=None)  # type: ignore[arg-type, unused-ignore]


def describe(errors: dict[str, float]) -> str:
    """Return errors as text with their units."""
    return ", ".join(described(name, value) for name, value in errors.items()) or "nothing"


def described(name: str, value: float) -> str:
    """Return one error as text with its unit."""
    if name == POWER:
        return f"power {value * 1e3:.3g} mW"
    unit = DEVICE_FIELDS[name][1]
    return f"{name} {value:.3g}{' ' if unit else ''}{unit}"


def parse_tolerance(text: str, word_errors: float) -> Tolerance:
    """Read ``NAME=VALUE,...``; angles in rad, loss in dB, power in W (mW, uW, ...).

    Raises:
        ConfigError: it cannot be read, or names an error twice.
        UnknownNameError: there is no such error.
        InputError: a value is out of range.
    """
    fields: dict[str, float] = {}
    power: float | None = None
    seen: set[str] = set()
    for item in text.split(","):
        name, equals, value = item.strip().partition("=")
        if not equals:
            raise ConfigError(f"--tolerate {item.strip()!r}: expected NAME=VALUE,..., e.g. {_EXAMPLE}")
        if name not in (*DEVICE_FIELDS, POWER):
            raise UnknownNameError("error to tolerate", name, (*DEVICE_FIELDS, POWER))
        if name in seen:
            raise ConfigError(f"--tolerate: {name} is given twice")
        seen.add(name)
        if name == POWER:
            power = parse(value, "power")
            low, high, unit = RANGES["full_scale"]
            if power > 0 and not low <= power <= high:
                raise ConfigError(f"--tolerate power = {power:g} W: expected {low:g} to {high:g} {unit}")
        else:
            field, unit = DEVICE_FIELDS[name]
            fields[field] = _number(name, value.removesuffix(unit).strip() if unit else value)
    return Tolerance(devices=NonIdealities(**fields), full_scale=power, word_errors=word_errors)  # type: ignore[arg-type, unused-ignore]


def _number(name: str, text: str) -> float:
    try:
        return int(text) if name == "dac-bits" else float(text)
    except ValueError as error:
        raise ConfigError(f"--tolerate {name}={text}: expected a number, e.g. {_EXAMPLE}") from error
