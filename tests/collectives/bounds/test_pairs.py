"""All pairs over circuits that stand: links and blocks of two hops, and of the first hop and the last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.lower_bound import lower_bound, ring_bounds
from lightloom.collectives.bounds.priced import (
    _most_blocks,
    blocks_in_two_hops,
    ends_seconds,
    two_hops_join,
)
from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import costed
from lightloom.collectives.synthesis.engine.trees import Timing
from lightloom.collectives.synthesis.exchange.search import Designs, Exchange, Trial, exchange_schedule, plan
from lightloom.collectives.verify.verifier import verify
from lightloom.core.arrays import Floats, Ints
from tests.collectives.strategies import wdm_ring

Lightpaths = list[tuple[int, int]]
"""Where they start, and links that they pass, less than zero counter-clockwise."""


def lightpaths(ranks: int, channels: int, rng: np.random.Generator) -> Lightpaths:
    """As many as fit, between hubs and ranks, among hubs, or between any, long or short."""
    load = np.zeros((2, ranks), np.int64)
    hubs = rng.permutation(ranks)[: rng.integers(1, max(2, ranks // 3))]
    placed: Lightpaths = []
    among, exponent = rng.random(), rng.uniform(0, 2)
    for _ in range(4 * ranks * channels):
        length = 1 + int((ranks - 1) * rng.random() ** (1 + exponent))
        signed = length if rng.random() < 0.5 else -length
        start = int(rng.choice(hubs)) if rng.random() < among else int(rng.integers(ranks))
        if rng.random() < 0.5:
            start = (start - signed) % ranks
        links = (start + np.arange(length) - (length if signed < 0 else 0)) % ranks
        way = int(signed < 0)
        if (load[way, links] < channels).all():
            load[way, links] += 1
            placed.append((start, signed))
    return placed


def hub(ranks: int) -> Lightpaths:
    """All ranks around one, on (ranks − 1) / 2 wavelengths each way."""
    half = ranks // 2
    return [path for d in range(1, half + 1) for path in ((0, d), (0, -d), (d, -d), (-d % ranks, d))]


def joined(ranks: int, placed: Lightpaths) -> tuple[Ints, Ints]:
    """Lightpaths between ranks, and pairs that two hops join: [source, target]."""
    direct = np.zeros((ranks, ranks), np.int64)
    for start, signed in placed:
        direct[start, (start + signed) % ranks] = 1
    np.fill_diagonal(direct, 0)
    pairs = (direct + direct @ direct > 0).astype(np.int64)
    np.fill_diagonal(pairs, 0)
    return direct, pairs


def distances(ranks: int) -> Ints:
    offset = np.abs(np.subtract.outer(np.arange(ranks), np.arange(ranks)))
    nearer: Ints = np.minimum(offset, ranks - offset)
    return nearer


def weights(ranks: int, channels: int, direct: Ints) -> tuple[Floats, Floats, float]:
    """1 − x² of sources, 1 − y² of targets, and G."""
    most = _most_blocks(ranks, channels, 2 * channels)
    share = np.minimum(1, np.stack([direct.sum(axis=0), direct.sum(axis=1)]) / most)
    return 1 - share[0] ** 2, 1 - share[1] ** 2, most


@given(st.integers(3, 40), st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_what_two_hops_join_is_no_farther_than_their_circuits_are_long(ranks: int, channels: int, seed: int) -> None:
    within_its_links(ranks, channels, lightpaths(ranks, channels, np.random.default_rng(seed)))


@pytest.mark.slow
def test_the_same_of_thousands_of_rings() -> None:
    rng = np.random.default_rng(0)
    for _ in range(3000):
        ranks, channels = int(rng.integers(3, 90)), int(rng.integers(1, 24))
        within_its_links(ranks, channels, lightpaths(ranks, min(channels, 6), rng))


@pytest.mark.parametrize("channels", [4, 8, 20, 32])
def test_one_hub_joins_all_in_two_hops(channels: int) -> None:
    ranks = 2 * channels + 1
    _, pairs = joined(ranks, hub(ranks))
    assert pairs.sum() == ranks * (ranks - 1)
    assert within_its_links(ranks, channels, hub(ranks)) > 0.2
    assert two_hops_join(ranks, channels, 2 * channels)


def within_its_links(ranks: int, channels: int, placed: Lightpaths) -> float:
    """What pairs joined in two hops have of what the inequality of the proof gives them."""
    direct, pairs = joined(ranks, placed)
    of_source, of_target, most = weights(ranks, channels, direct)
    weight = np.maximum(0, of_source[:, None] + of_target - 1)
    used, capacity = float((weight * distances(ranks) * pairs).sum()), sum(abs(signed) for _, signed in placed)
    assert used <= capacity * (most + 1)
    # Different neighbours are at different places.
    for degree, share in ((direct.sum(axis=0), 1 - of_source), (direct.sum(axis=1), 1 - of_target)):
        assert ((degree + 1) ** 2 // 4).sum() <= capacity
        assert share.sum() <= 4 * capacity / (most * (most + 2)) + 1e-9
    return used / (capacity * (most + 1))


def test_two_hops_need_many_wavelengths() -> None:
    assert two_hops_join(250, 64, 128) and not two_hops_join(251, 64, 128) and not two_hops_join(256, 64, 128)
    # Few transceivers join fewer pairs; more wavelengths more.
    assert two_hops_join(240, 64, 110) and not two_hops_join(240, 64, 90)
    joins = [two_hops_join(256, channels, 2 * channels) for channels in range(8, 129)]
    assert joins == sorted(joins)


@pytest.mark.parametrize("kind", ["all-reduce", "all-to-all"])
def test_hops_are_needed_by_all_kinds_whose_pairs_depend(kind: str) -> None:
    fabric = wdm_ring(256, 64, conversion_time=1e-6, reconfiguration_time=1e-3)
    assert any(seconds == pytest.approx(3e-6) and "3 hops" in name for seconds, name in _bounds(kind, fabric))


def _bounds(kind: str, fabric: object) -> list[tuple[float, str]]:
    return ring_bounds(Collective(kind, 256, 1.0), fabric)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ranks", "channels"), [(16, 8), (64, 64), (100, 40), (240, 64), (256, 64)])
def test_blocks_in_two_hops_are_no_fewer_than_links_ask_for(ranks: int, channels: int) -> None:
    blocks = blocks_in_two_hops(ranks, channels)
    links = 2 * channels * (blocks + 1)
    if blocks:
        assert links == pytest.approx(ranks * ranks // 4 * (1 - 16 * channels / (blocks * (blocks + 2))))
    assert blocks >= blocks_in_two_hops(ranks, channels + 1)
    assert (blocks <= _most_blocks(ranks, channels, 2 * channels)) == (ranks < 251)


def test_what_first_and_last_hops_leave_idle() -> None:
    # Blocks of no bytes leave a hop's time idle at both ends; blocks that fill a hop's time leave none.
    assert ends_seconds(100, 1.0, 0.0, 8) == 3.0
    assert ends_seconds(100, 1.0, 1 / 99, 1) == pytest.approx(1 + 2500 / 99 / 2)
    fabric = wdm_ring(1024, 8, wavelength_bandwidth=5e9, conversion_time=1e-6, reconfiguration_time=25e-6)
    seconds, name = max(ring_bounds(Collective("all-to-all", 1024, 1e3), fabric))
    assert name == "standing circuits that first hops and last ones leave idle" and 5.8e-6 < seconds < 5.81e-6


def no_faster(ranks: int, channels: int, share: float, seed: int) -> bool:
    """A random wiring, planned and verified, against the bound; whether there was one."""
    fabric = wdm_ring(ranks, channels, wavelength_bandwidth=1.0, conversion_time=1.0, reconfiguration_time=1e3)
    wanted = Collective("all-to-all", ranks, share)
    designs = Designs(ranks, channels)
    designs._rng = np.random.default_rng(seed)
    wirings = (designs.random() for _ in range(20))
    fitting = [wiring for wiring in wirings if wiring is not None and designs.fits(wiring)]
    if not fitting:
        return False
    bound = lower_bound(wanted, fabric).time - fabric.setup_time
    timing = Timing(fabric.channel_bandwidth, fabric.step_overhead, fabric.hop_latency, 0.0)
    problem = Exchange(ranks, channels, share / ranks, timing, bound)
    found = plan(fitting[seed % len(fitting)], problem, Trial(2))
    if found is None:
        return False
    assert found.time >= bound * (1 - 1e-9)
    schedule = exchange_schedule(wanted, fabric, found)
    verify(schedule, fabric)
    # Refused where it is below the bound.
    assert costed(schedule, fabric)[0].time == pytest.approx(fabric.setup_time + found.time)
    return True


@given(st.integers(5, 40), st.integers(1, 3), st.sampled_from([1e-3, 0.05, 0.2, 1.0]), st.integers(0, 2**31))
@settings(max_examples=8, deadline=None)
def test_no_verified_schedule_is_faster(ranks: int, channels: int, share: float, seed: int) -> None:
    no_faster(ranks, channels, share, seed)


@pytest.mark.slow
def test_no_verified_schedule_of_thousands_is_faster() -> None:
    rng = np.random.default_rng(1)
    tried = sum(
        no_faster(int(rng.integers(5, 41)), int(rng.integers(1, 20)), float(rng.choice([1e-3, 0.1, 0.5, 3.0])), seed)
        for seed in range(1000)
    )
    assert tried > 500
