"""What is pinned is refused exactly where no strategy has it."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

from lightloom.models.graph import ComputeGraph
from lightloom.planning.parallelism.strategy_space import Strategies
from lightloom.planning.parallelism.tensor_parallel import LEAST_TOKENS
from lightloom.planning.pricing.job import Job
from lightloom.planning.search.request import Pins
from tests.planner.jobs import Model, job, mixture, transformer
from tests.planner.test_context_parallel import sliceable

CHOICES: dict[str, tuple[Any, ...]] = {
    "dp": (1, 2, 3, 4, 8),
    "tp": (1, 2, 4, 8),
    "pp": (1, 2, 4, 8),
    "ep": (1, 2, 3, 4),
    "cp": (1, 2, 4),
    "micro_batches": (1, 2, 3, 4, 8),
    "micro_batch": (1, 2, 3, 8, 16),
    "virtual_stages": (1, 2, 3),
    "sequence_parallel": (True, False),
}


@cache
def job_of(model: Model) -> Job:
    return job(4, 8, model=model)


@cache
def space(model: Model, batches: tuple[int, ...], micro_batch: int | None, cp: int | None) -> Strategies:
    plain: dict[str, Any] = {"algorithms": ("ring",), "shardings": ("none",), "recomputations": ("none",)}
    return job_of(model).space(batches, micro_batch=micro_batch, cp=cp, most_micro_batches=16, **plain)


def long(blocks: int, hidden: int) -> ComputeGraph:
    """A transformer on sequences that may be cut into four."""
    return sliceable(blocks, hidden, 4 * LEAST_TOKENS)


@pytest.mark.parametrize("model", [transformer, mixture, long])
def test_refused_is_what_no_strategy_has(model: Model) -> None:
    random, refused, had = Random(1), 0, 0
    for _ in range(1500 if model is long else 3000):
        batches = random.choice([(16,), (12,), (16, 24), (10,)])
        whole = random.random() < 0.4
        share = dict.fromkeys(("dp", "tp", "pp", "micro_batches", "virtual_stages"), 1.0) if whole else {}
        given = {name: random.choice(each) for name, each in CHOICES.items() if random.random() < share.get(name, 0.3)}
        pins = Pins(**given)
        why = pins.contradiction(job_of(model), batches)
        if (pins.micro_batches and pins.micro_batch) or ((pins.cp or 1) > 1 and model is not long):
            # Only one of them says how a batch is cut, and so short a sequence is not cut at all.
            assert why
            continue
        found = pins.match(space(model, batches, pins.micro_batch, pins.cp)).any()
        assert not (why and found), (batches, given, why)
        assert why or found or not whole or pins.micro_batch, (batches, given)
        refused, had = refused + (why is not None), had + bool(found)
    assert min(refused, had) > 200
