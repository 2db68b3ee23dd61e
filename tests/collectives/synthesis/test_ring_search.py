"""What the search finds: verified, above the bound, timed as its trees say; and as good as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.link_use import joint_seconds
from lightloom.collectives.collective import Collective, Kind
from lightloom.collectives.registry import admitted, costed, evaluate
from lightloom.collectives.synthesis.engine.queues import overlapped, ring_schedule
from lightloom.collectives.synthesis.engine.trees import Design, Level, RingTask, Timing, hub_ranks, make_trees
from lightloom.collectives.synthesis.ring.search import RingSearch, estimated_designs
from lightloom.collectives.synthesis.synthesized import synthesized
from lightloom.collectives.verify.verifier import verify
from lightloom.machines.fabrics.wdm_ring import WdmRing
from tests.collectives.forests import parents, queues

TIMING = Timing(bandwidth=5e9, hop=1e-6)


def bound_of(ranks: int, channels: int, nbytes: float) -> float:
    return joint_seconds(ranks, TIMING.hop, nbytes / (2 * channels * TIMING.bandwidth))


def task_of(ranks: int, channels: int, nbytes: float) -> RingTask:
    return RingTask(ranks, channels, nbytes, TIMING, bound_of(ranks, channels, nbytes))


@pytest.mark.parametrize(
    ("ranks", "channels", "nbytes", "most"),
    [
        (16, 8, 1e3, 1.08),
        (17, 8, 1e3, 1.12),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((64, 8, 1e4, 1.12), (64, 64, 1e3, 1.08), (100, 64, 1e4, 1.12))
        ),
        (64, 8, 1e6, 1.0),
    ],
)
def test_near_the_bound_and_verified(ranks: int, channels: int, nbytes: float, most: float) -> None:
    """Set-up of 25 µs included in both, as in a run from dark circuits."""
    fabric = WdmRing(ranks=ranks, wavelengths=channels, wavelength_bandwidth=5e9, conversion_time=1e-6)
    search = RingSearch(task_of(ranks, channels, nbytes))
    design, trees = search.run(effort=2_000_000)
    schedule = ring_schedule(Collective("all-gather", ranks, nbytes * ranks), fabric, trees)
    verify(schedule, fabric)
    cost, bound = costed(schedule, fabric)
    assert cost.repeated_time <= trees.forest.time * (1 + 1e-9)
    assert bound.time <= cost.time * (1 + 1e-9)
    assert cost.time <= most * bound.time * (1 + 1e-9)
    again = make_trees(design, task_of(ranks, channels, nbytes))
    assert again is not None
    assert again.forest.time == trees.forest.time


@settings(deadline=None, max_examples=20)
@given(st.integers(4, 60), st.integers(2, 16), st.floats(2, 6), st.integers(0, 2**16))
def test_trees_span_and_nothing_arrives_before_its_hops(ranks: int, channels: int, power: float, seed: int) -> None:
    nbytes = 10**power
    found = estimated_designs(task_of(ranks, channels, nbytes), limit=1.0)
    design = found[seed % len(found)][1] if found else Design(())
    trees = make_trees(design, task_of(ranks, channels, nbytes))
    assert trees is not None
    forest, roots = trees.forest, np.arange(trees.circuits.period)
    parent, queue = parents(forest), queues(forest)
    assert (parent[:, roots, roots] == -1).all()
    assert (np.sum(parent >= 0, axis=2) == ranks - 1).all()
    assert trees.forest.time >= bound_of(ranks, channels, nbytes) * (1 - 1e-9)
    levels = queue // (2 * trees.circuits.period)
    busy = nbytes / design.pieces / (trees.circuits.width * TIMING.bandwidth)
    for piece in range(design.pieces):
        for root in roots.tolist():
            for rank in range(ranks):
                up = int(parent[piece, root, rank])
                if up >= 0 and up != root:
                    arrived = forest.begin[piece, root, up] + busy[levels[piece, root, up]] + TIMING.hop
                    assert forest.begin[piece, root, rank] >= arrived - 1e-15
    # No circuit sends two pieces at once.
    for which in np.unique(queue[queue >= 0]).tolist():
        begin = np.sort(forest.begin[queue == which])
        assert (np.diff(begin) >= busy[which // (2 * trees.circuits.period)] * (1 - 1e-9)).all()


def test_more_effort_never_gives_a_slower_schedule() -> None:
    times = [RingSearch(task_of(48, 8, 1e3)).run(effort)[1].forest.time for effort in (0, 50_000, 200_000)]
    assert times == sorted(times, reverse=True)


def test_what_was_kept_is_found_again_and_broken_files_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    fabric = WdmRing(ranks=12, wavelengths=4, wavelength_bandwidth=5e9, conversion_time=1e-6)
    wanted = Collective("all-reduce", 12, 12e3)
    first = synthesized(wanted, fabric)
    verify(first, fabric)
    (design,), (whole,) = tmp_path.rglob("*.json"), tmp_path.rglob("*.npz")
    content, before = whole.read_bytes(), (design.stat().st_mtime_ns, whole.stat().st_mtime_ns)
    again = synthesized(wanted, fabric)
    assert (design.stat().st_mtime_ns, whole.stat().st_mtime_ns) == before
    assert again.notes == first.notes
    assert again.collective == first.collective
    assert all((getattr(first, name) == getattr(again, name)).all() for name in first.columns())
    for broken in (b"", b"PK", content[:-100], content[: len(content) // 2] + bytes(len(content) // 2)):
        whole.write_bytes(broken)
        verify(synthesized(wanted, fabric), fabric)
        assert whole.read_bytes() == content
    for broken in (b"", b"{", b"[]", b'{"chords": [[1, 2]]}', b'{"chords": [[12, 20, 1]], "pieces": 2}'):
        design.write_bytes(broken)
        whole.unlink()
        verify(synthesized(wanted, fabric), fabric)
        assert design.read_bytes() != broken


@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize(
    ("ranks", "channels", "nbytes"),
    [(4, 2, 1e3), (8, 8, 1e3), (16, 64, 1e3), (16, 8, 1e4), (12, 4, 1e6), (17, 64, 1e5)],
)
def test_no_other_algorithm_is_faster(kind: Kind, ranks: int, channels: int, nbytes: float) -> None:
    fabric = WdmRing(ranks=ranks, wavelengths=channels, wavelength_bandwidth=5e9, conversion_time=1e-6)
    wanted = Collective(kind, ranks, nbytes * ranks)
    times = {each.name: evaluate(each, wanted, fabric).cost.time for each in admitted(kind, fabric)}
    assert times["synthesized"] <= min(times.values()) * (1 + 1e-9)


@settings(deadline=None, max_examples=20)
@given(st.integers(4, 40), st.integers(2, 16), st.floats(2, 5), st.integers(0, 2**16))
def test_sums_may_be_completed_at_hubs(ranks: int, channels: int, power: float, seed: int) -> None:
    """Trees of all ranks begin at the hub before each, and an all-reduce over them is right."""
    nbytes = 10**power
    found = estimated_designs(task_of(ranks, channels, nbytes), limit=1.0)
    design = found[seed % len(found)][1] if found else Design(())
    trees = make_trees(replace(design, at_hubs=True), RingTask(ranks, channels, nbytes, TIMING, 0.0))
    assert trees is not None
    hubs = hub_ranks(ranks, trees.circuits.levels[-1].hubs)
    _, number, root = np.nonzero(parents(trees.forest) < 0)
    assert np.isin(root, hubs).all()
    assert (root == [hubs[hubs <= rank].max() for rank in number.tolist()]).all()
    fabric = WdmRing(ranks=ranks, wavelengths=channels, wavelength_bandwidth=5e9, conversion_time=1e-6)
    schedule = ring_schedule(Collective("all-reduce", ranks, nbytes * ranks), fabric, trees)
    verify(schedule, fabric)
    cost, bound = costed(schedule, fabric)
    assert bound.time <= cost.time * (1 + 1e-9)
    assert cost.repeated_time is not None and cost.repeated_time <= 2 * trees.forest.time * (1 + 1e-9)


def test_hubs_save_the_hops_to_the_ranks_around_them() -> None:
    """All-reduce of 1 kB a rank among 64 on 8 wavelengths, near the design that is best for its all-gather."""
    known = Design((Level(32, 2, 1), Level(32, 4, 1)), pieces=16, slack=1.2)
    task = task_of(64, 8, 1e3)
    from_all_ranks = make_trees(known, task)
    assert from_all_ranks is not None
    design, trees = RingSearch(task, known=known).run(effort=300_000)
    assert design.at_hubs and trees.forest.time < 0.95 * from_all_ranks.forest.time
    fabric = WdmRing(ranks=64, wavelengths=8, wavelength_bandwidth=5e9, conversion_time=1e-6)
    times = []
    for grown in (from_all_ranks, trees):
        schedule = overlapped(ring_schedule(Collective("all-reduce", 64, 64e3), fabric, grown), fabric)
        verify(schedule, fabric)
        times.append(costed(schedule, fabric)[0].repeated_time or 0.0)
    assert times[1] < 0.9 * times[0]
