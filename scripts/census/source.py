"""The parsed source files of a tree, which is a folder or a git revision."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
Import = ast.Import | ast.ImportFrom


@dataclass
class Census:
    """Counts of one tree, and for most counts the places that make it up."""

    name: str
    figures: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)

    def record(self, title: str, places: list[str]) -> None:
        """Add a count with the places that make it up."""
        self.figures[title] = len(places)
        self.places[title] = places


@dataclass(frozen=True)
class Module:
    """One parsed source file."""

    path: Path
    """Path of the file below the tree."""
    name: str
    """Dotted name under which it is imported; a package's own name for its ``__init__.py``."""
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the syntax tree."""
        return list(ast.walk(self.tree))

    @property
    def is_package(self) -> bool:
        """True for an ``__init__.py``."""
        return self.path.name == "__init__.py"

    def functions(self) -> Iterator[Function]:
        """Yield every function and method, nested ones included."""
        return (node for node in self.nodes if isinstance(node, Function))

    def imports(self) -> Iterator[Import]:
        """Yield every import statement, those inside functions and under ``TYPE_CHECKING`` included."""
        return (node for node in self.nodes if isinstance(node, Import))

    def strings(self) -> Iterator[tuple[ast.Expr, str]]:
        """Yield every docstring: of the module, of its classes and functions, and of attributes."""
        for node in self.nodes:
            if isinstance(node, ast.Module | ast.ClassDef | Function):
                for statement in node.body:
                    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                        text = statement.value.value
                        if isinstance(text, str):
                            yield statement, text


def find_tree(tree: str, folder: Path) -> Path:
    """Return `tree` if it is a folder; else write the files of that git revision to `folder` and return it."""
    if Path(tree).is_dir():
        return Path(tree)
    archive = subprocess.run(["git", "archive", tree], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(f"error: {tree} is neither a folder nor a git revision: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def parse_text(text: str, path: Path) -> Module:
    """Parse the text of a file; `path` is relative to the tree and begins with ``src``."""
    parts = path.with_suffix("").parts[1:]
    name = ".".join(parts).removesuffix(".__init__")
    return Module(path, name, text, ast.parse(text))


def parse(root: Path) -> list[Module]:
    """Parse every Python file under ``src``, in the order of their paths."""
    return [parse_text(path.read_text(), path.relative_to(root)) for path in sorted((root / "src").rglob("*.py"))]
