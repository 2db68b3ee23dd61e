"""Codecs by name: ``inceptionn:2^-10``, ``truncate:16``. Plug-ins are registered in the group ``lightloom.codecs``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.plugins import plugins_of
from lightloom.exchange.compression.blocks import Int3, Int4, Int8, Lloyd2, Sign
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted, InceptionnScaled
from lightloom.exchange.compression.truncation import BlockFixedPoint, Truncation


@dataclass(frozen=True, slots=True)
class Family:
    """Codecs that differ in one parameter and are written ``name:parameter``."""

    name: str
    build: Callable[[Any], Codec]
    """Builds the codec from the parameter that :attr:`read` returns."""
    read: Callable[[str], Any]
    """Parses the text behind the colon; raises ValueError if it cannot."""
    default: str
    """Text of the parameter where a name has none."""
    summary: str
    """One line that says what the codecs do."""


@cache
def codecs() -> dict[str, Family]:
    """Return all families of codecs by name, built-in ones first, then those of plug-ins, one of which replaces an
    earlier one of its name.

    Raises:
        ConfigError: a plug-in cannot be imported, or is not a :class:`Family`.
    """
    return {family.name: family for family in [*_BUILT_IN, *plugins_of("codecs", Family)]}


def names() -> list[str]:
    """Return the names of all families of codecs, built-in ones first, without parameters."""
    return list(codecs())


def description(name: str) -> dict[str, str]:
    """Return what the family of codecs of that name does (``description``), and the full name of its default codec
    (``default``).

    Raises:
        UnknownNameError: there is no family of that name.
    """
    family = _family(name)
    return {"description": family.summary, "default": f"{name}:{family.default}"}


def find(name: str) -> Codec:
    """Return the codec that a name names: ``family:parameter``, such as ``inceptionn:2^-10`` or ``int8:256``, or a
    family alone for the codec of its default parameter.

    Raises:
        UnknownNameError: there is no family of that name.
        ConfigError: the parameter cannot be read or is out of range.
    """
    family_name, colon, parameter = name.partition(":")
    family = _family(family_name)
    text = parameter if colon else family.default
    try:
        value = family.read(text)
    except ValueError as error:
        example = f"{family.name}:{family.default}"
        raise ConfigError(f"codec {name!r}: {text!r} cannot be read; write for example {example}") from error
    return family.build(value)


def read_bound(text: str) -> float:
    """Return the number that ``2^-10``, ``2**-10`` or a decimal number stands for; its range is not checked, and
    ``inf`` and ``nan`` count as numbers.

    Raises:
        ValueError: the text is none of these, the exponent of 2 is no whole number, or it is beyond 1000 in size.
    """
    for power in ("2^", "2**"):
        if text.startswith(power):
            exponent = int(text.removeprefix(power))
            if abs(exponent) > 1000:
                raise ValueError(f"2^{exponent} is not a float")
            return 2.0**exponent
    return float(text)


def _family(name: str) -> Family:
    """Return the family of codecs of that name, without a parameter; raises UnknownNameError where there is none."""
    if name not in (families := codecs()):
        raise UnknownNameError("codec", name, families)
    return families[name]


_TABLE: dict[str, tuple[Callable[[Any], Codec], Callable[[str], Any], str, str]] = {
    "inceptionn": (Inceptionn, read_bound, "2^-10", "0, 8, 16 or 32 bits per value; every error is below the bound"),
    "inceptionn-printed": (
        InceptionnPrinted,
        read_bound,
        "2^-10",
        "INCEPTIONN as its paper prints it; errors exceed bounds below 2^-7",
    ),
    "inceptionn-scaled": (
        InceptionnScaled,
        read_bound,
        "2^-10",
        "INCEPTIONN of messages scaled by a power of two: the bound is relative to their root mean square",
    ),
    "truncate": (Truncation, int, "16", "drop the low bits of each value"),
    "block-fixed-point": (BlockFixedPoint, int, "8", "blocks of 32 values share an exponent"),
    "int8": (Int8, int, "256", "8 bits per value, in 127ths of its block's largest size"),
    "int4": (Int4, int, "128", "4 bits per value, in sevenths of that"),
    "int3": (Int3, int, "128", "3 bits per value, in thirds of that"),
    "lloyd2": (
        Lloyd2,
        int,
        "64",
        "2 bits per value: the levels of Lloyd and Max for a Gaussian of its block's mean size",
    ),
    "sign": (Sign, int, "256", "1 bit per value: its sign, at its block's mean size"),
}
"""Built-in families by name: what builds a codec, what reads its parameter, the default's text, and the summary."""
_BUILT_IN = [Family(name, *row) for name, row in _TABLE.items()]
