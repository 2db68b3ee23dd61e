"""What pins contradict, and what is left of what a caller and a file state, case by case."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from lightloom.core.errors import ConfigError
from lightloom.planning.search import request
from lightloom.planning.search.request import Pins, merged_batches, merged_pins


def model(*, ranks: int = 8, tensor: int = 4, experts: int = 1, context: int = 1, sequence: int = 4) -> Any:
    """A job of four blocks, each of which has so many parts, experts and slices; its graph is those slices."""
    parts: dict[str, Any] = {"experts": SimpleNamespace(degree=experts), "context_degree": context}
    split = SimpleNamespace(sequence_degree=sequence)
    return SimpleNamespace(
        model=SimpleNamespace(starts=(0, 1, 2, 3), split=split, **parts),
        fabric=SimpleNamespace(ranks=ranks),
        tensor_degree=tensor,
        graph=context,
    )


@pytest.mark.parametrize(
    ("pins", "of", "batches", "reasons"),
    [
        ({}, {}, (48,), []),
        ({"dp": 3}, {}, (48,), ["--dp 3: 3 ranks in all, expected a divisor of 8"]),
        ({"dp": 2, "tp": 2, "pp": 1}, {}, (48,), ["--dp 2 --tp 2 --pp 1: 4 ranks in all, expected 8"]),
        ({"dp": 2, "tp": 2, "pp": 2}, {}, (48,), []),
        # Where sequences may be sliced, the degree of that is still open.
        ({"dp": 2, "tp": 2, "pp": 1}, {"context": 2}, (48,), []),
        ({"dp": 2, "tp": 2, "pp": 1, "cp": 2}, {"context": 2}, (48,), []),
        ({"dp": 2, "tp": 2, "pp": 1, "cp": 4}, {"context": 4}, (48,), [
            "--dp 2 --tp 2 --pp 1 --cp 4: 16 ranks in all, expected 8"]),
        ({"dp": 2, "tp": 2, "pp": 1, "cp": 1}, {"context": 4}, (48,), [
            "--dp 2 --tp 2 --pp 1 --cp 1: 4 ranks in all, expected 8"]),
        ({"tp": 8}, {}, (48,), ["--tp 8: expected a divisor of 4, the parts that every block can have"]),
        ({"pp": 2, "virtual_stages": 2}, {}, (48,), []),
        ({"pp": 2, "virtual_stages": 4}, {}, (48,), [
            "8 stages: the model has 4 blocks, expected at most one stage for each"]),
        ({"pp": 8}, {}, (48,), ["8 stages: the model has 4 blocks, expected at most one stage for each"]),
        ({"virtual_stages": 5}, {}, (48,), ["5 stages: the model has 4 blocks, expected at most one stage for each"]),
        ({"pp": 1, "virtual_stages": 2}, {}, (48,), [
            "--pin virtual_stages=2 and --pp 1: expected more than one stage to interleave"]),
        ({"pp": 1, "virtual_stages": 1}, {}, (48,), []),
        ({"pp": 2, "virtual_stages": 2, "micro_batches": 3}, {}, (48,), [
            "--pin micro_batches=3: interleaved stages expect a multiple of --pp 2"]),
        ({"pp": 2, "virtual_stages": 2, "micro_batches": 4}, {}, (48,), []),
        ({"pp": 2, "virtual_stages": 1, "micro_batches": 3}, {}, (48,), []),
        ({"virtual_stages": 2, "micro_batches": 3}, {}, (48,), []),
        ({"micro_batch": 2, "micro_batches": 3}, {}, (48,), [
            "--pin micro_batch=2 and --pin micro_batches=3: expected one of them"]),
        ({"ep": 4}, {"experts": 6}, (48,), ["--ep 4: expected a divisor of 6, the experts that the model can spread"]),
        ({"ep": 3}, {"experts": 6}, (48,), []),
        ({"cp": 4}, {"context": 6}, (48,), ["--cp 4: expected a divisor of 6, the slices that a sequence can have"]),
        ({"cp": 2}, {"context": 6}, (48,), []),
        ({"ep": 4, "dp": 2}, {"experts": 4}, (48,), ["--ep 4 and --dp 2: expected experts to divide the replicas"]),
        ({"ep": 4, "dp": 2, "cp": 2}, {"experts": 4, "context": 2}, (48,), []),
        ({"ep": 4, "dp": 4}, {"experts": 4}, (48,), []),
        ({"sequence_parallel": True, "tp": 1}, {}, (48,), [
            "--pin sequence_parallel=yes and --tp 1: expected a divisor of 4 above 1"]),
        ({"sequence_parallel": True, "tp": 4}, {"sequence": 2}, (48,), [
            "--pin sequence_parallel=yes and --tp 4: expected a divisor of 2 above 1"]),
        ({"sequence_parallel": True, "tp": 2}, {}, (48,), []),
        ({"sequence_parallel": False, "tp": 1}, {}, (48,), []),
        ({"sequence_parallel": True}, {"sequence": 1}, (48,), []),
        ({"micro_batch": 9, "dp": 8}, {}, (48, 64), ["--pin micro_batch=9: expected at most a replica's batch, 8"]),
        ({"micro_batch": 8, "dp": 8}, {}, (48, 64), []),
        # Two replicas are what two parts and two stages leave of eight ranks.
        ({"micro_batch": 25, "tp": 2, "pp": 2}, {}, (48,), [
            "--pin micro_batch=25: expected at most a replica's batch, 24"]),
        ({"micro_batch": 24, "tp": 2, "pp": 2}, {}, (48,), []),
        ({"micro_batch": 25, "tp": 2, "pp": 2}, {"context": 2}, (48,), []),
        ({"micro_batches": 5, "tp": 2, "pp": 2}, {}, (48,), [
            "global batch of 48: expected a multiple of 10, 2 replicas with 5 micro-batches each"]),
        ({"micro_batches": 5, "tp": 2, "pp": 2, "cp": 2}, {"context": 2}, (48,), [
            "global batch of 48: expected a multiple of 5, 1 replicas with 5 micro-batches each"]),
        ({"micro_batches": 5, "tp": 2}, {}, (48,), [
            "global batch of 48: expected a multiple of 5, 1 replicas with 5 micro-batches each"]),
        ({"dp": 8}, {}, (4, 49), [
            "global batch of 4, 49: expected a multiple of 8, 8 replicas with 1 micro-batches each"]),
        ({"micro_batches": 5, "dp": 2}, {}, (48, 50), []),
    ],
)  # fmt: skip
def test_every_contradiction_is_named(
    pins: dict[str, Any], of: dict[str, int], batches: tuple[int, ...], reasons: list[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(request, "searched_degrees", lambda slices: range(slices))
    found = [*filter(None, Pins(**pins)._contradictions(model(**of), batches))]
    assert found == reasons
    assert Pins(**pins).contradiction(model(**of), batches) == next(iter(reasons), None)


@pytest.mark.parametrize(
    ("given", "stated", "of_replica", "split", "expected"),
    [
        (None, None, None, {}, None),
        (None, 64, 3, {}, (64,)),
        (None, None, 3, {}, (24, 48)),
        (None, None, 3, {"tp": 2, "pp": 2}, (6, 12)),
        (None, None, 3, {"tp": 2, "pp": 2, "cp": 2}, (3, 6)),
        (None, None, 3, {"cp": 16}, (3,)),
        ([32, 16], None, 3, {}, (32, 16)),
        ([64], 64, 3, {}, (64,)),
        ([64, 32], 64, None, {}, "64, 32"),
        ([32], 64, None, {}, "32"),
    ],
)
def test_a_file_states_the_batch_of_all_ranks_or_of_a_replica(
    given: list[int] | None, stated: int | None, of_replica: int | None, split: dict[str, int], expected: Any
) -> None:
    """On 8, 16 and again 8 ranks."""
    degrees = SimpleNamespace(**{"tp": None, "pp": None, "cp": None} | split)
    reading: Any = SimpleNamespace(global_batch=stated, replica_batch=of_replica, pins=degrees)
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=f"^global batch of {expected}: a file states 64: expected one of them"):
            merged_batches(given, reading, (8, 16, 8), "a file")
    else:
        assert merged_batches(given, reading, (8, 16, 8), "a file") == expected


def test_what_a_file_leaves_open_is_the_callers() -> None:
    both = merged_pins(Pins(tp=2, recomputation="full"), Pins(tp=2, pp=4, sequence_parallel=False), "a file")
    assert both == Pins(tp=2, pp=4, recomputation="full", sequence_parallel=False)
    for given, stated, told in (
        (Pins(tp=4), Pins(tp=2), "--tp 4: a file states 2"),
        (Pins(micro_batch=4), Pins(micro_batch=2), "--pin micro_batch=4: a file states 2"),
        (Pins(recomputation="full"), Pins(recomputation="none"), "--pin recompute=full: a file states none"),
        (Pins(sequence_parallel=True), Pins(sequence_parallel=False), "--pin sequence_parallel=True: a file states"),
    ):
        with pytest.raises(ConfigError, match=f"^{re.escape(told)}"):
            merged_pins(given, stated, "a file")
