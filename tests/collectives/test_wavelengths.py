"""Wavelength and plane assignment: legal always, and with as few as can be where that is provable."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.bounds.link_use import line_all_to_all_wavelengths, ring_all_to_all_wavelengths
from lightloom.collectives.schedule import build as wl


@given(st.integers(2, 60))
@settings(max_examples=59, deadline=None)
def test_ring_all_to_all_is_legal_and_optimal(nodes: int) -> None:
    source, destination, route, colour = wl.ring_all_to_all(nodes)
    pairs = set(zip(source.tolist(), destination.tolist(), strict=True))
    assert len(source) == len(pairs) == nodes * (nodes - 1)
    start = np.where(route == 0, source, destination)
    length = np.where(route == 0, destination - source, source - destination) % nodes
    cells = [
        (r, c, (s + k) % nodes)
        for r, c, s, n in zip(route.tolist(), colour.tolist(), start.tolist(), length.tolist(), strict=True)
        for k in range(n)
    ]
    assert len(cells) == len(set(cells))
    # Optimal: any two opposite cuts are crossed by floor(n²/4) pairs each way, over two links.
    assert int(colour.max()) + 1 == ring_all_to_all_wavelengths(nodes) == -(-(nodes * nodes // 4) // 2)


def test_lemma_1_is_loose_for_odd_rings() -> None:
    assert ring_all_to_all_wavelengths(5) == 3
    assert -(-(5 * 5) // 8) == 4
    assert all(ring_all_to_all_wavelengths(n) == -(-n * n // 8) for n in range(2, 200, 2))


@given(st.integers(2, 40))
@settings(max_examples=39, deadline=None)
def test_line_all_to_all_needs_the_load_of_the_middle_link(nodes: int) -> None:
    low, high = np.triu_indices(nodes, 1)
    _, used = wl.colour_intervals(low, high, nodes)
    assert used == line_all_to_all_wavelengths(nodes) == nodes * nodes // 4


@st.composite
def arcs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    nodes = draw(st.integers(2, 24))
    entries = draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(1, nodes - 1)), min_size=1, max_size=60))
    start, length = np.array(entries, dtype=np.int64).T
    return start, length, nodes


def _overlap(start: np.ndarray, length: np.ndarray, nodes: int) -> np.ndarray:
    covers = (np.arange(nodes)[None, :] - start[:, None]) % nodes < length[:, None]
    shared: np.ndarray = (covers[:, None, :] & covers[None, :, :]).any(axis=2)
    return shared


@given(arcs())
@settings(max_examples=300, deadline=None)
def test_arcs_that_overlap_differ_and_an_interval_graph_is_coloured_perfectly(
    drawn: tuple[np.ndarray, np.ndarray, int],
) -> None:
    start, length, nodes = drawn
    colour, used = wl.colour_arcs(start, length, nodes)
    clash = _overlap(start, length, nodes) & (colour[:, None] == colour[None, :])
    np.fill_diagonal(clash, val=False)
    assert not clash.any()
    load = ((np.arange(nodes)[None, :] - start[:, None]) % nodes < length[:, None]).sum(axis=0)
    assert used >= load.max()
    if load.min() == 0:
        assert used == load.max()


@given(st.integers(2, 9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=60))
@settings(max_examples=300, deadline=None)
def test_planes_equal_the_largest_degree(nodes: int, circuits: list[tuple[int, int]]) -> None:
    source, destination = np.array([(a % nodes, b % nodes) for a, b in circuits], dtype=np.int64).T
    plane, planes = wl.colour_planes(source, destination, nodes)
    assert planes == max(np.bincount(source).max(), np.bincount(destination).max())
    assert plane.min() >= 0 and plane.max() < planes
    for ends in (source, destination):
        assert len(set(zip(ends.tolist(), plane.tolist(), strict=True))) == len(circuits)
