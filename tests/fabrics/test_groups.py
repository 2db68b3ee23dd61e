"""A group's part of a fabric has its ranks where they are: in one domain, alone in many, or a few in each."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.fabrics.packet_switch import PacketSwitch, TwoTierSwitch
from lightloom.fabrics.wdm_ring import WdmRing


@given(st.sampled_from([1, 2, 3, 4, 6, 8]), st.integers(1, 12), st.integers(2, 12), st.integers(1, 12))
def test_domains_of_a_group_are_those_that_its_ranks_fall_into(
    size: int, domains: int, ranks: int, stride: int
) -> None:
    whole = max(size * domains, 2 * size)
    if whole % (ranks * stride):
        return
    part = TwoTierSwitch(ranks=whole, domain_size=size).group(ranks, stride)
    # Interleaved groups fill stretches of ranks · apart.
    spread = {
        frozenset(Counter((begin + first + stride * each) // size for each in range(ranks)).values())
        for begin in range(0, whole, ranks * stride)
        for first in range(stride)
    }
    if part is None:
        assert len(spread) > 1 or len(next(iter(spread))) > 1
    else:
        assert spread == {frozenset([part.domain_size])} and part.ranks == ranks


def test_other_fabrics_see_groups_as_themselves() -> None:
    for fabric in (PacketSwitch(ranks=12), WdmRing(ranks=12, wavelengths=4)):
        part = fabric.group(3, 4)
        assert part is not None and part == fabric.model_copy(update={"ranks": 3})
        assert fabric.pair(3) == (fabric.total_receive_bandwidth() / 12, fabric.neighbour_latency())


def test_sends_out_of_a_domain_share_the_tree() -> None:
    fabric = TwoTierSwitch(ranks=16, domain_size=8, bandwidth=50e9, oversubscription=4, hop_latency=1e-6)
    assert fabric.pair(8)[0] == pytest.approx(12.5e9)
    assert fabric.pair(1) == (50e9, 4e-6)
    assert TwoTierSwitch(ranks=8, domain_size=8, domain_bandwidth=450e9).pair(4)[0] == 450e9
