"""Starting, judging and ending processes."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="workers form a torch process group")

from lightloom.exchange.transport.channel import LaunchError
from lightloom.exchange.transport.launch import launch
from tests.launched import TIMEOUT
from tests.training.transport import launch_workers as workers


@pytest.mark.long
def test_results_come_back_and_nobody_leaves_before_the_slowest_has_one() -> None:
    outcomes = launch(workers.speak, 2, TIMEOUT, {"number": 7})
    assert [outcome.value for outcome in outcomes] == [[0, 2, 7], [1, 2, 7]]
    assert all("hello from a worker" in outcome.log for outcome in outcomes)


@pytest.mark.long
def test_the_rank_that_failed_first_is_quoted_and_not_the_one_that_lost_it() -> None:
    with pytest.raises(LaunchError, match="rank 1 of 2: ValueError: no such thing"):
        launch(workers.fail_at_once, 2, TIMEOUT)


@pytest.mark.long
def test_who_does_not_end_is_killed() -> None:
    with pytest.raises(LaunchError, match="rank 0 of 1: no result within 1 s"):
        launch(workers.hang, 1, 1)


@pytest.mark.long
def test_a_launch_listens_on_loopback_alone() -> None:
    pytest.importorskip("psutil")
    for outcome in launch(workers.listening, 2, TIMEOUT):
        assert outcome.value and set(outcome.value) == {"127.0.0.1"}
