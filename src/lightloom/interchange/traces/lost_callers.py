"""Callers that ``chakra_converter PyTorch`` loses: it keeps a caller only if its node comes first in its input.

Execution traces write a call after those that it made, so that only calls of the thread itself keep theirs, unless
``chakra_trace_link`` has sorted the nodes. Ids still grow as calls begin: what has no caller was made, directly or not,
by the last call before it that has one. Inside, backward nodes hold what follows, wrappers of products the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from lightloom.interchange.traces.steps import BACKWARD

_WRAPPERS = frozenset(
    (
        *("linear", "matmul", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "convolution"),
        *("_convolution", "convolution_backward", "scaled_dot_product_attention"),
    )
)
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "matmul", "linear")


def callers_of(entries: Sequence[Mapping[str, Any]], lost: Set[int]) -> dict[int, int]:
    """Return a caller for each call that has ``lost`` its own, by their ids.

    Args:
        entries: calls in the order of their ids.
        lost: ids of those that name no caller.
    """
    found: dict[int, int] = {}
    outer: int | None = None
    in_backward = False
    inner: list[tuple[int, str]] = []
    """Calls inside the outer one that may have made the next: the backward node, then wrappers of products."""
    for entry in entries:
        number, name = entry["id"], entry["name"]
        word = name.rpartition("::")[2]
        if number not in lost:
            outer, in_backward = number, name.startswith(BACKWARD)
            inner = [(number, word)] if word in _WRAPPERS else []
            continue
        if outer is None:
            continue
        if in_backward and not name.startswith("aten::"):
            found[number], inner = outer, [(number, word)]
            continue
        product = word.endswith("convolution") or word in _PRODUCTS or word.startswith("_scaled_dot_product")
        holds_all = bool(inner) and inner[-1][1] not in _WRAPPERS
        found[number] = inner[-1][0] if inner and (product or holds_all) else _base(inner, outer)
        if word in _WRAPPERS:
            inner = [*(inner if product else inner[:1]), (number, word)]
        elif product:
            inner = [entry for entry in inner if entry[1] not in _WRAPPERS]
    return found


def _base(inner: Sequence[tuple[int, str]], outer: int) -> int:
    """The backward node that holds what follows, else the outer call."""
    return next((number for number, word in inner if word not in _WRAPPERS), outer)
