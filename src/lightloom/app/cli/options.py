"""Options and arguments that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.models import OptionInfo

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


def read_count(text: str, option: str, least: int | None = None) -> int:
    """Return a whole number given to an option.

    Raises:
        ConfigError: not a whole number, or less than ``least``.
    """
    try:
        number = int(text)
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}: expected a whole number") from error
    if least is not None and number < least:
        raise ConfigError(f"{option} {number}: expected at least {least}")
    return number


def option(help: str, metavar: str | None = None, name: str | None = None) -> OptionInfo:
    """Return an option with its help; ``name`` where the parameter's own does not do."""
    info: OptionInfo = typer.Option(*([] if name is None else [name]), help=help, metavar=metavar)
    return info


class _Refused(typer.BadParameter):
    """A value that cannot be read; the message names the option itself."""

    def format_message(self) -> str:
        return self.message


def parsed_option(read: Callable[[str, str], object], name: str, help: str, metavar: str) -> OptionInfo:
    """Return an option whose value is what ``read(text, name)`` makes of its text; a ConfigError refuses it."""

    def parse(text: str) -> object:
        try:
            return read(text, name)
        except ConfigError as error:
            raise _Refused(str(error)) from error

    info: OptionInfo = typer.Option(name, help=help, metavar=metavar, parser=parse)
    return info


def count_option(name: str, help: str, metavar: str = "N", least: int | None = None) -> OptionInfo:
    """Return an option that takes a whole number, of at least ``least``."""
    return parsed_option(partial(read_count, least=least), name, help, metavar)


def figure_option(content: str) -> OptionInfo:
    """Return the option ``--figure`` that draws ``content``."""
    return option(f"{content} (.svg, .png, .pdf).")


Json = Annotated[bool, option("One JSON document on stdout.", name="--json")]
KIND_HELP = (
    "all-gather, all-reduce, all-to-all, all-to-all-v, barrier, broadcast, gather, permute, reduce, reduce-scatter, "
    "reduce-scatter-v or scatter."
)
Kind = Annotated[str, typer.Argument(help=KIND_HELP)]
Permutation = Annotated[
    str | None, option("To whom each rank sends in a permute: shift:K, reverse, or ranks as 1,0,3,2; else the next.")
]
Sizes = Annotated[
    str | None,
    option("Of the parts of an all-to-all-v or a reduce-scatter-v: zipf:EXPONENT[:SEED], or bytes in a .csv file."),
]
FabricName = Annotated[str, option("A fabric of the catalog, or a YAML file.", name="--fabric")]
OptionalFabricName = Annotated[str | None, option("A fabric of the catalog, or a YAML file.", name="--fabric")]
Settings = Annotated[list[str] | None, option("field=value of the fabric; repeatable.", name="--set")]
Ranks = Annotated[int, count_option("--ranks", "Number of ranks.")]
Wavelengths = Annotated[int | None, count_option("--wavelengths", "Wavelengths of a fibre.", "W")]
Nbytes = Annotated[
    str | None,
    option(
        "What every rank holds in the end (all-gather) or at the start (all others); the root (gather, scatter); all "
        "ranks together (permute)."
    ),
]
NbytesPerRank = Annotated[str | None, option("The same, divided by the number of ranks.")]
_COMPONENTS = "--components/--whole"
Network = Annotated[Path, typer.Argument(metavar="NET.npz", help="As `onn build` and `onn train` write it.")]
NetworkOut = Annotated[Path | None, option("Write the network (.npz).")]
Nonlinearity = Annotated[str, option("relu, or clipped: units that saturate.")]
Rounding = Annotated[str, option("floor, or half-up.")]
MeshKind = Annotated[str | None, option("rectangular (also the default) or triangular.")]
Components = Annotated[
    bool | None,
    option("Meshes of a matrix's connected components, whose waveguides cross, or of it whole.", name=_COMPONENTS),
]
Gains = Annotated[
    str | None, option("rows (also the default): a gain for each output; common: one for all of a matrix.")
]
NoisyDraws = Annotated[
    int, count_option("--evaluations", "Noisy draws behind each accuracy on the way to the noise limit.", least=1)
]


# Options of commands that count dollars: electricity, the building, and over how long a price is paid.

Pue = Annotated[str | None, option("Joules at the meter for each of the cluster; 1.4 without it, an assumption.", "X")]
Electricity = Annotated[
    str | None, option("Price of electricity, e.g. 8 ct/kWh; 12 ct/kWh without it, an assumption.", "PRICE")
]
Amortisation = Annotated[
    str | None, option("Time over which prices are paid, e.g. 5 years; 4 years without it, an assumption.", "TIME")
]
Maintenance = Annotated[
    str | None, option("Share of the price that maintenance costs a year; 5 % without it, an assumption.", "SHARE")
]
BoardPrice = Annotated[str | None, option("Dollars of one accelerator; the catalog's board without it.", "PRICE")]
HostPower = Annotated[
    str | None,
    option("Watts of a node beside its accelerators, for each of them; the catalog's host without it.", "POWER"),
]
HostPrice = Annotated[str | None, option("Dollars of the same; missing without it, as no source gives any.", "PRICE")]
FabricPrice = Annotated[
    str | None, option("Dollars of the fabric for each rank, in place of those of its parts.", "PRICE")
]
Prices = Annotated[
    list[str] | None,
    option("part=price of one part of the fabric, e.g. wdm-engine='$ 120'; repeatable.", "PART=PRICE", "--price"),
]


def site_inputs(options: Mapping[str, Any], settings: Document) -> Document:
    """Return the inputs of a :class:`~lightloom.planning.economics.ledger.Site` from options of its fields' names.

    Args:
        options: of a command.
        settings: of ``--set``; choices of the bill are taken out of them.

    Raises:
        ConfigError: a price without a part, or two of one.
    """
    from lightloom.planning.economics.ledger import Site

    chosen = {name: settings.pop(name) for name in BillChoices.model_fields if name in settings}
    inputs = {name: options[name] for name in Site.model_fields if name in options}
    return {**inputs, "prices": read_prices(options.get("prices")), "choices": chosen or None}


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
