"""The calls of one step, sorted into forward pass, backward pass, communication and the optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field

from lightloom.interchange.traces.calls import Call, TraceTensor
from lightloom.interchange.traces.steps import BACKWARD, walk

_GRADIENT = "torch::autograd::AccumulateGrad"
_COMMUNICATION = ("c10d::", "record_param_comms", "nccl:", "gloo:")


@dataclass(slots=True)
class Parts:
    """The calls of a trace, sorted by the pass they belong to."""

    forward: list[Call] = field(default_factory=list)
    backward: dict[int, list[Call]] = field(default_factory=dict)
    """Calls of the backward pass, by sequence number."""
    gradients: list[TraceTensor] = field(default_factory=list)
    communication: list[Call] = field(default_factory=list)
    later: int = 0
    update: list[Call] = field(default_factory=list)
    """Calls of the optimizer."""
    other_steps: int = 0
    later_passes: int = 0

    def sort(self, call: Call) -> None:
        """Sort a call, or the calls that it made."""
        if call.name.startswith(_COMMUNICATION):
            self.communication.append(call)
        elif call.name.startswith(BACKWARD):
            for inner in call.calls:
                self.backward.setdefault(inner.sequence, []).append(inner)
                if inner.name == _GRADIENT:
                    self.gradients += inner.reads[:1]
        elif call.name.startswith("Optimizer."):
            self.later += 1
            self.update.append(call)
        elif call.schema and self.backward:
            # Autograd itself allocates, and adds up gradients that meet.
            self.later += call.word.strip("_") != "add" and bool(made(call))
        elif call.schema:
            self.forward.append(call)
        else:
            for inner in call.calls:
                self.sort(inner)


def named_parameters(calls: list[Call]) -> dict[int, tuple[int, ...]]:
    """Shapes of tensors that are read as weight or bias, and that no earlier call computed, by storage."""
    written: set[int] = set()
    shapes: dict[int, tuple[int, ...]] = {}
    for call in calls:
        for tensor in call.reads:
            if tensor.argument in ("weight", "bias") and tensor.floating and tensor.storage not in written:
                shapes.setdefault(tensor.storage, tensor.shape)
        written.update(tensor.storage for tensor in made(call))
    return shapes


def statistics(calls: list[Call]) -> set[int]:
    """Storages of running means and variances, which batch norms update and no gradient reaches."""
    read = (tensor for call in walk(calls) for tensor in call.reads)
    return {tensor.storage for tensor in read if tensor.argument.startswith("running_")}


def made(call: Call) -> list[TraceTensor]:
    """Tensors that a call computed: none for views, and for what only allocates."""
    if not call.reads or call.word.endswith("_like") or call.word.startswith("new_"):
        return []
    if call.written:
        return call.written
    read = {tensor.storage for tensor in call.reads}
    fresh = [tensor for tensor in call.returns if tensor.storage not in read]
    # In place, counters of batches seen are no part of the network.
    changed = call.returns[:1] if call.word.endswith("_") and call.reads[0].floating else []
    return fresh or changed
