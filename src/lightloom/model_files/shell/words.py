"""Words of a script with its variables in their places; nothing is executed.

What the file does not say (a variable that it never sets, an argument, the output of a command) stays in the word as a
mark, ``⟨NAME⟩``, so that whoever reads the word can name it.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping

Variables = dict[str, "str | list[str]"]
MARK = re.compile(r"⟨(.*?)⟩")
_PARAMETER = re.compile(r"(#?)([A-Za-z_]\w*|[0-9]+|[@*#?$!])(?:\[([^\]]*)\])?(.*)", re.DOTALL)
_SPACES = re.compile(r"[ \t\n]+")
_SPLIT = "\x1f"
"""Between the fields of a word while it is expanded."""
_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def unknown(name: str) -> str:
    """The mark of something that the file does not say."""
    joined = "\u00a0".join(name.split())  # a mark is one word
    return f"⟨{joined}⟩"


def fields(word: str, variables: Mapping[str, str | list[str]]) -> list[str]:
    """Return the fields that a word expands to: several where an unquoted variable holds several."""
    text = _expanded(word, variables, quoted=False)
    parts = [part.replace("\x00", "") for part in text.split(_SPLIT)]
    return [part for raw, part in zip(text.split(_SPLIT), parts, strict=True) if part or "\x00" in raw]


def value(word: str, variables: Mapping[str, str | list[str]]) -> str:
    """Return a word as one text, as an assignment takes it."""
    return _expanded(word, variables, quoted=False, assigned=True).replace("\x00", "").replace(_SPLIT, " ")


def arithmetic(text: str, variables: Mapping[str, str | list[str]]) -> str:
    """Return the value of whole-number arithmetic, or its mark where it is not known."""
    named = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", lambda match: _plain(match[1], variables) or unknown(match[1]), text)
    if MARK.search(named):
        return unknown(text.strip())
    try:
        return str(_evaluated(ast.parse(named.strip().replace("/", "//"), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError, KeyError, RecursionError):
        return unknown(text.strip())


def _evaluated(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp):
        result = _ARITHMETIC[type(node.op)](_evaluated(node.left), _evaluated(node.right))
        assert isinstance(result, int)
        return result
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand)
    raise ValueError("no arithmetic on whole numbers")


def _plain(name: str, variables: Mapping[str, str | list[str]]) -> str | None:
    held = variables.get(name)
    return held[0] if isinstance(held, list) and held else held if isinstance(held, str) else None


def _expanded(word: str, variables: Mapping[str, str | list[str]], *, quoted: bool, assigned: bool = False) -> str:
    out: list[str] = []
    at = 0
    while at < len(word):
        here = word[at]
        if here == "\\" and at + 1 < len(word):
            keep = quoted and word[at + 1] not in '"$`\\'
            out.append(word[at : at + 2] if keep else word[at + 1])
            at += 2
        elif here == "'" and not quoted:
            end = word.find("'", at + 1)
            out.append("\x00" + word[at + 1 : end])
            at = end + 1
        elif here == '"' and not quoted:
            end = _closing_quote(word, at)
            out.append("\x00" + _expanded(word[at + 1 : end], variables, quoted=True))
            at = end + 1
        elif here == "`":
            end = word.find("`", at + 1)
            end = len(word) - 1 if end < 0 else end
            out.append(unknown(word[at : end + 1]))
            at = end + 1
        elif here == "$" and at + 1 < len(word):
            text, at = _dollar(word, at, variables)
            out.append(text if quoted or assigned else _split(text))
        else:
            out.append(here)
            at += 1
    return "".join(out)


def _split(text: str) -> str:
    """Split what an unquoted expansion gave at white space, elements of arrays at their ends."""
    return _SPLIT.join(part for piece in text.split(_SPLIT) for part in (_SPACES.split(piece.strip(" \t\n")) or [""]))


def _closing_quote(word: str, begin: int) -> int:
    at = begin + 1
    while at < len(word) and word[at] != '"':
        if word.startswith("$(", at):
            at = _bracket_end(word, at + 1, "(", ")")
        at += 2 if word[at : at + 1] == "\\" else 1
    return min(at, len(word))


def _bracket_end(word: str, begin: int, opening: str, closing: str) -> int:
    depth = 0
    for at in range(begin, len(word)):
        depth += (word[at] == opening) - (word[at] == closing)
        if depth == 0:
            return at
    return len(word)


def _dollar(word: str, at: int, variables: Mapping[str, str | list[str]]) -> tuple[str, int]:
    """Return what the expansion at a dollar sign gives, and where it ends."""
    if word.startswith("$((", at):
        end = _bracket_end(word, at + 1, "(", ")")
        return arithmetic(word[at + 3 : end - 1], variables), end + 1
    if word.startswith("$(", at):
        end = _bracket_end(word, at + 1, "(", ")")
        return unknown(word[at : end + 1]), end + 1
    if word.startswith("${", at):
        end = _bracket_end(word, at + 1, "{", "}")
        return _parameter(word[at + 2 : end], variables), end + 1
    match = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!]").match(word, at + 1)
    if match is None:
        return "$", at + 1
    return _parameter(match.group(), variables), match.end()


def _parameter(text: str, variables: Mapping[str, str | list[str]]) -> str:
    match = _PARAMETER.fullmatch(text)
    if match is None:
        return unknown(f"${{{text}}}")
    counted, name, index, rest = match.groups()
    held = variables.get(name)
    if isinstance(held, list):
        held = _indexed(held, index)
    if counted:
        return unknown(text) if variables.get(name) is None else str(len(variables[name]))
    if not rest:
        return unknown(name) if held is None else held
    other = re.fullmatch(r"(:?)([-=+?])(.*)", rest, re.DOTALL)
    if other is None:
        return unknown(f"${{{text}}}")
    is_set = held is not None and not (other[1] and not held)
    if other[2] == "+":
        return _expanded(other[3], variables, quoted=True).strip('"') if is_set else ""
    if is_set or other[2] == "?":
        return held if held is not None else unknown(name)
    return _expanded(other[3].strip('"'), variables, quoted=True)


def _indexed(held: list[str], index: str | None) -> str | None:
    if index in ("@", "*"):
        return _SPLIT.join("\x00" + element for element in held)
    number = int(index) if index and index.isdecimal() else 0
    return held[number] if number < len(held) else None
