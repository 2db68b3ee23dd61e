"""Networks of ASTRA-sim as clusters: the analytical backend's YAML, and the JSON of versions before it.

ASTRA-sim writes GB/s and means GiB/s, 2**30 bytes a second; latencies are those of one link, in ns.
"""

import re
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

from lightloom.core.documents import load_json, numbered_rows, read_number, read_text
from lightloom.core.errors import ConfigError, UnitError
from lightloom.core.units import parse

Fields: TypeAlias = dict[str, Any]
"""Fields of a file, as it states them."""

ORIGIN = "ASTRA-sim's network"
"""How the source of such a fabric begins."""
MARKS = ({"npus_count", "topology"}, {"units-count", "topologies-per-dim"})
"""Fields that a network of ASTRA-sim has, and no cluster: those of its YAML, and of its JSON."""
_GIGABYTE = 2.0**30
_SHAPES = {"ring": "ring", "switch": "switch", "fullyconnected": "full-mesh"}
_YAML = {"shapes": "topology", "sizes": "npus_count", "bandwidths": "bandwidth", "latencies": "latency"}
_JSON = {
    "shapes": "topologies-per-dim",
    "sizes": "units-count",
    "bandwidths": "link-bandwidth",
    "latencies": "link-latency",
}


def read_network(path: Path) -> Fields:
    """Return the fields of a cluster file that describe the network in a file of ASTRA-sim (JSON): ``description``,
    ``ranks``, ``fabric``, of kind ``tiers`` with a tier for each dimension, and ``sources``, as :func:`cluster_fields`
    does for a file that is read already. There is no accelerator, of which a network says nothing.

    Raises:
        ConfigError: the file cannot be read, or a dimension is missing, unknown or out of range (names it).
    """
    return cluster_fields(load_json(path), path)


def cluster_fields(data: Fields, path: Path) -> Fields:
    """Return the fields of a cluster file (``description``, ``ranks``, ``fabric``, of kind ``tiers``, ``sources``) that
    describe a network of ASTRA-sim: a tier for each dimension, from the ranks outwards, with the bandwidth of a rank in
    bytes per second, the file's GB/s taken as GiB/s times :func:`_links_per_rank`, and latencies in seconds (the file's
    are ns). The ranks are the product of the sizes; fields that are not used are listed in the description.

    Args:
        data: fields of the network's file, in either of its two forms: that of the YAML (``topology``,
            ``npus_count``, ``bandwidth``, ``latency``) where it has ``npus_count``, otherwise that of the JSON
            (``topologies-per-dim``, ``units-count``, ``link-bandwidth``, ``link-latency``).
        path: the file, for messages and sources.

    Raises:
        ConfigError: the lists differ in length, a shape is unknown (not Ring, Switch or FullyConnected), or a value is
            missing or out of range.
    """
    names = _YAML if "npus_count" in data else _JSON
    columns = {what: _column(data, name, path) for what, name in names.items()}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        listed = ", ".join(f"{names[what]} {len(column)}" for what, column in columns.items())
        raise ConfigError(f"{path}: {listed} dimensions: expected as many of each")
    tiers: list[Fields] = []
    links = data.get("links-count") or [None] * lengths.pop()
    for number, (shape, size, bandwidth, latency) in enumerate(zip(*columns.values(), strict=True)):
        if (kind := _SHAPES.get(str(shape).lower().replace("_", ""))) is None:
            raise ConfigError(f"{path}: {names['shapes']} {shape!r}: expected Ring, Switch or FullyConnected")
        children = _positive_number(size, names["sizes"], path, whole=True)
        rate = _positive_number(bandwidth, names["bandwidths"], path)
        tier: Fields = {"name": f"dimension {number + 1}", "shape": kind, "size": children}
        tier["bandwidth"] = _GIGABYTE * rate * _links_per_rank(links, number, kind, int(children), path)
        tier["latency"] = 1e-9 * _positive_number(latency, names["latencies"], path, least=0.0)
        tiers.append(tier)
    left = sorted(data.keys() - {*names.values(), "links-count", "dimensions-count"})
    unused = f"; not used of the file: {', '.join(left)}" if left else ""
    return {
        "description": f"GB/s of the file are GiB/s, as ASTRA-sim takes them{unused}",
        "ranks": prod(int(tier["size"]) for tier in tiers),
        "fabric": {"kind": "tiers", "tiers": tiers, "sources": {"tiers": f"ASTRA-sim's {path.name}, GB/s as GiB/s"}},
        "sources": {"ranks": path.name, "fabric": f"{ORIGIN} {path.name}"},
    }


def _links_per_rank(links: Any, number: int, shape: str, size: int, path: Path) -> float:
    """Return the number of links that the file states for a rank in a dimension over those of the shape, as a factor on
    bandwidth: a ring has two, a full mesh one to each other rank, a switch one; 1 where the file states none.

    Args:
        links: the field ``links-count``, a list by dimension; anything else counts as not stated, as does a list that
            is too short.
        number: number of the dimension, from 0.
        shape: shape of the dimension, as tiers name it: ``ring``, ``full-mesh`` or ``switch``.
        size: ranks, or groups, that the dimension joins.
        path: the file, for messages.

    Raises:
        ConfigError: a count that is no whole number of at least 1, or a ring of single links.
    """
    count = links[number] if isinstance(links, list) and number < len(links) else None
    if count is None:
        return 1.0
    own = {"ring": 2, "full-mesh": max(size - 1, 1)}.get(shape, 1)
    if shape == "ring" and count == 1:
        raise ConfigError(f"{path}: links-count 1 of a Ring: links one way only, expected 2, one each way")
    return _positive_number(count, "links-count", path, whole=True) / own


def _column(data: Fields, name: str, path: Path) -> list[Any]:
    """Return the list that ``data`` holds under ``name``, a single text or number as a list of one; ConfigError, which
    names the file ``path``, where it is absent, empty or something else."""
    value = data.get(name)
    if isinstance(value, str | int | float):
        value = [value]
    if not isinstance(value, list) or not value:
        raise ConfigError(f"{path}: {name}: {value!r}: expected a list with an entry for each dimension")
    return value


def _positive_number(value: Any, name: str, path: Path, *, whole: bool = False, least: float | None = None) -> float:
    """Return ``value`` as a float, or as an int if ``whole``, where it is a finite number above 0, or at least
    ``least`` where that is given.

    Raises:
        ConfigError: the value is anything else; the message names the file and the field ``name``.
    """
    number = type(value) is int or (type(value) is float and not whole)
    if not number or not (value > 0 if least is None else value >= least) or value == float("inf"):
        expected = "a whole number of at least 1" if whole else "a number above 0" if least is None else "0 or more"
        raise ConfigError(f"{path}: {name}: {value!r}: expected {expected}")
    return int(value) if whole else float(value)


# Topologies of ns-3 as ASTRA-sim's backend takes them: text with the links of a network, as a cluster's fabric.
#
# 9 1 8                    nodes, switches among them, links
# 8                        numbers of the switches
# 0 8 400Gbps 0.0005ms 0   two nodes, bits a second each way, delay, share of packets that are lost

_COLUMNS = 5
_MOST_NODES = 1 << 18
"""Largest number of nodes that is read, ranks and switches together."""


def read_topology(path: Path) -> Fields:
    """Return the fields of a cluster file (``description``, ``ranks``, ``fabric``, ``sources``) that describe a
    topology of ns-3: a line with the numbers of nodes, switches and links; where there are switches, a line with their
    nodes; then a line for each link (:func:`_edge`). The ranks are the nodes that are no switches, renumbered from 0 in
    order, the fabric is of kind ``graph``, with ``switch N`` for switches by the file's number, and losses of packets
    are left out, as the description says. There is no accelerator.

    Raises:
        ConfigError: the file cannot be read, a line is malformed (names it), counts contradict the lines, or there are
            more than 262,144 nodes.
    """
    rows = numbered_rows(read_text(path)) or [(1, [])]
    nodes, count, links = (_whole_number(path, rows[0], place) for place in range(3))
    listed, rows = (rows[1:2], rows[2:]) if count else ([], rows[1:])
    switches = [_whole_number(path, row, place) for row in listed for place in range(len(row[1]))]
    if len(switches) != count or len(rows) != links:
        raise ConfigError(
            f"{path}: states {count} switches and {links} links, and has {len(switches)} and {len(rows)}: expected as "
            "many"
        )
    if nodes > _MOST_NODES:
        raise ConfigError(f"{path}: {nodes:,} nodes: expected at most {_MOST_NODES:,}")
    names: dict[int, int | str] = {number: f"switch {number}" for number in switches}
    if len(names) < count or max(names, default=-1) >= nodes:
        shown = " ".join(listed[0][1])[:40]
        raise ConfigError(f"{path}, line {listed[0][0]}: switches {shown}: expected {count} of {nodes} nodes, from 0")
    hosts = [number for number in range(nodes) if number not in names]
    names |= {number: rank for rank, number in enumerate(hosts)}
    edges = [_edge(path, number, words, names) for number, words in rows]
    lossy = sum(float(words[4]) > 0 for _, words in rows)
    left_out = f"; losses of packets on {lossy} link{'s' * (lossy > 1)} are left out" if lossy else ""
    return {
        "description": f"links of ns-3's topology{left_out}",
        "ranks": len(hosts),
        "fabric": {"kind": "graph", "edges": edges, "sources": {"edges": f"ns-3's {path.name}"}},
        "sources": {"ranks": path.name, "fabric": f"{ORIGIN} {path.name}"},
    }


def _edge(path: Path, line: int, words: Sequence[str], names: dict[int, int | str]) -> Fields:
    """Return ``source``, ``target``, ``bandwidth`` in bytes per second and ``latency`` in seconds of a link, as a
    mapping.

    Args:
        path: the file, for messages.
        line: number of the line in the file, from 1, for messages.
        words: the five words of the line: two nodes, rate and delay with their units (``100Gbps``, ``0.5us``), and the
            share of lost packets, which must be a number and is left out.
        names: rank, or name of the switch, by the number of the node in the file.

    Raises:
        ConfigError: the line is malformed, or names a node that is none of the file's.
    """
    if len(words) != _COLUMNS:
        raise ConfigError(f"{path}, line {line}: {len(words)} columns: expected two nodes, rate, delay and loss")
    ends = [_whole_number(path, (line, list(words)), place) for place in (0, 1)]
    for end in ends:
        if end not in names:
            raise ConfigError(f"{path}, line {line}: node {end}: expected one of {len(names)}, from 0")
    try:
        rate, delay, _ = parse(words[2], "bandwidth"), parse(words[3], "time"), read_number(words[4])
    except (UnitError, ValueError) as error:
        raise ConfigError(f"{path}, line {line}: {error}") from error
    return {"source": names[ends[0]], "target": names[ends[1]], "bandwidth": rate, "latency": delay}


def _whole_number(path: Path, row: tuple[int, list[str]], place: int) -> int:
    """Return the whole number, 0 or more, in column ``place``, from 0, of ``row``, a line's number and its words;
    ConfigError, which names the file ``path`` and the line, where there is none."""
    line, words = row
    if place >= len(words) or not re.fullmatch("[0-9]{1,18}", words[place]):
        raise ConfigError(f"{path}, line {line}: expected a whole number in column {place + 1}")
    return int(words[place])
