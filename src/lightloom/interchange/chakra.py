"""Schedules as Chakra execution traces, one file a rank: custom collectives that ASTRA-sim runs.

Row r becomes node 2r, a send on its source's trace, and node 2r + 1, a receive on its destination's. Nothing computes.

    data dependencies      a send waits for what its source has received of the chunk
    control dependencies   what arrives waits for sends that still need the earlier value

What data does not need is not said: where a step waits for another only because light is redirected, the trace does
not wait; and the sends of a lightpath do not wait for each other, since a send ends for a simulator when it arrives,
while here the next one leaves as soon as the bytes have. Ranks need no agreement but their messages. A multicast is one
message a destination.

Besides what simulators read (``comm_size`` in bytes, rounded up, ``comm_src``, ``comm_dst``, ``comm_tag``), every node
carries its row, and every file the header of the schedule, so that the schedule comes back whole.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import write_atomically
from lightloom.fabrics.base import Fabric
from lightloom.interchange.chakra_nodes import RECEIVE, SEND, Node, encode, read_trace
from lightloom.interchange.document import columns_from, header_of, schedule_from
from lightloom.interchange.files import verified
from lightloom.interchange.row_order import row_order

HEADER, ROW = "lightloom.schedule", "lightloom.row"
"""Names of the attributes that are ours: the header as JSON, and a row with its number first."""
_MOST_NODES = 1 << 31


def trace_path(prefix: Path, rank: int) -> Path:
    """Where the trace of a rank lies: simulators append ``.<rank>.et`` to the name that they are given."""
    return prefix.with_name(f"{prefix.name}.{rank}.et")


def write_traces(prefix: Path, schedule: Schedule, fabric: Fabric) -> list[Path]:
    """Write the traces of a verified schedule; a folded one with a row for every rank.

    Raises:
        UnsupportedError: a switch reduces in the network: it has no trace.
        ConfigError: the place cannot be written to.
    """
    schedule = schedule.unfolded(fabric.fibre_channels)
    header = {HEADER: json.dumps(header_of(schedule, fabric), separators=(",", ":"), allow_nan=False)}
    # Everything is encoded before anything is written.
    contents = [encode(nodes, header) for nodes in nodes_of(schedule)]
    paths = [trace_path(prefix, rank) for rank in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        write_atomically(path, content)
    return paths


def nodes_of(schedule: Schedule) -> list[list[Node]]:
    """The nodes of each rank, those before that others wait for.

    Raises:
        UnsupportedError: a switch reduces in the network, or there are too many rows to number.
    """
    if 2 * len(schedule) >= _MOST_NODES:
        raise UnsupportedError(f"{len(schedule)} rows: a trace tags at most {_MOST_NODES // 2} messages")
    order = row_order(schedule)
    columns = {name: column.tolist() for name, column in schedule.columns().items()}
    table = list(zip(*columns.values(), strict=True))
    size = math.ceil(schedule.chunk_nbytes)
    traces: list[list[Node]] = [[] for _ in range(schedule.collective.ranks)]
    for group in order.groups:
        for row in group:
            traces[columns["source"][row]].append(_node(SEND, row, table, size, data=_receives(order.reads[row])))
        for row in group:
            control = (*sorted(2 * each for each in order.after_reads[row]), *_receives(order.after_writes[row]))
            traces[columns["destination"][row]].append(_node(RECEIVE, row, table, size, control=control))
    return traces


def _receives(rows: list[int]) -> tuple[int, ...]:
    return tuple(sorted(2 * row + 1 for row in rows))


def _node(
    kind: int, row: int, table: list[Any], size: int, *, control: tuple[int, ...] = (), data: tuple[int, ...] = ()
) -> Node:
    entries = dict(zip(COLUMNS, table[row], strict=True))
    verb = "send" if kind == SEND else "receive"
    return Node(
        id=2 * row + (kind == RECEIVE),
        name=f"{verb} chunk {entries['chunk']}, {entries['source']} to {entries['destination']}",
        type=kind,
        control=control,
        data=data,
        attributes={
            "is_cpu_op": False,
            "comm_src": entries["source"],
            "comm_dst": entries["destination"],
            "comm_size": size,
            "comm_tag": row,
            ROW: (row, *map(int, table[row])),
        },
    )


def read_traces(prefix: Path, fabric: Fabric | None = None) -> tuple[Schedule, Fabric]:
    """The verified schedule in a set of traces, and its fabric: the given one, else that in the traces.

    The nodes must be those that the schedule is written as: a trace whose dependencies were changed is refused.

    Raises:
        ConfigError: malformed, incomplete, of several schedules, from elsewhere (no word which data moves), or wrong;
            names the file and the node.
    """
    first, header = read_trace(trace_path(prefix, 0))
    said = _said(header, trace_path(prefix, 0))
    ranks = _ranks(said, trace_path(prefix, 0))
    traces = [first]
    for rank in range(1, ranks):
        nodes, other = read_trace(path := trace_path(prefix, rank))
        if other.get(HEADER) != header[HEADER]:
            raise ConfigError(f"{path}: header: of another schedule than {trace_path(prefix, 0)}")
        traces.append(nodes)
    schedule, own = schedule_from(said, columns_from(_columns(traces, prefix), str(prefix)), str(prefix))
    on = fabric or own
    if on is None:
        raise ConfigError(f"{prefix}: names no fabric: give one, on which the schedule can be verified")
    verified(schedule, on, str(prefix))
    _compare(traces, nodes_of(schedule), prefix)
    return schedule, on


def _said(header: Any, path: Path) -> Any:
    text = header.get(HEADER)
    if not isinstance(text, str):
        raise ConfigError(f"{path}: header: no attribute {HEADER!r}: a trace from elsewhere, which says no chunks")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: header: attribute {HEADER!r} is not JSON: {error}") from error


def _ranks(said: Any, path: Path) -> int:
    ranks = said.get("collective", {}).get("ranks") if isinstance(said, dict) else None
    if type(ranks) is not int or ranks < 2:
        raise ConfigError(f"{path}: header: attribute {HEADER!r}: no whole number of ranks")
    return ranks


def _columns(traces: list[list[Node]], prefix: Path) -> dict[str, list[Any]]:
    """Columns from the sends, in the order of their row numbers."""
    rows: dict[int, tuple[int, ...]] = {}
    for rank, nodes in enumerate(traces):
        for node in nodes:
            entry = node.attributes.get(ROW)
            where = f"{trace_path(prefix, rank)}: node {node.id} ({node.name!r})"
            if not isinstance(entry, tuple) or len(entry) != 1 + len(COLUMNS) or entry[-1] not in (0, 1):
                raise ConfigError(f"{where}: attribute {ROW!r} is missing or no row")
            if node.type == SEND:
                if entry[0] in rows:
                    raise ConfigError(f"{where}: row {entry[0]} is sent twice")
                rows[entry[0]] = entry[1:]
    missing = next((row for row in range(len(rows)) if row not in rows), None)
    if missing is not None:
        raise ConfigError(f"{prefix}: nobody sends row {missing}")
    table = [rows[row] for row in range(len(rows))]
    found = {name: [entry[i] for entry in table] for i, name in enumerate(COLUMNS)}
    return found | {"reduces": [bool(value) for value in found["reduces"]]}


def _compare(traces: list[list[Node]], expected: list[list[Node]], prefix: Path) -> None:
    for rank, (nodes, wanted) in enumerate(zip(traces, expected, strict=True)):
        path = trace_path(prefix, rank)
        by_id = {node.id: node for node in nodes}
        for node in wanted:
            found = by_id.pop(node.id, None)
            if found is None:
                raise ConfigError(f"{path}: node {node.id} ({node.name!r}) is missing")
            for what in ("type", "control", "data", "attributes"):
                has, needs = _plain(getattr(found, what)), _plain(getattr(node, what))
                if has != needs:
                    raise ConfigError(
                        f"{path}: node {node.id} ({node.name!r}): {what} {has}: its schedule needs {needs}"
                    )
        for node in by_id.values():
            raise ConfigError(f"{path}: node {node.id} ({node.name!r}): no part of the schedule")


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, tuple) else dict(value) if not isinstance(value, int) else value
