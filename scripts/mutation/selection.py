"""Which tests to run on a mutant: those that enter the function that it changes, the quickest first."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from scripts.mutation.children import KEPT_RESULTS, ROOT, compilers, is_kernel

SOURCE = ROOT / "src"
QUICK_SECONDS = 6.0
"""CPU seconds of the tests that a mutant meets first."""
ALL_SECONDS = 90.0
"""CPU seconds of the tests that a mutant must survive."""
KEPT_SECONDS = 60.0
"""CPU seconds of the kept results that it must not change after these."""


@dataclass(frozen=True, eq=False)
class Module:
    """One source file of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: frozenset[str]
    """Modules of the package that it names in an import, wherever that stands."""

    @cached_property
    def named_at_top(self) -> frozenset[str]:
        """Names in statements that run when the module is imported; decorators and defaults of functions among them."""
        found: set[str] = set()
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            found |= {name for name in (getattr(node, "id", ""), getattr(node, "attr", "")) if name}
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                pending += [*node.decorator_list, *node.args.defaults]
            else:
                pending += ast.iter_child_nodes(node)
        return frozenset(found)


def load_modules() -> dict[str, Module]:
    """Parse the package."""
    paths = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(SOURCE.rglob("*.py"))
    }
    modules = {}
    for name, path in paths.items():
        text = path.read_text()
        tree = ast.parse(text)
        imports: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                imports |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names}
        modules[name] = Module(name, path, text, tree, frozenset(imports & set(paths)))
    return modules


def importers(modules: dict[str, Module], name: str) -> frozenset[str]:
    """Return a module and all that import it, through others as well."""
    reached, pending = {name}, [name]
    while pending:
        target = pending.pop()
        fresh = {module.name for module in modules.values() if target in module.imports} - reached
        reached |= fresh
        pending += fresh
    return frozenset(reached)


def stale_kernels(modules: dict[str, Module], name: str, function: str) -> frozenset[str]:
    """Return the modules whose compiled kernels may hold what a function of a module said before it changed.

    Kernels hold other kernels and the values of globals, which functions that the top of a module calls may compute.
    """
    tree = modules[name].tree
    compiled = compilers(tree)
    kernels = [own for own, node in _functions(tree.body, "") if is_kernel(node, compiled)]
    around = any(f"{function}.".startswith(f"{own}.") or own.startswith(f"{function}.") for own in kernels)
    reached = importers(modules, name)
    called = any(function.split(".")[-1] in modules[each].named_at_top for each in reached)
    return reached if not function or around or called else frozenset()


class Selection:
    """Tests by the functions that they enter, with the time that each takes."""

    def __init__(self, modules: dict[str, Module], times: dict[str, float], reached: dict[str, list[str]]) -> None:
        self.modules = modules
        self.times = times
        self.tests: dict[str, set[str]] = defaultdict(set)
        for test, functions in reached.items():
            for function in functions:
                if test in times:
                    self.tests[function].add(test)
        self._callers = _kernel_callers(modules)
        self._users = _direct_users(modules, self.times)
        self._importers: dict[str, set[str]] = defaultdict(set)
        for file in {test.split("::")[0] for test in self.times}:
            for name in _imported(_tree_of(file), modules).values():
                self._importers[name.split(":")[0]].add(file)

    def tests_of(self, module: str, function: str) -> list[str]:
        """Return the tests that enter a function of a module: those of files that import it first, the quickest first.

        Statements of a module or of a class run for every test that enters any function of the module; tests of a
        kernel are those that enter a function that leads to it, or name such a function or the kernel themselves.
        """
        own = f"{module}:{function}"
        tests = self.tests.get(own, set()) | self._users.get(own, set())
        for caller in self._callers.get(own, ()):
            tests |= self.tests.get(caller, set()) | self._users.get(caller, set())
        if not tests:
            tests = self._of_modules([module])
        if not tests:
            tests = self._of_modules([each.name for each in self.modules.values() if module in each.imports])
        near = self._importers[module]
        return sorted(tests, key=lambda test: (test.split("::")[0] not in near, self.times[test], test))

    def _of_modules(self, names: list[str]) -> set[str]:
        starts = tuple(f"{name}:" for name in names)
        return {test for function, tests in self.tests.items() if function.startswith(starts) for test in tests}

    def stages(self, tests: list[str]) -> list[tuple[str, ...]]:
        """Split tests into the first quick ones, of few files, then the quickest others, then kept results.

        Kept results run alone, as what other tests leave in memory might change them.
        """
        kept = [test for test in tests if test.startswith(KEPT_RESULTS)]
        used_by_kept = accumulate(self.times[test] for test in kept)
        kept = [test for test, used in zip(kept, used_by_kept, strict=True) if used <= KEPT_SECONDS]
        tests = [test for test in tests if not test.startswith(KEPT_RESULTS)]
        quick: list[str] = []
        files: set[str] = set()
        used = 0.0
        for test in tests:
            file = test.split("::")[0]
            if used + self.times[test] <= QUICK_SECONDS and (file in files or len(files) < 3) and len(quick) < 60:
                quick.append(test)
                files.add(file)
                used += self.times[test]
        rest: list[str] = []
        for test in sorted(set(tests) - set(quick), key=lambda test: (self.times[test], test)):
            used += self.times[test] + 0.005
            if used <= ALL_SECONDS or not quick:
                rest.append(test)
        order = {file: number for number, file in enumerate(dict.fromkeys(test.split("::")[0] for test in rest))}
        rest.sort(key=lambda test: order[test.split("::")[0]])
        return [tuple(stage) for stage in (quick, rest, kept) if stage]


def _kernel_callers(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Return the functions that lead to each kernel, other kernels among them, by the names in their bodies."""
    kernels: dict[str, set[str]] = defaultdict(set)
    uses: dict[str, set[str]] = {}
    compiled: set[str] = set()
    for module in modules.values():
        decorators = compilers(module.tree)
        for own, node in _functions(module.tree.body, ""):
            function = f"{module.name}:{own}"
            if is_kernel(node, decorators):
                kernels[own.split(".")[-1]].add(function)
                compiled.add(function)
            names = (getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(node))
            uses[function] = {name for name in names if name}
    called: dict[str, set[str]] = defaultdict(set)
    for function, used in uses.items():
        home = function.split(":")[0]
        for name in used & kernels.keys():
            for kernel in kernels[name]:
                owner = kernel.split(":")[0]
                if kernel != function and (owner == home or owner in modules[home].imports):
                    called[kernel].add(function)
    changed = True
    while changed:
        changed = False
        for callers in called.values():
            more = {outer for caller in callers & compiled for outer in called.get(caller, ())} - callers
            callers |= more
            changed = changed or bool(more)
    return called


def _direct_users(modules: dict[str, Module], tests: Iterable[str]) -> dict[str, set[str]]:
    """Return the tests that name a function of the package, in their own bodies or in those of helpers beside them."""
    by_file: dict[str, set[str]] = defaultdict(set)
    for test in tests:
        by_file[test.split("::")[0]].add(test)
    users: dict[str, set[str]] = defaultdict(set)
    for file, own in by_file.items():
        tree = _tree_of(file)
        imported = _imported(tree, modules)
        used = {node.name: _used(node, imported) for node in tree.body if isinstance(node, ast.FunctionDef)}
        for test in own:
            pending, seen = [test.split("::")[1].split("[")[0]], set[str]()
            while pending:
                name = pending.pop()
                if name in used and name not in seen:
                    seen.add(name)
                    pending += used[name]
                elif ":" in name:
                    users[name].add(test)
    return users


def _tree_of(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text()) if (ROOT / file).exists() else ast.Module([], [])


def _imported(tree: ast.Module, modules: dict[str, Module]) -> dict[str, str]:
    """Return what names of a test file stand for: ``module`` or ``module:function`` of the package."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found[alias.asname or alias.name] = whole if whole in modules else f"{node.module}:{alias.name}"
    return found


def _used(function: ast.FunctionDef, imported: dict[str, str]) -> set[str]:
    """Return the functions that a function of a test file names: of the package in full, of the file as they are."""
    used: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            used.add(f"{imported[node.value.id]}:{node.attr}")
        elif isinstance(node, ast.Name):
            used.add(imported.get(node.id, node.id))
    return used


def _functions(body: Iterable[ast.stmt], prefix: str) -> Iterable[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own = f"{prefix}.{statement.name}".removeprefix(".")
            if not isinstance(statement, ast.ClassDef):
                yield own, statement
            yield from _functions(statement.body, own)
