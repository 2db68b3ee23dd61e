"""Layouts of outputs over parts, and what parts read of tensors that lack an axis."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightloom.models.graph import Operator
from lightloom.planning.parallelism.placement.cuts import (
    SPLITS,
    Layout,
    Need,
    axis_size,
    bounds,
    exchange,
    exchanged_fraction,
    layout,
    need,
    region,
    split_size,
)


@pytest.mark.parametrize("kind", ["attention", "matmul", "softmax", "linear", "conv", "norm", "pool"])
def test_a_layout_cuts_all_elements_of_its_axis_and_tensors_without_it_have_one(kind: str) -> None:
    """Heads lie side by side along the channels, which need not be stated then; partial sums cut nothing.

    The heads of a softmax state no size: each is one element.
    """
    heads = {"sample": 8, "head": 4, "head_dim": 16, "sequence": 6}
    dimensions = (
        {"sample": 8, "head": 4, "sequence": 6}
        if kind == "softmax"
        else heads
        if kind in ("attention", "matmul")
        else {"sample": 8, "sequence": 6, "height": 10, "channel": 12, "in_channel": 24}
    )
    operator = Operator(name=kind, kind=kind, dimensions=dimensions)
    for split, parts in product(SPLITS[kind], (2, 4)):
        if split_size(operator, split):
            made = layout(operator, split, parts)
            edges = bounds(made.size, parts, made.unit)
            assert made.size == axis_size(operator, made.axis) and made.parts == parts
            assert edges[-1] == made.size and not (edges % made.unit).any()
            assert made.partial == split.partial == (made.axis == "")
            read = need(operator, split, parts, 0)
            assert read.size == operator.dimensions[split.dimension] * made.unit and made.unit in (1, read.unit)
            assert read.parts == parts and (made.partial or (read.axis, read.unit) == (made.axis, made.unit))
    assert [axis_size(operator, axis) for axis in ("", "width", "depth")] == [1, 1, 1]
    assert axis_size(operator, "channel") == {"attention": 64, "matmul": 64, "softmax": 4}.get(kind, 12)
    assert axis_size(replace(operator, dimensions={"sample": 8}), "channel") == 1


def test_a_tensor_without_the_axis_is_read_whole() -> None:
    """By every part, whatever cuts what it reads."""
    operator = Operator(name="pool", kind="pool", dimensions={"sample": 8})
    for axis in ("height", "sequence"):
        consumed = Need("own", axis, 3, 6, 1, 1)
        sent = exchange(layout(operator, SPLITS["pool"][0], 4), consumed, axis_size(operator, axis))
        assert np.bincount(sent.destination, sent.fraction).tolist() == [1.0, 1.0, 1.0]
        assert sorted(zip(sent.source.tolist(), sent.destination.tolist(), strict=True)) == list(
            product(range(4), range(3))
        )


@given(st.integers(1, 24), st.integers(1, 6), st.integers(1, 12), st.integers(1, 4))
@settings(deadline=None)
def test_a_halo_reaches_as_far_as_some_convolution_of_these_sizes_reads(
    size: int, kernel: int, output: int, parts: int
) -> None:
    """Of any stride, with any padding up to the kernel's size, halved between the ends, or half a stride farther."""
    low, high = region(Need("halo", "height", parts, output, 1, kernel), size)
    ways = [
        (stride, padding // 2 + odd)
        for stride in range(1, size + 1)
        for padding in range(max((output - 1) * stride + kernel - size, 0), kernel + stride)
        for odd in range(1 + padding % 2)
        if (size + padding - kernel) // stride + 1 == output and (output - 1) * stride <= size
    ]
    if not ways:
        return
    edges = bounds(output, parts)
    first = np.min([edges[:-1] * stride - begin for stride, begin in ways], axis=0)
    last = np.max([(edges[1:] - 1) * stride - begin + kernel for stride, begin in ways], axis=0)
    assert (high == np.clip(last, 0, size)).all()
    assert (low <= np.clip(first, 0, size)).all()
    assert (low >= np.clip(first - max(stride for stride, _ in ways) // 2, 0, size)).all()


@given(made=st.integers(1, 6), wanted=st.integers(1, 6), size=st.integers(2, 12), outputs=st.integers(1, 12))
@example(made=4, wanted=3, size=2, outputs=5)
@example(made=3, wanted=2, size=6, outputs=6)
@example(made=2, wanted=4, size=8, outputs=8)
@settings(deadline=None)
def test_a_part_sends_the_elements_that_it_holds_of_those_that_are_read(
    made: int, wanted: int, size: int, outputs: int
) -> None:
    """Set by set, also where some parts hold nothing; along another axis, its share of them."""
    holds = [set(range(part * size // made, (part + 1) * size // made)) for part in range(made)]
    edges = [part * outputs // wanted for part in range(wanted + 1)]
    own = [set(range(low * size // outputs, -(-high * size // outputs))) for low, high in pairwise(edges)]
    for reads, axis in product(("own", "whole"), ("channel", "sample")):
        read = own if reads == "own" else [set(range(size))] * wanted
        produced = Layout("channel", made, size, 1, False)
        consumed = Need(reads, axis, wanted, outputs, 1, 1)  # type: ignore[arg-type]
        sent = exchange(produced, consumed, size)
        found = np.zeros((made, wanted))
        np.add.at(found, (sent.source, sent.destination), sent.fraction)
        expected = [
            [len(a & b) / size if axis == "channel" else len(a) * len(b) / size**2 for b in read] for a in holds
        ]
        assert np.allclose(found, expected, rtol=1e-12)
        near = [
            [a == b * made // wanted if made <= wanted else b == a * wanted // made for b in range(wanted)]
            for a in range(made)
        ]
        assert np.isclose(exchanged_fraction(produced, consumed, sent), found[~np.array(near)].sum())


@given(groups=st.integers(1, 12), parts=st.integers(2, 12))
@example(groups=4, parts=2)
@example(groups=4, parts=3)
@example(groups=2, parts=4)
def test_parts_that_divide_the_groups_of_a_convolution_read_their_own_channels_and_others_all(
    groups: int, parts: int
) -> None:
    operator = Operator(name="c", kind="conv", dimensions={"channel": 24, "in_channel": 24, "groups": groups})
    (channel,) = (split for split in SPLITS["conv"] if split.dimension == "channel")
    assert need(operator, channel, parts, 0).reads == ("whole" if groups % parts else "own")
    (summed,) = (split for split in SPLITS["conv"] if split.partial)
    assert split_size(operator, summed) == (24 if groups == 1 else 0)
