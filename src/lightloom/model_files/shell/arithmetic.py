"""Arithmetic of a shell: whole numbers of 64 bits, names, assignments, division that truncates towards zero."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|[0-9]+(?![0-9a-zA-Z_#])|[A-Za-z_]\w*|\*\*|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--"
    r"|[-+*/%&|^]=|[-+*/%()<>=!~&|^?:,])"
)
_BINARY: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<=", ">=", "<", ">"), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
"""Operators from the loosest to the tightest."""
_ASSIGNING = ("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^=")
_DEEPEST = 50


class UnknownValue(Exception):
    """The value depends on what the script does not say, or is written in a way that is not followed."""


class ScriptError(Exception):
    """The script itself would stop with an error."""


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise ScriptError("a division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_VALUES: Mapping[str, Callable[[int, int], int]] = {
    "||": lambda left, right: int(bool(left or right)),
    "&&": lambda left, right: int(bool(left and right)),
    "|": int.__or__,
    "^": int.__xor__,
    "&": int.__and__,
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "<=": lambda left, right: int(left <= right),
    ">=": lambda left, right: int(left >= right),
    "<": lambda left, right: int(left < right),
    ">": lambda left, right: int(left > right),
    "<<": lambda left, right: left << (right & 63),
    ">>": lambda left, right: left >> (right & 63),
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "/": _quotient,
    "%": lambda left, right: left - right * _quotient(left, right),
}


def evaluate(text: str, variables: MutableMapping[str, str], depth: int = 0) -> int:
    """Return the value of an arithmetic expression, and carry out its assignments.

    Args:
        text: the expression, without the brackets around it.
        variables: text by name; of a name that has none, ``KeyError`` says that its value is not known.

    Raises:
        UnknownValue: no expression that is followed, or a value that is not known.
        ScriptError: a division by zero, or an exponent below zero.
    """
    if depth > _DEEPEST:
        raise UnknownValue("names that lead to each other")
    tokens: list[str] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnknownValue(text.strip())
        tokens.append(match[1])
        at = match.end()
    parser = _Expression(tokens, variables, depth)
    value = parser.sequence() if tokens else 0
    if parser.at != len(tokens):
        raise UnknownValue(text.strip())
    return value


class _Expression:
    """A parser by descent that computes as it reads."""

    def __init__(self, tokens: list[str], variables: MutableMapping[str, str], depth: int) -> None:
        self._tokens, self._variables, self._depth = tokens, variables, depth
        self.at = 0
        self._skipping = 0
        """How many operands around are left out, as the right of ``0 && x``: they assign nothing."""

    def sequence(self) -> int:
        """Return the last of values that are separated by commas."""
        value = self._assignment()
        while self._take(","):
            value = self._assignment()
        return value

    def _peek(self, ahead: int = 0) -> str:
        return self._tokens[self.at + ahead] if self.at + ahead < len(self._tokens) else ""

    def _take(self, *texts: str) -> str:
        if self._peek() not in texts or not self._peek():
            return ""
        self.at += 1
        return self._tokens[self.at - 1]

    def _assignment(self) -> int:
        name = self._peek()
        if name.isidentifier() and self._peek(1) in _ASSIGNING:
            sign = self._peek(1)
            self.at += 2
            right = self._assignment()
            return self._store(name, right if sign == "=" else self._combine(sign[:-1], self._read(name), right))
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        then = self._left_out(not condition, self._assignment)
        if not self._take(":"):
            raise UnknownValue("a choice without ':'")
        other = self._left_out(bool(condition), self._assignment)
        return then if condition else other

    def _left_out(self, skips: bool, operand: Callable[[], int]) -> int:
        self._skipping += skips
        try:
            return operand()
        finally:
            self._skipping -= skips

    def _binary(self, level: int) -> int:
        if level == len(_BINARY):
            return self._power()
        left = self._binary(level + 1)
        while sign := self._take(*_BINARY[level]):
            decided = (sign == "&&" and not left) or (sign == "||" and bool(left))
            right = self._left_out(decided, lambda: self._binary(level + 1))
            left = self._combine(sign, left, right)
        return left

    def _combine(self, sign: str, left: int, right: int) -> int:
        if self._skipping:
            return 0
        value = _VALUES[sign](left, right)
        return (value + (1 << 63)) % (1 << 64) - (1 << 63)

    def _power(self) -> int:
        base = self._unary()
        if not self._take("**"):
            return base
        exponent = self._power()
        if self._skipping:
            return 0
        if exponent < 0:
            raise ScriptError("an exponent below zero")
        return (pow(base, exponent, 1 << 64) + (1 << 63)) % (1 << 64) - (1 << 63)

    def _unary(self) -> int:
        if sign := self._take("++", "--"):
            name = self._peek()
            if not name.isidentifier():
                raise UnknownValue(f"{sign} before {name!r}")
            self.at += 1
            return self._store(name, self._read(name) + (1 if sign == "++" else -1))
        if sign := self._take("-", "+", "!", "~"):
            value = self._unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[sign]
        return self._primary()

    def _primary(self) -> int:
        token = self._peek()
        self.at += 1
        if token == "(":
            value = self.sequence()
            if not self._take(")"):
                raise UnknownValue("a bracket that does not end")
            return value
        if token.isidentifier():
            value = self._read(token)
            if sign := self._take("++", "--"):
                self._store(token, value + (1 if sign == "++" else -1))
            return value
        if token[:1].isdigit():
            try:
                return int(token, 16 if token[:2] in ("0x", "0X") else 8 if token[0] == "0" else 10)
            except ValueError as error:
                raise UnknownValue(token) from error
        raise UnknownValue(token)

    def _read(self, name: str) -> int:
        if self._skipping:
            return 0
        try:
            text = self._variables[name]
        except KeyError as error:
            raise UnknownValue(name) from error
        return evaluate(text, self._variables, self._depth + 1)

    def _store(self, name: str, value: int) -> int:
        if not self._skipping:
            self._variables[name] = str(value)
        return value
