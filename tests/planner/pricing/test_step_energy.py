"""Joules of sending in a step: those of what stages send each other, and those of collectives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.collective import Kind
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing import strategy_step as step_energy
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.step import TiedSum, stage_exchanges
from lightloom.planning.pricing.strategy_step import simulate, strategy_joules
from lightloom.planning.simulation.engine import Priced
from tests.planner.jobs import job, space
from tests.simulation.prices import linear

BIT, BYTE = 1e-12, 3e-11


def job_at(bit: float | None, byte: float | None) -> Job:
    """A job whose fabric takes so many joules a bit, and whose collectives so many a byte."""
    seconds = linear(1e10, 1e-6)

    def price(kind: Kind, nbytes: float) -> Priced:
        priced = seconds(kind, nbytes)
        return replace(priced, cost=replace(priced.cost, energy=None if byte is None else byte * nbytes))

    of = job(4, 4, price)
    return replace(of, fabric=of.fabric.model_copy(update={"energy_per_bit": bit}))


def test_joules_of_sends_and_of_collectives_add_up_and_are_unknown_where_either_are() -> None:
    """Of every strategy other than data parallelism alone; what is not sent is not unknown."""
    jobs = [
        job_at(*each) for each in ((BIT, BYTE), (BIT, 0.0), (0.0, BYTE), (2 * BIT, 3 * BYTE), (None, BYTE), (BIT, None))
    ]
    rows = space(jobs[0], (16,))
    seen = set()
    for strategy in (each for each in map(rows.__getitem__, range(3, len(rows), 16)) if not each.plain):
        step = simulate(jobs[0], strategy)
        both, sent, exchanged, scaled, unsent, unpriced = (strategy_joules(of, strategy, step) for of in jobs)
        assert both is not None and sent is not None and exchanged is not None
        assert both == pytest.approx(sent + exchanged, rel=1e-12) and both > 0
        assert scaled == pytest.approx(2 * sent + 3 * exchanged, rel=1e-12)
        assert (unsent is None, unpriced is None) == (sent > 0, exchanged > 0)
        assert (sent > 0) == (strategy.pp > 1)
        seen.add((sent > 0, exchanged > 0))
    assert len(seen) == 3


@pytest.mark.parametrize("holders", [[0, 3], [0, 1, 3], [1, 2]])
def test_holders_of_a_table_send_around_a_ring_of_their_stages(
    holders: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each to the next one, as far as that lies, and the last one back to the first."""
    of, strategy = job_at(BIT, 0.0), Strategy(1, 1, 4, 2, 8, "none", "none", "ring", 0)
    sent: list[tuple[float, int, int]] = []

    def with_holders(*told: Any, **options: Any) -> Any:
        return stage_exchanges(*told, **options)._replace(tied=[TiedSum(holders, np.array([7.0]), np.array([0.0]))])

    def noted(job: Job, nbytes: float, ranks: int, stride: int) -> float:
        sent.append((nbytes, ranks, stride))
        return 0.0

    monkeypatch.setattr(step_energy, "stage_exchanges", with_holders)
    monkeypatch.setattr(step_energy, "_sends", noted)
    strategy_joules(of, strategy, simulate(of, strategy))
    tied = [stride for nbytes, ranks, stride in sent if (nbytes, ranks) == (7.0, 1)]
    pairs = zip(holders, [*holders[1:], holders[0]], strict=True)
    assert tied == [receiver - sender for sender, receiver in pairs] and sum(tied) == 0
