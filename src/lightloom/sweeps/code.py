"""The version of the code that computes a row, so that results of different versions are never mixed."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points, version
from pathlib import Path

_GROUPS = ("algorithms", "fabrics", "accelerators", "models")
"""Groups of plug-ins that can change a result."""


@cache
def code_version() -> str:
    """Return 16 hex digits that change with every source file, catalog and plug-in version."""
    root = Path(__file__).parents[1]
    digest = sha256(version("lightloom").encode())
    for file in sorted((*root.rglob("*.py"), *root.rglob("*.yaml"))):
        digest.update(f"\n{file.relative_to(root)}\n".encode())
        digest.update(file.read_bytes())
    plugins = [plugin for group in _GROUPS for plugin in entry_points(group=f"lightloom.{group}")]
    for name in sorted(f"{plugin.value} {plugin.dist.version if plugin.dist else ''}" for plugin in plugins):
        digest.update(name.encode())
    return digest.hexdigest()[:16]
