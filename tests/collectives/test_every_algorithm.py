"""Every algorithm, for every rank count and number of wavelengths, passes the verifier; closed forms count its
steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.algorithms import (
    direct,
    ring,
)
from lightloom.collectives.bounds.link_use import ring_all_to_all_wavelengths
from lightloom.collectives.collective import (
    FROM_ALL_GATHER,
    KINDS,
    ONE_TO_ONE,
    Collective,
)
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import (
    admitted,
    algorithms,
    build,
    find,
)
from lightloom.core.errors import UnknownNameError, UnsupportedError
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.grids import Mesh
from lightloom.machines.fabrics.optical_averager import OpticalAverager
from tests.collectives.reference import is_right
from tests.collectives.strategies import collective_of, jobs, wdm_ring, wdm_rings

RANKS = (2, 3, 16, 17, 64)
WAVELENGTHS = (1, 2, 8, 64)
_OTHER_FABRICS = ("in-network", "double-binary-tree", "hierarchical", "mesh-broadcast", "serpentine")
"""Algorithms that need what a ring of wavelengths without taps lacks."""


@pytest.mark.parametrize(
    ("ranks", "wavelengths"),
    [
        pytest.param(ranks, wavelengths, marks=pytest.mark.slow if ranks == 64 else ())
        for ranks in RANKS
        for wavelengths in WAVELENGTHS
    ],
)
def test_every_algorithm_verifies_on_a_wdm_ring(ranks: int, wavelengths: int) -> None:
    fabric = wdm_ring(ranks, wavelengths)
    for kind in KINDS:
        for algorithm in admitted(kind, fabric):
            schedule = build(algorithm, collective_of(kind, ranks, 1e6), fabric)
            assert schedule.steps == len(np.unique(schedule.step))


@pytest.mark.slow
@pytest.mark.parametrize("wavelengths", WAVELENGTHS)
@pytest.mark.parametrize("ranks", [100, 257, 1024])
def test_every_algorithm_verifies_among_many_ranks(ranks: int, wavelengths: int) -> None:
    test_every_algorithm_verifies_on_a_wdm_ring(ranks, wavelengths)


@given(jobs())
@settings(max_examples=150, deadline=None)
def test_every_algorithm_verifies_on_every_fabric(job: tuple[Algorithm, Collective, Fabric]) -> None:
    algorithm, collective, fabric = job
    schedule = build(algorithm, collective, fabric)
    assert schedule.algorithm == algorithm.name


@given(jobs(wdm_rings(largest=12)))
@settings(max_examples=100, deadline=None)
def test_an_obvious_replay_agrees(job: tuple[Algorithm, Collective, Fabric]) -> None:
    algorithm, collective, fabric = job
    assume(not algorithm.by_size)
    assert is_right(build(algorithm, collective, fabric), fabric)  # type: ignore[arg-type]


@given(jobs())
@settings(max_examples=100, deadline=None)
def test_deliveries_are_conserved(job: tuple[Algorithm, Collective, Fabric]) -> None:
    """All-gather, reduce-scatter, broadcast, reduce and barrier move every chunk N − 1 times, whatever the algorithm;
    all-reduce at least that; all others what is not at home already. A switch that reduces passes each sum on."""
    algorithm, collective, fabric = job
    schedule = build(algorithm, collective, fabric)
    rows = int(schedule.carried.sum()) * (schedule.folding.copies if schedule.folding is not None else 1)
    rows *= schedule.pipeline.pieces if schedule.pipeline is not None else 1
    least = (collective.ranks - 1) * schedule.chunks
    if collective.kind in ONE_TO_ONE:
        assert rows >= _parts_to_move(collective) * (schedule.chunks // collective.parts)
    elif collective.kind == "all-reduce" or fabric.in_network_reduction:
        assert rows >= least
    else:
        assert rows == least


def _parts_to_move(collective: Collective) -> int:
    part = np.arange(collective.parts)
    moves = collective.begins_at(part) != collective.ends_at(part)
    sizes = collective.sizes
    return int((moves if sizes is None else moves & (sizes.share.ravel() > 0)).sum())


def test_only_neighbour_exchange_refuses_odd_ranks() -> None:
    fabric = wdm_ring(17, 64, multicast_taps=2)
    for kind in FROM_ALL_GATHER:
        refused = {a.name for a in algorithms().values() if kind in a.kinds and a.refusal(kind, fabric)}
        assert {name for name in refused if not name.startswith(_OTHER_FABRICS)} == {
            "neighbour-exchange",
            "neighbour-exchange-striped",
            "neighbour-exchange-pairs",
        }
    with pytest.raises(UnsupportedError, match="even number of ranks, not 17"):
        build(find("neighbour-exchange"), Collective("all-gather", 17, 1.0), fabric)


def test_unknown_algorithm_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'optree'"):
        find("optre")


def wrht_steps(ranks: int, channels: int) -> int:
    """All-reduce steps: twice the levels of (2w+1)-ary grouping, plus one if the last representatives exchange."""
    levels, members = 0, ranks
    while members > 1 and ring_all_to_all_wavelengths(members) > channels:
        members = -(-members // (2 * channels + 1))
        levels += 1
    return 2 * levels + (1 if members > 1 else 0)


_CLOSED_FORMS: list[tuple[str, str, Callable[[int, int], int]]] = [
    ("ring", "all-gather", lambda n, w: ring.ring_steps(n)),
    ("ring-two-way", "all-gather", lambda n, w: n // 2),
    ("ring-two-way-striped", "all-gather", lambda n, w: n // 2),
    ("neighbour-exchange", "all-gather", lambda n, w: ring.neighbour_exchange_steps(n)),
    ("one-stage", "all-gather", direct.one_stage_steps),
    ("wrht", "all-reduce", wrht_steps),
]


@pytest.mark.parametrize(("name", "kind", "steps"), _CLOSED_FORMS, ids=[form[0] for form in _CLOSED_FORMS])
@pytest.mark.parametrize("wavelengths", [1, 2, 7, 64])
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 16, 17, 30, 64, 101, 256])
def test_closed_form_counts_the_steps_built(
    name: str, kind: str, steps: Callable[[int, int], int], ranks: int, wavelengths: int
) -> None:
    ranks += ranks % 2 if find(name).even_ranks else 0
    fabric = wdm_ring(ranks, wavelengths)
    schedule = build(find(name), Collective(kind, ranks, 1.0), fabric)  # type: ignore[arg-type]
    assert schedule.steps == steps(ranks, wavelengths)


@pytest.mark.parametrize("ranks", [2, 3, 8, 13, 64, 100])
def test_doubling_and_trees_take_logarithmic_exchanges_when_wavelengths_suffice(ranks: int) -> None:
    fabric = wdm_ring(ranks, ranks)
    doubling = build(find("recursive-doubling"), Collective("all-reduce", ranks, 1.0), fabric)
    power = ranks.bit_length() - 1
    assert doubling.steps == power + (2 if ranks != 1 << power else 0)
    tree = build(find("binomial-tree"), Collective("all-reduce", ranks, 1.0), fabric)
    assert tree.steps == 2 * (ranks - 1).bit_length()
    star = build(find("worker-aggregator"), Collective("all-reduce", ranks, 1.0), fabric)
    assert star.steps == 2


def test_wrht_steps_of_the_derived_table() -> None:
    assert [wrht_steps(1024, w) for w in (4, 8, 16, 64, 256)] == [7, 5, 4, 3, 3]
    assert (wrht_steps(2838, 64), wrht_steps(4096, 64)) == (3, 4)


@pytest.mark.parametrize("ranks", [2, 5, 16, 300])
def test_in_network_takes_one_step_for_any_number_of_ranks(ranks: int) -> None:
    schedule = build(find("in-network"), Collective("all-reduce", ranks, 1.0), OpticalAverager(ranks=ranks))
    assert (schedule.steps, len(schedule)) == (1, 2 * ranks)


def test_a_serpentine_broadcast_takes_one_step_where_all_can_tap() -> None:
    ring = wdm_ring(6, 6, multicast_taps=5, hop_latency=1e-7, reconfiguration_time=0.0)
    for kind in ("all-gather", "broadcast"):
        schedule = build(find("serpentine"), Collective(kind, 6, 6e3), ring)
        assert schedule.steps == 1
        sent = 6e3 if kind == "broadcast" else 1e3
        assert cost(schedule, ring).time == pytest.approx(sent / ring.wavelength_bandwidth + 5 * ring.hop_latency)
    fewer = wdm_ring(6, 2, multicast_taps=5)
    assert build(find("serpentine"), Collective("all-gather", 6, 6e3), fewer).steps == 3
    assert find("serpentine").refusal("all-gather", wdm_ring(6, 6, multicast_taps=4)) is not None


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (2, 5), (4, 4)])
def test_mesh_broadcasts_serve_what_comes_from_all_gather(rows: int, columns: int) -> None:
    mesh = Mesh(ranks=rows * columns, rows=rows)
    for kind in FROM_ALL_GATHER:
        build(find("mesh-broadcast"), Collective(kind, mesh.ranks, 1e6), mesh)
        if rows == columns:
            build(find("mesh-broadcast-both-axes"), Collective(kind, mesh.ranks, 1e6), mesh)
    assert (find("mesh-broadcast-both-axes").refusal("all-gather", mesh) is None) == (rows == columns)
