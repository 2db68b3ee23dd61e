"""Files, folders, lines and statements of a tree, and code whose format is kept by hand.

A line of code proper holds code: not blank, not a comment, not part of a docstring (those of attributes included), and
not part of an import. Docstrings, comments and imports may hence grow without changing the count, and so may code that
moves between files.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

from scripts.census.source import ROOT, Census, Import, Module

GENERATED = ("__pycache__", "compiled")
FOLDERS = ("src", "tests", "benchmarks", "docs")
SMALL = 30
SKIP = re.compile(r"\s*# fmt: skip")
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
}


def count_sizes(root: Path, modules: list[Module], counts: Census, scratch: Path) -> None:
    """Count files, folders, lines and statements of ``src``; `scratch` is a folder that does not exist yet."""
    code = {module.path: len(code_lines(module)) for module in modules}
    sizes = sorted(code.items(), key=lambda item: (-item[1], item[0]))
    small = [(path, number) for path, number in reversed(sizes) if number <= SMALL]
    files = kept_files(root, ("src",))
    counts.figures["files in src"] = len(modules)
    counts.record(f"  of at most {SMALL} lines of code", [f"{path}: {number}" for path, number in small])
    with_code = Counter(path.parent.as_posix() for path in files if path.suffix == ".py")
    with_data = Counter(path.parent.as_posix() for path in files)
    counts.record("folders in src", [f"{folder}: {number} files" for folder, number in sorted(with_code.items())])
    counts.figures["  that hold data as well or alone"] = len(with_data)
    counts.figures["lines of code"] = sum(code.values())
    counts.places["lines of code"] = [f"{path}: {number}" for path, number in sizes]
    counts.figures["statements"] = sum(isinstance(node, ast.stmt) for module in modules for node in module.nodes)
    counts.figures["import lines"] = sum(len(import_lines(module)) for module in modules)
    counts.figures["lines of src"] = sum(module.text.count("\n") for module in modules)
    counts.figures["  formatted without fmt: skip"] = formatted_lines(modules, root, scratch)
    counts.figures[f"folders in {', '.join(FOLDERS)}"] = len({path.parent for path in kept_files(root, FOLDERS)})


def code_lines(module: Module) -> set[int]:
    """Return the numbers of the lines of code proper."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for docstring, _ in module.strings():
        lines -= _lines(docstring)
    return lines - import_lines(module)


def import_lines(module: Module) -> set[int]:
    """Return the numbers of the lines of import statements."""
    return {line for node in module.imports() for line in _lines(node)}


def _lines(node: Import | ast.Expr) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def kept_files(root: Path, folders: tuple[str, ...]) -> list[Path]:
    """Return the files of these folders, relative to `root`, without generated ones."""

    def generated(path: Path) -> bool:
        named = any(part in GENERATED or ".egg-info" in part for part in path.parts)
        return named or path.suffix == ".so"

    paths = [path for folder in folders for path in sorted((root / folder).rglob("*")) if path.is_file()]
    return [path for path in (path.relative_to(root) for path in paths) if not generated(path)]


def formatted_lines(modules: list[Module], root: Path, folder: Path) -> int:
    """Return the lines of `modules` after ``ruff format`` without ``# fmt: skip``."""
    for module in modules:
        path = folder / module.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SKIP.sub("", module.text))
    ruff = Path(sys.executable).with_name("ruff")
    local = ROOT / ".venv" / "bin" / "ruff"
    command = next((str(path) for path in (ruff, local) if path.exists()), "ruff")
    subprocess.run([command, "format", "--quiet", "--config", root / "pyproject.toml", folder], check=True)
    return sum(path.read_text().count("\n") for path in folder.rglob("*.py"))


def count_skips(root: Path, counts: Census) -> None:
    """Count ``# fmt: skip`` and ``# fmt: off`` in ``src`` and beside it."""
    for title, folders in (
        ("fmt: skip in src", ["src"]),
        ("fmt: skip in tests and benchmarks", ["tests", "benchmarks"]),
    ):
        paths = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
        places = [
            f"{path.relative_to(root)}:{number}"
            for path in paths
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if re.search(r"# fmt: (skip|off)\b", line)
        ]
        counts.record(title, places)
