"""Words of a script with its variables in their places; nothing is executed.

What the file does not say stays in the word as a mark, ``⟨NAME⟩`` of a variable that it never sets, ``⟨NAME: why⟩`` of
one that it sets in a way that is not followed, so that whoever reads the word can name it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from fnmatch import fnmatchcase

from lightloom.model_files.shell.arithmetic import UnknownValue, evaluate

Variables = dict[str, "str | list[str]"]
MARK = re.compile(r"⟨(.*?)⟩")
UNSET = re.compile(r"⟨(?:[A-Za-z_]\w*|[0-9]+|[@*])⟩")
"""The mark of a variable that the file never sets: empty when the script runs, unless its caller sets it."""
_PARAMETER = re.compile(r"(#?)([A-Za-z_]\w*|[0-9]+|[@*#?$!])(?:\[([^\]]*)\])?(.*)", re.DOTALL)
_SPACES = re.compile(r"[ \t\n]+")
_SPLIT = "\x1f"
"""Between the fields of a word while it is expanded."""
_ALL_ELEMENTS = re.compile(r'"\$(?:@|\{(\w+)\[@\]\}|\{@\})"')
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


def unknown(name: str, why: str = "") -> str:
    """Return the mark of something that the file does not say, or says in a way that is not followed."""
    joined = "\u00a0".join(f"{name}: {why}".split() if why else name.split())  # a mark is one word
    return f"⟨{joined.replace('⟨', '').replace('⟩', '')}⟩"


def is_known(text: str) -> bool:
    """Return whether a text is known, where variables that the file never sets are empty."""
    return MARK.search(UNSET.sub("", text)) is None


def fields(word: str, variables: Variables) -> list[str]:
    """Return the fields that a word expands to: several where an unquoted variable holds several."""
    whole = _ALL_ELEMENTS.fullmatch(word)
    if whole and variables.get(whole[1] or "@") == []:
        return []
    parts = _expanded(word, variables, quoted=False).split(_SPLIT)
    return [part.replace("\x00", "") for part in parts if part]


def value(word: str, variables: Variables) -> str:
    """Return a word as one text, as an assignment takes it."""
    return _expanded(word, variables, quoted=False, assigned=True).replace("\x00", "").replace(_SPLIT, " ")


def matches(subject: str, pattern: str, variables: Variables) -> bool | None:
    """Return whether a text matches a pattern of ``case`` or ``[[``, None where that is not followed."""
    literal = value(pattern, variables)
    if not is_known(subject) or not is_known(literal):
        return None
    subject, literal = UNSET.sub("", subject), UNSET.sub("", literal)
    if pattern[:1] in "'\"" and pattern[-1:] == pattern[:1] and pattern[:1] not in pattern[1:-1]:
        return subject == literal
    if not any(sign in literal for sign in "*?[("):
        return subject == literal
    return None if any(sign in pattern for sign in "'\"\\[(") else fnmatchcase(subject, literal)


class Numbers(MutableMapping[str, str]):
    """Variables as arithmetic sees them: a name that the file never sets counts as 0 where the caller says so."""

    def __init__(self, variables: Variables, unset: str | None = None) -> None:
        self._variables, self._unset = variables, unset

    def __getitem__(self, name: str) -> str:
        """Return the text of a variable; KeyError where it is not known."""
        held = self._variables.get(name, self._unset)
        if held is None:
            raise KeyError(name)
        text = (held[0] if held else "") if isinstance(held, list) else held
        if self._unset is not None:
            text = UNSET.sub("", text)
        if MARK.search(text):
            raise KeyError(name)
        return text

    def __setitem__(self, name: str, text: str) -> None:
        """Set a variable, of an array its first element."""
        held = self._variables.get(name)
        self._variables[name] = [text, *held[1:]] if isinstance(held, list) else text

    def __delitem__(self, name: str) -> None:
        """Unset a variable."""
        del self._variables[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over names."""
        return iter(self._variables)

    def __len__(self) -> int:
        """Return the number of variables."""
        return len(self._variables)


def arithmetic(text: str, variables: Variables) -> str:
    """Return the value of an arithmetic expression as text, or its mark where it is not known.

    What it would assign is unknown then, too.
    """
    expanded = value(text, variables)
    try:
        return str(evaluate(expanded, Numbers(variables)))
    except UnknownValue:
        forget_assigned(text, variables)
        return unknown(text.strip(), "arithmetic that is not followed")


def forget_assigned(text: str, variables: Variables) -> None:
    """Make the variables unknown that an arithmetic expression assigns."""
    signs = r"(?:\[[^\]]*\])?\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
    names = re.findall(rf"([A-Za-z_]\w*){signs}", text) + re.findall(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", text)
    for name in names:
        variables[name] = unknown(name, f"arithmetic {text.strip()}")


def _expanded(word: str, variables: Variables, *, quoted: bool, assigned: bool = False) -> str:
    out: list[str] = []
    at = 0
    while at < len(word):
        here = word[at]
        if here == "\\" and at + 1 < len(word):
            keep = quoted and word[at + 1] not in '"$`\\'
            out.append(word[at : at + 2] if keep else "\x00" + word[at + 1])
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
            out.append(unknown(word[at : end + 1], "what a command prints"))
            at = end + 1
        elif word.startswith("$'", at) and not quoted:
            end = _ansi_end(word, at + 2)
            out.append("\x00" + _unescaped(word[at + 2 : end]))
            at = end + 1
        elif here == "$" and at + 1 < len(word):
            whole = quoted or assigned
            text, at = _dollar(word, at, variables, whole)
            out.append(text if whole else _split(text, variables))
        elif here == "{" and not quoted and not assigned and re.match(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}", word[at:]):
            end = word.index("}", at)
            out.append(unknown(word[at : end + 1], "braces that are not followed"))
            at = end + 1
        else:
            out.append(here)
            at += 1
    return "".join(out)


def _ansi_end(word: str, begin: int) -> int:
    at = begin
    while at < len(word) and word[at] != "'":
        at += 2 if word[at] == "\\" else 1
    return min(at, len(word))


def _unescaped(text: str) -> str:
    if re.search(r"\\[^nt\\'\"]", text):
        return unknown(text, "escapes that are not followed")
    return re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], text)


def _split(text: str, variables: Variables) -> str:
    """Split what an unquoted expansion gave at white space, elements of arrays at their ends."""
    if "IFS" in variables and (MARK.search(text) is None) and text.strip():
        return unknown(text, "words split at IFS, which the file sets")
    # White space at the ends of an expansion parts it from what stands beside it.
    return _SPLIT.join(part for piece in text.replace("\x00", "").split(_SPLIT) for part in _SPACES.split(piece))


def _closing_quote(word: str, begin: int) -> int:
    at = begin + 1
    while at < len(word) and word[at] != '"':
        if word.startswith("$(", at):
            at = _bracket_end(word, at + 1, "(", ")")
        elif word.startswith("${", at):
            at = _bracket_end(word, at + 1, "{", "}")
        at += 2 if word[at : at + 1] == "\\" else 1
    return min(at, len(word))


def _bracket_end(word: str, begin: int, opening: str, closing: str) -> int:
    depth = 0
    for at in range(begin, len(word)):
        depth += (word[at] == opening) - (word[at] == closing)
        if depth == 0:
            return at
    return len(word)


def _dollar(word: str, at: int, variables: Variables, whole: bool) -> tuple[str, int]:
    """Return what the expansion at a dollar sign gives, and where it ends; `whole` where it is not split."""
    if word.startswith("$((", at):
        end = _bracket_end(word, at + 1, "(", ")")
        return arithmetic(word[at + 3 : end - 1], variables), end + 1
    if word.startswith("$(", at):
        end = _bracket_end(word, at + 1, "(", ")")
        return unknown(word[at : end + 1], "what a command prints"), end + 1
    if word.startswith("${", at):
        end = _bracket_end(word, at + 1, "{", "}")
        return _parameter(word[at + 2 : end], variables, whole), end + 1
    match = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!]").match(word, at + 1)
    if match is None:
        return "$", at + 1
    return _parameter(match.group(), variables, whole), match.end()


def _parameter(text: str, variables: Variables, whole: bool) -> str:
    match = _PARAMETER.fullmatch(text)
    if match is None:
        return unknown(f"${{{text}}}", "an expansion that is not followed")
    counted, name, index, rest = match.groups()
    held = variables.get(name)
    if counted and rest:
        return unknown(f"${{{text}}}", "an expansion that is not followed")
    if counted:
        return _length(text, name, index, variables)
    if isinstance(held, list):
        held = _element(text, held, name if name in ("@", "*") else index, variables)
        if whole and "*" in (name, index) and held is not None:
            held = held.replace(_SPLIT + "\x00", " ")
    elif index not in (None, "", "0", "@", "*") and held is not None:
        held = held if MARK.search(held) else unknown(text, "an element of what is no array")
    if not rest:
        return unknown(name) if held is None else held
    other = re.fullmatch(r"(:?)([-=+?])(.*)", rest, re.DOTALL)
    if other is None:
        return unknown(f"${{{text}}}", "an expansion that is not followed")
    if held is not None and not is_known(held):
        return held
    is_set = held is not None and not (other[1] and not UNSET.sub("", held).replace("\x00", ""))
    if other[2] == "+":
        return _default(other[3], variables, whole) if is_set else ""
    if is_set or other[2] == "?":
        return held if held is not None else unknown(name)
    default = _default(other[3], variables, whole)
    if other[2] == "=" and index is None:
        variables[name] = default
    return default


def _default(word: str, variables: Variables, whole: bool) -> str:
    text = value(word, variables)
    if not whole and any(quote in word for quote in "'\"\\") and _SPACES.search(text):
        return unknown(word, "a quoted default that is not followed")
    return text


def _length(text: str, name: str, index: str | None, variables: Variables) -> str:
    held = variables.get(name)
    if name in ("@", "*"):
        return unknown("#") if held is None else str(len(held))
    if isinstance(held, list) and index in ("@", "*"):
        return str(len(held))
    if isinstance(held, str) and index is None and not MARK.search(held):
        return str(len(held))
    return unknown(text, "a length that is not followed")


def _element(text: str, held: list[str], index: str | None, variables: Variables) -> str | None:
    if index in ("@", "*"):
        return _SPLIT.join("\x00" + element for element in held)
    try:
        number = evaluate(value(index or "0", variables), Numbers(variables))
    except UnknownValue:
        return unknown(text, "an index that is not known")
    return held[number] if -len(held) <= number < len(held) else None
