"""Plans from measured durations: what was measured on, how it is scaled, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.load import load_accelerator
from lightloom.clusters.base import Cluster
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.units import format_time
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.measured import MeasuredTimes

UNSCALED, NONE = "unscaled", "none"
_CHOICES = (
    f"expected --measured-on with an accelerator of the catalog or a YAML file, {UNSCALED!r} to take the durations as "
    f"the plan's accelerator's, or {NONE!r} to price every operator"
)


def on_machine(graph: ComputeGraph, measured_on: str | None, clusters: Sequence[Cluster]) -> ComputeGraph:
    """Return a graph whose measured times say what they were measured on, as far as it decides a plan.

    Args:
        graph: of a trace, or of any model.
        measured_on: an accelerator, ``unscaled`` or ``none``; None for what the trace names.
        clusters: where plans are searched.

    Raises:
        ConfigError: nothing was measured, or the trace names a machine that the catalog lacks.
        UnsupportedError: operators that state durations alone are to be scaled to another accelerator.
    """
    measured = graph.measured
    if measured is None:
        if measured_on is None:
            return graph
        raise ConfigError(f"--measured-on {measured_on}: {graph.name} states no durations: expected no --measured-on")
    if measured_on == NONE:
        return replace(graph, measured=None)
    if measured_on is not None:
        named = None if measured_on == UNSCALED else measured_on
        measured = replace(measured, accelerator=named, machine=measured.machine or named or "")
    elif measured.machine and measured.accelerator is None:
        raise ConfigError(
            f"{graph.name}: its durations are those of {measured.machine}, which the catalog lacks: {_CHOICES}"
        )
    if measured.accelerator is not None:
        machine = load_accelerator(measured.accelerator)
        for cluster in clusters:
            if cluster.accelerator.chip != machine.chip:
                _check_priced(graph, measured, machine, cluster.accelerator)
    return replace(graph, measured=measured)


def _check_priced(graph: ComputeGraph, measured: MeasuredTimes, machine: Accelerator, other: Accelerator) -> None:
    """Refuse to scale durations of operators of which nothing else is known."""
    unknown = [
        seconds or 0.0
        for operator, seconds in zip(graph.operators, measured.forward, strict=True)
        if not operator.forward_flops and not operator.forward_bytes and seconds
    ]
    if unknown:
        raise UnsupportedError(
            f"{graph.name}: {len(unknown)} operators ({format_time(sum(unknown))} of the forward pass) state durations "
            f"on {machine.name} and neither FLOPs nor bytes, by which durations are scaled to {other.name}: {_CHOICES}"
        )


def measured_lines(graph: ComputeGraph, clusters: Sequence[Cluster]) -> list[str]:
    """Return what is said of the measured durations that plans rest on; nothing where all operators are priced."""
    measured = graph.measured
    if measured is None:
        return []
    count = sum(seconds is not None for seconds in measured.forward)
    place = measured.machine or "a machine that the trace does not name"
    lines = [
        f"{count} of {len(graph.operators)} operators take durations of the trace, {format_time(measured.seconds)} "
        f"forward and backward at {measured.batch} samples: {measured.clock}, on {place}"
    ]
    lines += [_rule(measured, name) for name in dict.fromkeys(cluster.accelerator.chip for cluster in clusters)]
    lines.append("assumption: for other batches and splits a duration changes as the operator's price does")
    return lines


def _rule(measured: MeasuredTimes, name: str) -> str:
    if measured.accelerator is None:
        return f"assumption: what was measured on computes as {name} does in the plan's format: nothing is scaled"
    if load_accelerator(measured.accelerator).chip == name:
        change = "where the number format differs, they change as the operator's price does"
        return f"durations on {name} are taken as they are; {change}"
    return (
        f"assumption: from {measured.accelerator} to {name}, and from {measured.precision or 'the same format'} to the "
        "plan's number format, a duration changes as the operator's price does"
    )
