"""Whether a condition of a script holds, as far as the file tells."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from lightloom.model_files.shell.tokens import Token
from lightloom.model_files.shell.words import MARK, fields

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
_FILES = ("-f", "-d", "-e", "-r", "-x", "-s", "-L")


def holds(condition: Sequence[Token], variables: Mapping[str, str | list[str]]) -> bool | None:
    """Return whether a condition holds, None where that depends on something that the file does not say."""
    result: bool | None = None
    joined = ""
    part: list[Token] = []
    for token in [*condition, Token("operator", ";", 0)]:
        inside = any(word.text == "[[" for word in part) and not any(word.text == "]]" for word in part)
        if token.kind != "operator" or (inside and token.line):
            part.append(token)
        elif part:
            known = _test(part, variables)
            result = known if not joined else _joined(joined, result, known)
            part, joined = [], token.text if token.text in ("&&", "||") else joined
    return result


def _joined(sign: str, left: bool | None, right: bool | None) -> bool | None:
    deciding = sign == "||"
    if deciding in (left, right):
        return deciding
    return None if None in (left, right) else not deciding


def _test(words: Sequence[Token], variables: Mapping[str, str | list[str]]) -> bool | None:
    texts = [token.text for token in words]
    negated = texts[0] == "!"
    if negated:
        texts = texts[1:]
    if texts and texts[0] in ("[", "[[", "test"):
        texts = texts[1:-1] if texts[0] != "test" else texts[1:]
        known = _compared(texts, variables)
    else:
        known = {"true": True, "false": False}.get(texts[0] if texts else "")
    return known if known is None else known != negated


def _compared(texts: list[str], variables: Mapping[str, str | list[str]]) -> bool | None:
    for sign, name in (("||", "-o"), ("&&", "-a")):
        for at, text in enumerate(texts):
            if text in (sign, name):
                return _joined(sign, _compared(texts[:at], variables), _compared(texts[at + 1 :], variables))
    if texts and texts[0] == "!":
        known = _compared(texts[1:], variables)
        return known if known is None else not known
    if texts and texts[0] in _FILES:
        return None
    if texts and texts[0] in ("-z", "-n", "-v"):
        # What the file never sets is empty when it runs, unless its caller sets it.
        empty = not MARK.sub("", _text(texts[1] if len(texts) > 1 else "", variables))
        return empty == (texts[0] == "-z")
    if len(texts) == 1:
        return bool(MARK.sub("", _text(texts[0], variables)))
    if len(texts) != 3:
        return None
    left, right = (_text(text, variables) for text in (texts[0], texts[2]))
    if texts[1] in ("=", "==", "!="):
        left, right = MARK.sub("", left), MARK.sub("", right)
        return fnmatchcase(left, right) == (texts[1] != "!=")
    if texts[1] in _NUMBERS:
        # Nothing counts as 0 there.
        left, right = MARK.sub("", left) or "0", MARK.sub("", right) or "0"
    if texts[1] in _NUMBERS and left.lstrip("-").isdecimal() and right.lstrip("-").isdecimal():
        return _NUMBERS[texts[1]](int(left), int(right))
    return None


def _text(word: str, variables: Mapping[str, str | list[str]]) -> str:
    return " ".join(fields(word, variables))
