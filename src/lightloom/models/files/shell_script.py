"""Follow a shell script through its statements without running it, and collect the commands that it would call.

The script is parsed by tree-sitter's grammar of bash. A variable that is set by a construct, or under a condition, that
is not followed becomes unknown, and says so where its value is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from lightloom.core.documents import read_text
from lightloom.core.errors import ConfigError
from lightloom.models.files.shell_words import (
    MARK,
    UNSET,
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
    negated,
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
_PLACES = tuple("123456789")
_ARGUMENTS = ("@", "*", "#", *_PLACES)
_READING = ("read", "mapfile", "readarray", "getopts", "wait", "select")
_SUCCEEDING = ("true", ":", "echo", "export", "printf", "pwd")


class _Leave(Exception):
    """``exit``, ``return``, ``break`` or ``continue``: statements behind it are left out."""

    def __init__(self, word: str, line: int, levels: int = 1) -> None:
        """Leave by ``word`` at a line, out of so many loops."""
        self.word, self.line, self.levels = word, line, levels


def read_script(path: Path, definitions: Mapping[str, str] | None = None, text: str | None = None) -> Script:
    """Return the script followed to its end without running anything: what it would call and set.

    Args:
        path: the script.
        definitions: variables that are set before it begins.
        text: the script, where it is no file; ``path`` then names it in messages.

    Raises:
        ConfigError: unreadable, not the syntax of bash, longer or deeper than what is followed; names the line.
    """
    script = Script(path, dict(definitions or {}))
    try:
        script.follow(read_text(path, MOST_BYTES) if text is None else text)
    except _Leave as leave:
        script.ended_at = leave.line
    return script


class Script:
    """Commands that a script would call and variables that it would set, as far as the file tells."""

    def __init__(self, path: Path, definitions: Variables) -> None:
        """Begin a script at ``path``, which names it in messages, with variables that are defined beforehand."""
        self.commands: list[list[str]] = []
        """Words of each command that it calls, in order."""
        self.conditional: list[tuple[str, list[str]]] = []
        """Words of each command that it calls only if something holds that is not known, behind what that is."""
        self.variables = dict(definitions)
        self.notes: list[str] = []
        """Statements that could not be followed, each with its line."""
        self.ended_at: int | None = None
        """Line at which the script ends before its last one."""
        self.undecided: dict[str, str] = {}
        """Variables that a branch would set whose condition depends on what the file does not say: line and
        condition."""
        self._path, self._definitions = path, definitions
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

    def follow(self, text: str) -> bool | None:
        """Follow a text in the present state, and return whether its last command succeeds, None if not known.

        Raises ConfigError where the text cannot be parsed or followed to its end.
        """
        return self._all(_parsed(text, self._path).children)

    # Statements

    def _all(self, nodes: Iterable[Node]) -> bool | None:
        """Follow statements in order, and return whether the last succeeds (None: not known).

        One before ``&`` runs in another process: its variables are lost, and it counts as succeeding.
        """
        status: bool | None = True
        nodes = list(nodes)
        for node, following in zip_longest(nodes, nodes[1:]):
            if node.is_named and node.type != "comment":
                if following is not None and following.type == "&":
                    self._in_subshell([node])
                    status = True
                else:
                    status = self._statement(node)
        return status

    def _condition(self, nodes: Iterable[Node]) -> bool | None:
        """Follow statements in order where a failure does not stop the script; return whether the last succeeds, None
        if not known."""
        self._guarded += 1
        try:
            return self._all(nodes)
        finally:
            self._guarded -= 1

    def _statement(self, node: Node) -> bool | None:
        """Follow one statement by the method of its type, and return whether it succeeds, None if not known.

        A type without a method makes every variable unknown. A failure under ``set -e`` leaves the script; ConfigError
        beyond the most statements, and where the script would stop with an error.
        """
        self._statements += 1
        if self._statements > _MOST_STATEMENTS:
            raise self._error(
                node,
                f"more than {_MOST_STATEMENTS:,} statements: expected a script that sets its variables in fewer steps",
            )
        handler: Callable[[Node], bool | None] | None = getattr(self, f"_follow_{node.type}", None)
        if handler is None:
            return self._forget_all(_at(node, node.type.replace("_", " ")))
        try:
            status = handler(node)
        except ScriptError as error:
            raise self._error(node, f"{error} in {_words_of(node)!r}: expected a script that runs") from error
        simple = node.type in ("command", "test_command", "compound_statement", "subshell", "pipeline")
        if status is False and simple and self._stops_at_failure and not self._guarded:
            raise _Leave("exit", _line_of(node))
        return status

    def _error(self, node: Node, complaint: str) -> ConfigError:
        """Return, not raise, an error that names the file, the line of a statement, and the complaint."""
        return ConfigError(f"{self._path}, {_at(node, complaint)}")

    def _follow_list(self, node: Node) -> bool | None:
        """Follow ``a && b`` or ``a || b`` and return its status, None if not known.

        The right side is followed as one that may run where it is not known whether the left succeeds.
        """
        left, right, wanted = node.children[0], node.children[-1], node.children[1].type == "&&"
        status = self._condition([left])
        if status is None:
            state = _at(left, f"whether {_words_of(left)} {'succeeds' if wanted else 'fails'}")
            return self._perhaps(state, [lambda: self._statement(right), lambda: None])
        if status != wanted:
            return status
        return self._unless_it_ends([left], lambda: self._statement(right), lambda: not wanted)

    def _follow_pipeline(self, node: Node) -> bool | None:
        """Follow the stages of a pipeline, each in a subshell (the last not under ``lastpipe``); return the last
        one's status."""
        *stages, last = (child for child in node.children if child.is_named and child.type != "comment")
        for stage in stages:
            self._in_subshell([stage], self._condition)
        return self._statement(last) if self._last_in_shell else self._in_subshell([last])

    def _follow_negated_command(self, node: Node) -> bool | None:
        """Follow ``! command``, and return the opposite of its status, None if not known."""
        return negated(self._condition(node.children[1:]))

    def _follow_subshell(self, node: Node) -> bool | None:
        """Follow ``( ... )``, whose variables are lost behind it; return the status of its last command."""
        return self._in_subshell(node.children[1:-1])

    def _follow_compound_statement(self, node: Node) -> bool | None:
        """Follow ``{ ... }`` and return the status of its last command, or ``(( ... ))`` and return whether its value
        is not 0; None if not known."""
        if node.children[0].type == "((":
            return self._arithmetic_holds(_text_of(node)[2:-2], node)
        return self._all(node.children[1:-1])

    def _follow_redirected_statement(self, node: Node) -> bool | None:
        """Follow a statement without its redirections; return its status, True where only redirections stand."""
        body = node.child_by_field_name("body")
        return True if body is None else self._statement(body)

    def _follow_if_statement(self, node: Node) -> bool | None:
        """Follow ``if`` with its ``elif`` and ``else``; return the status of the branch, None if not known."""
        return self._choose(list(_branches(node)), node)

    def _choose(self, branches: Sequence[tuple[Sequence[Node], Sequence[Node]]], node: Node) -> bool | None:
        """Follow the branch whose condition holds; all that may be taken where that is not known.

        Returns the status of the branch, True if there is none to take, None where the condition is not known.
        Variables that a branch left out would set are noted as undecided if its condition asks for one that the file
        never sets.
        """
        if not branches:
            return True
        condition, branch = branches[0]
        follow, rest = partial(self._all, branch), partial(self._choose, branches[1:], node)
        if not condition:
            return follow()
        before = dict(self.variables)
        known = self._condition(condition)
        what = _at(node, f"whether {_words_of(*condition)}")
        if known is None:
            return self._perhaps(what, [follow, rest])
        if known:
            return self._unless_it_ends(condition, follow, rest)
        if missing := self._missing(condition, before):
            settings = ", ".join(f"--define {name}=VALUE" for name in missing)
            for name in re.findall(r"(?<![-\w])([A-Za-z_]\w*)\+?=", "\n".join(map(_text_of, branch))):
                self.undecided.setdefault(name, f"{what} ({settings})")
        return rest()

    def _missing(self, condition: Sequence[Node], variables: Variables) -> list[str]:
        """Return the names of variables that the file never sets and that a condition, or the values of its variables,
        ask for."""
        names = [name for node in condition for name in re.findall(r"\$\{?([A-Za-z_]\w*|[0-9])", _text_of(node))]
        texts = [value(f"${{{name}}}", dict(variables)) for name in names]
        return list(dict.fromkeys(mark.group()[1:-1] for text in texts for mark in UNSET.finditer(text)))

    def _unless_it_ends(
        self, condition: Sequence[Node], way: Callable[[], bool | None], otherwise: Callable[[], bool | None]
    ) -> bool | None:
        """Follow ``way``; if that ends the script where a variable is missing that the condition asks for, follow
        ``otherwise`` and note it.

        Whoever runs such a script sets what it asks for. Returns the status of what was followed.
        """
        start = dict(self.variables)
        try:
            return way()
        except _Leave as leave:
            missing = self._missing(condition, start)
            if leave.word != "exit" or not missing:
                raise
            self.variables = start
            what = f"the script ends there unless {', '.join(missing)} is set, and is followed as if it were"
            self.notes.append(_at(condition[0], what))
            return otherwise()

    def _follow_case_statement(self, node: Node) -> bool | None:
        """Follow ``case`` with its subject expanded; return the status of the item, None if not known."""
        subject = node.child_by_field_name("value")
        items = [child for child in node.children if child.type == "case_item"]
        return self._case(value(_text_of(subject), self.variables) if subject else "", items, node)

    def _case(self, subject: str, items: Sequence[Node], node: Node) -> bool | None:
        """Follow the first item that matches the subject; perhaps each that may match where that is not known.

        Returns the status of the item, True if none matches, None where it is not known or an item falls through.
        """
        falls = any(item.child_by_field_name("fallthrough") is not None for item in items)
        for at, item in enumerate(items):
            closing = next((i for i, child in enumerate(item.children) if child.type == ")"), 0)
            body, patterns = item.children[closing + 1 :], item.children_by_field_name("value")
            known = [matches(subject, _text_of(pattern), self.variables) for pattern in patterns]
            if not falls and True in known:
                return self._all(body)
            if falls or None in known:
                what = _at(item, f"which case {subject} is")
                rest = partial(self._case, subject, items[at + 1 :], node)
                self._perhaps(what, [partial(self._all, body), bool if falls else rest])
                if not falls:
                    return None
        return None if falls else True

    # Loops

    def _follow_for_statement(self, node: Node) -> bool | None:
        """Follow ``for`` over its words, by default the arguments; return None, a status that is not known.

        ``select`` and unknown words repeat an unknown number of times; items that the file never sets are left out.
        """
        name, body = (_field(node, field) for field in ("variable", "body"))
        words = [_text_of(child) for child in node.children_by_field_name("value")] or ['"$@"']
        items = [item for word in words for item in fields(word, self.variables)]
        known = node.children[0].type != "select" and all(map(is_known, items)) and not any(map(_is_glob, words))
        left = [item for item in items if not UNSET.fullmatch(item)]

        def next_item() -> bool | None:
            """Set the variable to the next item and return True; False behind the last, None where items are not
            known."""
            if not known or not left:
                return False if known else None
            self._assign(_text_of(name), left.pop(0), node)
            return True

        return self._loop(node, next_item, body, lambda: known or self._forget([_text_of(name)], node))

    def _follow_while_statement(self, node: Node) -> bool | None:
        """Follow ``while`` or ``until``, whose status is always None, not known."""
        condition = partial(self._condition, node.children_by_field_name("condition"))
        until = node.children[0].type == "until"
        return self._loop(node, (lambda: negated(condition())) if until else condition, _field(node, "body"))

    def _follow_c_style_for_statement(self, node: Node) -> bool | None:
        """Follow ``for ((start; condition; update))``; its status is always None, not known."""
        parts = _text_of(node).partition("((")[2].partition("))")[0].split(";")
        body = node.child_by_field_name("body")
        if body is None or len(parts) != 3:
            return self._forget_all(_at(node, "a loop"))
        start, holds, update = (
            partial(self._arithmetic_holds, part, node) if part.strip() else lambda: True for part in parts
        )
        start()
        return self._loop(node, holds, body, update)

    def _loop(
        self, node: Node, holds: Callable[[], bool | None], body: Node, update: Callable[[], object] = lambda: None
    ) -> bool | None:
        """Repeat a body while a condition holds; once that is not known, all that the body sets is unknown.

        ``update`` runs after each round. The status returned is always None, not known.
        """
        while (known := holds()) is not False:
            if known is None:
                one_more_round: list[Callable[[], object]] = [
                    lambda: (update(), holds(), self._body(body)),
                    lambda: None,
                ]
                earlier: Variables | None = None
                while earlier != self.variables:  # until nothing more becomes unknown
                    earlier = dict(self.variables)
                    self._perhaps(_at(node, "how often the loop runs"), one_more_round)
                    self._join_left("break")
                break
            if not self._body(body):
                break
            update()
        self._join_left("break")
        return None

    def _body(self, body: Node) -> bool:
        """Follow the body of a loop once; return whether the loop goes on, False behind a ``break`` that is certain."""
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

    # Branches of which it is not known whether they are taken

    def _perhaps(self, what: str, ways: Sequence[Callable[[], object]]) -> bool | None:
        """Follow each way from the state at hand; variables that differ behind them become unknown.

        A way that ends the script is left out: what comes behind is asked for by those who run it to its end. Returns
        None, a status that is not known; leaves as they do if all ways leave.
        """
        start, functions = dict(self.variables), dict(self._functions)
        ends: list[Variables] = []
        leaving: list[_Leave] = []
        self._conditions.append(what)
        for way in ways:
            self.variables, self._functions = dict(start), dict(functions)
            try:
                way()
                ends.append(self.variables)
            except _Leave as leave:
                leaving.append(leave)
                if leave.word != "exit":
                    self._left[leave.word].append(self.variables)
        self._conditions.pop()
        self.variables = ends[0] if ends else start
        if not ends:
            raise next((leave for leave in leaving if leave.word != "exit"), leaving[0])
        self._join(ends[1:], what)
        return None

    def _join(self, others: Iterable[Variables], why: str) -> None:
        """Make the variables unknown that differ between the present state and others."""
        for other in others:
            for name in sorted({*self.variables, *other}):
                if self.variables.get(name) != other.get(name):
                    self._set_unknown(name, why)

    def _join_left(self, word: str) -> None:
        """Make unknown what differs from the states in which this word (``return``, ``break``, ``continue``) may have
        left, and clear them."""
        self._join(self._left[word], f"whether a {word} is reached")
        self._left[word] = []

    def _set_unknown(self, name: str, why: str) -> None:
        """Make a variable unknown, unless it was defined beforehand: then it has that value again."""
        self.variables[name] = self._definitions.get(name, unknown(name, why))

    def _forget(self, names: Iterable[str], node: Node) -> bool | None:
        """Make variables unknown (defined ones get that value again), and return None, a status that is not known."""
        for name in names:
            self._set_unknown(name, _at(node, _words_of(node)))
        return None

    def _forget_all(self, why: str) -> bool | None:
        """Make every variable unknown, as a statement may have set any; note it, and return None, a status that is
        not known."""
        for name in list(self.variables):
            self._set_unknown(name, why)
        self.notes.append(f"{why} is not followed")
        return None

    def _in_subshell(
        self, nodes: Sequence[Node], follow: Callable[[Sequence[Node]], bool | None] | None = None
    ) -> bool | None:
        """Follow statements whose variables and functions are lost behind them, and return their status.

        None where they leave.
        """
        kept, functions = dict(self.variables), dict(self._functions)
        try:
            return (follow or self._all)(nodes)
        except _Leave:
            return None
        finally:
            self.variables, self._functions = kept, functions

    # Tests and arithmetic

    def _follow_test_command(self, node: Node) -> bool | None:
        """Return whether a test holds (``[``, ``[[`` or ``((``), None if not known."""
        if node.children[0].type == "((":
            return self._arithmetic_holds(_text_of(node)[2:-2], node)
        if node.has_error:
            return None
        words = [text for child in node.children[1:-1] for text in _test_words(child)]
        return (keyword_holds if node.children[0].type == "[[" else builtin_holds)(words, self.variables)

    def _arithmetic_holds(self, text: str, node: Node) -> bool | None:
        """Return whether an arithmetic expression is not 0, and make its assignments.

        None where it is not followed; what it would assign is unknown then.
        """
        names = set(self.variables)
        try:
            return evaluate(value(text, self.variables), self.variables, "") != 0
        except UnknownValue:
            forget_assigned(text, self.variables)
            return None
        finally:
            self._forget((set(self.variables) - names) & self._odd, node)

    # Assignments

    def _follow_variable_assignment(self, node: Node) -> bool | None:
        """Set a variable, an element or an array; return True, or None where a command inside decides the status."""
        target, given = _field(node, "name"), node.child_by_field_name("value")
        adds = any(child.type == "+=" for child in node.children)
        text, name = "" if given is None else _text_of(given), _text_of(target)
        if target.type == "subscript":
            self._assign_element(target, value(text, self.variables), adds, node)
        elif given is not None and given.type == "array":
            self._assign_array(name, given, adds, node)
        else:
            new, held = value(text, self.variables), self.variables.get(name, "") if adds else ""
            if isinstance(held, list):
                self._assign(name, ["".join(held[:1]) + new, *held[1:]], node)
            else:
                self._assign(name, held + new, node)
        return None if "$(" in text or "`" in text else True

    def _follow_variable_assignments(self, node: Node) -> bool | None:
        """Follow several assignments on a line; return the status of the last, None if not known."""
        return self._all(node.children)

    def _assign(self, name: str, new: str | list[str], node: Node) -> None:
        """Set a variable; it becomes unknown if it is more than a text or an array. ConfigError if it is read-only."""
        if name in self._read_only:
            raise self._error(node, f"{name} is read-only and is set again: expected one value for it")
        if name in self._odd:
            self._forget([name], node)
        elif name in ("BASHOPTS", "SHELLOPTS"):
            self._forget_all(_at(node, name))
        else:
            self.variables[name] = new

    def _assign_array(self, name: str, given: Node, adds: bool, node: Node) -> None:
        """Set an array to the fields of its words, or add them; it becomes unknown where words state their own
        indices."""
        words = [_text_of(child) for child in given.children[1:-1] if child.is_named and child.type != "comment"]
        elements = [part for word in words for part in fields(word, self.variables)]
        held = self.variables.get(name, []) if adds else []
        if any(re.match(r"\[[^\]]*\]\+?=", word) for word in words) or (isinstance(held, str) and not is_known(held)):
            self._forget([name], node)
        else:
            self._assign(name, [*([held] if isinstance(held, str) else held), *elements], node)

    def _assign_element(self, target: Node, new: str, adds: bool, node: Node) -> None:
        """Set an element of an array, or add to it; the whole becomes unknown where the index is not known or leaves
        a gap."""
        name, at = _text_of(_field(target, "name")), _field(target, "index")
        held = self.variables.get(name, [])
        elements = list(held) if isinstance(held, list) else [held]
        try:
            number = evaluate(value(_text_of(at), self.variables), self.variables, "")
        except UnknownValue:
            number = -1
        whole = isinstance(held, list) or is_known(held)
        if not 0 <= number <= len(elements) or not whole or name in self._odd:
            self._forget([name], node)
            return
        elements[number : number + 1] = ["".join(elements[number : number + 1] if adds else []) + new]
        self._assign(name, elements, node)

    def _follow_declaration_command(self, node: Node) -> bool | None:
        """Follow ``declare``, ``local``, ``export`` and the like, with the assignments in them; return True."""
        word = node.children[0].type
        arguments = [child for child in node.children[1:] if child.is_named and child.type != "comment"]
        flags = "".join(_text_of(child) for child in arguments if _text_of(child)[:1] in "-+")
        for child in arguments:
            text = _text_of(child)
            if text[:1] in "-+":
                continue
            if child.type != "variable_assignment" and not re.fullmatch(r"\w+", text):
                self._declare_words(text, node)
                continue
            name = re.split(r"\W", text, maxsplit=1)[0]
            if word == "local" or (word in ("declare", "typeset") and self._locals and "g" not in flags):
                self._make_local(name, node)
            if child.type == "variable_assignment":
                self._follow_variable_assignment(child)
            if word == "readonly" or "r" in flags:
                self._read_only.add(name)
            if any(flag in flags for flag in "Aniul"):
                # What a reference stands for changes with it.
                referred = value(text.partition("=")[2], self.variables) if "n" in flags else ""
                names = [name, *filter(str.isidentifier, [referred])]
                self._forget(names, node)
                self._odd.update(names)
        return True

    def _declare_words(self, text: str, node: Node) -> None:
        """Set variables by an assignment that is quoted or expanded, such as ``export "$NAME=3"``.

        Every variable becomes unknown where a name in it is none.
        """
        for field in fields(text, self.variables):
            name, sign, new = field.partition("=")
            if not name.isidentifier():
                self._forget_all(_at(node, _words_of(node)))
            elif sign:
                self._assign(name, new, node)

    def _make_local(self, name: str, node: Node) -> None:
        """Make a variable local to the function that is followed, and empty; unknown outside of functions."""
        if not self._locals:
            self._forget([name], node)
        elif name not in self._locals[-1]:
            self._locals[-1][name] = self.variables.get(name)
            self.variables[name] = ""

    def _follow_unset_command(self, node: Node) -> bool | None:
        """Remove variables and functions, and return True; what cannot simply be removed becomes unknown."""
        words = [part for word in _text_of(node).split()[1:] for part in fields(word, self.variables)]
        for word in words:
            if not is_known(word):
                self._forget_all(_at(node, _words_of(node)))
            elif "[" in word:
                self._forget([word.partition("[")[0]], node)
            elif "-f" in words:
                self._functions.pop(word, None)
            elif word in self._odd or (self._locals and word in self._locals[-1]):
                self._forget([word], node)
            elif not word.startswith("-"):
                self.variables.pop(word, None)
                self._functions.pop(word, None)
        return True

    # Commands

    def _follow_function_definition(self, node: Node) -> bool | None:
        """Keep the body of a function, under its name, for its calls, and return True."""
        self._functions[_text_of(_field(node, "name"))] = _field(node, "body")
        return True

    def _follow_command(self, node: Node) -> bool | None:
        """Follow a command with the variables that are set for it alone; return whether it succeeds, None if not
        known."""
        set_for_it: dict[str, str | list[str] | None] = {}
        words: list[str] = []
        for child, before in zip(node.children, [None, *node.children], strict=False):
            if before is not None and child.start_point[0] > before.end_point[0]:
                # The grammar takes lines of several assignments for a part of the command on the next line.
                set_for_it.clear()
            text = _text_of(child)
            if child.type == "variable_assignment":
                name = re.split(r"\W", text, maxsplit=1)[0]
                set_for_it.setdefault(name, self.variables.get(name))
                self._follow_variable_assignment(child)
            elif child.is_named and not child.type.endswith("redirect"):
                if words and before is not None and child.start_byte == before.end_byte:
                    text = words.pop() + text
                words.append(text)
        # Words are expanded before the assignments in front of them are made.
        after = {name: self.variables.get(name) for name in set_for_it}
        self._restore(set_for_it)
        called = [part for word in words for part in fields(word, self.variables)]
        self._restore(after)
        try:
            return self._call(called, words, node) if called else True
        finally:
            self._restore(set_for_it)

    def _restore(self, held: Mapping[str, str | list[str] | None]) -> None:
        """Set variables back to what they were before; those with None are removed."""
        for name, before in held.items():
            if before is None:
                self.variables.pop(name, None)
            else:
                self.variables[name] = before

    def _call(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Follow a command, given its words as they are expanded and as they are written.

        Commands that are neither functions nor of the shell itself are collected. Returns whether it succeeds, None if
        not known.
        """
        name = called[0]
        if name in self._functions:
            return self._call_function(called, node)
        if name in _BUILTINS:
            run: Callable[[list[str], Sequence[str], Node], bool | None] = getattr(self, f"_run_{_BUILTINS[name]}")
            return run(called, words, node)
        if name in ("[", "test"):
            return builtin_holds(words[1:], self.variables)
        if self._conditions:
            self.conditional.append((self._conditions[-1], called))
        else:
            self.commands.append(called)
        return True if name in _SUCCEEDING else False if name == "false" else None

    def _call_function(self, called: list[str], node: Node) -> bool | None:
        """Follow the body of a function with its arguments and local variables; ConfigError if calls are too deep.

        Returns its status, None where it may return earlier.
        """
        if len(self._locals) >= _DEEPEST_CALL:
            raise self._error(
                node, f"{called[0]} calls itself more than {_DEEPEST_CALL} times: expected functions that end"
            )
        kept = {name: self.variables.get(name) for name in _ARGUMENTS}
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
        """Set ``$1`` to ``$9``, ``$@``, ``$*`` and ``$#``; places without an argument are empty."""
        self.variables.update(zip(_PLACES, [*arguments, *[""] * len(_PLACES)], strict=False))
        self.variables.update({"@": list(arguments), "*": list(arguments), "#": str(len(arguments))})

    def _run_again(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Follow the command behind ``time``, ``command`` or ``builtin``, and return its status, True without one."""
        rest = [word for word in called[1:] if not (word.startswith("-") and called[0] != "builtin")]
        if any(re.match(r"[A-Za-z_]\w*\+?=", word) for word in rest[:1]):
            return self._forget([rest[0].partition("=")[0].removesuffix("+")], node)
        return self._call(rest, words[len(words) - len(rest) :], node) if rest else True

    def _run_leave(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Leave by ``exit``, ``return``, ``break``, ``continue`` or ``exec``, whose command is called first.

        Only an ``exec`` without a command returns, True.
        """
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
        """Follow the words as a script of their own; every variable becomes unknown where the first word is not
        known."""
        text = " ".join(called[1:])
        if not is_known(text.split()[0] if text.split() else ""):
            return self._forget_all(_at(node, _words_of(node)))
        # Marks stand for words that are not to be parsed again.
        marks = {f"__mark_{at}": mark.group() for at, mark in enumerate(MARK.finditer(text))}
        for name, mark in marks.items():
            text = text.replace(mark, f"${{{name}}}")
        self.variables.update(marks)
        try:
            return self.follow(text)
        finally:
            for name in marks:
                self.variables.pop(name, None)

    def _run_read(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Make the variables unknown that ``read``, ``mapfile``, ``getopts`` and the like set; return None, not
        known."""
        names = [word for word in called[1:] if word.isidentifier()]
        if any(not is_known(word) for word in called[1:]):
            self._forget_all(_at(node, _words_of(node)))
        return self._forget([*names, "REPLY", "MAPFILE", "OPTARG", "OPTIND"], node)

    def _run_printf(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Make the variable unknown that ``printf -v`` sets, and return True."""
        if len(called) > 2 and called[1].startswith("-v"):
            self._forget([re.sub(r"\[.*", "", called[1][2:] or called[2])], node)
        return True

    def _run_let(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Carry out arithmetic expressions, and return whether the last is not 0, None if not known; False without
        any."""
        return [False, *(self._arithmetic_holds(text, node) for text in called[1:])][-1]

    def _run_shift(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Drop the first arguments, as many as stated (1), and return True; unknown, and None, where they or how many
        are not known."""
        held = self.variables.get("@")
        count = called[1] if len(called) > 1 else "1"
        if not isinstance(held, list) or not count.isdecimal():
            return self._forget(_ARGUMENTS, node)
        self._set_arguments(held[int(count) :])
        return True

    def _run_set(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Set arguments, and whether a failure stops the script (``-e``, ``+e``, ``-o errexit``); other options are
        ignored."""
        options = called[1:]
        while options and options[0][:1] in ("-", "+") and options[0] not in ("--", "-"):
            option = options.pop(0)
            if (options.pop(0) == "errexit") if option.endswith("o") and options else "e" in option:
                self._stops_at_failure = option[0] == "-"
        if options:
            self._set_arguments(options[1:] if options[0] in ("--", "-") else options)
        return True

    def _run_shopt(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Note whether the last stage of a pipeline runs in the shell itself (``lastpipe``); return None, not known."""
        if "lastpipe" in called:
            self._last_in_shell = "-s" in called
        return None

    def _run_trap(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Follow the command of a trap as one that may or may not run, and return True."""
        if len(called) > 2 and called[1] not in ("-", "--"):
            self._perhaps(_at(node, "when the trap is sprung"), [lambda: self.follow(called[1]), lambda: None])
        return True

    def _run_source(self, called: list[str], words: Sequence[str], node: Node) -> bool | None:
        """Follow another script, which is looked for beside this one; return its status.

        One that does not lie there is noted and not read; the status is then None.
        """
        name = Path(MARK.sub("", called[1])).name if len(called) > 1 else ""
        path = self._path.with_name(name) if name else self._path
        if path == self._path or not path.is_file() or len(self._locals) >= _DEEPEST_CALL:
            self.notes.append(_at(node, f"{''.join(words[1:2])} does not lie beside the file, and is not read"))
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
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST_NODE:
            raise ConfigError(
                f"{path}, line {_line_of(node)}: expected at most {_DEEPEST_NODE} constructs inside of each other"
            )
        in_test = node.is_missing and node.parent is not None and node.parent.type == "test_command"
        if (node.is_missing and not in_test) or node.type == "ERROR":
            shown = _shortened(text.split("\n")[_line_of(node) - 1].strip())
            mistake = f"{shown!r} does not end or is not followed: expected the syntax of bash"
            raise ConfigError(f"{path}, {_at(node, mistake)}")
        waiting += ((child, depth + 1) for child in reversed(node.children))
    return root


def _branches(node: Node) -> Iterator[tuple[Sequence[Node], Sequence[Node]]]:
    """Yield (condition, statements) for each branch of an ``if``; the condition of ``else`` is empty."""
    clauses = [child for child in node.children if child.type in ("elif_clause", "else_clause")]
    for clause in (node, *clauses):
        types = [child.type for child in clause.children]
        then = types.index("then") if "then" in types else 0
        following = clause.children[then + 1 :]
        yield clause.children[1:then], [each for each in following if each not in clauses and each.type != "fi"]


def _test_words(node: Node) -> Iterator[str]:
    """Yield the words, operators and brackets of a test in order, as they are written."""
    if node.type in ("binary_expression", "unary_expression", "parenthesized_expression"):
        for child in node.children:
            yield from _test_words(child)
    else:
        yield _text_of(node)


def _is_glob(word: str) -> bool:
    """Return whether a word holds ``*``, ``?`` or ``[`` outside of quotes and expansions."""
    return any(sign in re.sub(r"\"[^\"]*\"|'[^']*'|\$\{[^}]*\}|\$[@*?#]", "", word) for sign in "*?[")


def _text_of(node: Node) -> str:
    """Return the text of a part of the syntax tree as it is written."""
    return (node.text or b"").decode(errors="replace")


def _words_of(*nodes: Node) -> str:
    """Return the text of statements on one line, of 60 characters at most, for messages."""
    return _shortened(" ".join(" ".join(_text_of(node).split()) for node in nodes).strip(" ;"))


def _shortened(text: str) -> str:
    """Return a text cut to 60 characters, with three dots in the place of the rest."""
    return text if len(text) <= 60 else text[:57] + "..."


def _at(node: Node, text: str) -> str:
    """Return a text behind the line number of a statement, as ``line 3: text``, for messages."""
    return f"line {_line_of(node)}: {text}"


def _line_of(node: Node) -> int:
    """Return the line on which a statement begins, counted from 1."""
    return node.start_point[0] + 1


def _field(node: Node, name: str) -> Node:
    """Return the part of a statement with this name in the grammar, which always gives it."""
    child = node.child_by_field_name(name)
    assert child is not None
    return child
