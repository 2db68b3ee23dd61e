"""The ranks of a job find each other, train and end while all kinds of callers attack one of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the hook is one of torch's")

from lightloom.exchange.transport.meeting import CHALLENGE_SIZE
from tests.launched import Processes


def test_a_job_under_attack_starts_and_ends(processes: Processes) -> None:
    """No attacker hears more than a challenge, and replicas end alike."""
    outcomes = processes.results("attacked")
    assert len({outcome["digest"] for outcome in outcomes}) == 1
    heard = outcomes[-1]["heard"]
    assert len(heard) > 20
    assert max(heard) <= CHALLENGE_SIZE
