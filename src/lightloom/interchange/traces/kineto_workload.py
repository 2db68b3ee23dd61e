"""Profiles of ``torch.profiler`` as compute graphs, with the times of the accelerator's kernels or of the host's calls.

A profile states neither which tensor is which nor what calls return, so that edges, outputs and parameters follow from
shapes (``kineto_shapes.py``); an execution trace of the same step says them. FLOPs, passes and steps are those of
execution traces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lightloom.accelerators.devices import accelerator_of_device
from lightloom.interchange.traces.calls import Call, Recording
from lightloom.interchange.traces.execution_trace import reading_of
from lightloom.interchange.traces.kineto import Profile, TimedCall, read_profile
from lightloom.interchange.traces.kineto_shapes import Wiring, result_shape
from lightloom.interchange.traces.reading import TraceReading
from lightloom.interchange.traces.steps import BACKWARD, leaves, walk

_GRADIENT = "torch::autograd::AccumulateGrad"


def read_kineto_workload(path: Path, *, batch: int | None = None, step: int | None = None) -> TraceReading:
    """Return the graph of one step of a profile, gzip or not, with its measured times.

    Args:
        batch: number of samples in the trace; by default the first axis of the first tensor that is not a parameter.
        step: which step, as the profiler counts; by default the first one that has a backward pass.

    Raises:
        ConfigError: unreadable, not gzip, or not JSON.
        WorkloadError: no profile, one without operators or shapes, a malformed event, or no such step.
    """
    profile = read_profile(path)
    return workload_of(profile, path, batch=batch, step=step)


def workload_of(profile: Profile, path: Path, *, batch: int | None = None, step: int | None = None) -> TraceReading:
    """Return the graph of one step of a profile that was read."""
    roots = list(profile.roots)
    gradients = [call.reads[0].shape for call in walk(roots) if call.name == _GRADIENT and call.reads]
    wiring = Wiring(gradients)
    for call in walk(roots):
        if call.reads:
            call.returns = [replace(call.reads[0], storage=-2, shape=result_shape(call))]
    for call in sorted(_forward(roots), key=lambda call: call.id):
        wiring.connect(call)
    exchanges = tuple(piece.exchange for piece in profile.work if piece.exchange is not None)
    recording = Recording(roots, exchanges, timed=True, on_device=profile.on_device)
    device = profile.devices[0] if profile.devices and profile.on_device else ""
    reading = reading_of(recording, path, batch=batch, step=step, machine=device)
    measured = reading.graph.measured
    if measured is not None:
        named = accelerator_of_device(device, profile.memory) if device else None
        precision = _precision(_forward(roots))
        graph = replace(reading.graph, measured=replace(measured, accelerator=named, precision=precision))
        reading = replace(reading, graph=graph)
    return replace(reading, unrecorded=(*_unrecorded(profile), *reading.unrecorded))


def _forward(roots: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls that no other one made and that belong to no backward pass and no optimizer."""
    for call in leaves(roots):
        if call.schema and not call.name.startswith((BACKWARD, "Optimizer.")):
            yield call


def _precision(calls: Iterator[Call]) -> str:
    """The number format of most of the time of the forward pass; TF32 where kernels of float32 say so."""
    seconds: dict[str, float] = defaultdict(float)
    for call in calls:
        if isinstance(call, TimedCall) and call.precision:
            names = [name for inner in walk([call]) if isinstance(inner, TimedCall) for name in inner.kernels]
            tf32 = call.precision == "fp32" and any("tf32" in name or "s1688" in name for name in names)
            seconds["tf32" if tf32 else call.precision] += call.seconds
    return max(seconds, key=lambda name: seconds[name], default="")


def _unrecorded(profile: Profile) -> Iterator[str]:
    yield "edges, outputs and which tensors are parameters: taken from shapes (an execution trace states them)"
    for name, count in profile.left_out.items():
        yield f"{count} events of category {name} are left out"
    unattributed = profile.unattributed_seconds - sum(piece.seconds for piece in profile.work if piece.exchange)
    if unattributed > 0.01 * profile.device_seconds:
        share = unattributed / profile.device_seconds
        yield f"{share:.1%} of the accelerator's time was launched by no operator, and is left out"
    distributed = profile.distributed
    if "world_size" in distributed:
        rank, backend = distributed.get("rank", "?"), distributed.get("backend", "?")
        yield f"what other ranks computed: the trace is of rank {rank} of {distributed['world_size']} ({backend})"
