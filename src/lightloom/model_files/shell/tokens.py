"""Words, separators and arrays of a shell script, quotes and expansions left as they are written."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from lightloom.core.errors import ConfigError

_OPERATORS = (";;", "&&", "||", ";", "&", "|", "(", ")", "\n")
_ARRAY = re.compile(r"^([A-Za-z_]\w*)(\+?)=$")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


class Token(NamedTuple):
    """A word, an operator, or an array with its elements."""

    kind: str
    """``word``, ``operator`` or ``array``."""
    text: str
    """As written; the name of an array."""
    line: int
    elements: tuple[str, ...] = ()
    appends: bool = False


def tokens(text: str, where: str) -> list[Token]:
    """Split a script.

    Raises:
        ConfigError: a quote or bracket that does not end; names its line.
    """
    return list(_Scanner(text, where).tokens())


class _Scanner:
    def __init__(self, text: str, where: str) -> None:
        lines = text.replace("\r\n", "\n").split("\\\n")
        self._text, self._where = "".join(lines), where
        self._joints = list(accumulate(len(line) for line in lines[:-1]))
        """Where lines go on after a backslash."""
        self._at = 0

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens up to the end of the script."""
        text = self._text
        while self._at < len(text):
            begin = self._at
            if text[begin] in " \t":
                self._at += 1
            elif text[begin] == "#":
                self._at = self._line_end()
            elif text.startswith("((", begin):
                yield Token("word", self._through(begin, "((", "))"), self._line())
            elif heredoc := _HEREDOC.match(text, begin):
                self._skip_document(heredoc)
            elif operator := next((op for op in _OPERATORS if text.startswith(op, begin)), None):
                self._at += len(operator)
                yield Token("operator", operator, self._line(begin))
            else:
                yield self._word_or_array()

    def _word_or_array(self) -> Token:
        line, word = self._line(), self._word()
        array = _ARRAY.match(word)
        if array is None or not self._text.startswith("(", self._at):
            return Token("word", word, line)
        self._at += 1
        elements: list[str] = []
        while True:
            if self._at >= len(self._text):
                raise ConfigError(f"{self._where}, line {line}: array {array[1]} does not end: expected ')'")
            here = self._text[self._at]
            if here == ")":
                self._at += 1
                return Token("array", array[1], line, tuple(elements), bool(array[2]))
            if here in " \t\n":
                self._at += 1
            elif here == "#":
                self._at = self._line_end()
            else:
                elements.append(self._word(inside_array=True))

    def _word(self, inside_array: bool = False) -> str:
        text, begin = self._text, self._at
        while self._at < len(text):
            here = text[self._at]
            if here in " \t\n)" or (not inside_array and here in ";&|("):
                break
            if here == "\\":
                self._at += 2
            elif here in "'\"`":
                self._quoted(here)
            elif text.startswith("$((", self._at):
                self._through(self._at, "$((", "))")
            elif text.startswith("$(", self._at):
                self._through(self._at, "$(", ")")
            elif text.startswith("${", self._at):
                self._through(self._at, "${", "}")
            else:
                self._at += 1
        if self._at == begin:  # a bracket that begins nothing
            self._at += 1
        return text[begin : self._at]

    def _quoted(self, quote: str) -> None:
        line = self._line()
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != quote:
            if quote == '"' and self._text.startswith("$(", self._at):
                self._through(self._at, "$(", ")")
            else:
                self._at += 2 if self._text[self._at] == "\\" and quote != "'" else 1
        if self._at >= len(self._text):
            raise ConfigError(f"{self._where}, line {line}: a quote that does not end: expected {quote}")
        self._at += 1

    def _through(self, begin: int, opening: str, closing: str) -> str:
        """Move behind the bracket that closes the one at ``begin``, and return what is between, with both."""
        bracket, depth = opening[-1], 0
        self._at = begin
        while self._at < len(self._text):
            here = self._text[self._at]
            if here == "'" and opening != "((":
                self._quoted("'")
                continue
            depth += (here == bracket) - (here == closing[-1])
            self._at += 1
            if depth == 0 and here == closing[-1]:
                return self._text[begin : self._at]
        raise ConfigError(f"{self._where}, line {self._line(begin)}: {opening} does not end: expected {closing}")

    def _skip_document(self, start: re.Match[str]) -> None:
        end = re.compile(rf"^\s*{start[2]}\s*$", re.MULTILINE).search(self._text, start.end())
        self._at = len(self._text) if end is None else end.end()

    def _line_end(self) -> int:
        end = self._text.find("\n", self._at)
        return len(self._text) if end < 0 else end

    def _line(self, at: int | None = None) -> int:
        at = self._at if at is None else at
        return self._text.count("\n", 0, at) + bisect_right(self._joints, at) + 1
