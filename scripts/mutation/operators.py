"""Mutants of one source file: small changes that a test should notice.

Docstrings, annotations, decorators, messages, labels and representations are left alone: no test should pin them. So is
what :mod:`scripts.mutation.arid` describes, where a change has no effect. A mutant is an index into the list that
`mutants` returns for the same text, so that it can be made again in another process.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scripts.mutation.arid import (
    ALLOCATIONS,
    SILENT_ARGUMENTS,
    is_boundary,
    is_coin,
    is_default_axis,
    is_margin,
    silent_nodes,
    statement_is_silent,
)

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
OPPOSITES = {
    "min": "max",
    "minimum": "maximum",
    "argmin": "argmax",
    "any": "all",
    "floor": "ceil",
    "cumsum": "cumprod",
    "amin": "amax",
}
OPPOSITES |= {value: key for key, value in OPPOSITES.items()}
REPRESENTATIONS = ("__repr__", "__str__", "_repr_html_", "__rich__", "describe", "heading", "label", "summary")
"""Functions that write for people; so do those whose names end in ``_text`` or ``_label``."""
CHECKS = ("cast", "Field", "TypeVar", "warn", "ConfigDict")
"""Calls that say what is valid, or that write for people."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    index: int
    operator: str
    line: int
    function: str
    """Qualified name of the innermost function around the change; empty at the top of the module or of a class."""
    before: str
    after: str


@dataclass(frozen=True)
class _Change:
    operator: str
    node: ast.AST
    statement: ast.stmt
    function: str
    apply: Callable[[], Callable[[], None]]
    """Makes the change in the tree, and returns what takes it back."""


def mutants(text: str) -> list[Mutant]:
    """Return every mutant of a source text, in the order of its lines."""
    found = []
    for index, change in enumerate(_changes(ast.parse(text))):
        before = _head(change.statement)
        undo = change.apply()
        after = "pass" if change.operator == "remove statement" else _head(change.statement)
        undo()
        line = getattr(change.node, "lineno", change.statement.lineno)
        found.append(Mutant(index, change.operator, line, change.function, before, after))
    return found


def mutate(text: str, index: int) -> ast.Module:
    """Return the tree of a source text with one mutant in it."""
    tree = ast.parse(text)
    for number, change in enumerate(_changes(tree)):
        if number == index:
            change.apply()
            return ast.fix_missing_locations(tree)
    raise IndexError(f"the file has no mutant {index}")


def _head(statement: ast.stmt) -> str:
    """Return a statement as text, without the body of a compound one."""
    shell = copy.copy(statement)
    for name in ("body", "orelse", "finalbody", "handlers"):
        if isinstance(getattr(shell, name, None), list):
            setattr(shell, name, [ast.Pass()] if name == "body" else [])
    return ast.unparse(ast.fix_missing_locations(shell)).removesuffix("\n    pass")


def _changes(tree: ast.Module) -> Iterator[_Change]:
    silent = silent_nodes(tree)
    yield from (change for change in _in_body(tree.body, "") if change.node not in silent)


def _is_representation(name: str) -> bool:
    return name in REPRESENTATIONS or name.endswith(("_text", "_label"))


def _in_body(body: list[ast.stmt], function: str) -> Iterator[_Change]:
    for place, statement in enumerate(body):
        if isinstance(statement, Function | ast.ClassDef):
            name = f"{function}.{statement.name}".removeprefix(".")
            if not _is_representation(statement.name):
                yield from _in_body(statement.body, name)
            if isinstance(statement, Function):
                for default in (*statement.args.defaults, *statement.args.kw_defaults):
                    if default is not None:
                        yield from _in_expression(default, statement, name)
            continue
        if _is_left_alone(statement):
            continue
        yield from _removals(body, place, function)
        if isinstance(statement, ast.If) and not is_coin(statement.test):
            yield _negation(statement, function)
        if isinstance(statement, ast.AugAssign) and type(statement.op) in ARITHMETIC:
            swap = _replace(statement, "op", ARITHMETIC[type(statement.op)]())
            yield _Change("arithmetic", statement, statement, function, swap)
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr | ast.comprehension) and child is not getattr(statement, "annotation", None):
                yield from _in_expression(child, statement, function)
            elif isinstance(child, ast.withitem):
                yield from _in_expression(child.context_expr, statement, function)
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list):
                yield from _in_body(inner, function)
        for inner in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
            yield from _in_body(inner.body, function)


def _is_left_alone(statement: ast.stmt) -> bool:
    """Return whether a statement says nothing that a test should pin: docstrings, imports, types, messages."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.Raise | ast.Assert | ast.Pass | ast.Global):
        return True
    if statement_is_silent(statement):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.If):
        return "TYPE_CHECKING" in ast.unparse(statement.test)
    if isinstance(statement, ast.Assign):
        text = ast.unparse(statement.value)
        return text.startswith(("TypeVar(", "NDArray[", "Literal[", "Callable[", "ParamSpec(", "tuple[", "dict["))
    return False


def _removals(body: list[ast.stmt], place: int, function: str) -> Iterator[_Change]:
    statement = body[place]
    removable = isinstance(statement, ast.AugAssign | ast.Continue | ast.Break) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    )
    if isinstance(statement, ast.Assign):
        removable = isinstance(statement.targets[0], ast.Subscript | ast.Attribute)
    if isinstance(statement, ast.If) and not statement.orelse:
        removable = all(isinstance(each, ast.Raise) for each in statement.body)
    if not removable or not function:
        return

    def apply() -> Callable[[], None]:
        body[place] = ast.copy_location(ast.Pass(), statement)

        def undo() -> None:
            body[place] = statement

        return undo

    yield _Change("remove statement", statement, statement, function, apply)


def _negation(statement: ast.If, function: str) -> _Change:
    negated = ast.copy_location(ast.UnaryOp(ast.Not(), statement.test), statement.test)
    return _Change("negate", statement.test, statement, function, _replace(statement, "test", negated))


def _replace(owner: ast.AST, name: str, value: object) -> Callable[[], Callable[[], None]]:
    """Return what sets an attribute of a node, and returns what sets it back."""

    def apply() -> Callable[[], None]:
        old = getattr(owner, name)
        setattr(owner, name, value)
        return lambda: setattr(owner, name, old)

    return apply


def _become(node: ast.AST, other: ast.AST) -> Callable[[], Callable[[], None]]:
    """Return what turns a node into a copy of another in place, whoever holds it."""

    def apply() -> Callable[[], None]:
        kind, fields = type(node), dict(node.__dict__)
        target = copy.deepcopy(other)
        node.__class__ = target.__class__
        node.__dict__.clear()
        node.__dict__.update(target.__dict__)

        def undo() -> None:
            node.__class__ = kind
            node.__dict__.clear()
            node.__dict__.update(fields)

        return undo

    return apply


def _in_expression(root: ast.AST, statement: ast.stmt, function: str) -> Iterator[_Change]:
    """Yield the changes of an expression, outermost first; f-strings are messages."""
    if isinstance(root, ast.JoinedStr):
        return
    if isinstance(root, ast.Call) and ast.unparse(root.func).split(".")[-1] in CHECKS:
        return
    for operator, apply in _at(root):
        yield _Change(operator, root, statement, function, apply)
    allocates = isinstance(root, ast.Call) and ast.unparse(root.func) in ALLOCATIONS
    for child in list(ast.iter_child_nodes(root))[2 if allocates else 0 :]:
        if isinstance(child, ast.keyword):
            if child.arg not in (*SILENT_ARGUMENTS, "doc", "description", "title", "help"):
                yield from _in_expression(child.value, statement, function)
        elif isinstance(child, ast.expr | ast.comprehension):
            yield from _in_expression(child, statement, function)


def _at(node: ast.AST) -> Iterator[tuple[str, Callable[[], Callable[[], None]]]]:
    """Yield the changes of one node itself."""
    if isinstance(node, ast.Compare):
        kinds = COMPARISONS[type(node.ops[0])]
        for kind in kinds[1:] if len(kinds) > 1 and is_boundary(node) else kinds:
            yield "comparison", _replace(node, "ops", [kind(), *node.ops[1:]])
    elif isinstance(node, ast.BinOp):
        yield from _at_operation(node)
    elif isinstance(node, ast.BoolOp):
        yield "boolean", _replace(node, "op", ast.And() if isinstance(node.op, ast.Or) else ast.Or())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield "drop sign", _become(node, node.operand)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant", _replace(node, "value", not node.value)
        elif isinstance(node.value, int | float):
            yield "constant", _replace(node, "value", node.value + 1)
            yield "constant", _replace(node, "value", node.value - 1)
    elif isinstance(node, ast.Call):
        yield from _at_call(node)
    elif isinstance(node, ast.IfExp) and not is_coin(node.test):
        yield "negate", _replace(node, "test", ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test))


def _at_operation(node: ast.BinOp) -> Iterator[tuple[str, Callable[[], Callable[[], None]]]]:
    adds = isinstance(node.op, ast.Add | ast.Sub)
    margins = [adds and is_margin(term) for term in (node.left, node.right)]
    if type(node.op) in ARITHMETIC and not isinstance(node.left, ast.JoinedStr) and not any(margins):
        yield "arithmetic", _replace(node, "op", ARITHMETIC[type(node.op)]())
    if adds and not margins[1]:
        yield "drop term", _become(node, node.left)
    if isinstance(node.op, ast.Add) and not margins[0]:
        yield "drop term", _become(node, node.right)


def _at_call(node: ast.Call) -> Iterator[tuple[str, Callable[[], Callable[[], None]]]]:
    name = node.func
    if isinstance(name, ast.Name) and name.id in OPPOSITES:
        yield "opposite", _replace(name, "id", OPPOSITES[name.id])
    elif isinstance(name, ast.Attribute) and name.attr in OPPOSITES:
        yield "opposite", _replace(name, "attr", OPPOSITES[name.attr])
    for place, keyword in enumerate(node.keywords):
        droppable = keyword.arg in ("key", "reverse", "initial", "axis", "start", "default")
        if droppable and not is_default_axis(node, keyword):
            yield "drop keyword", _replace(node, "keywords", [*node.keywords[:place], *node.keywords[place + 1 :]])
        if keyword.arg == "key" and isinstance(keyword.value, ast.Lambda) and isinstance(keyword.value.body, ast.Tuple):
            terms = keyword.value.body
            for term in range(len(terms.elts)):
                yield "sort key", _replace(terms, "elts", [*terms.elts[:term], *terms.elts[term + 1 :]])
    if isinstance(name, ast.Attribute) and name.attr == "lexsort" and node.args and isinstance(node.args[0], ast.Tuple):
        keys = node.args[0]
        for term in range(len(keys.elts)):
            yield "sort key", _replace(keys, "elts", [*keys.elts[:term], *keys.elts[term + 1 :]])
