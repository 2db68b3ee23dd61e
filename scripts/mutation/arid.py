"""Places where a change says nothing, because what the code computes stays the same: nothing is changed there.

Mutation testing calls such places arid (Petrović and Ivanković, State of Mutation Testing at Google, 2018), and
mutants of them equivalent. No test can kill those, so that they would only blur the share that tests do kill:

* sizes of new arrays: a larger one is unused, a smaller one is a fault of memory that a kernel does not report;
* numbers that decide how much is done or held at once: constants of the module with the type ``Effort``, and loops
  that drop what a cache no longer holds. A condition on an effort is reversed, as what it chooses between can differ,
  but the amount that it compares is not changed, nor which of the two ``min`` or ``max`` takes;
* the number of a negative mark, such as -1 for "none", or for the rest in a shape: every negative number says so.
  Without its sign, it is changed;
* margins for rounding, ``1 + 1e-9``: by design both sides of one are right. What they are added to is changed;
* arguments that check (``strict=True`` of ``zip``) or save memory (``copy=False``), and an axis that is the default;
* the side of a coin that is tossed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

ALLOCATIONS = ("np.zeros", "np.empty", "np.ones", "np.full")
SILENT_ARGUMENTS = ("dtype", "strict", "copy", "maxsize", "check_finite", "overwrite_a", "overwrite_b")
"""Arguments by name of which none changes a result."""
FIRST_AXIS = ("reduce", "accumulate", "concatenate", "stack")
"""Functions of NumPy along the first axis unless told otherwise."""
EFFORT = "Effort"
_MARGIN = re.compile(r"_?(ROUNDING|CLOSE|EQUAL|SLACK|slack)")
_SMALLEST_TERM = 1e-9
"""Numbers up to this are margins where they are added: no quantity in SI units is so small beside another."""


def statement_is_silent(statement: ast.stmt) -> bool:
    """Return whether a statement sets an effort, or drops the oldest entries of a cache."""
    if isinstance(statement, ast.AnnAssign):
        return ast.unparse(statement.annotation) == EFFORT
    if isinstance(statement, ast.While | ast.If) and not statement.orelse:
        return all("popitem(last=False)" in ast.unparse(inner) for inner in statement.body)
    return False


def is_margin(node: ast.expr) -> bool:
    """Return whether an expression is a margin for rounding, or a multiple of one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < node.value <= _SMALLEST_TERM
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return is_margin(node.left) or is_margin(node.right)
    return isinstance(node, ast.Name) and _MARGIN.fullmatch(node.id) is not None


def has_margin(node: ast.expr) -> bool:
    """Return whether a margin is added anywhere in an expression."""
    sums = (part for part in ast.walk(node) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add | ast.Sub))
    return any(is_margin(part.left) or is_margin(part.right) for part in sums)


def is_coin(node: ast.expr) -> bool:
    """Return whether an expression is 0 or 1 with the same probability."""
    return isinstance(node, ast.Call) and ast.unparse(node).endswith("random.randint(2)")


def is_default_axis(call: ast.Call, keyword: ast.keyword) -> bool:
    """Return whether an argument names the axis that the function takes without it."""
    return (
        keyword.arg == "axis"
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in FIRST_AXIS
        and ast.unparse(keyword.value) == "0"
    )


def is_boundary(node: ast.Compare) -> bool:
    """Return whether a comparison may as well include or leave out the case of equality."""
    return has_margin(node) or getattr(node, "compares_effort", False)


def silent_nodes(tree: ast.Module) -> frozenset[ast.AST]:
    """Return the numbers that mark something by being negative, and amounts that efforts are compared with or limit."""
    return frozenset([*_marks(tree), *_amounts(tree)])


def _amounts(tree: ast.Module) -> Iterable[ast.AST]:
    """Yield all inside comparisons with an effort of the module, noted as such, and ``min`` and ``max`` with one."""
    kept = (node for node in tree.body if isinstance(node, ast.AnnAssign) and statement_is_silent(node))
    efforts = {ast.unparse(node.target) for node in kept}

    def is_effort(node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in efforts

    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_effort, sides)):
                node.compares_effort = True  # type: ignore[attr-defined]
                yield from (part for side in sides for part in ast.walk(side))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("min", "max") and any(map(is_effort, node.args)):
            yield node


def _marks(tree: ast.Module) -> Iterable[ast.AST]:
    """Yield the 1 of each -1 that is assigned, returned or filled in; indices, steps and comparisons are not marks."""
    for owner in ast.walk(tree):
        values: list[ast.expr | None] = []
        if isinstance(owner, ast.Assign | ast.AnnAssign | ast.Return):
            values = [owner.value]
        elif isinstance(owner, ast.IfExp):
            values = [owner.body, owner.orelse]
        elif isinstance(owner, ast.Call) and ast.unparse(owner.func) in ("np.full", "np.full_like", "np.where"):
            values = list(owner.args[1:])
        elif isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr == "reshape":
            values = [ast.Tuple(owner.args), *owner.args]
        for value in values:
            for part in value.elts if isinstance(value, ast.Tuple) else [value]:
                if isinstance(part, ast.UnaryOp) and ast.unparse(part) == "-1":
                    yield part.operand
