"""Max-min fairness: no link carries more than it can, and every exchange below its own speed has a full link on which
no flow is faster than its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lightloom.collectives.joint import max_min_rates

usages = st.tuples(st.integers(1, 5), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]))
)


@given(usages, st.lists(st.integers(1, 6), min_size=5, max_size=5))
def test_rates_are_max_min_fair(usage: np.ndarray, flows: list[int]) -> None:
    """Exchanges whose flows are alike wherever they go, so many at an exchange's own speed."""
    own = 1.0 / np.array(flows[: len(usage)])
    rates = max_min_rates(usage, np.repeat(own[:, None], usage.shape[1], axis=1))
    load = rates @ usage
    assert (load <= 1 + 1e-9).all() and (rates > 0).all() and (rates <= 1).all()
    for exchange, rate in enumerate(rates):
        if rate < 1 - 1e-9:
            full = (load >= 1 - 1e-9) & (usage[exchange] > 0)
            # On some full link no flow is faster: its rate rises only if a slower one's falls.
            fastest = [(rates * own)[usage[:, link] > 0].max() for link in np.flatnonzero(full)]
            assert len(fastest) and min(fastest) <= rate * own[exchange] + 1e-9


def test_exchanges_on_links_of_their_own_keep_their_speed() -> None:
    assert max_min_rates(np.eye(3), np.eye(3)).tolist() == [1, 1, 1]


def test_alike_exchanges_halve_their_link_and_leave_the_rest_to_others() -> None:
    usage = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    assert max_min_rates(usage, np.ones_like(usage)) == pytest.approx([0.5, 0.5, 0.5])
    usage = np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0]])
    assert max_min_rates(usage, np.ones_like(usage)) == pytest.approx([0.5, 0.5, 0.9])


def test_one_flow_beside_four_gets_a_fifth_of_the_link() -> None:
    """And the four together four fifths; one that wants less than its part has all it wants."""
    usage = np.ones((2, 1))
    assert max_min_rates(usage, np.array([[1.0], [0.25]])) == pytest.approx([1 / 5, 4 / 5])
    assert max_min_rates(np.array([[1.0], [0.1]]), np.array([[1.0], [0.1]])) == pytest.approx([0.9, 1.0])
