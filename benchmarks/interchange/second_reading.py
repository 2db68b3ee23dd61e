"""Traces read a second time, by code that shares nothing with ours: MLCommons' protobuf classes, json with pandas."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

Figures = dict[str, float]
_HOST = ["cpu_op", "user_annotation", "Operator"]
_DEVICE = ["kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", "mtia_ccp_events"]


def read_chakra(path: Path) -> Figures:
    """Figures of a Chakra trace by the classes of ``mlc-chakra``."""
    from chakra.schema.protobuf import et_def_pb2 as schema
    from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd

    file, header, nodes = openFileRd(str(path)), schema.GlobalMetadata(), []
    decodeMessage(file, header)
    while decodeMessage(file, node := schema.Node()):
        nodes.append(node)
    sizes = [attribute.int64_val for node in nodes for attribute in node.attr if attribute.name == "comm_size"]
    return {
        "nodes": len(nodes),
        "compute": sum(node.type == schema.COMP_NODE for node in nodes),
        "exchanges": sum(
            node.type in (schema.COMM_COLL_NODE, schema.COMM_SEND_NODE, schema.COMM_RECV_NODE)
            and any(attribute.name == "comm_size" for attribute in node.attr)
            for node in nodes
        ),
        "exchanged bytes": sum(sizes),
        "µs": sum(node.duration_micros for node in nodes),
    }


def read_profile(path: Path) -> Figures:
    """Figures of a profile by json and pandas; busy and exposed times by a sweep over begins and ends."""
    events = pd.DataFrame([event for event in _load(path)["traceEvents"] if event.get("ph") == "X"])
    events["kind"] = events["cat"].astype(str)
    device = events[events["kind"].isin(_DEVICE)]
    exchanging = device["name"].str.contains(r"^(?:nccl|rccl|mscclpp|onecc|hccl)", case=False, regex=True)
    return {
        "calls": int(events["kind"].isin(_HOST).sum()),
        "steps": int(events[events["kind"].isin(_HOST)]["name"].astype(str).str.startswith("ProfilerStep").sum()),
        "kernels": len(device),
        "device µs": float(device["dur"].sum()),
        "exchanges": int(exchanging.sum()) if len(device) else 0,
        "computing µs": _covered(device[~exchanging]) if len(device) else 0.0,
    }


def _covered(events: pd.DataFrame) -> float:
    """Length of the union of intervals: where at least one is open."""
    begins = (events["ts"] - events["ts"].min()).to_numpy(np.float64)
    ends = begins + events["dur"].to_numpy(np.float64)
    moments = np.concatenate([begins, ends])
    order = np.argsort(moments, kind="stable")
    open_intervals = np.cumsum(np.concatenate([np.ones(len(begins)), -np.ones(len(ends))])[order])[:-1]
    return float(np.diff(moments[order])[open_intervals > 0].sum())


def read_execution_trace(path: Path) -> Figures:
    """Figures of an execution trace by plain json: of all its steps."""
    nodes = _load(path)["nodes"]
    products = [node for node in nodes if node["name"] in ("aten::mm", "aten::addmm", "aten::bmm")]
    return {
        "nodes": len(nodes),
        "steps": sum(node["name"].startswith("ProfilerStep") for node in nodes),
        "GFLOP of matrix products": sum(map(_product, products)) / 1e9,
    }


def _product(node: dict[str, Any]) -> float:
    shapes = [shape for shape in node["inputs"]["shapes"] if isinstance(shape, list) and len(shape) >= 2]
    left, right = shapes[-2:]
    return 2.0 * float(np.prod(left)) * float(right[-1])


def _load(path: Path) -> Any:
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
