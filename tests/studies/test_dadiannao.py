"""The DaDianNao study: Table 2, ten headlines in the fitted variant, the one case that gets worse, and the proof."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from math import inf
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
    MIXED,
    ONE_DIRECTION,
    ONE_FITTED,
    chip,
    headlines,
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
from lightloom.papers.dadiannao.rows import largest_ratio, share, sizes, worse
from lightloom.papers.study import Study
from lightloom.planning.pricing.broadcast_step import FITTED, ChipLink, Constants, chips_needed
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
    "inception_v3_variant": (113, 104.5, 1463.4),
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
    "layers_inception_v3_variant",
    "neuron_inception_v3_variant",
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
def test_ten_headlines_within_two_points_in_the_fitted_variant(claims: dict[str, Claim], what: str) -> None:
    claim = claims[f"headline.{what}"]
    assert claim.fitted
    assert "fitted" in claim.why
    assert isinstance(claim.ours, float)
    assert claim.paper == HEADLINE[what]
    assert abs(claim.ours - HEADLINE[what]) <= claim.tolerance == 2.0


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
    assert all(rows[f"neuron_resnet{depth}_without_one_tensor"].status == "stand-in" for depth in (50, 101, 152))


def test_only_densenet121_at_batch_256_and_400_gbps_gets_a_worse_edp(claims: dict[str, Claim]) -> None:
    found = savings(FITTED)
    assert worse(found) == ["DenseNet121, batch 256, 400 Gb/s"]
    assert found["edp", "400"]["DenseNet121", 256] == pytest.approx(-3.3, abs=0.05)
    assert len(found["edp", "400"]) == 27
    assert claims["figure5.edp_worse"].status == "match"


@pytest.mark.parametrize("name", CHIPS)
def test_chips(claims: dict[str, Claim], name: str) -> None:
    found = tuple(chips_needed(printed()[name], batch, chip().edram) for batch in BATCHES)
    assert found == CHIPS[name]
    row = claims[f"figure5.chips_{name.lower().replace('-', '_')}"]
    assert row.ours == "/".join(map(str, found))
    assert row.status == "not reproducible"


def test_the_fit_is_the_best_one() -> None:
    two, one = model.two_constants(), model.one_constant()
    assert (two.passes, two.synapse) == pytest.approx((FITTED.passes, FITTED.synapse), abs=0.02)
    assert one.passes == pytest.approx(ONE_FITTED.passes, abs=0.02)
    assert model.misfit(FITTED) == pytest.approx(0.91, abs=0.005)
    assert model.misfit(ONE_FITTED) == pytest.approx(1.20, abs=0.005)


def test_one_headline_predicts_the_others() -> None:
    constants = model.calibrated("time_average_100")
    found = headlines(savings(constants))
    assert found["time_average_100"] == pytest.approx(20.6, abs=0.01)
    assert model.misfit(constants) < 2
    assert max(abs(found[what] - HEADLINE[what]) for what in HEADLINE) < 3.4


@pytest.mark.parametrize("unit", [BOTH_DIRECTIONS, ONE_DIRECTION])
def test_no_constants_fit_one_unit_of_bandwidth(unit: tuple[float, float, float]) -> None:
    assert model.misfit(model.two_constants(unit), unit) > 8


def test_no_constants_fit_without_the_root() -> None:
    assert model.misfit(model.two_constants(hops=literal_hops), hops=literal_hops) > 11


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
        ("saved_400_over_100_batch256", 1.258),
        ("time_best_100_at_least", 57.4),
        ("time_average_100_one_direction", 40.6),
        ("time_average_400_one_direction", 50.4),
        ("time_average_100_both_directions", 30.0),
        ("time_average_400_both_directions", 37.0),
        ("time_average_100_peak_mixed", 37.2),
        ("time_average_400_peak_mixed", 64.7),
        ("time_average_100_peak_table1", 56.7),
        ("time_average_400_peak_table1", 69.5),
        ("time_average_100_one_constant", 19.5),
        ("time_average_400_one_constant", 34.0),
    ],
)
def test_key_rows(claims: dict[str, Claim], what: str, ours: float) -> None:
    assert claims[f"headline.{what}"].ours == pytest.approx(ours, abs=0.051)


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


@pytest.mark.parametrize("constants", [FITTED, ONE_FITTED, Constants(passes=1.5)])
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
    assert claims["figure2.communication_vgg16_batch1"].status == "match"
    assert claims["figure2.communication_vgg16_batch32"].status == "deviates"
    assert claims["figure2.share_alexnet_with_batch"].status == "match"


def test_the_rack_is_too_small_for_the_largest_case(claims: dict[str, Claim]) -> None:
    row = claims["figure4.largest_case_chips"]
    assert (row.status, row.ours) == ("deviates", 1566)
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
    assert len(study.figures) == 7
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
        cells = [f"{paper}", *(f"{claims[f'headline.{what}{kind}'].ours:.1f}" for kind in ("", "_one_constant"))]
        assert " | ".join(cells) in page, f"docs/papers/dadiannao.md: {what} is old"


def test_the_page_shows_chips_and_sizes(claims: dict[str, Claim]) -> None:
    page = PAGE.read_text()
    for name, chips in CHIPS.items():
        key = name.lower().replace("-", "_")
        found = {what: claims[f"table2.{what}_{key}"].ours for what in ("layers", "synapse", "neuron")}
        row = TABLE_2[name]
        cells = [name, f"{found['layers']} / {row.layers}", f"{found['synapse']:.1f} / {row.synapse:g}"]
        cells += [f"{found['neuron']:.1f} / {row.neuron:g}", "/".join(map(str, chips))]
        assert "| " + " | ".join(cells) + " |" in page, f"docs/papers/dadiannao.md: {name} is old"
