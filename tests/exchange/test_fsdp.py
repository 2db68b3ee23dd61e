"""FSDP2 with exchanges: gradients near its own, nodes equal, loss scales, checkpoints, stepping aside, refusals."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.distributed.fsdp import FsdpState
from lightloom.exchange.distributed.residuals import Geometry
from lightloom.exchange.transport.launch import launch
from tests.launched import RANKS, TIMEOUT, Processes

ERRORS = {
    "float32": 1e-6,
    "int4:block=16": 0.2,
    "inceptionn:scaled": 0.1,
    "topk:share=0.2": 1.0,
    "powersgd:rank=2": 1.0,
}
"""By method, the largest error of one gradient, relative to its size."""
FLAT = ("float32", "int4:block=16")
"""Methods of gradients that are sharded over all ranks."""
HYBRID = ("topk:share=0.2",)
"""Methods between nodes, gradients sharded inside them."""


ARGUMENTS = {"flat": FLAT, "hybrid": HYBRID, "reduced": [("flat", "float32"), ("hybrid", "bfloat16")]}
"""Of ``fsdp_workers.everything``."""


@pytest.fixture
def ranks(sharding: None, processes: Processes) -> list[dict[str, Any]]:
    return processes.results("sharded")


@pytest.mark.long
@pytest.mark.parametrize(("mesh", "text"), [*(("flat", text) for text in FLAT), *(("hybrid", text) for text in HYBRID)])
def test_gradients_are_exchanged_by_a_method(ranks: list[dict[str, Any]], mesh: str, text: str) -> None:
    check(ranks, mesh, text)


@pytest.mark.slow
@pytest.mark.usefixtures("sharding")
def test_gradients_are_exchanged_by_more_methods() -> None:
    arguments: dict[str, Any] = {"flat": ["inceptionn:scaled"], "hybrid": ["int4:block=16", "powersgd:rank=2"]}
    arguments["reduced"] = [("flat", "bfloat16"), ("hybrid", "float32")]
    ranks = [outcome.value for outcome in launch("tests.exchange.fsdp_workers:everything", RANKS, TIMEOUT, arguments)]
    for mesh in ("flat", "hybrid"):
        for text in arguments[mesh]:
            check(ranks, mesh, text)
    check_reduced(ranks)


def check(ranks: list[dict[str, Any]], mesh: str, text: str) -> None:
    """Assert the laws of one method."""
    results = [rank[mesh][text] for rank in ranks]
    for result in results:
        assert result["error"] <= ERRORS[text]
        assert result["resumed"], "resumed, it goes on otherwise"
        assert result["scaled"] or "powersgd" in text
        assert result["buckets"] == 3 * result["steps"]
        assert result["ratio"] > (0.99 if text == "float32" else 1.5)
    first, last = (sum(result["losses"][at] for result in results) for at in (0, -1))
    assert last < 0.9 * first
    if mesh == "hybrid":  # ranks 0 and 2 have the same shards, and 1 and 3
        assert [result["weights"] for result in results[:2]] == [result["weights"] for result in results[2:]]


@pytest.mark.long
def test_residuals_are_given_back_when_the_plain_exchange_is_faster(ranks: list[dict[str, Any]]) -> None:
    assert max(max(rank["aside"]) for rank in ranks) < 1e-6


@pytest.mark.long
def test_gradients_accumulate_and_are_reduced_in_other_types(ranks: list[dict[str, Any]]) -> None:
    check_reduced(ranks)


def check_reduced(ranks: list[dict[str, Any]]) -> None:
    """Assert that losses fall, whatever type gradients are reduced in."""
    for every in zip(*(rank["reduced"] for rank in ranks), strict=True):
        losses = [sum(losses) for losses in zip(*every, strict=True)]
        assert losses[5] < losses[1]


@pytest.mark.long
def test_what_cannot_be_done_is_refused(ranks: list[dict[str, Any]]) -> None:
    expected = [
        "no fully_shard-ed module",
        "pass between= the group",
        "averages whole gradients and cannot shard them",
        "does not average gradients at every step",
    ]
    for rank in ranks:
        assert all(words in line for words, line in zip(expected, rank["refused"], strict=True)), rank["refused"]


def test_a_torch_whose_reduce_scatter_cannot_be_replaced_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.fsdp import FSDPModule
    from torch.nn import Linear

    from lightloom.exchange.distributed.fsdp import sharded_modules

    monkeypatch.delattr(FSDPModule, "set_custom_reduce_scatter", raising=False)
    model = Linear(2, 2)
    model.__class__ = type("ShardedLinear", (FSDPModule, Linear), {})
    with pytest.raises(UnsupportedError, match=r"^torch \S+ does not let FSDP2's .*: 2\.9 does$"):
        sharded_modules(model)


class OneOfTwoRanks:
    """An exchanger of one rank of two, which leaves averages alone."""

    any_type, remark = False, ""
    group = SimpleNamespace(base=SimpleNamespace(size=lambda: 2), ranks=2, rank=1, sent=0)

    def check_type(self, dtype: torch.dtype) -> None: ...
    def average_tensor(self, values: Any, geometry: Geometry, scale: float) -> None: ...
    def drain(self, geometry: Geometry, device: object) -> None: ...


@given(st.lists(st.integers(0, 2), min_size=1, max_size=9), st.booleans())
def test_a_step_in_which_a_module_has_no_turn_is_counted_by_itself(turns: list[int], plain: bool) -> None:
    geometries = [Geometry.joined([(str(module), (8 + module,))]) for module in range(3)]
    state = FsdpState(OneOfTwoRanks(), geometries, adaptive=True)  # type: ignore[arg-type]
    state.adaptive = SimpleNamespace(use_plain=plain, end_step=lambda arrived: None)  # type: ignore[assignment]
    expected: list[set[int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.distributed.all_reduce", lambda values, group: None)
        for module in turns:
            # A step ends once all modules have had a turn, or one has another.
            if not expected or len(expected[-1]) == 3 or module in expected[-1]:
                expected.append(set())
            expected[-1].add(module)
            state.all_reduce(torch.zeros(8 + module), geometry=geometries[module])
    counted = state.statistics
    assert [step.plain_buckets if plain else step.buckets for step in counted.steps] == [len(each) for each in expected]
    assert counted.step_count == len(expected)
    assert counted.plain_steps == plain * (len(expected) - (len(expected[-1]) < 3))
