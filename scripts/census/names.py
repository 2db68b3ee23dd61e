"""Names that several modules define, and docstrings that are riddles to a reader who sees them first."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from scripts.census.source import Census, Function, Module

HOMES = 4
"""A name that so many modules define is counted."""
WORDS = 3
"""A docstring's first line of so many words or fewer is counted."""
BEGINNINGS = ("Of", "As", "What", "Whether", "The same")


def count_homonyms(modules: list[Module], counts: Census) -> None:
    """Count names that many modules define at their top, private ones too, and names that classes share."""
    for title, kinds, least in (
        (f"names defined in {HOMES} or more modules", (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef), HOMES),
        ("class names used more than once", (ast.ClassDef,), 2),
    ):
        shared = [(name, places) for name, places in _homes(modules, kinds).items() if len(places) >= least]
        shared.sort(key=lambda item: (-len(item[1]), item[0]))
        counts.record(title, [f"{name}: {len(places)}: {', '.join(places)}" for name, places in shared])


def _homes(modules: list[Module], kinds: tuple[type[ast.stmt], ...]) -> dict[str, list[str]]:
    """Return the modules that define each name."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        defined = [node for node in module.tree.body if isinstance(node, ast.ClassDef | Function)]
        for name in dict.fromkeys(node.name for node in defined if isinstance(node, kinds)):
            homes[name].append(module.name)
    return homes


def count_riddles(modules: list[Module], counts: Census) -> None:
    """Count docstrings whose first line has few words or begins as a label does, attributes' included."""
    short: list[str] = []
    labels: list[str] = []
    for module in modules:
        for node, text in module.strings():
            line = first_line(text)
            place = f"{module.path}:{node.lineno} {line}"
            if line.split() and len(line.split()) <= WORDS:
                short.append(place)
            elif is_label(line):
                labels.append(place)
    counts.figures["riddles"] = len(short) + len(labels)
    counts.record(f"  of at most {WORDS} words", short)
    counts.record(f"  longer, beginning with {', '.join(BEGINNINGS)}", labels)


def first_line(docstring: str) -> str:
    """Return the first line of a docstring that is not blank."""
    return docstring.strip().partition("\n")[0].rstrip()


def is_label(line: str) -> bool:
    """Return whether a line begins with one of `BEGINNINGS` as a whole word."""
    return bool(re.match(rf"(?:{'|'.join(BEGINNINGS)})\b", line))
