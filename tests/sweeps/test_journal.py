"""What was appended is there after any kill; folders are not mixed up, and not shared."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.core.journal import JOURNAL, open_journal

_Rows = list[tuple[str, dict[str, Any]]]
_ROWS: _Rows = [(f"key{i}", {"time_s": 0.1 * i, "why": "ä\n" * i, "none": None}) for i in range(5)]


@cache
def _journal() -> bytes:
    with tempfile.TemporaryDirectory() as name, open_journal(Path(name), "x") as journal:
        for row in _ROWS:
            journal.append([row])
        return (Path(name) / JOURNAL).read_bytes()


def _left_with(folder: Path, content: bytes) -> None:
    with open_journal(folder, "x"):
        pass
    (folder / JOURNAL).write_bytes(content)


@settings(max_examples=50)
@given(st.data())
def test_a_torn_journal_keeps_every_whole_line_and_grows_on(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = _journal()
        end = data.draw(st.integers(0, len(content)))
        _left_with(folder, content[:end])
        whole = content[:end].count(b"\n")
        with open_journal(folder, "x") as journal:
            assert journal.rows == dict(_ROWS[:whole])
            journal.append(_ROWS[whole:])
        assert (folder / JOURNAL).read_bytes() == content


@settings(max_examples=50)
@given(st.data())
def test_a_damaged_line_is_dropped_alone(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = bytearray(_journal())
        place = data.draw(st.integers(0, len(content) - 1).filter(lambda at: content[at] != ord("\n")))
        content[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte not in (content[place], 10, 13)))
        _left_with(folder, bytes(content))
        damaged = content[:place].count(b"\n")
        with open_journal(folder, "x") as journal:
            assert journal.rows == dict(_ROWS[:damaged] + _ROWS[damaged + 1 :])


def test_numbers_come_back_exactly(tmp_path: Path) -> None:
    row = {"time_s": 0.1 + 0.2, "energy_j": 5e-324, "steps": 2**53 + 1}
    with open_journal(tmp_path, "x") as journal:
        journal.append([("key", row)])
    with open_journal(tmp_path, "x") as journal:
        assert journal.rows == {"key": row}


def test_two_processes_do_not_share_a_folder_and_a_kill_frees_it(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from lightloom.core.journal import open_journal
with open_journal(Path({str(tmp_path)!r}), "x"):
    print("open", flush=True)
    input()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(ConfigError, match="another process is computing there"), open_journal(tmp_path, "x"):
            pass
        other.kill()
        other.wait()
    with open_journal(tmp_path, "x") as journal:
        assert journal.rows == {}


def test_a_folder_of_another_sweep_or_of_other_files_is_left_alone(tmp_path: Path) -> None:
    with open_journal(tmp_path / "mine", "x"):
        pass
    with pytest.raises(ConfigError, match="holds sweep 'x', not 'y'"), open_journal(tmp_path / "mine", "y"):
        pass
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match="holds other files"), open_journal(tmp_path / "other", "x"):
        pass
    assert [each.name for each in (tmp_path / "other").iterdir()] == ["thesis.tex"]
    thesis = tmp_path / "other" / "thesis.tex"
    with pytest.raises(ConfigError, match="cannot write in folder"), open_journal(thesis, "x"):
        pass


@pytest.mark.parametrize("head", ["", "[]", "{}", '{"schema": "other", "name": "x"}'])
def test_a_damaged_head_is_told(tmp_path: Path, head: str) -> None:
    (tmp_path / "sweep.json").write_text(head)
    with pytest.raises(ConfigError, match=r"sweep\.json"), open_journal(tmp_path, "x"):
        pass
