"""Every bound of a ring of wavelengths, worked out again from its resource; searches for prices are stood in for."""

from __future__ import annotations

from itertools import product
from math import ceil

import numpy as np
import pytest

from lightloom.collectives.bounds import lower_bound as bounds
from lightloom.collectives.bounds.link_use import (
    all_reduce_uses,
    joint_seconds,
    relayed_seconds,
    slotted_seconds,
)
from lightloom.collectives.bounds.lower_bound import bandwidth_bound, lower_bound, ring_bounds
from lightloom.collectives.bounds.priced import blocks_in_two_hops, two_hops_join
from lightloom.collectives.bounds.rooted import broadcast_seconds
from lightloom.collectives.collective import (
    CLASSIC,
    OF_PARTS,
    Collective,
    Kind,
    Sizes,
)
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.strategies import wdm_ring

RATE, CONVERT, PASS = 5e9, 1e-6, 1e-8
HOP = CONVERT + PASS
Bounds = dict[str, float]
Sends = list[tuple[int, int, float]]

SHAPES = [
    # Ranks, wavelengths, transceivers, taps, links that light reaches.
    (2, 1, None, 1, None),
    (5, 1, None, 1, 1),
    (7, 2, None, 2, None),
    (8, 8, None, 1, 3),
    (9, 2, 3, 1, None),
    (9, 30, None, 1, None),
    (16, 16, None, 1, None),
    (20, 2, None, 1, 4),
    (20, 2, 2, 3, 7),
    (33, 20, None, 1, None),
    (33, 20, None, 2, None),
    (33, 1, None, 1, 5),
    (40, 9, 12, 1, None),
    (73, 16, None, 1, None),
]
SETUPS = [0.0, 1.5 * HOP, 1.0]
SIZES = [1.0, 1e4, 1e7]


def _ring(shape: tuple[int, int, int | None, int, int | None], setup: float) -> WdmRing:
    ranks, wavelengths, transceivers, taps, reach = shape
    return wdm_ring(
        ranks,
        wavelengths,
        transceivers=transceivers,
        multicast_taps=taps,
        lightpath_reach=reach,
        wavelength_bandwidth=RATE,
        conversion_time=CONVERT,
        hop_latency=PASS,
        reconfiguration_time=setup,
    )


def _priced(ranks: int, hop: float, share: float, wavelengths: int, least: float, setup: float) -> float:
    """Stands in for the search: each of what it is told changes what it says."""
    return 3 * least + 5 * hop + 7 * share + 11 * setup + (13 * ranks + 17 * wavelengths) * HOP


def _standing(ranks: int, hop: float, direction_seconds: float, least: float, most: float) -> float:
    """The same, which finds nothing among odd numbers of ranks."""
    return least if ranks % 2 else 3 * least + 5 * hop + 7 * direction_seconds + 11 * most + 13 * ranks * HOP


def _depth(ranks: int, degree: int) -> int:
    """Levels of a tree that holds so many ranks besides its root."""
    return next(hops for hops in range(ranks + 1) if sum(degree**k for k in range(1, hops + 1)) >= ranks)


def _joined(ranks: int, crossing: int, degree: int, hops: int) -> int:
    """Pairs of the two halves within so many hops: those before the circuit between the halves, and those behind it."""
    return sum(
        crossing * min(ranks, degree**before) * min(ranks, sum(degree**behind for behind in range(hops - before)))
        for before in range(hops)
    )


def _hops(kind: Kind, shape: tuple[int, int, int | None, int, int | None]) -> int:
    """Hops over circuits that stand."""
    ranks, wavelengths, transceivers, taps, _ = shape
    ends = 2 * wavelengths if transceivers is None else min(2 * wavelengths, transceivers)
    if kind in ("broadcast", "reduce"):
        few = _depth(ranks - 1, ends * taps)
        return max(few, 3) if taps == 1 and ranks - 1 > 3 * wavelengths * (wavelengths + 1) else few
    pairs = ranks // 2 * (ranks - ranks // 2)
    hops = next(
        hops
        for hops in range(_depth(ranks - 1, ends * taps), ranks)
        if _joined(ranks, 2 * wavelengths * taps, ends * taps, hops) >= pairs
    )
    if taps > 1 or (hops == 1 and ceil(ranks**2 // 4 / 2) <= wavelengths):
        return hops
    return max(hops, 2 if two_hops_join(ranks, wavelengths, ends) else 3)


def _expected(kind: Kind, shape: tuple[int, int, int | None, int, int | None], setup: float, nbytes: float) -> Bounds:
    ranks, wavelengths, transceivers, taps, reach = shape
    direction = nbytes / (wavelengths * RATE)
    use, share, block = direction / (2 * ranks), nbytes / ranks / RATE, nbytes / ranks / RATE
    twice, hops = setup + HOP, _hops(kind, shape)
    if kind == "all-to-all":
        links = HOP + ranks**2 // 4 * use
    elif taps > 1 and kind in ("all-gather", "broadcast"):
        links = HOP + (ranks - 1) * use
    elif kind == "all-reduce" and taps > 1:
        # Tapped light may spread sums, which lightpaths of their own have collected.
        links = joint_seconds(ranks, HOP, use, more_uses=ranks - 1)
    elif kind == "all-reduce":
        links = joint_seconds(ranks, HOP, use, all_reduce_uses)
    else:
        links = slotted_seconds(ranks, HOP, use)
    found = {
        "the links that so few hops must use": links,
        f"{hops} hops on circuits that stand, or circuits set twice": min(hops * HOP, twice),
    }
    if kind in ("all-gather", "reduce-scatter") and taps == 1:
        relayed = min(relayed_seconds(ranks, HOP, use, 2 * wavelengths), twice)
        least = max(*found.values(), relayed)
        found["what standing circuits relay in few hops"] = relayed
        name = "standing circuits that serve first hops and later ones"
        found[name] = _priced(ranks, HOP, share, wavelengths, least, setup)
    if kind == "all-to-all":
        ends = 2 * wavelengths if transceivers is None else min(2 * wavelengths, transceivers)
        near = _joined(ranks, 2 * wavelengths * taps, ends * taps, hops - 1)
        late = max(0, ranks // 2 * (ranks - ranks // 2) - near) * block / (2 * wavelengths * hops)
        name = f"blocks of {hops} hops that cross the ring in the time left"
        found[name] = min(hops * HOP + late, (hops + 1) * HOP, twice)
        if taps == 1 and hops == 2:
            seconds = 2 * HOP + blocks_in_two_hops(ranks, wavelengths) * block
            found["two hops over ranks that join many pairs"] = min(seconds, 3 * HOP, twice)
        elif taps == 1 and hops > 2:
            seconds = HOP + ranks**2 // 4 * block / (2 * wavelengths) + 2 * max(0.0, HOP - (ranks - 1) * block)
            found["standing circuits that first hops and last ones leave idle"] = min(seconds, twice)
    if kind == "reduce" or (kind == "broadcast" and taps == 1):
        rooted = broadcast_seconds(ranks, HOP, direction)
        found["the links around the root and few hops together"] = rooted
        least = max(found.values())
        standing = _standing(ranks, HOP, direction, least, twice)
        if ranks % 2 == 0:
            found["standing circuits and what the root sends together"] = standing
    if reach is not None:
        far = ceil(ranks // 2 / reach)
        found[f"{far} hops, as light reaches {reach} links"] = far * HOP
    return found


def _as_bounds(bounds: list[tuple[float, str]]) -> Bounds:
    found = {name: seconds for seconds, name in bounds}
    assert len(found) == len(bounds)
    return found


@pytest.fixture
def without_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "priced_seconds", _priced)
    monkeypatch.setattr(bounds, "standing_broadcast_seconds", _standing)


@pytest.mark.usefixtures("without_searches")
@pytest.mark.parametrize("kind", CLASSIC)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_bound_of_a_ring_is_what_its_resource_allows(
    kind: Kind, shape: tuple[int, int, int | None, int, int | None]
) -> None:
    for setup, nbytes in product(SETUPS, SIZES):
        found = _as_bounds(ring_bounds(Collective(kind, shape[0], nbytes), _ring(shape, setup)))
        assert found == pytest.approx(_expected(kind, shape, setup, nbytes), rel=1e-9)


def _parts(kind: str, ranks: int, nbytes: float) -> tuple[Collective, Sends]:
    """A collective of parts, and what it sends."""
    if kind == "permute":
        to = tuple((rank * (ranks - 1) + ranks // 2) % ranks for rank in range(ranks))
        sends = [(rank, to[rank], nbytes / ranks) for rank in range(ranks)]
        wanted = Collective("permute", ranks, nbytes, to)
    elif kind == "all-to-all-v":
        share = np.random.default_rng(ranks).integers(0, 3, (ranks, ranks)).astype(np.float64)
        share[0, 1] = 4.0
        sends = [(a, b, nbytes * ranks * share[a, b] / share.sum()) for a, b in np.argwhere(share)]
        wanted = Collective("all-to-all-v", ranks, nbytes, sizes=Sizes(share))
    else:
        ends = [(rank, 0) if kind == "gather" else (0, rank) for rank in range(ranks)]
        sends = [(a, b, nbytes / ranks) for a, b in ends]
        wanted = Collective(kind, ranks, nbytes)  # type: ignore[arg-type]
    return wanted, [(a, b, size) for a, b, size in sends if a != b]


@pytest.mark.parametrize("kind", OF_PARTS)
@pytest.mark.parametrize("shape", SHAPES[:-1], ids=str)
def test_every_bound_of_parts_on_a_ring_is_what_its_resource_allows(
    kind: str, shape: tuple[int, int, int | None, int, int | None]
) -> None:
    ranks, wavelengths, transceivers, taps, reach = shape
    ends = 2 * wavelengths if transceivers is None else min(2 * wavelengths, transceivers)
    for setup, nbytes in zip(SETUPS, SIZES, strict=True):
        wanted, sends = _parts(kind, ranks, nbytes)
        peers = max(sum(send[side] == rank for send in sends) for rank in range(ranks) for side in (0, 1))
        hops = _depth(peers, ends * taps)
        distance = [min((a - b) % ranks, (b - a) % ranks) for a, b, _ in sends]
        uses = sum(size * links for (_, _, size), links in zip(sends, distance, strict=True))
        expected = {
            "the links that the parts must pass": HOP + uses / (2 * ranks * wavelengths * RATE),
            f"{hops} hops on circuits that stand, or circuits set twice": min(hops * HOP, setup + HOP),
        }
        if reach is not None:
            far = ceil(max(distance) / reach)
            expected[f"{far} hops, as light reaches {reach} links"] = far * HOP
        assert _as_bounds(ring_bounds(wanted, _ring(shape, setup))) == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("without_searches")
@pytest.mark.parametrize("kind", [*CLASSIC, *OF_PARTS, "barrier"])
@pytest.mark.parametrize("shape", SHAPES[1:12:3], ids=str)
def test_the_largest_bound_of_a_ring_comes_after_the_first_set_up(
    kind: str, shape: tuple[int, int, int | None, int, int | None]
) -> None:
    """Bytes after one hop, the farthest signal and bounds of the ring begin together; the paper knows bytes only."""
    ranks = shape[0]
    for setup, nbytes in product(SETUPS, SIZES):
        fabric = _ring(shape, setup)
        wanted, far = Collective("all-gather", ranks, 0.0), ranks // 2
        if kind in OF_PARTS:
            wanted, sends = _parts(kind, ranks, nbytes)
            if kind in ("permute", "all-to-all-v"):
                far = max(min((a - b) % ranks, (b - a) % ranks) for a, b, _ in sends)
        elif kind != "barrier":
            wanted = Collective(kind, ranks, nbytes)  # type: ignore[arg-type]
        moving = bandwidth_bound(wanted, fabric)
        expected = max(HOP + moving, CONVERT + far * PASS, max(ring_bounds(wanted, fabric))[0])
        asked = Collective("barrier", ranks, 0.0) if kind == "barrier" else wanted
        bound = lower_bound(asked, fabric)
        assert bound.time == pytest.approx(setup + expected, rel=1e-9)
        assert (bound.bound_by == "the first set-up of circuits") == (setup + 2 * CONVERT > expected)
        if kind != "barrier":
            assert lower_bound(asked, fabric, "paper").time == pytest.approx(setup + CONVERT + moving, rel=1e-9)
