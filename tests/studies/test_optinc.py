"""The OptINC study: its rows follow from laws that are tried here, what deviates says why, and figures draw."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from lightloom.core.claims import Claim, Status
from lightloom.core.errors import ConfigError
from lightloom.papers import study
from lightloom.papers.optinc import PAPER
from lightloom.papers.optinc import rows as optinc
from lightloom.papers.optinc import runs as trainings
from lightloom.papers.optinc.rows import ACCURACY, GRAPHS, ROWS, SAVED, points, traced, workload
from lightloom.papers.optinc.runs import EPOCHS
from lightloom.papers.optinc.study import study as regenerate
from lightloom.papers.study import Study, paired
from lightloom.photonics.averaging.cascade import basic, build_cascade, end_to_end, random_codes
from lightloom.photonics.averaging.networks import TABLE_II
from tests.studies.rows import assert_sound

ID = re.compile(r"optinc\.(table[12]|figure6|figure7[ab]|headline|example)\.[a-z0-9_]+")
EXPECTED: dict[str, tuple[Status, float | str | None]] = {
    "table1.area_8x4": ("by construction", 39.3),
    "table1.area_8x8": ("by construction", 40.9),
    "table1.area_8x16": ("by construction", 40.4),
    "table1.area_16x4": ("by construction", 49.3),
    "table1.accuracy_constructed_8x4": ("stand-in", 100.0),
    "table1.accuracy_constructed_8x8": ("stand-in", 100.0),
    "table1.accuracy_constructed_8x16": ("stand-in", 100.0),
    "table1.accuracy_constructed_16x4": ("stand-in", 100.0),
    "table1.accuracy_trained_8x4": ("match", 100.0),
    "table1.accuracy_sigma_u_16x4": ("stand-in", 100.0),
    "table2.area_layers3_6": ("by construction", 43.7),
    "table2.area_layers3_7": ("deviates", 42.3),
    "table2.errors_layers4_7": ("derived", "90, 10"),
    "table2.errors_layers3_7": ("deviates", "79.5, 17, 3.4"),
    "figure6.ring_n4": ("derived", 1.5),
    "figure6.ring_n8": ("derived", 1.75),
    "figure6.ring_n16": ("derived", 1.875),
    "figure6.optinc_n16": ("by construction", 1.0),
    "figure7a.resnet50_errors": ("stand-in", "at most 0.55 points less"),
    "figure7b.resnet50_saving": ("not reproducible", None),
    "figure7b.communication": ("derived", "dominates, comparable"),
    "headline.ring_overhead_n16": ("match", 87.5),
    "headline.ring_rounds": ("match", 6),
    "headline.synchronisation": ("stand-in", "less than 0.4 %"),
    "example.cascade_basic": ("match", "errors"),
    "example.cascade_end_to_end_wrong_outputs": ("stand-in", 0),
    "example.cascade_hardware_overhead": ("deviates", 9.98),
    "example.cascade_trained_levels_accuracy": ("match", 100.0),
    "example.cascade_trained_end_to_end_wrong_outputs": ("deviates", 209),
    "example.input_combinations": ("deviates", "4^(MN)"),
    "example.dataset": ("by construction", 28_561),
    "example.mesh_of_a_unitary": ("match", 6),
    "example.meshes_of_a_matrix": ("match", 16),
    "example.mesh_reduction": ("match", 49.2),
    "example.lowest_area": ("deviates", 39.3),
}


def by_name(claims: tuple[Claim, ...]) -> dict[str, Claim]:
    return {claim.id.removeprefix("optinc."): claim for claim in claims}


@pytest.fixture(scope="module")
def whole() -> Study:
    return study.find("optinc")()


@pytest.mark.long
def test_the_whole_study_holds_in_ten_cpu_seconds() -> None:
    started = process_time()
    found = study.find("optinc")()
    assert process_time() - started < 10
    rows = by_name(found.claims)
    assert {name: (rows[name].status, rows[name].ours) for name in EXPECTED} == EXPECTED
    assert_sound("optinc", rows.values())
    assert all(row.why and ID.fullmatch(row.id) and not row.fitted for row in rows.values())
    assert all(row.paper is None for row in found.findings)


@pytest.mark.slow
def test_every_figure_draws(whole: Study) -> None:
    for figure in whole.figures:
        assert all(np.isfinite(axes.get_xlim()).all() for axes in figure.draw().axes), figure.title


@pytest.mark.slow
def test_the_study_needs_no_torch() -> None:
    code = "import sys; from lightloom.papers.study import find; find('optinc')(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


@pytest.mark.parametrize("servers", [2, 3, 4, 7, 16])
def test_a_ring_sends_twice_what_is_not_its_own(servers: int) -> None:
    assert optinc.sent("ring", servers) == pytest.approx(2 * (servers - 1) / servers)
    assert optinc.sent("in-network", servers) == 1


@pytest.mark.parametrize(("model", "batch", "saving"), [("resnet50", 3, 30.0), ("llama-short", 40, 1.0)])
def test_savings_fall_with_the_batch_and_stay_below_the_bound(model: str, batch: int, saving: float) -> None:
    here, more = optinc.step(model, batch), optinc.step(model, 2 * batch)
    assert optinc.bound(4) > here.saving > more.saving > 0
    # Light passes the averager in nanoseconds.
    assert here.ring == pytest.approx(1.5 * here.optical, rel=1e-3)
    assert more.compute == pytest.approx(2 * here.compute, rel=1e-6)
    at = optinc.batch_of(model, saving)
    one = optinc.step(model, 1)
    assert 100 * (one.ring - one.optical) / (one.ring + at * one.compute) == pytest.approx(saving)


def test_the_papers_points_lie_on_the_curves() -> None:
    """Between the whole batches next to them; the bound leaves the ring 75 and 51 % of the step."""
    for model, saving in (("resnet50", SAVED["resnet50"]), ("llama-short", SAVED["llama"])):
        at = optinc.batch_of(model, saving)
        low, high = optinc.step(model, int(at)), optinc.step(model, int(at) + 1)
        assert low.saving >= saving >= high.saving


def test_areas_of_table_ii_are_held_to_the_printed_digit() -> None:
    """One row comes out with P and T, as Table I does, two without, and one in neither way."""
    rows = by_name(tuple(optinc._table_ii_areas()))
    statuses = {name.removeprefix("table2.area_layers"): row.status for name, row in rows.items()}
    agreeing = {ident for ident, status in statuses.items() if status == "by construction"}
    assert agreeing == {"3_6"} and set(statuses.values()) == {"by construction", "deviates"}
    assert {row.tolerance for row in rows.values()} == {PAPER.rows["table1.area_{name}"].tolerance}
    for ident in ("4_8", "3_7"):
        assert "come out without P and T;" in rows[f"table2.area_layers{ident}"].why
    assert "in neither way;" in rows["table2.area_layers4_7"].why


@pytest.mark.parametrize("row", ROWS[1:])
def test_counts_print_as_the_papers_accuracy(row: str) -> None:
    possible, total = optinc.counts(row), optinc.points()
    assert total == 13_845_841
    assert all(round(100 * (1 - count / total), 5) == ACCURACY[row] for count in possible)
    for outside in (possible[0] - 1, possible[-1] + 1):
        assert round(100 * (1 - outside / total), 5) != ACCURACY[row]
    found = {"4-7": [18, 2], "4-8": [1], "3-6": [1520, 14, 2], "3-7": [70, 15, 3]}[row]
    assert optinc.likely_counts(row) == found and sum(found) in possible


@pytest.mark.long
@pytest.mark.parametrize("names", [("8x4",), pytest.param(("8x8", "8x16", "16x4", "cascade"), marks=pytest.mark.slow)])
def test_constructed_networks_give_what_is_stored(names: tuple[str, ...], tmp_path: Path) -> None:
    stored = PAPER.measured("constructed")
    for name in set(stored) - set(names):
        (tmp_path / f"constructed-{name}.json").write_text("{}")
    found = json.loads(trainings.measure_constructed(tmp_path, tmp_path).read_text())
    for name in names:
        for key in found[name].keys() - {"cpu_seconds", "largest_difference", "noise_limit"}:
            assert found[name][key] == stored[name][key]
        if name != "cascade":
            assert found[name]["noise_limit"] == pytest.approx(stored[name]["noise_limit"], rel=0.1)
            assert max(each[name]["largest_difference"] for each in (found, stored)) < 1e-14
    assert set(stored["provenance"]) >= {"machine", "run", "seed"}


def test_two_level_floors_lose_and_carried_decimals_do_not() -> None:
    found = end_to_end(build_cascade(4, 4, 8), 20_000)
    codes = random_codes(4, 4, 8, 20_000, np.random.default_rng(0))
    assert found["wrong_with_decimals"] == 0
    assert (basic(codes) - codes.sum(axis=(0, 1)) // 16).min() == -1
    assert 0.25 < found["wrong_without_decimals"] / 20_000 < 0.32


@pytest.mark.slow
def test_ten_million_tuples_through_the_cascade() -> None:
    assert end_to_end(build_cascade(4, 4, 8), 10_000_000, seed=1)["wrong_with_decimals"] == 0


@given(
    base=st.lists(st.floats(-10, 10), min_size=2, max_size=12),
    shift=st.floats(-1, 1),
    scale=st.sampled_from([1.0, 100.0]),
)
def test_pairs_remove_what_seeds_share(base: list[float], shift: float, scale: float) -> None:
    def runs(more: float, seeds: range) -> list[dict[str, Any]]:
        return [{"recipe": {"seed": seed}, "loss": [0.0, base[seed] + more]} for seed in seeds]

    every = range(len(base))
    record = {"float32": runs(0.0, every), "other": list(reversed(runs(shift, every)))}
    found = paired(record, "other", "loss", scale)
    assert found is not None and found.seeds == len(base)
    assert found.mean == pytest.approx(scale * shift, abs=1e-9 * scale)
    assert found.half == pytest.approx(0, abs=1e-6 * scale)
    assert paired({"float32": runs(0.0, range(1)), "other": runs(0.0, range(1, 2))}, "other", "loss") is None


@pytest.mark.parametrize("pairs", [2, 7, 9, 30])
def test_the_interval_of_pairs_is_that_of_a_paired_t_test(pairs: int) -> None:
    first, second = np.random.default_rng(pairs).normal(size=(2, pairs))
    runs = {
        name: [{"recipe": {"seed": seed}, "loss": [value]} for seed, value in enumerate(losses)]
        for name, losses in (("float32", first), ("other", second))
    }
    found, interval = paired(runs, "other", "loss"), ttest_rel(second, first).confidence_interval()
    assert found is not None
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((interval.low, interval.high))


def test_networks_trained_for_table_ii_are_those_of_its_rows() -> None:
    """Of the paper's layers, tried on every input; areas differ from the constructed count by P and T alone."""
    selections = PAPER.measured("trained")["selections"]
    assert set(selections) <= set(ROWS) and len(selections) >= 2
    units = set()
    for row, network in zip(ROWS, TABLE_II, strict=True):
        if (record := selections.get(row)) is not None:
            recipe = record["recipe"]
            assert (tuple(recipe["layers"]), tuple(recipe["approximated"])) == (network.layers, network.approximated)
            assert record["exhaustive"] and record["checked_inputs"] == points() and recipe["epochs"] == EPOCHS
            assert record["accuracy"] == pytest.approx(1 - record["wrong_outputs"] / points(), abs=1e-15)
            assert sum(record["errors"].values()) <= record["wrong_outputs"]
            units.add(network.area() - record["mzi_count"])
    assert len(units) == 1


def test_measured_runs_are_paired_and_say_what_they_are() -> None:
    language = PAPER.measured("language")
    runs = language["runs"]
    for name, records in runs.items():
        assert [each["recipe"]["seed"] for each in records] == list(range(len(records))), name
        assert len(records) <= len(runs["float32"])
        for each in records:
            differing = {"seed", "bits", "rounding", "errors"}
            plain = runs["float32"][0]["recipe"]
            assert {k: v for k, v in each["recipe"].items() if k not in differing} == {
                k: v for k, v in plain.items() if k not in differing
            }
    rows = by_name(tuple(optinc._losses("llama", language)))
    assert rows["figure7a.llama_quantised"].status == "stand-in"
    assert rows["figure7a.llama_half_up"].paper is None and "figure7a.llama_8_bits" not in rows
    assert "192 steps stand for 50,000" in rows["figure7a.llama_quantised"].why


def test_images_of_the_users_own_take_the_place_of_digits(tmp_path: Path) -> None:
    runs = {name: [{"recipe": {"seed": 0}, "accuracy": [0.7]}] for name in trainings.VARIANTS}
    (tmp_path / "images.json").write_text(json.dumps({"runs": runs}))
    row = by_name(regenerate(tmp_path).claims)["figure7a.resnet50_quantised"]
    assert row.status == "match" and "ResNet-50" in row.why


def test_measured_files_of_the_users_own_are_read_or_refused(tmp_path: Path) -> None:
    assert PAPER.measured("images", tmp_path, optional=True) is None
    (tmp_path / "language.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cannot read '.*language\.json'"):
        regenerate(tmp_path)


def test_language_runs_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    import torch

    from lightloom.papers.runs import language

    trained: list[tuple[str, Any]] = []

    def train(corpus: Any, recipe: language.Recipe, folder: Path) -> dict[str, Any]:
        trained.append((corpus.name, recipe))
        return {"recipe": {"seed": recipe.seed, "bits": recipe.bits}}

    monkeypatch.setattr(language, "train", train)
    (tmp_path / "data" / "wikipedia").mkdir(parents=True)
    (tmp_path / "data" / "wikipedia" / "a.txt").write_bytes(b"Text of the user's own.")
    threads = torch.get_num_threads()
    try:
        for _ in range(2):
            done: list[int] = []
            paths = trainings.measure_language(tmp_path / "work", tmp_path / "data", done.append)
            assert sum(done) == sum(len(series.jobs()) for series in trainings.SERIES) == len(trained)
    finally:
        torch.set_num_threads(threads)
    assert {name for name, _ in trained} == {"wikipedia"}
    for series, path in zip(trainings.SERIES, paths, strict=True):
        runs = json.loads(path.read_text())["runs"]
        assert path.stem == series.file and list(runs) == list(series.variants)
        assert all([record["recipe"]["seed"] for record in records] == list(series.seeds) for records in runs.values())


def test_without_cifar_its_runs_are_left_out(tmp_path: Path) -> None:
    done: list[int] = []
    assert trainings.measure_images(tmp_path, tmp_path, done.append) is None
    assert sum(done) == len(trainings.VARIANTS)


@pytest.mark.parametrize("name", GRAPHS)
def test_kept_graphs_have_the_layouts_parameters(name: str) -> None:
    graph = workload(name)
    assert graph.batch == 1
    expected = {"resnet50": 23_712_932, "resnet50-small-stem": 23_705_252}
    assert graph.parameters == expected.get(name, 38_738_304)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_kept_graphs_are_what_tracing_gives(name: str) -> None:
    pytest.importorskip("torch")
    assert traced(name).to_json() == workload(name).to_json()
