"""Read quantities with units into SI floats, and format SI floats with units.

>>> parse("40Gbps", "bandwidth"), parse("50 GiB/s", "bandwidth"), parse("25us", "time"), parse("64MiB", "size")
(5000000000.0, 53687091200.0, 2.5e-05, 67108864.0)

Inside lightloom everything is SI: bytes, bytes per second, seconds, joules, watts, FLOP/s. A number without a unit is
taken to be in that unit already; a text of a time or of a price of electricity needs one. Lower-case ``b`` is a bit,
upper-case ``B`` a byte; ``k M G T P E`` are powers of 1000, ``Ki Mi Gi Ti Pi Ei`` powers of 1024.
"""

import math
import re
from typing import Literal

from lightloom.core.errors import UnitError

Dimension = Literal[
    "size",
    "bandwidth",
    "time",
    "compute_rate",
    "power",
    "energy",
    "energy_per_bit",
    "price",
    "price_of_electricity",
    "share",
]
YEAR = 365.25 * 86400.0
"""Seconds of a year."""

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {f"{p}i": 1024.0**i for i, p in enumerate(("K", "M", "G", "T", "P", "E"), start=1)}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}


def _with_prefixes(prefixes: dict[str, float], units: dict[str, float]) -> dict[str, float]:
    """Return the SI sizes of all units with each prefix before them, by spelling, such as ``MiB``: the product of the
    two. ``prefixes`` are factors by spelling (an empty one must be stated to get the bare units), ``units`` sizes in SI
    units by spelling."""
    return {p + u: scale * value for p, scale in prefixes.items() for u, value in units.items()}


_BITS = {"b": 0.125, "bit": 0.125, "bits": 0.125}
_BYTES = {"B": 1.0, "byte": 1.0, "bytes": 1.0}
_DATA = _with_prefixes(_DECIMAL | _BINARY, _BITS | _BYTES)
_RATE = {f"{unit}{per}": scale for unit, scale in _DATA.items() for per in ("/s", "ps")}
_FLOPS = {"FLOPS": 1.0, "FLOPs": 1.0, "FLOP/s": 1.0, "flops": 1.0, "flop/s": 1.0, "OPS": 1.0, "OP/s": 1.0}

_LONG = {"day": 86400.0, "week": 7 * 86400.0, "month": YEAR / 12, "year": YEAR}
_LONG |= {f"{unit}s": seconds for unit, seconds in _LONG.items()}
_MONEY = {"$": 1.0, "k$": 1e3, "M$": 1e6, "ct": 0.01}

_UNITS: dict[Dimension, dict[str, float]] = {
    "size": _DATA,
    "bandwidth": _RATE,
    "time": _with_prefixes(_SMALL, {"s": 1.0}) | {"min": 60.0, "h": 3600.0} | _LONG,
    "compute_rate": _with_prefixes(_DECIMAL, _FLOPS),
    "power": _with_prefixes(_SMALL | {"k": 1e3, "M": 1e6}, {"W": 1.0}),
    "energy": _with_prefixes(_SMALL | {"k": 1e3, "M": 1e6}, {"J": 1.0}) | {"Wh": 3600.0, "kWh": 3.6e6},
    "energy_per_bit": _with_prefixes(_SMALL, {"J/bit": 1.0, "J/b": 1.0}),
    "price": _MONEY,
    "price_of_electricity": {
        f"{coin}/{unit}": dollars / joules
        for coin, dollars in _MONEY.items()
        for unit, joules in (("kWh", 3.6e6), ("MWh", 3.6e9), ("J", 1.0))
    },
    "share": {"%": 0.01},
}
_EXAMPLES: dict[Dimension, str] = {
    "size": "64MiB, 1.5 GB, 4096",
    "bandwidth": "40Gbps, 5 GB/s, 50GiB/s",
    "time": "25us, 10ms, 24h",
    "compute_rate": "60 TFLOPS, 989.4 TFLOP/s",
    "power": "700W, 3.5 W",
    "energy": "1.2 J, 3 kWh",
    "energy_per_bit": "5 pJ/bit",
    "price": "$ 30000, 30 k$",
    "price_of_electricity": "12 ct/kWh, 0.12 $/kWh",
    "share": "5 %, 0.05",
}
_BARE: frozenset[Dimension] = frozenset({"price_of_electricity", "time"})
"""Dimensions whose text needs a unit unless it is 0: nobody means dollars a joule by a bare number, and 24 may be
seconds as well as hours."""
_FORMATS: dict[Dimension, tuple[float, tuple[tuple[str, float], ...]]] = {
    "size": (1.0, tuple((u, 1024.0**i) for i, u in reversed(list(enumerate(("B", "KiB", "MiB", "GiB", "TiB")))))),
    "bandwidth": (8.0, (("Tb/s", 1e12), ("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3), ("b/s", 1.0))),
    "time": (1.0, (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))),
    "compute_rate": (1.0, (("PFLOP/s", 1e15), ("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("FLOP/s", 1.0))),
    "power": (1.0, (("MW", 1e6), ("kW", 1e3), ("W", 1.0), ("mW", 1e-3))),
    "energy": (1.0, (("MJ", 1e6), ("kJ", 1e3), ("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6))),
    "energy_per_bit": (1.0, (("nJ/bit", 1e-9), ("pJ/bit", 1e-12), ("fJ/bit", 1e-15))),
    "price": (1.0, (("M$", 1e6), ("k$", 1e3), ("$", 1.0))),
    "price_of_electricity": (3.6e8, (("ct/kWh", 1.0),)),
    "share": (100.0, (("%", 1.0),)),
}
"""For each dimension, the factor from SI to the smallest unit's system, and units with their sizes, largest first."""
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.*?)\s*", re.ASCII)


def parse(value: str | float, dimension: Dimension) -> float:
    """Return a quantity of the given dimension in SI units (bytes, bytes per second, seconds, FLOP/s, watts, joules,
    joules per bit, dollars, dollars per joule, a share from 0), from a text with a unit, such as ``40Gbps`` or ``5 %``,
    or a number that is in SI units already.

    A text without a unit is a number in SI units, but for times and prices of electricity, which need one unless they
    are 0. Case counts: ``b`` is a bit, ``B`` a byte; ``k``, ``M``, ``G`` are powers of 1000, ``Ki``, ``Mi``, ``Gi`` of
    1024. Shares above 100 % pass.

    Raises:
        UnitError: not a number (a boolean is none), not finite, negative, or a unit that is missing or not of this
            dimension.
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UnitError(f"{value!r} is not a {_words(dimension)}: expected e.g. {_EXAMPLES[dimension]}")
    number, unit = (float(value), "") if not isinstance(value, str) else _split(value, dimension)
    if unit == "" and isinstance(value, str) and number and dimension in _BARE:
        raise UnitError(f"{value!r} has no unit: expected a {_words(dimension)} such as {_EXAMPLES[dimension]}")
    scale = 1.0 if unit == "" else _UNITS[dimension].get(unit)
    if scale is None:
        raise UnitError(f"{value!r}: unknown {_words(dimension)} unit {unit!r}, expected e.g. {_EXAMPLES[dimension]}")
    if not math.isfinite(number) or number < 0:
        raise UnitError(f"{value!r}: a {_words(dimension)} must be finite and not negative")
    return number * scale


def _split(text: str, dimension: Dimension) -> tuple[float, str]:
    """Return (number, unit) of a text, the unit as it is written, known or not, without blanks around it, and empty
    where there is none; a ``$`` before the number of a price is put at the unit's begin (``$ 0.12/kWh`` has ``$/kWh``).
    Digits may have underscores between them. UnitError where the text does not begin with a number."""
    leading = "$" if dimension in ("price", "price_of_electricity") and text.lstrip().startswith("$") else ""
    match = _NUMBER.fullmatch(text.lstrip().removeprefix("$") if leading else text)
    if match is None:
        raise UnitError(f"{text!r} is not a {_words(dimension)}: expected e.g. {_EXAMPLES[dimension]}")
    return float(match[1].replace("_", "")), leading + match[2]


def _words(dimension: Dimension) -> str:
    """Return the name of a dimension in words, without underscores."""
    return dimension.replace("_", " ")


def format_quantity(value: float, dimension: Dimension) -> str:
    """Return an SI quantity as text with at most four significant digits (``%.4g``), a blank and the unit: the largest
    unit of its dimension that keeps the magnitude at or above one, else, and for 0, the smallest.

    Sizes are in B to TiB, powers of 1024; bandwidths, given in bytes per second, in b/s to Tb/s; times in ns to s;
    shares in %; prices of electricity, given in dollars per joule, in ct/kWh. From 10^15 of the largest unit on, and
    below 0.0001 of the smallest, the number has an exponent.
    """
    factor, units = _FORMATS[dimension]
    value *= factor
    if value == 0:
        return f"0 {units[-1][0]}"
    name, scale = next(((n, s) for n, s in units if abs(value) >= s), units[-1])
    number = f"{value / scale:.4g}"
    return f"{float(number):.0f} {name}" if 1e4 <= abs(float(number)) < 1e15 else f"{number} {name}"


def format_time(seconds: float) -> str:
    """Return seconds as text with at most four significant digits, a blank and the largest unit, s, ms, µs or ns, that
    keeps the number at or above one: ``1.5 ms``; below 1 ns in ns, 0 as ``0 ns``, from 60 s on still in s."""
    return format_quantity(seconds, "time")


def format_difference(seconds: float) -> str:
    """Return a difference of times in seconds as text, always with its sign, + for zero, and otherwise as
    :func:`format_time`: ``+1.5 ms``."""
    return f"{'-' if seconds < 0 else '+'}{format_time(abs(seconds))}"


def format_size(nbytes: float) -> str:
    """Return a number of bytes as text with at most four significant digits, a blank and the largest unit, B, KiB, MiB,
    GiB or TiB, powers of 1024, that keeps the number at or above one: ``1.5 GiB``."""
    return format_quantity(nbytes, "size")


def format_bandwidth(bytes_per_second: float) -> str:
    """Return a rate given in bytes per second as text in bits per second, with at most four significant digits, a blank
    and the largest unit, b/s, kb/s, Mb/s, Gb/s or Tb/s, powers of 1000, that keeps the number at or above one:
    ``10 Gb/s`` for 1.25e9."""
    return format_quantity(bytes_per_second, "bandwidth")


def format_duration(seconds: float) -> str:
    """Return a time of 0 s or more as text with at most four significant digits, in the largest unit, years (of 365.25
    days), days, h, min or s, that keeps the number at or above one: ``1.5 days``; below 1 s in s."""
    named = ((YEAR, "years"), (86400.0, "days"), (3600.0, "h"), (60.0, "min"), (0.0, "s"))
    size, unit = next(entry for entry in named if seconds >= entry[0])
    return f"{seconds / (size or 1.0):.4g} {unit}"


def format_rate(value: float) -> str:
    """Return a rate without a unit as text: at most four significant digits, from 1000 on as a whole number with commas
    between thousands (``1,235,000``), never with an exponent there."""
    return f"{value:.4g}" if value < 1000 else f"{float(f'{value:.4g}'):,.0f}"


def format_energy(joules: float | None) -> str:
    """Return an energy in joules as text with at most four significant digits in the largest unit, µJ, mJ, J, kJ or MJ,
    that keeps the number at or above one; ``not sourced`` for None, where a part of it has no published value."""
    return "not sourced" if joules is None else format_quantity(joules, "energy")


def format_ratio(value: float | None) -> str:
    """Return a ratio as text with a times sign right behind it: at most three significant digits below 1000
    (``1.25×``), else a whole number with commas between thousands (``1,234×``); – for None, where there is nothing to
    compare."""
    if value is None:
        return "–"
    return f"{value:.3g}×" if value < 999.5 else f"{value:,.0f}×"


def two_digits(value: float) -> str:
    """Return a number as text with two significant digits, from 10 on whole with commas between thousands: ``0.38``,
    ``14``, ``1,800``."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 else f"{rounded:g}"


def format_claim(value: float | str | None) -> str:
    """Return a claim's figure as text: a number with at most six significant digits (``%.6g``), without its unit; a
    text unchanged, – for None."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.6g}"
