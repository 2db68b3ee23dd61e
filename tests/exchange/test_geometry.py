"""Geometries cover their buffers, shares divide them, and cuts do not depend on the bucket."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.exchange.distributed.residuals import Geometry, Piece, Residuals, cut_shares

lengths = st.lists(st.integers(1, 400), min_size=1, max_size=6)


def geometry_of(lengths: list[int], order: list[int] | None = None) -> Geometry:
    return Geometry.joined([(f"t{k}", (lengths[k],)) for k in order or range(len(lengths))])


@given(lengths, st.integers(1, 9), st.sampled_from([1, 8, 64]))
def test_shares_divide_the_buffer(lengths: list[int], ranks: int, block: int) -> None:
    geometry = geometry_of(lengths)
    shares = cut_shares(geometry, ranks, block)
    covered = np.zeros(geometry.size, int)
    for rank in range(ranks):
        slots = shares[rank].slots(geometry.size, torch.device("cpu")).numpy()
        assert slots.size == shares[rank].blocks * block
        np.add.at(covered, slots[slots < geometry.size], 1)
    assert (covered == 1).all()
    assert sum(share.blocks for share in shares) == sum(-(-length // block) for length in lengths)


@given(lengths, st.integers(2, 5), st.randoms(use_true_random=False))
def test_cuts_do_not_depend_on_the_bucket(lengths: list[int], ranks: int, random: object) -> None:
    order = list(range(len(lengths)))
    random.shuffle(order)  # type: ignore[attr-defined]
    cuts = []
    for geometry in (geometry_of(lengths), geometry_of(lengths, order)):
        shares, starts = cut_shares(geometry, ranks, 8), {p.offset: p.tensor for p in geometry.pieces}
        owners = {}
        for rank in range(ranks):
            for offset, length, _ in shares[rank].runs.tolist():
                start = max(begin for begin in starts if begin <= offset)
                owners[starts[start], offset - start] = (rank, length)
        cuts.append(owners)
    assert cuts[0] == cuts[1]


@pytest.mark.parametrize(
    "pieces",
    [
        [Piece("a", 0, 0, 4)],
        [Piece("a", 0, 0, 4), Piece("b", 0, 3, 5)],
        [Piece("a", 0, 0, 4), Piece("b", 0, 5, 4)],
        [Piece("a", 0, 1, 7)],
    ],
)
def test_a_buffer_that_is_not_covered_is_refused(pieces: list[Piece]) -> None:
    with pytest.raises(UnsupportedError, match="belongs to no tensor or to two"):
        Geometry(pieces, 8)


@given(lengths, st.randoms(use_true_random=False))
def test_residuals_follow_their_tensors(lengths: list[int], random: object) -> None:
    order = list(range(len(lengths)))
    random.shuffle(order)  # type: ignore[attr-defined]
    first, second = geometry_of(lengths), geometry_of(lengths, order)
    residuals = Residuals(1, 3)
    residuals.buffer(first).copy_(torch.arange(first.size))
    before = residuals.by_tensor()
    residuals.buffer(second)
    after = residuals.by_tensor()
    assert all(torch.equal(before[name], after[name]) for name in before)
    resumed = Residuals(1, 3, {f"t{k}": length for k, length in enumerate(lengths)})
    resumed.load_state_dict(residuals.state_dict())
    assert torch.equal(resumed.buffer(second), residuals.buffer(second))
    drained = residuals.drain(second)
    assert drained is not None
    assert drained.sum() == first.size * (first.size - 1) / 2
    assert residuals.drain(second) is None


def test_a_checkpoint_of_another_run_is_refused() -> None:
    state = Residuals(0, 2, {"w": 3}).state_dict()
    with pytest.raises(ConfigError, match="this run has 4"):
        Residuals(0, 4).load_state_dict(state)
    with pytest.raises(ConfigError, match="another rank"):
        Residuals(1, 2).load_state_dict(state)
    with pytest.raises(ConfigError, match="differ in parameter 'v'"):
        Residuals(0, 2, {"v": 3, "w": 3}).load_state_dict(state)
