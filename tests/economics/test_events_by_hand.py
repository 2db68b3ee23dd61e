"""The event simulation with draws that are written down: every event, total and argument of it worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.planning.economics import estimate, job, kernels
from lightloom.planning.economics.estimate import Estimate, play
from lightloom.planning.economics.job import Checkpoint, Interruption, Job, Played, Shares, World, simulate

Script = Callable[..., list[tuple[str, float]]]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Kernels as plain Python, with the given lifetimes and other times in place of what is drawn."""
    for name in ("_durable", "_fail", "_repair", "_assign", "_next", "play"):
        monkeypatch.setattr(kernels, name, getattr(kernels, name).py_func)

    def write(lifetimes: list[float], others: list[float]) -> list[tuple[str, float]]:
        asked: list[tuple[str, float]] = []
        lives, rest = iter(lifetimes), iter(others)

        def lifetime(nodes: kernels.Nodes) -> float:
            asked.append(("lifetime", nodes.mtbf))
            return next(lives)

        def exponential(mean: float) -> float:
            asked.append(("other", mean))
            return next(rest)

        monkeypatch.setattr(kernels, "_lifetime", lifetime)
        monkeypatch.setattr(kernels, "_exponential", exponential)
        return asked

    return write


def nodes(needed: int, crews: int = 0, rack: int = 1) -> kernels.Nodes:
    return kernels.Nodes(
        needed=needed, mtbf=900.0, scale=900.0, shape=1.0, restart=10.0, repair=70.0, crews=crews, rack=rack
    )


@pytest.mark.parametrize(
    ("horizon", "useful", "restarting", "waiting", "failures"),
    [
        (50.0, 20.0, 0.0, 0.0, 0),  # floor(47 / 25) checkpoints
        (62.0, 40.0, 2.0, 0.0, 1),  # in the restart after software at 60
        (104.0, 60.0, 9.0, 0.0, 2),  # in the restart after node 0 at 100, whose place the spare takes
        (402.0, 80.0, 20.0, 247.0, 4),  # in the wait after node 2 at 300
        (460.0, 100.0, 30.0, 250.0, 4),  # at the next failure, which is not played
        (600.0, 200.0, 35.0, 250.0, 5),
    ],
)
def test_a_job_of_two_nodes_and_a_spare_is_played_as_by_hand(
    script: Script, horizon: float, useful: float, restarting: float, waiting: float, failures: int
) -> None:
    """Software fails at 60 and 460, node 0 at 100, node 1 at 105 during the restart, node 2 at 300.

    Node 0 is repaired at 250 and node 1 at 405, where waits since 105 and 300 end. The job computes from 0 to 60, 65
    to 100, 260 to 300, 415 to 460 and from 465 on: 2, 1, 1, 1 and, until 600, 5 checkpoints of 20 useful seconds, each
    25 s after the last and saved 3 s later.
    """
    asked = script([100.0, 105.0, 300.0, 1000.0, 2000.0], [60.0, 400.0, 150.0, 300.0, 500.0, 1e9])
    kinds = np.array([[0.01, 5.0], [0.0, 0.0]])
    totals = kernels.play(0, horizon, nodes(2), kinds, kernels.Rhythm(20.0, 5.0, 3.0), np.empty(3))
    assert totals.tolist() == [useful, restarting, waiting, failures]
    assert asked[:4] == [("lifetime", 900.0)] * 3 + [("other", 100.0)]
    if horizon == 600.0:
        assert [mean for what, mean in asked[4:] if what == "other"] == [100.0, 70.0, 70.0, 70.0, 100.0]


def state_of(count: int, needed: int) -> Any:
    state = kernels._State(
        np.full(count, 900.0),
        np.ones(count, np.bool_),
        np.arange(count) < needed,
        np.full(count, -7, np.int64),
        np.zeros(5, np.int64),
    )
    state.counts[:2] = count, needed
    return state


def test_one_crew_repairs_nodes_in_the_order_in_which_they_failed(script: Script) -> None:
    """Up, serving, busy, place and length of the queue after each event; the queue of three places wraps around."""
    script([1000.0] * 5, [5.0, 6.0, 7.0, 8.0, 9.0])
    made, state = nodes(2, crews=1), state_of(3, 2)
    assert kernels._fail(0, 3, 100.0, made, state) and not kernels._fail(0, 3, 100.0, made, state)
    assert state.clock.tolist() == [105.0, math.inf, math.inf] and state.counts.tolist() == [0, 0, 1, 0, 2]
    assert state.queue.tolist() == [1, 2, -7] and not state.works.any() and not state.used.any()
    kernels._repair(0, 105.0, made, state)
    assert state.clock.tolist() == [1105.0, 111.0, math.inf] and state.counts.tolist() == [1, 0, 1, 1, 1]
    kernels._repair(1, 111.0, made, state)
    assert state.clock.tolist() == [1105.0, 1111.0, 118.0] and state.counts.tolist() == [2, 0, 1, 2, 0]
    # Neither serves the job yet: nothing that it uses is hit.
    assert not kernels._fail(0, 2, 115.0, made, state)
    assert state.queue.tolist() == [1, 2, 0] and state.counts.tolist() == [0, 0, 1, 2, 2]
    kernels._repair(2, 118.0, made, state)
    assert state.clock.tolist() == [126.0, math.inf, 1118.0] and state.counts.tolist() == [1, 0, 1, 0, 1]
    kernels._repair(0, 126.0, made, state)
    assert state.clock[1] == 135.0 and state.counts.tolist() == [2, 0, 1, 1, 0]
    kernels._repair(1, 135.0, made, state)
    assert state.counts.tolist() == [3, 0, 0, 1, 0]


def test_spares_that_work_serve_in_the_place_of_nodes_that_do_not(script: Script) -> None:
    script([], [5.0, 6.0, 7.0, 8.0])
    made, state = nodes(2), state_of(4, 2)
    assert not kernels._fail(2, 3, 0.0, made, state)
    assert kernels._fail(0, 1, 0.0, made, state) and state.clock.tolist() == [6.0, 900.0, 5.0, 900.0]
    assert kernels._assign(made, state) and state.used.tolist() == [False, True, False, True]
    assert kernels._fail(1, 2, 0.0, made, state) and not kernels._assign(made, state)
    assert state.counts.tolist() == [1, 1, 3, 0, 0]
    # Of several spares the first takes the place.
    script([], [5.0])
    several = state_of(5, 2)
    assert kernels._fail(0, 1, 0.0, made, several) and kernels._assign(made, several)
    assert several.used.tolist() == [False, True, True, False, False]


def test_events_are_interruptions_of_a_kind_failures_of_a_rack_or_of_a_node_and_repairs(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five nodes in racks of two: the third rack has the last node alone."""
    kinds, due = np.array([[0.5, 33.0], [0.25, 0.0]]), np.array([40.0, 50.0])
    for share, failed in ((0.0, [0, 1]), (0.4, [2, 3]), (0.99, [4])):
        script([], [3.0, 4.0, 5.0])
        state = state_of(5, 3)
        monkeypatch.setattr(np.random, "random", lambda share=share: share)
        restart = kernels._next(50.0, 1, kinds, due, nodes(3, rack=2), state)
        assert np.flatnonzero(~state.works).tolist() == failed and due[1] == 53.0
        assert restart == (-1.0 if failed == [4] else 10.0)
    script([], [3.0, 4.0, 5.0])
    even = state_of(4, 3)
    kernels._next(50.0, 1, kinds, due, nodes(3, rack=2), even)
    assert even.works.tolist() == [True, True, False, False]
    asked = script([70.0], [2.0, 4.0])
    state = state_of(5, 3)
    assert kernels._next(40.0, 0, kinds, due, nodes(3, rack=2), state) == 33.0 and due[0] == 42.0
    assert kernels._next(41.0, 2 + 4, kinds, due, nodes(3, rack=2), state) == -1.0 and not state.works[4]
    assert state.works.sum() == 4 and state.clock[4] == 45.0
    assert kernels._next(45.0, 2 + 4, kinds, due, nodes(3, rack=2), state) == -1.0 and state.works.all()
    assert state.clock[4] == 115.0 and asked == [("other", 2.0), ("other", 70.0), ("lifetime", 900.0)]
    script([], [9.0])
    assert kernels._next(46.0, 2 + 2, kinds, due, nodes(3, rack=2), state) == 10.0


def test_lifetimes_are_weibulls_and_exponential_at_a_shape_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the share of lives that are shorter is 3/4: 1 - e^(-(t / scale)^shape) = 3/4."""
    monkeypatch.setattr(np.random, "random", lambda: 0.75)
    monkeypatch.setattr(kernels, "_exponential", kernels._exponential.py_func)
    assert kernels._exponential(50.0) == pytest.approx(50.0 * math.log(4))
    assert kernels._exponential(math.inf) == math.inf
    lifetime = kernels._lifetime.py_func
    plain = nodes(1)
    assert lifetime(plain) == pytest.approx(900.0 * math.log(4))
    assert lifetime(plain._replace(mtbf=100.0, scale=600.0, shape=2.0)) == pytest.approx(600.0 * math.log(4) ** 0.5)
    assert lifetime(plain._replace(mtbf=math.inf, scale=math.inf, shape=2.0)) == math.inf


@pytest.mark.parametrize(("length", "kept"), [(28.0, 20.0), (27.9, 0.0), (3.0, 0.0), (-9.0, 0.0), (53.5, 40.0)])
def test_checkpoints_are_kept_from_the_second_in_which_they_are_saved(length: float, kept: float) -> None:
    assert kernels._durable.py_func(length, kernels.Rhythm(20.0, 5.0, 3.0)) == kept


JOB = Job(
    nodes=6,
    node_rate=1e-3,
    node_restart=500.0,
    repair=40.0,
    spares=3,
    others=(Interruption(name="software", rate=1e-4, restart=150.0),),
    checkpoint=Checkpoint(stall=20.0, save=100.0),
    fixed_interval=300.0,
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Runs of which the first keeps 500 of 1000 s and each further one 100 s more."""
    made: list[Any] = []

    def played(seed: int, seconds: float, *rest: Any) -> np.ndarray:
        made.append((seed, seconds, *rest))
        return np.array([400.0 + 100 * len(made), 30.0, 50.0, 2.0 * len(made)])

    monkeypatch.setattr(kernels, "play", played)
    return made


def test_a_simulation_is_the_mean_of_its_runs(calls: list[Any]) -> None:
    """Useful shares of 0.5, 0.6 and 0.7: their deviation is 0.1, that of the mean 0.1 / sqrt 3."""
    found = simulate(JOB, 1000.0, runs=3, seed=5, world=World(shape=2.0, crews=4, rack=2, rack_rate=1e-5))
    assert found.goodput == pytest.approx(0.6) and found.error == pytest.approx(0.1 / math.sqrt(3))
    assert (found.interruptions, found.seconds, found.runs) == (4.0, 1000.0, 3)
    shares = found.shares
    assert (shares.useful, shares.restarting, shares.waiting) == pytest.approx((0.6, 0.03, 0.05))
    # A stall of 20 s for every 300 s that are kept.
    assert shares.stalled == pytest.approx(0.6 * 20 / 300)
    assert shares.recomputed == pytest.approx(1 - 0.6 - 0.04 - 0.03 - 0.05)
    assert len({call[0] for call in calls}) == 3
    seed, seconds, made, kinds, rhythm, clock = calls[0]
    assert seconds == 1000.0 and len(clock) == 9
    scale = 1000.0 / math.gamma(1.5)
    assert tuple(made) == pytest.approx((6, 1000.0, scale, 2.0, 500.0, 40.0, 4, 2))
    # Nine nodes fill four racks and a part of the fifth.
    assert kinds.tolist() == [[1e-4, 150.0], [pytest.approx(5e-5), 0.0]]
    assert tuple(rhythm) == (300.0, 20.0, 100.0)
    calls.clear()
    assert simulate(JOB, 1000.0, runs=2).error == pytest.approx(0.1 / 2)  # of 0.5 and 0.6
    again = simulate(JOB, 1000.0, runs=1, seed=5)
    assert calls[-1][0] == seed and math.isnan(again.error)
    assert tuple(calls[-1][2]) == pytest.approx((6, 1000.0, 1000.0, 1.0, 500.0, 40.0, 0, 1))
    assert calls[-1][3].tolist() == [[1e-4, 150.0], [0.0, 0.0]]
    assert simulate(JOB, 1000.0).runs == 8 and simulate(JOB, 1000.0, runs=8, seed=0).runs == 8
    assert [call[0] for call in calls[-8:]] == [call[0] for call in calls[-16:-8]] and calls[-1][0] != seed


def test_jobs_that_never_fail_are_played_with_intervals_that_end(calls: list[Any]) -> None:
    never = Job(nodes=2, node_rate=0.0, node_restart=1.0, repair=1.0, checkpoint=Checkpoint(stall=2.0))
    simulate(never, 1000.0, runs=1, world=World(shape=3.0))
    assert calls[0][2].mtbf == calls[0][2].scale == math.inf and calls[0][4].interval == 2000.0
    still = Job(nodes=2, node_rate=1e-3, node_restart=1.0, repair=1.0, fixed_interval=0.0)
    assert simulate(still, 1000.0, runs=1).shares.stalled == 0.0


def test_worlds_at_the_ends_of_their_ranges_are_no_mistake() -> None:
    for fields in ({"shape": 0.2}, {"shape": 20.0}, {"crews": 0}, {"rack": 1}, {"rack_rate": 0.0}):
        World(**fields)
    wrongs: list[dict[str, Any]] = [{"shape": 20.1}, {"shape": 0.19}, {"rack_rate": -1.0}, {"rack_rate": math.inf}]
    for wrong in wrongs:
        with pytest.raises(ConfigError):
            World(**wrong)
    assert job.World() == World(shape=1.0, crews=0, rack=1, rack_rate=0.0)
    for seconds in (0.0, -1.0, math.inf):
        with pytest.raises(ConfigError, match="expected a time to simulate"):
            simulate(JOB, seconds)


def test_what_is_played_runs_for_months_of_thirty_days_at_the_speed_of_damaged_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    def simulated(job: Job, seconds: float, **rest: Any) -> Played:
        asked.append((job, seconds, rest))
        shares = Shares(useful=0.8, stalled=0.1, recomputed=0.05, restarting=0.05)
        return Played(goodput=0.8, error=0.02, shares=shares, interruptions=3.0, seconds=seconds, runs=2)

    monkeypatch.setattr(estimate, "simulate", simulated)
    slow: Any = Estimate.__new__(Estimate)
    vars(slow).update(job=JOB, speed=0.75)
    world = World(crews=2)
    found = play(slow, 2.0, 7, 11, world)
    assert asked == [(JOB, 2 * 30 * 86400.0, {"runs": 7, "seed": 11, "world": world})]
    assert (found.goodput, found.error) == pytest.approx((0.6, 0.015))
    assert (found.shares.useful, found.shares.slowed) == pytest.approx((0.6, 0.2)) and found.interruptions == 3.0
