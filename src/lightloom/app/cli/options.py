"""Options and arguments that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lightloom.app.cli.derived import Help, Options
from lightloom.core.documents import parse_yaml
from lightloom.core.errors import INSTALL_TORCH, ConfigError, InputError, UnsupportedError
from lightloom.core.results import Document
from lightloom.machines.parts.bill import BillChoices

if TYPE_CHECKING:
    pass


@contextmanager
def needs_torch(what: str, otherwise: str = "", error: type[InputError] = UnsupportedError) -> Iterator[None]:
    """Run imports that load PyTorch; without it the command is refused, with ``otherwise`` as what to do instead."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise error(f"{what} {INSTALL_TORCH}{otherwise}") from missing


def read_settings(assignments: Iterable[str] | None, wavelengths: int | None = None) -> Document:
    """Return ``field=value`` pairs; values are read as YAML scalars, so ``8`` is a number and ``50GiB/s`` a text.

    Raises:
        ConfigError: no ``=``, or a value that is no scalar.
    """
    settings: Document = {}
    for assignment in assignments or ():
        field, equals, text = assignment.partition("=")
        if not equals or not field.strip():
            raise ConfigError(f"--set {assignment!r}: expected field=value, e.g. hop_latency=0.5us")
        try:
            value = parse_yaml(text, f"--set {field}")
        except ConfigError:
            value = text
        if isinstance(value, (dict, list)):
            raise ConfigError(f"--set {assignment!r}: expected a single value, not {type(value).__name__}")
        settings[field.strip()] = value
    if wavelengths is not None:
        settings["wavelengths"] = wavelengths
    return settings


Kind = Annotated[
    str,
    Help(
        "all-gather, all-reduce, all-to-all, all-to-all-v, barrier, broadcast, gather, permute, reduce, "
        "reduce-scatter, reduce-scatter-v or scatter."
    ),
]
FabricName = Annotated[str, Help("A fabric of the catalog, or a YAML file.")]
Settings = Annotated[list[str] | None, Help("field=value of the fabric; repeatable.")]
Ranks = Annotated[int, Help("Number of ranks.")]
Wavelengths = Annotated[int | None, Help("Wavelengths of a fibre.", "W")]
Network = Annotated[Path, Help("As `onn build` and `onn train` write it.", "NET.npz")]
Several = Annotated[int, Field(ge=2)]
"""A whole number of at least two."""


# Options of commands that count dollars: electricity, the building, and over how long a price is paid.


def site_inputs(settings: Document, *, price: list[str] | None = None, **inputs: str) -> Document:
    """Return the inputs of a :class:`~lightloom.planning.economics.ledger.Site` from options of its fields' names.

    Args:
        settings: fields of ``--set``; choices of the bill are taken out of them.
        pue (X): Joules at the meter for each of the cluster; 1.4 without it, an assumption.
        electricity (PRICE): Price of electricity, e.g. 8 ct/kWh; 12 ct/kWh without it, an assumption.
        amortisation (TIME): Time over which prices are paid, e.g. 5 years; 4 years without it, an assumption.
        maintenance (SHARE): Share of the price that maintenance costs a year; 5 % without it, an assumption.
        board_price (PRICE): Dollars of one accelerator; the catalog's board without it.
        host_power (POWER): Watts of a node beside its accelerators, for each of them; the catalog's host without it.
        host_price (PRICE): Dollars of a node beside its accelerators, for each of them; missing without it, as no
            source gives any.
        fabric_price (PRICE): Dollars of the fabric for each rank, in place of those of its parts.
        price (PART=PRICE): part=price of one part of the fabric, e.g. wdm-engine='$ 120'; repeatable.

    Raises:
        ConfigError: a price without a part, or two of one.
    """
    chosen = {name: settings.pop(name) for name in BillChoices.model_fields if name in settings}
    return {**inputs, "prices": read_prices(price), "choices": chosen or None}


SiteInputs = Annotated[partial[Document], Options(site_inputs)]


def read_prices(given: Sequence[str] | None) -> dict[str, str] | None:
    """Return the prices of parts by name; None where none are given."""
    return read_pairs(given, "--price {}", "part=price, e.g. wdm-engine='$ 120'") or None


def read_pairs(given: Sequence[str] | None, place: str, form: str) -> dict[str, str]:
    """Return ``name=value`` texts as a mapping.

    Args:
        given: the texts.
        place: where a text was given, for messages; ``{}`` stands for it.
        form: the form of a text, for messages.

    Raises:
        ConfigError: another form, or a name that is given twice.
    """
    pairs: dict[str, str] = {}
    for text in given or ():
        name, equals, value = (word.strip() for word in text.partition("="))
        if not (name and equals and value):
            raise ConfigError(f"{place.format(text)}: expected {form}")
        if name in pairs:
            raise ConfigError(f"{place.format(text)}: {name} is given twice: expected it once")
        pairs[name] = value
    return pairs
