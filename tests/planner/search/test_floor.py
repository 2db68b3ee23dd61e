"""The least bound of all strategies on a cluster, of which few are bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.collective import Kind
from lightloom.planning.pricing.price_lines import LowerPrice
from lightloom.planning.search import search as of_floor
from lightloom.planning.search.bounds import admitted, bounds, memory
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.rows import ClusterRows
from lightloom.planning.search.search import Floor
from tests.planner.jobs import MadeUp, cluster, transformer
from tests.simulation.prices import linear

BATCHES = (16, 32)


class Serving(MadeUp):
    """Prices of the kinds of collectives that are named; where nothing takes time, replicas alone lack the others."""

    def __init__(self, kinds: tuple[str, ...], bandwidth: float) -> None:
        self.free = bandwidth > 1e15
        super().__init__(linear(bandwidth, 0.0 if self.free else 1e-6))
        self.kinds = kinds

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        return None if self.free or kind in self.kinds else "refused"

    def lines(self, kind: Kind, *given: Any, hidden_setup: bool, **others: Any) -> Sequence[LowerPrice]:
        unknown = self.free and hidden_setup and kind not in self.kinds
        return () if unknown else super().lines(kind, *given, hidden_setup=hidden_setup, **others)


def rows_at(bandwidth: float, share: float, *kinds: str) -> ClusterRows:
    """A small transformer on accelerators whose memory holds a share of its strategies."""
    on, graph = cluster(4), transformer(1, 64)
    prices: Any = Serving(kinds, bandwidth)
    request = SearchRequest(strategies=("ddp", "fsdp", "tensor-pipeline"), global_batches=BATCHES)
    whole = ClusterRows(graph, on, request, prices)
    held = memory(whole.job, whole.strategies(BATCHES))
    chip = on.accelerator.model_copy(update={"memory": float(np.quantile(held, share))})
    return ClusterRows(graph, replace(on, accelerator=chip), request, prices)


ALL = ("all-reduce", "all-gather", "reduce-scatter")


@pytest.mark.parametrize(
    ("free_kinds", "kinds", "at_once"), [(ALL, ALL, 2), (ALL, ALL[:1], 64), (ALL[1:], ALL, 64), (ALL, (), 64)]
)
def test_the_least_bound_is_that_of_all_strategies_that_fit_and_are_served(
    free_kinds: tuple[str, ...], kinds: tuple[str, ...], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the fabric without exchanges serves; where nothing is served but stages, these are left."""
    monkeypatch.setattr(of_floor, "_AT_ONCE", at_once)
    bounded: list[int] = []

    def counted(job: Any, rows: Any, *, proved: bool) -> Any:
        bounded.append(len(rows))
        return bounds(job, rows, proved=proved)

    for share, bandwidth in ((0.2, 1e7), (1.0, 1e10)):
        free, on = rows_at(1e30, share, *free_kinds), rows_at(bandwidth, share, *kinds)
        floor = Floor.of(free, BATCHES)
        assert (np.diff(floor.per_sample) >= 0).all() and np.isfinite(floor.per_sample).all()
        space = on.strategies(BATCHES)
        space = space.rows(memory(on.job, space) <= on.capacity)
        assert len(floor.strategies) == len(space)
        space = space.rows(admitted(on.job, space))
        every = bounds(on.job, space, proved=True) / space.global_batch
        bounded.clear()
        with monkeypatch.context() as patch:
            patch.setattr(of_floor, "bounds", counted)
            assert floor.least(on.job) == pytest.approx(min(every, default=inf))
        assert sum(bounded) <= len(space)
        if at_once == 2 and bandwidth == 1e10:
            assert sum(bounded) < len(space) / 2
    assert Floor(free.strategies(BATCHES).rows(slice(0, 0)), np.zeros(0)).least(on.job) == inf


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_strategies_that_are_left_out_take_longer_than_was_asked_or_do_not_fit(share: float) -> None:
    """On any network; algorithms and exchange methods make no difference, nor does the order."""
    floor, on = Floor.of(rows_at(1e30, share, *ALL), BATCHES), rows_at(1e10, share, *ALL)
    space = on.strategies(BATCHES)
    space = space.rows(admitted(on.job, space))
    space = space.rows(np.random.default_rng(0).permutation(len(space)))
    seconds, fits = bounds(on.job, space) / space.global_batch, memory(on.job, space) <= on.capacity
    coded = space.rows(np.arange(len(space)))
    coded.exchange[:] = 1
    for below in (0.0, *np.quantile(seconds[fits], [0.1, 0.5, 1.0]), inf):
        may_win = floor.below(below)(space)
        assert not (fits & (seconds <= below) & ~may_win).any()
        assert not (may_win & ~fits).any()
        assert (floor.below(below)(coded) == may_win).all()
    assert 0 < floor.below(float(np.quantile(seconds[fits], 0.1)))(space).sum() < fits.sum()
