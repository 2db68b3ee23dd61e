"""Follow a script through its assignments and conditions, and collect the commands that it would call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from lightloom.core.errors import ConfigError
from lightloom.core.files import cannot_read
from lightloom.model_files.shell.conditions import holds
from lightloom.model_files.shell.tokens import Token, tokens
from lightloom.model_files.shell.words import MARK, Variables, fields, value

_ENDS = {"if": "fi", "case": "esac", "for": "done", "while": "done", "until": "done", "{": "}"}
_DECLARING = ("export", "declare", "local", "readonly", "typeset")
_DEEPEST = 20


@dataclass(slots=True)
class Script:
    """What a script would do, as far as the file tells."""

    commands: list[list[str]] = field(default_factory=list)
    """Words of each command that it calls, in order."""
    variables: Variables = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What could not be followed, with its line."""
    undecided: dict[str, str] = field(default_factory=dict)
    """Variables that a branch would set whose condition depends on what the file does not say: line and condition."""


def read_script(path: Path, definitions: Mapping[str, str] | None = None, text: str | None = None) -> Script:
    """Follow a script without running anything.

    Args:
        definitions: variables that are set before it begins.
        text: the script, where it is no file; ``path`` then names it in messages.

    Raises:
        ConfigError: unreadable, or a quote, bracket or condition that does not end; names the line.
    """
    script = Script(variables=dict(definitions or {}))
    _follow(path, script, 0, text)
    return script


def _follow(path: Path, script: Script, depth: int, text: str | None = None) -> None:
    try:
        text = path.read_text(encoding="utf-8-sig") if text is None else text
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, error) from error
    _Reader(path, script, depth).run(tokens(text, str(path)))


class _Reader:
    def __init__(self, path: Path, script: Script, depth: int) -> None:
        self._path, self._script, self._depth = path, script, depth
        self._functions: dict[str, Sequence[Token]] = {}

    def run(self, code: Sequence[Token]) -> None:
        """Follow statements in order."""
        at = 0
        while at < len(code):
            token = code[at]
            if token.kind == "operator":
                at += 1
            elif token.kind == "word" and token.text in _ENDS:
                end = self._end(code, at)
                self._block(token, code[at + 1 : end])
                at = end + 1
            elif self._defines(code, at):
                begin = next((i for i in range(at, len(code)) if code[i].text == "{"), len(code) - 1)
                end = self._end(code, begin)
                self._functions[token.text.removesuffix("()")] = code[begin + 1 : end]
                at = end + 1
            else:
                end = at
                while end < len(code) and code[end].kind != "operator":
                    end += 1
                self._command(code[at:end])
                at = end

    def _defines(self, code: Sequence[Token], at: int) -> bool:
        brackets = [token.text for token in code[at + 1 : at + 3]]
        return code[at].text == "function" or code[at].text.endswith("()") or brackets == ["(", ")"]

    def _end(self, code: Sequence[Token], begin: int) -> int:
        """Return where the block that begins there ends."""
        waiting: list[str] = []
        for at in range(begin, len(code)):
            first = at == begin or code[at - 1].kind == "operator" or code[at - 1].text in ("then", "else", "do", "{")
            word = code[at].text if code[at].kind == "word" else ""
            if word in _ENDS and (first or at == begin):
                waiting.append(_ENDS[word])
            elif waiting and word == waiting[-1] and first:
                waiting.pop()
                if not waiting:
                    return at
        raise ConfigError(
            f"{self._path}, line {code[begin].line}: {code[begin].text!r} does not end: expected "
            f"{_ENDS[code[begin].text]!r}"
        )

    def _block(self, head: Token, body: Sequence[Token]) -> None:
        if head.text == "if":
            self._choose(head, body)
        elif head.text == "case":
            self._case(head, body)
        elif head.text == "{":
            self.run(body)
        elif any("--" in token.text for token in body):
            self._script.notes.append(f"line {head.line}: a loop is not followed")

    def _choose(self, head: Token, body: Sequence[Token]) -> None:
        """Follow the branch whose condition holds; none where that is not known."""
        for condition, branch in _branches(body):
            known = True if condition is None else holds(condition, self._script.variables)
            text = " ".join(token.text.strip() for token in condition or ()).strip(" ;")
            if not known:
                self._leave_undecided(f"line {head.line}: whether {text}", condition or (), branch)
            if known is None:
                if any("--" in token.text for token in branch):
                    self._script.notes.append(f"line {head.line}: whether {text} is not known, and left out")
                return
            if known:
                self.run(branch)
                return

    def _leave_undecided(self, what: str, condition: Sequence[Token], branch: Sequence[Token]) -> None:
        """Remember which variables a branch would set that depends on what the file does not say."""
        words = " ".join(value(token.text, self._script.variables) for token in condition)
        missing = [name for name in dict.fromkeys(MARK.findall(words)) if name.isalnum() or name.isidentifier()]
        for token in branch if missing else ():
            name, sign, _ = token.text.partition("=")
            if sign and name.isidentifier():
                settings = ", ".join(f"--define {name}=VALUE" for name in missing)
                self._script.undecided.setdefault(name, f"{what} ({settings})")

    def _case(self, head: Token, body: Sequence[Token]) -> None:
        subject = value(body[0].text, self._script.variables) if body else ""
        if MARK.search(subject):
            self._script.notes.append(f"line {head.line}: {body[0].text} is not known, and its cases are left out")
            return
        patterns: list[str] = []
        at = next((i + 1 for i, token in enumerate(body) if token.text == "in"), len(body))
        while at < len(body):
            if body[at].kind == "operator" and body[at].text == ")":
                end = next((i for i in range(at, len(body)) if body[i].text == ";;"), len(body))
                if any(fnmatchcase(subject, value(text, self._script.variables)) for text in patterns):
                    self.run(body[at + 1 : end])
                    return
                patterns, at = [], end
            elif body[at].kind == "word":
                patterns.append(body[at].text)
            at += 1

    def _command(self, words: Sequence[Token]) -> None:
        variables = self._script.variables
        at = 0
        if words and words[0].text in _DECLARING:
            at = 1
        while at < len(words) and (self._assigned(words[at]) or (words[0].text in _DECLARING)):
            at += 1
        called = [part for token in words[at:] for part in fields(token.text, variables)]
        if not called:
            return
        if called[0].startswith("((") or called[0] == "let":
            return
        if called[0] in ("source", ".") and len(called) > 1:
            self._source(words[at + 1].text, words[at].line)
        elif called[0] in self._functions and self._depth < _DEEPEST:
            self._depth += 1
            self.run(self._functions[called[0]])
        elif called[0] == "eval":
            self._script.commands.append(" ".join(called[1:]).split())
        else:
            self._script.commands.append(called)

    def _assigned(self, token: Token) -> bool:
        """Take an assignment; returns whether the word is one."""
        variables = self._script.variables
        if token.kind == "array":
            elements = [part for word in token.elements for part in fields(word, variables)]
            held = variables.get(token.text, [])
            before = [held] if isinstance(held, str) else held
            variables[token.text] = [*before, *elements] if token.appends else elements
            return True
        name, sign, text = token.text.partition("=")
        appends = name.endswith("+")
        name = name.removesuffix("+")
        if not sign or not name.isidentifier():
            return False
        new, held = value(text, variables), variables.get(name, "")
        variables[name] = (held if isinstance(held, str) else " ".join(held)) + new if appends else new
        return True

    def _source(self, word: str, line: int) -> None:
        """Follow another script, which is looked for beside this one."""
        name = Path(MARK.sub("", value(word, self._script.variables))).name
        path = self._path.with_name(name) if name else self._path
        if path != self._path and path.is_file() and self._depth < _DEEPEST:
            _follow(path, self._script, self._depth + 1)
        else:
            self._script.notes.append(f"line {line}: {word} does not lie beside the file, and is not read")


def _branches(body: Sequence[Token]) -> list[tuple[Sequence[Token] | None, Sequence[Token]]]:
    """Return each condition of an ``if`` (None for ``else``) with its statements."""
    marks: list[tuple[int, str]] = []
    depth = 0
    for at, token in enumerate(body):
        first = at == 0 or body[at - 1].kind == "operator" or body[at - 1].text in ("then", "else", "do")
        if token.kind == "word" and first:
            depth += (token.text in _ENDS) - (token.text in _ENDS.values())
            if depth == 0 and token.text in ("then", "elif", "else"):
                marks.append((at, token.text))
    found: list[tuple[Sequence[Token] | None, Sequence[Token]]] = []
    condition: Sequence[Token] | None = body[: marks[0][0]] if marks else body
    for number, (at, word) in enumerate(marks):
        end = marks[number + 1][0] if number + 1 < len(marks) else len(body)
        if word == "elif":
            condition = body[at + 1 : end]
        else:
            found.append((None if word == "else" else condition, body[at + 1 : end]))
    return found
