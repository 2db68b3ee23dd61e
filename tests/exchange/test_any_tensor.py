"""Tensors of all kinds in all methods are averaged in place or refused by all ranks; ranks that differ are told."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lightloom.exchange.transport.launch import launch
from tests.launched import TIMEOUT

METHODS = {
    "float32": 1e-6,
    "bf16": 0.01,
    "fp16": 0.002,
    "fp8": 0.08,
    "int8": 0.01,
    "int4": 0.16,
    "int3": 0.4,
    "lloyd2:block=8": 1.0,
    "sign:block=8": 1.0,
    "topk:share=1": 1e-6,
    "powersgd:rank=64": 1e-4,
    "inceptionn": 0.002,
    "inceptionn:scaled": 0.05,
    "truncate": 0.03,
    "codec": 0.05,
    "optical": 0.002,
    "two-level:between=(int8),node={node}": 0.01,
}
"""By method, the largest error of a mean, relative to the largest mean of the tensor: from what a code holds, once for
the gradients of each rank and once for their mean."""
NARROW = {"bfloat16": 0.01, "float16": 0.002}
"""By kind, the rounding of its own type."""
REFUSED = {
    "expanded": "share memory",
    "overlapping": "share memory",
    "int64": "have no means of their type",
    "bool": "have no means of their type",
    "double": "would lose digits and range",
}
COUNTS = [2, 3, pytest.param(8, marks=pytest.mark.slow)]
LARGE = ["float32", "bf16", "fp8", "int8", "int4", "int3", "lloyd2", "sign", "topk:share=1", "powersgd:rank=64"]
"""Methods that average gradients near the largest float32; docs/exchange.md says what the others do."""


def text(method: str, ranks: int) -> str:
    """The method for that many ranks."""
    return method.format(node=2 if ranks % 2 == 0 else ranks)


@cache
def found(ranks: int) -> list[dict[str, Any]]:
    """What each rank found: by method and kind, near the largest values of a type, and by disagreement."""
    arguments = {
        "kinds": [text(method, ranks) for method in METHODS],
        "large": [
            {"methods": LARGE, "values": {"all": 2e38, "one": 3.2e38}},
            {"methods": ["fp16", "fp16:feedback"], "values": {"all": 9000.0, "one": 60000.0 * ranks}},
        ],
    }
    return [rank.value for rank in launch("tests.exchange.tensor_workers:everything", ranks, TIMEOUT, arguments)]


@pytest.mark.long
@pytest.mark.parametrize("ranks", COUNTS)
@pytest.mark.parametrize("method", METHODS)
def test_tensors_of_all_kinds_are_averaged_or_refused(method: str, ranks: int) -> None:
    results = [rank["kinds"][text(method, ranks)] for rank in found(ranks)]
    assert len(results[0]) >= 12
    for kind in results[0]:
        of_ranks = [result[kind] for result in results]
        assert all(result["untouched"] for result in of_ranks), f"{kind}: memory beside the tensor changed"
        if kind in REFUSED and (kind, method) != ("double", "float32"):
            for result in of_ranks:
                words = result.get("refused", "")
                assert words.startswith("UnsupportedError: ") and REFUSED[kind] in words and "\n" not in words, kind
            continue
        for result in of_ranks:
            assert "refused" not in result, f"{kind}: {result['refused']}"
            assert result["error"] <= METHODS[method] + NARROW.get(kind, 0.0), kind
            assert result["alike"] > 0.7, f"{kind}: the values are others, or elsewhere"
            assert result["as contiguous"], f"{kind}: strides change the mean"
        assert len({result["bits"] for result in of_ranks}) == 1, f"{kind}: replicas differ"


@pytest.mark.long
@pytest.mark.parametrize("ranks", COUNTS)
def test_finite_means_stay_finite(ranks: int) -> None:
    wide, narrow = zip(*(rank["large"] for rank in found(ranks)), strict=True)
    for name in wide[0]:
        assert max(rank[name] for rank in wide) <= {"lloyd2": 0.7}.get(name.split()[0], 0.02), name
    for name in narrow[0]:
        assert max(rank[name] for rank in narrow) <= 0.002, name


@pytest.mark.long
@pytest.mark.parametrize("ranks", COUNTS)
def test_ranks_that_disagree_all_end_with_one_line(ranks: int) -> None:
    results = [rank["told"] for rank in found(ranks)]
    assert len(results[0]) == 26
    for name in results[0]:
        lines = [result[name]["told"] for result in results]
        last = lines[-1]
        assert all(result[name]["works"] for result in results), f"{name}: the next call fails"
        if name == "silent":
            assert not last and all("for 1.5 s" in line or "told by" in line for line in lines[:-1]), lines
            assert all(result[name]["seconds"] < 60 for result in results)
            continue
        if name == "refused":
            assert last.startswith("UnsupportedError: "), last
            lines.pop()
        for line in lines:
            assert line.startswith("TransportError: ") and "\n" not in line, f"{name}: {line!r}"
            assert f"rank {ranks - 1} " in line or f"and {ranks - 1} " in line, f"{name}: {line}"
            sides = " exchanges " in line and ": expected the same on all ranks" in line
            assert sides or "both exchange" in line or (name == "refused" and "refuses: tensors of" in line), line
