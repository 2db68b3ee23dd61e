"""The two models of Fig. 7(b) as graphs, stored with the package so that the study needs no PyTorch.

python -m lightloom.studies.optinc.workloads        # traces them anew
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lightloom.core.files import write_atomically
from lightloom.workloads.catalog import ZOO
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.load import TRACE_BATCH
from lightloom.workloads.resolve import resolve

TOKENS = 16
"""Length of the short sequences, for batches below one sequence of 256 tokens."""
_FACTORY = "lightloom.training.runs.images:resnet50_for_cifar"
_LLAMA = ZOO["optinc-llama"]
GRAPHS: Mapping[str, tuple[str, Mapping[str, Any], int | None]] = {
    "resnet50": (_FACTORY, {"keep_stem": True}, None),
    "resnet50-small-stem": (_FACTORY, {}, None),
    "llama": (_LLAMA.path, _LLAMA.arguments, 256),
    "llama-short": (_LLAMA.path, _LLAMA.arguments, TOKENS),
}
"""Factory, its arguments and tokens per sample, by name."""


@cache
def workload(name: str) -> ComputeGraph:
    """Return the stored graph of one sample."""
    text = (files(__package__) / "graphs" / f"{name}.json").read_text(encoding="utf-8")
    return ComputeGraph.from_json(json.loads(text))


def traced(name: str) -> ComputeGraph:
    """Trace the graph of one sample.

    Raises:
        WorkloadError: PyTorch is missing.
    """
    from lightloom.workloads.torch.build import trace_factory

    factory, arguments, tokens = GRAPHS[name]
    graph = trace_factory(resolve(factory), name=name, batch=TRACE_BATCH, sequence_length=tokens, arguments=arguments)
    return graph.with_batch(1)


if __name__ == "__main__":
    for each in GRAPHS:
        place = Path(__file__).parent / "graphs" / f"{each}.json"
        write_atomically(place, json.dumps(traced(each).to_json(), separators=(",", ":")))
