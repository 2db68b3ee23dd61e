"""A ring in one process gives what a ring of ranks gives, and loses nothing that feedback does not keep."""

from __future__ import annotations

from itertools import pairwise
from threading import Barrier, Thread

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lightloom.core.arrays import Float32s
from lightloom.exchange.compression.registry import find
from lightloom.exchange.transport.channel import Payload
from lightloom.exchange.transport.ring_all_reduce import all_reduce_in_place
from lightloom.papers.runs.digits import BOUNDS, tag_shares
from lightloom.papers.runs.emulated import emulated_ring_sum, partial_sums, perceptron_gradients, shares_by_loss

CODECS = ("inceptionn:2^-10", "inceptionn-printed:2^-8", "truncate:22")


class _Threads:
    """A ring of threads: each leaves its payload where the next one takes it."""

    def __init__(self, rank: int, size: int, mail: list[Payload], barrier: Barrier) -> None:
        self.rank, self.size, self._mail, self._barrier = rank, size, mail, barrier

    def exchange(self, payload: Payload, *, marked: bool, limit: int) -> Payload:
        self._mail[(self.rank + 1) % self.size] = bytes(payload)
        self._barrier.wait()
        received = self._mail[self.rank]
        self._barrier.wait()
        return received


def _gradients(ranks: int, size: int, seed: int) -> Float32s:
    return np.random.default_rng(seed).laplace(0, 2e-3, (ranks, size)).astype(np.float32)


@given(st.integers(2, 5), st.integers(1, 60), st.integers(0, 99), st.sampled_from(CODECS))
@settings(deadline=None, max_examples=15)
def test_it_gives_the_bits_and_the_bytes_of_a_ring_of_ranks(ranks: int, size: int, seed: int, name: str) -> None:
    values, codec = _gradients(ranks, size, seed), find(name)
    mail: list[Payload] = [b""] * ranks
    barrier, rows, sent = Barrier(ranks), values.copy(), [0] * ranks

    def work(rank: int) -> None:
        sent[rank] = all_reduce_in_place(_Threads(rank, ranks, mail, barrier), rows[rank], codec)

    threads = [Thread(target=work, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    emulated = emulated_ring_sum(values.copy(), codec)
    for row in rows:
        np.testing.assert_array_equal(row, emulated.total)
    if size >= ranks:
        assert emulated.nbytes_sent == sum(sent)


@given(st.integers(2, 5), st.integers(5, 60), st.integers(0, 99), st.sampled_from(CODECS))
@settings(deadline=None, max_examples=15)
def test_what_is_taken_away_is_left_with_the_ranks(ranks: int, size: int, seed: int, name: str) -> None:
    values = _gradients(ranks, size, seed)
    left = values.copy()
    total, _ = emulated_ring_sum(left, find(name), leave=True)
    np.testing.assert_allclose(total + left.sum(axis=0), values.sum(axis=0), atol=1e-6)


def test_the_scale_of_the_loss_changes_no_step_in_float32() -> None:
    pytest.importorskip("torch")
    from lightloom.exchange.datasets import Digits
    from lightloom.papers.runs.digits import ImageSets, Recipe
    from lightloom.papers.runs.emulated import train

    chance = np.random.default_rng(0)
    digits = Digits(chance.integers(0, 256, (80, 784), dtype=np.uint8), chance.integers(0, 10, 80, dtype=np.uint8))
    losses = []
    for scale in (1.0, 32.0):
        recipe = Recipe(
            seed=0,
            network="lenet",
            gradient_scale=scale,
            iterations=4,
            batch_per_rank=4,
            record_every=1,
            weight_decay=0.1,
        )
        record = train(recipe, ImageSets(digits, digits), 2)
        losses.append(record["loss"])
        assert len(record["accuracy"]) == 4
    assert losses[0] == losses[1]
    assert losses[0][-1] != losses[0][0]


@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 5), st.floats(0.5, 30), st.integers(0, 99))
@settings(deadline=None, max_examples=15)
def test_gradients_of_all_ranks_at_once_are_those_of_each(
    ranks: int, layers: int, batch: int, scale: float, seed: int
) -> None:
    torch.manual_seed(seed)
    widths = [6, *[5] * (layers - 1), 3]
    pairs = [(nn.Linear(width, following), nn.ReLU()) for width, following in pairwise(widths)]
    net = nn.Sequential(*[layer for pair in pairs for layer in pair][:-1])
    images, labels = torch.rand(ranks, batch, 6), torch.randint(3, (ranks, batch))
    rows = torch.empty(ranks, sum(parameter.numel() for parameter in net.parameters()))
    first = perceptron_gradients(net, images, labels, scale, rows)
    for rank, row in enumerate(rows):
        loss = nn.functional.cross_entropy(net(images[rank]), labels[rank])
        pieces = torch.autograd.grad(scale * loss, list(net.parameters()))
        assert torch.allclose(row, torch.cat([piece.flatten() for piece in pieces]), rtol=1e-4, atol=1e-5)
        assert rank or torch.isclose(first, loss)


@given(st.integers(2, 5), st.integers(1, 60), st.integers(0, 99))
def test_partial_sums_are_what_the_ring_sends(ranks: int, size: int, seed: int) -> None:
    values = _gradients(ranks, size, seed)
    sums = partial_sums(values)
    np.testing.assert_allclose(sums[-1], values.sum(axis=0), rtol=1e-4, atol=1e-8)
    blocks = np.array_split(np.arange(size), ranks)
    for block, places in enumerate(blocks):
        np.testing.assert_array_equal(sums[0, places], values[block, places])
    # Where nothing is lost, the ring sends each partial sum once and the whole one to all others.
    codec, values = find("inceptionn:2^-10"), (np.sign(values) * 2.0**-9).astype(np.float32)
    sums = partial_sums(values)
    messages = [row[part] for row in (*sums[:-1], *[sums[-1]] * (ranks - 1)) for part in blocks if part.size]
    sent = sum(codec.encode(message).nbytes for message in messages)
    assert sent == emulated_ring_sum(values.copy(), codec).nbytes_sent


@given(st.integers(1, 400), st.integers(1, 64), st.integers(0, 99))
def test_shares_without_encoding_are_those_of_the_tags(size: int, batch: int, seed: int) -> None:
    values = (100 * _gradients(1, size, seed)[0]) ** 3
    for loss, scale in (("mean", 1), ("summed", batch)):
        expected = [tag_shares(np.float32(scale) * values, k) for k in BOUNDS]
        np.testing.assert_allclose(shares_by_loss(values, batch)[loss], expected, atol=1e-12)
