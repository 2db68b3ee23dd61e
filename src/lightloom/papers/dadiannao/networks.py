"""The nine CNNs: counted from the zoo's graphs, and with the sizes that Table 2 prints.

Counts come with the package, so that the study needs no PyTorch. To count them anew:

    python -m lightloom.papers.dadiannao.networks
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lightloom.core.files import write_atomically
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import load_workload
from lightloom.papers.dadiannao import NEURON_BATCH, TABLE_2
from lightloom.planning.pricing.broadcast_step import Network

ZOO = {
    "AlexNet": "alexnet-2012",
    "VGG16": "vgg16",
    "VGG19": "vgg19",
    "Inception-v1": "googlenet-2014",
    "Inception-v3": "inception-v3-plain",
    "ResNet50": "resnet50-2015",
    "ResNet101": "resnet101-2015",
    "ResNet152": "resnet152-2015",
    "DenseNet121": "densenet121",
}
"""Variants of the zoo that match the paper's sizes."""
MIB = 2.0**20
INCEPTION_VARIANT = "Inception-v3 variant"
"""Key of the counts of :func:`trace_variant`."""

VARIANT = {"grid35.2": 0, "grid17.1": 0, "grid17.2": 0, "grid17.3": 0, "grid17.4": 5}
"""A guess at the paper's Inception-v3: two blocks A instead of three, five blocks C of 192 channels instead of four of
128 to 192. Block of the zoo's graph → how often it counts."""


@cache
def graph_of(name: str) -> ComputeGraph:
    """Return the graph of one sample of a network, by its name in Table 2 (KeyError for others): the variant that
    ``ZOO`` names for it, as it matches the paper's sizes, except for Inception-v3, whose printed sizes no variant has.

    Raises:
        WorkloadError: PyTorch is missing, and the graph is not cached.
    """
    return load_workload(ZOO[name], batch=1)


@cache
def stored() -> Mapping[str, Network]:
    """Return the counts from our graphs, as the package's ``counted.json`` holds them, of Table 2's nine networks and,
    under :data:`INCEPTION_VARIANT`, of the guessed Inception-v3, by name."""
    rows = json.loads((files(__package__) / "counted.json").read_text(encoding="utf-8"))
    return {name: Network(**row) for name, row in rows.items()}


def trace_counts(name: str) -> Network:
    """Return the sizes and counts of the zoo's graph for a network, counted as Table 2 counts; ``name``, a key of
    ``ZOO``, is the network's in Table 2 and that of the result. The graph is traced where it is not cached.

    Raises:
        WorkloadError: PyTorch is missing, and the graph is not cached.
    """
    return replace(Network.of(graph_of(name)), name=name)


def trace_variant() -> Network:
    """Return the sizes and counts of the guessed Inception-v3, under the name ``Inception-v3``: those of the zoo's
    graph with its blocks repeated or left out as :data:`VARIANT` says (two blocks A, five blocks C of 192 channels);
    shapes fit, as all are equal. Fully connected layers are those of the graph."""
    graph = graph_of("Inception-v3")
    whole = Network.of(graph)
    parts = {block: Network.of(_block_alone(graph, block)) for block in VARIANT}

    def total(field: str) -> float:
        """Return a count of the whole graph, with each repeated block added and each omitted block taken away."""
        change = sum((times - 1) * getattr(parts[block], field) for block, times in VARIANT.items())
        return float(getattr(whole, field) + change)

    counts: dict[str, Any] = {name: total(name) for name in ("synapses", "neurons", "products", "inputs")}
    counts |= {name: round(total(name)) for name in ("layers", "convolutions")}
    return replace(whole, name="Inception-v3", **counts)


def _block_alone(graph: ComputeGraph, block: str) -> ComputeGraph:
    """Return the graph of one block alone, the operators named ``block`` or whose names begin with it and a dot. Each
    operator outside that they read stays as a stub of kind ``copy`` without inputs and FLOPs, but with its output, so
    that the bytes read are counted."""
    inside = tuple(each for each in graph.operators if f"{each.name}.".startswith(f"{block}."))
    outside = {source for each in inside for source in each.inputs} - {each.name for each in inside}
    stubs = tuple(replace(graph.operator(name), kind="copy", inputs=(), forward_flops=0) for name in sorted(outside))
    return replace(graph, operators=stubs + inside)


@cache
def printed() -> Mapping[str, Network]:
    """Return the nine networks of Table 2 by name with layers, synapses and neurons (bytes, of neurons a sample) as
    printed, MB read as 2^20 bytes and neurons divided by the 32 samples that they are printed for; multiply-accumulates
    and the bytes that weighted layers read are counted from our graphs, for Inception-v3 from the variant whose sizes
    are printed."""
    networks = {}
    for name, row in TABLE_2.items():
        ours = stored()[INCEPTION_VARIANT if name == "Inception-v3" else name]
        networks[name] = replace(
            ours, layers=row.layers, synapses=row.synapse * MIB, neurons=row.neuron * MIB / NEURON_BATCH
        )
    return networks


if __name__ == "__main__":
    counts = {name: trace_counts(name) for name in TABLE_2} | {INCEPTION_VARIANT: trace_variant()}
    document = {name: asdict(row) for name, row in counts.items()}
    write_atomically(Path(__file__).parent / "counted.json", json.dumps(document, indent=1) + "\n")
