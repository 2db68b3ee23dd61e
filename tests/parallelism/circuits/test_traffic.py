"""Traffic matrices: read, or refused in one line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from lightloom.core.errors import InputError
from lightloom.planning.parallelism.circuits.circuits import Traffic
from tests.parallelism.circuits.strategies import matrices


@given(matrices())
def test_dense_and_sparse_read_alike(matrix: np.ndarray) -> None:
    for form in (matrix, sparse.csr_array(matrix), sparse.coo_array(matrix)):
        traffic = Traffic.of(form)
        back = np.zeros_like(matrix)
        back[traffic.source, traffic.destination] = traffic.nbytes
        assert (back == matrix).all()
        assert (traffic.find(traffic.source, traffic.destination) == np.arange(len(traffic))).all()
        row, column = np.nonzero(matrix == 0)
        assert (traffic.find(row, column) == -1).all()


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\): expected \(ranks, ranks\)"),
        (np.ones(4), r"shape \(4,\)"),
        ([[0, -1], [1, 0]], r"from rank 0 to rank 1 is -1.0 bytes: expected a finite number"),
        ([[0, 1], [np.nan, 0]], r"from rank 1 to rank 0 is nan bytes"),
        ([[0, np.inf], [1, 0]], "inf bytes"),
        ([[1, 1], [1, 0]], "from rank 0 to itself"),
        (np.zeros((3, 3)), "0 bytes between all ranks"),
    ],
)
def test_refused(matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Traffic.of(matrix)
    assert "\n" not in str(caught.value)
