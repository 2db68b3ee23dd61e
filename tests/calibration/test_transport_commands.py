"""``accuracy`` and ``calibrate --collectives`` with a transport: four numbers out, one line where it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lightloom.machines.transports.transport import load_transport
from tests.calibration.test_transports import TRUE, made_up
from tests.cli.commands import run

SYSTEM = ("--cluster", "dgx-h100-64", "--transport", "nccl-hopper")


def write(path: Path, *columns: str) -> Path:
    """Write rows of a made-up system, with more columns that are the same in every row."""
    system = made_up(load_transport("nccl-hopper").model_copy(update={"scales": TRUE}))
    more = ("," + ",".join(columns)) if columns else ""
    lines = [f"{row.nodes},{row.gpus},{row.collective},{row.nbytes:.0f},{row.time_us}{more}" for row in system.rows]
    heading = "nodes,gpus,collective,nbytes,time_us" + (",cluster,transport" if columns else "")
    path.write_text("\n".join([heading, *lines]) + "\n")
    return path


@pytest.mark.long
def test_a_fitted_transport_predicts_better(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table, out, picture = write(tmp_path / "rows.csv"), tmp_path / "mine.yaml", tmp_path / "rows.svg"
    fitted = run(monkeypatch, capsys, "calibrate", str(table), *SYSTEM, "--out", str(out))
    assert (fitted.code, fitted.err) == (0, "")
    assert "network bandwidth" in fitted.out
    scales = load_transport(str(out)).scales
    assert scales.network_latency == pytest.approx(TRUE.network_latency, rel=0.1)
    errors = {}
    for transport in ("nccl-hopper", str(out)):
        arguments = ("--cluster", "dgx-h100-64", "--calibration", transport, "--figure", str(picture), "--json")
        told = run(monkeypatch, capsys, "accuracy", str(table), *arguments)
        assert (told.code, told.err) == (0, "")
        errors[transport] = sum(abs(row["error"]) for row in json.loads(told.out)["rows"])
    assert errors[str(out)] < 0.5 * errors["nccl-hopper"]
    assert picture.is_file()


def test_rows_of_one_node_need_no_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An accelerator states its node's links and what carries its collectives, as a cluster of such nodes does."""
    table, texts = write(tmp_path / "rows.csv"), []
    heading, *rows = table.read_text().splitlines()
    table.write_text("\n".join([heading, *(row for row in rows if row.startswith("1,"))]) + "\n")
    for system in (("--accelerator", "h100"), ("--cluster", "dgx-h100-64")):
        out = tmp_path / "mine.yaml"
        told = run(monkeypatch, capsys, "calibrate", str(table), *system, "--out", str(out))
        assert (told.code, told.err) == (0, "")
        assert "no row crosses domains" in told.out.replace("\n", " ")
        texts.append(load_transport.__wrapped__(str(out)).scales)
    assert texts[0] == texts[1]
    assert texts[0].latency == pytest.approx(TRUE.latency, rel=0.1)


def test_a_table_may_name_its_systems(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = write(tmp_path / "rows.csv", "dgx-h100-64", "nccl-hopper")
    told = run(monkeypatch, capsys, "accuracy", str(table))
    assert (told.code, told.err) == (0, "")
    assert "rows, dgx-h100-64, nccl-hopper: below 1 MiB" in told.out.replace("\n", " ")
    text = table.read_text()
    table.write_text(text + "1,8,all-reduce,8,9.0,dgx-a100-64,nccl-ampere\n")
    refused = run(monkeypatch, capsys, "calibrate", str(table), *SYSTEM)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "2 systems" in refused.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cluster", "tpu-v4-1024"), "expected --transport, one of ideal, nccl-ampere"),
        (("--transport", "nccl-hopper"), "expected --cluster"),
        (("--cluster", "dgx-h100-64", "--transport", "nccl-volta"), "nccl-volta"),
        (("--cluster", "dgx-h100-64", "--transport", "ideal"), "costs nothing"),
        (("--cluster", "terarack-64", "--transport", "nccl-hopper"), "tiers of switches"),
    ],
)
@pytest.mark.parametrize("command", [("accuracy",), ("calibrate",)])
def test_what_is_missing_or_wrong_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: tuple[str, ...],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    if command == ("accuracy",):
        arguments = tuple(word.replace("--transport", "--calibration") for word in arguments)
    refused = run(monkeypatch, capsys, *command, str(write(tmp_path / "rows.csv")), *arguments)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert words in refused.err


def test_options_of_steps_and_of_collectives_exclude_one_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = str(write(tmp_path / "rows.csv"))
    for arguments in (
        ("accuracy", table, *SYSTEM[:2], "--calibration", "rows"),
        ("calibrate", table, *SYSTEM, "--accelerator", "h100"),
        ("calibrate", table),
        ("calibrate", table, "--accelerator", "h100"),
    ):
        refused = run(monkeypatch, capsys, *arguments)
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "expected" in refused.err
