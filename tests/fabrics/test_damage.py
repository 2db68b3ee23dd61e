"""Damaged rings: failures are read as they are written, light is blocked where they say, bounds never fall."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import Collective, Kind
from lightloom.core.errors import ConfigError
from lightloom.machines.fabrics.failures import DamagedWdmRing, Failure, damaged
from lightloom.machines.fabrics.load import fabric_from
from lightloom.machines.fabrics.wdm_ring import WdmRing

WAYS = ("clockwise", "counter-clockwise")
KINDS: tuple[Kind, ...] = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")


@st.composite
def failures(draw: st.DrawFn, ranks: int, wavelengths: int) -> str:
    node, wavelength = draw(st.integers(0, ranks - 1)), draw(st.integers(0, wavelengths - 1))
    way = draw(st.sampled_from(WAYS))
    forms = (
        f"wavelength:{wavelength}",
        f"transceiver:{node}:{wavelength}",
        f"transceiver:{node}:{wavelength}:{way}",
        f"segment:{node}:{way}",
        f"cable:{node}",
        f"node:{node}",
        f"dark-node:{node}",
    )
    return draw(st.sampled_from(forms))


@st.composite
def damaged_rings(draw: st.DrawFn) -> tuple[WdmRing, DamagedWdmRing]:
    ranks, wavelengths, fibres = draw(st.integers(4, 12)), draw(st.integers(2, 6)), draw(st.integers(1, 2))
    ring = WdmRing(
        ranks=ranks,
        wavelengths=wavelengths,
        fibres=fibres,
        transceivers=draw(st.none() | st.integers(2, 2 * wavelengths * fibres + 2)),
        hop_latency=1e-7,
        conversion_time=draw(st.sampled_from((0.0, 1e-6))),
    )
    texts = draw(st.lists(failures(ranks, wavelengths), max_size=3))
    try:
        return ring, damaged(ring, map(Failure.parse, texts))
    except ConfigError:
        return ring, damaged(ring, [Failure.parse(draw(failures(ranks, wavelengths)))])


@settings(deadline=None, max_examples=100)
@given(damaged_rings(), st.sampled_from(KINDS), st.floats(2, 7))
def test_damage_never_makes_the_bound_smaller(drawn: tuple[WdmRing, DamagedWdmRing], kind: Kind, power: float) -> None:
    ring, left = drawn
    sound = ring.model_copy(update={"ranks": left.ranks})
    wanted = Collective(kind, left.ranks, 10**power * left.ranks)
    assert lower_bound(wanted, left).time >= lower_bound(wanted, sound).time * (1 - 1e-12)


@settings(deadline=None, max_examples=100)
@given(damaged_rings())
def test_it_is_written_and_read_the_same(drawn: tuple[WdmRing, DamagedWdmRing]) -> None:
    _, left = drawn
    document = left.model_dump(mode="json")
    assert all(isinstance(each, str) for each in document["failures"])
    assert fabric_from(document, None, where="here") == left


def left_of(ranks: int, *failures: str) -> tuple[WdmRing, DamagedWdmRing]:
    whole = ring().model_copy(update={"ranks": ranks})
    return whole, damaged(whole, map(Failure.parse, failures))


def ring(**fields: int) -> WdmRing:
    return WdmRing(ranks=8, wavelengths=4, hop_latency=1e-6).model_copy(update=fields)


@settings(deadline=None, max_examples=100)
@given(damaged_rings())
@example(left_of(5, "node:1", "node:3", "segment:4:clockwise"))
@example(left_of(5, "node:1", "node:3", "cable:4"))
@example(left_of(8, "node:3", "node:4"))
@example(left_of(8, "node:4"))
def test_distances_are_those_of_walks_over_links_that_are_left(drawn: tuple[WdmRing, DamagedWdmRing]) -> None:
    """Every pair reaches each other one way round, and none needs longer than the diameter says; some pair does."""
    _, left = drawn
    dark: NDArray[np.bool_] = np.all(left.blocked(), axis=1)
    ranks = np.arange(left.ranks)
    source, destination = (each.ravel() for each in np.meshgrid(ranks, ranks))
    stride = source != destination
    source, destination = source[stride], destination[stride]
    links, seconds = [], []
    for way in (0, 1):
        route = np.full(len(source), way)
        print_ = left.footprint(source, destination, route)
        open_ = np.array(
            [
                not any(
                    dark[print_.base[i, 0] + (print_.start[i, 0] + k) % left.ranks] for k in range(print_.length[i, 0])
                )
                for i in range(len(source))
            ]
        )
        links.append(np.where(open_, left.hops(source, destination, route), np.inf))
        seconds.append(np.where(open_, left.latency(source, destination, route), np.inf))
    assert np.minimum(*links).max() == left.diameter()
    assert np.minimum(*seconds).max() == pytest.approx(left.diameter_latency())
    assert np.minimum(*seconds).min() == pytest.approx(left.neighbour_latency())
    for to_root, end in ((False, source), (True, destination)):
        from_root = np.minimum(*seconds)[end == 0]
        assert from_root.max() == pytest.approx(left.root_latency(to_root=to_root))


@given(damaged_rings())
def test_nothing_failed_is_a_sound_ring(drawn: tuple[WdmRing, DamagedWdmRing]) -> None:
    sound, left = drawn[0], damaged(drawn[0], [])
    assert left.usable_channels == sound.usable_channels
    assert np.array_equal(left.rank_bandwidths(), sound.rank_bandwidths())
    assert not left.blocked().any() and not left.blocked_ends().any()
    assert left.cuts()[0].capacity == sound.cuts()[0].capacity
    assert (left.link_bandwidth() == sound.link_bandwidth()).all()
    assert left.total_receive_bandwidth() == sound.total_receive_bandwidth()
    assert (left.diameter(), left.diameter_latency()) == (sound.diameter(), sound.diameter_latency())


def test_each_failure_blocks_what_it_should() -> None:
    assert np.argwhere(damaged(ring(fibres=2), [Failure.parse("wavelength:3")]).blocked())[:, 1].tolist() == [3, 7] * 16
    one_way = damaged(ring(), [Failure.parse("segment:7:counter-clockwise")])
    assert np.flatnonzero(one_way.blocked().all(axis=1)).tolist() == [15]
    # Rank 7 hears rank 0 no more that way.
    assert one_way.cuts()[0].capacity == pytest.approx(4 * 5e9)
    dark = damaged(ring(), [Failure.parse("dark-node:0")])
    assert dark.survivors.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert np.flatnonzero(dark.blocked().all(axis=1)).tolist() == [6, 13]
    passed = damaged(ring(), [Failure.parse("node:5")])
    assert not passed.blocked().any()
    across, near = (passed.latency(np.array([a]), np.array([b]), np.array([0]))[0] for a, b in ((4, 5), (0, 1)))
    assert across == pytest.approx(2 * near)
    ends = damaged(ring(), map(Failure.parse, ("node:2", "transceiver:5:1:clockwise"))).blocked_ends()
    assert np.argwhere(ends).tolist() == [[4, 0, 1]]


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["wave:3"], "failure 'wave:3': expected one of wavelength:NUMBER"),
        (["segment:3"], "failure 'segment:3'"),
        (["cable:1:clockwise"], "failure 'cable:1:clockwise'"),
        (["node:x"], "failure 'node:x'"),
        (["node:8"], "node:8: expected one of 8 nodes"),
        (["wavelength:4"], "wavelength:4: expected one of 4 wavelengths"),
        (["transceiver:1:4"], "transceiver:1:4: expected one of 4 channels"),
        (["cable:1", "cable:5"], "cut the ring into parts"),
        (["segment:1:clockwise", "segment:5:counter-clockwise"], "cut the ring into parts"),
        ([f"wavelength:{each}" for each in range(4)], "cut the ring into parts"),
        ([f"transceiver:6:{each}" for each in range(4)], "leave node 6 nothing to receive on"),
        (
            ["segment:6:clockwise", *(f"transceiver:6:{each}:counter-clockwise" for each in range(4))],
            "leave node 6 nothing to send on",
        ),
    ],
)
def test_impossible_failures_are_named(texts: list[str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        damaged(ring(), [Failure.parse(text) for text in texts])


@settings(deadline=None, max_examples=50)
@given(damaged_rings())
def test_its_cuts_are_those_of_channels_counted_one_by_one(drawn: tuple[WdmRing, DamagedWdmRing]) -> None:
    """Link r of the clockwise fibre leads from rank r to the next, link r of the other one from there back."""
    _, left = drawn
    ranks, lit, ends = left.ranks, ~left.blocked(), ~left.blocked_ends()

    def channels(link: int, rank: int | None = None, way: int = 0) -> int:
        usable = lit[link] if rank is None else lit[link] & ends[rank, way]
        return int(usable.sum())

    def entering(first: int, size: int) -> int:
        last = (first + size - 1) % ranks
        return channels((first - 1) % ranks) + channels(ranks + last)

    def leaving(first: int, size: int) -> int:
        last = (first + size - 1) % ranks
        return channels(last) + channels(ranks + (first - 1) % ranks)

    most = 2 * left.channels if left.transceivers is None else left.transceivers
    receive = [min(most, channels((r - 1) % ranks, r, 0) + channels(ranks + r, r, 1)) for r in range(ranks)]
    send = [min(most, channels(r, r, 0) + channels(ranks + (r - 1) % ranks, r, 1)) for r in range(ranks)]
    half = ranks // 2
    into, out = (min(count(first, half) for first in range(ranks)) for count in (entering, leaving))
    one, parted = left.cuts()
    assert (one.ranks, parted.ranks) == (1, half)
    assert one.capacity == pytest.approx(max(min(receive), min(send)) * left.wavelength_bandwidth)
    assert parted.capacity == pytest.approx(max(into, out) * left.wavelength_bandwidth)
    assert left.total_receive_bandwidth() == pytest.approx(sum(receive) * left.wavelength_bandwidth)
    for own, expected in zip(left.rank_bandwidths(), (receive, send), strict=True):
        assert own.tolist() == pytest.approx([each * left.wavelength_bandwidth for each in expected])
    most = left.channels if left.transceivers is None else left.transceivers // 2
    assert left.usable_channels == min(most, int(left.lit_channels.sum()))
