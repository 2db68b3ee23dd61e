"""Whether a test of a script holds, as far as the file tells: ``[ ... ]``, ``[[ ... ]]`` and ``test``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from lightloom.model_files.shell.arithmetic import UnknownValue, evaluate
from lightloom.model_files.shell.words import UNSET, Numbers, Variables, fields, is_known, matches, value

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
_INTEGER = re.compile(r"\s*[-+]?[0-9]+\s*")


def builtin_holds(words: Sequence[str], variables: Variables) -> bool | None:
    """Return whether ``test`` or ``[`` holds, None where that depends on what the file does not say.

    Args:
        words: as they are written, without the brackets.
    """
    expanded = [(word, text) for word in words for text in fields(word, variables)]
    # A variable that the file never sets leaves no argument unless it is quoted.
    arguments = [UNSET.sub("", text) for word, text in expanded if word.startswith('"') or not UNSET.fullmatch(text)]
    return _tested(arguments)


def _tested(arguments: Sequence[str]) -> bool | None:
    for sign, deciding in (("-o", True), ("-a", False)):
        if sign in arguments[1:-1] and len(arguments) > 3:
            at = arguments.index(sign, 1)
            left, right = _tested(arguments[:at]), _tested(arguments[at + 1 :])
            return deciding if deciding in (left, right) else None if None in (left, right) else not deciding
    if not arguments:
        return False
    if len(arguments) == 1:
        return bool(arguments[0]) if is_known(arguments[0]) else None
    if len(arguments) == 3 and arguments[1] in ("=", "==", "!=", *_NUMBERS):
        return _compared(arguments[0], arguments[1], arguments[2])
    if arguments[0] == "!":
        inner = _tested(arguments[1:])
        return inner if inner is None else not inner
    if len(arguments) == 2 and arguments[0] in ("-z", "-n"):
        return None if not is_known(arguments[1]) else (not arguments[1]) == (arguments[0] == "-z")
    if len(arguments) == 2 and not re.fullmatch(r"-[a-zA-Z]", arguments[0]) and is_known(arguments[0]):
        return False  # bash complains of it, and goes on as if the test failed
    # Files, descriptors, and what is not followed.
    return None


def _compared(left: str, sign: str, right: str) -> bool | None:
    if not is_known(left) or not is_known(right):
        return None
    if sign in _NUMBERS:
        return bool(_INTEGER.fullmatch(left) and _INTEGER.fullmatch(right)) and _NUMBERS[sign](int(left), int(right))
    return (left == right) == (sign != "!=")


def keyword_holds(words: Sequence[str], variables: Variables) -> bool | None:
    """Return whether ``[[ ... ]]`` holds, None where that depends on what the file does not say.

    Args:
        words: words, operators and brackets as they are written, without the outer brackets.
    """
    known, rest = _either(list(words), variables)
    return known if not rest else None


def _either(words: list[str], variables: Variables) -> tuple[bool | None, list[str]]:
    known, words = _both(words, variables)
    while words[:1] == ["||"]:
        right, words = _both(words[1:], variables)
        known = True if True in (known, right) else None if None in (known, right) else False
    return known, words


def _both(words: list[str], variables: Variables) -> tuple[bool | None, list[str]]:
    known, words = _primary(words, variables)
    while words[:1] == ["&&"]:
        right, words = _primary(words[1:], variables)
        known = False if False in (known, right) else None if None in (known, right) else True
    return known, words


def _primary(words: list[str], variables: Variables) -> tuple[bool | None, list[str]]:
    if words[:1] == ["!"]:
        known, rest = _primary(words[1:], variables)
        return (known if known is None else not known), rest
    if words[:1] == ["("]:
        known, rest = _either(words[1:], variables)
        return (known, rest[1:]) if rest[:1] == [")"] else (None, [])
    if len(words) > 1 and words[0] in ("-z", "-n"):
        text = value(words[1], variables)
        if not is_known(text):
            return None, words[2:]
        return (not UNSET.sub("", text)) == (words[0] == "-z"), words[2:]
    if len(words) > 1 and words[0] == "-v" and words[1].isidentifier():
        held = variables.get(words[1], "")
        known = isinstance(held, list) or is_known(held)
        return (words[1] in variables if known else None), words[2:]
    if len(words) > 1 and words[0].startswith("-") and len(words[0]) == 2 and words[0][1].isalpha():
        return None, words[2:]
    if len(words) > 2 and words[1] not in ("&&", "||", ")"):
        return _keyword_compared(words[0], words[1], words[2], variables), words[3:]
    text = value(words[0], variables) if words else ""
    return (bool(UNSET.sub("", text)) if is_known(text) else None), words[1:]


def _keyword_compared(left: str, sign: str, right: str, variables: Variables) -> bool | None:
    if sign in ("=", "==", "!="):
        known = matches(value(left, variables), right, variables)
        return known if known is None else known == (sign != "!=")
    if sign in _NUMBERS:
        try:
            sides = [evaluate(UNSET.sub("", value(side, variables)), Numbers(variables, "")) for side in (left, right)]
        except UnknownValue:
            return None
        return _NUMBERS[sign](*sides)
    return None
