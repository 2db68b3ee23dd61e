"""The import graph: which module imports which, rooms and the floors they stand on, imports inside functions.

A room is a package at the top, such as ``lightloom.core``; a module at the top is one as well unless it only imports.
The root and ``__main__`` are apart: nothing below may import them. An import is an arrow from the importer's room to
the other one, wherever it stands: at the top of a file, inside a function or under ``TYPE_CHECKING``. A module that is
named by a string and loaded by ``import_module`` is not seen.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.census.source import Census, Import, Module

HEAVY = set(
    """blosc2 dask distributed google imagecodecs IPython jax joblib matplotlib mpi4py numba pandas psutil pyarrow ray
    rich sax scipy torch torchvision triton typer zstandard""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Rooms:
    """The rooms of a tree, their arrows, and their floors."""

    sizes: Mapping[str, int]
    """Number of modules of each room."""
    aliases: list[str]
    """Modules at the top that only import: public names kept for users."""
    arrows: Mapping[tuple[str, str], int]
    """Number of import statements from a room (first) to another one (second)."""
    floors: Mapping[str, int]
    """Floor of each room: 1 where it imports no other room, else one more than the highest room that it imports."""
    chain: list[str]
    """Longest chain of imports, from the highest room down; rooms of one circle stand beside each other."""
    circles: list[list[str]]
    """Rooms that import each other; each counts as a floor of its own."""


def count_rooms(modules: list[Module], counts: Census) -> None:
    """Count rooms, their floors and the imports between them."""
    rooms = find_rooms(modules)
    arrows = sorted(rooms.arrows.items(), key=lambda arrow: (-arrow[1], arrow[0]))
    counts.record("rooms", [f"{room}: {size} files" for room, size in sorted(rooms.sizes.items())])
    counts.record("  modules at the top that only import", rooms.aliases)
    counts.record("floors", rooms.chain)
    counts.record("pairs of rooms that import", [f"{above} -> {below}: {number}" for (above, below), number in arrows])
    counts.record("circles of rooms", [" <-> ".join(circle) for circle in rooms.circles])


def find_rooms(modules: list[Module]) -> Rooms:
    """Return the rooms of the package that `modules` make up."""
    top = {module.name: module for module in modules if module.name.count(".") == 1 and not module.is_package}
    aliases = sorted(module.path.name for module in top.values() if only_imports(module))
    sizes = Counter(room_of(module.name) for module in modules if room_of(module.name))
    for name in aliases:
        del sizes[name.removesuffix(".py")]
    known = {module.name for module in modules}
    arrows: Counter[tuple[str, str]] = Counter()
    for module in modules:
        above = room_of(module.name)
        for node in module.imports() if above in sizes else ():
            below = {room_of(target) for target in direct_targets(node, module, known)} & set(sizes)
            arrows.update((above, room) for room in below - {above})
    circles = find_circles(set(sizes), set(arrows))
    floors, chain = _stack(set(sizes), set(arrows), circles)
    return Rooms(dict(sorted(sizes.items())), aliases, arrows, floors, chain, [one for one in circles if len(one) > 1])


def room_of(name: str) -> str:
    """Return the room of a module; empty for the root, ``__main__`` and what is outside the package."""
    room = name.split(".")[1] if "." in name else ""
    return "" if room == "__main__" else room


def only_imports(module: Module) -> bool:
    """Return whether a module holds nothing but imports, docstrings and ``__all__``."""

    def passes(node: ast.stmt) -> bool:
        if isinstance(node, ast.Assign):
            return [ast.unparse(target) for target in node.targets] == ["__all__"]
        if isinstance(node, ast.If):
            return "TYPE_CHECKING" in ast.unparse(node.test) and all(map(passes, [*node.body, *node.orelse]))
        return isinstance(node, Import) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))

    return module.name.rpartition(".")[2] != "__main__" and all(map(passes, module.tree.body))


def find_circles(rooms: set[str], arrows: set[tuple[str, str]]) -> list[list[str]]:
    """Return the sets of rooms that reach each other, every room in one set, a lone room in a set of its own."""
    reached = {room: {room} for room in rooms}
    fresh = True
    while fresh:
        fresh = False
        for above, below in arrows:
            if not reached[below] <= reached[above]:
                reached[above] |= reached[below]
                fresh = True
    circles = {tuple(sorted(other for other in reached[room] if room in reached[other])) for room in rooms}
    return sorted(map(list, circles))


def _stack(rooms: set[str], arrows: set[tuple[str, str]], circles: list[list[str]]) -> tuple[dict[str, int], list[str]]:
    """Return the floor of each room, and the longest chain from the highest room down."""
    circle_of = {room: circle for circle in circles for room in circle}
    chains: dict[str, list[str]] = {}

    def chain_from(room: str) -> list[str]:
        circle = circle_of[room]
        if circle[0] not in chains:
            below = sorted({lower for upper, lower in arrows if upper in circle and lower not in circle})
            longest = max((chain_from(lower) for lower in below), key=len, default=[])
            chains[circle[0]] = [*circle, *longest]
        return chains[circle[0]]

    floors = {room: len(chain_from(room)) for room in sorted(rooms)}
    return floors, max((chain_from(room) for room in sorted(rooms)), key=len, default=[])


def count_single_importers(modules: list[Module], counts: Census) -> None:
    """Count modules that one other module imports, and those of them whose importer is in the same folder."""
    known = {module.name for module in modules}
    importers: dict[str, set[Path]] = defaultdict(set)
    for module in modules:
        for node in module.imports():
            for target in direct_targets(node, module, known) - {module.name}:
                importers[target].add(module.path)
    single: list[str] = []
    beside: list[str] = []
    for module in modules:
        if len(importers[module.name]) == 1 and not module.is_package:
            (importer,) = importers[module.name]
            place = f"{module.path} <- {importer}"
            single.append(place)
            if importer.parent == module.path.parent:
                beside.append(place)
    counts.record("modules with one importer", single)
    counts.record("  in the same folder", beside)


def direct_targets(node: Import, module: Module, known: set[str]) -> set[str]:
    """Return the modules of the package that an import statement names, without the packages around them.

    ``from package import name`` names the module ``package.name`` where there is one, and the package's own
    ``__init__`` otherwise.
    """
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & known
    base = _base(node, module)
    return {f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names} & known


def _base(node: ast.ImportFrom, module: Module) -> str:
    """Return the full name of what stands between ``from`` and ``import``."""
    package: list[str] = []
    if node.level:
        package = module.name.split(".")
        package = package[: len(package) - node.level + module.is_package]
    return ".".join([*package, *([node.module] if node.module else [])])


def count_inner_imports(modules: list[Module], counts: Census) -> None:
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
                if not isinstance(node, Import) or id(node) in seen:
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


def imported(node: Import, module: Module, known: set[str]) -> set[str]:
    """Return the modules that an import statement loads: those it names and the packages around them."""
    if isinstance(node, ast.Import):
        names = {alias.name for alias in node.names}
    else:
        base = _base(node, module)
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


def loading_imports(body: list[ast.stmt]) -> Iterator[Import]:
    """Yield the imports that run when a module is loaded."""
    for node in body:
        if isinstance(node, Import):
            yield node
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from loading_imports(node.body)
            yield from loading_imports(node.orelse)
        elif isinstance(node, ast.Try | ast.ClassDef | ast.With):
            yield from loading_imports(node.body)
