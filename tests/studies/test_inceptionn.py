"""The INCEPTIONN study: what holds, what does not and says why, and figures that draw."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lightloom.core.claims import Status
from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.exchange.compression.inceptionn import Inceptionn, InceptionnPrinted
from lightloom.papers import inceptionn as paper
from lightloom.papers import study as load
from lightloom.papers.inceptionn import PAPER, rows
from lightloom.papers.inceptionn import runs as trainings
from lightloom.papers.study import Study, paired, rounded
from tests.studies.rows import assert_sound

ID = re.compile(r"inceptionn\.(table|figure|headline|example)\d*\.[a-z0-9_]+")
FITTED = re.compile(r"_fitted$|table3\.hdc_bound|figure14\.hdc_(ratio|accuracy)|figure13\.hdc_accuracy")
ROWS: dict[str, tuple[Status, float | str]] = {
    "table1.hdc_learning_rate": ("deviates", 0.1),
    "table1.vgg16_iterations": ("by construction", 370000),
    "table2.alexnet_total": ("derived", 196.35),
    "table2.vgg16_total": ("deviates", 820.65),
    "table2.vgg16_forward_percent": ("deviates", 3.92),
    "table2.alexnet_communicate": ("deviates", 156.36),
    "figure3.alexnet_size": ("match", 233.081),
    "figure3.hdc_size": ("deviates", 4.383),
    "figure4.hdc_order": ("stand-in", "g no worse than w"),
    "figure6.blocks": ("match", 16),
    "figure7.hdc_truncate": ("deviates", "1.00, 1.56, 0.86 times as long"),
    "figure12.hdc_inc_communication": ("deviates", 77.0),
    "figure12.packet_cost_fitted": ("deviates", "36 to 40 % less"),
    "figure14.best_ratio": ("deviates", 14.6),
    "figure15.wa_growth": ("match", "almost linear"),
    "figure15.wa_form": ("deviates", 107.374),
    "figure15.inc_form": ("match", 11.744),
    "example.printed_error_bound6": ("match", "within the bound"),
    "example.printed_error_bound8": ("deviates", "2 times the bound"),
    "example.printed_error_bound10": ("deviates", "8 times the bound"),
    "example.algorithm1_blocks": ("deviates", 0),
    "headline.accuracy_difference": ("stand-in", -0.008),
    "table3.alexnet_distribution": ("not reproducible", "93.0 % below 2^-6, 78.8 % below 2^-5"),
    "table3.hdc_distribution": ("not reproducible", "one distribution"),
}


@pytest.fixture(scope="module")
def study() -> Study:
    return load.find("inceptionn")()


def test_rows_have_the_value_that_their_proof_gives(study: Study) -> None:
    rows = {claim.id.removeprefix("inceptionn."): claim for claim in study.claims}
    for name, (status, ours) in ROWS.items():
        assert (rows[name].status, rows[name].ours) == (status, ours), name


def test_every_row_is_well_formed_and_says_where_it_comes_from(study: Study) -> None:
    assert_sound("inceptionn", study.claims)
    for claim in study.claims:
        assert ID.fullmatch(claim.id), claim.id
        assert claim.why, claim.id
        # What was chosen by its agreement is no match.
        assert claim.fitted == bool(FITTED.search(claim.id)) and not (claim.fitted and claim.status == "match"), (
            claim.id
        )


def test_every_figure_draws(study: Study) -> None:
    for figure in study.figures:
        assert figure.draw().axes, figure.title


def test_measurements_meet_what_is_claimed_of_them() -> None:
    runs = PAPER.measured("training")["runs"]
    pairs = paired(runs, "windowed+feedback 2^-10", "accuracy", 100)
    assert pairs is not None and pairs.seeds >= 5
    assert pairs.mean >= -0.2
    assert np.isfinite(pairs.half)
    assert np.mean([rows.mean_ratio(run) for run in runs["windowed+feedback 2^-10"]]) == pytest.approx(14, abs=0.5)
    assert set(PAPER.measured("exchange")["order"].values()) == {"WA > WA+C > INC > INC+C"}
    for name in PAPER.commands:
        assert "provenance" in PAPER.measured(name), name


def test_seeds_are_paired_and_complete() -> None:
    runs = PAPER.measured("training")["runs"]
    plain, packed = runs["float32"], runs["windowed+feedback 2^-10"]
    assert [run["recipe"]["seed"] for run in plain] == [run["recipe"]["seed"] for run in packed]
    for run in [*plain, *packed]:
        assert run["iterations"][-1] == paper.TABLE_1["HDC"]["iterations"]
        assert len(run["iterations"]) == len(run["accuracy"]) == len(run["tags"])


@pytest.mark.parametrize("workers", range(2, 13))
def test_algorithm_1_is_right_only_when_phase_2_is_corrected(workers: int) -> None:
    assert rows.blocks_right(workers, corrected=True) == workers**2
    assert rows.blocks_right(workers, corrected=False) < workers**2


@pytest.mark.parametrize("k", [pytest.param(k, marks=() if k in (7, 14) else pytest.mark.slow) for k in range(1, 15)])
def test_only_the_windowed_codec_keeps_every_bound(k: int) -> None:
    assert rows.largest_error(Inceptionn(2.0**-k)) < 1
    printed = rows.largest_error(InceptionnPrinted(2.0**-k))
    assert (printed < 1) == (k <= 7)
    if k > 7:
        assert printed == pytest.approx(2.0 ** (k - 7), rel=1e-5)


@given(arrays(np.float32, st.integers(1, 300), elements=st.floats(-2, 2, width=32)), st.integers(-20, -1))
def test_the_distribution_counts_every_value_once(values: np.ndarray[tuple[int], np.dtype[np.float32]], k: int) -> None:
    counts = trainings.count_binades(values)
    assert counts["small"] + sum(counts["negative"]) + sum(counts["positive"]) == values.size
    assert trainings.below(counts, k) == pytest.approx(np.count_nonzero(np.abs(values) < 2.0**k) / values.size)


@given(st.integers(2, 2000), st.floats(1, 1e9), st.floats(1.5, 100))
def test_exchange_times_scale_with_bytes_and_the_ring_never_loses(p: int, nbytes: float, factor: float) -> None:
    link = paper.Link(sum_seconds=1e-10)
    for form in (paper.ring, paper.worker_aggregator):
        assert form(p, factor * nbytes, link) == pytest.approx(factor * form(p, nbytes, link))
    assert paper.ring(p, nbytes, link) <= paper.worker_aggregator(p, nbytes, link)


@given(st.floats(1e3, 1e9), st.floats(1, 1000))
def test_behind_the_card_headers_stay(nbytes: float, compression: float) -> None:
    plain, packed = rows.wire_seconds(nbytes), rows.wire_seconds(nbytes, compression)
    headers = rows.FRAMING / (rows.FRAMING + rows.PAYLOAD)
    assert packed == pytest.approx(plain * (headers + (1 - headers) / compression))


@pytest.mark.parametrize("p", [2, 3, 6, 17])
def test_built_exchanges_take_what_the_forms_say(p: int) -> None:
    assert rows.built_seconds("ring", p, p * 1000) == pytest.approx(paper.ring(p, p * 1000, paper.Link()))
    copies = 2 * p * 1000 * paper.Link().byte_seconds
    assert rows.built_seconds("worker-aggregator", p + 1, 1000) == pytest.approx(copies)


def test_our_training_takes_over_the_hyper_parameters() -> None:
    pytest.importorskip("torch")
    from lightloom.papers.runs.digits import Recipe

    renamed = {"batch_per_node": "batch_per_rank", "divisor": "learning_rate_divisor"}
    for name, printed in paper.TABLE_1["HDC"].items():
        assert getattr(Recipe(seed=0), renamed.get(name, name)) == abs(printed), name


@pytest.mark.parametrize("name", ["networks", "table3"])
def test_runs_of_one_process_are_not_repeated(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[tuple[str, int]] = []

    def train(run: trainings.TrainingRun, seed: int, _: Path) -> dict[str, object]:
        trained.append((run.name, seed))
        return dict(rounded({"recipe": {"seed": seed}, "loss": [1.0, float("nan")]}))

    monkeypatch.setattr(trainings, "_train_short", train)
    monkeypatch.setattr(trainings, "training_digits", lambda _: None)
    experiment = trainings.EXPERIMENTS[name]
    for _ in range(2):
        done: list[int] = []
        experiment.measure(tmp_path / "work", tmp_path, done.append)
        assert sum(done) == experiment.jobs() == len(trained)
    document = json.loads((tmp_path / "work" / f"{name}.json").read_text())
    assert document["runs"].keys() == PAPER.measured(name)["runs"].keys()
    assert all(runs["float32"][0]["loss"] == [1.0, None] for runs in document["runs"].values())


def test_runs_of_table_3_differ_in_what_they_read_otherwise() -> None:
    pytest.importorskip("torch")
    jobs = [(run, run.recipe(seed)) for run, seed in trainings.table_3_jobs() if run.network not in trainings.STAND_INS]
    for seed in range(5):
        for network in trainings.LAYERS.values():
            mine = (recipe for run, recipe in jobs if (run.counted, recipe.seed, run.network) == (True, seed, network))
            same, literal, *pytorch = mine
            assert (same.iterations, same.gradient_scale, same.learning_rate) == (10_000, 1, 0.1)
            assert [replace(same, glorot=False)] * (seed == 0) == pytorch
            # What the optimizer subtracts is the printed rate times the summed gradient and the printed decay.
            assert literal.learning_rate / literal.gradient_scale == paper.TABLE_1["HDC"]["learning_rate"] * -1
            decay = paper.TABLE_1["HDC"]["weight_decay"]
            assert literal.weight_decay * literal.gradient_scale == pytest.approx(decay)
    coded = [recipe for run, recipe in jobs if not run.counted]
    assert {(recipe.gradient_scale, recipe.iterations) for recipe in coded} == {(25, 10_000)} and len(coded) == 3


def test_table_3_agrees_with_itself_and_not_with_dropping_everything() -> None:
    printed = np.array([[paper.TABLE_3["HDC", k] for k in paper.BOUNDS]] * 5)
    dropped = np.broadcast_to([100.0, 0, 0, 0], printed.shape)
    for closely in (False, True):
        assert rows.agreeing(printed, closely=closely) == [12] * 5
        assert rows.agreeing(dropped, closely=closely) == [0] * 5
    runs = PAPER.measured("table3")["runs"]
    agreeing = {reading: sum(rows.agreeing(shares)) / len(shares) for reading, shares in rows.readings(runs).items()}
    assert agreeing[trainings.SETTLED] == max(agreeing.values())
    assert all(len(runs[network]["float32"]) == 5 for network in trainings.LAYERS.values())


def test_measurements_of_a_folder_are_used_or_refused(tmp_path: Path) -> None:
    (tmp_path / "training.json").write_text("{")
    with pytest.raises(ConfigError, match=r"training\.json"):
        load.find("inceptionn")(tmp_path)
    with pytest.raises(UnsupportedError, match="--work and --run"):
        load.find("optree").experiments()
    with pytest.raises(UnknownNameError, match="training"):
        load.find("inceptionn").experiments("train")
