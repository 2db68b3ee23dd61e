"""The loss of a model that was traced without one: what reads its logits, and the memory that this takes."""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.operator import Operator

FLOAT32_COPIES = 3
"""Float32 values for each logit at the worst moment of PyTorch's cross entropy, when its backward pass begins: the
log-softmax that is kept, the gradient of the negative log-likelihood, and the gradient of the log-softmax. The logits
themselves stay beside them in the format of the arithmetic."""


def logits_of(operators: Sequence[Operator]) -> Operator | None:
    """Return the product whose outputs a cross entropy reads; None where the graph ends otherwise, as with a loss.

    Models are traced without their loss: where the last operator is a linear layer, its outputs are taken for logits
    (an assumption).
    """
    return operators[-1] if operators and operators[-1].kind == "linear" else None


def bytes_of_logit(element_bytes: int) -> int:
    """Return the bytes that the loss holds for each logit at its worst moment."""
    return element_bytes + 4 * FLOAT32_COPIES


def loss_bytes(graph: ComputeGraph) -> float:
    """Return the bytes that the loss of a graph's batch holds at its worst moment; 0 where the graph has its loss."""
    logits = logits_of(graph.operators)
    if logits is None:
        return 0.0
    return logits.activation_bytes / graph.element_bytes * bytes_of_logit(graph.element_bytes)


def transient_loss(graph: ComputeGraph) -> float:
    """Return by how much the loss holds more than the largest checkpoint region makes again, which comes later."""
    return max(loss_bytes(graph) - graph.recomputed_bytes, 0.0)
