"""The pages of the Python reference: which public name is on which page."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)

ARGUMENTS = (
    "lightloom.app.api.arguments.Quantity",
    "lightloom.app.api.arguments.Settings",
    "lightloom.machines.fabrics.load.FabricLike",
    "lightloom.machines.clusters.load.ClusterLike",
    "lightloom.app.api.planning.ModelLike",
)


class Page(NamedTuple):
    """A page of the reference."""

    title: str
    introduction: str
    names: tuple[str, ...]
    """Dotted names, in the order of the page."""


def pages() -> dict[str, Page]:
    """Return every page by its file's name; together they hold all names that docs/python-api.md calls public."""
    functions, types = _root_names()
    return {
        "functions": Page("Functions", "What `import lightloom as ll` offers.", functions),
        "results": Page(
            "Results", "What the functions of `lightloom` return, and the plans in a ranking.", _results(functions)
        ),
        "types": Page("Types", "The types that `import lightloom as ll` offers.", types),
        "arguments": Page("Arguments", "What annotations of arguments mean.", ARGUMENTS),
        "errors": Page("Errors", "What `lightloom` raises on purpose, each with a message of one line.", _errors()),
        "exchange": Page(
            "lightloom.exchange",
            "Exchanges of gradients ([how to use them](../../exchange.md)).",
            _all("lightloom.exchange"),
        ),
        "hooks": Page(
            "lightloom.exchange.hooks",
            "Communication hooks ([how to use them](../../training.md)).",
            _all("lightloom.exchange.hooks"),
        ),
        "extending": Page(
            "For plug-ins",
            "What [extending lightloom](../../extending.md) imports.",
            tuple(name for name in _imported_by_extensions() if not _is_shown(name)),
        ),
    }


def markdown(page: Page) -> str:
    """Return a page's Markdown, which mkdocstrings turns into signatures and docstrings."""
    return "\n\n".join([f"# {page.title}", page.introduction, *(f"::: {name}" for name in page.names), ""])


def _root_names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The package's functions and its types."""
    import lightloom

    names = [name for name in lightloom._HOMES if not name.startswith("_")]
    functions = tuple(f"lightloom.{name}" for name in names if inspect.isfunction(getattr(lightloom, name)))
    return functions, tuple(f"lightloom.{name}" for name in names if f"lightloom.{name}" not in functions)


def _results(functions: tuple[str, ...]) -> tuple[str, ...]:
    """The classes that functions return, by the modules that define them."""
    results: dict[str, None] = {}
    for function in functions:
        module, _, name = function.rpartition(".")
        target = getattr(import_module(module), name)
        returned = vars(import_module(target.__module__)).get(str(target.__annotations__["return"]))
        if inspect.isclass(returned) and returned.__name__ not in import_module("lightloom").__all__:
            for each in (returned, *returned.__subclasses__()):
                results[f"{each.__module__}.{each.__qualname__}"] = None
    return ("lightloom.core.results.Result", *results, "lightloom.planning.search.plans.Plan")


def _errors() -> tuple[str, ...]:
    """Every exception of the package beneath its base, which is among the types."""
    module = import_module("lightloom.core.errors")
    names = [
        name for name, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    return tuple(f"{module.__name__}.{name}" for name in names if name != "LightloomError")


def _is_shown(name: str) -> bool:
    """Whether another page shows what a name stands for."""
    short = name.rpartition(".")[2]
    return short in import_module("lightloom").__all__ or name.startswith("lightloom.core.errors.")


def _all(module: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in import_module(module).__all__)


def _imported_by_extensions() -> tuple[str, ...]:
    """Every name that the page on extensions imports from the package."""
    names: dict[str, None] = {}
    for block in PYTHON.findall((ROOT / "docs" / "extending.md").read_text()):
        for statement in ast.walk(ast.parse(block)):
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("lightloom."):
                names |= {f"{statement.module}.{alias.name}": None for alias in statement.names}
    return tuple(names)
