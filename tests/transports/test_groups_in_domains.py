"""Groups of ranks that domains cut are priced by their smallest parts, never below what their links can carry."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.transports.price import ranks_in_domain
from lightloom.planning.pricing.library_prices import LibraryPrices


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_every_domain_holds_at_least_as_many_of_a_group(domain: int, ranks: int, stride: int) -> None:
    total = math.lcm(domain, ranks * stride)
    first = np.arange(total).reshape(-1, ranks, stride).transpose(0, 2, 1).reshape(-1, ranks)
    fewest = min(int(np.unique(group // domain, return_counts=True)[1].min()) for group in first)
    found = int(ranks_in_domain(domain, np.array([ranks]), np.array([stride]))[0])
    assert found == fewest if domain % stride == 0 else found <= fewest


@pytest.mark.parametrize("ranks", [2, 3, 4, 6, 8, 9, 12, 16])
def test_no_group_is_priced_below_its_bound(ranks: int) -> None:
    fabric = load_cluster("nvl72-576").fabric
    for stride in (stride for stride in range(1, 576 // ranks + 1) if 576 % (ranks * stride) == 0):
        group = fabric.group(ranks, stride)
        assert group is not None
        prices = LibraryPrices(group, "physical")
        for nbytes in (1e6, 1e11):
            priced = prices("all-reduce", nbytes)
            assert priced.cost.time >= priced.bound.time
