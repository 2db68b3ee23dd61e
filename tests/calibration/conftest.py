"""Rows are left out in two parts, not in ten: each part is a fit, and two show what ten do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from lightloom.planning.calibration.fit import random_folds


@pytest.fixture(scope="module", autouse=True)
def two_folds() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lightloom.planning.calibration.accuracy.random_folds", partial(random_folds, folds=2))
        yield
