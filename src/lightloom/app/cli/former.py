"""Spellings of 0.2 that still work in this release, each with one line of warning that names the new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

_SITE = ("pue", "electricity", "amortisation", "maintenance", "board-price", "host-power", "host-price", "fabric-price")


def _settings(option: str, names: Sequence[str]) -> dict[str, str]:
    """Return the new spellings of options that are values of ``option`` now: ``--pue X`` is ``--site pue=X``."""
    return {f"--{name}": f"{option} {name.replace('-', '_')}={{}}" for name in names}


class Former(NamedTuple):
    """A command of a former name, or with options of former names."""

    command: str
    """The command's words today, with options that it then always has."""
    options: Mapping[str, str] = MappingProxyType({})
    """New spelling by the former option; ``{}`` stands for the value, of an option that takes one."""


COMMANDS: dict[str, Former] = {
    "plan": Former("plan", _settings("--site", _SITE)),
    "collective": Former("collective", _settings("--site", _SITE[:4])),
    "design": Former("design", _settings("--site", _SITE[:7])),
}
"""Former spellings by the words of the command as they are written."""


def renewed(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of the program in today's spelling, and a line of warning for each that was another.

    Texts after ``--`` and values of options stay as they are.
    """
    words = next((n for n in (2, 1) if " ".join(arguments[:n]) in COMMANDS), 0)
    if not words:
        return list(arguments), []
    name = " ".join(arguments[:words])
    former, rest, warnings = COMMANDS[name], list(arguments[words:]), list[str]()
    result = former.command.split()
    if former.command != name:
        warnings.append(f"`{name}` is spelt `{former.command}` now")
    while rest:
        text = rest.pop(0)
        if text == "--":
            result += [text, *rest]
            break
        option, equals, value = text.partition("=")
        new = former.options.get(option)
        if new is None:
            result.append(text)
            continue
        if "{}" in new and not equals:
            value = rest.pop(0) if rest else ""
        result += [word.format(value) if "{}" in word else word for word in new.split()]
        warnings.append(f"{option} is spelt `{new.format('...')}` now")
    return result, warnings
