"""Follow a shell script through its statements without running it, and collect the commands that it would call.

The script is parsed by tree-sitter's grammar of bash. A variable that is set by a construct, or under a condition, that
is not followed becomes unknown, and says so where its value is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from lightloom.core.documents import read_text
from lightloom.core.errors import ConfigError
from lightloom.models.files import shell_words
from lightloom.models.files.shell_words import MARK, UNSET, Status, Variables, fields, is_known, negated, value

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


class _Leave(Exception):
    """``exit``, ``return``, ``break`` or ``continue``: statements behind it are left out."""

    def __init__(self, word: str, line: int, levels: int = 1) -> None:
        """Leave by ``word`` at a line, out of so many loops."""
        self.word, self.line, self.levels = word, line, levels


def read_script(path: Path, definitions: Mapping[str, str] | None = None, text: str | None = None) -> Script:
    """Return the script followed to its end without running anything: what it would call and set.

    Statements behind ``exit`` are left out; ``ended_at`` is then its line.

    Args:
        path: the script.
        definitions: variables that are set before it begins, and that keep these values where the script would set them
            in a way that is not known.
        text: the script, where it is no file; ``path`` then names it in messages.

    Raises:
        ConfigError: unreadable, not the syntax of bash, longer or deeper than what is followed, or a script that would
            stop with an error of its own (a division by zero, a read-only variable set again); names the line.
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
        """Values by name; of a function, under ``name()``, the number of its body."""
        self.notes: list[str] = []
        """Statements that could not be followed, each with its line."""
        self.ended_at: int | None = None
        """Line at which the script ends before its last one."""
        self.undecided: dict[str, str] = {}
        """Variables that a branch would set whose condition depends on what the file does not say: line and
        condition."""
        self._path, self._definitions = path, definitions
        self._bodies: list[Node] = []
        self._locals: list[set[str]] = []
        """For each function or other script that is followed, its local variables."""
        self._left: list[Variables] = []
        """Variables where a branch that may be taken leaves a loop or the function that is followed."""
        self._conditions: list[str] = []
        """Unknown conditions around the statement that is followed, outermost first."""
        self._odd: set[str] = set()
        """Variables that are more than a text or an array, such as tables, references and numbers."""
        self._read_only: set[str] = set()
        self._stops_at_failure = False
        self._guarded = 0
        """How many conditions are around the statement: a failure in them does not stop the script."""
        self._statements = 0

    def follow(self, text: str) -> Status:
        """Follow a text in the present state, and return whether its last command succeeds, None if not known.

        ConfigError where the text cannot be parsed or followed to its end; an ``exit`` in it, or the failure of a
        command under ``set -e``, raises the internal ``_Leave``.
        """
        return self._all(_parsed(text, self._path).children)

    # Statements. Each returns whether it succeeds, None where that is not known.

    def _all(self, nodes: Sequence[Node], guarded: bool = False) -> Status:
        """Follow statements in order; return the status of the last (True succeeds, False fails, None not known), True
        if there are none. Where ``guarded``, a failure does not stop the script, although ``set -e`` holds.

        One before ``&`` runs in another process: variables that it changes become unknown, and it counts as succeeding.
        """
        status: Status = True
        self._guarded += guarded
        try:
            for node, following in zip_longest(nodes, nodes[1:]):
                if following is not None and following.type == "&":
                    self._in_subshell([node])
                    status = True
                elif node.is_named and node.type != "comment":
                    status = self._statement(node)
        finally:
            self._guarded -= guarded
        return status

    def _statement(self, node: Node) -> Status:
        """Follow one statement by the method of its type, and return its status (True succeeds, False fails, None not
        known).

        A type without a method makes every variable unknown. A command, test, group, subshell or pipeline that fails
        under ``set -e``, and is in no condition, leaves the script by raising ``_Leave``. ConfigError, which names the
        line, beyond the most statements, and where the script would stop with an error.
        """
        self._statements += 1
        follow: Callable[[Node], Status] | None = getattr(self, f"_follow_{node.type}", None)
        if follow is None:
            return self._forget_all(node, node.type.replace("_", " "))
        try:
            if self._statements > _MOST_STATEMENTS:
                raise shell_words.ScriptError(f"more than {_MOST_STATEMENTS:,} statements")
            status = follow(node)
        except shell_words.ScriptError as error:
            complaint = f"{error} in {_words_of(node)!r}: expected a script that runs to its end"
            raise ConfigError(f"{self._path}, {_at(node, complaint)}") from error
        simple = node.type in ("command", "test_command", "compound_statement", "subshell", "pipeline")
        if status is False and simple and self._stops_at_failure and not self._guarded:
            raise _Leave("exit", _line_of(node))
        return status

    def _follow_list(self, node: Node) -> Status:
        """Follow ``a && b`` or ``a || b``, and return its status (True succeeds, False fails, None not known); where
        that of ``a`` is not known, ``b`` may run or not, and None is returned."""
        left, sign, right = (node.children[at] for at in (0, 1, -1))
        return self._branch([left], [right], lambda: sign.type == "||", wanted=sign.type == "&&")

    def _follow_pipeline(self, node: Node) -> Status:
        """Follow the stages of a pipeline, each in a subshell, and return the status of the last one (True succeeds,
        False fails, None not known); failures of the others do not count, not even under ``pipefail``."""
        *stages, last = (child for child in node.children if child.is_named and child.type != "comment")
        for stage in stages:
            self._in_subshell([stage], guarded=True)
        return self._in_subshell([last])

    def _follow_negated_command(self, node: Node) -> Status:
        """Follow ``! command``, and return whether the command fails, None where that is not known; ``set -e`` does not
        stop the script at it."""
        return negated(self._all(node.children[1:], guarded=True))

    def _follow_subshell(self, node: Node) -> Status:
        """Follow the statements in ``( ... )``, and return the status of the last (True succeeds, False fails, None not
        known); variables that they change become unknown behind it."""
        return self._in_subshell(node.children[1:-1])

    def _follow_compound_statement(self, node: Node) -> Status:
        """Follow ``{ ... }``, and return the status of its last statement (True succeeds, False fails, None not known);
        or ``(( ... ))``, which succeeds if its value is not 0."""
        if node.children[0].type == "((":
            return self._arithmetic_holds(_text_of(node)[2:-2], node)
        return self._all(node.children[1:-1])

    def _follow_redirected_statement(self, node: Node) -> Status:
        """Follow a statement without its redirections, and return its status; True where there are only
        redirections."""
        body = node.child_by_field_name("body")
        return True if body is None else self._statement(body)

    def _follow_if_statement(self, node: Node) -> Status:
        """Follow the branch of an ``if`` statement (``elif`` and ``else`` included) whose condition holds, and return
        the status of the branch.

        True where no branch is taken; None, with all that may be taken followed, where a condition is not known.
        """
        branches: list[tuple[Sequence[Node], Sequence[Node]]] = []
        clauses = [child for child in node.children if child.type in ("elif_clause", "else_clause")]
        for clause in (node, *clauses):
            types = [child.type for child in clause.children]
            then = types.index("then") if "then" in types else 0
            body = [child for child in clause.children[then + 1 :] if child not in clauses and child.type != "fi"]
            branches.append((clause.children[1:then], body))

        def choose(at: int) -> Status:
            """Follow the branch whose condition holds, from this one on; True if there is none to take."""
            condition, body = branches[at] if at < len(branches) else ([], [])
            return self._branch(condition, body, lambda: choose(at + 1)) if condition else self._all(body)

        return choose(0)

    def _branch(
        self, condition: Sequence[Node], body: Sequence[Node], otherwise: Callable[[], Status], wanted: bool = True
    ) -> Status:
        """Follow ``body`` if the status of a condition is the one ``wanted``, else call ``otherwise``; return the
        status of what was followed (True succeeds, False fails, None not known). Where the condition's status is not
        known, both are followed as ways that may be taken, and None is returned.

        If the body exits the script, and the condition asks for a variable that the file never sets, the other way is
        followed instead and this is noted: whoever runs such a script sets what it asks for. If the body is left out
        where such a variable is missing, what it would set is noted as undecided.
        """
        before = dict(self.variables)
        status = self._all(condition, guarded=True)
        what = _at(condition[0], f"whether {_words_of(*condition)} succeeds")
        if status is None:
            return self._perhaps(what, [lambda: self._all(body), otherwise])
        missing = self._missing(condition, before)
        if status == wanted:
            start = dict(self.variables)
            try:
                return self._all(body)
            except _Leave as leave:
                if leave.word != "exit" or not missing:
                    raise
                self.variables = start
                ends = f"the script ends there unless {', '.join(missing)} is set, and is followed as if it were"
                self.notes.append(_at(condition[0], ends))
        elif missing:
            settings = ", ".join(f"--define {name}=VALUE" for name in missing)
            for name in _assigned_in("\n".join(map(_text_of, body))):
                self.undecided.setdefault(name, f"{what} ({settings})")
        return otherwise()

    def _missing(self, condition: Sequence[Node], variables: Variables) -> list[str]:
        """Return the names of variables that the file never sets and that a condition asks for, directly or in the
        values of the variables that it names; each once, in order of appearance.

        ``variables`` are the values by name before the condition was followed.
        """
        names = [name for node in condition for name in re.findall(r"\$\{?([A-Za-z_]\w*|[0-9])", _text_of(node))]
        texts = [value(f"${{{name}}}", dict(variables)) for name in names]
        return list(dict.fromkeys(mark.group()[1:-1] for text in texts for mark in UNSET.finditer(text)))

    def _follow_case_statement(self, node: Node) -> Status:
        """Follow the first item of a ``case`` statement that matches its subject, and return the status of its body,
        True if no item matches.

        Where it is not known which item matches, each that may is followed, and the status is None. A case with an item
        that falls through (``;&``) makes every variable unknown instead.
        """
        subject = value(_text_of(_field(node, "value")), self.variables)
        items = [child for child in node.children if child.type == "case_item"]

        def choose(at: int) -> Status:
            """Follow the item that matches, from this one on; True if none does."""
            if at == len(items):
                return True
            types = [child.type for child in items[at].children]
            body = items[at].children[types.index(")") + 1 :]
            patterns = items[at].children_by_field_name("value")
            known = [shell_words.matches(subject, _text_of(each), self.variables) for each in patterns]
            if True in known:
                return self._all(body)
            if None not in known:
                return choose(at + 1)
            return self._perhaps(
                _at(items[at], f"which case {subject} is"), [lambda: self._all(body), lambda: choose(at + 1)]
            )

        falls = any(item.child_by_field_name("fallthrough") is not None for item in items)
        return self._forget_all(node, "a case that falls through") if falls else choose(0)

    # Loops, whose status is never known

    def _follow_for_statement(self, node: Node) -> Status:
        """Follow ``for`` over its words, by default the arguments; return None, as the status of a loop is never known.

        ``select``, and words that are unknown or hold ``*``, ``?`` or ``[``, repeat an unknown number of times; items
        that the file never sets are left out.
        """
        name, words = _text_of(_field(node, "variable")), node.children_by_field_name("value")
        texts = [_text_of(child) for child in words] or ['"$@"']
        items = [item for text in texts for item in fields(text, self.variables)]
        known = node.children[0].type != "select" and all(map(is_known, items)) and not any(map(_is_glob, texts))
        left = [item for item in items if not UNSET.fullmatch(item)]

        def next_item() -> Status:
            """Set the variable to the next item and return True; False behind the last, None if items are unknown."""
            if not known or not left:
                return False if known else self._forget([name], node)
            self._assign(name, left.pop(0), node)
            return True

        return self._loop(node, next_item)

    def _follow_while_statement(self, node: Node) -> Status:
        """Follow ``while`` or ``until`` as often as its condition is known to ask for it; once that is not known, all
        that the loop sets becomes unknown. Return None, as the status of a loop is never known."""
        condition, until = node.children_by_field_name("condition"), node.children[0].type == "until"

        def holds() -> Status:
            """Follow the condition, and return whether the loop goes on."""
            status = self._all(condition, guarded=True)
            return negated(status) if until else status

        return self._loop(node, holds)

    def _follow_c_style_for_statement(self, node: Node) -> Status:
        """Follow ``for ((start; condition; update))`` as a loop of which it is not known how often it runs; variables
        that its header assigns become unknown. Return None."""
        return self._loop(node, lambda: self._arithmetic_holds(_text_of(node).partition("))")[0] + "?", node))

    def _loop(self, node: Node, holds: Callable[[], Status]) -> Status:
        """Repeat the body of a loop while ``holds()`` is True; once that is None (not known), all that the loop sets
        becomes unknown. Return None, as the status of a loop is never known.

        ``holds`` follows the condition before each round and returns whether another round comes. ``break`` and
        ``continue`` are followed for as many levels as they state; ``exit`` and ``return`` are raised on as ``_Leave``.
        """
        body = _field(node, "body")

        def next_round() -> Status:
            """Follow the body and then the condition, and return whether it holds; False behind a ``break``."""
            try:
                self._all(body.children[1:-1])
            except _Leave as leave:
                leave.levels -= 1
                if leave.levels or leave.word in ("exit", "return"):
                    raise
                if leave.word == "break":
                    return False
            self._join(self._left, _at(node, "where the loop is left"))
            return holds()

        known = holds()
        while known:
            known = next_round()
        earlier: Variables | None = None if known is None else self.variables
        while earlier != self.variables:  # until nothing more becomes unknown
            earlier = dict(self.variables)
            self._perhaps(_at(node, "how often the loop runs"), [next_round, lambda: None])
        return self._join(self._left, _at(node, "where the loop is left"))

    # Branches of which it is not known whether they are taken

    def _perhaps(self, what: str, ways: Sequence[Callable[[], object]]) -> Status:
        """Follow each of several ways from the present state, as any of them may be taken; variables that differ after
        them become unknown, with ``what`` (what is not known, with its line) as the reason, unless they were defined
        beforehand. Return None: the status is not known.

        Commands that the ways call are collected as conditional. A way that ends the script is left out, as whoever
        runs the script to its end does not take it. If all ways leave, this raises the ``_Leave`` of one of them,
        ``exit`` last.
        """
        start, ends, leaving = self.variables, list[Variables](), list[_Leave]()
        self._conditions.append(what)
        for way in ways:
            self.variables = dict(start)
            try:
                way()
                ends.append(self.variables)
            except _Leave as leave:
                leaving.append(leave)
                if leave.word != "exit":
                    self._left.append(self.variables)
        self._conditions.pop()
        self.variables = ends[0] if ends else start
        if not ends:
            raise min(leaving, key=lambda leave: leave.word == "exit")
        return self._join(ends[1:], what)

    def _join(self, others: Iterable[Variables], why: str) -> Status:
        """Make unknown the variables that differ between the present state and the other ones, with ``why`` as the
        reason, but for those defined beforehand, which have that value again; return None, as the status is not
        known."""
        for other in others:
            for name in sorted({*self.variables, *other}):
                if self.variables.get(name) != other.get(name):
                    self._set_unknown(name, why)
        return None

    def _set_unknown(self, name: str, why: str) -> None:
        """Make a variable unknown, its value a mark that says ``why``, unless it was defined beforehand: then it has
        that value again."""
        self.variables[name] = self._definitions.get(name, shell_words.unknown(name, why))

    def _forget(self, names: Iterable[str], node: Node) -> Status:
        """Make variables unknown that the command of a node may set to anything, but for those defined beforehand,
        which have that value again; return None, as its status is not known."""
        for name in names:
            self._set_unknown(name, _at(node, _words_of(node)))
        return None

    def _forget_all(self, node: Node, what: str) -> Status:
        """Make every variable unknown, as a statement may have set any, and note that ``what`` is not followed; return
        None, as its status is not known.

        Variables defined beforehand have that value again; the others are all that have a value, and those that the
        statement or the body of any function assigns.
        """
        for name in [*self.variables, *_assigned_in("\n".join(map(_text_of, [node, *self._bodies])))]:
            self._set_unknown(name, _at(node, what))
        self.notes.append(_at(node, f"{what} is not followed"))
        return None

    def _in_subshell(self, nodes: Sequence[Node], guarded: bool = False) -> Status:
        """Follow statements in a subshell, and return the status of the last (True succeeds, False fails), None if it
        is not known or they leave the subshell. All variables that they change become unknown behind it: the changes
        are lost, or kept under ``lastpipe``.

        ``guarded``: a failure in them does not stop the script.
        """
        before = dict(self.variables)
        try:
            return self._all(nodes, guarded)
        except _Leave:
            return None
        finally:
            self._join([before], _at(nodes[0], "a subshell"))

    # Tests and arithmetic

    def _follow_test_command(self, node: Node) -> Status:
        """Return whether a test holds (``[``, ``[[`` or ``((``); None where that is not known or the test is
        malformed."""
        if node.children[0].type == "((":
            return self._arithmetic_holds(_text_of(node)[2:-2], node)
        words = [text for child in node.children[1:-1] for text in _test_words(child)]
        return None if node.has_error else shell_words.holds(words, self.variables, node.children[0].type == "[[")

    def _arithmetic_holds(self, text: str, node: Node) -> Status:
        """Return whether an arithmetic expression is not 0, and make its assignment; variables that the file never sets
        count as 0.

        None where it is not followed; what it would assign is unknown then. ScriptError for a division by zero or an
        exponent below zero. ``node`` is the statement that it stands in, for messages.
        """
        try:
            return shell_words.evaluate(value(text, self.variables), self.variables, "") != 0
        except shell_words.UnknownValue:
            shell_words.forget_assigned(text, self.variables)
            return None
        finally:
            self._forget(self._odd, node)

    # Assignments

    def _follow_variable_assignment(self, node: Node) -> Status:
        """Set a variable or an array, or append to it (``+=``); it becomes unknown where an element is set, words state
        indices, or a text is appended to an array or the reverse.

        Return True, None where the value contains a command substitution, whose status is not known.
        """
        target, given = _field(node, "name"), node.child_by_field_name("value")
        text, name = "" if given is None else _text_of(given), re.split(r"\W", _text_of(target), maxsplit=1)[0]
        if given is not None and given.type == "array":
            words = [_text_of(child) for child in given.children[1:-1] if child.is_named and child.type != "comment"]
            new: str | list[str] = [part for word in words for part in fields(word, self.variables)]
        else:
            words, new = [], value(text, self.variables)
        adds = any(child.type == "+=" for child in node.children)
        held = self.variables.get(name, type(new)()) if adds else type(new)()
        indexed = target.type == "subscript" or any(re.match(r"\[[^\]]*\]\+?=", word) for word in words)
        if indexed or type(held) is not type(new):
            self._forget([name], node)
        else:
            self._assign(name, held + new, node)  # type: ignore[operator]
        return None if "$(" in text or "`" in text else True

    def _follow_variable_assignments(self, node: Node) -> Status:
        """Follow several assignments on a line, and return the status of the last: True, or None where its value
        contains a command substitution."""
        return self._all(node.children)

    def _assign(self, name: str, new: str | list[str], node: Node) -> None:
        """Set a variable to a text, or an array to a list; one declared as more than that (a table, a reference, a
        number) becomes unknown. ScriptError if it is read-only."""
        if name in self._read_only:
            raise shell_words.ScriptError(f"{name}, which is read-only, set again")
        self.variables[name] = new
        self._forget({name} & self._odd, node)

    def _follow_declaration_command(self, node: Node) -> Status:
        """Follow ``declare``, ``local``, ``export`` and the like, with the assignments in them; return True.

        A new local without a value is empty; ``readonly`` or ``-r`` makes the names read-only; flags that make them
        more than texts and lists (any of ``A``, ``n``, ``i``, ``u``, ``l``) make them unknown.

        Declarations that are not followed, such as ``+=`` in an expanded word, make every variable unknown and return
        None.
        """
        word = node.children[0].type
        arguments = [child for child in node.children[1:] if child.is_named and child.type != "comment"]
        flags = "".join(_text_of(child) for child in arguments if _text_of(child)[:1] in "-+")
        is_local = word == "local" or (word in ("declare", "typeset") and self._locals and "g" not in flags)
        for child in arguments:
            assigned = child.type == "variable_assignment"
            # A name may be expanded, as in ``export "$NAME=3"``.
            for text in [_text_of(child)] if assigned else fields(_text_of(child), self.variables):
                name = re.split(r"\W", text, maxsplit=1)[0]
                sign, new = text[len(name) :][:1], text[len(name) + 1 :]
                if text[0] in "-+":
                    continue
                stated = assigned or sign in ("", "=")
                if not stated or not name.isidentifier() or (is_local and not self._locals):
                    return self._forget_all(node, _words_of(node))
                if is_local and name not in self._locals[-1]:
                    self._locals[-1].add(name)
                    self.variables[name] = ""
                if assigned:
                    self._follow_variable_assignment(child)
                elif sign:
                    self._assign(name, new, node)
                if word == "readonly" or "r" in flags:
                    self._read_only.add(name)
                if any(flag in flags for flag in "Aniul"):
                    # What a reference stands for changes with it.
                    self._odd.update(filter(str.isidentifier, (name, value(new, self.variables))))
                    self._forget(self._odd, node)
        return True

    def _follow_unset_command(self, node: Node) -> Status:
        """Make the variables and functions unknown that ``unset`` removes, every variable where a word is not known;
        return None, as its status is not known."""
        words = _text_of(node).split()
        return self._run_read([part for word in words for part in fields(word, self.variables)], node)

    # Commands

    def _follow_function_definition(self, node: Node) -> Status:
        """Keep the body of a function, under its name, for its calls; return True."""
        self._bodies.append(_field(node, "body"))
        self.variables[f"{_text_of(_field(node, 'name'))}()"] = str(len(self._bodies) - 1)
        return True

    def _follow_command(self, node: Node) -> Status:
        """Follow a command, and return its status, True where no word of a command is left; variables that are set for
        it alone (``NAME=value command``) become unknown behind it."""
        for_it: list[Node] = []
        words: list[str] = []
        for child, before in zip(node.children, [None, *node.children], strict=False):
            if before is not None and child.start_point[0] > before.end_point[0]:
                # The grammar takes lines of several assignments for a part of the command on the next line.
                self._all(for_it)
                for_it.clear()
            if child.type == "variable_assignment":
                for_it.append(child)
            elif child.is_named and not child.type.endswith("redirect"):
                joined = words and before is not None and child.start_byte == before.end_byte
                words.append((words.pop() if joined else "") + _text_of(child))
        called = [part for word in words for part in fields(word, self.variables)]
        self._all(for_it)
        status = self._call(called, node, words) if called else True
        if called:
            self._forget((re.split(r"\W", _text_of(child), maxsplit=1)[0] for child in for_it), node)
        return status

    def _call(self, called: list[str], node: Node, words: Sequence[str] = ()) -> Status:
        """Follow a command, given its words as they are expanded, the name first, and, for ``test``, as they are
        written; return its status (True succeeds, False fails, None not known).

        Functions and built-in commands that this class knows are followed. All others, ``echo`` and ``true`` included,
        are collected: in ``commands``, or in ``conditional`` where it is not known whether they run. Their status is
        None, but for the few that always succeed or fail.
        """
        name = called[0]
        if (place := self.variables.get(f"{name}()")) is not None:
            if not isinstance(place, str) or not place.isdecimal():
                return self._forget_all(node, _words_of(node))
            return self._call_function(self._bodies[int(place)], called, node)
        if name in _BUILTINS:
            run: Callable[[list[str], Node], Status] = getattr(self, f"_run_{_BUILTINS[name]}")
            return run(called, node)
        if name == "test":
            return shell_words.holds(words[1:], self.variables, keyword=False) if words else None
        if self._conditions:
            self.conditional.append((self._conditions[-1], called))
        else:
            self.commands.append(called)
        return True if name in _SUCCEEDING else False if name == "false" else None

    def _call_function(self, body: Node, called: list[str], node: Node) -> Status:
        """Follow the body of a function with the words behind its name as ``$1``, ``$2``, ...; the arguments from
        before are restored behind it. Return None, as its status is not known."""
        held = {name: value for name, value in self.variables.items() if name in _ARGUMENTS}
        self._set_arguments(called[1:])
        self._in_function(lambda: self._statement(body), node)
        self.variables = {name: value for name, value in self.variables.items() if name not in _ARGUMENTS} | held
        return None

    def _in_function(self, follow: Callable[[], object], node: Node) -> None:
        """Call ``follow``, which follows the body of a function or another script; a ``return`` in it ends it. Its
        local variables are unknown behind it. ScriptError if calls are too deep (50)."""
        if len(self._locals) >= _DEEPEST_CALL:
            raise shell_words.ScriptError(f"more than {_DEEPEST_CALL} calls inside of each other")
        outer, self._left = self._left, []
        self._locals.append(set())
        try:
            follow()
        except _Leave as leave:
            if leave.word != "return":
                raise
        finally:
            self._join(self._left, "whether a return is reached")
            self._left = outer
            self._forget(self._locals.pop(), node)

    def _set_arguments(self, arguments: Sequence[str]) -> None:
        """Set ``$1`` to ``$9``, ``$@``, ``$*`` and ``$#``; places without an argument are empty."""
        self.variables.update(zip(_PLACES, [*arguments, *[""] * len(_PLACES)], strict=False))
        self.variables.update({"@": list(arguments), "*": list(arguments), "#": str(len(arguments))})

    def _run_again(self, called: list[str], node: Node) -> Status:
        """Follow the command behind ``time``, ``command``, ``builtin`` or ``exec``, and return its status (True
        succeeds, False fails, None not known); ``exec`` of a command then ends the script, by raising ``_Leave``.
        Without a command behind it the status is True.

        An assignment behind the word makes that variable unknown, and what follows it is left out.
        """
        rest = [word for word in called[1:] if not (word.startswith("-") and called[0] in ("time", "command"))]
        if any(re.match(r"[A-Za-z_]\w*\+?=", word) for word in rest[:1]):
            return self._forget([rest[0].partition("=")[0].removesuffix("+")], node)
        status = self._call(rest, node) if rest else True
        if called[0] == "exec" and rest:
            raise _Leave("exit", _line_of(node))
        return status

    def _run_leave(self, called: list[str], node: Node) -> Status:
        """Raise ``_Leave`` for ``exit``, ``return``, ``break`` or ``continue``, the last two with their number of
        loops, 1 unless it is known. A ``return`` outside of a function ends the script as ``exit`` does."""
        if called[0] == "exit" or (called[0] == "return" and not self._locals):
            raise _Leave("exit", _line_of(node))
        levels = called[1] if len(called) > 1 and called[0] != "return" else "1"
        raise _Leave(called[0], _line_of(node), int(levels) if levels.isdecimal() and int(levels) else 1)

    def _run_eval(self, called: list[str], node: Node) -> Status:
        """Follow the words of ``eval`` as a script of their own, and return the status of its last command; every
        variable becomes unknown where the first word is not known. ConfigError where the words cannot be parsed."""
        text = " ".join(called[1:])
        if not is_known(text.split()[0] if text.split() else ""):
            return self._forget_all(node, _words_of(node))
        # What is not known is a word that is not to be parsed again.
        return self.follow(MARK.sub(lambda mark: "'" + mark.group().replace("'", "") + "'", text))

    def _run_read(self, called: list[str], node: Node) -> Status:
        """Make the variables unknown that ``read``, ``mapfile``, ``getopts``, ``printf -v`` and the like set, and the
        functions of these names; return None, as the status is not known.

        Variables are all words behind the command that are names, and those that such commands set by default
        (``REPLY``, ``MAPFILE``, ``OPTARG``, ``OPTIND``); every variable where a word is not known. ``printf`` without
        ``-v`` changes nothing and returns True.
        """
        if called[0] == "printf" and not "".join(called[1:2]).startswith("-v"):
            return True
        names = [name for name in (re.sub(r"^-v|\[.*", "", word) for word in called[1:]) if name.isidentifier()]
        if any(not is_known(word) for word in called[1:]):
            self._forget_all(node, _words_of(node))
        functions = [f"{name}()" for name in names if f"{name}()" in self.variables]
        return self._forget([*names, *functions, "REPLY", "MAPFILE", "OPTARG", "OPTIND"], node)

    def _run_let(self, called: list[str], node: Node) -> Status:
        """Carry out the arithmetic expressions of ``let``: the status is that of the last (True if its value is not 0,
        None where that is not known), False without any."""
        return [False, *(self._arithmetic_holds(text, node) for text in called[1:])][-1]

    def _run_shift(self, called: list[str], node: Node) -> Status:
        """Drop the first arguments, as many as stated (1 by default), and return True; where there are fewer, keep all
        and return False; where the arguments or their number are not known, make all unknown and return None."""
        held = self.variables.get("@")
        count = called[1] if len(called) > 1 else "1"
        if not isinstance(held, list) or not count.isdecimal():
            return self._forget(_ARGUMENTS, node)
        if enough := int(count) <= len(held):
            self._set_arguments(held[int(count) :])
        return enough

    def _run_set(self, called: list[str], node: Node) -> Status:
        """Follow ``set``: arguments, and whether a failure stops the script (``-e``, ``+e``, ``-o errexit``); other
        options are ignored. Return True."""
        options = called[1:]
        while options and options[0][:1] in ("-", "+") and options[0] not in ("--", "-"):
            option = options.pop(0)
            if (options.pop(0) == "errexit") if option.endswith("o") and options else "e" in option:
                self._stops_at_failure = option[0] == "-"
        if options:
            self._set_arguments(options[1:] if options[0] in ("--", "-") else options)
        return True

    def _run_trap(self, called: list[str], node: Node) -> Status:
        """Note that a trap is not followed, as its command runs where the script ends or is interrupted; return
        True."""
        self.notes.append(_at(node, f"{_words_of(node)} is not followed"))
        return True

    def _run_source(self, called: list[str], node: Node) -> Status:
        """Follow another script, looked for by its name in the folder of this one, in the present state, without
        arguments of its own; one that does not lie there is noted. Return None, as the status is not known."""
        path = self._path.with_name(Path(MARK.sub("", "".join(called[1:2]))).name or self._path.name)
        if path == self._path or not path.is_file():
            self.notes.append(
                _at(node, f"{_words_of(node).partition(' ')[2]} does not lie beside the file, and is not read")
            )
            return None
        outer, self._path = self._path, path
        try:
            self._in_function(lambda: self.follow(read_text(path, MOST_BYTES)), node)
        finally:
            self._path = outer
        return None


_BUILTINS = {
    **dict.fromkeys(("time", "command", "builtin", "exec"), "again"), "eval": "eval", "let": "let", "shift": "shift",
    **dict.fromkeys(("exit", "return", "break", "continue"), "leave"), "set": "set", "trap": "trap",
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "wait", "select", "printf"), "read"),
    "source": "source", ".": "source",
}  # fmt: skip
"""Which method follows a command of the shell itself."""
_SUCCEEDING = ("true", ":", "echo", "export", "printf", "pwd")


def _parsed(text: str, path: Path) -> Node:
    """Return the root of a script's syntax tree, its lines numbered as in the text.

    Continued lines are joined. If the text does not parse, placeholders of templates (``NAME=<path of the model>``) are
    replaced by marks of unknown values, and it is parsed again.

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
        text = _PLACEHOLDER.sub(lambda match: f"='{shell_words.unknown(match[1], 'a placeholder')}'", text)
        root = parser.parse(text.encode()).root_node
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST_NODE:
            raise ConfigError(
                f"{path}, {_at(node, f'expected at most {_DEEPEST_NODE} constructs inside of each other')}"
            )
        in_test = node.is_missing and node.parent is not None and node.parent.type == "test_command"
        if (node.is_missing and not in_test) or node.type == "ERROR":
            shown = _shortened(text.split("\n")[_line_of(node) - 1].strip())
            mistake = f"{shown!r} does not end or is not followed: expected the syntax of bash"
            raise ConfigError(f"{path}, {_at(node, mistake)}")
        waiting += ((child, depth + 1) for child in reversed(node.children))
    return root


def _assigned_in(text: str) -> list[str]:
    """Return the names that are assigned in a text (``NAME=`` or ``NAME+=``), in order, repeated where they occur
    again."""
    return re.findall(r"(?<![-\w])([A-Za-z_]\w*)\+?=", text)


def _test_words(node: Node) -> list[str]:
    """Return the words, operators and brackets of a test in order, as they are written."""
    if node.type in ("binary_expression", "unary_expression", "parenthesized_expression"):
        return [word for child in node.children for word in _test_words(child)]
    return [_text_of(node)]


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
    """Return the child of a statement's node under a field name of the grammar, which must always give it."""
    child = node.child_by_field_name(name)
    assert child is not None
    return child
