"""Schedules as Chakra execution traces, one file per rank: custom collectives that ASTRA-sim runs.

Row r becomes node 2r, a send in the trace of its source, and node 2r + 1, a receive in the trace of its destination.
The traces contain no compute nodes.

    data dependencies      a send waits for what its source has received of the chunk
    control dependencies   what arrives waits for sends that still need the earlier value

Only dependencies of data are written. Where a step waits for another only because light is redirected, the trace does
not wait. The sends of a lightpath do not wait for each other: a simulator ends a send when it arrives, while in a
schedule the next send starts as soon as the bytes have left. A multicast is one message per destination.

Besides what simulators read (``comm_size`` in bytes, rounded up, ``comm_src``, ``comm_dst``, ``comm_tag``), every node
carries its row, and every file the header of the schedule, so that the schedule can be read back unchanged.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lightloom.collectives.files.chakra_nodes import (
    COMPUTE,
    NO_TEXTS,
    RECEIVE,
    SEND,
    Node,
    Scalar,
    Texts,
    Value,
    check_nodes,
    encode,
    read_trace,
)
from lightloom.collectives.files.document import columns_from, header_of, schedule_from, verified
from lightloom.collectives.files.row_order import row_order
from lightloom.collectives.schedule.columns import COLUMNS, Schedule
from lightloom.core.documents import MOST_TRACE_BYTES, parse_json, read_text
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import write_atomically
from lightloom.machines.fabrics.fabric import Fabric

HEADER, ROW = "lightloom.schedule", "lightloom.row"
"""Names of the attributes that lightloom adds: the header as JSON, and a row with its number first."""
_MOST_NODES = 1 << 31


def trace_path(prefix: Path, rank: int) -> Path:
    """Return the path of a rank's trace, ``prefix`` with ``.<rank>.et`` appended to its name, as simulators name it."""
    return prefix.with_name(f"{prefix.name}.{rank}.et")


def write_traces(
    prefix: Path, schedule: Schedule, fabric: Fabric, advance: Callable[[int], None] = lambda _: None
) -> list[Path]:
    """Write the traces of a verified schedule, one file for each rank, and return their paths, by rank; a folded
    schedule is unfolded first. Files of the same name are replaced, once all traces are encoded.

    Args:
        prefix: path of the files without ``.<rank>.et``.
        advance: called with numbers of rows that are done, once when their nodes are made and once when their sends are
            encoded.

    Raises:
        UnsupportedError: a switch reduces in the network, which has no trace, or the rows do not fit in memory or
            cannot be numbered.
        ConfigError: a file cannot be written.
    """
    schedule = schedule.unfolded(fabric.fibre_channels)
    header = {HEADER: json.dumps(header_of(schedule, fabric), separators=(",", ":"), allow_nan=False)}
    # Everything is encoded before anything is written.
    contents = []
    for nodes in nodes_of(schedule, advance):
        contents.append(encode(nodes, header))
        advance(sum(node.type == SEND for node in nodes))
    return [write_atomically(trace_path(prefix, rank), content) for rank, content in enumerate(contents)]


def nodes_of(schedule: Schedule, advance: Callable[[int], None] = lambda _: None) -> list[list[Node]]:
    """Return the nodes of each rank's trace, [rank], each after the nodes of that trace that it waits for.

    Row r is node 2 r, a send in the trace of its source, and node 2 r + 1, a receive in that of its destination. A send
    has data dependencies on receives, a receive control dependencies on sends and receives, all at its own rank. A
    node's ``comm_size`` is the bytes of its row, rounded up, and its ``comm_tag`` the row number.

    Args:
        schedule: verified and unfolded.
        advance: called with the number of rows of each group of rows that is done.

    Raises:
        UnsupportedError: a switch reduces in the network, or there are too many rows to number.
    """
    if 2 * len(schedule) >= _MOST_NODES:
        raise UnsupportedError(f"{len(schedule)} rows: a trace tags at most {_MOST_NODES // 2} messages")
    order = row_order(schedule)
    columns = {name: column.tolist() for name, column in schedule.columns().items()}
    table = list(zip(*columns.values(), strict=True))
    sizes = np.ceil(np.broadcast_to(schedule.row_nbytes, len(schedule))).astype(np.int64).tolist()

    def message(kind: int, row: int, *, control: Sequence[int] = (), data: Sequence[int] = ()) -> Node:
        """Return the send or the receive of a row."""
        source, destination, chunk = (columns[name][row] for name in ("source", "destination", "chunk"))
        attributes = {"is_cpu_op": False, "comm_src": source, "comm_dst": destination, "comm_size": sizes[row]}
        return Node(
            id=2 * row + (kind == RECEIVE),
            name=f"{'send' if kind == SEND else 'receive'} chunk {chunk}, {source} to {destination}",
            type=kind,
            control=tuple(control),
            data=tuple(data),
            attributes={**attributes, "comm_tag": row, ROW: (row, *map(int, table[row]))},
        )

    traces: list[list[Node]] = [[] for _ in range(schedule.collective.ranks)]
    for group in order.groups:
        for row in group:
            data = sorted(2 * earlier + 1 for earlier in order.reads[row])
            traces[columns["source"][row]].append(message(SEND, row, data=data))
        for row in group:
            control = sorted(2 * reader for reader in order.after_reads[row])
            control += sorted(2 * writer + 1 for writer in order.after_writes[row])
            traces[columns["destination"][row]].append(message(RECEIVE, row, control=control))
        advance(len(group))
    return traces


def read_traces(prefix: Path, fabric: Fabric | None = None) -> tuple[Schedule, Fabric]:
    """Return the verified schedule in a set of traces, and its fabric: the given one, else the one in the traces.

    The nodes must be those that the schedule is written as: a trace whose dependencies were changed is refused.

    Args:
        prefix: path of the traces without ``.<rank>.et``.

    Raises:
        ConfigError: malformed, incomplete, of several schedules, written by another tool (which data moves is unknown),
            without a fabric, or wrong; names the file and the node.
    """
    path = trace_path(prefix, 0)
    first, header = read_trace(path)
    text, place = header.get(HEADER), f"{path}: header: attribute {HEADER!r}"
    if not isinstance(text, str):
        raise ConfigError(
            f"{path}: header: no attribute {HEADER!r}: the trace is of another tool and does not name chunks"
        )
    document = parse_json(text, place)
    ranks = document.get("collective", {}).get("ranks") if isinstance(document, dict) else None
    if type(ranks) is not int or ranks < 2:
        raise ConfigError(f"{place}: no whole number of ranks")
    traces = [first]
    for rank in range(1, ranks):
        nodes, other = read_trace(path := trace_path(prefix, rank))
        if other.get(HEADER) != header[HEADER]:
            raise ConfigError(f"{path}: header: of another schedule than {trace_path(prefix, 0)}")
        traces.append(nodes)
    schedule, own = schedule_from(document, columns_from(_send_columns(traces, prefix), str(prefix)), str(prefix))
    fabric = verified(schedule, fabric or own, str(prefix))
    _require_equal_nodes(traces, nodes_of(schedule), prefix)
    return schedule, fabric


def _send_columns(traces: list[list[Node]], prefix: Path) -> dict[str, list[int]]:
    """Return the columns of the schedule by name, as the sends of all traces state them, in the order of their row
    numbers; ``reduces`` as True or False.

    ``prefix`` is the path of the traces, for messages.

    Raises:
        ConfigError: a node carries no row, a row is sent twice, or none sends it.
    """
    rows: dict[int, tuple[int, ...]] = {}
    for rank, nodes in enumerate(traces):
        for node in nodes:
            value = node.attributes.get(ROW)
            entry = tuple(number for number in value if isinstance(number, int)) if isinstance(value, tuple) else ()
            where = node.named_in(trace_path(prefix, rank))
            if len(entry) != 1 + len(COLUMNS) or entry[-1] not in (0, 1):
                raise ConfigError(f"{where}: attribute {ROW!r} is missing or no row")
            if node.type == SEND:
                if entry[0] in rows:
                    raise ConfigError(f"{where}: row {entry[0]} is sent twice")
                rows[entry[0]] = entry[1:]
    missing = next((row for row in range(len(rows)) if row not in rows), None)
    if missing is not None:
        raise ConfigError(f"{prefix}: no node sends row {missing}")
    columns = {name: [rows[row][i] for row in range(len(rows))] for i, name in enumerate(COLUMNS)}
    return columns | {"reduces": [bool(value) for value in columns["reduces"]]}


def _require_equal_nodes(traces: list[list[Node]], expected: list[list[Node]], prefix: Path) -> None:
    """Raise ConfigError where the nodes of a trace differ from those that its schedule is written as: a node is missing
    or added, or its type, dependencies or attributes are others. Names and the order of dependencies do not count.

    Args:
        traces: nodes of each rank's trace.
        expected: nodes as the schedule is written, of each rank.
        prefix: path of the traces, for messages.
    """
    for rank, (nodes, schedule_nodes) in enumerate(zip(traces, expected, strict=True)):
        path = trace_path(prefix, rank)
        by_id = {node.id: node for node in nodes}
        for node in schedule_nodes:
            actual = by_id.pop(node.id, None)
            if actual is None:
                raise ConfigError(f"{node.named_in(path)} is missing")
            for what in ("type", "control", "data", "attributes"):
                has, needs = (_comparable(getattr(each, what)) for each in (actual, node))
                if has != needs:
                    raise ConfigError(f"{node.named_in(path)}: {what} {has}: its schedule needs {needs}")
        for node in by_id.values():
            raise ConfigError(f"{node.named_in(path)}: not part of the schedule")


def _comparable(value: object) -> object:
    """Return a field of a node in a form in which equal fields are equal.

    A tuple comes sorted, so that the order of its entries does not count.
    """
    return sorted(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


# Chakra traces as JSON: what the feeder of MLCommons reads, and what its ``chakra_jsonizer`` writes.
#
# feeder      one object, {"workload_graph": [{"Id": 1, "Name": ..., "NodeType": 4, "data_deps": [], "runtime": 9}]}
# jsonizer    the header and then every node, each an object of its own, with the names of protobuf's JSON mapping:
# {"id": "1", "type": "COMP_NODE", "dataDeps": ["0"], "durationMicros": "9",
# "attr": [{"name": "num_ops", "int64Val": "5"}]}
#
# The feeder takes neither ``ctrlDeps``, which name calls that such files have left out, nor shapes.

_NAMES = ("METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")
_TYPES = {f"{name}_NODE": number for number, name in enumerate(_NAMES, 1)}
_OWN_KEYS = {"Id", "Name", "NodeType", "data_deps", "ctrlDeps", "runtime"}
_FLOATING = ("doubleVal", "floatVal")
_WHOLE = tuple(f"{kind}{bits}Val" for kind in ("int", "uint", "sint", "fixed", "sfixed") for bits in (32, 64))


def read_json_trace(path: Path) -> list[Node]:
    """Return the nodes of a trace in JSON, gzip or not: one object with the list ``workload_graph``, as MLCommons'
    feeder reads, or objects one after the other, as ``chakra_jsonizer`` writes.

    Of the former, where there are nodes of both kinds, nodes of the accelerator are named after the calls that launch
    them, and compute nodes of calls have duration 0. Of the latter, objects without ``type``, such as the header, are
    skipped.

    Raises:
        ConfigError: unreadable, not JSON, without a node, or nodes that
            :func:`~lightloom.collectives.files.chakra_nodes.check_nodes` refuses.
    """
    documents = list(_json_objects(path))
    if documents and "workload_graph" in documents[0]:
        entries = documents[0]["workload_graph"]
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise ConfigError(f"{path}: workload_graph: expected a list of nodes")
        nodes = _name_launched([_feeder_node(entry, place, path) for place, entry in enumerate(entries)])
    else:
        nodes = [_jsonizer_node(entry, path) for entry in documents if "type" in entry]
    if not nodes:
        raise ConfigError(f"{path}: holds no node: expected a Chakra trace")
    check_nodes(nodes, path)
    return nodes


def _json_objects(path: Path) -> Iterator[dict[str, object]]:
    """Yield the JSON objects that a file, gzip or not, holds one after the other; none where it is empty.

    Raises:
        ConfigError: unreadable, too large, not UTF-8 or not JSON, or a value that is no object.
    """
    text = read_text(path, MOST_TRACE_BYTES)
    decoder, place = json.JSONDecoder(), len(text) - len(text.lstrip())
    while place < len(text):
        try:
            document, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: not JSON: {error}") from error
        if not isinstance(document, dict):
            raise ConfigError(f"{path}: expected JSON objects, found {type(document).__name__}")
        yield document
        while place < len(text) and text[place].isspace():
            place += 1


def _feeder_node(entry: object, place: int, path: Path) -> Node:
    """Return a node of the feeder's form (``Id``, ``Name``, ``NodeType`` as a number, ``data_deps``, and ``runtime`` in
    microseconds); ``place`` is its place in the file, for messages.

    Scalar keys that the form does not define become attributes; a name, dependencies or duration that are missing are
    empty or 0, and ``ctrlDeps`` is ignored.

    Raises:
        ConfigError: the entry is no object, an id, type or duration is not a whole number, or the dependencies are no
            list.
    """
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{path}: node {place} (counted from 0): expected an object, found {type(entry).__name__}")
    where = f"{path}: node {place} (counted from 0)"
    attributes = {str(key): value for key, value in entry.items() if key not in _OWN_KEYS and isinstance(value, Scalar)}
    return Node(
        id=_parse_count(entry.get("Id"), "Id", where),
        name=str(entry.get("Name", "")),
        type=_parse_count(entry.get("NodeType"), "NodeType", where),
        data=_parse_ids(entry.get("data_deps", []), "data_deps", where),
        duration=_parse_count(entry.get("runtime", 0), "runtime", where),
        attributes=attributes,
    )


def _name_launched(nodes: list[Node]) -> list[Node]:
    """Return the nodes of a trace of calls (``is_cpu_op``) and of what the accelerator does, the latter named after the
    calls that launch them.

    The first call that such a node waits for has launched it; the call's name says which pass it belongs to. All nodes
    keep their order; compute nodes of calls get duration 0, others keep theirs, and nodes of the accelerator that wait
    for no named call keep their names. With only one kind of node, the nodes come back unchanged.
    """
    by_id = {node.id: node for node in nodes}
    if len({bool(node.attributes.get("is_cpu_op")) for node in nodes}) < 2:
        return nodes
    named = []
    for node in nodes:
        if node.attributes.get("is_cpu_op"):
            named.append(replace(node, duration=0) if node.type == COMPUTE else node)
            continue
        calls = (by_id[number] for number in node.data if number in by_id)
        caller = next((call.name for call in calls if call.attributes.get("is_cpu_op")), "")
        named.append(replace(node, name=caller) if caller else node)
    return named


def _jsonizer_node(entry: Mapping[str, object], path: Path) -> Node:
    """Return a node of the jsonizer's form (type by its name, times in microseconds); fields that are missing, save the
    type, are empty or 0.

    Raises:
        ConfigError: the type is unknown, an id, time or duration is not a whole number, dependencies are no list, or an
            attribute has no name.
    """
    where = f"{path}: node {entry.get('id', '0')}"
    kind = entry.get("type")
    if kind not in _TYPES:
        raise ConfigError(f"{where}: type {kind!r}: expected one of {', '.join(_TYPES)}")
    return Node(
        id=_parse_count(entry.get("id", 0), "id", where),
        name=str(entry.get("name", "")),
        type=_TYPES[str(kind)],
        control=_parse_ids(entry.get("ctrlDeps", []), "ctrlDeps", where),
        data=_parse_ids(entry.get("dataDeps", []), "dataDeps", where),
        start=_parse_count(entry.get("startTimeMicros", 0), "startTimeMicros", where),
        duration=_parse_count(entry.get("durationMicros", 0), "durationMicros", where),
        inputs=_texts(entry.get("inputs")),
        outputs=_texts(entry.get("outputs")),
        attributes=dict(_attributes(entry.get("attr", []), where)),
    )


def _texts(entry: object) -> Texts:
    """Return values, shapes and types of inputs or outputs; empty texts where they are missing or ``entry`` is no
    object."""
    if not isinstance(entry, Mapping):
        return NO_TEXTS
    return Texts(*(str(entry.get(name, "")) for name in ("values", "shapes", "types")))


def _attributes(entries: object, where: str) -> Iterator[tuple[str, Value]]:
    """Yield name and value of the attributes of a node in the jsonizer's form, such as {"name": "num_ops", "int64Val":
    "5"}.

    Documentation and values that are no scalars, such as lists, are left out; anything but a list of attributes yields
    none. ``where`` names the node in messages.

    Raises:
        ConfigError: an attribute has no name, or a value of a kind of number is none.
    """
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, Mapping) or "name" not in entry:
            raise ConfigError(f"{where}: attribute {entry!r}: expected a name and a value")
        for key, value in entry.items():
            if key in _WHOLE:
                yield str(entry["name"]), _parse_count(value, str(entry["name"]), where, least=-(1 << 63))
            elif key in _FLOATING:
                try:
                    yield str(entry["name"]), float(value)
                except (TypeError, ValueError):
                    raise ConfigError(f"{where}: {entry['name']} is {value!r}: expected a number") from None
            elif key not in ("name", "docString") and isinstance(value, Scalar):
                yield str(entry["name"]), value


def _parse_ids(values: object, name: str, where: str) -> tuple[int, ...]:
    """Return a list of ids as a tuple; raise ConfigError where it is no list, or one is no whole number from 0 on.

    ``name`` is that of the field and ``where`` the node, for messages.
    """
    if not isinstance(values, list):
        raise ConfigError(f"{where}: {name}: expected a list of ids")
    return tuple(_parse_count(value, name, where) for value in values)


def _parse_count(value: object, name: str, where: str, least: int = 0) -> int:
    """Return a whole number from a JSON value: a number, or a text of one, as protobuf's JSON mapping writes those of
    64 bits.

    ``name`` and ``where`` are for the message.

    Raises:
        ConfigError: the value is anything else (true and false too), or not from ``least`` to below 2^64.
    """
    try:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or not least <= number < 1 << 64:
        raise ConfigError(f"{where}: {name} is {value!r}: expected a whole number of at least {least}")
    return number
