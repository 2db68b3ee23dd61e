"""Figures of the paper that this study compares with."""

from __future__ import annotations

from collections.abc import Mapping

RING_TRAFFIC: Mapping[int, float] = {4: 1.5, 8: 1.75, 16: 1.875}
"""Fig. 6: bytes over bytes of the gradient, by servers; OptINC's are 1."""
ACCURACY: Mapping[str, float] = {"4-6": 100.0, "4-7": 99.99986, "4-8": 99.99999, "3-6": 99.98891, "3-7": 99.99936}
"""Table II by approximated layers, percent."""
ROWS = tuple(ACCURACY)
"""Table II's rows in the order of `averaging.area.TABLE_II`."""
SAVED: Mapping[str, float] = {"resnet50": 25.0, "llama": 17.0}
"""Fig. 7(b): less time than with the ring, percent ("over" and "around")."""
SYNCHRONISATION = 0.4
"""Section IV: less than this, percent of the gradient."""
CASCADE_OVERHEAD = 10.5
"""Section IV: of the two 64 x 64 matrices that the cascade's networks have more, percent."""


def ident(row: str) -> str:
    """A row of Table II as a part of a claim's id."""
    return f"layers{row.replace('-', '_')}"
