"""Joules of sending in a step: those of what stages send each other, and those of collectives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lightloom.collectives.spec import Kind
from lightloom.planner.pricing.job import Job
from lightloom.planner.pricing.step_energy import strategy_joules
from lightloom.planner.pricing.strategy_step import simulate
from lightloom.simulation.lower import Priced
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
