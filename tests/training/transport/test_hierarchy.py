"""Rings of rings and the aggregator above rings: the laws of the flat ring, in threads and in eight real processes."""

from __future__ import annotations

import signal
import socket
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import pytest
from numpy.typing import NDArray

from lightloom.core.arrays import Float32s
from lightloom.core.errors import ConfigError
from lightloom.exchange.compression.codec import Codec
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.transport.channel import Traffic, TransportError
from lightloom.exchange.transport.hierarchy import (
    Groups,
    aggregate,
    aggregator_from_store,
    hierarchy_from_store,
)
from tests.training.transport.rings import PATIENCE, LocalStore, results
from tests.training.transport.test_ring_all_reduce import gradients, ring_sum

BOUND = 2.0**-10
UNEVEN = ((2, 0, 5), (1,), (4, 3))
SHAPES = [
    Groups.of(2, 2),
    Groups.of(4, 2),
    Groups.of(2, 4),
    Groups.of(3, 1),
    Groups.of(1, 3),
    Groups(UNEVEN),
    Groups.of(2, 2, aggregator=True),
    Groups.of(1, 2, aggregator=True),
    Groups.of(3, 1, aggregator=True),
    Groups(UNEVEN, aggregator=6),
]
Brought = tuple[Float32s, Float32s, Traffic]


def workers(groups: Groups) -> int:
    return sum(len(group) for group in groups.members)


def exchange(groups: Groups, values: list[Float32s], codec: Codec | None) -> tuple[list[Brought], Float32s]:
    """By worker: total, residual, traffic; and the aggregator's residual."""
    store, extra = LocalStore(), np.zeros_like(values[0])

    def run(rank: int) -> Brought:
        residual = np.full_like(values[0], 7)
        if rank == groups.aggregator:
            with aggregator_from_store(store, groups, timeout=PATIENCE) as node:
                return extra, residual, aggregate(node, groups, extra.size, codec, extra)
        with hierarchy_from_store(store, rank, groups, timeout=PATIENCE) as place:
            total, traffic = place.all_reduce(values[rank], codec, residual)
            again, _ = place.all_reduce(values[rank], codec) if groups.aggregator is None else (total, traffic)
            assert again.tobytes() == total.tobytes()
            return total, residual, traffic

    size = workers(groups) + (groups.aggregator is not None)
    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
        wait(futures)
    brought: list[Brought] = results([future.exception() or future.result() for future in futures])  # type: ignore[misc]
    return brought[: workers(groups)], extra


def stated_sum(groups: Groups, values: list[Float32s]) -> Float32s:
    """The order of ``Hierarchy.all_reduce``: around each group, then around the leaders, slice by slice."""
    sums = [ring_sum([values[rank] for rank in group]) for group in groups.members]
    if groups.aggregator is not None:
        total = np.zeros_like(sums[0])
        for each in sums:
            total += each
        return total
    parts = [np.array_split(each, groups.slices) for each in sums]
    return np.concatenate([ring_sum([part[k] for part in parts]) for k in range(groups.slices)])


@pytest.mark.parametrize("groups", SHAPES, ids=str)
def test_without_a_codec_the_sum_has_the_stated_order_bit_for_bit(groups: Groups) -> None:
    for length in (0, 5, 1001):
        values = gradients(workers(groups), length)
        brought, _ = exchange(groups, values, None)
        expected = stated_sum(groups, values).tobytes()
        for total, residual, traffic in brought:
            assert total.tobytes() == expected
            assert not residual.any()
            assert traffic.nbytes_raw == traffic.nbytes_sent


@pytest.mark.parametrize("groups", SHAPES, ids=str)
def test_with_the_codec_replicas_agree_and_residuals_hold_what_is_missing(groups: Groups) -> None:
    length = 4099
    values = gradients(workers(groups), length)
    brought, extra = exchange(groups, values, Inceptionn(bound=BOUND))
    total = brought[0][0]
    assert all(other.tobytes() == total.tobytes() for other, _, _ in brought)
    exact: NDArray[np.float64] = np.sum(values, axis=0, dtype=np.float64)
    encodings = workers(groups) + len(groups.members) + (groups.aggregator is not None)
    assert np.all(np.abs(total - exact) <= encodings * BOUND * (1 + 1e-5))
    missing = extra + np.sum([residual for _, residual, _ in brought], axis=0, dtype=np.float64)
    np.testing.assert_allclose(total + missing, exact, rtol=0, atol=1e-6)
    assert all(traffic.nbytes_raw > 3 * traffic.nbytes_sent for _, _, traffic in brought if traffic.nbytes_raw)


def test_groups_hold_every_rank_once() -> None:
    assert Groups.of(2, 4).leaders == (0, 4)
    for members, aggregator in ((((0, 1), (1, 2)), None), (((0,), ()), None), (((0, 1),), 1), (((1, 2),), None)):
        with pytest.raises(ConfigError, match="expected each rank from 0 once"):
            Groups(members, aggregator)
    outside = hierarchy_from_store(LocalStore(), 4, Groups.of(2, 2, aggregator=True))
    with pytest.raises(ConfigError, match="in none of the groups"), outside:
        pass
    with pytest.raises(ConfigError, match="no aggregator"):
        aggregator_from_store(LocalStore(), Groups.of(2, 2))


@pytest.mark.parametrize("victim", [2, 4], ids=["member", "leader"])
def test_a_death_anywhere_is_told_everywhere(victim: int) -> None:
    groups, store = Groups.of(2, 4), LocalStore()

    def run(rank: int) -> str:
        with hierarchy_from_store(store, rank, groups, timeout=PATIENCE) as place:
            for step in range(100):
                if rank == victim and step == 3:
                    for peers in (place.above, place.ring):  # without a word
                        for sock in peers._sockets if peers is not None else ():
                            sock.shutdown(socket.SHUT_RDWR)
                    return ""
                try:
                    place.all_reduce(np.ones(50_000, np.float32), Inceptionn(bound=BOUND))
                except TransportError as error:
                    return str(error)
        return "nobody noticed"

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(run, range(8)))
    assert said[victim] == ""
    for rank, words in enumerate(said):
        assert rank == victim or (words.startswith(f"rank {rank}: ") and "closed its connection" in words), said


@pytest.mark.slow
def test_eight_processes() -> None:
    """2 groups of 4, 4 groups of 2, 7 workers with an aggregator; then one is killed in the middle of a hop."""
    pytest.importorskip("torch", reason="workers form a torch process group")
    from lightloom.exchange.transport.launch import launch
    from tests.training.transport import exchange_workers

    victim = 5
    outcomes = launch(exchange_workers.rings_of_rings, 8, 240, {"victim": victim}, check=False)
    assert [outcome.rank for outcome in outcomes if outcome.value is None] == [victim], outcomes
    assert outcomes[victim].error == f"no result, exit code {-signal.SIGKILL}"
    alive = [outcome.value for outcome in outcomes if outcome.rank != victim]
    for name in alive[0]["digests"]:
        assert len({value["digests"][name] for value in alive if value["digests"][name]}) == 1, name
        assert all(value["encodings"][name] <= 8 + 4 for value in alive)
    for value in alive:
        assert value["death"].startswith("TransportError: rank ") and "\n" not in value["death"]
    assert any(f"rank {victim} closed its connection" in value["death"] for value in alive)
