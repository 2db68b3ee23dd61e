"""Standing circuits from every rank to the one a stride further on, and blocks of neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh
from lightloom.machines.fabrics.switches import CircuitSwitch
from lightloom.machines.fabrics.wdm_ring import Ring, RingGroup, WdmRing
from lightloom.machines.parts.bill import BillChoices


@st.composite
def circuit_fabrics(draw: st.DrawFn) -> Fabric:
    ranks, channels = draw(st.integers(2, 12)), draw(st.integers(2, 12))
    common = {"ranks": ranks, "hop_latency": 1e-7}
    kind = draw(st.sampled_from([WdmRing, RingGroup, CircuitSwitch]))
    if kind is CircuitSwitch:
        return CircuitSwitch.model_validate({**common, "degree": channels})
    common |= {"wavelengths": channels, "conversion_time": draw(st.sampled_from([0.0, 1e-6]))}
    if kind is WdmRing:
        return WdmRing.model_validate(common)
    return RingGroup.model_validate({**common, "held": channels, "reaches_around": draw(st.booleans())})


@given(circuit_fabrics(), st.data())
@settings(max_examples=300, deadline=None)
def test_circuits_of_a_shift_stand_beside_each_other_and_lead_every_rank_on_and_back(
    fabric: Fabric, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, fabric.ranks - 1))
    unit = fabric.shift_unit(stride)
    channels = data.draw(st.integers(unit, max(fabric.channels, unit)))
    first = data.draw(st.integers(0, 3))
    shift = fabric.shift(stride, channels)
    circuits, width = fabric.shift_circuits(stride, first, channels)
    assert width == shift.width >= 1 and stride % shift.hop == 0
    assert circuits.channel.min() >= first and circuits.channel.max() + width <= first + channels
    assert (circuits.destination[: fabric.ranks] == (np.arange(fabric.ranks) + shift.hop) % fabric.ranks).all()
    onward: dict[int, list[int]] = {}
    for source, destination in zip(circuits.source.tolist(), circuits.destination.tolist(), strict=True):
        onward.setdefault(source, []).append(destination)
    for rank, ends in onward.items():
        assert {(end - rank) % fabric.ranks for end in ends} == {shift.hop, -shift.hop % fabric.ranks}
    assert len(onward) == fabric.ranks
    # No channel of a link is held twice: on a plane inputs and outputs of ranks, on a ring the fibres that are passed.
    transfer, link = links_of(fabric.footprint(circuits.source, circuits.destination, circuits.route))
    held = (link[:, None] * (first + channels) + circuits.channel[transfer][:, None] + np.arange(width)).ravel()
    assert len(np.unique(held)) == len(held)
    # Sends that pass the end of a group which does not reach around the ring really go back over all of it.
    around = getattr(fabric, "closes", True)
    longest = (stride if around else max(stride, fabric.ranks - stride)) // shift.hop
    assert shift.hops == (1 if fabric.switch_planes else longest)
    assert shift.rate == pytest.approx(width * fabric.channel_bandwidth / shift.hops)
    each = fabric.diameter_latency() if fabric.switch_planes else shift.hop * fabric.hop_latency + fabric.step_overhead
    assert shift.latency == pytest.approx(shift.hops * each)
    if fabric.wavelength_routed:
        divides = fabric.ranks if around else 0
        hops = [hop for hop in range(1, stride + 1) if stride % hop == divides % hop == 0 and hop * unit <= channels]
        assert (shift.hop, width) == (max(hops), channels // unit // max(hops))
    else:
        assert width == channels // (1 if 2 * stride == fabric.ranks else 2)


@given(st.integers(2, 30), st.sampled_from([Ring, WdmRing]))
def test_blocks_of_a_ring_are_entered_over_the_links_at_both_of_their_ends(ranks: int, kind: type[Fabric]) -> None:
    ring = kind.model_validate({"ranks": ranks})
    bandwidth = ring.link_bandwidth()
    sizes = [size for size in range(2, ranks) if ranks % size == 0]
    entering = [bandwidth[ranks - 1] + bandwidth[ranks + size - 1] for size in sizes]
    assert [size for size, _, _ in ring.blocks()] == sizes
    assert [capacity for _, capacity, _ in ring.blocks()] == pytest.approx(entering)
    assert all(str(size) in name for size, _, name in ring.blocks())


def test_packets_have_no_channels_to_share() -> None:
    mesh = Mesh(ranks=4)
    assert (mesh.share_unit(2, 1), mesh.shift_unit(1), mesh.blocks(), mesh.share(2, 1, 1)) == (0, 0, [], None)
    assert mesh.channel_sharing(np.array([1, 2, 3])).tolist() == [1, 1, 1] and mesh.channels == 0
    assert WdmRing(ranks=8).channel_sharing(np.array([1, 2, 3])).tolist() == [1, 2, 3]


@given(circuit_fabrics(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_share_has_the_channels_that_reach_a_group(fabric: Fabric, data: st.DataObject) -> None:
    ranks = data.draw(st.sampled_from([n for n in range(1, fabric.ranks + 1) if fabric.ranks % n == 0]))
    stride = data.draw(
        st.sampled_from([n for n in range(1, fabric.ranks // ranks + 1) if fabric.ranks // ranks % n == 0])
    )
    channels = data.draw(st.integers(0, fabric.channels + 1))
    unit, part = fabric.share_unit(ranks, stride), fabric.share(ranks, stride, channels)
    if fabric.switch_planes:
        assert unit == 1 and (part is None) == (not 1 <= channels <= fabric.channels)
    else:
        whole = getattr(fabric, "closes", True) and ranks * stride == fabric.ranks
        assert unit == (stride if whole else 2 * stride) and (part is None) == (channels < unit)
    if part is not None:
        assert (part.ranks, part.channels, part.channel_bandwidth) == (
            ranks,
            channels // unit,
            fabric.channel_bandwidth,
        )
        if fabric.wavelength_routed:
            assert part.hop_latency == pytest.approx(stride * fabric.hop_latency)
            assert part.step_overhead == fabric.step_overhead
            assert part.shared_channels in (channels // stride, part.channels)


@given(st.integers(1, 3), st.integers(1, 6), st.none() | st.integers(1, 40))
def test_every_channel_that_is_used_both_ways_takes_two_transceivers(
    fibres: int, wavelengths: int, transceivers: int | None
) -> None:
    """A rank receives no more than its transceivers take, of channels that both ways have; a bill pays for as many."""
    ring = WdmRing(ranks=6, fibres=fibres, wavelengths=wavelengths, transceivers=transceivers, wavelength_bandwidth=2.0)
    usable = [n for n in range(fibres * wavelengths + 1) if transceivers is None or 2 * n <= transceivers]
    assert ring.channels == fibres * wavelengths and ring.usable_channels == usable[-1]
    sending = 2 * ring.channels if transceivers is None else transceivers
    assert ring.total_receive_bandwidth() == 6 * 2.0 * min(sending, 2 * ring.channels)
    bill = ring.bill(BillChoices(wdm="built"))
    counts = {line.part.kind: line.per_rank for line in bill.lines}
    assert bill.bandwidth == 2.0 * sending and counts == {"engine": sending, "fibre": 2 * fibres}


@given(st.integers(2, 12), st.integers(1, 2), st.integers(1, 12), st.booleans(), st.data())
def test_light_of_a_group_goes_from_rank_to_rank_and_back_where_the_group_does_not_reach_around(
    size: int, fibres: int, reach: int, around: bool, data: st.DataObject
) -> None:
    """As many links as it may pass, of which a single rank needs none; to several ranks, it goes one way at once."""
    fields = {"ranks": size, "wavelengths": 12, "multicast_taps": 3, "lightpath_reach": reach}
    own = {"fibres": fibres} if around else {"held": 24, "reaches_around": False}
    whole = (WdmRing if around else RingGroup).model_validate(fields | own)
    ranks = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    stride = data.draw(st.sampled_from([n for n in range(1, size // ranks + 1) if size // ranks % n == 0]))
    part, closes = whole.share(ranks, stride, 24), around and ranks * stride == size
    assert (part is not None) == (reach >= stride if closes else reach >= (ranks - 1) * stride)
    if part is None:
        return
    itself = closes and ranks == size and fibres == 1 and part.channels == whole.channels
    assert (part is whole) == itself
    assert part.reach == (reach if itself else max(reach // stride, 1))
    assert part.taps == (3 if closes else 1)
    assert itself or (part.shared_channels, getattr(part, "closes", None)) == (24 // stride, closes)


@given(st.integers(2, 9), st.integers(2, 12), st.booleans(), st.integers(0, 30))
def test_light_takes_as_long_as_it_goes_along_the_ring_that_a_group_is_part_of(
    ranks: int, held: int, closes: bool, stride: int
) -> None:
    """Where it cannot go around, over all ranks between, either way; sends at a stride are those of a shift."""
    group = RingGroup(ranks=ranks, held=held, reaches_around=closes, hop_latency=2.0, conversion_time=0.5)
    source, destination = np.nonzero(~np.eye(ranks, dtype=np.bool_))
    apart = np.abs(source - destination)
    for way in (0, 1):
        onward = (destination - source) * (1 - 2 * way) % ranks
        seconds = group.latency(source, destination, np.full_like(source, way))
        assert (seconds == 2.0 * (onward if closes else apart)).all()
    assert group.diameter_latency() == 2.0 * (np.minimum(apart, ranks - apart) if closes else apart).max()
    assert group.neighbour_latency() == 2.0
    assert group.pair(stride * ranks) == (np.inf, 0.0)
    if stride % ranks:
        shift = group.shift(stride % ranks, held)
        assert group.pair(stride) == (shift.rate, shift.latency)
    assert group.embedding().channels == group.shared_channels == held and group.closes == closes
