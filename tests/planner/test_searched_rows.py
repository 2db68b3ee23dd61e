"""Which rows a search looks at, and which bounds it takes of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from lightloom.clusters.load import load_cluster
from lightloom.core.units import format_size
from lightloom.parallelism.strategy_space import Strategies
from lightloom.planner.bounds.placed import coarse_bound
from lightloom.planner.pricing.placed_space import PartTable, PlacedRows, distinct, placed_space, smaller
from lightloom.planner.search import placed_rows, rows
from lightloom.planner.search.columns import kinds_of
from lightloom.planner.search.placed_rows import searched_rows
from lightloom.planner.search.request import Pins, SearchRequest
from lightloom.planner.search.rows import ClusterRows
from tests.planner.gradients.exchanges import coded
from tests.planner.jobs import MadeUp, cluster, transformer, verified_job
from tests.planner.test_split_bounds import job_on
from tests.simulation.prices import linear

BATCHES = (8, 16)


def listed(of: PlacedRows) -> list[Any]:
    """Its choices."""
    return [of[row] for row in range(len(of))]


@pytest.mark.parametrize("pins", [Pins(), Pins(micro_batches=2)])
def test_placed_rows_are_searched_that_fit_and_are_not_too_fine(pins: Pins, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those divided further that would take more than half of the memory; all are counted."""
    request = SearchRequest(strategies=("placed",), quanta=(1e-7, 1e-5), pins=pins)
    whole = job_on(4, 4, 1, 64)
    table = PartTable(whole.model)
    plain = distinct(whole, table, placed_space(whole.fabric, BATCHES, request.quanta)[0])
    held = np.sort(coarse_bound(whole, table, plain).memory)
    for memory in (None, held[0] / 2, np.median(held), held[-1], 3 * held[-1]):
        job, capacity = whole, np.inf
        if memory is not None:
            capacity = float(memory)
            job = replace(whole, accelerator=whole.accelerator.model_copy(update={"memory": capacity}))
        if any(value is not None for _, value in pins):
            every = listed(smaller(plain, dict(pins)))
        else:
            large = coarse_bound(job, table, plain).memory > capacity / 2
            every = listed(plain) + listed(distinct(job, table, smaller(plain.rows(large), dict(pins))))
        look = coarse_bound(job, table, PlacedRows.of(every))
        for finest in (0, int(np.median(look.sub_operators)), look.sub_operators.max()):
            monkeypatch.setattr(placed_rows, "MOST_SUB_OPERATORS", finest)
            found = searched_rows(job, request, BATCHES)
            fine = look.sub_operators > finest
            wanted = np.flatnonzero(~fine & (look.memory <= capacity))
            assert listed(found.rows) == [every[row] for row in wanted]
            assert found.bound.tolist() == look.bound[wanted].tolist()
            assert (found.counts.rows, found.counts.too_fine) == (len(every), fine.sum())
            assert found.counts.too_large == len(every) - fine.sum() - len(wanted) and found.counts.refused == 0
            told = f"{fine.sum()} placed plans have more than {finest} sub-operators"
            assert found.refusals == [told] * bool(fine.any())
            least = f"the smallest placed plan needs at least {format_size(look.memory.min())} a device"
            assert found.needed == [least] * bool((look.memory > capacity).any())


def test_placed_rows_without_circuits_or_with_codecs_between_hops_are_refused_and_counted() -> None:
    narrow: dict[str, Any] = {"ranks": 12, "fabric": {"base": "circuit-switch", "degree": 2}}
    job = verified_job(transformer(1, 64), load_cluster("terarack-64", narrow))
    request = SearchRequest(strategies=("placed",), quanta=(1e-6,))
    _, refused = placed_space(job.fabric, (12,), request.quanta)
    found = searched_rows(job, request, (12,))
    assert found.counts.refused == refused > 0 and found.counts.rows == refused + len(found.rows)
    assert [line.split(", of a degree D of 2")[0] for line in found.refusals] == [
        f"{refused} placed plans have groups without circuits between their devices"
    ]
    on_switch = job_on(4, 4, 1, 64)
    between, in_line = coded(8.0), coded(3.0, "nic", 3.2e9)
    for exchanges in product((False, True), repeat=2):
        methods = tuple(each for each, there in zip((between, in_line), exchanges, strict=True) if there)
        found = searched_rows(replace(on_switch, exchanges=methods), request, (4,))
        assert set(found.rows.ratio.tolist()) == ({1.0, in_line.placed_ratio} if exchanges[1] else {1.0})
        assert found.refusals == ["placed plans take codecs in line with the links only"] * exchanges[0]


def test_second_bounds_are_taken_once_of_rows_of_one_kind_and_are_those_of_each_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those with the least first bounds together, twice as many every time; rows without a bound are refused."""
    request: Any = SearchRequest(strategies=("ddp", "fsdp", "tensor-pipeline"), global_batches=(16,))
    prices: Any = MadeUp(linear(1e10, 1e-6))
    made = ClusterRows(transformer(2), cluster(4), request, prices)
    first = sorted(made.first((16,)))
    space = made._strategies
    assert space is not None
    choices = [space[row.number] for row in first]
    # Some above the first bounds, some below, some infinite.
    second = {
        choice: (2.0, 0.5, np.inf)[place % 3] * row.per_sample * choice.global_batch
        for place, (row, choice) in enumerate(zip(first, choices, strict=True))
    }
    taken: list[Strategies] = []

    def bounds(_: object, some: Strategies) -> Any:
        taken.append(some)
        return np.array([second[some[row]] for row in range(len(some))])

    monkeypatch.setattr(rows, "bounds", bounds)
    refused = made.counts.refused
    for place, (row, choice) in enumerate(zip(first, choices, strict=True)):
        alone = second[choice] / choice.global_batch
        wanted = row._replace(per_sample=max(row.per_sample, alone), bounded=2) if place % 3 < 2 else None
        assert made.refined(row) == wanted
        assert wanted is None or (wanted.last and not row.last)
    assert made.counts.refused - refused == len(first[2::3])
    assert len({kind for some in taken for kind in kinds_of(some).tolist()}) == 3 and len(taken) > 3
    of_kind = [[choice for row, choice in zip(first, choices, strict=True) if row.kind == kind] for kind in range(3)]
    for number, some in enumerate(taken):
        left = of_kind[int(kinds_of(some)[0])]
        together, left[:] = left[: rows._AT_ONCE << number], left[rows._AT_ONCE << number :]
        assert [some[row] for row in range(len(some))] == together
    assert not any(of_kind)
