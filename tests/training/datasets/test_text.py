"""Text: every byte once, in order, split where it is said to be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.exchange.datasets import (
    VALIDATION,
    VARIABLE,
    plain_text,
    tiny_shakespeare,
    wikitext_2,
)


@given(content=st.binary(min_size=10, max_size=400))
def test_a_text_is_its_two_parts(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("text") / "own.txt"
    path.write_bytes(content)
    found = plain_text(path)
    assert np.concatenate([found.training, found.validation]).tobytes() == content
    assert found.validation.size == int(len(content) * VALIDATION)


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name, content in (("b/1.txt", b"second"), ("a.txt", b"first"), ("c.txt", b"third"), ("ignored.md", b"never")):
        (tmp_path / name).write_bytes(content)
    found = plain_text(tmp_path)
    assert np.concatenate([found.training, found.validation]).tobytes() == b"first\nsecond\nthird"


def test_every_fault_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (tmp_path / "short.txt").write_bytes(b"short")
    (tmp_path / "empty").mkdir()
    (tmp_path / "wikitext-2").mkdir()
    (tmp_path / "wikitext-2" / "valid.txt").write_bytes(b"another text")
    faults: dict[str, Callable[[], object]] = {
        "has no tinyshakespeare/input.txt": tiny_shakespeare,
        "SHA-256": wikitext_2,
        "too short": lambda: plain_text(tmp_path / "short.txt"),
        "holds no .txt": lambda: plain_text(tmp_path / "empty"),
        "No such file": lambda: plain_text(Path("wikitext-3")),
    }
    for words, action in faults.items():
        with pytest.raises(ConfigError, match=words) as caught:
            action()
        assert "\n" not in str(caught.value)
