"""Options and arguments that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from rich.table import Table
from rich.text import Text

from lightloom.app.cli.derived import Help, Options
from lightloom.core.documents import parse_yaml
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable
from lightloom.core.results import Document, plain, provenance_line
from lightloom.machines.parts.bill import BillChoices
from lightloom.reports.console import make_console
from lightloom.reports.figures.canvas import check_format, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure
# What the commands share: fields set on the command line, counts, files to write, and how a result is printed.


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout; numbers that JSON lacks become null."""
    json.dump(plain(document), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def print_result(
    document: Document,
    as_json: bool,
    parts: Iterable[str | Text | Table],
    written: Mapping[str, Path | None] | None = None,
) -> None:
    """Print a command's result: its document as JSON, or else its parts for people.

    Args:
        document: the result, with its ``provenance``.
        as_json: whether to print the document.
        parts: tables and lines, made only where they are printed; provenance and written files follow.
        written: files that were written, by what they hold; None for a file that was not requested.
    """
    if as_json:
        print_json(document)
        return
    console = make_console()
    for part in parts:
        if isinstance(part, Table) and not console.is_terminal:
            # A pipe has no edge: no word is broken there, and no column cut.
            console.width = max(
                console.width, console.measure(part, options=console.options.update(width=1 << 14)).minimum
            )
        console.print(part, soft_wrap=isinstance(part, str) and not console.is_terminal)
    console.print(provenance_line(document["provenance"]), style="dim")
    for name, path in (written or {}).items():
        if path is not None:
            console.print(f"{name}: {path}", soft_wrap=True)


def draw(path: Path | None, figure: Callable[[], Figure], document: Document) -> Path | None:
    """Save the figure of a command's result, with the result's provenance, where a path is given; returns the path."""
    return None if path is None else save(figure(), path, provenance_line(document["provenance"]))


def arguments(function: Callable[..., object], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a command's options that a function of the API has parameters of the same names for."""
    return {name: options[name] for name in signature(function).parameters if name in options}


def check_outputs(figures: Iterable[Path | None] = (), files: Iterable[Path | None] = ()) -> None:
    """Check before the work that every figure has a form that can be drawn, and that every file can be written.

    Raises:
        ConfigError: another form, or a place that cannot be written to.
    """
    drawn = [path for path in figures if path is not None]
    for path in drawn:
        check_format(path)
    for path in [*(path for path in files if path is not None), *drawn]:
        check_writable(path)


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


Json = Annotated[bool, "--json", Help("One JSON document on stdout.")]
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


def site_inputs(
    settings: Document,
    *,
    pue: str | None = None,
    electricity: str | None = None,
    amortisation: str | None = None,
    maintenance: str | None = None,
    board_price: str | None = None,
    host_power: str | None = None,
    host_price: str | None = None,
    fabric_price: str | None = None,
    price: list[str] | None = None,
) -> Document:
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
    inputs: Document = {"pue": pue, "electricity": electricity, "amortisation": amortisation}
    inputs |= {"maintenance": maintenance, "board_price": board_price, "host_power": host_power}
    chosen = {name: settings.pop(name) for name in BillChoices.model_fields if name in settings}
    inputs |= {"host_price": host_price, "fabric_price": fabric_price, "choices": chosen or None}
    return inputs | {"prices": read_prices(price)}


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
