"""The busiest links of steps, counted once for equal steps and by the ends of runs, are those of plain counting."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.collectives.cost.busiest import busiest_links
from lightloom.collectives.registry import Collective, admitted, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats, Ints
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.footprint import links_of
from lightloom.fabrics.mesh import Mesh, Torus
from lightloom.fabrics.wdm_ring import Ring

TORUS = Torus(ranks=36, dims=(2, 3, 6), bandwidth=1e9, hop_latency=1e-6)
MESH = Mesh(ranks=15, dims=(3, 5), bandwidth=1e9, hop_latency=1e-6)
FABRICS = (TORUS, TORUS.group(6, 3), TORUS.group(4, 1), TORUS.group(2, 18), MESH, MESH.group(5, 3))


def counted(schedule: Schedule, fabric: Fabric) -> tuple[Ints, Floats]:
    """Row by row and link by link, of links that are all alike."""
    most, latency = np.zeros((1, schedule.steps), np.int64), np.zeros(schedule.steps)
    for step in range(schedule.steps):
        ends = schedule.ends(schedule.step == step)
        if len(ends[0]):
            most[0, step] = np.bincount(links_of(fabric.footprint(*ends))[1]).max()
            latency[step] = fabric.latency(*ends).max()
    return most, latency


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: f"{fabric.kind_name}-{fabric.ranks}")
@pytest.mark.parametrize("kind", ["all-gather", "all-reduce", "all-to-all"])
def test_busiest_links_are_those_that_plain_counting_finds(fabric: Fabric, kind: Kind) -> None:
    alike = np.zeros(fabric.links, np.int64)
    for algorithm in admitted(kind, fabric):
        if algorithm.by_size or algorithm.pipelined:
            continue
        schedule = algorithm.build(Collective(kind, fabric.ranks, 1.0), fabric, striped=algorithm.striped)
        if schedule.pipeline is None:
            for _ in range(2):
                np.testing.assert_equal(busiest_links(schedule, fabric, alike), counted(schedule.unfolded(1), fabric))


def test_rows_of_a_step_may_come_in_any_order() -> None:
    alike, rng = np.zeros(TORUS.links, np.int64), np.random.default_rng(7)
    for algorithm in admitted("all-gather", TORUS)[:6]:
        if algorithm.by_size or algorithm.pipelined:
            continue
        schedule = algorithm.build(Collective("all-gather", 36, 1.0), TORUS, striped=algorithm.striped)
        order = rng.permutation(len(schedule))
        mixed = schedule.with_columns({name: column[order] for name, column in schedule.columns().items()})
        np.testing.assert_equal(busiest_links(mixed, TORUS, alike), counted(schedule.unfolded(1), TORUS))


def test_steps_of_one_row_may_be_listed_backwards() -> None:
    whole = find("ring").build(Collective("broadcast", 6, 1.0), Ring(ranks=6)).unfolded(1)
    chain = whole.with_rows(np.unique(whole.step, return_index=True)[1])
    listed = chain.with_columns({name: column[::-1] for name, column in chain.columns().items()})
    alike = np.zeros(Ring(ranks=6).links, np.int64)
    np.testing.assert_equal(busiest_links(listed, Ring(ranks=6), alike), counted(chain, Ring(ranks=6)))
