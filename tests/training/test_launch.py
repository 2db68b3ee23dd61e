"""Starting, judging and ending processes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="workers form a torch process group")

from lightloom.training.transport.errors import LaunchError
from lightloom.training.transport.launch import launch

from . import workers


def test_results_come_back_and_what_was_said() -> None:
    outcomes = launch(workers.speak, 2, 240, {"number": 7})
    assert [outcome.value for outcome in outcomes] == [[0, 2, 7], [1, 2, 7]]
    assert all("hello from a worker" in outcome.log for outcome in outcomes)


def test_a_function_that_fails_is_quoted() -> None:
    with pytest.raises(LaunchError, match="rank 0 of 1: KeyError: 'number'"):
        launch(workers.speak, 1, 240)


def test_who_does_not_end_is_killed() -> None:
    with pytest.raises(LaunchError, match="rank 0 of 1: no result within 1 s"):
        launch(workers.hang, 1, 1)
