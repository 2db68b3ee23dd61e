"""Options of commands, derived from functions: what an option takes from its annotation, its help from the docstring.

    def bill(built: str, *, ranks: int | None = None, explain: bool = False, site: SiteInputs) -> None:
        \"""Count the parts of a fabric.

        Args:
            built (FABRIC): A name of the catalog.
            ranks: Number of ranks; the cluster's own without it.
            explain: List the formula behind each count.
        \"""

is ``bill FABRIC --ranks N --explain``: positional parameters are arguments, keywords are options. A parameter that is
annotated with :class:`Options` brings those of another function: ``SiteInputs = Annotated[partial[Document],
Options(site_inputs)]`` adds ``--pue`` and the others, and the command calls ``site()`` to which these are bound.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import typer
from pydantic import Field
from pydantic.fields import FieldInfo
from rich.table import Table
from rich.text import Text

from lightloom.core.documents import parse_yaml
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Quantity
from lightloom.core.files import check_writable
from lightloom.core.results import Document, plain, provenance_line
from lightloom.machines.parts.bill import BillChoices
from lightloom.reports.console import make_console
from lightloom.reports.figures.canvas import check_format, need_figures, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Help(NamedTuple):
    """Help of one option: what it does, and the word that stands for its value, as ``TIME``; None leaves the word to
    the type."""

    text: str
    value: str | None = None


class Options(NamedTuple):
    """Options that a command takes over from a function: its parameters that have a default, without those that the
    command itself has."""

    function: Callable[..., Any]
    without: Sequence[str] = ()
    """Parameters that are no options."""

    def parameters(self, own: Mapping[str, Any], helps: Mapping[str, Help]) -> Iterator[Parameter]:
        """Yield the function's options as parameters that Typer reads: those with a default, but for those in
        ``without`` and in ``own``, which the command itself has.

        ``own`` are the command's parameters by name; ``helps``, the command's helps by name, go before the function's.
        """
        listed = documented(self.function)[1]
        for name, parameter in signature(self.function).parameters.items():
            if parameter.default is not Parameter.empty and name not in own and name not in self.without:
                option = parameter.replace(kind=Parameter.KEYWORD_ONLY)
                yield _read_by_typer(self.function, option, helps.get(name, listed.get(name)))


_Json = Annotated[bool, "--json", Help("One JSON document on stdout.")]


def with_options(command: Callable[..., Any]) -> Callable[..., None]:
    """Return a command as Typer takes it: its signature has the options of all functions that it takes over, each with
    its help, and ``--json`` where it returns something to show.

    When called, it binds the options that were given (not None) to these functions, calls the command with them in the
    place of the parameters that stand for the functions, and shows what that returns. Its help is the command's
    docstring up to the arguments; a parameter ``as_json`` of the command gets the value of ``--json``.
    """
    (summary, helps), own, parameters = documented(command), signature(command).parameters, list[Parameter]()
    bound: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    for name, parameter in own.items():
        options = [each for each in _constraints(_hint(command, parameter)) if isinstance(each, Options)]
        if name == "as_json":
            continue
        if options:
            derived = list(options[0].parameters(own, helps))
            bound[name] = options[0].function, [each.name for each in derived]
            parameters += derived
        else:
            parameters.append(_read_by_typer(command, parameter, helps.get(name)))

    if signature(command).return_annotation not in (None, "None"):
        as_json = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=_Json)
        parameters.append(_read_by_typer(command, as_json, None))

    def run(as_json: bool = False, **values: Any) -> None:
        """Call the command with what was given, parameters of other functions bound to them, and show what it
        returns."""
        if "as_json" in own:
            values["as_json"] = as_json
        for name, (function, names) in bound.items():
            given = {option: value for option in names if (value := values.pop(option)) is not None}
            values[name] = partial(function, **given)
        if (shown := command(**values)) is not None:
            shown.show(as_json)

    run.__name__, run.__doc__ = command.__name__, summary
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def documented(function: Callable[..., Any]) -> tuple[str, dict[str, Help]]:
    """Return (the docstring up to its arguments, help of each argument by name).

    Helps are read from entries ``name (VALUE): what it does.`` under ``Args:``, as plain text on one line that begins
    with a capital (but where its first word is no mere letters, such as ``part=time``), without double backquotes and
    with the bare names of cross-references; an entry without VALUE leaves the word for the value open (None). Without
    arguments there are none.
    """
    summary, _, rest = (getdoc(function) or "").partition("\n\nArgs:\n")
    helps: dict[str, Help] = {}
    entry = re.compile(r"^ {4}(\w+)(?: \((\S+)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
    for name, value, lines in entry.findall(rest.partition("\n\n")[0]):
        words = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"\1", " ".join(lines.split()))
        # What is to be written as it stands, as in ``part=time`` and ``relu, or clipped``, gets no capital.
        words = words[0].upper() + words[1:] if words.split()[0].isalpha() else words
        helps[name] = Help(words.replace("``", ""), value or None)
    return summary, helps


def _read_by_typer(function: Callable[..., Any], parameter: Parameter, help: Help | None) -> Parameter:
    """Return a parameter as Typer takes it: by keyword, its annotation, which also allows None, with the spelling, the
    reader, the help and the check. A truth value that is not False by default also gets the spelling ``--no-NAME``,
    unless the annotation spells it. Where values repeat, the default is None; a parameter without a default is
    required.

    Args:
        function: the function that has the parameter, in whose module its annotation is evaluated.
        parameter: the parameter; a positional one becomes an argument, one by keyword an option.
        help: its help from a docstring; None takes that of the annotation, if it has one.
    """
    hint, name = _hint(function, parameter), f"--{parameter.name.replace('_', '-')}"
    stated = _constraints(hint)
    text, metavar = help or next((each for each in stated if isinstance(each, Help)), Help(""))
    value, bounds, repeated = _value_of(hint)
    spelling = [each for each in stated if isinstance(each, str)] or [name]
    if value is bool and spelling == [name] and parameter.default is not False:
        spelling = [f"{name}/--no-{name[2:]}"]
    about: dict[str, Any] = {"help": text, "metavar": metavar or ("N" if value is int else None)}
    if (read := _reader(value, bounds)) is not None:
        about["parser"] = partial(_parse, read, spelling[0])
    if check := next((each for each in stated if callable(each)), None):
        about["callback"] = _callback(check)
    is_argument = parameter.kind is Parameter.POSITIONAL_OR_KEYWORD
    info = typer.Argument(**about) if is_argument else typer.Option(*spelling, **about)
    kind: Any = list[value] if repeated else value  # type: ignore[valid-type]
    # Without it the function has its own default, which may be a text where several are given as a list.
    default = None if repeated and parameter.default is not Parameter.empty else parameter.default
    return Parameter(parameter.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind | None, info])


def _callback(check: Callable[[Any], None]) -> Callable[[Any], Any]:
    """Return a function, as Typer takes it, that checks a given value (not None) and passes it on."""

    def callback(value: Any) -> Any:
        """Check a value unless it is None, and return it."""
        if value is not None:
            check(value)
        return value

    return callback


def _hint(function: Callable[..., Any], parameter: Parameter) -> Any:
    """Return a parameter's annotation, evaluated in the function's module if it is written as a text."""
    hint = parameter.annotation
    return eval(hint, vars(sys.modules[function.__module__])) if isinstance(hint, str) else hint


def _constraints(hint: Any) -> list[Any]:
    """Return what ``Annotated`` says of a type, such as helps, spellings and checks, with pydantic's constraints one by
    one; an empty list for other types."""
    stated = getattr(hint, "__metadata__", ())
    return [each for one in stated for each in (one.metadata if isinstance(one, FieldInfo) else [one])]


def _members(hint: Any) -> set[Any]:
    """Return the types of a union without None, nested ones flattened; a literal and a type that is written as text
    count as ``str``. A type annotated with a spelling, a help or a check is taken without its annotation, one with
    bounds alone as it stands."""
    if isinstance(hint, str) or get_origin(hint) is Literal:
        return {str}
    if get_origin(hint) is Annotated and any(
        isinstance(each, str | Help) or callable(each) for each in _constraints(hint)
    ):
        return _members(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return {member for each in get_args(hint) for member in _members(each)}
    return {hint} - {NoneType}


def _value_of(hint: Any) -> tuple[type, list[Any], bool]:
    """Return (type, bounds, repeated) of an option's value: ``bool``, ``Path``, ``int``, ``float`` or, for all that is
    read as text (numbers with units and unions of several types too), ``str``.

    Bounds are pydantic's constraints of a number, empty for other types; ``repeated`` is True where an annotation
    allows a sequence of such values.
    """
    members = _members(hint)
    sequences = {each for each in members if get_origin(each) in (list, Sequence)}
    elements = {element for each in sequences for element in _members(get_args(each)[0])}
    repeated = bool(elements) and members - sequences in (set(), elements)
    kinds = elements if repeated else members - sequences
    if bool in kinds:
        return bool, [], repeated
    if Path in kinds and kinds <= {str, Path}:
        return Path, [], repeated
    kind = kinds.pop() if len(kinds) == 1 else str
    base = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    bounds = _constraints(kind)
    is_number = base in (int, float) and not any(isinstance(each, Quantity) for each in bounds)
    return (base, bounds, repeated) if is_number else (str, [], repeated)


# How the text of an option is read, and refused.


class _Refused(typer.BadParameter):
    """A value that cannot be read; the message names the option itself."""

    def format_message(self) -> str:
        """Return the message as it is, without the name of the option that Click would put before it."""
        return self.message


def _parse(read: Callable[[str, str], object], name: str, value: object) -> object:
    """Return what ``read(text, name)`` makes of an option's text, or the value itself where it is no text, such as a
    default.

    ``name`` is the option's, for messages. A text that cannot be read raises _Refused, which refuses the command, with
    the reader's message.
    """
    try:
        return read(value, name) if isinstance(value, str) else value
    except ConfigError as error:
        raise _Refused(str(error)) from error


def _reader(value: type, bounds: Sequence[Any]) -> Callable[[str, str], object] | None:
    """Return the reader of a number of these bounds, from (text, option) to the value: of a whole number, of a share
    where floats also have a greatest value, or of a number. None where Typer's own reader serves: for other types, and
    for floats without a least value. Of the bounds only the least value of a whole number is enforced: a share is from
    0 to 1, a number 0 or more."""
    least = next((each.ge for each in bounds if hasattr(each, "ge")), None)
    if value is int:
        return partial(read_count, least=least)
    if value is not float or least is None:
        return None
    return read_share if any(hasattr(each, "le") for each in bounds) else read_number


def read_count(text: str, option: str, least: int | None = None) -> int:
    """Return the whole number that the text given to an option states; ``option`` is its name, for messages, and
    ``least`` the smallest number that is allowed, None for any.

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


def read_number(text: str, option: str) -> float:
    """Return the number, 0 or more and finite, that the text given to an option states; ``option`` is its name, for
    messages.

    Raises:
        ConfigError: anything else.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise ConfigError(f"{option} {text!r}: expected a number, 0 or more")
    return number


def read_share(text: str, option: str) -> float:
    """Return as a share between 0 and 1 what the text given to an option states: a number, or per cent with a % sign
    (``99%``); ``option`` is its name, for messages.

    Raises:
        ConfigError: anything else.
    """
    share = read_number(text.strip().removesuffix("%"), option) / (100 if text.strip().endswith("%") else 1)
    if share > 1:
        raise ConfigError(f"{option} {text!r}: expected 0 to 1, or per cent as 99%")
    return share


# What a command prints and writes: a document or its parts for people, figures and other files.


class Shown(NamedTuple):
    """Result of a command: its document for ``--json``, or else its parts for people."""

    document: Document
    """The result, with its ``provenance``."""
    parts: Iterable[str | Text | Table]
    """Tables and lines, made only where they are printed; written files follow."""
    written: Mapping[str, Path | None] = MappingProxyType({})
    """Files that were written, by what they hold; None for a file that was not requested."""
    bare: bool = False
    """True where the parts are texts that are printed as they are, and nothing follows."""
    messages: Sequence[str] = ()
    """Lines among the parts that go to stderr where the document is printed."""
    code: int = 0
    """Exit code."""

    def show(self, as_json: bool) -> None:
        """Print the document as JSON on stdout if ``as_json``, numbers that JSON lacks (infinite ones and NaN) as null
        and the messages on stderr, else the parts for people and the paths of files that were written (only the parts
        where they are ``bare``); raise ``typer.Exit`` where the exit code is another than 0."""
        if as_json:
            # Numbers that JSON lacks become null.
            json.dump(plain(self.document), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
            typer.echo()
            for line in self.messages:
                typer.echo(line, err=True)
        elif self.bare:
            for part in self.parts:
                typer.echo(part)
        else:
            self._print_parts()
        if self.code:
            raise typer.Exit(self.code)

    def _print_parts(self) -> None:
        """Print the parts for people, then a line ``name: path`` for each file that was written. Tables are as wide as
        they need in a pipe, and fit the terminal otherwise."""
        console = make_console()
        for part in self.parts:
            if isinstance(part, Table) and not console.is_terminal:
                # A pipe has no edge: no word is broken there, and no column cut.
                least = console.measure(part, options=console.options.update(width=1 << 14)).minimum
                console.width = max(console.width, least)
            console.print(part, soft_wrap=isinstance(part, str) and not console.is_terminal)
        for name, path in self.written.items():
            if path is not None:
                console.print(f"{name}: {path}", soft_wrap=True)


def draw(path: Path | None, figure: Callable[[], Figure], document: Document) -> Path | None:
    """Save the figure of a command's result, with the result's provenance, and return its path; without a path draw
    nothing and return None.

    Args:
        path: the file, whose suffix says the form.
        figure: makes the figure, called only where there is a path.
        document: the result's document, of which only ``provenance`` is read.

    Raises:
        ConfigError: a suffix other than .svg, .png and .pdf, or a place that cannot be written to.
        UnsupportedError: Matplotlib is not installed.
    """
    return None if path is None else save(figure(), path, provenance_line(document["provenance"]))


def check_file(path: Path, endings: Sequence[str] = ()) -> None:
    """Check before the work that a file can be written, and that its suffix is one of ``endings`` (``.json``, with the
    dot) if any are given.

    Raises:
        ConfigError: another ending, or a place that cannot be written to.
    """
    if endings and path.suffix not in endings:
        raise ConfigError(f"{str(path)!r}: expected a name that ends in {' or '.join(endings)}")
    check_writable(path)


def check_figure(path: Path) -> None:
    """Check before the work that a figure has a form that can be drawn, and that its file can be written.

    Raises:
        ConfigError: another form, or a place that cannot be written to.
        UnsupportedError: Matplotlib is not installed.
    """
    check_format(path)
    check_writable(path)


def check_report(path: Path) -> None:
    """Check before the work that a page's figures can be drawn, and that its file can be written.

    Raises:
        ConfigError: a place that cannot be written to.
        UnsupportedError: Matplotlib is not installed.
    """
    need_figures()
    check_writable(path)


FigureFile = Annotated[Path | None, check_figure]
ReportFile = Annotated[Path | None, check_report]
OutFile = Annotated[Path | None, check_file]
JsonFile = Annotated[Path | None, partial(check_file, endings=(".json",))]


# Options and arguments that several commands share.


def read_settings(assignments: Iterable[str] | None) -> Document:
    """Return ``field=value`` pairs as a mapping, empty for None, the last one where a field is repeated; values are
    read as YAML scalars, so ``8`` is a number and ``50GiB/s`` a text, an empty value is None, and what is no YAML stays
    a text.

    Raises:
        ConfigError: no ``=``, or a value that is a list or a mapping.
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
    return settings


_KINDS = (
    "all-gather, all-reduce, all-to-all, all-to-all-v, barrier, broadcast, gather, permute, reduce, reduce-scatter, "
    "reduce-scatter-v or scatter."
)
Kind = Annotated[str, Help(_KINDS)]
FabricName = Annotated[str, Help("A fabric of the catalog, or a YAML file.")]
Settings = Annotated[list[str] | None, Help("field=value of the fabric; repeatable.")]
Ranks = Annotated[int, Help("Number of ranks.")]
Network = Annotated[Path, Help("As `onn build` and `onn train` write it.", "NET.npz")]
Several = Annotated[int, Field(ge=2)]
"""A whole number of at least two."""


# Options of commands that count dollars: electricity, the building, and over how long a price is paid.


SITE_FIELDS = ("pue", "electricity", "amortisation", "maintenance", "board_price", "host_power", "host_price")
"""Fields of a site that an option ``--site`` states where accelerators are bought too."""


def site_inputs(
    settings: Document,
    site: Sequence[str] | None,
    price: Sequence[str] | None = None,
    fields: Sequence[str] = SITE_FIELDS,
) -> Document:
    """Return the inputs of a :class:`~lightloom.planning.economics.ledger.Site` from options: fields of ``--site`` as
    texts, under ``prices`` the prices of parts, and under ``choices`` the choices of the bill; None for either of these
    that is not given.

    Args:
        settings: fields of ``--set`` by name; choices of the bill are taken out of them, in place.
        site: texts of ``--site``.
        price: texts of ``--price``.
        fields: those that ``--site`` may state, by default those of a site where accelerators are bought too.

    Raises:
        ConfigError: a text of another form, a name twice, or a field of ``--site`` that is not among ``fields``.
    """
    inputs = read_pairs(site, "--site {!r}", "field=value, e.g. electricity='8 ct/kWh'")
    for name in inputs:
        if name not in fields:
            raise ConfigError(f"--site {name}: expected one of {', '.join(fields)}")
    chosen = {name: settings.pop(name) for name in BillChoices.model_fields if name in settings}
    return {**inputs, "prices": read_prices(price), "choices": chosen or None}


_SITE = (
    "field=value of what turns parts and watts into dollars, e.g. electricity='8 ct/kWh', pue=1.1 or "
    "amortisation='5 years' (`lightloom catalog --schema site`); repeatable."
)
_PRICE = "part=price of one part of the fabric, e.g. wdm-engine='$ 120'; repeatable."
SiteFields = Annotated[list[str] | None, Help(_SITE)]
PartPrices = Annotated[list[str] | None, Help(_PRICE, "PART=PRICE")]


def read_prices(given: Sequence[str] | None) -> dict[str, str] | None:
    """Return the prices of parts, as texts by name, from ``part=price`` texts; None where none are given. ConfigError
    for another form, or a part twice."""
    return read_pairs(given, "--price {}", "part=price, e.g. wdm-engine='$ 120'") or None


def read_pairs(given: Sequence[str] | None, place: str, form: str) -> dict[str, str]:
    """Return ``name=value`` texts as a mapping of texts, without spaces around either; empty where none are given.

    Args:
        given: the texts.
        place: where a text was given, for messages; ``{}`` or ``{!r}`` stands for it.
        form: the form of a text, for messages.

    Raises:
        ConfigError: another form, such as an empty name or value, or a name that is given twice.
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
