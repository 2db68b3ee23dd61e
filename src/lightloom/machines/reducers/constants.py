"""The constants of the comparison, their ranges and sources (`constants.yaml`)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from lightloom.core.configfile import read_yaml
from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.core.results import Document
from lightloom.machines.parts.part import load_part
from lightloom.machines.reducers.hardware import averager_for
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.mapped import MappedNetwork, effective_network, map_averager
from lightloom.photonics.averaging.networks import FunctionArguments
from lightloom.photonics.averaging.proof import noisy_accuracy
from lightloom.photonics.chip.wavelengths import Dispersion, at_wavelength
from lightloom.photonics.link.settings import Link, ideal
from lightloom.photonics.link.simulate import design_chip
from lightloom.photonics.link.word_errors import word_errors
from lightloom.photonics.meshes.mapping import BALANCED

_SCALES: Mapping[str, float] = {
    **dict.fromkeys(("", "bits", "pi", "rad", "dB", "dB/Hz"), 1.0),
    "pJ/bit": 1e-12,
    "fJ": 1e-15,
    "mW": 1e-3,
    "ns": 1e-9,
    "ps": 1e-12,
    "pA/rtHz": 1e-12,
    "mm2": 1e-6,
}
"""SI value of one of each unit of the file."""

Values = Mapping[str, float]
"""A value for every constant, in SI units; decibels, shares and bits as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant of the comparison, in the unit that people say it in."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    meaning: str
    source: str
    given: bool = False
    """True if the user set the value; its range is then the value alone."""

    def __post_init__(self) -> None:
        """Refuse a value outside its range with a ConfigError."""
        if not self.low <= self.value <= self.high:
            raise ConfigError(f"{self.name} = {self.value:g}: expected {self.low:g} to {self.high:g} {self.unit}")

    @property
    def assumed(self) -> bool:
        """True if the source of the value is an assumption and no publication (``source`` begins with the word
        ``assumption``)."""
        return self.source.startswith("assumption")

    @property
    def logarithmic(self) -> bool:
        """True if values are drawn evenly in their logarithm: that is for all units, shares included, except dB, dB/Hz
        and bits, which are logarithms already. Such values must be above 0."""
        return self.unit not in ("dB", "dB/Hz", "bits")

    def si(self, value: float) -> float:
        """Return ``value``, given in this constant's unit, in SI units; shares, decibels, bits and radians stay as they
        are."""
        return value * _SCALES[self.unit]

    def draw(self, share: float) -> float:
        """Return the value that lies a ``share``, 0 to 1, of the way from low to high, in SI units; along the logarithm
        if ``logarithmic``."""
        if self.logarithmic:
            return self.si(float(self.low * (self.high / self.low) ** share))
        return self.si(self.low + (self.high - self.low) * share)


@cache
def published() -> Mapping[str, Constant]:
    """Return the constants of ``constants.yaml`` by name, read once."""
    document = read_yaml(Path(__file__).with_name("constants.yaml"))
    return MappingProxyType({name: _constant(name, entry) for name, entry in document.items()})


def _constant(name: str, entry: Any) -> Constant:
    """Return the constant ``name`` from its entry in the file, which states ``value``, ``low``, ``high`` and
    ``source``, or the ``part`` of the catalog and the ``figure`` of it (``static_power``, ``loss`` or ``gain``) that
    the constant is, whose SI values become those in the entry's ``unit``. ``of`` is the meaning."""
    if "part" in entry:
        part = load_part(entry["part"])
        figure = {"static_power": part.figure("static_power"), "loss": part.loss, "gain": part.gain}[entry["figure"]]
        assert figure is not None
        source, scale = figure.source, _SCALES[entry["unit"]]
        # Decimal as the catalog writes it, whatever the conversion to SI and back rounds.
        ends = (float(f"{number / scale:.12g}") for number in (figure.value, figure.least, figure.most))
    else:
        source, ends = entry["source"], (float(entry[end]) for end in ("value", "low", "high"))
    value, low, high = ends
    return Constant(name=name, value=value, low=low, high=high, unit=entry["unit"], meaning=entry["of"], source=source)


def constants(given: Mapping[str, float] | None = None) -> dict[str, Constant]:
    """Return all constants by name, those in ``given`` replaced by the user's values, in the units of the file, without
    a range (both ends are the value, the source is ``given``).

    Raises:
        UnknownNameError: there is no constant of a name.
        ConfigError: a value is not a finite number, or not above 0 where the constant's must be.
    """
    result = dict(published())
    for name, value in (given or {}).items():
        if name not in result:
            raise UnknownNameError("constant", name, result)
        known = result[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise ConfigError(f"constant {name} = {value!r}: expected a number of {known.unit or 'no unit'}")
        if known.logarithmic and value <= 0:
            raise ConfigError(f"constant {name} = {value:g}: expected more than 0 {known.unit}".rstrip())
        own = float(value)
        result[name] = replace(known, value=own, low=own, high=own, source="given", given=True)
    return result


def nominal(chosen: Mapping[str, Constant]) -> dict[str, float]:
    """Return the own value of each of the ``chosen`` constants, in SI units, by name."""
    return {name: constant.si(constant.value) for name, constant in chosen.items()}


def drawn(chosen: Mapping[str, Constant], draws: int, seed: int = 0) -> list[dict[str, float]]:
    """Return ``draws`` sets of values of the ``chosen`` constants by name, in SI units. Every constant is drawn
    uniformly over its range, along the logarithm if ``logarithmic``, and independently of the others; the same seed
    gives the same sets."""
    return [
        {name: constant.draw(float(share)) for (name, constant), share in zip(chosen.items(), row, strict=True)}
        for row in np.random.default_rng(seed).random((draws, len(chosen)))
    ]


# Constructed networks on meshes, as far as their costs ask, and the full scale that noise alone asks of them.
#
# `designs.yaml` holds those of the usual sizes, since finding and simulating one takes seconds; others are made anew:
#
# python -m lightloom.machines.reducers.constants       # makes the file again

NOISES = (5e-3, 1e-3, 3e-4, None)
"""Noise that a network must bear, a share of full scale: the most of these for which one is constructed."""
CASCADE_NOISE = 5e-4
"""Noise that cascades must bear, a share of full scale."""
MOST_SERVERS = 16
"""Servers beyond which no network is constructed here."""
TRIED_ERRORS = 3e-3
"""Share of wrong words for which full scales are simulated."""
_WORDS, _STEPS = 16_000, 14
_FAINTEST, _BRIGHTEST = 1e-5, 1e2
_FILE = Path(__file__).with_name("designs.yaml")
_STORED = ((2, 8, None), (4, 8, None), (8, 8, None), (16, 8, None), (16, 8, 4))
_WINDOW_STEP, _WINDOW_STEPS, _WINDOW_POINTS = 2e-10, 25, 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A network for so many servers on meshes, with P and T."""

    construction: str
    noise: float | None
    """Noise that the network bears, a share of full scale; None if it is built for exactness alone."""
    mzis: int
    columns: int
    """Columns of interferometers that light passes."""
    hidden: int
    """Number of hidden layers of the network."""
    units: int
    """Units of all hidden layers and the outputs."""
    lane_share: float
    """Power of a server's lane at P, of full scale."""
    full_scale: float
    """Watts of full scale for a share of wrong words of `TRIED_ERRORS`, with noise alone; infinite beyond 100 W."""
    window: float = 0.0
    """Metres of wavelength on either side of the one at which the meshes are set, within which every mean is right
    with the gains set anew (`photonics.chip.wavelengths`); 0 if it was not computed."""
    levels: int = 1
    """Number of averagers that light passes one after the other."""


@lru_cache(maxsize=32)
def network_design(servers: int, bits: int, ports: int | None = None) -> Design:
    """Return the design of the network with a gain for each row and homodyne units for so many servers, stored for the
    usual sizes and otherwise constructed and simulated.

    Args:
        servers: number of servers.
        bits: bits of a code.
        ports: servers of one averager; more servers take two levels. None: one averager for all. Ports that are no
            fewer than the servers make one level too.

    Raises:
        UnsupportedError: no network is constructed for so many servers.
        ConfigError: two levels do not reach all servers.
    """
    two = ports if ports is not None and servers > ports else None
    if (stored := _stored().get(_design_name(servers, bits, two))) is not None:
        full_scale = float("inf") if stored["full_scale"] is None else float(stored["full_scale"])
        return Design(**{**stored, "full_scale": full_scale})
    return make_design(servers, bits) if two is None else make_cascade(servers, bits, two)


def make_cascade(servers: int, bits: int, ports: int) -> Design:
    """Construct two levels of networks for ``servers`` servers, each network of ``ports`` of them, for codes of
    ``bits`` bits. Full scale is not simulated: it is that of one network of ``ports`` servers, times the square of the
    ratio of the noise that this one bears (5e-3 of full scale where it is built for exactness alone) to the 5e-4 that
    the cascade must bear. Numbers of MZIs, columns and units are those of all levels; the window is 0, not computed.

    Raises:
        UnsupportedError: no network is constructed for ``ports`` servers, or no cascade bears the noise.
        ConfigError: two levels do not reach all servers.
    """
    alone = network_design(ports, bits)
    made = averager_for(servers, bits, servers=ports, noise=CASCADE_NOISE, nonlinearity="clipped")
    borne = NOISES[0] if alone.noise is None else alone.noise
    assert borne is not None
    return replace(
        alone,
        construction=f"two levels of {ports}",
        noise=CASCADE_NOISE,
        mzis=sum(level.mzis for level in made.levels),
        columns=sum(level.columns for level in made.levels),
        hidden=sum(len(level.layers) - 2 for level in made.levels),
        units=sum(level.averagers * sum(level.layers[1:]) for level in made.levels),
        full_scale=float(f"{alone.full_scale * (borne / CASCADE_NOISE) ** 2:.3g}"),
        window=0.0,
        levels=len(made.levels),
    )


def make_design(servers: int, bits: int) -> Design:
    """Construct one network for so many servers and codes of ``bits`` bits, map it to meshes and simulate its full
    scale and its window of wavelengths, the metres on either side of the one at which the meshes are set within which
    every tried mean stays right.

    Raises:
        UnsupportedError: no network is constructed: there are more than 16 servers, or none is found.
    """
    if servers > MOST_SERVERS:
        raise UnsupportedError(f"no network is constructed here for more than {MOST_SERVERS} servers")
    made, noise = sturdiest(servers, bits)
    arguments = FunctionArguments(servers=servers, bits=bits)
    mapped = map_averager(made.network, arguments, BALANCED)
    layers = made.network.layers
    return Design(
        construction=made.name,
        noise=noise,
        mzis=mapped.mzis,
        columns=mapped.depth,
        hidden=len(layers) - 2,
        units=sum(layers[1:]),
        lane_share=float(f"{float(mapped.preprocessing.gains.max()) ** 2:.6g}"),
        full_scale=_full_scale(made, arguments),
        window=_window(mapped.layers, made),
    )


def _window(mapped: MappedNetwork, made: Construction) -> float:
    """Return the metres of wavelength on either side of the one at which meshes are set, within which every tried mean
    stays right, in steps of 0.2 nm up to 5 nm; 0 where the first step is too far."""
    dispersion = Dispersion()
    points = min(made.function.points, _WINDOW_POINTS)
    for step, side in product(range(1, _WINDOW_STEPS + 1), (-1, 1)):
        wavelength = dispersion.wavelength + side * step * _WINDOW_STEP
        there = [at_wavelength(matrix, wavelength, dispersion) for matrix in mapped.matrices]
        if noisy_accuracy(effective_network(mapped, there), made.function, 0.0, points) < 1:
            return float(f"{(step - 1) * _WINDOW_STEP:.3g}")
    return float(f"{_WINDOW_STEPS * _WINDOW_STEP:.3g}")


@lru_cache(maxsize=16)
def sturdiest(servers: int, bits: int) -> tuple[Construction, float | None]:
    """Return the constructed network of saturating units, for so many servers and codes of ``bits`` bits, that bears
    the most noise among 5e-3, 1e-3 and 3e-4 of full scale, and that noise; None for the noise where it is built for
    exactness alone.

    Raises:
        UnsupportedError: no network is constructed at all.
    """
    for noise in NOISES:
        try:
            return build(servers, bits, noise=noise, nonlinearity="clipped"), noise
        except UnsupportedError:
            if noise is None:
                raise
    raise AssertionError("the last noise is None")


def _full_scale(made: Construction, arguments: FunctionArguments) -> float:
    """Return the least watts of full scale with which the share of wrong words is at most 3e-3, simulated with shot
    noise and the default noise density of the detectors alone, for 16,000 words through one fabrication, and found by
    bisection from 10 µW to 100 W, three significant digits; infinite beyond 100 W."""
    chip = design_chip(made.network, arguments)
    defaults = Link()
    link = replace(ideal(defaults), shot_noise=True, noise_density=defaults.noise_density)
    low, high = _FAINTEST, _BRIGHTEST
    for _ in range(_STEPS):
        middle = (low * high) ** 0.5
        tried = word_errors(chip, replace(link, full_scale=middle), words=_WORDS, fabrications=1)
        low, high = (middle, high) if tried.rate > TRIED_ERRORS else (low, middle)
    return float(f"{high:.3g}") if high < _BRIGHTEST else float("inf")


def _design_name(servers: int, bits: int, ports: int | None) -> str:
    """Return the key of a design in ``designs.yaml``, such as ``16 servers, 8 bits`` or ``16 servers, 8 bits, two
    levels of 4``; ``ports`` are those of averagers of two levels, None for one level."""
    return f"{servers} servers, {bits} bits" + ("" if ports is None else f", two levels of {ports}")


@cache
def _stored() -> Document:
    """Return the stored designs, mappings of their fields, by their keys in ``designs.yaml``, with None for a full
    scale beyond 100 W; empty where there is no file."""
    return read_yaml(_FILE) if _FILE.exists() else {}


def main() -> None:
    """Construct the usual networks anew (one level for 2, 4, 8 and 16 servers and two levels of 4 for 16, at 8 bits)
    and write them to `designs.yaml`, in place of what it holds."""
    import yaml

    document = {}
    for servers, bits, ports in _STORED:
        made = make_design(servers, bits) if ports is None else make_cascade(servers, bits, ports)
        full_scale = None if made.full_scale == float("inf") else made.full_scale
        document[_design_name(servers, bits, ports)] = asdict(made) | {"full_scale": full_scale}
    _FILE.write_text(
        "# Made by python -m lightloom.machines.reducers.constants; watts of full scale, null beyond 100 W.\n"
        + yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=118)
    )


if __name__ == "__main__":
    main()
