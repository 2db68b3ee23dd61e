"""Bad rows, files and settings, given to the commands as a user gives them: one line, exit 2.

The line names file, row and column, the value, and what was expected.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lightloom.planning.calibration.accuracy import write_calibration
from tests.calibration.samples import COLUMNS, made_calibration, write_rows
from tests.cli.commands import run

HEADING = "nodes,gpus,collective,nbytes,time_us"
SIZES = "size(B),count,type,time(ns),busbw(GB/s)"
PRINTED = """\
#  Rank  0 Group  0 Pid  71 on node-1 device  0 [0x07]
  1024  256  float  sum  -1  44.0  1  1  0  46.0  1  1  0
"""


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that ends with 2."""
    told = run(monkeypatch, capsys, *arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("error: ") and told.err.count("\n") == 1
    return told.err


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("step_s", "fast", "'fast': expected a number"),
        ("step_s", "-1", "'-1': expected more than 0"),
        ("step_s", "nan", "'nan': expected a finite number"),
        ("step_s", "", "the cell is empty"),
        ("layers", "2.5", "'2.5': expected a whole number"),
        ("gpus", "15", "15: expected dp · tp · pp, 16"),
        ("heads", "7", "7: expected a divisor of hidden, 4096"),
        ("global_batch", "3", "3: expected at least dp, 4"),
        ("gpus_per_node", "7", "7: expected a divisor of the 16 GPUs"),
        ("memory_bandwidth_gbs", "0", "'0': expected more than 0"),
        ("accelerator", "a1000", "did you mean 'a100'"),
        ("accelerator", "titan-xp", "'titan-xp' has no kernel model"),
        ("precision", "fp12", "'fp12': expected 'fp64'"),
        ("precision", "fp8", "no rate for precision 'fp8': expected one of"),
        ("sharding", "zero-9", "'zero-9': expected 'none'"),
        ("attention", "flashy", "'flashy': expected 'flash' or 'unfused'"),
        ("recomputation", "some", "'some': expected 'none', 'selective' or 'full'"),
        ("sequence_parallel", "maybe", "'maybe': expected 'no' or 'yes'"),
        ("row", "first", "'first' occurs twice"),
    ],
)
def test_cells(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    column: str,
    cell: str,
    words: str,
) -> None:
    path = write_rows(tmp_path / "rows.csv", {}, {"row": "second", column: cell})
    told = refused(monkeypatch, capsys, "accuracy", str(path))
    name = cell if column == "row" else "second"
    assert told.startswith(f"error: {path}, row 2 ({name}): column {column!r}: ")
    assert words in told


def test_cells_that_contradict_each_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    alone = {"pp": "1", "gpus": "8"}
    for changes, words in (
        (alone | {"virtual_stages": "2"}, "column 'virtual_stages': 2: expected 1 without a pipeline"),
        ({"micro_batch": "", "global_batch": "65"}, "column 'micro_batch': empty, and dp, 4, does not divide"),
        (
            alone | {"tp": "1", "gpus": "4", "sequence_parallel": "yes"},
            "column 'sequence_parallel': 'yes': expected 'no'",
        ),
    ):
        path = write_rows(tmp_path / "rows.csv", changes)
        assert words in refused(monkeypatch, capsys, "accuracy", str(path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty: expected a heading"),
        (",".join(COLUMNS).encode(), "no rows: expected at least one"),
        (",".join(COLUMNS).replace("heads", "haeds").encode(), "unknown column 'haeds': did you mean 'heads'"),
        (",".join(COLUMNS).replace("heads", "hidden").encode(), "column 'hidden' occurs twice"),
        (",".join(list(COLUMNS)[:-1]).encode(), "column 'step_s' is missing"),
        (",".join([*COLUMNS, "\n1"]).encode(), "unknown column ''"),
        (f"{','.join(COLUMNS)}\nfirst,a100\n".encode(), "row 1 (first): column 'memory_bandwidth_gbs': no cell"),
        (f"{','.join(COLUMNS)}\n{','.join(COLUMNS.values())},1\n".encode(), "row 1 (first): more cells than columns"),
        (bytes(range(256)), "not UTF-8"),
    ],
)
def test_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    told = refused(monkeypatch, capsys, "accuracy", str(path))
    assert str(path) in told and words in told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("accuracy", "FOLDER"), "it is a folder"),
        (("accuracy", "absent.csv"), "absent.csv: no such file"),
        (("accuracy", "ROWS", "--calibration", "a100"), "a100: no calibration: expected a file that"),
        (
            ("accuracy", "ROWS", "--calibration", "h100-calibrated"),
            "column 'accelerator': 'a100': the calibration is of",
        ),
        (("calibrate", "ROWS"), "expected --accelerator"),
        (("calibrate", "--accelerator", "a100"), "Missing argument"),
        (("calibrate", "ROWS", "--accelerator", "a1000"), "did you mean 'a100'"),
        (("calibrate", "ROWS", "--accelerator", "a100-calibrated"), "is calibrated already: expected 'a100'"),
        (("calibrate", "ROWS", "--accelerator", "CALIBRATION"), "is calibrated already: expected 'a100'"),
        (
            ("calibrate", "ROWS", "--accelerator", "h100"),
            "row 1 (first): column 'accelerator': 'a100': expected 'h100'",
        ),
        (("calibrate", "ROWS", "--accelerator", "a100"), "1 rows: expected at least 4"),
        (("calibrate", "ROWS", "--accelerator", "a100", "--gpus", "8"), "--gpus 8: "),
        (("calibrate", "ROWS", "--accelerator", "a100", "--out", "FOLDER"), "it is a folder"),
        (("plan", "resnet50", "--accelerator", "absent.yaml"), "field 'accelerator': cannot read"),
        (("plan", "resnet50", "--accelerator", "a100", "--set", "accelerator=h100"), "expected one of them"),
        (("plan", "resnet50", "--cluster", "terarack-64", "--strategy", "ddp", "--tp", "2"), "splits no model"),
    ],
)
def test_settings(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: tuple[str, ...],
    words: str,
) -> None:
    write_calibration(made_calibration(), tmp_path / "calibration.yaml")
    files = {
        "ROWS": str(write_rows(tmp_path / "rows.csv", {})),
        "CALIBRATION": str(tmp_path / "calibration.yaml"),
        "FOLDER": str(tmp_path),
    }
    assert words in refused(monkeypatch, capsys, *(files.get(word, word) for word in options))


@pytest.mark.parametrize(
    ("content", "gpus", "words"),
    [
        (f"{HEADING}\n1,8,gossip,1024,9\n", None, "row 1: column 'collective': 'gossip': expected 'all-gather'"),
        (f"{HEADING}\n1,8,all-reduce,1024,-9\n", None, "row 1: column 'time_us': '-9': expected more than 0"),
        (f"{HEADING}\n4,2,all-reduce,1024,9\n", None, "row 1: column 'nodes': 4: expected at most gpus, 2"),
        (f"{HEADING}\n1,8,all-reduce,1024,9\n", None, "1 rows: expected at least 3"),
        (f"{HEADING}\n1,8,all-reduce,1024,9\n", "8", "expected no --gpus"),
        (f"{SIZES}\n1024,256,float,10,1\n", None, "give it with --gpus"),
        (f"{SIZES}\n1024,256,float,10,1\n", "1", "--gpus 1: expected at least 2"),
        (f"{SIZES}\n1024,256,float\n", "8", "row 1: column 'time(ns)': no cell"),
        (PRINTED, None, "1 lines '# Rank', one for each GPU: expected at least 2"),
        (PRINTED, "8", "1 lines '# Rank', one for each GPU: expected the 8 of --gpus"),
        ("nothing\n", None, "give it with --gpus"),
    ],
)
def test_collectives(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: str,
    gpus: str | None,
    words: str,
) -> None:
    path = tmp_path / "timed.csv"
    path.write_text(content)
    options = () if gpus is None else ("--gpus", gpus)
    told = refused(monkeypatch, capsys, "calibrate", "--accelerator", "a100", str(path), *options)
    assert words in told and ("timed" in told or "--gpus 1" in told)
