"""Words of a script with its variables in their places; nothing is executed.

What the file does not say stays in the word as a mark, ``⟨NAME⟩`` of a variable that it never sets, ``⟨NAME: why⟩`` of
one that it sets in a way that is not followed, so that whoever reads the word can name it.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

# Arithmetic of a shell: whole numbers of 64 bits, names, assignments, division that truncates towards zero.

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|[0-9]+(?![0-9a-zA-Z_#])|[A-Za-z_]\w*|\*\*|<<=|>>=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--"
    r"|[-+*/%&|^]=|[-+*/%()<>=!~&|^?:,])"
)
_ASSIGNING = ("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^=")
_STEPS = {"++": 1, "--": -1}
_DEEPEST = 50


class UnknownValue(Exception):
    """The value depends on what the script does not say, or is written in a way that is not followed."""


class ScriptError(Exception):
    """The script itself would stop with an error."""


def _quotient(left: int, right: int) -> int:
    """Return a whole quotient, truncated towards zero; ScriptError where the divisor is 0."""
    if right == 0:
        raise ScriptError("a division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _power(base: int, exponent: int) -> int:
    """Return a power, reduced modulo 2^64; ScriptError for an exponent below zero."""
    if exponent < 0:
        raise ScriptError("an exponent below zero")
    return pow(base, exponent, 1 << 64)


_BINARY: Sequence[Mapping[str, Callable[[int, int], int]]] = (
    {"||": lambda left, right: int(bool(left or right))},
    {"&&": lambda left, right: int(bool(left and right))},
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt},
    {"<<": lambda left, right: left << (right & 63), ">>": lambda left, right: left >> (right & 63)},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": lambda left, right: left - right * _quotient(left, right)},
)
"""Operators from the loosest to the tightest, and what they make of two values."""
_VALUES = {"**": _power} | {sign: value for level in _BINARY for sign, value in level.items()}

Variables = dict[str, "str | list[str]"]


def evaluate(text: str, variables: Variables, unset: str | None = None, depth: int = 0) -> int:
    """Return the value of an arithmetic expression (0 for an empty one), and carry out its
    assignments in ``variables``.

    Args:
        text: the expression, without the brackets around it.
        variables: values by name, which assignments change.
        unset: text of a name that the file never sets; None where its value is not known.
        depth: how many names are being looked up around it.

    Raises:
        UnknownValue: no expression that is followed, or a value that is not known.
        ScriptError: a division by zero, or an exponent below zero.
    """
    if depth > _DEEPEST:
        raise UnknownValue("names that lead to each other")
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != "".join(text.split()):
        raise UnknownValue(text.strip())
    parser = _Expression(tokens, variables, unset, depth)
    value = parser.sequence() if tokens else 0
    if parser.at != len(tokens):
        raise UnknownValue(text.strip())
    return value


class _Expression:
    """A parser by descent that computes as it reads."""

    def __init__(self, tokens: list[str], variables: Variables, unset: str | None, depth: int) -> None:
        """Begin at the first token; ``unset`` and ``depth`` are those of :func:`evaluate`."""
        self._tokens, self._variables, self._unset, self._depth = tokens, variables, unset, depth
        self.at = 0
        self._skipping = 0
        """How many operands around are left out, as the right of ``0 && x``: they assign nothing."""

    def sequence(self) -> int:
        """Return the value of the last of expressions that are separated by commas, all of them carried out."""
        value = self._assignment()
        while self._take(","):
            value = self._assignment()
        return value

    def _peek(self, ahead: int = 0) -> str:
        """Return the token so many places ahead without going past it; empty behind the last."""
        return self._tokens[self.at + ahead] if self.at + ahead < len(self._tokens) else ""

    def _take(self, *texts: str) -> str:
        """Go past the next token if it is one of these, and return it; else stay and return an empty text."""
        taken = self._peek() if self._peek() in texts else ""
        self.at += bool(taken)
        return taken

    def _assignment(self) -> int:
        """Return the value of an assignment, which is made, of a choice by ``?``, or of what binds more tightly."""
        name, sign = self._peek(), self._peek(1)
        if name.isidentifier() and sign in _ASSIGNING:
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
        """Return the value of an operand; if ``skips`` it is only read past: it assigns nothing, and its value means
        nothing."""
        self._skipping += skips
        try:
            return operand()
        finally:
            self._skipping -= skips

    def _binary(self, level: int) -> int:
        """Return the value of operands joined by the operators of this level (0 binds most loosely) or tighter ones."""
        if level == len(_BINARY):
            base = self._unary()
            return self._combine("**", base, self._binary(level)) if self._take("**") else base
        left = self._binary(level + 1)
        while sign := self._take(*_BINARY[level]):
            decided = (sign == "&&" and not left) or (sign == "||" and bool(left))
            left = self._combine(sign, left, self._left_out(decided, lambda: self._binary(level + 1)))
        return left

    def _combine(self, sign: str, left: int, right: int) -> int:
        """Return what an operator makes of two values, in signed 64 bits; 0 inside of an operand that is left out."""
        return 0 if self._skipping else (_VALUES[sign](left, right) + (1 << 63)) % (1 << 64) - (1 << 63)

    def _unary(self) -> int:
        """Return the value of a term with the signs in front of it; ``++`` and ``--`` change the variable."""
        if sign := self._take("++", "--"):
            name = self._peek()
            if not name.isidentifier():
                raise UnknownValue(f"{sign} before {name!r}")
            self.at += 1
            return self._store(name, self._read(name) + _STEPS[sign])
        if sign := self._take("-", "+", "!", "~"):
            value = self._unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[sign]
        return self._primary()

    def _primary(self) -> int:
        """Return the value of a bracket, a variable or a number; UnknownValue for anything else."""
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
                self._store(token, value + _STEPS[sign])
            return value
        try:
            return int(token, 16 if token[:2] in ("0x", "0X") else 8 if token[:1] == "0" else 10)
        except ValueError as error:
            raise UnknownValue(token) from error

    def _read(self, name: str) -> int:
        """Return the value of a variable, of an array that of its first element; UnknownValue where it is not known."""
        if self._skipping:
            return 0
        held = self._variables.get(name, self._unset)
        text = "".join(held[:1]) if isinstance(held, list) else held
        if text is not None and self._unset is not None:
            text = UNSET.sub("", text)
        if text is None or MARK.search(text):
            raise UnknownValue(name)
        return evaluate(text, self._variables, self._unset, self._depth + 1)

    def _store(self, name: str, value: int) -> int:
        """Set a variable (of an array the first element) unless it is in an operand that is left out; return the
        value."""
        if not self._skipping:
            held = self._variables.get(name)
            self._variables[name] = [str(value), *held[1:]] if isinstance(held, list) else str(value)
        return value


MARK = re.compile(r"⟨(.*?)⟩")
UNSET = re.compile(r"⟨(?:[A-Za-z_]\w*|[0-9]+|[@*])⟩")
"""The mark of a variable that the file never sets: empty when the script runs, unless its caller sets it."""
_PARAMETER = re.compile(r"(#?)([A-Za-z_]\w*|[0-9]+|[@*#?$!])(?:\[([^\]]*)\])?(.*)", re.DOTALL)
_SPACES = re.compile(r"[ \t\n]+")
_SPLIT = "\x1f"
"""Between the fields of a word while it is expanded."""
_ALL_ELEMENTS = re.compile(r'"\$(?:@|\{(\w+)\[@\]\}|\{@\})"')
_ESCAPED = re.compile(r"\$'((?:\\.|[^'\\])*)'?", re.DOTALL)
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


def unknown(name: str, why: str = "") -> str:
    """Return the mark of something that the file does not say, ``⟨name⟩``, or says in a way that is not followed,
    ``⟨name: why⟩``."""
    joined = "\u00a0".join(f"{name}: {why}".split() if why else name.split())  # a mark is one word
    return f"⟨{joined.replace('⟨', '').replace('⟩', '')}⟩"


def is_known(text: str) -> bool:
    """Return whether a text holds no mark but those of variables that the file never sets, which count as empty."""
    return MARK.search(UNSET.sub("", text)) is None


def fields(word: str, variables: Variables) -> list[str]:
    """Return the fields that a word expands to, without quotes: several, or none, where an unquoted variable holds so
    many."""
    whole = _ALL_ELEMENTS.fullmatch(word)
    if whole and variables.get(whole[1] or "@") == []:
        return []
    return [part.replace("\x00", "") for part in _expanded(word, variables, quoted=False).split(_SPLIT) if part]


def value(word: str, variables: Variables) -> str:
    """Return a word expanded to one text, as an assignment takes it, not split into fields; it may hold marks."""
    return _expanded(word, variables, quoted=False, assigned=True).replace("\x00", "").replace(_SPLIT, " ")


def matches(subject: str, pattern: str, variables: Variables) -> bool | None:
    """Return whether a text matches a pattern of ``case`` or ``[[``, the pattern expanded first; None where that is not
    known or not followed.

    Quoted patterns, and those without ``*``, ``?``, ``[`` and ``(``, are compared as texts.
    """
    literal = value(pattern, variables)
    if not is_known(subject) or not is_known(literal):
        return None
    subject, literal = UNSET.sub("", subject), UNSET.sub("", literal)
    quoted = pattern[:1] in "'\"" and pattern[-1:] == pattern[:1] and pattern[:1] not in pattern[1:-1]
    if quoted or not any(sign in literal for sign in "*?[("):
        return subject == literal
    return None if any(sign in pattern for sign in "'\"\\[(") else fnmatchcase(subject, literal)


def arithmetic(text: str, variables: Variables) -> str:
    """Return the value of an arithmetic expression as text, or its mark where it is not known.

    Its assignments are made; where it is not known, what it would assign is unknown, too. ScriptError where the script
    would stop.
    """
    try:
        return str(evaluate(value(text, variables), variables))
    except UnknownValue:
        forget_assigned(text, variables)
        return unknown(text.strip(), "arithmetic that is not followed")


def forget_assigned(text: str, variables: Variables) -> None:
    """Replace by a mark the value of each variable that an arithmetic expression assigns."""
    signs = r"(?:\[[^\]]*\])?\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
    names = re.findall(rf"([A-Za-z_]\w*){signs}", text) + re.findall(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", text)
    for name in names:
        variables[name] = unknown(name, f"arithmetic {text.strip()}")


def _expanded(word: str, variables: Variables, *, quoted: bool, assigned: bool = False) -> str:
    """Return a word with quotes removed and variables in their places; it still holds marks of fields and of quotes.

    ``quoted`` is inside of double quotes; with ``assigned`` expansions are not split into fields.
    """
    out: list[str] = []
    at = 0
    while at < len(word):
        here, end = word[at], at  # the last letter of what begins here
        if here == "\\" and at + 1 < len(word):
            end = at + 1
            out.append(word[at : at + 2] if quoted and word[end] not in '"$`\\' else "\x00" + word[end])
        elif here == "'" and not quoted:
            end = word.find("'", at + 1)
            out.append("\x00" + word[at + 1 : end])
        elif here == '"' and not quoted:
            end = _closing_quote(word, at)
            out.append("\x00" + _expanded(word[at + 1 : end], variables, quoted=True))
        elif here == "`":
            end = word.find("`", at + 1) % len(word)
            out.append(unknown(word[at : end + 1], "what a command prints"))
        elif not quoted and (escaped := _ESCAPED.match(word, at)):
            end = escaped.end() - 1
            out.append("\x00" + _unescaped(escaped[1]))
        elif here == "$" and at + 1 < len(word):
            text, end = _dollar(word, at, variables, quoted or assigned)
            out.append(text if quoted or assigned else _split(text, variables))
        elif not quoted and not assigned and (braces := _BRACES.match(word, at)):
            end = braces.end() - 1
            out.append(unknown(braces.group(), "braces that are not followed"))
        else:
            out.append(here)
        at = end + 1
    return "".join(out)


def _unescaped(text: str) -> str:
    """Return the text of ``$'...'`` with its escapes in place; a mark where one of them is not followed."""
    if re.search(r"\\[^nt\\'\"]", text):
        return unknown(text, "escapes that are not followed")
    return re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], text)


def _split(text: str, variables: Variables) -> str:
    """Return what an unquoted expansion gave, with a separator of fields (``_SPLIT``) in the place of white space.

    It becomes a mark where the file sets IFS.
    """
    if "IFS" in variables and (MARK.search(text) is None) and text.strip():
        return unknown(text, "words split at IFS, which the file sets")
    # White space at the ends of an expansion parts it from what stands beside it.
    return _SPLIT.join(part for piece in text.replace("\x00", "").split(_SPLIT) for part in _SPACES.split(piece))


def _closing_quote(word: str, begin: int) -> int:
    """Return the place of the double quote that ends one at ``begin``; the length of the word where none does."""
    at = begin + 1
    while at < len(word) and word[at] != '"':
        if word.startswith(("$(", "${"), at):
            at = _bracket_end(word, at + 1)
        at += 2 if word[at : at + 1] == "\\" else 1
    return min(at, len(word))


def _bracket_end(word: str, begin: int) -> int:
    """Return the place of the bracket that ends the one at ``begin``; the length of the word where none does."""
    depth, opening, closing = 0, word[begin], {"(": ")", "{": "}"}[word[begin]]
    for at in range(begin, len(word)):
        depth += (word[at] == opening) - (word[at] == closing)
        if depth == 0:
            return at
    return len(word)


def _dollar(word: str, at: int, variables: Variables, whole: bool) -> tuple[str, int]:
    """Return what the expansion at the dollar sign at ``at`` gives (may be a mark), and the place of its last letter.

    ``whole`` where the expansion is not split into fields.
    """
    if word[at + 1] in "({":
        end = _bracket_end(word, at + 1)
        if word[at + 1] == "{":
            return _parameter(word[at + 2 : end], variables, whole), end
        if word.startswith("$((", at):
            return arithmetic(word[at + 3 : end - 1], variables), end
        return unknown(word[at : end + 1], "what a command prints"), end
    match = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!]").match(word, at + 1)
    return ("$", at) if match is None else (_parameter(match.group(), variables, whole), match.end() - 1)


def _parameter(text: str, variables: Variables, whole: bool) -> str:
    """Return the value of a variable with what follows its name in ``${...}``: an index, a length, a default.

    A mark where it is not known or not followed; ``=`` also sets the variable.
    """
    match = _PARAMETER.fullmatch(text)
    counted, name, index, rest = match.groups() if match else ("", "", None, "?")
    other = re.fullmatch(r"(:?)([-=+?])(.*)", rest, re.DOTALL)
    if match is None or (rest and (counted or other is None)):
        return unknown(f"${{{text}}}", "an expansion that is not followed")
    held = variables.get(name)
    if counted:
        return _length(text, held, name, index)
    if isinstance(held, list):
        held = _element(text, held, name if name in ("@", "*") else index, variables)
        if whole and "*" in (name, index) and held is not None:
            held = held.replace(_SPLIT + "\x00", " ")
    elif index not in (None, "", "0", "@", "*") and held is not None and not MARK.search(held):
        held = unknown(text, "an element of what is no array")
    if other is None:
        return unknown(name) if held is None else held
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
    """Return the word of a default, ``${NAME:-word}``, expanded; a mark where it is quoted and would have to be
    split."""
    text = value(word, variables)
    if not whole and any(quote in word for quote in "'\"\\") and _SPACES.search(text):
        return unknown(word, "a quoted default that is not followed")
    return text


def _length(text: str, held: str | list[str] | None, name: str, index: str | None) -> str:
    """Return as text the number of elements of an array, or of letters of a text (``held``); a mark where it is not
    known."""
    of_array = isinstance(held, list) and not {"@", "*"}.isdisjoint((name, index))
    if held is not None and (of_array or (isinstance(held, str) and index is None and not MARK.search(held))):
        return str(len(held))
    return unknown("#") if held is None and name in ("@", "*") else unknown(text, "a length that is not followed")


def _element(text: str, held: list[str], index: str | None, variables: Variables) -> str | None:
    """Return an element of the array ``held``, negative indices from its end, or for ``@`` and ``*`` all of them as
    separate fields.

    None where the index is outside of it, a mark (of ``text``) where the index is not known.
    """
    if index in ("@", "*"):
        return _SPLIT.join("\x00" + element for element in held)
    try:
        number = evaluate(value(index or "0", variables), variables)
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
    """Return whether ``test`` holds of expanded arguments, by their number and signs; None for files, and where it is
    not known."""
    for sign, deciding in (("-o", True), ("-a", False)):
        if sign in arguments[1:-1] and len(arguments) > 3:
            at = arguments.index(sign, 1)
            return _decided(deciding, _tested(arguments[:at]), _tested(arguments[at + 1 :]))
    match arguments:
        case []:
            return False
        case [text] | ["-n", text]:
            return _is_filled(text)
        case [left, sign, right] if sign in ("=", "==", "!=", *_NUMBERS):
            return _compared(left, sign, right)
        case ["!", *rest]:
            return negated(_tested(rest))
        case ["-z", text]:
            return negated(_is_filled(text))
        case [text, _] if is_known(text) and not re.fullmatch(r"-[a-zA-Z]", text):
            return False  # bash complains of it, and goes on as if the test failed
    # Files, descriptors, and what is not followed.
    return None


def _is_filled(text: str) -> bool | None:
    """Return whether a text is not empty, variables that the file never sets counting as empty; None where it is not
    known."""
    return bool(UNSET.sub("", text)) if is_known(text) else None


def _decided(deciding: bool, left: bool | None, right: bool | None) -> bool | None:
    """Return whether ``left`` or ``right`` holds (``deciding`` True), or both do (False); None where that is not
    known."""
    return deciding if deciding in (left, right) else None if None in (left, right) else not deciding


def negated(known: bool | None) -> bool | None:
    """Return the opposite of a result; None is unknown."""
    return None if known is None else not known


def _compared(left: str, sign: str, right: str) -> bool | None:
    """Return whether two texts, or with ``-eq`` and the like two whole numbers, compare so.

    None where one is not known, False where a number is expected and is none.
    """
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
    """Return whether terms joined by ``||``, each of factors joined by ``&&``, hold (None: unknown), and the words
    behind."""

    def operand(words: list[str]) -> tuple[bool | None, list[str]]:
        """Return what one term holds and the words behind: factors joined by ``&&``, or a single factor."""
        return _joined(words, variables, "&&") if sign == "||" else _primary(words, variables)

    known, words = operand(words)
    while words[:1] == [sign]:
        right, words = operand(words[1:])
        known = _decided(sign == "||", known, right)
    return known, words


def _primary(words: list[str], variables: Variables) -> tuple[bool | None, list[str]]:
    """Return whether the first term of a test holds (None: unknown or not followed), and the words behind it."""
    match words:
        case ["!", *rest]:
            known, rest = _primary(rest, variables)
            return negated(known), rest
        case ["(", *rest]:
            known, rest = _joined(rest, variables)
            return (known, rest[1:]) if rest[:1] == [")"] else (None, [])
        case ["-n" | "-z" as flag, text, *rest]:
            filled = _is_filled(value(text, variables))
            return filled if flag == "-n" else negated(filled), rest
        case ["-v", name, *rest] if name.isidentifier():
            held = variables.get(name, "")
            return (name in variables if isinstance(held, list) or is_known(held) else None), rest
        case [flag, _, *rest] if re.fullmatch(r"-[a-zA-Z]", flag):
            return None, rest
        case [left, sign, right, *rest] if sign not in ("&&", "||", ")"):
            return _keyword_compared(left, sign, right, variables), rest
    return _is_filled(value(words[0], variables) if words else ""), words[1:]


def _keyword_compared(left: str, sign: str, right: str, variables: Variables) -> bool | None:
    """Return whether ``left sign right`` holds in ``[[``: a text against a pattern, or two arithmetic expressions.

    None for other signs or unknown values.
    """
    if sign in ("=", "==", "!="):
        known = matches(value(left, variables), right, variables)
        return known if sign != "!=" else negated(known)
    if sign not in _NUMBERS:
        return None
    try:
        return _NUMBERS[sign](
            *(evaluate(UNSET.sub("", value(side, variables)), variables, "") for side in (left, right))
        )
    except UnknownValue:
        return None
