"""Types of gradients: complex ones reach every replica whole, float64 ones exactly or not at all."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the hooks are torch's")

from tests.launched import Processes

TOLERANCES = {"no codec": 1e-5, "schedule": 1e-5}
"""Of the gradients' difference to the plain average, without a codec; with one 2^-9: twice the codec's bound."""


@pytest.mark.usefixtures("sharding")
def test_complex_gradients_reach_all_replicas_whole(processes: Processes) -> None:
    outcomes = processes.results("dtypes")
    for name in outcomes[0]["complex_parameters"]:
        runs = [outcome["complex_parameters"][name] for outcome in outcomes]
        assert len({run["digest"] for run in runs}) == 1, name
        assert max(run["worst"] for run in runs) <= TOLERANCES.get(name, 2**-9), (name, runs)
    shards = [outcome["complex_shards"] for outcome in outcomes]
    assert len({run["digest"] for run in shards}) == 1
    assert max(run["worst"] for run in shards) <= 2**-9


def test_float64_gradients_are_exchanged_exactly_or_refused(processes: Processes) -> None:
    for outcome in processes.results("dtypes"):
        for name, verdict in outcome["float64"].items():
            if name in ("no codec", "schedule"):
                assert verdict == "exact", name
            else:
                assert verdict.startswith("UnsupportedError: gradients of torch.float64"), name
                assert "float32" in verdict and "\n" not in verdict, name
