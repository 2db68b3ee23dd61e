"""Steps of a small network on the networks of the comparison, as the present code gives them.

Jobs, networks and constants do not tell whether the code that partitions, places, grants circuits, prices exchanges and
simulates has changed since results were stored. The hash of a part's inputs therefore includes what that code makes of
a network small enough to be run each time: a change that moves any of these figures makes the stored results stale.
Refactoring moves none.
"""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from lightloom.accelerators.load import load_accelerator
from lightloom.core.results import Document
from lightloom.parallelism.operators import graph_times
from lightloom.parallelism.placement.cuts import PartitionRules
from lightloom.parallelism.placement.partition import Partitions
from lightloom.studies.sipml.rivals import rounded, search_outcome
from lightloom.studies.sipml.split import PRECISIONS, Network, simulate_split
from lightloom.studies.sipml.systems import SYSTEMS, fabric
from lightloom.workloads.graph import ComputeGraph, Operator

_QUANTA = (1e-6, 10e-6)
_SPLITS = ((4, 2), (8, 4), (32, 8), (64, 64), (128, 128))
"""Ranks and k: groups that exchange and one group alone, devices that all reach one another and those that do not."""
_GBPS = (512.0, 8192.0)
_HIDDEN, _SEQUENCE, _BLOCKS, _VOCABULARY = 512, 512, 4, 8192


@cache
def placed_outcomes() -> list[list[float]]:
    """Seconds and bytes of placed steps, rounded as results are stored."""
    outcomes: list[list[float]] = []
    for ranks, k in _SPLITS:
        for system in SYSTEMS:
            gbps = _GBPS[len(outcomes) % 2]
            quantum = _QUANTA[len(outcomes) // 2 % 2]
            step = simulate_split(Network(system, ranks, gbps), k, quantum, partial(_partitions, 8))
            figures = step.step_time, step.plan.placement.makespan, step.sent_bytes, step.relayed_bytes
            outcomes.append([rounded(float(figure)) for figure in figures])
    return outcomes


@cache
def rival_outcomes() -> list[Document]:
    """Winners of the planner's search and of data parallelism."""
    return [search_outcome(_graph(1), 32, fabric(system, 8, _GBPS[0])) for system in SYSTEMS]


def _partitions(samples: int, clique: int) -> Partitions:
    graph = _graph(samples)
    times = np.stack(graph_times(graph, load_accelerator("a100").flat(), PRECISIONS["a100"]), axis=1)
    return Partitions(graph, times, PartitionRules(most_exchanging=clique))


def _graph(samples: int) -> ComputeGraph:
    """Embedding, residual blocks that branch, and a head: wide operators that are cut, narrow ones that are not."""
    operators = [_operator("tokens", "embedding", (), samples, 1, _VOCABULARY * _HIDDEN, 0)]
    last = "tokens"
    for block in range(_BLOCKS):
        up, gate, down, add = (f"{block}.{name}" for name in ("up", "gate", "down", "add"))
        operators += [
            _operator(up, "linear", (last,), samples, 4, 4 * _HIDDEN**2, 8 * _HIDDEN**2),
            _operator(gate, "activation", (up,), samples, 4, 0, 4 * _HIDDEN),
            _operator(down, "linear", (gate,), samples, 1, 4 * _HIDDEN**2, 8 * _HIDDEN**2),
            _operator(add, "add", (last, down), samples, 1, 0, _HIDDEN),
        ]
        last = add
    operators.append(_operator("head", "linear", (last,), samples, 16, 16 * _HIDDEN**2, 32 * _HIDDEN**2))
    return ComputeGraph(name="witness", batch=samples, operators=tuple(operators), element_bytes=2)


def _operator(
    name: str, kind: str, inputs: tuple[str, ...], samples: int, width: int, parameters: int, flops: int
) -> Operator:
    tokens, channels = samples * _SEQUENCE, width * _HIDDEN
    sizes = {"in_channel": parameters // channels} if kind == "linear" else {}
    return Operator(
        name=name,
        kind=kind,
        inputs=inputs,
        dimensions={"sample": samples, "sequence": _SEQUENCE, "channel": channels} | sizes,
        forward_flops=tokens * flops,
        backward_flops=2 * tokens * flops,
        parameters=parameters,
        parameter_bytes=2 * parameters,
        activation_bytes=2 * tokens * channels,
        forward_bytes=2 * parameters + 4 * tokens * channels,
        shared_bytes=2 * parameters,
        block=name.split(".")[0] if "." in name else "",
    )
