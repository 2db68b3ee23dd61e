"""Every codec by the name that people write: ``inceptionn:2^-10``, ``truncate:16``; plug-ins included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from lightloom.compression.base import Codec
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.plugins import plugins_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Codecs that differ in one parameter: ``name:parameter``."""

    name: str
    build: Callable[[Any], Codec]
    """Takes the parameter as :attr:`read` returns it."""
    read: Callable[[str], Any]
    """Reads what stands behind the colon; raises ValueError."""
    default: str
    """The parameter where none is written."""
    summary: str


@cache
def codecs() -> dict[str, Family]:
    """Every family of codecs, plug-ins (group ``lightloom.codecs``) included, by name.

    Raises:
        ConfigError: a plug-in registered something that is not a :class:`Family`.
    """
    return {each.name: each for each in [*_built_in(), *plugins_of("codecs", Family)]}


def find(name: str) -> Codec:
    """The codec of that name: a family, or a family and its parameter behind a colon.

    Raises:
        UnknownNameError: no such family.
        ConfigError: the parameter cannot be read or is out of range.
    """
    family_name, colon, parameter = name.partition(":")
    families = codecs()
    if family_name not in families:
        raise UnknownNameError("codec", family_name, families)
    family = families[family_name]
    text = parameter if colon else family.default
    try:
        value = family.read(text)
    except ValueError as error:
        raise ConfigError(
            f"codec {name!r}: {text!r} cannot be read; write for example {family.name}:{family.default}"
        ) from error
    return family.build(value)


def read_bound(text: str) -> float:
    """``2^-10``, ``2**-10`` or a plain number.

    Raises:
        ValueError: neither.
    """
    for power in ("2^", "2**"):
        if text.startswith(power):
            exponent = int(text.removeprefix(power))
            if abs(exponent) > 1000:
                raise ValueError(f"2^{exponent} is no float")
            return 2.0**exponent
    return float(text)


def _built_in() -> list[Family]:
    from lightloom.compression.block_fixed_point import BlockFixedPoint
    from lightloom.compression.inceptionn import Inceptionn, InceptionnPrinted
    from lightloom.compression.truncation import Truncation

    return [
        Family(
            name="inceptionn",
            build=Inceptionn,
            read=read_bound,
            default="2^-10",
            summary="0, 8, 16 or 32 bits a value; never off by the bound",
        ),
        Family(
            name="inceptionn-printed",
            build=InceptionnPrinted,
            read=read_bound,
            default="2^-10",
            summary="the same as the paper prints it; breaks its bound below 2^-7",
        ),
        Family(name="truncate", build=Truncation, read=int, default="16", summary="drop the low bits of each value"),
        Family(
            name="block-fixed-point",
            build=BlockFixedPoint,
            read=int,
            default="8",
            summary="32 neighbours share an exponent",
        ),
    ]
