"""Compression or plain all-reduce: decided from times alone, alike on all ranks, at a bounded cost."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.exchange.distributed.adaptive import (
    BLOCK,
    LEAST_STEPS_BETWEEN,
    PROBE_SHARE,
    ROUNDS,
    WARM_UP,
    AdaptiveCompression,
)

PROBE = 2 * ROUNDS * BLOCK
seconds = st.floats(0.05, 1.0)


def run(
    chooser: AdaptiveCompression, compressed: float, plain: float, steps: int, clock: float = 0.0
) -> tuple[list[bool], float]:
    """Steps that take as long as their kind does; which kind each was, and the time at the end."""
    kinds = []
    for _ in range(steps):
        kinds.append(chooser.use_plain)
        clock += plain if chooser.use_plain else compressed
        chooser.end_step(clock)
    return kinds, clock


def alone() -> AdaptiveCompression:
    return AdaptiveCompression(lambda numbers: numbers)


@given(seconds, seconds)
def test_the_faster_kind_is_kept(compressed: float, plain: float) -> None:
    chooser = alone()
    run(chooser, compressed, plain, WARM_UP + PROBE)
    (decision,) = chooser.decisions
    assert decision.compressed == pytest.approx(compressed)
    assert decision.plain == pytest.approx(plain)
    if abs(compressed - plain) > 1e-6:
        assert chooser.use_plain == decision.use_plain == (plain < compressed)


@settings(max_examples=20)
@given(seconds, seconds)
def test_probing_costs_a_percent(compressed: float, plain: float) -> None:
    """Beyond the first probe, the slower kind costs at most that share of the time that a decision stands."""
    chooser = alone()
    _, clock = run(chooser, compressed, plain, WARM_UP + PROBE)
    begun = clock
    lost = 0.0
    best = min(compressed, plain)
    while len(chooser.decisions) < 3:
        kinds, clock = run(chooser, compressed, plain, 1, clock)
        lost += (plain if kinds[0] else compressed) - best
    assert lost <= PROBE_SHARE * (clock - begun) + 1e-9
    assert chooser.decisions[2].step - chooser.decisions[1].step >= LEAST_STEPS_BETWEEN


def test_a_small_advantage_does_not_change_a_mind() -> None:
    for change, aside in ((0.97, False), (0.9, True)):
        chooser = alone()
        _, clock = run(chooser, 1.0, 2.0, WARM_UP + PROBE)
        while len(chooser.decisions) < 2:
            _, clock = run(chooser, 1.0, change, 1, clock)
        assert chooser.use_plain is aside


def test_one_long_pause_decides_nothing() -> None:
    """A validation run between two steps is no step."""
    chooser = alone()
    clock = 0.0
    for step in range(WARM_UP + PROBE):
        clock += 100.0 if step == WARM_UP + 2 else (2.0 if chooser.use_plain else 1.0)
        chooser.end_step(clock)
    assert chooser.decisions[0].compressed == 1.0
    assert not chooser.use_plain


def test_ranks_agree_and_one_of_them_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Rank 0 by itself would compress, rank 1 would not; together they step aside."""
    own = ([1.0, 1.5], [3.0, 1.0])
    mean = [sum(pair) / 2 for pair in zip(*own, strict=True)]
    brought = []

    def agree(numbers: list[float]) -> list[float]:
        brought.append(numbers)
        return mean

    ranks = [AdaptiveCompression(agree, log=rank == 0) for rank in range(2)]
    with caplog.at_level(logging.INFO, logger="lightloom.exchange"):
        for chooser, (compressed, plain) in zip(ranks, own, strict=True):
            run(chooser, compressed, plain, WARM_UP + PROBE)
    assert brought == [list(pair) for pair in own]
    assert [chooser.use_plain for chooser in ranks] == [True, True]
    line = "step 21: 2000.0 ms with compression, 1250.0 ms with plain all-reduce; plain all-reduce from now on"
    assert [record.getMessage() for record in caplog.records] == [line]


def test_a_decision_outlives_a_checkpoint() -> None:
    first = alone()
    _, clock = run(first, 2.0, 1.0, WARM_UP + PROBE + 10)
    second = alone()
    second.load_state_dict(first.state_dict())
    steps = 2 * PROBE + 2000
    assert run(second, 2.0, 1.0, steps, clock)[0] == run(first, 2.0, 1.0, steps, clock)[0]


def test_a_probe_under_way_begins_anew() -> None:
    first = alone()
    run(first, 2.0, 1.0, WARM_UP + BLOCK + 1)
    assert first.use_plain
    second = alone()
    second.load_state_dict(first.state_dict())
    kinds, _ = run(second, 2.0, 1.0, WARM_UP + PROBE + 1)
    assert kinds[:WARM_UP] == [False] * WARM_UP
    assert kinds[-1]
