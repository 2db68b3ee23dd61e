"""The calibration benchmark has every row, and its page says what held."""

from __future__ import annotations

import pytest
from benchmarks.photonics import calibration
from benchmarks.photonics.calibration_page import page


def test_a_small_run_fills_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "STUDY_MODES", 3)
    monkeypatch.setattr(calibration, "LIMITS", {3: ("worst", 1.0)})
    monkeypatch.setattr(calibration, "_studies", lambda: {"drift afterwards, rad": {"0.01": {"aging": 0.01}}})
    document = calibration.measure([3], chips=1)
    assert [row["unknown_offsets"] for row in document["sizes"]] == [False, False, True]
    text = page(document)
    assert "* 3 modes: worst 0.0" in text and text.count(": held") == 2 and "4 settings more" in text
