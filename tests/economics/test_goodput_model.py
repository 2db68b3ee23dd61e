"""The closed form of goodput: Daly's equation, its generalisations, and availability, each against something else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.planning.economics.job import (
    Checkpoint,
    Interruption,
    Job,
    Shares,
    cycle_time,
    host_availability,
    optimal_interval,
    options_of,
    reconfigurable_share,
    spare_share,
    static_share,
    time_shares,
    total_job,
)

MTBFS = st.floats(600, 1e7)


def segment_time(interval: float, stall: float, mtbf: float, restart: float, downtime: float = 0.0) -> float:
    """The expected seconds for ``interval`` useful ones and their checkpoint: Daly's equation 9."""
    return (mtbf + downtime) * math.exp(restart / mtbf) * math.expm1((interval + stall) / mtbf)


@given(mtbf=MTBFS, stall=st.floats(0.1, 5000), restart=st.floats(0, 3000), downtime=st.floats(0, 3000))
def test_one_kind_of_interruption_is_dalys_equation(mtbf: float, stall: float, restart: float, downtime: float) -> None:
    kind = Interruption(name="all", rate=1 / mtbf, restart=restart, downtime=downtime)
    interval = optimal_interval(mtbf, Checkpoint(stall=stall))
    shares = time_shares(interval, Checkpoint(stall=stall), [kind])
    assert shares.useful == pytest.approx(interval / segment_time(interval, stall, mtbf, restart, downtime), rel=1e-9)
    total = shares.useful + shares.stalled + shares.recomputed + shares.restarting + shares.waiting
    assert total == pytest.approx(1)


@given(mtbf=MTBFS, stall=st.floats(1e-6, 5000), save=st.floats(0, 2000), factor=st.floats(1.001, 3))
def test_the_optimum_beats_its_neighbours(mtbf: float, stall: float, save: float, factor: float) -> None:
    checkpoint = Checkpoint(stall=stall, save=save)
    kind = Interruption(name="all", rate=1 / mtbf, restart=60)
    best = optimal_interval(mtbf, checkpoint)
    kept = time_shares(best, checkpoint, [kind]).useful
    for other in (best * factor, max(best / factor, save - stall)):
        assert time_shares(other, checkpoint, [kind]).useful <= kept * (1 + 1e-12)


@pytest.mark.parametrize("stall", [1e-9, 1e-4, 1.0, 1e3])
def test_the_optimum_near_the_branch_point_solves_its_equation(stall: float) -> None:
    mtbf = 1e5
    x = optimal_interval(mtbf, Checkpoint(stall=stall)) / mtbf
    assert x - 1 + math.exp(-x - stall / mtbf) == pytest.approx(0, abs=1e-15)
    assert stall > 1 or x == pytest.approx(math.sqrt(2 * stall / mtbf), rel=2e-3 if stall > 1e-9 else 3e-7)


def test_two_kinds_of_interruption_are_a_chain_of_first_passages() -> None:
    """E[cycle] from the linear equations of its states, by their definition."""
    kinds = [
        Interruption(name="a", rate=1 / 5000, restart=900, downtime=30),
        Interruption(name="b", rate=1 / 800, restart=60),
    ]
    rate = sum(kind.rate for kind in kinds)
    weights = np.array([kind.rate / rate for kind in kinds])
    survived = np.exp([-kind.restart * rate for kind in kinds])
    # Time from a failure of a kind until computing: downtime, the restart as far as it comes, the next failure's time.
    own = np.array([kind.downtime for kind in kinds]) + (1 - survived) / rate
    x = np.linalg.solve(np.eye(2) - np.outer(1 - survived, weights), own)
    assert cycle_time(kinds) == pytest.approx(1 / rate + weights @ x, rel=1e-12)


@given(blocks=st.integers(1, 12), needed=st.integers(1, 12), block=st.floats(0, 1))
def test_reconfigurable_slices_are_the_sum_over_working_blocks(blocks: int, needed: int, block: float) -> None:
    needed = min(needed, blocks)
    terms = [math.comb(blocks, k) * block**k * (1 - block) ** (blocks - k) * (k // needed) for k in range(blocks + 1)]
    share = reconfigurable_share(blocks, needed, block)
    assert share == pytest.approx(sum(terms) * needed / blocks, abs=1e-9)
    assert static_share(blocks, needed, block) <= share + 1e-9
    assert spare_share(blocks, needed, block) >= share - 1e-9


def test_slices_of_tpu_v4() -> None:
    """64 blocks of 16 hosts; slices of 16, 32 and 48 blocks."""
    for host, static in ((0.99, (7.6, 0.6, 0.03)), (0.995, (27.7, 7.7, 1.6))):
        for needed, percent, joined in zip((16, 32, 48), static, (75, 50, 75), strict=True):
            assert 100 * static_share(64, needed, host**16) == pytest.approx(percent, abs=0.06)
            assert 100 * reconfigurable_share(64, needed, host**16) == pytest.approx(joined, abs=0.9)


def test_llama_3() -> None:
    mtbf = 54 * 86400 / 419
    assert total_job(mtbf, 300, Checkpoint(stall=30)).goodput == pytest.approx(0.90, abs=0.005)
    assert total_job(mtbf, 600, Checkpoint(stall=60)).goodput == pytest.approx(0.85, abs=0.005)


def test_limits() -> None:
    nothing = Checkpoint(stall=0)
    assert total_job(math.inf, 60, Checkpoint(stall=10)).goodput == 1
    assert total_job(1e4, 0, nothing).goodput == pytest.approx(1)
    assert total_job(10, 1e5, Checkpoint(stall=1)).goodput == pytest.approx(0)
    assert optimal_interval(1e4, Checkpoint(stall=1, save=500)) == 499
    spares = [Job(nodes=32, node_rate=1e-6, node_restart=300, repair=9e4, spares=s).goodput for s in (0, 1, 2, 8)]
    assert spares == sorted(spares)


def test_where_nothing_fails_only_checkpoints_cost() -> None:
    never: list[Interruption] = []
    assert asdict(time_shares(90.0, Checkpoint(stall=10), never)) == pytest.approx(
        {"useful": 0.9, "stalled": 0.1, "recomputed": 0, "restarting": 0, "waiting": 0, "slowed": 0}
    )
    assert time_shares(0.0, Checkpoint(stall=0), never).useful == 1.0
    assert time_shares(math.inf, Checkpoint(stall=10), never).useful == 1.0
    assert cycle_time(never) == math.inf
    assert cycle_time([Interruption(name="all", rate=1.0, restart=1e4)]) == math.inf
    assert host_availability(math.inf, 5.0) == 1.0 and host_availability(30.0, 10.0) == 0.75
    assert Job(nodes=4, node_rate=0.0, node_restart=1.0, repair=1e9).availability == 1.0


def test_checkpoints_without_time_between_them_lose_what_is_not_yet_saved() -> None:
    kind = Interruption(name="all", rate=1 / 100, restart=0.0)
    shares = time_shares(0.0, Checkpoint(stall=0.0, save=0.0), [kind])
    assert (shares.useful, shares.recomputed, shares.restarting) == pytest.approx((1.0, 0.0, 0.0))
    late = time_shares(50.0, Checkpoint(stall=0.0, save=50.0), [kind])
    soon = time_shares(50.0, Checkpoint(stall=0.0, save=0.0), [kind])
    assert late.useful == pytest.approx(soon.useful * math.exp(-0.5))
    # Beyond what a float holds there is nothing left, as there is hardly anything before.
    edge = [time_shares(rates * 100, Checkpoint(stall=0.0), [kind]).useful for rates in (699.0, 701.0)]
    assert 0 < edge[0] < 1e-290 and edge[1] == 0.0


def test_shares_at_a_speed_and_of_a_part_of_the_time_add_up_to_one() -> None:
    whole = Shares(useful=0.6, stalled=0.1, recomputed=0.2, restarting=0.1)
    slow = whole.available(0.5).at_speed(0.75)
    assert asdict(slow) == pytest.approx(
        {"useful": 0.225, "stalled": 0.05, "recomputed": 0.1, "restarting": 0.05, "waiting": 0.5, "slowed": 0.075}
    )


def test_inputs_agree_up_to_the_last_second() -> None:
    """An interval that ends as the last checkpoint is saved, with and without options around it."""
    assert options_of({"interval": 99.0, "stall": 1.0, "save": 100.0}).interval == 99.0
    assert 0 < total_job(1e4, 60, Checkpoint(stall=1, save=60), 59).goodput < 1
    with pytest.raises(ConfigError, match="interval of 98 s: expected at least 99 s"):
        options_of({"interval": 98.0, "stall": 1.0, "save": 100.0})
    for name, value in (("rates", "llama-3"), ("mtbf", {"host": 1.0}), ("spares", 0), ("repair", 1.0)):
        with pytest.raises(ConfigError, match=f"interruption_time and {name} contradict each other"):
            options_of({"interruption_time": 5.0, name: value})
    assert options_of({"interruption_time": 5.0, "mtbf": {}}).mtbf == {}
    assert options_of({"restart": 5.0, "recovery": {}}).restart == 5.0


@pytest.mark.parametrize("share", [static_share, reconfigurable_share, spare_share])
def test_shares_of_all_units_are_the_chance_that_all_work(share: Callable[[int, int, float], float]) -> None:
    assert share(4, 4, 0.5) == pytest.approx(0.5**4)
    assert (share(4, 1, 1.0), share(4, 1, 0.0), share(1, 1, 1.0)) == (1.0, 0.0, 1.0)
    for units, needed, chance, words in (
        (4, 0, 0.5, "0 of 4"),
        (4, 5, 0.5, "5 of 4"),
        (4, 1, -0.1, "-0.1"),
        (4, 1, 1.1, "1.1"),
    ):
        with pytest.raises(ConfigError, match=words):
            share(units, needed, chance)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: time_shares(-1.0, Checkpoint(stall=5), []), "interval -1 s: expected at least 0 s"),
        (lambda: total_job(1e4, 60, Checkpoint(stall=1, save=60), 10).goodput, "at least 59 s"),
        (lambda: static_share(4, 5, 0.9), "5 of 4 units"),
        (lambda: spare_share(4, 4, 99.0), "expected 0 to 1"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=message):
        make()
