"""Chakra traces that ``chakra_converter PyTorch`` wrote: the calls of PyTorch, the accelerator's work, the exchanges.

    compute, is_cpu_op       a call; ``op_schema``, ``seq_id`` and its tensors as in an execution trace
    compute, not is_cpu_op   work of the accelerator, launched by the call that made it or that it waits for
    collective, send, receive    an exchange: ``comm_type``, ``comm_size``, ``pg_name``

Converters of 2023 cut a call at each launch (``aten::conv2d(0)``, ``aten::conv2d(1)``) and kept no nesting: the pieces
are put together by ``rf_id``, and every call is a root.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom.core.errors import WorkloadError
from lightloom.interchange.chakra_nodes import COLLECTIVE, METADATA, RECEIVE, SEND, Node, Texts
from lightloom.interchange.traces.calls import Recording, recording_of
from lightloom.interchange.traces.exchanges import TracedExchange, kind_of_words
from lightloom.interchange.traces.flat_calls import passes_of
from lightloom.interchange.traces.lost_callers import callers_of

COLLECTIVES: Mapping[int, str] = {
    0: "all-reduce",
    1: "reduce",
    2: "all-gather",
    3: "gather",
    4: "scatter",
    5: "broadcast",
    6: "all-to-all",
    7: "reduce-scatter",
    8: "reduce-scatter",
    9: "barrier",
}
"""Kind of a collective by its ``comm_type``, as the schema numbers them."""
_KEPT = ("op_schema", "seq_id")
"""Attributes of calls that matter."""
_PIECE = re.compile(r"(.*)\(\d+\)")
_UNQUOTED = re.compile(r"(?<!')(<[^<>']*>|\bnan\b|\binf\b)(?!')")
"""What Python prints and does not read: objects, and numbers that are none."""


def recording_of_chakra(nodes: Sequence[Node], path: Path) -> Recording:
    """Return the calls of PyTorch that a Chakra trace holds, with their times.

    Raises:
        WorkloadError: what a node says of its tensors is malformed; names the node.
    """
    calls = [node for node in nodes if _is_call(node)]
    whole = _whole_calls(calls)
    present = {node.id: node for node in calls}
    nested = not any(_PIECE.fullmatch(node.name) for node in calls)
    entries = [_entry(first, pieces, path, nested=nested, first_of=whole) for first, pieces in _pieces(calls, whole)]
    if nested and any(node.control for node in calls):
        callers = callers_of(entries, {node.id for node in calls if not node.control})
        entries = [{**entry, "ctrl_deps": callers.get(entry["id"], entry["ctrl_deps"])} for entry in entries]
    for node in nodes:
        if node.type not in (COLLECTIVE, SEND, RECEIVE, METADATA) and not _is_call(node):
            launch = _launch(node, present, whole, nested=nested)
            if launch is not None:
                entries.append(
                    {
                        "id": node.id,
                        "name": node.name,
                        "ctrl_deps": launch,
                        "cat": "kernel",
                        "exclusive_dur": node.duration,
                    }
                )
    recording = recording_of(entries, path, complete=False)
    exchanges = tuple(exchange for node in nodes for exchange in exchanges_of(node, path))
    roots, outside = (recording.roots, ()) if nested else passes_of(recording.roots)
    return Recording(roots, exchanges, timed=recording.timed, on_device=recording.on_device, outside=outside)


def exchanges_of(node: Node, path: Path) -> Iterator[TracedExchange]:
    """Yield the exchange that a node is, if it is one.

    Raises:
        WorkloadError: its ``comm_type`` or ``comm_size`` is none.
    """
    if node.type not in (COLLECTIVE, SEND, RECEIVE):
        return
    kind = {SEND: "send", RECEIVE: "receive"}.get(node.type)
    if kind is None:
        number = node.attributes.get("comm_type")
        if number is not None and number not in COLLECTIVES:
            raise WorkloadError(
                f"{path}: node {node.id} ({node.name!r}): comm_type is {number!r}: expected "
                + ", ".join(f"{key} {name}" for key, name in COLLECTIVES.items())
            )
        # A call on the host that waits for a collective has neither: its kernel is a node of its own.
        if number is None and "comm_size" not in node.attributes:
            return
        kind = COLLECTIVES[number] if isinstance(number, int) else kind_of_words(node.name) or "unknown"
    size = node.attributes.get("comm_size")
    if size is not None and (type(size) is not int or not 0 <= size < 1 << 53):
        raise WorkloadError(f"{path}: node {node.id} ({node.name!r}): comm_size is {size!r}: expected a count of bytes")
    group = node.attributes.get("pg_name", "")
    yield TracedExchange(kind, size if isinstance(size, int) else None, str(group), node.duration * 1e-6)


def _is_call(node: Node) -> bool:
    return node.type != METADATA and bool(node.attributes.get("is_cpu_op", False)) and "op_schema" in node.attributes


def _whole_calls(calls: Sequence[Node]) -> dict[int, int]:
    """Return the id of the first piece of each call, by the ids of its pieces."""
    first: dict[tuple[str, object], int] = {}
    whole: dict[int, int] = {}
    for node in sorted(calls, key=lambda node: node.id):
        piece = _PIECE.fullmatch(node.name)
        key = (piece[1], node.attributes.get("rf_id")) if piece else ("", node.id)
        whole[node.id] = first.setdefault(key, node.id)
    return whole


def _pieces(calls: Sequence[Node], whole: Mapping[int, int]) -> Iterator[tuple[Node, list[Node]]]:
    """Yield the first piece of each call, and all of its pieces."""
    groups: dict[int, list[Node]] = {}
    for node in sorted(calls, key=lambda node: node.id):
        groups.setdefault(whole[node.id], []).append(node)
    for pieces in groups.values():
        yield pieces[0], pieces


def _entry(
    node: Node, pieces: Sequence[Node], path: Path, *, nested: bool, first_of: Mapping[int, int]
) -> dict[str, Any]:
    """Return a call as an execution trace of PyTorch describes it."""
    where = f"{path}: node {node.id} ({node.name!r})"
    piece = _PIECE.fullmatch(node.name)
    made_by = node.control[0] if nested and node.control else -1
    return {
        "id": node.id,
        "name": piece[1] if piece else node.name,
        "ctrl_deps": first_of.get(made_by, -1),
        "inputs": _side(node.inputs, "inputs", where),
        "outputs": _side(node.outputs, "outputs", where),
        "attrs": [
            {"name": name, "value": node.attributes[name]}
            for name in ("op_schema", "seq_id")
            if name in node.attributes
        ],
        "exclusive_dur": sum(piece.duration for piece in pieces),
    }


def _side(texts: Texts, side: str, where: str) -> dict[str, object]:
    return {name: _literal(text, f"{where}: {side}: {name}") for name, text in texts._asdict().items()}


def _literal(text: str, where: str) -> object:
    """Return the value of a text that Python wrote; no text is an empty list."""
    if not text:
        return []
    for attempt in (text, _UNQUOTED.sub(r"'\g<0>'", text)):
        try:
            return ast.literal_eval(attempt)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    raise WorkloadError(f"{where}: {text[:60]!r}: expected a list as Python writes it")


def _launch(node: Node, calls: Mapping[int, Node], whole: Mapping[int, int], *, nested: bool) -> int | None:
    """Return the call that launched the accelerator's work; None where the trace does not tell."""
    made_by = node.control[0] if node.control else -1
    if nested and made_by in calls:
        return whole[made_by]
    before = [number for number in node.data if number in calls and number < node.id]
    return whole[max(before)] if before else None
