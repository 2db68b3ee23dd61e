"""Rows are left out in two parts, not in ten: each part is a fit, and two show what ten do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from lightloom.core.arrays import Ints


@pytest.fixture(scope="module", autouse=True)
def two_folds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lightloom.planning.calibration.accuracy.random_folds", _two_folds)
        yield


def _two_folds(rows: int) -> Ints:
    return np.random.default_rng(0).permutation(rows) % 2
