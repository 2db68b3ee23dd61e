"""The simulation of events against the closed form, under the closed form's assumptions and outside of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightloom.core.errors import ConfigError
from lightloom.planning.economics.job import Checkpoint, Interruption, Job, World, simulate

JOB = Job(
    nodes=64,
    node_rate=1e-6,
    node_restart=500,
    repair=40000,
    spares=5,
    others=(Interruption(name="software", rate=1 / 40000, restart=150),),
    checkpoint=Checkpoint(stall=20, save=100),
)


def random_job(draws: np.random.Generator) -> Job:
    """Draw a job under the assumptions of the closed form, from kept nearly all to kept nearly nothing."""
    nodes = int(draws.integers(1, 40))
    mtbf = 10 ** draws.uniform(3.3, 5.5)
    node_share = draws.uniform(0, 1)
    repair = 10 ** draws.uniform(2, 4.5)
    broken = node_share / mtbf * repair
    kinds = [
        Interruption(name=str(kind), rate=share * (1 - node_share) / mtbf, restart=10 ** draws.uniform(1, 3))
        for kind, share in enumerate(draws.dirichlet([1, 1]))
    ]
    return Job(
        nodes=nodes,
        node_rate=node_share / mtbf / nodes,
        node_restart=10 ** draws.uniform(1, 3),
        repair=repair,
        spares=int(draws.integers(0, 3) + broken * draws.uniform(0.5, 2)),
        others=tuple(kinds),
        checkpoint=Checkpoint(
            stall=10 ** draws.uniform(0, 2.5), save=float(draws.choice([0, 10 ** draws.uniform(1, 3)]))
        ),
        fixed_interval=None if draws.random() < 0.5 else 10 ** draws.uniform(3, 4),
    )


@pytest.mark.slow
def test_closed_form_and_simulation_agree_on_200_random_settings() -> None:
    """Within 1 % of the share kept, each."""
    draws = np.random.default_rng(19)
    for _ in range(200):
        job = random_job(draws)
        for size in (1, 4, 16, 64):  # until chance alone is far below 1 %
            played = simulate(job, 4e4 * size * job.mtbf, runs=8, seed=int(draws.integers(1 << 30)))
            if played.error < 0.0025 * job.goodput:
                break
        assert played.goodput == pytest.approx(job.goodput, rel=0.01), job


@pytest.mark.slow
def test_simulation_follows_the_closed_form_part_by_part() -> None:
    played = simulate(JOB, 1e10, runs=4)
    expected = JOB.shares()
    for name in ("useful", "stalled", "recomputed", "restarting", "waiting"):
        assert getattr(played.shares, name) == pytest.approx(getattr(expected, name), rel=0.03, abs=3e-4), name


@pytest.mark.slow
def test_what_the_closed_form_leaves_out_costs() -> None:
    exact = JOB.goodput
    alone = replace(JOB, spares=1, repair=20000.0)
    assert simulate(alone, 3e9, world=World(crews=1)).goodput < alone.goodput - 0.01
    assert simulate(JOB, 3e9, world=World(rack=16, rack_rate=1e-7)).goodput < exact - 0.01
    assert simulate(JOB, 3e9, world=World(shape=1.0, crews=64, rack=16)).goodput == pytest.approx(exact, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("spares", [0, 5])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_nodes_that_fail_alone_and_racks_of_one_node_are_one_rate(spares: int, share: float) -> None:
    """Quick: a part of the failures as those of racks of one node changes nothing, and all follow the closed form."""
    job = replace(JOB, spares=spares, fixed_interval=JOB.interval)
    parted = replace(job, node_rate=(1 - share) * job.node_rate)
    played = simulate(parted, 5e8, world=World(rack=1, rack_rate=share * job.node_rate))
    expected = job.shares()
    assert played.goodput == pytest.approx(expected.useful, rel=0.03)
    for name in ("stalled", "recomputed", "restarting", "waiting"):
        assert getattr(played.shares, name) == pytest.approx(getattr(expected, name), rel=0.1), name


def test_as_many_crews_as_nodes_are_any_number_of_them_and_one_is_kept_busy() -> None:
    """Quick: a crew that has repaired a node repairs the next one, for as long as the job is played."""
    job = replace(JOB, nodes=4, spares=0, node_rate=1e-5, fixed_interval=JOB.interval)
    played = [simulate(job, 1e8, world=World(crews=crews)).goodput for crews in (0, 4, 2, 1)]
    assert played[1] == played[0] and played[0] > played[2] > played[3] > 0.1


def test_bad_worlds_are_refused() -> None:
    for fields, message in (
        ({"shape": 0.0}, "0.2 to 20"),
        ({"crews": -1}, "repair crews"),
        ({"rack": 0}, "racks of 0"),
    ):
        with pytest.raises(ConfigError, match=message):
            World(**fields)
    with pytest.raises(ConfigError, match="time to simulate"):
        simulate(JOB, 0)
    with pytest.raises(ConfigError, match="0 runs"):
        simulate(JOB, 1, runs=0)
