"""Levels of chords: they take exactly the wavelengths that they say, and no fewer would do."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.synthesis.engine.trees import (
    HubCircuits,
    Level,
    hub_ranks,
)


@given(st.integers(2, 200), st.data())
def test_chords_of_one_colour_never_overlap(hubs: int, data: st.DataObject) -> None:
    level = Level(hubs, data.draw(st.integers(1, hubs - 1)), 1)
    ((skip, colours),) = level.coloured()
    assert skip == level.skip
    assert set(colours.tolist()) == set(range(level.colours))
    covered = np.zeros((level.colours, hubs), np.int64)
    for hub in range(hubs):
        covered[colours[hub], (hub + np.arange(level.skip)) % hubs] += 1
    assert covered.max() == 1


@pytest.mark.parametrize("hubs", [2, 3, 4, 5, 6, pytest.param(7, marks=pytest.mark.slow)])
def test_no_fewer_colours_would_do(hubs: int) -> None:
    for skip in range(1, hubs):
        level = Level(hubs, skip, 1)
        arcs = [frozenset((hub + k) % hubs for k in range(skip)) for hub in range(hubs)]
        fewer = product(range(level.colours - 1), repeat=hubs)
        assert not any(
            all(not (arcs[a] & arcs[b]) or chosen[a] != chosen[b] for a in range(hubs) for b in range(a))
            for chosen in fewer
        )


@given(st.integers(2, 120), st.integers(1, 12), st.lists(st.integers(0, 2**20), max_size=3))
def test_circuits_fit_the_fibre_and_repeat(ranks: int, channels: int, seeds: list[int]) -> None:
    chords = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        hubs = int(rng.integers(2, ranks + 1))
        chords.append(Level(hubs, int(rng.integers(1, hubs)), int(rng.integers(1, 3))))
    circuits = HubCircuits.of(ranks, channels, sorted(chords, key=lambda each: each.length(ranks)))
    if circuits is None:
        return
    assert sum(each.wavelengths for each in circuits.levels) == channels
    assert ranks % circuits.period == 0
    onward = np.full((len(circuits.levels), 2, ranks), -1, np.int64)
    for number, level in enumerate(circuits.levels):
        at = hub_ranks(ranks, level.hubs)
        onward[number, 0, at], onward[number, 1, at] = np.roll(at, -level.skip), np.roll(at, level.skip)
    turned = np.roll(onward, circuits.period, axis=2)
    assert (np.where(turned >= 0, (turned + circuits.period) % ranks, -1) == onward).all()
    # What leads there by one way leads back by the other.
    for number in range(len(circuits.levels)):
        rank = np.flatnonzero(onward[number, 0] >= 0)
        assert (onward[number, 1, onward[number, 0, rank]] == rank).all()
    used = np.zeros((channels, ranks), np.int64)
    for number, level in enumerate(circuits.levels):
        station = hub_ranks(ranks, level.hubs)
        first = circuits.chords[number].channel
        for hub in range(level.hubs):
            links = np.arange(station[hub], station[hub] + (onward[number, 0, station[hub]] - station[hub]) % ranks)
            used[first[hub] : first[hub] + level.width, links % ranks] += 1
    assert used.max() == 1
