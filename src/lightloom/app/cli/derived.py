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

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo

from lightloom.core.errors import ConfigError
from lightloom.core.fields import Quantity


class Help(NamedTuple):
    """What an option does, and a name of its value as ``TIME``; None where its type names it."""

    text: str
    value: str | None = None


class Options(NamedTuple):
    """Options that a command takes over from a function: its parameters that have a default, without those that the
    command itself has."""

    function: Callable[..., Any]
    without: Sequence[str] = ()
    """Parameters that are no options."""
    hidden: Sequence[str] = ()
    """Options that the help leaves out."""
    fields: type | None = None
    """Class that says the types of keywords that the function takes beside its parameters."""
    texts: Mapping[str, Help] = MappingProxyType({})
    """Keywords that the function takes as texts, beside those that its docstring lists."""

    def parameters(self, own: Mapping[str, Any], helps: Mapping[str, Help]) -> Iterator[Parameter]:
        """Yield the options as parameters that Typer reads; ``helps`` of the command go before the function's."""
        known = signature(self.function).parameters
        listed = {**documented(self.function)[1], **self.texts}
        hints = get_type_hints(self.fields, include_extras=True) if self.fields else dict.fromkeys(listed, str)
        takes_keywords = any(each.kind is Parameter.VAR_KEYWORD for each in known.values())
        keywords = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in hints.items()
            if takes_keywords and name in listed and name not in known
        ]
        for parameter in [*(each for each in known.values() if each.default is not Parameter.empty), *keywords]:
            name, option = parameter.name, parameter.replace(kind=Parameter.KEYWORD_ONLY)
            if name not in own and name not in self.without:
                yield _read_by_typer(self.function, option, helps.get(name, listed.get(name)), name in self.hidden)


_Json = Annotated[bool, "--json", Help("One JSON document on stdout.")]


def with_options(command: Callable[..., Any]) -> Callable[..., None]:
    """Return a command as Typer takes it: its signature has the options of all functions, each with its help, and
    ``--json`` where it returns what it shows."""
    (summary, helps), own, parameters = documented(command), signature(command).parameters, list[Parameter]()
    bound: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    for name, parameter in own.items():
        options = [each for each in _constraints(_hint(command, parameter)) if isinstance(each, Options)]
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
        for name, (function, names) in bound.items():
            given = {option: value for option in names if (value := values.pop(option)) is not None}
            values[name] = partial(function, **given)
        if (shown := command(**values)) is not None:
            shown.show(as_json)

    run.__name__, run.__doc__ = command.__name__, summary
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def documented(function: Callable[..., Any]) -> tuple[str, dict[str, Help]]:
    """Return a docstring up to its arguments, and the help of each: ``name (VALUE): what it does.``"""
    summary, _, rest = (getdoc(function) or "").partition("\n\nArgs:\n")
    helps: dict[str, Help] = {}
    entry = re.compile(r"^ {4}(\w+)(?: \((\S+)\))?: (.*(?:\n {5,}.*)*)", re.MULTILINE)
    for name, value, lines in entry.findall(rest.partition("\n\n")[0]):
        words = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"\1", " ".join(lines.split()))
        first = words.split()[0]
        # What is to be written as it stands, as in ``part=time`` and ``relu, or clipped``, gets no capital.
        words = words[0].upper() + words[1:] if first.isalpha() else words
        helps[name] = Help(words.replace("``", ""), value or None)
    return summary, helps


def _read_by_typer(
    function: Callable[..., Any], parameter: Parameter, help: Help | None, hidden: bool = False
) -> Parameter:
    """Return a parameter as Typer takes it: by keyword, its annotation with the spelling, the reader and the help."""
    hint, name = _hint(function, parameter), f"--{parameter.name.replace('_', '-')}"
    stated = _constraints(hint)
    text, metavar = help or next((each for each in stated if isinstance(each, Help)), Help(""))
    value, bounds, repeated = _value_of(hint)
    spelling = [each for each in stated if isinstance(each, str)] or [name]
    if value is bool and spelling == [name] and parameter.default is not False:
        spelling = [f"{name}/--no-{name[2:]}"]
    about: dict[str, Any] = {"help": text, "metavar": metavar or ("N" if value is int else None), "hidden": hidden}
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
    """Return a check of a given value as Typer takes it, which passes the value on."""

    def callback(value: Any) -> Any:
        if value is not None:
            check(value)
        return value

    return callback


def _hint(function: Callable[..., Any], parameter: Parameter) -> Any:
    """Return a parameter's annotation; it may be written as a text, of which others' need not be evaluated."""
    hint = parameter.annotation
    return eval(hint, vars(sys.modules[function.__module__])) if isinstance(hint, str) else hint


def _constraints(hint: Any) -> list[Any]:
    """Return what ``Annotated`` says of a type, with pydantic's constraints one by one."""
    stated = getattr(hint, "__metadata__", ())
    return [each for one in stated for each in (one.metadata if isinstance(one, FieldInfo) else [one])]


def _members(hint: Any) -> set[Any]:
    """Return the types of a union without None; words and types that are written as text are texts."""
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
    """Return the type of an option's value, its bounds, and whether it is given several times: where an annotation
    allows a sequence of the same."""
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
        return self.message


def _parse(read: Callable[[str, str], object], name: str, value: object) -> object:
    """Return what a reader makes of an option's text, or its default; what it cannot read refuses the command."""
    try:
        return read(value, name) if isinstance(value, str) else value
    except ConfigError as error:
        raise _Refused(str(error)) from error


def _reader(value: type, bounds: Sequence[Any]) -> Callable[[str, str], object] | None:
    """Return the reader of a type with these bounds; None where Typer's own does."""
    least = next((each.ge for each in bounds if hasattr(each, "ge")), None)
    if value is int:
        return partial(read_count, least=least)
    if value is not float or least is None:
        return None
    return read_share if any(hasattr(each, "le") for each in bounds) else read_number


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


def read_number(text: str, option: str) -> float:
    """Return a number, 0 or more, given to an option.

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
    """Return a share between 0 and 1 given to an option, which may be written in per cent.

    Raises:
        ConfigError: anything else.
    """
    share = read_number(text.strip().removesuffix("%"), option) / (100 if text.strip().endswith("%") else 1)
    if share > 1:
        raise ConfigError(f"{option} {text!r}: expected 0 to 1, or per cent as 99%")
    return share
