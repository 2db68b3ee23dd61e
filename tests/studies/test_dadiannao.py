"""The DaDianNao study: Table 2, headlines fitted and predicted, the one case that gets worse, and the proof."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from itertools import product
from math import inf
from operator import itemgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.claims import Claim
from lightloom.papers import study as load
from lightloom.papers.dadiannao import BATCHES, HEADLINE, TABLE_2, model
from lightloom.papers.dadiannao import rows as beyond
from lightloom.papers.dadiannao.model import (
    BOTH_DIRECTIONS,
    FITTED_TO_TIMES,
    MIXED,
    ONE_DIRECTION,
    PARTS,
    UNITS,
    literal_hops,
    mean,
    run,
    savings,
)
from lightloom.papers.dadiannao.networks import (
    INCEPTION_VARIANT,
    printed,
    stored,
    trace_counts,
    trace_variant,
)
from lightloom.papers.dadiannao.rows import chips, largest_ratio, share, sizes, worse
from lightloom.papers.study import Study
from lightloom.planning.pricing.broadcast_step import FITTED, ChipLink, Constants
from tests.studies.drawn import svg_bytes
from tests.studies.rows import assert_sound

PAGE = Path(__file__).parents[2] / "docs" / "papers" / "dadiannao.md"
ID = re.compile(r"dadiannao\.(table|figure|headline|example)\d*\.[a-z0-9_]+")
COUNTED = {
    "alexnet": (14, 232.5, 172.0),
    "vgg16": (22, 527.7, 1860.1),
    "vgg19": (25, 548.0, 2019.3),
    "inception_v1": (73, 26.7, 585.5),
    "inception_v3": (110, 90.8, 1458.7),
    "resnet50": (125, 97.3, 3301.7),
    "resnet101": (244, 169.5, 4967.7),
    "resnet152": (363, 229.0, 7025.7),
    "densenet121": (306, 30.1, 4061.1),
}
"""Layers, synapses and neurons at batch 32 in MiB."""
CHIPS = {
    "AlexNet": (7, 12, 45),
    "VGG16": (17, 67, 428),
    "VGG19": (17, 72, 464),
    "Inception-v1": (2, 18, 132),
    "Inception-v3": (5, 44, 325),
    "ResNet50": (6, 95, 734),
    "ResNet101": (10, 143, 1107),
    "ResNet152": (13, 202, 1566),
    "DenseNet121": (5, 114, 904),
}
DEVIATING = {
    "neuron_inception_v1",
    "layers_inception_v3",
    "synapse_inception_v3",
    "neuron_inception_v3",
    "ratio_inception_v3",
    "neuron_resnet50",
    "neuron_resnet101",
    "neuron_resnet152",
}
BEYOND = {
    "400-O": 34.4,
    "800-O": 37.0,
    "1600-O": 38.3,
    "3200-O": 38.9,
    "infinite": 39.6,
    "ideal": 41.2,
}
bandwidths = st.tuples(*[st.floats(1e8, 1e12)] * 3).filter(lambda each: 1.01 * each[0] < each[1] < each[2])


@pytest.fixture(scope="module")
def study() -> Study:
    return load.find("dadiannao")()


@pytest.fixture(scope="module")
def claims(study: Study) -> dict[str, Claim]:
    return {claim.id.removeprefix("dadiannao."): claim for claim in study.claims}


def test_ids_follow_the_grammar_and_deviations_say_why(study: Study) -> None:
    for claim in study.claims:
        assert ID.fullmatch(claim.id), claim.id
        assert claim.why or claim.status == "match"
    assert_sound("dadiannao", study.claims)


@pytest.mark.parametrize("what", HEADLINE)
def test_headlines_of_time_are_fitted_and_those_of_edp_predicted(claims: dict[str, Claim], what: str) -> None:
    claim = claims[f"headline.{what}"]
    assert (claim.status, claim.fitted) == ("stand-in", what in PARTS["time"])
    assert isinstance(claim.ours, float)
    assert claim.paper == HEADLINE[what]
    assert abs(claim.ours - HEADLINE[what]) <= claim.tolerance == 2.0
    if what in PARTS["edp"]:
        assert claim.trivial == HEADLINE[what.replace("edp", "time")]


@pytest.mark.parametrize("name", COUNTED)
def test_table_2(claims: dict[str, Claim], name: str) -> None:
    layers, synapse, neuron = COUNTED[name]
    assert claims[f"table2.layers_{name}"].ours == layers
    assert claims[f"table2.synapse_{name}"].ours == pytest.approx(synapse, abs=0.0501)
    assert claims[f"table2.neuron_{name}"].ours == pytest.approx(neuron, abs=0.0501)


def test_what_of_table_2_deviates(claims: dict[str, Claim]) -> None:
    rows = {name.removeprefix("table2."): claim for name, claim in claims.items() if name.startswith("table2.")}
    deviating = {name for name, claim in rows.items() if claim.status == "deviates" and "convolutions" not in name}
    assert deviating == DEVIATING
    for depth, size in ((50, 3290), (101, 4956), (152, 7014)):
        without = re.search(r"has ([0-9.]+), so", rows[f"neuron_resnet{depth}"].why)
        assert without is not None and float(without[1]) == pytest.approx(size, abs=0.5)
    assert {name for name, row in rows.items() if row.fitted} == {"layers_inception_v1", "layers_resnet50"}
    for network in ("vgg16", "resnet50", "densenet121"):
        assert (rows[f"connected_{network}"].status == "by construction") == (network != "vgg16")


def test_only_densenet121_at_batch_256_and_400_gbps_gets_a_worse_edp(claims: dict[str, Claim]) -> None:
    found = savings(FITTED)
    assert worse() == worse(FITTED_TO_TIMES) == "DenseNet121, batch 256, 400 Gb/s"
    assert found["edp", "400"]["DenseNet121", 256] == pytest.approx(-3.3, abs=0.05)
    assert len(found["edp", "400"]) == 27
    assert worse(FITTED, BOTH_DIRECTIONS) == ""
    assert claims["figure5.edp_worse"].fitted


@pytest.mark.parametrize("name", CHIPS)
def test_chips(claims: dict[str, Claim], name: str) -> None:
    found = tuple(chips(name, batch) for batch in BATCHES)
    assert found == CHIPS[name]
    assert claims[f"figure5.chips_{name.lower().replace('-', '_')}"].ours == "/".join(map(str, found))


def test_the_fits_are_the_best_ones() -> None:
    for part, constants in (("ten", FITTED), ("time", FITTED_TO_TIMES)):
        assert model.fit(part=part) == pytest.approx(constants, abs=0.02)


@pytest.mark.parametrize(
    ("part", "others", "fitted", "held_out"),
    [("time", "edp", 0.64, 1.29), ("edp", "time", 1.08, 1.00), ("100", "400", 0.47, 1.76), ("400", "100", 0.85, 1.12)],
)
def test_one_half_of_the_headlines_predicts_the_other(part: str, others: str, fitted: float, held_out: float) -> None:
    assert {*PARTS[part]} | {*PARTS[others]} == {*HEADLINE}
    assert not {*PARTS[part]} & {*PARTS[others]}
    constants = model.fit(part=part)
    assert model.misfit(constants, part=part) == pytest.approx(fitted, abs=0.02)
    assert model.misfit(constants, part=others) == pytest.approx(held_out, abs=0.02)


@pytest.mark.slow
def test_every_half_of_the_headlines_chooses_the_mixed_bandwidths_and_predicts_the_rest() -> None:
    found = model.halves()
    assert len(found) == 252
    assert {unit for unit, _ in found} == {MIXED}
    assert max(error for _, error in found) < 2.4


@pytest.mark.parametrize("unit", [BOTH_DIRECTIONS, ONE_DIRECTION])
def test_no_constants_fit_one_unit_of_bandwidth(unit: tuple[float, float, float]) -> None:
    assert model.misfit(model.fit(unit), unit) > 8


def test_no_constants_fit_without_the_root() -> None:
    assert model.misfit(model.fit(hops=literal_hops), hops=literal_hops) > 11


def test_what_no_constant_could_have_produced_is_not_fitted(claims: dict[str, Claim]) -> None:
    """Verdicts that hold for all constants and bandwidths that are tried hold for others between them, too."""
    fitted = {name for name, claim in claims.items() if claim.fitted and name.startswith("figure")}
    assert fitted == {"figure2.communication_dominant", "figure5.edp_worse", "figure5.saved_with_batch"}
    for constants, unit in product((Constants(1.7), Constants(7, 0.01), Constants(33, 0.2)), UNITS):
        for what, speed in product(("time", "edp"), ("100", "400")):
            cases = savings(constants, unit)[what, speed]
            assert max(cases.items(), key=itemgetter(1))[0] == ("VGG16", 1)
        assert share("AlexNet", 32, constants, unit) > share("AlexNet", 1, constants, unit)
        assert share("DenseNet121", 256, constants, unit) > share("DenseNet121", 32, constants, unit)


@given(
    speeds=bandwidths,
    layers=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e-3), st.floats(1, 1e9)), min_size=1, max_size=5),
    slower=st.floats(0, 1e-3),
    overlap=st.booleans(),
)
def test_no_step_passes_the_bound(
    speeds: tuple[float, float, float], layers: list[tuple[float, float, float]], slower: float, overlap: bool
) -> None:
    """Random computation, latency and bytes, with overlap or without, the fastest link with more latency."""

    def time(bandwidth: float, more: float = 0.0) -> float:
        sending = [(computing, latency + more + nbytes / bandwidth) for computing, latency, nbytes in layers]
        return sum(max(each) if overlap else sum(each) for each in sending)

    base, hundred, four_hundred = time(speeds[0]), time(speeds[1]), time(speeds[2], slower)
    assert base - four_hundred <= largest_ratio(speeds) * (base - hundred) + 1e-9 * base


def test_the_headlines_pass_the_bound_of_table_1() -> None:
    assert largest_ratio(BOTH_DIRECTIONS) == pytest.approx(0.936 / 0.744, abs=1e-12)
    assert largest_ratio(MIXED) == pytest.approx(1.787, abs=5e-4)
    for what in ("time_average", "time_batch256"):
        ratio = HEADLINE[f"{what}_400"] / HEADLINE[f"{what}_100"]
        assert largest_ratio(BOTH_DIRECTIONS) < ratio < largest_ratio(MIXED)


@pytest.mark.parametrize(
    ("what", "ours"),
    [
        ("saved_400_over_100", 1.258),
        ("time_average_one_direction", "40.5 and 50.4"),
        ("time_average_both_directions", "30.0 and 37.0"),
        ("time_average_peak_mixed", "37.2 and 64.7"),
        ("time_average_peak_both_directions", "56.7 and 69.6"),
    ],
)
def test_readings_of_ours(claims: dict[str, Claim], what: str, ours: float | str) -> None:
    assert (claims[f"headline.{what}"].paper, claims[f"headline.{what}"].ours) == (None, ours)


@pytest.mark.parametrize("name", BEYOND)
def test_beyond_400_gigabits(name: str) -> None:
    assert mean(beyond.time_saved(name)) == pytest.approx(BEYOND[name], abs=0.06)


def test_an_infinitely_fast_link_leaves_computation() -> None:
    network = printed()["VGG16"]
    found = run(network, 32, ChipLink(bandwidth=inf, latency=0.0), FITTED)
    assert found.communication_time == 0
    assert found.computation == run(network, 32, ChipLink(bandwidth=1e9, latency=1e-3), FITTED).computation


def test_a_ring_is_slower_than_electrical_links_at_batch_256() -> None:
    ring = beyond.time_saved("400-O", "ring")
    assert mean(ring, 256) < 0 < mean(ring)


@pytest.mark.parametrize("constants", [FITTED, FITTED_TO_TIMES, Constants(passes=1.5)])
def test_scaling_both_parts_of_a_step_changes_no_percentage(constants: Constants) -> None:
    """Why the number of broadcasts in an iteration cannot be told: only C/M counts."""
    slow = Constants(passes=2 * constants.passes, synapse=2 * constants.synapse)
    half = (MIXED[0] / 2, MIXED[1] / 2, MIXED[2] / 2)
    network = printed()["VGG16"]
    one = run(network, 32, ChipLink(bandwidth=MIXED[0], latency=8e-8), constants)
    two = run(network, 32, ChipLink(bandwidth=half[0], latency=16e-8), slow)
    assert two.time == pytest.approx(2 * one.time)


def test_fig_2(claims: dict[str, Claim]) -> None:
    shares = [share("VGG16", batch) for batch in BATCHES]
    assert shares == pytest.approx([0.83, 0.43, 0.38], abs=0.01)
    assert claims["figure2.communication_dominant"].status == "deviates"
    assert claims["figure2.share_alexnet_with_batch"].status == "match"


def test_the_rack_is_too_small_for_the_largest_case(claims: dict[str, Claim]) -> None:
    row = claims["figure4.largest_case_chips"]
    assert (row.paper, row.ours) == (None, 1566)
    assert "a batch of at most 251" in row.why


SLOWLY_TRACED = sorted(set(TABLE_2) - {"AlexNet", "ResNet50"})


@pytest.mark.parametrize(
    "name", ["AlexNet", "ResNet50", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWLY_TRACED)]
)
def test_stored_counts_are_those_of_the_graphs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are traced here and neither read from the user's cache nor written to it."""
    pytest.importorskip("torch", reason="the nine CNNs are counted from PyTorch modules")
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    assert trace_counts(name) == stored()[name]
    if name == "Inception-v3":
        assert trace_variant() == stored()[INCEPTION_VARIANT]


def test_the_variant_of_inception_v3() -> None:
    found = stored()[INCEPTION_VARIANT]
    assert found.products == pytest.approx(6.487e9, rel=1e-4)
    assert sizes(found).synapse == pytest.approx(TABLE_2["Inception-v3"].synapse, abs=0.5)


def test_figures_draw(study: Study) -> None:
    assert len(study.figures) == 6
    for figure in study.figures:
        assert figure.draw().axes


@pytest.mark.slow
def test_figures_are_written(study: Study) -> None:
    assert all(svg_bytes(figure.draw()) > 10_000 for figure in study.figures)


def test_the_page_names_rows_that_exist_and_all_ten_headlines(claims: dict[str, Claim]) -> None:
    page = PAGE.read_text()
    named = re.findall(r"`((?:table|example|figure|headline)\d*\.[a-z0-9_*]+)`", page)
    assert len(named) > 20
    for name in named:
        assert any(fnmatch(each, name) for each in claims), name
    for what, paper in HEADLINE.items():
        assert f"{paper} | {claims[f'headline.{what}'].ours:.1f} |" in page, f"docs/papers/dadiannao.md: {what} is old"


def test_the_page_shows_chips_and_sizes(claims: dict[str, Claim]) -> None:
    page = PAGE.read_text()
    for name, found_chips in CHIPS.items():
        key = name.lower().replace("-", "_")
        found = {what: claims[f"table2.{what}_{key}"].ours for what in ("layers", "synapse", "neuron")}
        row = TABLE_2[name]
        cells = [name, f"{found['layers']} / {row.layers}", f"{found['synapse']:.1f} / {row.synapse:g}"]
        cells += [f"{found['neuron']:.1f} / {row.neuron:g}", "/".join(map(str, found_chips))]
        assert "| " + " | ".join(cells) + " |" in page, f"docs/papers/dadiannao.md: {name} is old"
