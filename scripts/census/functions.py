"""Long functions, long signatures, and signatures that name ``Any``.

A function's length includes its signature and docstring. A signature counts once under ``Any`` if one of its
parameters, ``*args`` and ``**kwargs`` apart, or its return annotation names ``Any``.
"""

from __future__ import annotations

import ast
import re

from scripts.census.source import Census, Module

FUNCTION_LINES = 60
POSITIONAL = 7


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
    counts.record("  commands of the CLI", commands)
    counts.record("signatures that name Any", untyped)


def names_any(annotation: ast.expr | None) -> bool:
    """Return whether an annotation, a quoted one included, names ``Any``."""
    return annotation is not None and bool(re.search(r"\bAny\b", ast.unparse(annotation)))
