"""Entries of the cache come back as they were written or not at all, and only from folders of the user's own."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import cache_directory, kept, read_entry, write_entry


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), at=st.integers(0, 400), change=st.integers(1, 255))
def test_an_entry_is_itself_and_with_any_byte_changed_no_entry(
    content: bytes, at: int, change: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "entry.json"
    write_entry(path, content)
    assert read_entry(path) == content
    whole = bytearray(path.read_bytes())
    whole[at % len(whole)] ^= change
    path.write_bytes(whole)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert read_entry(path) is None
    assert str(path) in caplog.text


def test_an_entry_under_the_name_of_another_is_no_entry(tmp_path: Path) -> None:
    write_entry(tmp_path / "one.json", b"1")
    (tmp_path / "one.json").rename(tmp_path / "two.json")
    assert read_entry(tmp_path / "two.json") is None
    assert read_entry(tmp_path / "absent.json") is None


def test_entries_of_earlier_versions_are_made_again_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for content in (b'[{"kind": "all-gather"}]', b'{"name": "hdc"}', b"PK\x03\x04"):
        (tmp_path / "entry").write_bytes(content)
        with caplog.at_level(logging.WARNING):
            assert read_entry(tmp_path / "entry") is None
    assert caplog.text == ""


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owners here")
def test_folders_that_others_can_fill_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(folder))
    assert cache_directory() == folder
    folder.mkdir(mode=0o755)
    write_entry(folder / "prices" / "entry", b"1")
    assert (folder / "prices").stat().st_mode & 0o777 == 0o700
    (folder / "prices").chmod(0o777)
    with pytest.raises(ConfigError, match="can be written by others: expected a folder of your own"):
        read_entry(folder / "prices" / "entry")
    folder.chmod(0o775)
    assert cache_directory() == folder  # the user's own group
    monkeypatch.setattr(os, "getgid", lambda: folder.stat().st_gid + 1)
    with pytest.raises(ConfigError, match="can be written by others"):
        cache_directory()
    folder.chmod(0o755)
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    if folder.stat().st_uid == 0:
        os.chown(folder, 1234, -1)
    with pytest.raises(ConfigError, match="belongs to user"):
        cache_directory()


def test_a_value_is_computed_once_and_kept_where_there_is_a_path(tmp_path: Path) -> None:
    computed: list[object] = []

    def value() -> object:
        computed.append(None)
        return {"limit": 0.1 + 0.2, "layers": (1, 2)}

    def fails() -> object:
        raise UnsupportedError("too small")

    with pytest.raises(UnsupportedError, match="too small"):
        kept(tmp_path / "value.json", fails)
    assert [kept(tmp_path / "value.json", value) for _ in range(2)] == [
        {"limit": 0.1 + 0.2, "layers": (1, 2)},
        {"limit": 0.1 + 0.2, "layers": [1, 2]},
    ]
    assert len(computed) == 1 and kept(tmp_path / "value.json", fails)["limit"] == 0.1 + 0.2
    assert kept(None, value) == kept(None, value) and len(computed) == 3
