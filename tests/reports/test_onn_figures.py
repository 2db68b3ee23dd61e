"""Pictures of averaging networks: the same bytes for the same data, and what they must show is in them."""

from __future__ import annotations

import numpy as np
import pytest

from lightloom.photonics.meshes.decompose import decompose
from lightloom.photonics.meshes.files import Part
from lightloom.photonics.meshes.mapping import map_blocks, map_matrix
from lightloom.reports.figures.canvas import to_svg
from lightloom.reports.figures.photonics import (
    WORDS,
    chain_figure,
    link_figure,
    noise_figure,
    noise_steps,
    part_figure,
    sweep_figure,
    training_figure,
)

RNG = np.random.default_rng(0)


def drawn(rates: list[float], bound: float, limit: float | None = 2e-3) -> str:
    sigmas = np.geomspace(1e-4, 1e-1, len(rates))
    return to_svg(noise_figure("a $ curve", sigmas, np.array(rates), 1000, limit=limit, bound=bound, title="a title"))


@pytest.mark.parametrize("bound", [1e-2, pytest.param(float("inf"), marks=pytest.mark.slow)])
def test_noise_shows_curve_limit_and_bound(bound: float) -> None:
    text = drawn([0, 0, 0.01, 0.5], bound)
    assert "a title" in text and "limit 0.002" in text and "hollow: none wrong" in text
    assert ("no network passes 0.01" in text) == np.isfinite(bound)
    assert text == drawn([0, 0, 0.01, 0.5], bound)
    assert "limit" not in drawn([0, 0, 0, 0], bound, None)


@pytest.mark.parametrize(("limit", "bound"), [(1e-7, 1e-2), (5e-3, 1e-2), (0.0, 1e-2), (1e-3, float("inf"))])
def test_steps_hold_the_limit_and_the_bound(limit: float, bound: float) -> None:
    sigmas = noise_steps(limit, bound)
    assert (np.diff(sigmas) > 0).all() and sigmas[0] > 0 and sigmas[-1] <= 0.5
    for inside in (limit, bound):
        assert not (0 < inside < np.inf) or sigmas[0] < inside < sigmas[-1]


@pytest.mark.parametrize("count", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_sweeps_have_a_panel_each(count: int) -> None:
    rows = [{"value": v, "mean": 1 - v, "least": 1 - v, "largest": 1.0} for v in (1e-4, 1e-2, 0.5)]
    sweeps = [{"parameter": name, "rows": rows} for name in list(WORDS)[:count]]
    text = to_svg(sweep_figure(sweeps, "title"))
    assert all(WORDS[each["parameter"]] in text for each in sweeps)  # type: ignore[index]


def test_a_chain_adds_up_its_parts() -> None:
    parts: dict[str, Part] = {
        "P": map_matrix(RNG.normal(size=(4, 16))),
        "layer 1": map_blocks(RNG.normal(size=(8, 4))),
        "layer 2": map_matrix(RNG.normal(size=(4, 8))),
        "T": map_matrix(RNG.normal(size=(16, 4))),
    }
    text = to_svg(chain_figure(parts))
    assert (text.count("fill: #d5dbe6"), text.count("fill: #aebfe3")) == (2, 2)
    assert f"{sum(part.mzis for part in parts.values())} MZIs in" in text and "8 nonlinear units" in text


@pytest.mark.parametrize("size", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_meshes_of_a_part_say_their_counts(size: int) -> None:
    square, tall = RNG.normal(size=(size, size)), RNG.normal(size=(2 * size, size))
    mapped, blocks = map_matrix(square), map_blocks(tall)
    drawn = to_svg(part_figure(mapped, "layer 7"))
    assert f"{mapped.mzis} MZIs in {mapped.depth} columns" in drawn and "layer 7" in drawn
    assert "block 1 of 2" in to_svg(part_figure(blocks, "layer 7"))
    assert f"{size} modes" in to_svg(part_figure(decompose(np.linalg.qr(square)[0])))


def test_training_shows_when_nothing_is_wrong() -> None:
    history = [{"epoch": e, "accuracy": a, "loss": 1 / (e + 1)} for e, a in ((0, 0.5), (10, 0.999), (20, 1.0))]
    assert "none of 28,561 wrong" in to_svg(training_figure(history, 28_561, "4-64-4"))


@pytest.mark.parametrize("sweeps", [1, 2, 4])
def test_a_panel_is_drawn_for_each_sweep_up_to_three_in_a_row(sweeps: int) -> None:
    rows = [{"value": value, "word_error_rate": 0.1, "interval_95": [0.05, 0.2]} for value in (1.0, 2.0)]
    facts = {"link": {"full_scale": 3e-3}, "word_error_rate": 0.1, "words": 1000, "servers": 4, "bits": 8}
    sweep = {"option": "--phase-lock", "unit": "rad", "rows": rows}
    figure = link_figure(facts | {"contributions": None, "sweeps": [sweep] * sweeps})
    drawn = [axes for axes in figure.axes if axes.has_data()]
    places = {axes.get_subplotspec().colspan.start for axes in figure.axes}  # type: ignore[union-attr]
    assert len(drawn) == sweeps and len(places) == min(sweeps, 3)
