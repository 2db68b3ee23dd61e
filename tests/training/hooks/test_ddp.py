"""The hook in real ``DistributedDataParallel`` training: four processes over gloo and sockets."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="the hook is one of torch's")

from tests.launched import Processes
from tests.training.hooks import workers


def same(values: list[Any]) -> Any:
    """The one value that all ranks have."""
    assert all(value == values[0] for value in values), values
    return values[0]


def mean_losses(runs: list[dict[str, Any]]) -> list[float]:
    return [sum(step) / len(step) for step in zip(*(run["losses"] for run in runs), strict=True)]


def test_training_with_the_hook(processes: Processes) -> None:
    outcomes = processes.results("ddp")

    def run(name: str) -> list[dict[str, Any]]:
        return [outcome[name] for outcome in outcomes]

    # Replicas stay bit-identical, and the loss falls as it does without the hook.
    for name in ("plain", "compressed", "bfloat16", "accumulated", "unnamed"):
        same([r["digest"] for r in run(name)])
    plain, compressed = mean_losses(run("plain")), mean_losses(run("compressed"))
    assert compressed[0] == plain[0]
    assert compressed[-1] < 0.7 * compressed[0]
    assert abs(compressed[-1] - plain[-1]) < 0.15
    half = mean_losses(run("bfloat16"))
    assert half[-1] < half[0]
    assert same([r["dtype"] for r in run("bfloat16")]) == "torch.bfloat16"

    # Bytes are counted, step by step; the buckets were rebuilt, into several.
    for r in run("compressed"):
        assert r["ratio"] > 1.5
        assert r["steps"] == workers.STEPS
        assert r["consistent"]
        assert r["buckets"][0] < r["buckets"][1]

    # Older names of hooks say the newer ones, where these do the same.
    inceptionn, truncated, counted, optical, rounded = same(run("deprecated"))
    assert inceptionn == (
        "attach_inceptionn is deprecated: use lightloom.exchange.attach(model, 'inceptionn:bound=2^-10,feedback')"
    )
    assert truncated.endswith("attach(model, 'codec:name=(truncate:16),feedback=no')")
    assert optical.endswith("attach(model, 'optical:averager=(ideal),bits=16,block=256')")
    assert counted == rounded == ""

    # Without a codec the hook is an all-reduce.
    for r in run("exact_ring"):
        assert r["worst"] < 1e-6
        assert r["ratio"] == pytest.approx(1, rel=0.01)  # shares of ranks differ by a value

    # Accumulation exchanges once a step; a loss scale changes nothing.
    assert same([r["steps"] for r in run("accumulated")]) == 3
    for r in run("scaled"):
        assert r["same"]
        assert r["bytes"][0] == r["bytes"][1]

    # A resumed run is the same run, residuals included.
    for r in run("resumed"):
        assert len(set(r["digests"])) == 1
        assert r["residuals_same"]
        assert r["residuals_size"] > 0
    same([r["digests"] for r in run("resumed")])
    assert all(outcome["checkpointed"] and outcome["checkpointed_by_0_1"] for outcome in outcomes)
    for rank, r in enumerate(run("unnamed")):
        assert r["keys"] == sorted(["ranks", *(f"rank{rank}/parameter {k}" for k in range(6))])
    decided(run("deciding"), run("alternating"))


def test_a_killed_rank_is_an_error_of_one_line_on_each_other_rank(processes: Processes) -> None:
    assert processes.outcomes[workers.VICTIM].error == "no result, exit code -9"
    messages = {rank: processes.outcomes[rank].value["killed"] for rank in (0, 3)}
    for rank, message in messages.items():
        assert message.startswith(f"rank {rank}: ") and "\n" not in message
    assert any(f"rank {workers.VICTIM} closed its connection" in message for message in messages.values())


def decided(deciding: list[dict[str, Any]], alternating: list[dict[str, Any]]) -> None:
    """All ranks decide alike, steps are of one kind, and the change of kind loses nothing."""
    same([r["digest"] for r in deciding])
    ((step, compressed, plain, choice),) = same([r["decisions"] for r in deciding])
    assert step == 21
    assert choice == (plain < compressed)
    kinds = same([r["aside"] for r in deciding])
    assert kinds[:9] == [False] * 9
    assert kinds[9:13] == [True] * 4
    assert kinds[21:] == [choice] * 4
    saved = same([r["saved"] for r in deciding])
    assert (saved["step"], saved["use_plain"]) == (25, choice)
    assert saved["until_probe"] >= 191
    losses = mean_losses(deciding)
    assert losses[-1] < 0.7 * losses[0]
    for r in deciding:
        assert not r["mixed"]
        assert all(count >= 0 for count in r["tags"])
        assert f"25 steps, {kinds.count(False)} of them compressed" in r["printed"]
        assert "values sent in 2 bits" in r["printed"]
        assert "step 21: " in r["printed"]
    for r in alternating:
        for dtype, one in r.items():
            assert one["worst"] < (1e-6 if dtype == "torch.float32" else 0.02 * one["size"])
            assert all((left == 0) == (step // 2 % 2 == 1) for step, left in enumerate(one["left"]))
