"""Options of a Megatron-LM command, found in a script or a line, with their values.

Names and defaults are those of ``megatron/training/arguments.py`` and ``TransformerConfig``, Megatron Core 0.14.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lightloom.core.errors import ConfigError
from lightloom.model_files.shell.script import Script, read_script
from lightloom.model_files.shell.words import MARK

_SPACES = re.compile(r"[ \t\n]+")
"""Between words; marks of what is not known hold other spaces."""
_SIZES = ("--num-layers", "--hidden-size", "--tensor-model-parallel-size", "--encoder-num-layers")


@dataclass(slots=True)
class Options:
    """The options of one command; what is asked for counts as used."""

    path: Path
    given: Mapping[str, Sequence[str]]
    """Values by name, without dashes before it and with dashes inside."""
    program: str = ""
    """Name of the Python file that takes them; empty where no command is called."""
    notes: tuple[str, ...] = ()
    """What of the script could not be followed."""
    undecided: Mapping[str, str] = field(default_factory=dict)
    """Variables that a condition of the script sets which is not known, and that condition."""
    used: set[str] = field(default_factory=set)

    def flag(self, name: str) -> bool:
        """Whether an option without a value is given."""
        self.used.add(name)
        return name in self.given

    def text(self, name: str, default: str | None = None) -> str | None:
        """The value of an option.

        Raises:
            ConfigError: it has none, or one that the file does not say.
        """
        self.used.add(name)
        if name not in self.given:
            return default
        values = self.given[name]
        if not values:
            raise ConfigError(f"{self.path}: --{name} has no value")
        if mark := MARK.search(values[0]):
            variable, _, why = mark[1].replace("\u00a0", " ").partition(": ")
            raise ConfigError(
                f"{self.path}: --{name}: "
                + (f"{variable} is not known ({why})" if why else f"the file does not set {variable}")
                + f": expected its value, by --define {variable}=VALUE"
                + (f", or what decides it: {self.undecided[variable]}" if variable in self.undecided else "")
            )
        return values[0]

    def texts(self, name: str) -> Sequence[str]:
        """All values of an option, none where it is not given."""
        self.used.add(name)
        return self.given.get(name, ())

    def count(self, name: str, default: int | None = None) -> int | None:
        """The value of an option that is a whole number of at least 1.

        Raises:
            ConfigError: another value.
        """
        text = self.text(name)
        if text is None:
            return default
        if not re.fullmatch(r"\d[\d_]*", text) or int(text) < 1:
            raise ConfigError(f"{self.path}: --{name} {text}: expected a whole number of at least 1")
        return int(text)

    def needed(self, name: str) -> int:
        """The value of an option without which there is no model.

        Raises:
            ConfigError: it is missing.
        """
        number = self.count(name)
        if number is None:
            raise ConfigError(f"{self.path}: --{name} is missing: expected it among the arguments of Megatron-LM")
        return number

    def unused(self) -> tuple[str, ...]:
        """Options that nobody has asked for."""
        return tuple(f"--{name}" for name in self.given if name not in self.used)


def read_options(path: Path, definitions: Mapping[str, str], text: str | None = None) -> Options:
    """Return the options of the command in a script that trains a model, else those in its arrays and texts.

    Args:
        text: a shell line in the place of the script; ``path`` then names it in messages.

    Raises:
        ConfigError: unreadable, or without any option that Megatron-LM needs.
    """
    script = read_script(path, definitions, text)
    notes = list(script.notes)
    commands = [words for words in map(_flattened, script.commands) if set(_SIZES) & set(_names(words))]
    perhaps = [(what, _flattened(words)) for what, words in script.conditional]
    perhaps = [(what, words) for what, words in perhaps if set(_SIZES) & set(_names(words))]
    if not commands and len(perhaps) == 1:
        commands = [perhaps[0][1]]
        notes.append(f"{perhaps[0][0]} is not known; the command that depends on it is taken")
    else:
        notes += [f"{what} is not known, and the command that depends on it is left out" for what, _ in perhaps]
    if len(commands) > 1:
        notes.append(f"{len(commands)} commands take arguments of Megatron-LM: the last one is taken")
    if commands:
        words = commands[-1]
        program = next((word for word in words if word.endswith(".py")), "")
        begin = words.index(program) + 1 if program in words else 0
        return Options(path, _given(words[begin:]), Path(program).name or "a command", tuple(notes), script.undecided)
    words = _held(script)
    if not set(_SIZES) & set(_names(words)):
        ended = f" before the script ends at line {script.ended_at}" if script.ended_at else ""
        raise ConfigError(
            f"{path}: no command or array with arguments of Megatron-LM{ended}: expected {' or '.join(_SIZES[:2])} "
            "among them"
        )
    return Options(path, _given(words), "", tuple(notes), script.undecided)


def _held(script: Script) -> list[str]:
    """Return the words of all variables that hold options, but not of those that hold others' words too."""
    texts = {
        name: _flattened(held if isinstance(held, list) else _SPACES.split(held.strip()))
        for name, held in script.variables.items()
        if (held if isinstance(held, str) else " ".join(held)).strip().startswith("--")
        or (isinstance(held, str) and "--num-layers" in held)
    }
    largest = max(texts.values(), key=len, default=[])
    rest = [words for words in texts.values() if not set(words) <= set(largest)]
    return [*largest, *(word for words in rest for word in words)] if largest else []


def _flattened(words: Sequence[str]) -> list[str]:
    """Split elements such as ``"--fp8-format hybrid"``, and commands inside of quotes."""
    found: list[str] = []
    for word in words:
        several = " " in word.strip() and ("--" in word)
        found += _SPACES.split(word.strip()) if several else [word]
    return found


def _names(words: Sequence[str]) -> Iterator[str]:
    return (word.partition("=")[0].replace("_", "-") for word in words if word.startswith("--"))


def _given(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each option; of one that is given twice the last."""
    given: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name, sign, value = word[2:].partition("=")
            name = name.replace("_", "-")
            given[name] = [value] if sign else []
        elif word in ("|", ">", ">>", "2>&1", "&", "\\"):
            name = ""
        elif name:
            given[name].append(word.strip("\"'"))
    return given
