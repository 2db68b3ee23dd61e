"""Chakra traces as JSON: what the feeder of MLCommons reads, and what its ``chakra_jsonizer`` writes.

    feeder      one object, {"workload_graph": [{"Id": 1, "Name": ..., "NodeType": 4, "data_deps": [], "runtime": 9}]}
    jsonizer    the header and then every node, each an object of its own, with the names of protobuf's JSON mapping:
                {"id": "1", "type": "COMP_NODE", "dataDeps": ["0"], "durationMicros": "9",
                "attr": [{"name": "num_ops", "int64Val": "5"}]}

The feeder takes neither ``ctrlDeps``, which name calls that such files have left out, nor shapes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lightloom.core.documents import MOST_TRACE_BYTES, read_bytes
from lightloom.core.errors import ConfigError
from lightloom.interchange.chakra_attributes import Scalar, Value
from lightloom.interchange.chakra_nodes import COMPUTE, NO_TEXTS, Node, Texts, check_nodes

_TYPES = {
    "METADATA_NODE": 1,
    "MEM_LOAD_NODE": 2,
    "MEM_STORE_NODE": 3,
    "COMP_NODE": 4,
    "COMM_SEND_NODE": 5,
    "COMM_RECV_NODE": 6,
    "COMM_COLL_NODE": 7,
}
_OWN_KEYS = {"Id", "Name", "NodeType", "data_deps", "ctrlDeps", "runtime"}
_FLOATING = ("doubleVal", "floatVal")
_WHOLE = ("int32Val", "int64Val", "uint32Val", "uint64Val", "sint32Val", "sint64Val")
_FIXED = ("fixed32Val", "fixed64Val", "sfixed32Val", "sfixed64Val")


def read_json_trace(path: Path) -> list[Node]:
    """Return the nodes of a trace in JSON, gzip or not.

    Raises:
        ConfigError: unreadable, not JSON, or nodes that :func:`lightloom.interchange.chakra_nodes.read_trace` refuses.
    """
    documents = list(_documents(path))
    if documents and "workload_graph" in documents[0]:
        entries = documents[0]["workload_graph"]
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise ConfigError(f"{path}: workload_graph: expected a list of nodes")
        nodes = _launched([_feeder_node(entry, place, path) for place, entry in enumerate(entries)])
    else:
        nodes = [_jsonizer_node(entry, path) for entry in documents if "type" in entry]
    if not nodes:
        raise ConfigError(f"{path}: holds no node: expected a Chakra trace")
    check_nodes(nodes, path)
    return nodes


def _documents(path: Path) -> Iterator[dict[str, object]]:
    """Yield the objects that a file holds one after the other."""
    try:
        text = read_bytes(path, MOST_TRACE_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text") from error
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
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{path}: node {place} (counted from 0): expected an object, found {type(entry).__name__}")
    where = f"{path}: node {place} (counted from 0)"
    attributes = {str(key): value for key, value in entry.items() if key not in _OWN_KEYS and _is_scalar(value)}
    return Node(
        id=_whole(entry.get("Id"), "Id", where),
        name=str(entry.get("Name", "")),
        type=_whole(entry.get("NodeType"), "NodeType", where),
        data=_wholes(entry.get("data_deps", []), "data_deps", where),
        duration=_whole(entry.get("runtime", 0), "runtime", where),
        attributes=attributes,
    )


def _launched(nodes: list[Node]) -> list[Node]:
    """Name the accelerator's nodes after the calls that launch them, and take their durations alone, if there are both.

    The first call that such a node waits for has launched it; the call's name says which pass it belongs to. Calls that
    only launch keep their place in the order and no duration.
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
    where = f"{path}: node {entry.get('id', '0')}"
    kind = entry.get("type")
    if kind not in _TYPES:
        raise ConfigError(f"{where}: type {kind!r}: expected one of {', '.join(_TYPES)}")
    return Node(
        id=_whole(entry.get("id", 0), "id", where),
        name=str(entry.get("name", "")),
        type=_TYPES[str(kind)],
        control=_wholes(entry.get("ctrlDeps", []), "ctrlDeps", where),
        data=_wholes(entry.get("dataDeps", []), "dataDeps", where),
        start=_whole(entry.get("startTimeMicros", 0), "startTimeMicros", where),
        duration=_whole(entry.get("durationMicros", 0), "durationMicros", where),
        inputs=_texts(entry.get("inputs")),
        outputs=_texts(entry.get("outputs")),
        attributes=dict(_attributes(entry.get("attr", []), where)),
    )


def _texts(entry: object) -> Texts:
    if not isinstance(entry, Mapping):
        return NO_TEXTS
    return Texts(*(str(entry.get(name, "")) for name in ("values", "shapes", "types")))


def _attributes(entries: object, where: str) -> Iterator[tuple[str, Value]]:
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, Mapping) or "name" not in entry:
            raise ConfigError(f"{where}: attribute {entry!r}: expected a name and a value")
        for key, value in entry.items():
            if key in (*_WHOLE, *_FIXED):
                yield str(entry["name"]), _whole(value, str(entry["name"]), where, least=-(1 << 63))
            elif key in _FLOATING:
                yield str(entry["name"]), float(value)
            elif key not in ("name", "docString") and _is_scalar(value):
                yield str(entry["name"]), value


def _is_scalar(value: object) -> bool:
    return isinstance(value, Scalar)


def _wholes(values: object, name: str, where: str) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise ConfigError(f"{where}: {name}: expected a list of ids")
    return tuple(_whole(value, name, where) for value in values)


def _whole(value: object, name: str, where: str, least: int = 0) -> int:
    """Return a count, which protobuf's JSON mapping writes as text where it has 64 bits."""
    try:
        number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or not least <= number < 1 << 64:
        raise ConfigError(f"{where}: {name} is {value!r}: expected a whole number of at least {least}")
    return number
