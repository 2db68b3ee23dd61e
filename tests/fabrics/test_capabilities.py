"""Outside the package of fabrics nobody asks for the class or the kind of a fabric: capabilities say what it can do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lightloom
from lightloom.machines.fabrics.load import kinds

SOURCES = Path(lightloom.__file__).parent
CLASSES = {kind.__name__ for kind in kinds().values()} | {
    "HopFabric",
    "EvenFabric",
    "StarGeometry",
    "PacketFabric",
    "RingGeometry",
    "SharedRing",
    "WavelengthRing",
    "GroupFabric",
}
FABRICS = {"fabric", "_fabric", "on", "network", "part", "whole"}
"""Names of variables and fields that hold fabrics."""


def _fabric_names(nodes: list[ast.AST]) -> set[str]:
    """Classes of fabrics that a module imports from their package; others may have the same names."""
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {
        alias.asname or alias.name
        for node in imports
        if (node.module or "").startswith("lightloom.machines.fabrics")
        for alias in node.names
        if alias.name in CLASSES
    }


def _named(node: ast.AST, names: set[str]) -> bool:
    return any(
        (isinstance(part, ast.Name) and part.id in names) or (isinstance(part, ast.Attribute) and part.attr in names)
        for part in ast.walk(node)
    )


def questions(tree: ast.AST) -> Iterator[ast.AST]:
    """Places that ask for a fabric's class or kind."""
    nodes = list(ast.walk(tree))
    classes = _fabric_names(nodes)
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name, arguments = node.func.id, node.args
            if name in ("isinstance", "issubclass") and _named(arguments[1], classes):
                yield node
            kind = name == "getattr" and isinstance(arguments[1], ast.Constant) and arguments[1].value == "kind"
            if (kind or name == "type") and _is_fabric(arguments[0]):
                yield node
        if isinstance(node, ast.MatchClass) and _named(node.cls, classes):
            yield node
        if isinstance(node, ast.Attribute) and node.attr == "__class__" and _is_fabric(node.value):
            yield node
        elif isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if isinstance(side, ast.Attribute) and side.attr in ("kind", "kind_name") and _is_fabric(side.value):
                    yield node


ASKING = re.compile(rf"\b({'|'.join(CLASSES)})\b|\btype\(|__class__|[.'\"]kind(_name)?\b")
"""What occurs in every module with such a place: other modules are not parsed."""


def _is_fabric(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in FABRICS


@pytest.mark.long
def test_nobody_asks_for_the_class_or_kind_of_a_fabric() -> None:
    places = [
        f"{path.relative_to(SOURCES)}:{getattr(node, 'lineno', '?')}: {ast.unparse(node)}"
        for path in sorted(SOURCES.rglob("*.py"))
        if "fabrics" not in path.relative_to(SOURCES).parts
        if ASKING.search(text := path.read_text())
        for node in questions(ast.parse(text))
    ]
    assert places == []


@pytest.mark.parametrize(
    "code",
    [
        "from lightloom.machines.fabrics.grids import Mesh\nisinstance(x, Mesh)",
        "from lightloom.machines.fabrics.grids import Mesh, Torus\nisinstance(x, (Torus, int))",
        "from lightloom.machines.fabrics.grids import Mesh\nmatch x:\n    case Mesh():\n        pass",
        "type(fabric) is int",
        "cluster.fabric.kind == 'mesh'",
        "getattr(fabric, 'kind', '') in ('mesh',)",
        "fabric.__class__",
    ],
)
def test_such_questions_are_found(code: str) -> None:
    assert ASKING.search(code) and list(questions(ast.parse(code)))
