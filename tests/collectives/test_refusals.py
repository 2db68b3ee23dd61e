"""Algorithms that cannot serve decline before they build, and one that fails is one refused row beside the others."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from lightloom.app.cli.main import app
from lightloom.collectives import registry
from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import KINDS, Collective, zipf_sizes
from lightloom.collectives.registry import (
    admitted,
    algorithms,
    build,
    evaluate,
    evaluate_all,
    find,
)
from lightloom.collectives.schedule.build import from_all_gather
from lightloom.collectives.schedule.columns import ROW_NBYTES, Schedule
from lightloom.core import memory
from lightloom.core.errors import UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.graph import Edge, Graph
from lightloom.machines.fabrics.load import load_fabric
from lightloom.machines.fabrics.switches import PacketSwitch
from tests.collectives.strategies import collective_of, wdm_ring


@pytest.mark.parametrize("taps", [1, 10])
@pytest.mark.parametrize("reach", [1, 3, 10])
@pytest.mark.parametrize("ranks", [9, *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in (16, 27))])
def test_every_admitted_algorithm_keeps_within_reach(ranks: int, reach: int, taps: int) -> None:
    fabric = wdm_ring(ranks, 8, lightpath_reach=reach, multicast_taps=taps)
    for kind in KINDS:
        evaluations, refusals = evaluate_all(collective_of(kind, ranks, 1e6), fabric)
        assert evaluations
        assert [refusal for refusal in refusals if refusal.failed] == []


@pytest.mark.parametrize(("ranks", "wavelengths"), [(2, 1), (5, 3), (12, 4), (16, 64), (27, 2), (33, 8)])
def test_the_longest_lightpath_is_known_before_a_schedule_is_built(ranks: int, wavelengths: int) -> None:
    """Both ways: nothing is refused that would keep within reach."""
    fabric = wdm_ring(ranks, wavelengths)
    for kind in KINDS:
        for algorithm in admitted(kind, fabric):
            if (links := algorithm.lightpath_links(kind, fabric)) is not None:
                schedule = build(algorithm, collective_of(kind, ranks, 1e6), fabric)
                expected = int(fabric.hops(*schedule.ends(slice(None))).max())
                assert links == expected, (algorithm.name, kind)


def test_refusals_name_reach() -> None:
    fabric = wdm_ring(64, 64, lightpath_reach=10)
    assert find("one-stage").refusal("all-gather", fabric) == (
        "one-stage needs lightpaths of 32 links, and light reaches 10 on this fabric"
    )
    with pytest.raises(UnsupportedError, match="reaches 10"):
        build(find("one-stage"), Collective("all-gather", 64, 1e6), fabric)


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "kind", "name", "ranks"),
    [
        ("one-stage", "all-to-all", "torus", 1024),
        ("one-stage", "all-to-all", "switch", 1024),
        ("ring", "all-gather", "torus", 1024),
        ("optree", "all-gather", "wdm-ring", 4096),
    ],
)
def test_rows_take_no_more_memory_than_refusals_count(algorithm: str, kind: str, name: str, ranks: int) -> None:
    """Built, verified and priced; beside what a replay of a few thousand shares takes."""
    fabric, found = load_fabric(name, ranks), find(algorithm)
    evaluate(found, collective_of(kind, 16, 1e6), load_fabric(name, 16))
    tracemalloc.start()
    try:
        evaluate(found, collective_of(kind, ranks, 1e6), fabric)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= found.rows(kind, fabric) * ROW_NBYTES + (1 << 25)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: zipf_sizes(65_536, 1.2),
        lambda: Graph(ranks=60_000, edges=tuple(Edge(a, "hub", 1e9, 0.0) for a in range(60_000))).hops(
            np.array([0]), np.array([1]), np.array([0])
        ),
    ],
    ids=["sizes of pairs", "routes of a graph"],
)
def test_tables_of_all_pairs_are_refused_before_they_are_made(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 8e9)
    with pytest.raises(UnsupportedError, match=r"needs about .* GiB of memory, and 7.451 GiB are free"):
        ask()


def _lazy(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    """A ring that drops its last row, so that one rank lacks a share."""
    schedule = find("ring").build(collective, fabric, striped=striped)
    names = "step lightpath source destination route fibre first_wavelength wavelength_count chunk reduces"
    columns = {name: getattr(schedule, name)[:-1] for name in names.split()}
    return Schedule(algorithm="lazy", collective=collective, chunks=schedule.chunks, steps=schedule.steps, **columns)


def _broken(collective: Collective, fabric: Fabric, *, striped: bool = False) -> Schedule:
    raise IndexError("rank 9 of 8")


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = {
        name: Algorithm(name=name, build=build, summary="faulty")
        for name, build in (("lazy", _lazy), ("broken", _broken))
    }
    every = algorithms() | plugins
    monkeypatch.setattr(registry, "algorithms", lambda: every)
    for module in ("lightloom.collectives.registry", "lightloom.app.api.collectives"):
        monkeypatch.setattr(f"{module}.algorithms", lambda: every)


@pytest.mark.usefixtures("faulty")
def test_a_faulty_algorithm_is_one_refused_row_and_the_others_are_ranked() -> None:
    fabric = PacketSwitch(ranks=8)
    evaluations, refusals = evaluate_all(Collective("all-gather", 8, 1e6), fabric)
    failed = {refusal.algorithm: refusal.why for refusal in refusals if refusal.failed}
    assert failed.keys() == {"lazy", "broken"}
    assert "chunk" in failed["lazy"] and "rank 9 of 8" in failed["broken"] and "IndexError" in failed["broken"]
    names = [evaluation.algorithm.name for evaluation in evaluations]
    assert "ring" in names and "lazy" not in names
    times = [evaluation.cost.time for evaluation in evaluations]
    assert times == sorted(times)


@pytest.mark.usefixtures("faulty")
def test_the_command_shows_the_row_and_a_pinned_faulty_algorithm_in_one_line() -> None:
    arguments = ["collective", "all-gather", "--fabric", "switch", "--ranks", "8", "--nbytes", "1MB"]
    document: dict[str, Any] = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert len([row for row in document["refused"] if row["algorithm"] == "lazy"]) == 1
    assert "failed, --explain says why: lazy, broken" in CliRunner().invoke(app, arguments).stdout
    table = CliRunner().invoke(app, [*arguments, "--explain"]).stdout
    assert "refused lazy: " in table and "refused broken: raises IndexError: rank 9 of 8" in table
    pinned = CliRunner().invoke(app, [*arguments, "--algorithm", "broken"])
    assert isinstance(pinned.exception, UnsupportedError) and "rank 9 of 8" in str(pinned.exception)


@pytest.mark.parametrize("pairs", [[(1, 0)], [(1, 0), (2, 1)], []])
def test_a_gather_whose_steps_depend_on_each_other_makes_no_all_reduce(pairs: list[tuple[int, int]]) -> None:
    fabric = wdm_ring(4, 8)
    gather = build(find("ring"), Collective("all-gather", 4, 1e6), fabric)
    gather = replace(gather, dependencies=np.array(pairs, np.int64).reshape(-1, 2))
    for kind in ("all-gather", "reduce-scatter"):
        assert from_all_gather(Collective(kind, 4, 1e6), fabric, lambda _: gather).dependencies is not None
    with pytest.raises(UnsupportedError, match="ring: expected steps in order"):
        from_all_gather(Collective("all-reduce", 4, 1e6), fabric, lambda _: gather)
