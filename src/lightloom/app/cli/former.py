"""Spellings of 0.2 that still work in this release, each with one line of warning that names the new one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from lightloom.core.documents import parse_yaml, read_text
from lightloom.core.errors import InputError


class Former(NamedTuple):
    """A command of a former name, or with options of former names."""

    command: str
    """The command's words today, with options that it then always has."""
    options: Mapping[str, str] = MappingProxyType({})
    """New spelling by the former option; ``{}`` stands for the value, of an option that takes one, and ``{--kill}`` for
    all values of another former option, joined by commas. One that begins with a backquote is what to call instead,
    as no spelling does the same."""
    defaults: Mapping[str, str] = MappingProxyType({})
    """What stands in the place of a former option, or of all arguments (""), that is not given."""
    arguments: Sequence[str] = ()
    """New spelling of each argument; ``{}`` stands for it."""


def _former(row: Mapping[str, Any]) -> Former:
    """Return the former command that a row of the table states.

    Besides the fields of :class:`Former` (only ``command`` must be there), names under ``set``, ``site`` and ``pin``,
    without dashes before them and separated by blanks, are former options that now are ``--set NAME=VALUE``,
    ``--site NAME=VALUE`` and ``--pin NAME=VALUE``, with underscores for the dashes in a name.
    """
    options = dict(row.get("options", {}))
    for option in ("set", "site", "pin"):
        options |= {f"--{name}": f"--{option} {name.replace('-', '_')}={{}}" for name in row.get(option, "").split()}
    return Former(row["command"], options, row.get("defaults", {}), row.get("arguments", ()))


_FILE = Path(__file__).with_suffix(".yaml")
COMMANDS = {words: _former(row) for words, row in parse_yaml(read_text(_FILE), str(_FILE)).items()}
"""Former spellings by the words of the command as they are written."""


def _spelt(new: str, value: str) -> list[tuple[str, str]]:
    """Return (word, value) for each word of a new spelling ``new``, in which ``{}`` stands for the value; it is not
    replaced here.

    A spelling with several ``{}`` takes a value of parts joined by commas: every two words, an option and its ``{}``,
    get a part, and those beyond the last part are left out. Any other gives every word the whole value.
    """
    parts = value.split(",") if new.count("{}") > 1 else [value] * len(new)
    return [(word, parts[place // 2]) for place, word in enumerate(new.split()) if place // 2 < len(parts)]


def renewed(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return (arguments of the program in today's spelling, with what a former command implied where its options were
    not given; a line of warning, which names both spellings, for each command or option that was spelt otherwise, each
    once).

    ``arguments`` are those behind the program's name. Commands without former spellings are returned as they are,
    without warnings. Texts after ``--`` and values of options stay as they are.

    Raises:
        InputError: a former option that no spelling of today replaces; names what to call instead.
    """
    words = next((n for n in (2, 1) if " ".join(arguments[:n]) in COMMANDS), 0)
    if not words:
        return list(arguments), []
    name = " ".join(arguments[:words])
    former, rest, warnings = COMMANDS[name], list(arguments[words:]), list[str]()
    result, given, places = [(word, "") for word in former.command.split()], dict[str, list[str]](), [*former.arguments]
    last = list[tuple[str, str]]()
    if former.command != name:
        warnings.append(f"`{name}` is spelt `{former.command}` now")
    while rest:
        text = rest.pop(0)
        if text == "--":
            result += [("{}", word) for word in (text, *rest)]
            break
        option, equals, value = text.partition("=")
        new = former.options.get(option)
        if new is None and text.startswith("-"):
            has_value = places and rest and not equals and text not in ("--json", "--help", "-h")
            result += [("{}", word) for word in (text, *([rest.pop(0)] if has_value else []))]
            given[option] = []
        elif new is None:
            result += [(word, text) for word in (places.pop(0) if places else "{}").split()]
            given[""] = []
        elif new.startswith("`"):
            raise InputError(f"{name} {option} is gone: expected {new}")
        else:
            if "{}" in new and not equals:
                value = rest.pop(0) if rest else ""
            given.setdefault(option, []).append(value)
            (last if "{--" in new else result).extend(_spelt(new, value))
            warnings.append(f"{option} is spelt `{re.sub('{.*?}', '...', new)}` now")
    result += last + [
        (word, "") for option, new in former.defaults.items() if option not in given for word in new.split()
    ]
    values = dict.fromkeys(former.options, "") | {option: ",".join(texts) for option, texts in given.items()}
    return [word.format(value, **values) for word, value in result], list(dict.fromkeys(warnings))
