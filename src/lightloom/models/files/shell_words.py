"""Words of a script with its variables in their places; nothing is executed.

What the file does not say stays in the word as a mark, ``⟨NAME⟩`` of a variable that it never sets, ``⟨NAME: why⟩`` of
one that it sets in a way that is not followed, so that whoever reads the word can name it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from fnmatch import fnmatchcase

# Arithmetic of a shell: whole numbers of 64 bits, names, assignments, division that truncates towards zero.

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
        """Unset the variable of this name."""
        del self._variables[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of variables that are set."""
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


# Whether a test of a script holds, as far as the file tells: ``[ ... ]``, ``[[ ... ]]`` and ``test``.

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    f"-{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
"""Comparisons of whole numbers, by their signs."""
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
            return _decided(deciding, _tested(arguments[:at]), _tested(arguments[at + 1 :]))
    if not arguments:
        return False
    if len(arguments) == 1:
        return bool(arguments[0]) if is_known(arguments[0]) else None
    if len(arguments) == 3 and arguments[1] in ("=", "==", "!=", *_NUMBERS):
        return _compared(arguments[0], arguments[1], arguments[2])
    if arguments[0] == "!":
        return _negated(_tested(arguments[1:]))
    if len(arguments) == 2 and arguments[0] in ("-z", "-n"):
        return None if not is_known(arguments[1]) else (not arguments[1]) == (arguments[0] == "-z")
    if len(arguments) == 2 and not re.fullmatch(r"-[a-zA-Z]", arguments[0]) and is_known(arguments[0]):
        return False  # bash complains of it, and goes on as if the test failed
    # Files, descriptors, and what is not followed.
    return None


def _decided(deciding: bool, left: bool | None, right: bool | None) -> bool | None:
    """Return the disjunction of two results (``deciding`` True) or their conjunction (False); None is unknown."""
    return deciding if deciding in (left, right) else None if None in (left, right) else not deciding


def _negated(known: bool | None) -> bool | None:
    return None if known is None else not known


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
    known, rest = _joined(list(words), variables)
    return known if not rest else None


def _joined(words: list[str], variables: Variables, sign: str = "||") -> tuple[bool | None, list[str]]:
    """Return whether terms joined by ``||``, each of factors joined by ``&&``, hold, and the words behind them."""

    def operand(words: list[str]) -> tuple[bool | None, list[str]]:
        return _joined(words, variables, "&&") if sign == "||" else _primary(words, variables)

    known, words = operand(words)
    while words[:1] == [sign]:
        right, words = operand(words[1:])
        known = _decided(sign == "||", known, right)
    return known, words


def _primary(words: list[str], variables: Variables) -> tuple[bool | None, list[str]]:
    if words[:1] == ["!"]:
        known, rest = _primary(words[1:], variables)
        return _negated(known), rest
    if words[:1] == ["("]:
        known, rest = _joined(words[1:], variables)
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
