"""Accelerators of the catalog by the names that drivers give them, as profiles record them."""

from __future__ import annotations

import re

_GIGABYTE = 10**9
_DEVICES: tuple[tuple[str, float, str], ...] = (
    (r"\bA100\b", 60.0, "a100-40"),
    (r"\bA100\b", 100.0, "a100"),
    (r"\bH100\b(?!.*(PCIe|NVL))", 100.0, "h100"),
    (r"\bH200\b(?!.*NVL)", 160.0, "h200"),
    (r"\bB200\b", 220.0, "b200"),
    (r"TITAN Xp", 16.0, "titan-xp"),
)
"""Pattern of a device's name, GB of memory below which it is that one, and its name in the catalog."""


def accelerator_of_device(name: str, memory: float | None = None) -> str | None:
    """Return the catalog's name of a device; None where the catalog has none like it.

    Args:
        name: as its driver names it, such as ``NVIDIA A100-SXM4-80GB``.
        memory: bytes of its main memory; without it the size in the name counts, if it has one.
    """
    stated = re.search(r"(\d+)\s*GB", name)
    size = memory if memory is not None else float(stated[1]) * _GIGABYTE if stated else None
    for pattern, below, accelerator in _DEVICES:
        if re.search(pattern, name) and (size is None or size < below * _GIGABYTE):
            # Without a size, a device of several sizes is none of them.
            several = sum(pattern == other for other, _, _ in _DEVICES) > 1
            return None if size is None and several else accelerator
    return None
