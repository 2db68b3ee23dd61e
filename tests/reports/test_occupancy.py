"""What is drawn is what is there: maps conserve the light and the bytes of their schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.reports.figures.links import (
    channel_map,
    downsampled,
    in_steps,
    lightpaths,
    link_use,
    shared_links_figure,
    utilisation,
)
from tests.collectives.cost.reference import nbytes_of_rows
from tests.collectives.strategies import jobs, wdm_ring, wdm_rings


@given(jobs(), st.sampled_from([1, 3, 512]))
@settings(max_examples=80, deadline=None)
def test_link_use_conserves(job: tuple[Algorithm, Collective, Fabric], bins: int) -> None:
    algorithm, collective, fabric = job
    schedule = in_steps(build(algorithm, collective, fabric), fabric)
    amount, steps_per_bin = link_use(schedule, fabric, bins)
    assert len(amount) == -(-schedule.steps // steps_per_bin) <= bins
    assert amount.min() >= 0
    if fabric.exclusive:
        assert amount.sum() == lightpaths(schedule, fabric).cells
        assert amount.max() <= fabric.channels * steps_per_bin
    else:
        hops = fabric.hops(*(c.astype(np.int64) for c in (schedule.source, schedule.destination, schedule.route)))
        assert amount.sum() == pytest.approx(hops @ np.array(nbytes_of_rows(schedule)))


@given(jobs(wdm_rings(largest=12)))
@settings(max_examples=60, deadline=None)
def test_channel_maps_agree_with_an_obvious_painter(job: tuple[Algorithm, Collective, Fabric]) -> None:
    algorithm, collective, fabric = job
    schedule = in_steps(build(algorithm, collective, fabric), fabric)
    paths = lightpaths(schedule, fabric)
    use, _ = link_use(schedule, fabric, schedule.steps)
    lit = 0
    for step in range(schedule.steps):
        sources = channel_map(paths, fabric, step)
        assert np.array_equal(sources, painted(schedule, fabric, step))
        assert np.array_equal((sources >= 0).sum(axis=1), use[step])
        lit += int((sources >= 0).sum())
    assert lit == paths.cells
    assert utilisation(paths, schedule.steps, fabric) == pytest.approx(lit / (use.size * fabric.channels))


def painted(schedule: Schedule, fabric: Fabric, step: int) -> np.ndarray:
    """Cell by cell."""
    n, wavelengths = fabric.ranks, fabric.wavelengths  # type: ignore[attr-defined]
    found = np.full((fabric.links, fabric.channels), -1)
    for row in np.flatnonzero(schedule.step == step):
        source, destination = int(schedule.source[row]), int(schedule.destination[row])
        first = int(schedule.fibre[row]) * wavelengths + int(schedule.first_wavelength[row])
        at = source
        while at != destination:
            link, at = (at, (at + 1) % n) if schedule.route[row] == 0 else (n + (at - 1) % n, (at - 1) % n)
            found[link, first : first + int(schedule.wavelength_count[row])] = source
    return found


def test_a_multicast_lights_its_links_once() -> None:
    fabric = wdm_ring(6, 2, multicast_taps=3)
    column = np.zeros(3)
    schedule = Schedule(
        algorithm="drop and continue",
        collective=Collective("all-gather", 6, 6.0),
        chunks=6,
        steps=1,
        step=column,
        lightpath=column,
        source=column + 4,
        destination=np.array([5, 1, 0]),
        route=column,
        fibre=column,
        first_wavelength=column,
        wavelength_count=column + 2,
        chunk=column,
        reduces=column,
    )
    paths = lightpaths(schedule, fabric)
    assert (paths.destination.tolist(), paths.cells) == ([1], 3 * 2)
    assert np.array_equal(channel_map(paths, fabric, 0), painted(schedule, fabric, 0))


def test_large_maps_stay_small() -> None:
    fabric = wdm_ring(600, 16)
    schedule = build(find("one-stage"), Collective("all-gather", 600, 1e6), fabric)
    amount, steps_per_bin = link_use(schedule, fabric)
    assert (amount.shape, steps_per_bin) == ((469, 1200), 6)
    assert amount.sum() == lightpaths(schedule, fabric).cells
    assert downsampled(amount, 1000).shape == (469, 600)
    assert downsampled(amount, 1000)[0, 0] == amount[0, :2].mean()


@pytest.mark.parametrize("seed", range(3))
def test_of_many_links_those_of_several_jobs_and_then_those_that_carry_most_are_drawn(seed: int) -> None:
    random = np.random.default_rng(seed)
    loads = random.permutation(np.arange(1, 61))[None, :] / 60 * np.array([[1.0], [0.0]])
    loads[1, :3] = 1e-3
    figure = shared_links_figure("links", ["a", "b"], loads, [str(link) for link in range(60)], "%")
    drawn = [int(label.get_text()) for label in figure.axes[0].get_xticklabels()]
    alone = [link for link in np.argsort(-loads[0]).tolist() if link > 2]
    assert drawn == sorted([0, 1, 2, *alone[:45]])
