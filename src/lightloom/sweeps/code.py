"""Which code computes: results of other code are not mixed with those of this one."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points, version
from pathlib import Path

_GROUPS = ("algorithms", "fabrics", "accelerators", "models")
"""Of plug-ins that can change a result."""


@cache
def code_version() -> str:
    """16 hex digits that change with any source file of lightloom, its catalogs, and its plug-ins' versions."""
    root = Path(__file__).parents[1]
    digest = sha256(version("lightloom").encode())
    for file in sorted((*root.rglob("*.py"), *root.rglob("*.yaml"))):
        digest.update(f"\n{file.relative_to(root)}\n".encode())
        digest.update(file.read_bytes())
    plugins = [each for group in _GROUPS for each in entry_points(group=f"lightloom.{group}")]
    for name in sorted(f"{each.value} {each.dist.version if each.dist else ''}" for each in plugins):
        digest.update(name.encode())
    return digest.hexdigest()[:16]
