"""Residuals belong to tensors, and to one rank of one run."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.exchange.distributed.residuals import Geometry, Residuals
from lightloom.exchange.distributed.ring_exchange import TensorBlocks


def geometry_of(lengths: dict[str, int]) -> Geometry:
    return Geometry.joined([(name, (length,)) for name, length in lengths.items()])


def keep(residuals: Residuals, geometry: Geometry, *values: float) -> None:
    """Leave values behind, as an exchange would."""
    residuals.buffer(geometry).copy_(torch.tensor(values))


def by_tensor(residuals: Residuals) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in residuals.by_tensor().items()}


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(2, 9))
def test_blocks_do_not_depend_on_the_order_of_tensors(lengths: list[int], ranks: int) -> None:
    """Which block a value lies in is a matter of its tensor alone, and scatter undoes gather."""
    named = {f"p{k}": length for k, length in enumerate(lengths)}
    block_of = []
    for order in (named, dict(reversed(named.items()))):
        geometry = geometry_of(order)
        cut, flat = TensorBlocks(geometry, ranks), torch.arange(float(sum(lengths)))
        blocks = cut.split(torch.zeros(geometry.size))
        cut.gather(flat, blocks)
        cut.gather(flat, blocks, add=True)
        again, marks = torch.zeros_like(flat), torch.zeros_like(flat)
        for k, block in enumerate(blocks):
            cut.scatter(k, block, again, 0.5)
            cut.scatter(k, torch.full_like(block, k), marks)
        assert torch.equal(again, flat)
        places = {piece.tensor: slice(piece.offset, piece.offset + piece.length) for piece in geometry.pieces}
        block_of.append({name: marks[place].tolist() for name, place in places.items()})
    assert block_of[0] == block_of[1]


def test_residuals_follow_their_tensor_into_other_buckets() -> None:
    residuals = Residuals(0, 2)
    keep(residuals, geometry_of({"a": 2, "b": 3}), 0, 1, 2, 3, 4)
    keep(residuals, geometry_of({"c": 1}), 7)
    after = [geometry_of({"b": 3}), geometry_of({"c": 1, "a": 2})]
    assert [residuals.buffer(geometry).tolist() for geometry in after] == [[2, 3, 4], [7, 0, 1]]
    assert by_tensor(residuals) == {"a": [0, 1], "b": [2, 3, 4], "c": [7]}


def test_what_is_drained_is_given_once() -> None:
    residuals, geometry = Residuals(0, 2), geometry_of({"a": 2, "b": 3})
    for values in ([0, 1, 2, 3, 4], [1] * 5):
        keep(residuals, geometry, *values)
        drained = residuals.drain(geometry)
        assert drained is not None and drained.tolist() == values
        assert residuals.drain(geometry) is None
        assert not any(values.any() for values in residuals.by_tensor().values())


def test_a_checkpoint_goes_back_only_where_it_came_from() -> None:
    from torch.distributed.checkpoint.stateful import Stateful

    sizes = {"a": 2, "b": 3}
    residuals, geometry = Residuals(1, 4, sizes), geometry_of(sizes)
    assert isinstance(residuals, Stateful)
    keep(residuals, geometry, 0, 1, 2, 3, 4)
    saved = residuals.state_dict()
    keep(residuals, geometry, *[9] * 5)
    fresh = Residuals(1, 4, sizes)
    fresh.load_state_dict(saved)
    assert by_tensor(fresh) == {"a": [0, 1], "b": [2, 3, 4]}
    for other, complaint in (
        (Residuals(1, 2, sizes), "of 4 ranks, this run has 2"),
        (Residuals(0, 4, sizes), "another rank than 0"),
        (Residuals(1, 4, {"a": 2, "c": 3}), "differ in parameter 'b'"),
        (Residuals(1, 4, {"a": 2, "b": 4}), "'b' has 3 values, the parameter 4"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            other.load_state_dict(saved)
    unnamed = Residuals(1, 4)
    unnamed.load_state_dict(saved)
    with pytest.raises(ConfigError, match="another model"):
        unnamed.buffer(geometry_of({"b": 9}))
