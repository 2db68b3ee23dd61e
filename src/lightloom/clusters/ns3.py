"""Topologies of ns-3 as ASTRA-sim's backend takes them: text with the links of a network, as a cluster's fabric.

9 1 8                    nodes, switches among them, links
8                        numbers of the switches
0 8 400Gbps 0.0005ms 0   two nodes, bits a second each way, delay, share of packets that are lost
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from lightloom.core.documents import read_number, read_text
from lightloom.core.errors import ConfigError, UnitError
from lightloom.core.units import parse

Fields: TypeAlias = dict[str, Any]
"""Fields of a cluster file."""

_COLUMNS = 5
_MOST_NODES = 1 << 18
"""As many as the largest fabrics have, ranks and switches."""


def read_topology(path: Path) -> Fields:
    """Return the fields of a cluster file that say the same, but for the accelerator, of which a network says nothing.

    Raises:
        ConfigError: unreadable, or a malformed line (names it).
    """
    lines = read_text(path).splitlines()
    rows = [(number, line.split()) for number, line in enumerate(lines, 1) if line.strip()]
    nodes, count, links = (_whole(path, rows[0], place) for place in range(3))
    switches = [_whole(path, rows[1], place) for place in range(len(rows[1][1]))] if count else []
    rows = rows[2:] if count else rows[1:]
    if len(switches) != count or len(rows) != links:
        raise ConfigError(
            f"{path}: states {count} switches and {links} links, and has {len(switches)} and {len(rows)}: expected as "
            "many"
        )
    if nodes > _MOST_NODES:
        raise ConfigError(f"{path}: {nodes:,} nodes: expected at most {_MOST_NODES:,}")
    names: dict[int, int | str] = {number: f"switch {number}" for number in switches}
    hosts = [number for number in range(nodes) if number not in names]
    names |= {number: rank for rank, number in enumerate(hosts)}
    edges = [_edge(path, number, words, names) for number, words in rows]
    lossy = sum(float(words[4]) > 0 for _, words in rows)
    left_out = f"; losses of packets on {lossy} links are left out" if lossy else ""
    return {
        "description": f"links of ns-3's topology{left_out}",
        "ranks": len(hosts),
        "fabric": {
            "kind": "graph",
            "edges": edges,
            "sources": {"edges": f"ns-3's {path.name}"},
        },
        "sources": {"ranks": path.name, "fabric": f"ASTRA-sim's network {path.name}"},
    }


def _edge(path: Path, line: int, words: Sequence[str], names: dict[int, int | str]) -> Fields:
    if len(words) != _COLUMNS:
        raise ConfigError(f"{path}, line {line}: {len(words)} columns: expected two nodes, rate, delay and loss")
    ends = [_whole(path, (line, list(words)), place) for place in (0, 1)]
    for end in ends:
        if end not in names:
            raise ConfigError(f"{path}, line {line}: node {end}: expected one of {len(names)}, from 0")
    try:
        rate, delay, _ = parse(words[2], "bandwidth"), parse(words[3], "time"), read_number(words[4])
    except (UnitError, ValueError) as error:
        raise ConfigError(f"{path}, line {line}: {error}") from error
    return {"source": names[ends[0]], "target": names[ends[1]], "bandwidth": rate, "latency": delay}


def _whole(path: Path, row: tuple[int, list[str]], place: int) -> int:
    line, words = row
    if place >= len(words) or not re.fullmatch("[0-9]{1,18}", words[place]):
        raise ConfigError(f"{path}, line {line}: expected a whole number in column {place + 1}")
    return int(words[place])
