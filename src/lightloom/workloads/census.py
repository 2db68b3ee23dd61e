"""Synapses and neurons, as Table 2 of Ro, Lee and Ahn (Electronics 2018, 7, 130) counts them.

Synapses are the weights of convolutions and fully connected layers, without biases and normalisation. Neurons are the
outputs of the forward pass: the input, convolutions, pooling (global too), fully connected layers, and, but for
Inception networks, also local response normalisation, batch normalisation, additions and concatenations. Activation
functions, dropout and softmax count nowhere. Both are 32-bit, and the table's MB are MiB.
"""

from __future__ import annotations

import math

from lightloom.workloads.graph import ComputeGraph, Operator

BASE_KINDS = frozenset({"input", "conv", "pool", "linear"})
"""What counts as a layer with neurons in every network."""
MORE_KINDS = frozenset({"lrn", "batch_norm", "add", "concat"})
"""What counts too, except in Inception networks."""
INCEPTION_NETWORKS = ("googlenet", "inception")
"""Names that begin like this are Inception networks."""


def synapse_bytes(graph: ComputeGraph) -> int:
    """Return the bytes of the weights of convolutions and fully connected layers."""
    return sum(_weights(operator) for operator in graph.operators) * graph.element_bytes


def neuron_bytes(graph: ComputeGraph, batch: int | None = None) -> int:
    """Return the bytes of all neurons in one forward pass, by default of the graph's own batch."""
    rescaled = graph if batch is None else graph.with_batch(batch)
    return sum(operator.activation_bytes for operator in layers(rescaled))


def layers(graph: ComputeGraph) -> tuple[Operator, ...]:
    """Return the operators that the convention counts as layers, the input being one."""
    kinds = BASE_KINDS if graph.name.startswith(INCEPTION_NETWORKS) else BASE_KINDS | MORE_KINDS
    return tuple(operator for operator in graph.operators if operator.kind in kinds)


def _weights(operator: Operator) -> int:
    sizes = operator.dimensions
    if operator.kind == "linear":
        return sizes["channel"] * sizes["in_channel"]
    if operator.kind == "conv":
        kernel = math.prod(size for name, size in sizes.items() if name.startswith("kernel_"))
        return sizes["channel"] * sizes["in_channel"] // sizes["groups"] * kernel
    return 0
