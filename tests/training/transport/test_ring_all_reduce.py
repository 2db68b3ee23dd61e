"""The ring's sum over real sockets: exact without a codec, within its bound with one, the same bits everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.support.socket_ring import Ring, Traffic, ring_all_reduce
from numpy.typing import NDArray

from lightloom.core.arrays import Float32s
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.transport.channel import TransportError
from tests.training.transport.rings import on_ring, results

SIZES = [2, 3, 4, 5]
LENGTHS = [0, 1, 3, 7, 64, 1001, 300_001]
BOUND = 2.0**-10


def gradients(size: int, length: int, scale: float = 2e-3) -> list[Float32s]:
    return [np.random.default_rng(rank).laplace(0, scale, length).astype(np.float32) for rank in range(size)]


def ring_sum(values: list[Float32s]) -> Float32s:
    """The sum of block b in the order in which it travels: ranks b, b + 1, ..."""
    n = len(values)
    parts = [np.array_split(v, n) for v in values]
    total = []
    for b in range(n):
        block = parts[b][b].copy()
        for step in range(1, n):
            block += parts[(b + step) % n][b]
        total.append(block)
    return np.concatenate(total)


@pytest.mark.parametrize("size", SIZES)
def test_without_a_codec_the_sum_is_the_rings_bit_for_bit(size: int) -> None:
    def job(ring: Ring) -> list[tuple[Float32s, Traffic]]:
        return [ring_all_reduce(ring, gradients(size, length)[ring.rank]) for length in LENGTHS]

    for outcome in results(on_ring(size, job)):
        for length, (total, traffic) in zip(LENGTHS, outcome, strict=True):
            assert total.tobytes() == ring_sum(gradients(size, length)).tobytes()
            assert traffic.nbytes_sent == traffic.nbytes_raw


@pytest.mark.parametrize("size", SIZES)
def test_with_the_codec_replicas_agree_within_its_bound_a_hop(size: int) -> None:
    def job(ring: Ring) -> list[tuple[Float32s, Traffic]]:
        codec = Inceptionn(bound=BOUND)
        return [ring_all_reduce(ring, gradients(size, length)[ring.rank], codec) for length in LENGTHS]

    outcomes = results(on_ring(size, job))
    for k, length in enumerate(LENGTHS):
        total, traffic = outcomes[0][k]
        assert all(outcome[k][0].tobytes() == total.tobytes() for outcome in outcomes)
        exact = np.sum(gradients(size, length), axis=0, dtype=np.float64)
        assert np.all(np.abs(total - exact) <= size * BOUND * (1 + 1e-5))
    assert traffic.nbytes_raw > 3 * traffic.nbytes_sent


@pytest.mark.parametrize("size", SIZES)
def test_what_was_sent_and_what_was_kept_make_up_the_gradients(size: int) -> None:
    """Nothing is lost over many steps: Σ steps of the sum + the last residuals = Σ steps of the gradients."""
    length, steps = 4099, 20

    def job(ring: Ring) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        codec, draw = Inceptionn(bound=2**-6), np.random.default_rng(ring.rank)
        sent, given = np.zeros(length), np.zeros(length)
        residual = np.zeros(length, np.float32)
        for _ in range(steps):
            gradient = draw.normal(1e-3, 2e-3, length).astype(np.float32)
            given += gradient
            total, _ = ring_all_reduce(ring, gradient + residual, codec, residual)
            sent += total
            assert np.abs(residual).max() < 2**-6
        return sent, given - residual

    outcomes = results(on_ring(size, job))
    delivered = sum(kept for _, kept in outcomes)
    np.testing.assert_allclose(outcomes[0][0], delivered, rtol=0, atol=1e-5)
    assert np.abs(outcomes[0][0]).max() > 2**-6


def test_values_that_are_not_finite_arrive_and_leave_no_residual() -> None:
    def job(ring: Ring) -> tuple[Float32s, Float32s]:
        values = np.array([np.inf, np.nan, 3e38, 1.5, 1e-4, -np.inf, 0], np.float32)
        residual = np.ones_like(values)
        return ring_all_reduce(ring, values, Inceptionn(bound=BOUND), residual)[0], residual

    for total, residual in results(on_ring(3, job)):
        np.testing.assert_array_equal(total[[0, 1, 2, 3, 5]], [np.inf, np.nan, np.inf, 4.5, -np.inf])
        assert np.isfinite(residual).all()


def test_ranks_out_of_step_are_named() -> None:
    def lengths(ring: Ring) -> Float32s:
        return ring_all_reduce(ring, np.ones(40 if ring.rank == 1 else 30, np.float32))[0]

    def codecs(ring: Ring) -> Float32s:
        codec = Inceptionn(bound=BOUND) if ring.rank == 1 else None
        return ring_all_reduce(ring, np.ones(40, np.float32), codec)[0]

    for job in (lengths, codecs):
        outcomes = on_ring(3, job)
        assert all(isinstance(outcome, TransportError) for outcome in outcomes), outcomes
        assert any("rank 1" in str(outcome) for outcome in outcomes)
