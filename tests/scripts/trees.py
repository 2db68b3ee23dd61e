"""Small source trees for tests of what counts and draws them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scripts.census.source import Module, parse_text


def modules(files: Mapping[str, str]) -> list[Module]:
    """Parse texts by their paths below ``src/house``."""
    return [parse_text(text, Path("src/house") / path) for path, text in sorted(files.items())]


def write_tree(root: Path, files: Mapping[str, str]) -> None:
    """Write texts by their paths below ``src/house`` of `root`, with settings for ``ruff``."""
    (root / "pyproject.toml").write_text("[tool.ruff]\nline-length = 120\n")
    for path, text in files.items():
        place = root / "src" / "house" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
