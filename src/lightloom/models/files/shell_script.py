"""Follow a shell script through its statements without running it, and collect the commands that it would call.

The script is parsed by tree-sitter's grammar of bash. A variable that is set by a construct, or under a condition, that
is not followed becomes unknown, and says so where its value is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lightloom.core.documents import read_text
from lightloom.core.errors import ConfigError
from lightloom.models.files.shell_words import (
    MARK,
    UNSET,
    Numbers,
    ScriptError,
    UnknownValue,
    Variables,
    builtin_holds,
    evaluate,
    fields,
    forget_assigned,
    is_known,
    keyword_holds,
    matches,
    unknown,
    value,
)

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_BYTES = 1 << 20
"""Bytes of a script at most."""
_CONTINUED = re.compile(r"^.*?\\\n(?:.*?\\\n)*.*$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"=<([^<>\n$'\"]+)>(?:[ \t]*\([^()\n]*\))?")
"""Placeholder of a template, which is not valid bash: ``CHECKPOINT=<path of the model> (optional)``."""
_DEEPEST_NODE = 200
"""Constructs inside of each other, at most."""
_DEEPEST_CALL = 50
_MOST_STATEMENTS = 20_000
"""Statements that are followed at most, those of loops and functions counted as often as they run."""
_READING = ("read", "mapfile", "readarray", "getopts", "wait", "select")
_SUCCEEDING = ("true", ":", "echo", "export", "printf", "pwd")


@dataclass(slots=True)
class Script:
    """Commands that a script would call and variables that it would set, as far as the file tells."""

    commands: list[list[str]] = field(default_factory=list)
    """Words of each command that it calls, in order."""
    conditional: list[tuple[str, list[str]]] = field(default_factory=list)
    """Words of each command that it calls only if something holds that is not known, behind what that is."""
    variables: Variables = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Statements that could not be followed, each with its line."""
    ended_at: int | None = None
    """Line at which the script ends before its last one."""
    undecided: dict[str, str] = field(default_factory=dict)
    """Variables that a branch would set whose condition depends on what the file does not say: line and condition."""


def read_script(path: Path, definitions: Mapping[str, str] | None = None, text: str | None = None) -> Script:
    """Follow a script without running anything.

    Args:
        definitions: variables that are set before it begins.
        text: the script, where it is no file; ``path`` then names it in messages.

    Raises:
        ConfigError: unreadable, not the syntax of bash, longer or deeper than what is followed; names the line.
    """
    script = Script(variables=dict(definitions or {}))
    reader = _Reader(path, script, dict(definitions or {}))
    try:
        reader.follow(read_text(path, MOST_BYTES) if text is None else text)
    except _Leave as leave:
        script.ended_at = leave.line
    return script


class _Leave(Exception):
    """``exit``, ``return``, ``break`` or ``continue``: statements behind it are left out."""

    def __init__(self, word: str, line: int, levels: int = 1) -> None:
        self.word, self.line, self.levels = word, line, levels


class _Reader:
    def __init__(self, path: Path, script: Script, definitions: Mapping[str, str]) -> None:
        self._path, self._script, self._definitions = path, script, definitions
        self._functions: dict[str, Node] = {}
        self._locals: list[dict[str, str | list[str] | None]] = []
        """For each call of a function, what its local variables were before; None where unset."""
        self._left: dict[str, list[Variables]] = {"return": [], "break": [], "continue": []}
        """Variables where a branch that may be taken leaves a function or a loop."""
        self._conditions: list[str] = []
        """Unknown conditions around the statement that is followed, outermost first."""
        self._odd: set[str] = set()
        """Variables that are more than a text or an array, such as tables, references and numbers."""
        self._read_only: set[str] = set()
        self._stops_at_failure = False
        self._guarded = 0
        """How many conditions are around the statement: a failure in them does not stop the script."""
        self._last_in_shell = False
        self._statements = 0

    @property
    def _variables(self) -> Variables:
        return self._script.variables

    def _where(self, node: Node) -> str:
        """Return the file and the line of a statement, for messages."""
        return f"{self._path}, line {_line_of(node)}"

    def follow(self, text: str) -> bool | None:
        """Follow a text in the present state, and return whether its last command succeeds, None if not known."""
        return self._all(_parsed(text, self._path).children)

    # Statements

    def _all(self, nodes: Iterable[Node]) -> bool | None:
        """Follow statements in order; one behind ``&`` runs in another process."""
        status: bool | None = True
        nodes = list(nodes)
        for at, node in enumerate(nodes):
            if node.is_named and node.type != "comment":
                aside = at + 1 < len(nodes) and nodes[at + 1].type == "&"
                status = self._in_subshell([node]) if aside else self._statement(node)
                status = True if aside else status
        return status

    def _statement(self, node: Node) -> bool | None:
        self._statements += 1
        if self._statements > _MOST_STATEMENTS:
            raise ConfigError(
                f"{self._where(node)}: more than {_MOST_STATEMENTS:,} statements: expected a script that "
                "sets its variables in fewer steps"
            )
        handler: Callable[[Node], bool | None] | None = getattr(self, f"_follow_{node.type}", None)
        if handler is None:
            self._forget_all(f"line {_line_of(node)}: {node.type.replace('_', ' ')}")
            return None
        try:
            status = handler(node)
        except ScriptError as error:
            raise ConfigError(
                f"{self._where(node)}: {error} in {_words_of(node)!r}: expected a script that runs"
            ) from error
        simple = node.type in ("command", "test_command", "compound_statement", "subshell", "pipeline")
        if status is False and simple and self._stops_at_failure and not self._guarded:
            raise _Leave("exit", _line_of(node))
        return status

    def _follow_list(self, node: Node) -> bool | None:
        left, sign, right = node.children[0], node.children[1].type, node.children[-1]
        with self._guard():
            status = self._statement(left)
        wanted = sign == "&&"
        if status is not None:
            if status != wanted:
                return status
            return self._unless_it_ends([left], lambda: self._statement(right), lambda: not wanted)
        state = f"line {_line_of(left)}: whether {_words_of(left)} {'succeeds' if wanted else 'fails'}"
        self._perhaps(state, [lambda: self._statement(right), lambda: None])
        return None

    def _follow_pipeline(self, node: Node) -> bool | None:
        stages = [child for child in node.children if child.is_named and child.type != "comment"]
        for stage in stages[:-1]:
            with self._guard():
                self._in_subshell([stage])
        return self._statement(stages[-1]) if self._last_in_shell else self._in_subshell(stages[-1:])

    def _follow_negated_command(self, node: Node) -> bool | None:
        with self._guard():
            status = self._all(node.children[1:])
        return status if status is None else not status

    def _follow_subshell(self, node: Node) -> bool | None:
        return self._in_subshell(node.children[1:-1])

    def _follow_compound_statement(self, node: Node) -> bool | None:
        if node.children[0].type == "((":
            return self._arithmetic_holds(_text_of(node)[2:-2], node)
        return self._all(node.children[1:-1])

    def _follow_redirected_statement(self, node: Node) -> bool | None:
        body = node.child_by_field_name("body")
        return True if body is None else self._statement(body)

    def _follow_if_statement(self, node: Node) -> bool | None:
        return self._choose(_branches(node), node)

    def _choose(self, branches: Sequence[tuple[Sequence[Node] | None, Sequence[Node]]], node: Node) -> bool | None:
        """Follow the branch whose condition holds; all that may be taken where that is not known."""
        if not branches:
            return True
        condition, branch = branches[0]
        if condition is None:
            return self._all(branch)
        before = dict(self._variables)
        with self._guard():
            known = self._all(condition)
        text = _words_of(*condition)
        what = f"line {_line_of(node)}: whether {text}"
        if known is None:
            self._perhaps(what, [lambda: self._all(branch), lambda: self._choose(branches[1:], node)])
            return None
        if known:
            return self._unless_it_ends(condition, lambda: self._all(branch), partial(self._choose, branches[1:], node))
        self._remember_undecided(what, self._missing(condition, before), branch)
        return self._choose(branches[1:], node)

    def _missing(self, condition: Sequence[Node], variables: Variables) -> list[str]:
        """Return the variables that a condition names, or their values do, and that the file never sets."""
        names = [name for node in condition for name in re.findall(r"\$\{?([A-Za-z_]\w*|[0-9])", _text_of(node))]
        texts = [value(f"${{{name}}}", dict(variables)) for name in names]
        return list(dict.fromkeys(mark.group()[1:-1] for text in texts for mark in UNSET.finditer(text)))

    def _unless_it_ends(
        self, condition: Sequence[Node], way: Callable[[], bool | None], otherwise: Callable[[], bool | None]
    ) -> bool | None:
        """Follow the way that holds where what the file does not set is empty, or the other if that ends the script.

        Whoever runs such a script sets what it asks for.
        """
        start = dict(self._variables)
        try:
            return way()
        except _Leave as leave:
            missing = self._missing(condition, start)
            if leave.word != "exit" or not missing:
                raise
            self._script.variables = start
            what = f"line {_line_of(condition[0])}: the script ends there unless {', '.join(missing)} is set"
            self._script.notes.append(f"{what}, and is followed as if it were")
            return otherwise()

    def _remember_undecided(self, what: str, missing: Sequence[str], branch: Sequence[Node]) -> None:
        """Remember which variables a branch would set that is left out as the file does not set what decides it."""
        settings = ", ".join(f"--define {name}=VALUE" for name in missing)
        for node in branch if missing else ():
            for name in re.findall(r"(?<![-\w])([A-Za-z_]\w*)\+?=", _text_of(node)):
                self._script.undecided.setdefault(name, f"{what} ({settings})")

    def _follow_case_statement(self, node: Node) -> bool | None:
        subject = node.child_by_field_name("value")
        items = [child for child in node.children if child.type == "case_item"]
        return self._case(value(_text_of(subject), self._variables) if subject else "", items, node)

    def _case(self, subject: str, items: Sequence[Node], node: Node) -> bool | None:
        falls = any(item.child_by_field_name("fallthrough") is not None for item in items)
        for at, item in enumerate(items):
            patterns = [_text_of(child) for child in item.children_by_field_name("value")]
            closing = next((i for i, child in enumerate(item.children) if child.type == ")"), 0)
            body = item.children[closing + 1 :]
            known = [matches(subject, pattern, self._variables) for pattern in patterns]
            found = None if falls else True if True in known else None if None in known else False
            if found:
                return self._all(body)
            if found is None:
                what = f"line {_line_of(item)}: which case {subject} is"
                rest = partial(self._case, subject, items[at + 1 :], node)
                self._perhaps(what, [partial(self._all, body), bool if falls else rest])
                if not falls:
                    return None
        return None if falls else True

    # Loops

    def _follow_for_statement(self, node: Node) -> bool | None:
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        assert variable is not None and body is not None
        name = _text_of(variable)
        words = [_text_of(child) for child in node.children_by_field_name("value")] or ['"$@"']
        items = [item for word in words for item in fields(word, self._variables)]
        open_ended = any(not is_known(item) for item in items) or any(map(_is_glob, words)) or name == "select"
        if node.children[0].type == "select" or open_ended:
            self._repeat_unknown(node, lambda: self._forget([name], node), body)
            return None
        for item in items:
            if UNSET.fullmatch(item):
                continue
            self._assign(name, item, node)
            if not self._body(body):
                break
        self._join_left("break")
        return None

    def _follow_while_statement(self, node: Node) -> bool | None:
        condition = node.children_by_field_name("condition")
        body = node.child_by_field_name("body")
        assert body is not None
        wanted = node.children[0].type == "while"

        def holds() -> bool | None:
            with self._guard():
                status = self._all(condition)
            return status if status is None else status == wanted

        self._loop(node, holds, body, lambda: None)
        return None

    def _follow_c_style_for_statement(self, node: Node) -> bool | None:
        head = _text_of(node).partition("((")[2]
        body = node.child_by_field_name("body")
        end = head.find("))")
        parts = head[:end].split(";")
        if body is None or len(parts) != 3:
            self._forget_all(f"line {_line_of(node)}: a loop")
            return None
        if parts[0].strip():
            self._arithmetic_holds(parts[0], node)
        self._loop(
            node,
            lambda: self._arithmetic_holds(parts[1], node) if parts[1].strip() else True,
            body,
            lambda: self._arithmetic_holds(parts[2], node) if parts[2].strip() else None,
        )
        return None

    def _loop(self, node: Node, holds: Callable[[], bool | None], body: Node, update: Callable[[], object]) -> None:
        """Repeat a body while a condition holds; once that is not known, all that the body sets is unknown."""
        while (known := holds()) is not False:
            if known is None:

                def again() -> None:
                    update()
                    holds()

                self._repeat_unknown(node, again, body)
                break
            if not self._body(body):
                break
            update()
        self._join_left("break")

    def _body(self, body: Node) -> bool:
        """Follow the body of a loop once; return whether the loop goes on."""
        goes_on = True
        try:
            self._all(body.children[1:-1])
        except _Leave as leave:
            if leave.word not in ("break", "continue"):
                raise
            if leave.levels > 1:
                raise _Leave(leave.word, leave.line, leave.levels - 1) from None
            goes_on = leave.word == "continue"
            if not self._left["continue"] and not goes_on:
                return False
        self._join_left("continue")
        return goes_on

    def _repeat_unknown(self, node: Node, before: Callable[[], object], body: Node) -> None:
        """Follow the body of a loop that runs an unknown number of times, until nothing more becomes unknown."""
        what = f"line {_line_of(node)}: how often the loop runs"

        def once() -> None:
            before()
            self._body(body)

        while True:
            earlier = dict(self._variables)
            self._perhaps(what, [once, lambda: None])
            self._join_left("break")
            if earlier == self._variables:
                return

    # Branches of which it is not known whether they are taken

    def _perhaps(self, what: str, ways: Sequence[Callable[[], object]]) -> None:
        """Follow each way from the state at hand; variables that differ behind them become unknown.

        A way that ends the script is left out: what comes behind is asked for by those who run it to its end.
        """
        start, functions = dict(self._variables), dict(self._functions)
        ends: list[Variables] = []
        leaving: list[_Leave] = []
        self._conditions.append(what)
        for way in ways:
            self._script.variables = dict(start)
            self._functions = dict(functions)
            try:
                way()
            except _Leave as leave:
                leaving.append(leave)
                if leave.word != "exit":
                    self._left[leave.word].append(self._script.variables)
            else:
                ends.append(self._script.variables)
        self._conditions.pop()
        self._script.variables = ends[0] if ends else start
        if not ends:
            raise next((leave for leave in leaving if leave.word != "exit"), leaving[0])
        for other in ends[1:]:
            self._join(other, what)

    def _join(self, other: Variables, why: str) -> None:
        for name in sorted({*self._variables, *other}):
            if self._variables.get(name) != other.get(name):
                self._set_unknown(name, why)

    def _join_left(self, word: str) -> None:
        for other in self._left[word]:
            self._join(other, f"whether a {word} is reached")
        self._left[word] = []

    def _set_unknown(self, name: str, why: str) -> None:
        defined = self._definitions.get(name)
        self._variables[name] = unknown(name, why) if defined is None else defined

    def _forget(self, names: Iterable[str], node: Node, what: str = "") -> None:
        for name in names:
            self._set_unknown(name, f"line {_line_of(node)}: {what or _words_of(node)}")

    def _forget_all(self, why: str) -> None:
        """Make every variable unknown, as a statement may have set any."""
        for name in list(self._variables):
            self._set_unknown(name, why)
        self._script.notes.append(f"{why} is not followed")

    @contextmanager
    def _guard(self) -> Iterator[None]:
        self._guarded += 1
        try:
            yield
        finally:
            self._guarded -= 1

    def _in_subshell(self, nodes: Sequence[Node]) -> bool | None:
        """Follow statements whose variables are lost behind them."""
        kept, functions = dict(self._variables), dict(self._functions)
        try:
            return self._all(nodes)
        except _Leave:
            return None
        finally:
            self._script.variables, self._functions = kept, functions

    # Tests and arithmetic

    def _follow_test_command(self, node: Node) -> bool | None:
        if node.children[0].type == "((":
            return self._arithmetic_holds(_text_of(node)[2:-2], node)
        if node.has_error:
            return None
        words = [text for child in node.children[1:-1] for text in _test_words(child)]
        return (keyword_holds if node.children[0].type == "[[" else builtin_holds)(words, self._variables)

    def _arithmetic_holds(self, text: str, node: Node) -> bool | None:
        names = set(self._variables)
        try:
            return evaluate(value(text, self._variables), Numbers(self._variables, "")) != 0
        except UnknownValue:
            forget_assigned(text, self._variables)
            return None
        finally:
            changed = set(self._variables) - names
            self._forget([name for name in changed if name in self._odd], node)

    # Assignments

    def _follow_variable_assignment(self, node: Node) -> bool | None:
        target, given = node.child_by_field_name("name"), node.child_by_field_name("value")
        assert target is not None
        sign = next((child.type for child in node.children if child.type in ("=", "+=")), "=")
        text = "" if given is None else _text_of(given)
        if target.type == "subscript":
            self._assign_element(target, value(text, self._variables), sign, node)
        elif given is not None and given.type == "array":
            self._assign_array(_text_of(target), given, sign, node)
        else:
            name, new = _text_of(target), value(text, self._variables)
            held = self._variables.get(name)
            if sign == "+=" and isinstance(held, list):
                self._assign(name, [(held[0] if held else "") + new, *held[1:]], node)
            else:
                self._assign(name, (str(held or "") if sign == "+=" else "") + new, node)
        return None if "$(" in text or "`" in text else True

    def _follow_variable_assignments(self, node: Node) -> bool | None:
        return self._all(node.children)

    def _assign(self, name: str, new: str | list[str], node: Node) -> None:
        if name in self._read_only:
            raise ConfigError(f"{self._where(node)}: {name} is read-only and is set again: expected one value for it")
        if name in self._odd:
            self._forget([name], node)
        elif name in ("BASHOPTS", "SHELLOPTS"):
            self._forget_all(f"line {_line_of(node)}: {name}")
        else:
            self._variables[name] = new

    def _assign_array(self, name: str, given: Node, sign: str, node: Node) -> None:
        words = [_text_of(child) for child in given.children[1:-1] if child.is_named and child.type != "comment"]
        if any(re.match(r"\[[^\]]*\]\+?=", word) for word in words):
            self._forget([name], node)
            return
        elements = [part for word in words for part in fields(word, self._variables)]
        held = self._variables.get(name, [])
        before = [held] if isinstance(held, str) else held
        if sign == "+=" and any(not is_known(element) for element in before) and isinstance(held, str):
            self._forget([name], node)
            return
        self._assign(name, [*before, *elements] if sign == "+=" else elements, node)

    def _assign_element(self, target: Node, new: str, sign: str, node: Node) -> None:
        name, at = target.child_by_field_name("name"), target.child_by_field_name("index")
        assert name is not None and at is not None
        held = self._variables.get(_text_of(name), [])
        elements = list(held) if isinstance(held, list) else [held]
        try:
            number = evaluate(value(_text_of(at), self._variables), Numbers(self._variables, ""))
        except UnknownValue:
            number = -1
        whole = all(map(is_known, elements)) or isinstance(held, list)
        if not 0 <= number <= len(elements) or not whole or _text_of(name) in self._odd:
            self._forget([_text_of(name)], node)
            return
        before = elements[number] if sign == "+=" and number < len(elements) else ""
        elements[number : number + 1] = [before + new]
        self._assign(_text_of(name), elements, node)

    def _follow_declaration_command(self, node: Node) -> bool | None:
        word = node.children[0].type
        arguments = [child for child in node.children[1:] if child.is_named and child.type != "comment"]
        flags = "".join(_text_of(child) for child in arguments if _text_of(child)[:1] in "-+")
        for child in arguments:
            if _text_of(child)[:1] in "-+":
                continue
            name = re.match(r"\w*", _text_of(child))
            assert name is not None
            if child.type != "variable_assignment" and not re.fullmatch(r"\w+", _text_of(child)):
                self._declare_words(child, node)
                continue
            if word == "local" or (word in ("declare", "typeset") and self._locals and "g" not in flags):
                self._make_local(name.group(), node)
            if child.type == "variable_assignment":
                self._follow_variable_assignment(child)
            if word == "readonly" or "r" in flags:
                self._read_only.add(name.group())
            if any(flag in flags for flag in "Aniul"):
                # What a reference stands for changes with it.
                referred = value(_text_of(child).partition("=")[2], self._variables) if "n" in flags else ""
                names = [name.group(), *filter(str.isidentifier, [referred])]
                self._forget(names, node)
                self._odd.update(names)
        return True

    def _declare_words(self, child: Node, node: Node) -> None:
        """Take an assignment that is quoted or expanded, such as ``export "$NAME=3"``."""
        for text in fields(_text_of(child), self._variables):
            name, sign, new = text.partition("=")
            if not name.isidentifier():
                self._forget_all(_place_of(node))
            elif sign:
                self._assign(name, new, node)

    def _make_local(self, name: str, node: Node) -> None:
        if not self._locals:
            self._forget([name], node)
        elif name not in self._locals[-1]:
            self._locals[-1][name] = self._variables.get(name)
            self._variables[name] = ""

    def _follow_unset_command(self, node: Node) -> bool | None:
        words = [part for word in _text_of(node).split()[1:] for part in fields(word, self._variables)]
        for word in words:
            if not is_known(word):
                self._forget_all(_place_of(node))
            elif "[" in word:
                self._forget([word.partition("[")[0]], node)
            elif "-f" in words:
                self._functions.pop(word, None)
            elif word in self._odd or (self._locals and word in self._locals[-1]):
                self._forget([word], node)
            elif not word.startswith("-"):
                self._variables.pop(word, None)
                self._functions.pop(word, None)
        return True

    # Commands

    def _follow_function_definition(self, node: Node) -> bool | None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        assert name is not None and body is not None
        self._functions[_text_of(name)] = body
        return True

    def _follow_command(self, node: Node) -> bool | None:
        set_for_it: dict[str, str | list[str] | None] = {}
        words: list[str] = []
        for at, child in enumerate(node.children):
            if at and child.start_point[0] > node.children[at - 1].end_point[0]:
                # The grammar takes lines of several assignments for a part of the command on the next line.
                set_for_it.clear()
            if child.type == "variable_assignment":
                name = re.match(r"\w*", _text_of(child))
                assert name is not None
                set_for_it.setdefault(name.group(), self._variables.get(name.group()))
                self._follow_variable_assignment(child)
            elif child.is_named and not child.type.endswith("redirect"):
                joined = at > 0 and child.start_byte == node.children[at - 1].end_byte and bool(words)
                words[-1:] = [words[-1] + _text_of(child)] if joined else [*words[-1:], _text_of(child)]
        # Words are expanded before the assignments in front of them are made.
        after = {name: self._variables.get(name) for name in set_for_it}
        self._restore(set_for_it)
        called = [part for word in words for part in fields(word, self._variables)]
        self._restore(after)
        try:
            return self._call(called, words, node) if called else True
        finally:
            self._restore(set_for_it)

    def _restore(self, held: Mapping[str, str | list[str] | None]) -> None:
        for name, before in held.items():
            if before is None:
                self._variables.pop(name, None)
            else:
                self._variables[name] = before

    def _call(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Follow a command, given its words as they are expanded and as they are written."""
        name = called[0]
        if name in self._functions:
            return self._call_function(called, node)
        if name in _BUILTINS:
            run: Callable[[list[str], Sequence[str], Node], bool | None] = getattr(self, f"_run_{_BUILTINS[name]}")
            return run(called, words, node)
        if name in ("[", "test"):
            return builtin_holds(words[1:], self._variables)
        self._collect(called, node)
        return True if name in _SUCCEEDING else False if name == "false" else None

    def _collect(self, called: list[str], node: Node) -> None:
        if not self._conditions:
            self._script.commands.append(called)
            return
        self._script.conditional.append((self._conditions[-1], called))

    def _call_function(self, called: list[str], node: Node) -> bool | None:
        if len(self._locals) >= _DEEPEST_CALL:
            raise ConfigError(
                f"{self._where(node)}: {called[0]} calls itself more than {_DEEPEST_CALL} times: expected "
                "functions that end"
            )
        arguments = ("@", "*", "#", *map(str, range(1, 10)))
        kept = {name: self._variables.get(name) for name in arguments}
        outer_left, self._left["return"] = self._left["return"], []
        self._set_arguments(called[1:])
        self._locals.append({})
        status: bool | None = None
        try:
            status = self._statement(self._functions[called[0]])
        except _Leave as leave:
            if leave.word != "return":
                raise
        finally:
            self._join_left("return")
            self._left["return"] = outer_left
            self._restore(self._locals.pop())
            self._restore(kept)
        return status if not outer_left else None

    def _set_arguments(self, arguments: Sequence[str]) -> None:
        for name in map(str, range(1, 10)):
            self._variables.pop(name, None)
        self._variables.update({str(at + 1): text for at, text in enumerate(arguments[:9])})
        for at in range(len(arguments), 9):
            self._variables[str(at + 1)] = ""
        self._variables.update({"@": list(arguments), "*": list(arguments), "#": str(len(arguments))})

    def _run_again(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """``time``, ``command`` and ``builtin``: the command behind them."""
        rest = [word for word in called[1:] if not (word.startswith("-") and called[0] != "builtin")]
        if any(re.match(r"[A-Za-z_]\w*\+?=", word) for word in rest[:1]):
            self._forget([rest[0].partition("=")[0].removesuffix("+")], node)
            return None
        return self._call(rest, words[len(words) - len(rest) :], node) if rest else True

    def _run_leave(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        if called[0] == "exec":
            if len(called) == 1:
                return True
            self._call(called[1:], words[1:], node)
            raise _Leave("exit", _line_of(node))
        if called[0] == "exit" or (called[0] == "return" and not self._locals):
            raise _Leave("exit", _line_of(node))
        levels = called[1] if len(called) > 1 and called[0] != "return" else "1"
        raise _Leave(called[0], _line_of(node), int(levels) if levels.isdecimal() and int(levels) else 1)

    def _run_eval(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        text = " ".join(called[1:])
        if not is_known(text.split()[0] if text.split() else ""):
            self._forget_all(_place_of(node))
            return None
        # Marks stand for words that are not to be parsed again.
        marks = {f"__mark_{at}": mark.group() for at, mark in enumerate(MARK.finditer(text))}
        for name, mark in marks.items():
            text = text.replace(mark, f"${{{name}}}")
        self._variables.update(marks)
        try:
            return self.follow(text)
        finally:
            for name in marks:
                self._variables.pop(name, None)

    def _run_read(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        names = [word for word in called[1:] if word.isidentifier()]
        if any(not is_known(word) for word in called[1:]):
            self._forget_all(_place_of(node))
        self._forget([*names, "REPLY", "MAPFILE", "OPTARG", "OPTIND"], node)
        return None

    def _run_printf(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        if len(called) > 2 and called[1].startswith("-v"):
            self._forget([re.sub(r"\[.*", "", called[1][2:] or called[2])], node)
        return True

    def _run_let(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        status: bool | None = False
        for text in called[1:]:
            status = self._arithmetic_holds(text, node)
        return status

    def _run_shift(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        held = self._variables.get("@")
        count = called[1] if len(called) > 1 else "1"
        if not isinstance(held, list) or not count.isdecimal():
            self._forget(["@", "*", "#", *map(str, range(1, 10))], node)
            return None
        self._set_arguments(held[int(count) :])
        return True

    def _run_set(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        options = called[1:]
        while options and options[0][:1] in ("-", "+") and options[0] not in ("--", "-"):
            option = options.pop(0)
            if option.endswith("o") and options:
                if options.pop(0) == "errexit":
                    self._stops_at_failure = option[0] == "-"
            elif "e" in option:
                self._stops_at_failure = option[0] == "-"
        if options:
            self._set_arguments(options[1:] if options[0] in ("--", "-") else options)
        return True

    def _run_shopt(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        if "lastpipe" in called:
            self._last_in_shell = "-s" in called
        return None

    def _run_trap(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        if len(called) > 2 and called[1] not in ("-", "--"):
            what = f"line {_line_of(node)}: when the trap is sprung"
            self._perhaps(what, [lambda: self.follow(called[1]), lambda: None])
        return True

    def _run_source(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Follow another script, which is looked for beside this one."""
        name = Path(MARK.sub("", called[1])).name if len(called) > 1 else ""
        path = self._path.with_name(name) if name else self._path
        if path == self._path or not path.is_file() or len(self._locals) >= _DEEPEST_CALL:
            file = words[1] if len(words) > 1 else ""
            self._script.notes.append(f"line {_line_of(node)}: {file} does not lie beside the file, and is not read")
            return None
        outer, self._path = self._path, path
        self._locals.append({})
        try:
            return self.follow(read_text(path, MOST_BYTES))
        except _Leave as leave:
            if leave.word != "return":
                raise
            return None
        finally:
            self._locals.pop()
            self._path = outer


_BUILTINS = {
    "time": "again", "command": "again", "builtin": "again", "exit": "leave", "return": "leave", "break": "leave",
    "continue": "leave", "exec": "leave", "eval": "eval", "printf": "printf", "let": "let", "shift": "shift",
    "set": "set", "shopt": "shopt", "trap": "trap", "source": "source", ".": "source",
    **dict.fromkeys(_READING, "read"),
}  # fmt: skip
"""Which method follows a command of the shell itself."""


def _parsed(text: str, path: Path) -> Node:
    """Return the root of a script's syntax tree.

    Raises:
        ConfigError: not the syntax of bash, or constructs too deep inside of each other; names the line.
    """
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    # The grammar takes a line that goes on for the end of an assignment: such lines are joined, and as many empty ones
    # put behind them, so that those that follow keep their numbers.
    text = _CONTINUED.sub(lambda match: match.group().replace("\\\n", "") + "\n" * match.group().count("\\\n"), text)
    parser = Parser(Language(tree_sitter_bash.language()))
    root = parser.parse(text.encode()).root_node
    if root.has_error:
        text = _PLACEHOLDER.sub(lambda match: f"='{unknown(match[1], 'a placeholder')}'", text)
        root = parser.parse(text.encode()).root_node
    cursor, depth = root.walk(), 0
    while True:
        node = cursor.node
        if node is None or depth > _DEEPEST_NODE:
            line = 1 if node is None else _line_of(node)
            raise ConfigError(f"{path}, line {line}: expected at most {_DEEPEST_NODE} constructs inside of each other")
        in_test = node.is_missing and node.parent is not None and node.parent.type == "test_command"
        if (node.is_missing and not in_test) or node.type == "ERROR":
            raise _mistake(node, text, path)
        if cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return root
            depth -= 1


def _mistake(node: Node, text: str, path: Path) -> ConfigError:
    line = text.split("\n")[_line_of(node) - 1].strip()
    shown = line if len(line) <= 60 else line[:57] + "..."
    return ConfigError(
        f"{path}, line {_line_of(node)}: {shown!r} does not end or is not followed: expected the syntax of bash"
    )


def _branches(node: Node) -> list[tuple[Sequence[Node] | None, Sequence[Node]]]:
    """Return each condition of an ``if`` (None for ``else``) with its statements."""
    found: list[tuple[Sequence[Node] | None, Sequence[Node]]] = []
    then = next(at for at, child in enumerate(node.children) if child.type == "then")
    clauses = ("elif_clause", "else_clause")
    inner = [child for child in node.children[then + 1 :] if child.type not in (*clauses, "fi")]
    found.append((node.children[1:then], inner))
    for child in node.children[then + 1 :]:
        if child.type == "elif_clause":
            at = next(i for i, part in enumerate(child.children) if part.type == "then")
            found.append((child.children[1:at], child.children[at + 1 :]))
        elif child.type == "else_clause":
            found.append((None, child.children[1:]))
    return found


def _test_words(node: Node) -> Iterator[str]:
    """Yield the words and operators of a test in order."""
    if node.type in ("binary_expression", "unary_expression", "parenthesized_expression"):
        for child in node.children:
            yield from _test_words(child)
    else:
        yield _text_of(node)


def _is_glob(word: str) -> bool:
    return any(sign in re.sub(r"\"[^\"]*\"|'[^']*'|\$\{[^}]*\}|\$[@*?#]", "", word) for sign in "*?[")


def _text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _words_of(*nodes: Node) -> str:
    text = " ".join(" ".join(_text_of(node).split()) for node in nodes).strip(" ;")
    return text if len(text) <= 60 else text[:57] + "..."


def _place_of(node: Node) -> str:
    """Return the line and the words of a statement, for messages."""
    return f"line {_line_of(node)}: {_words_of(node)}"


def _line_of(node: Node) -> int:
    return node.start_point[0] + 1
