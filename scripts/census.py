"""Count what the architecture promises to keep small, in one source tree or in two side by side.

    python scripts/census.py                     the working tree
    python scripts/census.py v0.1.0 .            a git revision, a folder, or both
    python scripts/census.py v0.1.0 . --list     with the places that the counts stand for
    python scripts/census.py . --json

Lines are counted as they stand, and once more after ``# fmt: skip`` is removed and a copy is formatted, so
that a tree that hid long lines is compared like for like. A function's length includes its signature and docstring. A
signature counts once under ``Any`` if one of its parameters, ``*args`` and ``**kwargs`` apart, or its return annotation
names ``Any``. An import inside a function counts as heavy if it names one of `HEAVY` or a module of the package that
loads one of them as soon as it is imported.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("__pycache__", "compiled")
FOLDERS = ("src", "tests", "benchmarks", "docs")
FILES_PER_FOLDER = 25
FUNCTION_LINES = 60
POSITIONAL = 7
HEAVY = set(
    """blosc2 dask distributed google imagecodecs IPython jax joblib matplotlib mpi4py numba pandas psutil pyarrow ray
    rich sax scipy torch torchvision triton typer zstandard""".split()  # noqa: SIM905
)
SKIP = re.compile(r"\s*# fmt: skip")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Census:
    """Counts of one tree, each with the places that it stands for."""

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
    name: str
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[Function]:
        """Yield every function and method, nested ones included."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))


def main() -> None:
    """Print the counts of one tree or of two."""
    parser = argparse.ArgumentParser(description="Count files, lines, long functions and imports of source trees.")
    parser.add_argument("trees", nargs="*", default=["."], help="folders or git revisions, at most two")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--list", action="store_true", help="print the places of the last tree's counts as well")
    options = parser.parse_args()
    if len(options.trees) > 2:
        parser.error("at most two trees can be compared")
    with tempfile.TemporaryDirectory() as scratch:
        counts = [census(tree, Path(scratch) / str(index)) for index, tree in enumerate(options.trees)]
    if options.json:
        print(
            json.dumps([{"tree": one.name, "figures": one.figures, "places": one.places} for one in counts], indent=2)
        )
        return
    print_table(counts)
    if options.list:
        for title, places in counts[-1].places.items():
            print(f"\n{title}\n" + "\n".join(f"  {place}" for place in places))


def census(tree: str, scratch: Path) -> Census:
    """Return the counts of a folder or a git revision; `scratch` is a folder that does not exist yet."""
    scratch.mkdir(parents=True)
    root = Path(tree) if Path(tree).is_dir() else extract(tree, scratch / "revision")
    counts = Census(tree)
    count_folders(root, counts)
    modules = parse(root)
    counts.figures["lines of src"] = sum(module.text.count("\n") for module in modules)
    counts.figures["lines of src, formatted without fmt: skip"] = formatted_lines(modules, root, scratch / "formatted")
    count_functions(modules, counts)
    count_imports(modules, counts)
    count_skips(root, counts)
    count_homonyms(modules, counts)
    return counts


def extract(revision: str, folder: Path) -> Path:
    """Write the files of a git revision to `folder`."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        sys.exit(f"error: {revision} is neither a folder nor a git revision: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def count_folders(root: Path, counts: Census) -> None:
    """Count folders, and those that hold more than 25 files; generated files are left out."""
    files: Counter[str] = Counter()
    for name in FOLDERS:
        for path in (root / name).rglob("*"):
            folders = any(part in GENERATED or ".egg-info" in part for part in path.parts)
            generated = folders or path.suffix == ".so"
            if path.is_file() and not generated:
                files[path.parent.relative_to(root).as_posix()] += 1
    counts.figures["folders"] = len(files)
    crowded = [f"{folder}: {number}" for folder, number in sorted(files.items()) if number > FILES_PER_FOLDER]
    counts.record(f"folders of more than {FILES_PER_FOLDER} files", crowded)


def parse(root: Path) -> list[Module]:
    """Parse every Python file under ``src``."""
    modules = []
    for path in sorted((root / "src").rglob("*.py")):
        text = path.read_text()
        relative = path.relative_to(root / "src").with_suffix("")
        name = ".".join(relative.parts).removesuffix(".__init__")
        modules.append(Module(path.relative_to(root), name, text, ast.parse(text)))
    return modules


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


def count_functions(modules: list[Module], counts: Census) -> None:
    """Count long functions, long signatures and signatures that name ``Any``."""
    long: list[str] = []
    positional: list[str] = []
    commands: list[str] = []
    untyped: list[str] = []
    for module in modules:
        for function in module.functions():
            place = f"{module.path}:{function.lineno} {function.name}"
            arguments = [*function.args.posonlyargs, *function.args.args]
            annotations = [argument.annotation for argument in [*arguments, *function.args.kwonlyargs]] + [
                function.returns
            ]
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > FUNCTION_LINES:
                long.append(f"{place}: {length}")
            if len(arguments) > POSITIONAL:
                command = any(annotation and "typer." in ast.unparse(annotation) for annotation in annotations)
                (commands if command else positional).append(f"{place}: {len(arguments)}")
            if any(names_any(annotation) for annotation in annotations):
                untyped.append(place)
    counts.record(f"functions over {FUNCTION_LINES} lines", long)
    counts.record(f"functions over {POSITIONAL} positional parameters", positional)
    counts.record("the same, commands of the CLI", commands)
    counts.record("signatures that name Any", untyped)


def names_any(annotation: ast.expr | None) -> bool:
    """Return whether an annotation, a quoted one included, names ``Any``."""
    return annotation is not None and bool(re.search(r"\bAny\b", ast.unparse(annotation)))


def count_imports(modules: list[Module], counts: Census) -> None:
    """Count imports inside functions by what they load."""
    known = {module.name for module in modules}
    heavy = heavy_modules(modules, known)
    libraries: list[str] = []
    loaders: list[str] = []
    others: list[str] = []
    for module in modules:
        seen: set[int] = set()
        for function in module.functions():
            for node in ast.walk(function):
                if not isinstance(node, ast.Import | ast.ImportFrom) or id(node) in seen:
                    continue
                seen.add(id(node))
                targets = imported(node, module, known)
                place = f"{module.path}:{node.lineno} {ast.unparse(node)}"
                if any(target.split(".")[0] in HEAVY for target in targets):
                    libraries.append(place)
                else:
                    (loaders if targets & heavy else others).append(place)
    counts.figures["imports inside functions"] = len(libraries) + len(loaders) + len(others)
    counts.record("  of heavy libraries", libraries)
    counts.record("  of modules that load heavy libraries", loaders)
    counts.record("  of others", others)


def imported(node: ast.Import | ast.ImportFrom, module: Module, known: set[str]) -> set[str]:
    """Return the modules that an import statement names, with the packages around them."""
    if isinstance(node, ast.Import):
        names = {alias.name for alias in node.names}
    else:
        package = module.name.split(".")
        if node.level:
            is_package = module.path.name == "__init__.py"
            package = package[: len(package) - node.level + is_package]
        base = ".".join([*(package if node.level else []), *([node.module] if node.module else [])])
        names = {base} | {f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in known}
    parents = {".".join(name.split(".")[:depth]) for name in names for depth in range(1, name.count(".") + 1)}
    return names | (parents & known)


def heavy_modules(modules: list[Module], known: set[str]) -> set[str]:
    """Return the modules of the package that load a heavy library when they are imported."""
    importers: dict[str, set[str]] = defaultdict(set)
    heavy: set[str] = set()
    for module in modules:
        for node in loading_imports(module.tree.body):
            for target in imported(node, module, known):
                if target.split(".")[0] in HEAVY:
                    heavy.add(module.name)
                importers[target].add(module.name)
    pending = list(heavy)
    while pending:
        fresh = importers[pending.pop()] - heavy
        heavy |= fresh
        pending += fresh
    return heavy


def loading_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run when a module is loaded."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from loading_imports(node.body)
            yield from loading_imports(node.orelse)
        elif isinstance(node, ast.Try | ast.ClassDef | ast.With):
            yield from loading_imports(node.body)


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


def count_homonyms(modules: list[Module], counts: Census) -> None:
    """Count names that several classes at the top of modules share."""
    owners: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                owners[node.name].append(module.name)
    shared = [f"{name}: {', '.join(places)}" for name, places in sorted(owners.items()) if len(places) > 1]
    counts.record("class names used more than once", shared)


def print_table(counts: list[Census]) -> None:
    """Print one column per tree, and the change."""
    names = [Path(one.name).resolve().name if Path(one.name).is_dir() else one.name for one in counts]
    heads = [*names, *(["change"] if len(counts) == 2 else [])]
    titles = list(counts[-1].figures)
    width = max(map(len, titles))
    print(f"{'':{width}}" + "".join(f"{head:>12}" for head in heads))
    for title in titles:
        values = [one.figures[title] for one in counts]
        row = "".join(f"{value:>12,}" for value in values)
        if len(values) == 2:
            row += f"{values[1] - values[0]:>+12,}"
        print(f"{title:{width}}{row}")
    for place in counts[-1].places[f"folders of more than {FILES_PER_FOLDER} files"]:
        print(f"crowded: {place}")


if __name__ == "__main__":
    main()
