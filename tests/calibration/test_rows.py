"""Tables of measured steps: read whole, or refused with file, row and column."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lightloom.core.errors import ConfigError
from lightloom.planning.calibration.rows import jobs_of, read_steps
from tests.calibration.samples import COLUMNS, step, write_rows


def test_rows_are_read_in_order(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "steps.csv", {}, {"row": "second", "micro_batch": "", "virtual_stages": ""})
    steps = read_steps(path)
    assert [entry.row for entry in steps.steps] == ["first", "second"]
    assert steps.steps[0] == step()
    assert steps.steps[1].micro_batch is None
    assert steps.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden": "many"}, "column 'hidden': 'many'"),
        ({"layers": ""}, "column 'layers': the cell is empty"),
        ({"step_s": "-1"}, "column 'step_s': '-1'"),
        ({"step_s": "nan"}, "column 'step_s'"),
        ({"gpus": "17"}, "column 'gpus': 17: expected dp · tp · pp, 16"),
        ({"sharding": "zero-4"}, "column 'sharding': 'zero-4'"),
        ({"attention": "sparse"}, "column 'attention': 'sparse'"),
        ({"accelerator": "abacus"}, "column 'accelerator': unknown accelerator 'abacus'"),
        ({"precision": "fp8"}, "column 'precision'"),
        ({"heads": "30"}, "column 'heads': 30"),
        ({"global_batch": "2"}, "column 'global_batch': 2"),
        ({"virtual_stages": "2", "global_batch": "72"}, "column 'virtual_stages': 2: interleaved stages take pp = 2"),
        ({"row": "first"}, "column 'row': 'first' occurs twice"),
    ],
)
def test_a_bad_cell_is_named(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    path = write_rows(tmp_path / "steps.csv", {}, {"row": "second"} | changes)
    with pytest.raises(ConfigError) as refused:
        read_steps(path)
    message = str(refused.value)
    assert f"{path}, row 2 (" in message
    assert words in message
    assert "\n" not in message


def test_columns_are_checked(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "steps.csv", {})
    text = path.read_text()
    path.write_text(text.replace("heads", "hats"))
    with pytest.raises(ConfigError, match="unknown column 'hats': did you mean 'heads'"):
        read_steps(path)
    path.write_text("\n".join(f"{line},1" for line in text.splitlines()).replace("step_s,1", "step_s,cp"))
    with pytest.raises(ConfigError, match="unknown column 'cp'"):
        read_steps(path)
    path.write_text(text.rpartition(",")[0] + "\n")
    with pytest.raises(ConfigError, match=r"row 1 .* column 'step_s': no cell"):
        read_steps(path)
    path.write_text(",".join(COLUMNS) + "\n")
    with pytest.raises(ConfigError, match="no rows"):
        read_steps(path)


def test_checksums_are_compared(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "steps.csv", {})
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  steps.csv\n")
    read_steps(path)
    sums.write_text(f"{'0' * 64}  steps.csv\n")
    with pytest.raises(ConfigError, match="differs from SHA256SUMS"):
        read_steps(path)


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("{digest} *steps.csv", False),
        ("{digest}  *steps.csv", True),
        ("{digest}  other.csv", False),
        ("", False),
        ("{digest}", False),
        ("{digest}  ", False),
    ],
)
def test_checksums_are_those_that_the_folder_or_the_one_above_lists(tmp_path: Path, line: str, listed: bool) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    path = write_rows(folder / "steps.csv", {})
    for sums, name in ((folder / "SHA256SUMS", "steps.csv"), (tmp_path / "SHA256SUMS", "tables/steps.csv")):
        text = line.replace("steps.csv", name).format(digest="0" * 64)
        sums.write_text(f"{'1' * 64}  another.csv\n{text}\n")
        if listed:
            with pytest.raises(ConfigError, match=f"differs from SHA256SUMS, which lists {'0' * 16}"):
                read_steps(path)
        else:
            assert len(read_steps(path)) == 1
        sums.unlink()


def test_the_folder_of_a_table_says_its_checksum_before_the_one_above(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    path = write_rows(folder / "steps.csv", {})
    (folder / "SHA256SUMS").write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  steps.csv\n")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  tables/steps.csv\n")
    assert len(read_steps(path)) == 1


def test_a_mark_of_the_byte_order_and_digits_of_other_scripts(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "steps.csv", {})
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert read_steps(path).steps[0] == step()
    for cell in ("4_096", "\u0664096"):
        write_rows(path, {"hidden": cell})
        with pytest.raises(ConfigError, match=r"column 'hidden': .*: expected a number in plain digits"):
            read_steps(path)
    write_rows(path, {"row": "\u0664 rows_of"})
    assert read_steps(path).steps[0].row == "\u0664 rows_of"


def test_each_accelerator_and_precision_of_a_table_is_checked(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "steps.csv", {}, {"row": "second", "precision": "fp8"})
    with pytest.raises(ConfigError, match=r"row 2 \(second\): column 'precision'"):
        read_steps(path)
    write_rows(path, {}, {"row": "second", "accelerator": "titan-xp"})
    with pytest.raises(ConfigError, match=r"row 2 \(second\): column 'accelerator'"):
        read_steps(path)


def test_missing_tables_say_where_they_were_sought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIGHTLOOM_MEASURED", raising=False)
    with pytest.raises(ConfigError, match=r"\$LIGHTLOOM_MEASURED is not set"):
        read_steps("steps.csv")
    monkeypatch.setenv("LIGHTLOOM_MEASURED", str(tmp_path))
    with pytest.raises(ConfigError, match=r"nor in \$LIGHTLOOM_MEASURED"):
        read_steps("steps.csv")
    write_rows(tmp_path / "steps.csv", {})
    assert len(read_steps("steps.csv")) == 1


def test_what_a_row_leaves_open_is_every_usual_choice() -> None:
    from lightloom.machines.accelerators.load import load_accelerator

    machine = load_accelerator("a100")
    jobs = jobs_of([step(micro_batch=None, virtual_stages=None), step()], machine)
    choices = {(job.micro_batch, job.virtual_stages) for job in jobs.steps[:-1]}
    assert (16, 1) in choices
    assert (2, 3) in choices
    # Twelve blocks a stage are not cut in five, and interleaved stages take two micro-batches at a time.
    assert not {(2, 5), (16, 2)} & choices
    assert jobs.row.tolist() == [0] * (len(jobs.steps) - 1) + [1]
    with pytest.raises(ValueError, match="column 'micro_batch'"):
        step(micro_batch=None, global_batch=5)
