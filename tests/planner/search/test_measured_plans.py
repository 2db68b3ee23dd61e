"""What durations of a trace were measured on, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph, MeasuredTimes
from lightloom.planning.parallelism.operators import machine_of
from lightloom.planning.search.request import measured_lines, on_machine
from tests.planner.jobs import transformer

H100, A100 = load_cluster("h100-512-two-tier", set={"ranks": 2}), load_cluster("a100-1024-two-tier", set={"ranks": 2})


def timed(*, bare: int = 0, **given: Any) -> ComputeGraph:
    """A transformer with durations of its first three operators; so many of all have no figures but these."""
    graph = transformer(1)
    none: Any = {"forward_flops": 0, "backward_flops": 0, "forward_bytes": 0, "shared_bytes": 0}
    operators = (*(replace(each, **none) for each in graph.operators[:bare]), *graph.operators[bare:])
    seconds = [1e-3, 0.0, 2e-3] + [None] * (len(graph.operators) - 3)
    times = MeasuredTimes(batch=13, forward=tuple(seconds), backward=tuple(seconds), clock="kernels", **given)
    return replace(graph, operators=operators, measured=times)


def test_graphs_without_durations_are_measured_nowhere() -> None:
    plain = transformer(1)
    assert on_machine(plain, None, [H100]) is plain and measured_lines(plain, [H100]) == []
    with pytest.raises(ConfigError, match="states no durations"):
        on_machine(plain, "a100", [H100])
    assert on_machine(timed(machine="cpu"), "none", [H100]).measured is None


def test_durations_are_those_of_what_is_named_else_of_the_trace() -> None:
    named = on_machine(timed(), "a100", [A100]).measured
    assert named is not None and (named.accelerator, named.machine) == ("a100", "a100")
    kept = on_machine(timed(machine="my card"), "a100", [H100]).measured
    assert kept is not None and (kept.accelerator, kept.machine) == ("a100", "my card")
    taken = on_machine(timed(accelerator="a100"), "unscaled", [H100]).measured
    assert taken is not None and (taken.accelerator, taken.machine) == (None, "")
    for graph in (timed(), timed(accelerator="a100", machine="A100")):
        assert on_machine(graph, None, [H100]).measured == graph.measured
    with pytest.raises(ConfigError, match="durations are those of my card, which the catalog lacks"):
        on_machine(timed(machine="my card"), None, [H100])


def test_what_has_no_figures_is_not_scaled_to_another_accelerator() -> None:
    """Operators whose duration is zero or unknown do not count."""
    assert on_machine(timed(bare=3), "a100", [A100]).measured is not None
    assert on_machine(timed(), "a100", [H100]).measured is not None
    with pytest.raises(UnsupportedError, match=r"2 operators \(3 ms of the forward pass\)"):
        on_machine(timed(bare=4), "a100", [A100, H100])
    for name in ("forward_flops", "forward_bytes"):
        graph = timed(bare=1)
        first = replace(graph.operators[0], **{name: 7})  # type: ignore[arg-type]
        on_machine(replace(graph, operators=(first, *graph.operators[1:])), "a100", [H100])


def test_plans_say_what_their_durations_rest_on() -> None:
    graph = timed(accelerator="a100", machine="A100", precision="bf16")
    same, scaled = H100.accelerator.chip, A100.accelerator.chip
    first, *rules, last = measured_lines(graph, [H100, A100, H100])
    assert first.startswith(f"3 of {len(graph.operators)} operators") and first.endswith("kernels, on A100")
    assert "6 ms forward and backward at 13 samples" in first and last.startswith("assumption: for other batches")
    assert len(rules) == 2 and f"from a100 to {same}, and from bf16 to" in rules[0]
    assert f"durations on {scaled} are taken as they are" in rules[1]
    nowhere = measured_lines(timed(), [H100])
    assert "a machine that the trace does not name" in nowhere[0] and "nothing is scaled" in nowhere[1]
    assert "the same format" in measured_lines(timed(accelerator="a100"), [H100])[1]


def test_what_was_measured_on_a_chip_is_priced_by_the_calibration_of_the_plan() -> None:
    """The price of what was measured and that of the plan are of one kind: durations on one chip stay as they are."""
    assert H100.accelerator.calibration is not None
    measured = {name: timed(accelerator=name).measured for name in ("h100", "h100-calibrated", "a100")}
    machines = {name: machine_of(times, H100.accelerator, "bf16")[0] for name, times in measured.items() if times}
    assert machines["h100"] is machines["h100-calibrated"] is H100.accelerator
    assert machines["a100"].chip == "a100"
