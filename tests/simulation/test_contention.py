"""Computing is slower beside exchanges, by the share of the arithmetic that these take."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.models.graph import ComputeGraph
from lightloom.planning.simulation.engine import (
    Price,
    SlowedComputing,
    compute_tasks,
    lower,
    run,
    slowing,
    step_duration,
    waiting,
)
from tests.parallelism.strategies import graphs
from tests.simulation.prices import linear
from tests.simulation.test_step import CHIP, plan

SHARES = (0.0, 0.15, 0.5, 1.0)
seconds = st.floats(1e-6, 10)


@given(computing=seconds, exchanging=seconds, share=st.sampled_from(SHARES))
def test_computing_beside_one_exchange_follows_the_closed_form(
    computing: float, exchanging: float, share: float
) -> None:
    clock = SlowedComputing(share)
    clock.exchange(0.0, exchanging)
    end = clock.end(0.0, computing)
    both = np.array([computing]), np.array([exchanging])
    assert end == pytest.approx(computing + slowing(*both, share)[0], rel=1e-9)
    assert max(end, exchanging) == pytest.approx(computing + waiting(*both, share)[0], rel=1e-9)
    assert max(end, exchanging) == pytest.approx(max(exchanging, computing + share * exchanging), rel=1e-9)


def test_computing_goes_on_at_full_rate_between_exchanges() -> None:
    clock = SlowedComputing(0.5)
    clock.exchange(1.0, 3.0)
    clock.exchange(4.0, 6.0)
    # One second alone, one in the two beside the first exchange, one alone, half a second in one beside the second.
    assert clock.end(0.0, 3.5) == 5.0
    assert clock.end(5.0, 1.5) == 7.0


@settings(max_examples=40, deadline=None)
@given(
    strategy=st.sampled_from(["ddp", "fsdp"]),
    graph=graphs(),
    price=st.sampled_from([linear(1e8), linear(1e10, latency=1e-5)]),
    prefetch=st.integers(0, 2),
)
def test_the_duration_is_that_of_the_tasks_and_grows_with_the_share(
    strategy: str, graph: ComputeGraph, price: Price, prefetch: int
) -> None:
    made = plan(strategy, graph, prefetch=prefetch)
    tasks, priced = lower(made, compute_tasks(made, CHIP), price)
    assert tasks == lower(made, compute_tasks(made, CHIP), price, overlap=True, arithmetic_share=0.0)[0]
    computing = np.array([task.duration for task in tasks if task.resource == "compute"])
    exchanging = np.array([each.cost.repeated_time for each in priced])
    steps = []
    for share in SHARES:
        steps.append(step_duration(made, computing, exchanging, overlap=True, arithmetic_share=share))
        timeline = run(lower(made, compute_tasks(made, CHIP), price, arithmetic_share=share)[0])
        assert timeline.step_time == pytest.approx(steps[-1], rel=1e-9)
    assert all(before <= after * (1 + 1e-12) for before, after in pairwise(steps))
    assert steps[-1] <= (computing.sum() + exchanging.sum()) * (1 + 1e-12)
