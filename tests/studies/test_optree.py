"""The OpTree study: what matches, what deviates and says why, and figures that draw."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.collectives.algorithms.optree import _candidates, best_radices, stage_steps
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.registry import build, find
from lightloom.core.claims import Claim, Status
from lightloom.core.errors import UnknownNameError
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.papers import study as load
from lightloom.papers.optree import rows
from lightloom.papers.optree import study as drawings
from lightloom.papers.optree.rows import (
    built,
    ceiling_stages,
    seconds,
)
from lightloom.papers.study import Study
from tests.studies.drawn import svg_bytes
from tests.studies.rows import assert_sound

ID = re.compile(r"[a-z0-9_]+\.(table|figure|headline|example|lemma|theorem)\d*\.[a-z0-9_]+")
ROWS: dict[str, tuple[Status, float | str]] = {
    "table1.ring_built_steps": ("match", 1023),
    "table1.ne_built_steps": ("match", 512),
    "table1.wrht_steps": ("by construction", 259),
    "table1.wrht_formula_steps": ("deviates", 16),
    "table1.one_stage_steps": ("deviates", 2048),
    "table1.one_stage_built_steps": ("match", 2048),
    "table1.optree_steps": ("by construction", 70),
    "table1.optree_constructed_steps": ("match", 70),
    "table1.optree_equation_3_steps": ("deviates", 76),
    "table1.optree_theorem_3_proof_steps": ("deviates", 26),
    "table1.optree_literal_stage_1_steps": ("deviates", 381),
    "table1.optree_literal_later_steps": ("deviates", 0),
    "table1.k_star": ("by construction", 7),
    "table1.k_star_rounded": ("deviates", 6),
    "example.one_stage_steps": ("match", 16),
    "example.two_stage_steps": ("match", 12),
    "example.three_stage_steps": ("match", 16),
    "example.three_stage_theorem_1_steps": ("deviates", 13),
    "example.fewest_steps": ("derived", "two stages"),
    "lemma1.line": ("match", 15),
    "lemma1.ring": ("deviates", 8),
    "theorem2.best_stages": ("deviates", 2290),
    "figure4.shape_1024": ("by construction", "falls, stable, rises"),
    "figure4.best_depth_2048": ("by construction", 7),
    "figure5.fastest_n1024": ("by construction", "OpTree"),
    "figure5.fastest_n1024_wrht_by_formula": ("deviates", "WRHT"),
    "figure5.fastest_n4096": ("deviates", "WRHT"),
    "figure6.wrht_against_ne_w128": ("by construction", "slightly larger"),
    "headline.wrht_reduction_nodes": ("by construction", 56.3707),
    "headline.ring_reduction_nodes": ("by construction", 92.7682),
    "headline.ne_reduction_nodes": ("by construction", 85.5469),
    "headline.ne_reduction_nodes_two_shares": ("deviates", 92.7682),
    "headline.wrht_reduction_wavelengths": ("deviates", 90.5296),
    "headline.ring_reduction_wavelengths": ("deviates", 95.9922),
    "headline.ne_reduction_wavelengths": ("deviates", 91.9922),
    "headline.wrht_reduction": ("deviates", 73.4501),
    "headline.readings_of_the_averages": ("not reproducible", 0),
    "headline.wrht_reduction_journal": ("by construction", 72.973),
}


@pytest.fixture(scope="module")
def study() -> Study:
    return load.find("optree")()


@pytest.fixture(scope="module")
def claims(study: Study) -> dict[str, Claim]:
    return {claim.id: claim for claim in study.claims}


def test_every_id_follows_the_grammar_and_is_unique(study: Study, claims: dict[str, Claim]) -> None:
    assert len(claims) == len(study.claims)
    for name in claims:
        assert name.startswith("optree.")
        assert ID.fullmatch(name), name


def test_whatever_does_not_match_says_why_and_nothing_is_fitted(study: Study) -> None:
    assert_sound("optree", study.claims)
    assert not any(claim.fitted for claim in study.claims)
    assert study.assumptions


@pytest.mark.parametrize("what", ROWS)
def test_key_rows(claims: dict[str, Claim], what: str) -> None:
    claim = claims[f"optree.{what}"]
    assert (claim.status, claim.ours) == ROWS[what]


@pytest.mark.parametrize("stages", [("two_stage", (8, 16)), ("three_stage", (8, 12, 12))])
def test_the_example_needs_the_printed_wavelengths(
    claims: dict[str, Claim], stages: tuple[str, tuple[int, ...]]
) -> None:
    name, wavelengths = stages
    ours = tuple(claims[f"optree.example.{name}_wavelengths_{i + 1}"].ours for i in range(len(wavelengths)))
    assert ours == wavelengths


def test_the_tree_that_is_built_is_near_the_formula(claims: dict[str, Claim]) -> None:
    ours = claims["optree.table1.optree_constructed_steps"].ours
    searched = claims["optree.figure4.constructed_steps_1024"].ours
    assert isinstance(ours, float | int) and isinstance(searched, float | int)
    assert 65 <= ours <= searched <= 73


def _trees(parts: int, radices: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Yield radices of 2 to 8 whose product reaches 1,024, and the last of which is needed for that."""
    if parts >= rows.RANKS:
        yield radices
        return
    for radix in range(2, 9):
        yield from _trees(parts * radix, (*radices, radix))


@pytest.mark.slow
def test_no_tree_takes_fewer_steps_than_the_table_says() -> None:
    trees = (each for each in _trees(1) if rows._estimate(rows.RANKS, each) <= 71 * rows.WAVELENGTHS)
    steps = {each: sum(stage_steps(rows.RANKS, rows.WAVELENGTHS, each)) for each in trees}
    assert min(steps.values()) == steps[rows.FEWEST] == 70
    assert all(count > 70 for each, count in steps.items() if len(each) == 7)


@pytest.mark.parametrize("ranks", [8, 100, 4096])
@pytest.mark.parametrize("stages", [2.0, 3.5, 9.0])
def test_theorem_2_s_derivative_is_theorem_1_s(ranks: int, stages: float) -> None:
    def steps(k: float) -> float:
        return float((2 * k - 1) * ranks ** (1 + 1 / k) / 8)

    power = ranks ** (1 + 1 / stages)
    printed = power / 4 - power * np.log(ranks) * (2 * stages - 1) / (8 * stages**2)
    assert (steps(stages + 1e-6) - steps(stages - 1e-6)) / 2e-6 == pytest.approx(printed, rel=1e-6)
    best = rows.theorem_2_stages(ranks)
    assert best is not None and steps(best) <= min(steps(best - 1e-3), steps(best + 1e-3))


def test_the_search_for_the_averages_holds_the_papers_own_counts() -> None:
    assert {16, 137, 259, 266} <= set(rows.wrht_readings(64).values())
    for wavelengths in (96, 128):
        own = rows.paper_steps(rows.RANKS, wavelengths)
        assert own["WRHT"] in rows.wrht_readings(wavelengths).values()
        assert own["OpTree"] == rows.optree_readings(wavelengths)["theorem_1_steps, k = 7"]
    tried, agree, off, _ = rows.readings(96, 128)
    assert tried > 70_000 and agree == 0 and off > 0.1
    assert rows.most_wrht_steps() < rows.paper_steps(rows.RANKS, 96)["WRHT"]


@given(st.integers(2, 40))
def test_colours_of_a_line_are_its_load(ranks: int) -> None:
    assert rows.line_wavelengths(ranks) == max(left * (ranks - left) for left in range(ranks))


@pytest.mark.parametrize(("name", "later_shares"), [("ring", 1), ("neighbour-exchange", 2), ("optree", 1)])
def test_built_schedules_cost_what_the_model_charges(name: str, later_shares: int) -> None:
    fabric = WdmRing(ranks=64, wavelengths=8)
    schedule = build(find(name), Collective("all-gather", 64, 64 * 1e6), fabric)
    modelled = seconds(schedule.steps, 1e6, later_shares=later_shares)
    assert np.isclose(cost(schedule, fabric, "paper").time, modelled, rtol=1e-12)


@pytest.mark.parametrize("stages", range(1, 8))
def test_counted_trees_are_the_trees_that_are_built(stages: int) -> None:
    found = rows.constructed(512, stages)
    assert found is not None
    radices, steps = found
    assert len(radices) == stages
    assert built("optree", 512, 64, radices).steps == steps


@pytest.mark.parametrize(("ranks", "channels"), [(2, 1), (13, 2), (64, 8), (97, 1), (512, 64)])
def test_no_candidate_takes_fewer_steps_than_the_chosen_radices(ranks: int, channels: int) -> None:
    chosen = best_radices(ranks, channels)
    counted = [(sum(stage_steps(ranks, channels, other)), len(other)) for other in _candidates(ranks, channels)]
    assert (sum(stage_steps(ranks, channels, chosen)), len(chosen)) == min(counted)


@pytest.mark.slow
def test_the_count_for_2048_ranks_is_built(claims: dict[str, Claim]) -> None:
    assert built("optree", 2048, 64).steps == claims["optree.figure4.constructed_steps_2048"].ours


def test_no_tree_is_deeper_than_its_ranks_allow() -> None:
    assert rows.constructed(512, 10) is None
    assert best_radices(512, 64)


def test_words_for_a_shape() -> None:
    assert rows.shape([3, 2, 1, 1, 4]) == "falls, stable, rises"


def test_equation_2_has_no_value_for_few_ranks() -> None:
    with pytest.raises(ValueError, match="below 8 ranks"):
        ceiling_stages(7)


def test_figures_say_what_is_the_papers_and_what_is_ours(study: Study) -> None:
    assert len(study.figures) == 3
    for each in study.figures:
        assert "Paper:" in each.caption
        assert "Ours:" in each.caption


@pytest.mark.slow
def test_figures_are_written(study: Study) -> None:
    assert all(svg_bytes(each.draw()) > 10_000 for each in study.figures)


def test_figures_keep_the_points_beside_the_formula() -> None:
    whole, inset = drawings.depth_figure().axes
    for axes in (whole, inset):
        lines = axes.get_lines()
        assert len(lines) == 2 * len(rows.FIGURE_4_RANKS)
    assert len(whole.get_lines()[0].get_xdata()) == len(rows.DEPTHS)  # type: ignore[arg-type]


def test_unknown_studies_are_named() -> None:
    assert load.names() == sorted(load.STUDIES)
    with pytest.raises(UnknownNameError, match="did you mean 'optree'"):
        load.find("optre")


@pytest.mark.long
def test_two_rows_with_one_id_are_refused() -> None:
    row = rows.claims()[0]
    with pytest.raises(ValueError, match="two rows"):
        Study(name="x", paper="y", claims=(row, row), figures=(), assumptions=())


@pytest.mark.parametrize("ranks", rows.FIGURE_4_RANKS)
def test_real_trees_follow_the_curve(ranks: int) -> None:
    for stages, steps in rows.curve(ranks).items():
        found = rows.constructed(ranks, stages)
        assert found is None or abs(found[1] / steps - 1) < 0.1


def test_the_page_shows_the_trees_that_the_search_finds() -> None:
    page = (Path(__file__).parents[2] / "docs" / "papers" / "optree.md").read_text()
    for ranks in rows.FIGURE_4_RANKS:
        radices = best_radices(ranks, 64)
        steps = stage_steps(ranks, 64, radices)
        line = f"| {ranks} | {min(rows.curve(ranks).values())} | {'·'.join(map(str, radices))} | "
        assert f"{line}{'+'.join(map(str, steps))} | {sum(steps)}" in page, "docs/papers/optree.md: table of trees"


def test_the_page_names_rows_that_exist(claims: dict[str, Claim]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "papers" / "optree.md").read_text()
    named = re.findall(r"`((?:table1|example|figure\d|headline|lemma1|theorem2)\.[a-z0-9_*]+)`", page)
    assert len(named) > 30
    for name in named:
        assert any(fnmatch(each, f"optree.{name}") for each in claims), name
