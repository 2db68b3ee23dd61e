"""Children of a process that has loaded the libraries but not the package: each loads it anew, changed, and runs tests.

A child compiles what a mutant touches in memory: neither a source file nor a compiled kernel on disk ever changes.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import importlib
import json
import marshal
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import TypedDict

import pytest
from scripts.mutation.startup import sitecustomize

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("numpy", "numba", "scipy.optimize", "scipy.sparse", "hypothesis", "pydantic", "yaml", "rich", "typer")
OPTIONAL = ("matplotlib.pyplot", "pyarrow", "torch")
MEMORY = 12 << 30
"""Bytes of data that a child may hold: a mutant that asks for more fails there and not on the machine."""
PARENT_DEATH_SIGNAL = 1
"""What ``prctl`` calls the signal that a child gets when its parent ends (Linux)."""
PATIENCE = 20
"""Seconds of waiting for each second of CPU time that a child may use, on a machine that is busy otherwise."""
KEPT_RESULTS = "tests/api/test_kept_results.py"
"""The only file whose slow tests are run as well: each of them is a command, and most take half a second."""
MISTAKES = ("NameError", "UnboundLocalError", "TypeError", "SyntaxError", "ImportError", "AttributeError")
COMPILER_MISTAKES = ("TypingError", "UnsupportedError", "LoweringError", "CompilerError")


class Outcome(TypedDict):
    """What a child says of its tests."""

    passed: int
    failed: str
    """Name of the first test that failed, or an empty string."""
    errors: list[str]
    """Types of the exceptions that failed it, causes included."""
    tests: dict[str, float]
    """CPU seconds of each test."""
    reached: dict[str, list[str]]
    """Functions that each test entered, where the child was asked to note them."""
    modules: list[str]
    """Modules of the package that were loaded."""


@dataclass(frozen=True)
class Task:
    """Tests to run in one child, and the modules to replace first."""

    tests: tuple[str, ...]
    code: Mapping[str, CodeType]
    """Code of modules in place of what their files hold."""
    uncached: frozenset[str] = frozenset()
    """Modules whose kernels may not come from the disk."""
    cpu_seconds: int = 600
    reaching: bool = False


@dataclass
class Child:
    """A child that runs."""

    pid: int
    folder: Path
    deadline: float
    task: Task

    def poll(self) -> Outcome | str | None:
        """Return the outcome, or the name of the signal that ended the child, or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            if time.monotonic() < self.deadline:
                return None
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return self._end("SIGXCPU")
        if os.WIFSIGNALED(status):
            return self._end(signal.Signals(os.WTERMSIG(status)).name)
        with contextlib.suppress(OSError, ValueError):
            outcome: Outcome = json.loads((self.folder / "outcome.json").read_text())
            self._end("")
            return outcome
        return self._end("no outcome")

    def _end(self, name: str) -> str:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        return name


def load_libraries() -> None:
    """Import what every child needs, so that none does it again. Threads started here would not survive in a child."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for name in OPTIONAL:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    loaded = sorted(name for name in sys.modules if name.split(".")[0] == "lightloom")
    if loaded:
        raise RuntimeError(f"the package was loaded before its mutants: {loaded[:3]}")


def start(task: Task) -> Child:
    """Fork a child that runs a task."""
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            _prepare(task, folder)
            outcome = _run(task, folder)
            (folder / "outcome.json").write_text(json.dumps(outcome))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return Child(pid, folder, time.monotonic() + PATIENCE * task.cpu_seconds, task)


def _prepare(task: Task, folder: Path) -> None:
    os.setsid()
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (task.cpu_seconds, task.cpu_seconds + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ["LIGHTLOOM_CACHE"] = str(folder / "cache")
    os.environ["MPLBACKEND"] = "agg"
    _replace_modules(task, folder)
    _forget_kernels(task.uncached)


def _replace_modules(task: Task, folder: Path) -> None:
    """Load these modules from code in memory, here and in the interpreters that tests start."""
    sitecustomize.replace_modules(task.code)
    sys.modules["sitecustomize"] = sitecustomize
    startup = str(Path(sitecustomize.__file__).parent)
    sys.path.insert(0, startup)
    os.environ["PYTHONPATH"] = os.pathsep.join([startup, *filter(None, [os.environ.get("PYTHONPATH")])])
    (folder / "code").write_bytes(marshal.dumps(dict(task.code)))
    os.environ[sitecustomize.CODE] = str(folder / "code")
    if task.reaching:
        os.environ[sitecustomize.HITS] = str(folder / "hits")


def _forget_kernels(modules: frozenset[str]) -> None:
    """Compile the kernels of these modules in memory: what was built, and their caches on disk, know nothing of
    constants that changed."""
    from numba.core.dispatcher import Dispatcher

    from lightloom.core import kernels

    for name in [name for name in kernels._BUILT if name.split()[0].rpartition(".")[0] in modules]:
        del kernels._BUILT[name]
    enable = Dispatcher.enable_caching

    def enable_caching(self: Dispatcher) -> None:
        if self.py_func.__module__ not in modules:
            enable(self)

    setattr(Dispatcher, "enable_caching", enable_caching)  # noqa: B010


def _run(task: Task, folder: Path) -> Outcome:
    recorder = _Recorder(task.reaching)
    options = [
        "-q",
        "--tb=short",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:faulthandler",
    ]
    if not task.reaching:
        options.append("-x")
    options += ["-m", "not slow" if task.reaching and task.tests != (KEPT_RESULTS,) else ""]
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    status = pytest.main([*options, f"--basetemp={folder / 'files'}", *task.tests], plugins=[recorder])
    if status not in (0, 1) and not recorder.outcome["failed"]:
        recorder.outcome["failed"] = f"pytest ended with {status}"
    recorder.outcome["modules"] = sorted(name for name in sys.modules if name.split(".")[0] == "lightloom")
    return recorder.outcome


@dataclass(eq=False)
class _Recorder:
    """A pytest plug-in that notes times, failures and functions entered."""

    reaching: bool
    outcome: Outcome = field(
        default_factory=lambda: Outcome(passed=0, failed="", errors=[], tests={}, reached={}, modules=[])
    )
    of_fixtures: dict[object, set[str]] = field(default_factory=dict)
    """Functions that the making of a fixture entered: they count for every test that uses it."""
    failing: set[str] = field(default_factory=set)
    """Tests that fail without a mutant, which are left out: they would count as tests that kill every one."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Take the time of one test, and the functions that it enters."""
        _take_entered()
        before = sum(os.times()[:4])
        result = yield
        if item.nodeid not in self.failing:
            self.outcome["tests"][item.nodeid] = sum(os.times()[:4]) - before
        if self.reaching:
            reached = _take_entered()
            for definitions in getattr(item, "_fixtureinfo").name2fixturedefs.values():  # noqa: B009
                reached = reached.union(*(self.of_fixtures.get(each, ()) for each in definitions))
            self.outcome["reached"][item.nodeid] = sorted(reached)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: object) -> Generator[None, object, object]:
        """Note the functions that the making of a fixture enters."""
        others = _take_entered()
        result = yield
        own = _take_entered()
        self.of_fixtures.setdefault(fixturedef, set()).update(own)
        sitecustomize.entered.update(others)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the first failure."""
        report = yield
        if report.failed and not self.outcome["failed"]:
            self.outcome["failed"] = item.nodeid
            self.outcome["errors"] = _types(call.excinfo.value) if call.excinfo else []
        if report.failed and self.reaching:
            self.failing.add(item.nodeid)
        self.outcome["passed"] += report.when == "call" and report.passed
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a test file that cannot be loaded."""
        if report.failed and not self.outcome["failed"]:
            self.outcome["failed"] = report.nodeid
            self.outcome["errors"] = [
                name for name in (*MISTAKES, *COMPILER_MISTAKES) if name in str(report.longrepr)
            ] or ["ImportError"]


def _take_entered() -> set[str]:
    """Return the functions entered since the last call, here and in interpreters that were started."""
    entered = set(sitecustomize.entered)
    sitecustomize.entered.clear()
    if sitecustomize.HITS in os.environ:
        file = Path(os.environ[sitecustomize.HITS])
        if file.exists():
            entered.update(file.read_text().splitlines())
            file.unlink()
    return entered


def _types(error: BaseException) -> list[str]:
    """Return the types of an exception, of its members and of what caused it."""
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    own = [type(error).__name__]
    for member in members:
        own += _types(member)
    return own + (_types(error.__cause__) if error.__cause__ is not None else [])


def compilers(tree: ast.Module) -> frozenset[str]:
    """Return the names under which a module decorates kernels: ``njit``, and names assigned from a call of it."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and "njit" in ast.unparse(node.value)]
    return frozenset({"njit"} | {ast.unparse(target) for node in assigned for target in node.targets})


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef, names: frozenset[str]) -> bool:
    """Return whether numba compiles a function, given the names from `compilers`."""
    decorators = [ast.unparse(getattr(decorator, "func", decorator)) for decorator in function.decorator_list]
    return any("njit" in decorator or decorator in names for decorator in decorators)


def reaching_code(text: str, path: Path, name: str) -> CodeType:
    """Compile a module whose functions note that they were entered; kernels cannot."""
    tree = ast.parse(text)
    names = compilers(tree)

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own = f"{prefix}.{statement.name}".removeprefix(".")
                visit(statement.body, own)
                if not isinstance(statement, ast.ClassDef) and not is_kernel(statement, names):
                    note = ast.parse(f"__reached__({f'{name}:{own}'!r})").body
                    place = int(ast.get_docstring(statement) is not None)
                    for node in ast.walk(note[0]):
                        ast.copy_location(node, statement.body[0])
                    statement.body[place:place] = note
            else:
                for inner in ("body", "orelse", "finalbody"):
                    visit(getattr(statement, inner, []) or [], prefix)

    visit(tree.body, "")
    first = next((n for n, each in enumerate(tree.body) if not _opens_module(each)), len(tree.body))
    tree.body[first:first] = ast.parse("from sitecustomize import entered; __reached__ = entered.add").body
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def _opens_module(statement: ast.stmt) -> bool:
    """Return whether a statement must stand before all others."""
    future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    return future or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
