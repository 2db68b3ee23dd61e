"""``lightloom accuracy`` and ``lightloom calibrate``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lightloom as ll
from lightloom.app.api import calibrating
from lightloom.app.api.calibrating import StepsCalibration
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.load import cluster_from
from tests.calibration.samples import write_rows
from tests.cli.commands import run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [{"row": f"row-{size}", "global_batch": str(64 * size), "step_s": str(2.7 * size)} for size in range(1, 7)]
    return write_rows(tmp_path / "steps.csv", *rows)


@pytest.mark.long
def test_accuracy_lists_every_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "accuracy.svg"
    told = run(monkeypatch, capsys, "accuracy", str(table), "--json", "--figure", str(picture))
    document = json.loads(told.out)
    assert document["schema"] == "lightloom.accuracy/1"
    assert len(document["rows"]) == 6
    for row in document["rows"]:
        assert row["low_s"] < row["predicted_s"] < row["high_s"]
        assert row["error"] == pytest.approx(row["predicted_s"] / row["measured_s"] - 1)
    assert document["tables"][0]["scores"]["rank_agreement"] is not None
    assert picture.read_text().startswith("<?xml")
    text = run(monkeypatch, capsys, "accuracy", str(table))
    assert (text.code, text.err) == (0, "")
    assert all(f"row-{size}" in text.out for size in range(1, 7))
    assert "furthest off" in text.out and text.out.count("\n") <= 25
    errors = [abs(float(line.rpartition("%")[0].split()[-1])) for line in text.out.splitlines() if "row-" in line]
    assert errors == sorted(errors, reverse=True)
    assert "90 % interval" in run(monkeypatch, capsys, "accuracy", str(table), "--all").out


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fewest rows that can be calibrated on."""
    rows = [{"row": f"row-{size}", "global_batch": str(64 * size), "step_s": str(2.7 * size)} for size in range(1, 5)]
    return write_rows(tmp_path_factory.mktemp("few") / "steps.csv", *rows)


Advances = tuple[int | None, list[int]]


@pytest.fixture(scope="module")
def fitted_with_bar(few: Path) -> tuple[StepsCalibration, Advances]:
    """A calibration, with the length of its progress bar and what the bar was told."""
    told: list[int] = []
    totals: list[int | None] = []

    @contextmanager
    def bar(_: str, total: int | None) -> Iterator[Callable[[int], None]]:
        totals.append(total)
        yield told.append

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrating, "progress", bar)
        calibration = ll.calibrate(few, accelerator="a100")
    (total,) = totals
    return calibration, (total, told)


@pytest.fixture(scope="module")
def fitted(fitted_with_bar: tuple[StepsCalibration, Advances]) -> StepsCalibration:
    return fitted_with_bar[0]


@pytest.mark.long
def test_the_bar_of_a_calibration_is_as_long_as_its_fits(
    fitted_with_bar: tuple[StepsCalibration, Advances], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One fit to all rows and one for each fold: two here, where a row each is left out of as many as ten."""
    fitted, (total, told) = fitted_with_bar
    assert told == [1, 1, 1]
    assert total == 1 + fitted.calibration.cross_validated.folds == 5
    assert fitted.origin["seed"] == 0


@pytest.mark.long
def test_calibrate_writes_what_accuracy_reads(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    few: Path,
    fitted: StepsCalibration,
    tmp_path: Path,
) -> None:
    out = tmp_path / "a100.yaml"
    told = run(monkeypatch, capsys, "calibrate", str(few), "--accelerator", "a100", "--out", str(out), "--json")
    assert (told.code, told.err) == (0, "")
    assert json.loads(json.dumps(fitted.to_json())) == json.loads(told.out)
    assert out.read_text() == fitted.text()
    assert fitted.accelerator.kernels == load_accelerator(str(out)).kernels
    assert "near their priors" in repr(fitted)
    judged = run(monkeypatch, capsys, "accuracy", str(few), "--calibration", str(out))
    assert "calibrated on steps" in judged.out
    held = run(monkeypatch, capsys, "accuracy", str(few), "--calibration", "rows")
    assert "nine tenths" in held.out
    former = run(monkeypatch, capsys, "accuracy", str(few), "--cross-validate", "rows")
    assert former.out == held.out and former.err.startswith("warning: --cross-validate is spelt `--calibration ...`")


@pytest.mark.slow
def test_the_python_api_returns_the_command_s_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], few: Path, fitted: StepsCalibration
) -> None:
    report = ll.accuracy(few, calibration="a100-calibrated")
    told = run(monkeypatch, capsys, "accuracy", str(few), "--calibration", "a100-calibrated", "--json")
    assert json.loads(json.dumps(report.to_json())) == json.loads(told.out)
    assert len(report.rows()) == len(report[0].steps) == 4
    for result in (fitted, report):
        assert "\n" not in repr(result)
        assert "<table>" in result._repr_html_()
    assert "<svg" in report._repr_html_()
    assert len(fitted.to_dataframe()) == len(fitted.calibration.parameters)
    errors = [row["error"] for row in ll.accuracy([few], calibration=fitted).rows()]
    assert errors == [row["error"] for row in ll.accuracy(few, calibration=fitted.calibration).rows()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["accuracy", "absent.csv"], "absent.csv: no such file"),
        (["accuracy", "TABLE", "--calibration", "days"], "cannot read 'days'"),
        (["accuracy", "TABLE", "--calibration", "models", "--cluster", "dgx-h100-64"], "expected a transport"),
        (["calibrate", "TABLE", "--accelerator", "a100", "--gpus", "4"], "--gpus 4: of collectives"),
        (["calibrate", "TABLE"], "expected --accelerator"),
        (["calibrate", "TABLE", "--accelerator", "h100"], "column 'accelerator': 'a100'"),
        (["accuracy", "TABLE", "--figure", "picture.bmp"], "picture.bmp"),
    ],
)
def test_one_line_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    table: Path,
    arguments: list[str],
    words: str,
) -> None:
    told = run(monkeypatch, capsys, *(str(table) if word == "TABLE" else word for word in arguments))
    assert told.code == 2
    assert words in told.err
    assert told.err.count("\n") == 1


def test_transports_are_a_result_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = "\n".join(f"1,8,all-reduce,{2**power},{50 + 2**power / 1.3e5}" for power in range(20, 30))
    path = tmp_path / "timed.csv"
    path.write_text(f"nodes,gpus,collective,nbytes,time_us\n{sizes}\n")
    fitted = ll.calibrate(accelerator="a100", collectives=path)
    told = run(monkeypatch, capsys, "calibrate", str(path), "--accelerator", "a100", "--json")
    former = run(monkeypatch, capsys, "calibrate", "--collectives", str(path), "--accelerator", "a100", "--json")
    assert former.out == told.out and former.err.startswith("warning: --collectives")
    assert json.loads(json.dumps(fitted.to_json())) == json.loads(told.out)
    fitted.save(tmp_path / "mine.yaml")
    parts = {"ranks": 8, "accelerator": "a100", "fabric": {"base": "two-tier-200g", "transport": "mine.yaml"}}
    library = cluster_from(parts, name="mine", folder=tmp_path).fabric.library
    assert library is not None
    assert library.transport.scales == fitted.transport.scales
    with pytest.raises(ll.LightloomError, match="--gpus 8"):
        ll.calibrate(path, accelerator="a100", gpus=8)  # type: ignore[call-overload]
