"""Words of a script with its variables in their places; nothing is executed.

What the file does not say stays in the word as a mark, ``⟨NAME⟩`` of a variable that it never sets, ``⟨NAME: why⟩`` of
one that it sets in a way that is not followed, so that whoever reads the word can name it.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

Variables = dict[str, "str | list[str]"]
Status = bool | None
"""Whether a command succeeds or a test holds; None where that is not known."""

MARK = re.compile(r"⟨(.*?)⟩")
UNSET = re.compile(r"⟨(?:[A-Za-z_]\w*|[0-9]+|[@*])⟩")
"""The mark of a variable that the file never sets: empty when the script runs, unless its caller sets it."""


class UnknownValue(Exception):
    """The value depends on what the script does not say, or is written in a way that is not followed."""


class ScriptError(Exception):
    """The script itself would stop with an error."""


def unknown(name: str, why: str = "") -> str:
    """Return the mark of something that the file does not say, ``⟨name⟩``, or says in a way that is not followed,
    ``⟨name: why⟩``.

    Spaces become no-break spaces, so that a mark stays one word.
    """
    joined = "\u00a0".join(f"{name}: {why}".split() if why else name.split())  # a mark is one word
    return f"⟨{joined.replace('⟨', '').replace('⟩', '')}⟩"


def is_known(text: str) -> bool:
    """Return whether a text holds no mark but those of variables that the file never sets, which count as empty."""
    return MARK.search(UNSET.sub("", text)) is None


# Arithmetic of a shell: whole numbers of 64 bits, whose signs are turned into those of Python. What Python would group
# otherwise (bits, chains of comparisons, the power of a negative number) is not followed, nor are assignments inside of
# an expression.

_TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+|[0-9]+(?![\w#])|[A-Za-z_]\w*|\*\*|<<|>>|[<>=!]=|&&|\|\||[-+*/%()<>!])")
_PYTHON = {"&&": "and", "||": "or", "/": "//", "!": "~"}
_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:(<<|>>|[-+*/%]?)=(?!=)(.*)|([-+])\4\s*)", re.DOTALL)
_CHOICE = re.compile(r"([^?:]*)\?([^?:]*):([^?:]*)")
_DEEPEST = 50


def _quotient(left: int, right: int) -> int:
    """Return the whole quotient of ``left`` by ``right``, truncated towards zero; ScriptError where ``right`` is 0."""
    if right == 0:
        raise ScriptError("a division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _power(base: int, exponent: int) -> int:
    """Return ``base`` to the power ``exponent``, reduced modulo 2^64 to 0 ... 2^64 - 1; ScriptError for an exponent
    below zero."""
    if exponent < 0:
        raise ScriptError("an exponent below zero")
    return pow(base, exponent, 1 << 64)


_OPERATORS: Mapping[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: _quotient, ast.Pow: _power,
    ast.Mod: lambda left, right: left - right * _quotient(left, right),
    ast.LShift: lambda left, right: left << (right & 63), ast.RShift: lambda left, right: left >> (right & 63),
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_SIGNS: Mapping[type[ast.AST], Callable[[int], int]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.not_,
}  # fmt: skip


def evaluate(text: str, variables: Variables, unset: str | None = None, depth: int = 0) -> int:
    """Return the value of an arithmetic expression (0 for an empty one) in signed 64 bits, and carry out the assignment
    that it is.

    An assignment is the whole expression (``n = n + 1``, ``n += 2``, ``n++``), never a part; its value is the new one,
    that of ``n++`` and ``n--`` the one before. ``a ? b : c`` is followed once, not nested.

    Args:
        text: the expression, without the brackets around it.
        variables: values by name, which an assignment changes; a value may itself be an expression.
        unset: text that stands for a name that the file never sets; with None its value is not known.
        depth: how many names are being looked up around it, 0 for a caller; at 50 a name is taken as not known.

    Raises:
        UnknownValue: no expression that is followed, or a value that is not known.
        ScriptError: a division by zero, or an exponent below zero.
    """

    def read(name: str) -> int:
        """Return the value of a variable, of an array that of its first element."""
        held = variables.get(name, unset)
        text = "".join(held[:1]) if isinstance(held, list) else held
        if text is not None and unset is not None:
            text = UNSET.sub("", text)
        if text is None or MARK.search(text) or depth == _DEEPEST:
            raise UnknownValue(name)
        return evaluate(text, variables, unset, depth + 1)

    def compute(node: ast.expr) -> int:
        """Return the value of a node of the expression's syntax tree."""
        match node:
            case ast.Constant(value=int() as number):
                return _wrapped(number)
            case ast.Name(id=name):
                return read(name[1:])
            case ast.UnaryOp(op=sign, operand=operand) if not isinstance(getattr(operand, "op", None), ast.Pow):
                return _wrapped(_SIGNS[type(sign)](compute(operand)))
            case ast.BinOp(left=left, op=sign, right=right) | ast.Compare(left=left, ops=[sign], comparators=[right]):
                return _wrapped(_OPERATORS[type(sign)](compute(left), compute(right)))
            case ast.BoolOp(op=sign, values=values):
                return int((any if isinstance(sign, ast.Or) else all)(compute(value) for value in values))
        raise UnknownValue(text.strip())

    if assigned := _ASSIGNED.fullmatch(text):
        name, sign, right, step = assigned.groups()
        before = read(name) if sign or step else 0
        number = before + (1 if step == "+" else -1) if step else evaluate(right, variables, unset, depth)
        if sign:
            number = evaluate(f"({before}){sign}({number})", variables)
        held = variables.get(name)
        variables[name] = [str(number), *held[1:]] if isinstance(held, list) else str(number)
        return before if step else number
    if choice := _CHOICE.fullmatch(text):
        return evaluate(choice[2 if evaluate(choice[1], variables, unset, depth) else 3], variables, unset, depth)
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != "".join(text.split()) or re.search(r"\+\+|--", text):
        raise UnknownValue(text.strip())
    try:
        words = (str(int(word, 8)) if re.match("0[0-9]", word) else word for word in tokens)
        python = " ".join(_PYTHON.get(word, f"_{word}" if word.isidentifier() else word) for word in words)
        return compute(ast.parse(python, mode="eval").body) if tokens else 0
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UnknownValue(text.strip()) from None


def _wrapped(number: int) -> int:
    """Return a whole number wrapped around into signed 64 bits, -2^63 to 2^63 - 1."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def arithmetic(text: str, variables: Variables) -> str:
    """Return the value of an arithmetic expression (``$((...))``, given without the brackets) as text, or its mark
    where it is not known.

    Its assignment is made in ``variables``; where it is not known, what it would assign is unknown, too. ScriptError
    where the script would stop.
    """
    try:
        return str(evaluate(value(text, variables), variables))
    except UnknownValue:
        forget_assigned(text, variables)
        return unknown(text.strip(), "arithmetic that is not followed")


def forget_assigned(text: str, variables: Variables) -> None:
    """Replace by a mark the value of each variable that an arithmetic expression assigns, in ``variables`` itself."""
    signs = r"(?:\[[^\]]*\])?\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
    names = re.findall(rf"([A-Za-z_]\w*){signs}", text) + re.findall(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", text)
    for name in names:
        variables[name] = unknown(name, f"arithmetic {text.strip()}")


# Expansion of a word. A separator stands between its fields, and a zero byte in front of what was quoted.

_SPLIT = "\x1f"
_PARAMETER = re.compile(r"(#?)([A-Za-z_]\w*|[0-9]+|[@*#?$!])(?:\[([^\]]*)\])?(?:(:?)([-=+?])(.*))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!]")
_SPACES = re.compile(r"[ \t\n]+")
_ALL_ELEMENTS = re.compile(r'"\$(?:@|\{(\w+)\[@\]\}|\{@\})"')
_NOT_FOLLOWED = re.compile(r"\$'(?:\\.|[^'\\])*'?|\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}", re.DOTALL)


def fields(word: str, variables: Variables) -> list[str]:
    """Return the fields that a word expands to, without quotes: several, or none, where an unquoted variable holds so
    many. Fields may hold marks of what is not known. ``variables`` are values by name, which an expansion such as
    ``${N:=1}`` changes."""
    whole = _ALL_ELEMENTS.fullmatch(word)
    if whole and variables.get(whole[1] or "@") == []:
        return []
    return [part.replace("\x00", "") for part in _expanded(word, variables).split(_SPLIT) if part]


def value(word: str, variables: Variables) -> str:
    """Return a word expanded to one text, as an assignment takes it, not split into fields; it may hold marks of what
    is not known. ``variables`` are values by name, which an expansion such as ``${N:=1}`` changes."""
    return _expanded(word, variables, assigned=True).replace("\x00", "").replace(_SPLIT, " ")


def _expanded(word: str, variables: Variables, *, quoted: bool = False, assigned: bool = False) -> str:
    r"""Return a word with quotes removed and variables in their places; ``\x1f`` parts its fields, and a zero byte
    stands in front of what was quoted.

    What is not known stays as a mark. ``quoted`` says that the word stands inside of double quotes; with ``assigned``
    expansions are not split into fields.
    """
    out: list[str] = []
    at, whole = 0, quoted or assigned
    while at < len(word):
        here, end, text, expands = word[at], at + 1, word[at], False
        if here == "\\":
            end = at + 2
            text = word[at:end] if quoted and word[at + 1 : end] not in '"$`\\' else "\x00" + word[at + 1 : end]
        elif here in "'\"" and not quoted:
            end = _end(word, at)
            inner = word[at + 1 : end - 1]
            text = "\x00" + (inner if here == "'" else _expanded(inner, variables, quoted=True))
        elif not quoted and (odd := _NOT_FOLLOWED.match(word, at)) and not (assigned and here == "{"):
            end, text = odd.end(), unknown(odd.group(), "braces or escapes that are not followed")
        elif here == "`" or word.startswith(("$(", "${"), at):
            end = _end(word, at + (here == "$"))
            inner, expands = word[at + 2 : end - 1], True
            if word.startswith("${", at):
                text = _parameter(inner, variables, whole)
            elif word.startswith("$((", at):
                text = arithmetic(inner[1:-1], variables)
            else:
                text = unknown(word[at:end], "what a command prints")
        elif here == "$" and (name := _NAME.match(word, end)):
            end, text, expands = name.end(), _parameter(name.group(), variables, whole), True
        out.append(_split(text, variables) if expands and not whole else text)
        at = end
    return "".join(out)


def _end(word: str, at: int) -> int:
    """Return the index just behind the quote or bracket that closes the one at index ``at``, past all that opens inside
    of it; beyond the end of ``word`` where nothing closes it."""
    opening, place = word[at], at + 1
    closing = {"(": ")", "{": "}"}.get(opening, opening)
    while place < len(word) and word[place] != closing:
        here = word[place]
        nested = here in "({" and (word[place - 1] == "$" or here == opening)
        nested = nested or (here in "'\"" and opening in "({")
        place = _end(word, place) if nested and opening not in "'`" else place + 1 + (here == "\\" and opening != "'")
    return min(place, len(word)) + 1


def _split(text: str, variables: Variables) -> str:
    """Return what an unquoted expansion gave, with a separator of fields (``_SPLIT``) in the place of all white space.

    Where the file sets IFS, which splits at other characters, a mark of an unknown text is returned instead, unless the
    text is blank or holds a mark already.
    """
    if "IFS" in variables and (MARK.search(text) is None) and text.strip():
        return unknown(text, "words split at IFS, which the file sets")
    # White space at the ends of an expansion parts it from what stands beside it.
    return _SPLIT.join(part for piece in text.replace("\x00", "").split(_SPLIT) for part in _SPACES.split(piece))


def _parameter(text: str, variables: Variables, whole: bool) -> str:
    """Return the value of a variable with what follows its name in ``${...}``: an index, a length, a default.

    A mark where it is not known or not followed; ``=`` also sets the variable in ``variables``.

    Args:
        text: what stands inside of the braces, or the name behind ``$``.
        variables: values by name.
        whole: True where the expansion is not split into fields (quoted, or the value of an assignment).
    """
    match = _PARAMETER.fullmatch(text)
    if match is None or (match[1] and match[5]):
        return unknown(f"${{{text}}}", "an expansion that is not followed")
    counted, name, index, colon, sign, word = match.groups()
    held = variables.get(name)
    every = "*" if "*" in (name, index) else "@" if "@" in (name, index) else ""
    if counted and (held is None or (isinstance(held, str) and (index is not None or MARK.search(held)))):
        return unknown("#") if held is None and name in ("@", "*") else unknown(text, "a length that is not followed")
    if isinstance(held, list):
        if counted and every:
            return str(len(held))
        if every:
            held = (" " if whole and every == "*" else _SPLIT).join("\x00" + element for element in held)
        else:
            try:
                number = evaluate(value(index or "0", variables), variables)
                held = held[number] if -len(held) <= number < len(held) else None
            except UnknownValue:
                held = unknown(text, "an index that is not known")
    elif index not in (None, "", "0", "@", "*") and held is not None and not MARK.search(held):
        held = unknown(text, "an element of what is no array")
    if counted:
        return unknown(text, "a length that is not followed") if MARK.search(held or "") else str(len(held or ""))
    if sign is None or (held is not None and not is_known(held)):
        return unknown(name) if held is None else held
    is_set = held is not None and not (colon and not UNSET.sub("", held).replace("\x00", ""))
    if sign == "+" and not is_set:
        return ""
    if sign == "?" or (is_set and sign != "+"):
        return unknown(name) if held is None else held
    default = value(word, variables)
    if not whole and any(quote in word for quote in "'\"\\") and _SPACES.search(default):
        default = unknown(word, "a quoted default that is not followed")
    if sign == "=" and index is None:
        variables[name] = default
    return default


# Whether a test of a script holds, as far as the file tells.

_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    f"-{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
"""Comparisons of whole numbers, by their signs."""
_INTEGER = re.compile(r"\s*[-+]?[0-9]+\s*")


def matches(subject: str, pattern: str, variables: Variables) -> Status:
    """Return whether a text matches a pattern of ``case`` or ``[[``; None where that is not known or not followed.

    Quoted patterns, and those without ``*``, ``?``, ``[`` and ``(``, are compared as texts.

    Args:
        subject: the text, already expanded.
        pattern: the pattern as it is written, expanded here.
        variables: values by name.
    """
    literal = value(pattern, variables)
    if not is_known(subject) or not is_known(literal):
        return None
    subject, literal = UNSET.sub("", subject), UNSET.sub("", literal)
    quoted = pattern[:1] in "'\"" and pattern[-1:] == pattern[:1] and pattern[:1] not in pattern[1:-1]
    if quoted or not any(sign in literal for sign in "*?[("):
        return subject == literal
    return None if any(sign in pattern for sign in "'\"\\[(") else fnmatchcase(subject, literal)


def negated(known: Status) -> Status:
    """Return the opposite of a status; None, which is not known, stays None."""
    return None if known is None else not known


def holds(words: Sequence[str], variables: Variables, keyword: bool) -> Status:
    """Return whether ``test``, ``[`` or, with ``keyword``, ``[[`` holds, None where that depends on what the file does
    not say.

    Args:
        words: words, operators and brackets as they are written, without the outer brackets.
        variables: values by name.
        keyword: whether ``[[`` is meant, whose words are not split and which matches patterns.
    """
    if not keyword:
        expanded = [(word, text) for word in words for text in fields(word, variables)]
        # A variable that the file never sets leaves no argument unless it is quoted.
        words = [UNSET.sub("", text) for word, text in expanded if word.startswith('"') or not UNSET.fullmatch(text)]
    return _tested(words, variables, keyword)


def _tested(words: Sequence[str], variables: Variables, keyword: bool) -> Status:
    """Return whether the test of these words holds, that of ``[[`` (``keyword``, with words yet to be expanded) or of
    ``[`` (expanded); None for tests of files, brackets, and where it is not known.

    ``||`` and ``&&`` (``-o`` and ``-a`` of ``[``) and ``!`` are followed; a test of no words is False.
    """
    if keyword and "(" in words:
        return None
    for sign, deciding in (("||", True), ("&&", False)) if keyword else (("-o", True), ("-a", False)):
        if sign in words[1:-1] and len(words) > 3:
            at = words.index(sign, 1)
            sides = [_tested(side, variables, keyword) for side in (words[:at], words[at + 1 :])]
            return deciding if deciding in sides else None if None in sides else not deciding
    if words[:1] == ["!"] and (len(words) != 3 or words[1] not in ("=", "==", "!=")):
        return negated(_tested(words[1:], variables, keyword))
    texts = [value(word, variables) for word in words] if keyword else words
    match words:
        case []:
            return False
        case [_] | ["-n", _]:
            return bool(UNSET.sub("", texts[-1])) if is_known(texts[-1]) else None
        case ["-z", _]:
            return not UNSET.sub("", texts[-1]) if is_known(texts[-1]) else None
        case ["-v", name] if keyword and name.isidentifier():
            held = variables.get(name, "")
            return name in variables if isinstance(held, list) or is_known(held) else None
        case [left, "=" | "==" | "!=" as sign, right]:
            if keyword:
                same = matches(texts[0], right, variables)
            else:
                same = left == right if is_known(left) and is_known(right) else None
            return negated(same) if sign == "!=" else same
        case [left, sign, right] if sign in _NUMBERS and is_known(texts[0]) and is_known(texts[2]):
            if not keyword:
                whole = _INTEGER.fullmatch(left) and _INTEGER.fullmatch(right)
                return bool(whole) and _NUMBERS[sign](int(left), int(right))
            try:
                return _NUMBERS[sign](*(evaluate(UNSET.sub("", text), variables, "") for text in texts[::2]))
            except UnknownValue:
                return None
        case [text, _] if not keyword and is_known(text) and not re.fullmatch(r"-[a-zA-Z]", text):
            return False  # bash complains of it, and goes on as if the test failed
    return None
