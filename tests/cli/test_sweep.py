"""``lightloom sweep``: results and page, resuming, Ctrl-C, bad input in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.cli.commands import Done, run
from tests.sweeps.experiments import PLANS, SMALL, written

_FEW = """
name: few
collectives:
  - {kind: [all-gather, all-reduce], fabric: ring, ranks: 4, nbytes: 1kB, algorithm: [ring, halving-doubling]}
"""


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):  # type: ignore[no-untyped-def]
    """The command on an experiment's text."""

    def command(text: str, *options: str) -> Done:
        return run(monkeypatch, capsys, "sweep", str(written(tmp_path, text)), *options)

    return command


@pytest.mark.long
def test_results_page_and_document_agree(sweep, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    out = str(tmp_path / "out")
    done = sweep(_FEW + PLANS, "--out", out, "--workers", "1", "--json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    rows = parquet.read_table(document["results"]).to_pylist()
    assert document["schema"] == "lightloom.sweep/1"
    assert document["points"] == document["computed"] == len(rows)
    for status in ("done", "refused", "failed"):
        assert document[status] == sum(row["status"] == status for row in rows)
    assert parquet.read_table(document["results"]).schema.metadata[b"lightloom.sweep"]
    page = Path(document["report"]).read_text()
    assert document["provenance"]["configuration"] in page
    assert "halving-doubling serves all-reduce, not all-gather" in page
    again = sweep(_FEW + PLANS, "--out", out, "--workers", "1")
    assert again.code == 0
    assert f"{len(rows)} points: 0 computed, {len(rows)} taken from an earlier run" in again.out
    fewer = sweep(_FEW, "--out", out, "--workers", "1")
    assert "rows in the folder belong to other points or to other code" in fewer.out


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("name: x", [], "nothing to compute"),
        (SMALL, ["--workers", "0"], "0 workers: expected at least one process"),
        (SMALL, ["--workers", "two"], "--workers 'two': expected a number of processes, dask:ADDRESS or ray:ADDRESS"),
        (SMALL, ["--workers", "dask:nowhere"], "dask:nowhere: no Dask scheduler answers there"),
        (SMALL, ["--workers", "ray:nowhere"], "ray:nowhere: expected ray:HOST:PORT"),
        (SMALL, ["--out", "/proc/out"], "cannot write in folder '/proc/out'"),
        (SMALL, ["--out", __file__], "cannot write in folder"),
        (SMALL, ["--out", str(Path(__file__).parent)], "holds other files"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(  # type: ignore[no-untyped-def]
    sweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, options: list[str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = sweep(text, *options)
    assert (done.code, done.out) == (2, "")
    assert complaint in done.err
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1


def test_a_missing_file_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    done = run(monkeypatch, capsys, "sweep", "none.yaml")
    assert (done.code, done.out, done.err) == (2, "", "error: cannot read 'none.yaml': No such file or directory\n")


def test_a_fault_of_ours_ends_with_1_after_all_is_written(  # type: ignore[no-untyped-def]
    sweep, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from lightloom.core.errors import BoundError
    from lightloom.planning.pricing import schedule_prices

    def wrong(*_: object) -> None:
        raise BoundError("below the bound")

    monkeypatch.setattr(schedule_prices, "build_with_loads", wrong)
    monkeypatch.setattr(schedule_prices, "_of_structures", OrderedDict())  # what other tests built is not built again
    done = sweep(SMALL, "--out", str(tmp_path / "out"), "--workers", "1", "--json")
    document = json.loads(done.out)
    assert done.code == 1
    assert document["done"] == 0
    assert document["failed"] > 0
    assert "BoundError: below the bound" in Path(document["report"]).read_text()


def test_former_options_warn_and_do_the_same(sweep, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = sweep(_FEW, "--out", str(tmp_path / "out"), "--jobs", "1", "--json")
    assert (done.code, json.loads(done.out)["points"]) == (0, 4)
    assert done.err.startswith("warning: --jobs is spelt `--workers ...` now")
    refused = sweep(_FEW, "--dask", "nowhere")
    assert "dask:nowhere: no Dask scheduler answers there" in refused.err


@pytest.mark.long
def test_ctrl_c_ends_with_what_is_finished_and_says_how_to_resume(tmp_path: Path) -> None:
    # Sizes in plenty, so that there is time to stop.
    text = SMALL.replace("nbytes: [1kB, 1MB]", f"nbytes: {list(range(1, 400))}")
    experiment, folder = written(tmp_path, text), tmp_path / "out"
    command = [sys.executable, "-c", "from lightloom.app.cli.main import main; main()", "sweep", str(experiment)]
    with subprocess.Popen(
        [*command, "--out", str(folder), "--workers", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        journal, patience = folder / "journal.jsonl", time.monotonic() + 60
        while not (journal.exists() and journal.read_text().count("\n") > 64) and time.monotonic() < patience:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert err == f"interrupted: {folder} keeps what is finished; the same command resumes\n"
    assert "BEST" in out and "points were not computed" in out
    assert not (folder / "results.parquet").exists()
