"""Ways to carry a collective over two tiers, in closed form: latency terms and the seconds of its bytes on each tier.

Domains of g ranks with fast links, m of them joined by a network; n = g · m ranks and S bytes, as nccl-tests counts.

    way              steps inside a domain   steps across     bytes of a rank inside   bytes of a rank across
    ring             p(n - 1) - across       p(m - 1)         pS(n - 1)/n              pS(n - 1)/n / g
    tree             2(g - 1)                2 log2 m         2S                       2S/g, with two domains S/g
    adding switches  1                       2 log2 m         S(1 + 1/g)               as trees
    rails            p(g - 1)                p(m - 1)         pS(g - 1)/g              pS(m - 1)/m / g
    all pairs        1, and one post a peer  1                S(n - 1)/n               S(n - g)/n

with p = 2 for an all-reduce and 1 for an all-gather, a reduce-scatter; a broadcast and a reduction pass S along the
ring. A ring enters and leaves each domain by all its ports.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2
from typing import NamedTuple

from lightloom.transports.base import Latencies, ProtocolName, Transport

PASSES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1}
"""Passes of all bytes around a ring."""
_OWN_BLOCK = {"all-gather": 2, "reduce-scatter": 2, "all-reduce": 2, "all-to-all": 1}
"""Accesses of memory for a rank's own block beside what it exchanges, a read and a write; an all-to-all copies it
beside its sends, which is charged half."""
_ROOTED = ("broadcast", "reduce")


class Tiers(NamedTuple):
    """What a transport has to know of a system."""

    domain: int
    """Ranks that fast links join at most."""
    bandwidth: float
    """Bytes per second of a rank inside a domain."""
    network: float
    """Bytes per second of a rank into the network; infinite where there is none."""
    reduction: bool = False
    """Whether the domain's switches add."""
    memory: float | None = None
    """Bytes per second of a rank's memory; None leaves copies out."""


class Task(NamedTuple):
    """A collective whose time is asked for."""

    kind: str
    ranks: int
    domains: int
    """Domains that the ranks lie in, as many in each."""
    nbytes: float


class Way(NamedTuple):
    """Terms of one way and protocol, before the scales of a system; ``protocol`` is -1 for adding switches."""

    name: str
    protocol: int
    base: float
    domain_steps: float
    """Seconds of the steps inside domains."""
    network_steps: float
    posts: float
    """Peers to which a rank posts sends."""
    domain_seconds: float
    """Seconds of the bytes inside a domain, all of the bandwidth reached."""
    network_seconds: float
    copy_seconds: float
    """Seconds of the copies of the own block at all of the memory's bandwidth."""


PROTOCOLS: tuple[ProtocolName, ...] = ("LL", "LL128", "Simple")
REDUCTION = -1


_BOARD = 8
"""Accelerators of one node at most; a larger domain spans nodes."""


def task_of(kind: str, ranks: int, nodes: int, nbytes: float, tiers: Tiers) -> Task:
    """Return a collective of so many ranks on so many nodes; nodes inside one domain count as one."""
    domains = nodes if tiers.domain <= _BOARD else ceil(ranks / tiers.domain)
    return Task(kind, ranks, max(domains, ceil(ranks / tiers.domain)), nbytes)


def ways(task: Task, tiers: Tiers, transport: Transport) -> Iterator[Way]:
    """Yield every way that the transport has for a collective."""
    for number, name in enumerate(PROTOCOLS):
        if name not in transport.protocols:
            continue
        if task.kind in PASSES:
            yield _ring(task, tiers, transport, number)
        if task.kind in _ROOTED:
            yield _chain(task, tiers, transport, number)
        if task.kind == "all-to-all" and name != "LL128":
            yield _pairs(task, tiers, transport, number)
        if task.kind == "all-reduce":
            yield _tree(task, tiers, transport, number)
        if name == "Simple" and task.kind in PASSES and 1 < task.domains < task.ranks:
            yield _rails(task, tiers, transport, number)
    if task.kind == "all-reduce" and task.ranks / task.domains > 2 and _switches_add(tiers, transport):
        yield _adding(task, tiers, transport)


def _switches_add(tiers: Tiers, transport: Transport) -> bool:
    generation = transport.generation
    return (
        tiers.reduction
        and transport.reduction is not None
        and generation is not None
        and generation.reduction_share > 0
    )


def _own(task: Task, tiers: Tiers) -> float:
    accesses = _OWN_BLOCK.get(task.kind, 0)
    return 0.0 if tiers.memory is None else accesses * task.nbytes / task.ranks / tiers.memory


def _across(task: Task, nbytes: float, tiers: Tiers) -> float:
    return nbytes / tiers.network if task.domains > 1 else 0.0


def _ring_share(task: Task, tiers: Tiers, transport: Transport, number: int) -> float:
    """Part of a domain's bandwidth that a ring reaches by a protocol."""
    share = transport.protocols[PROTOCOLS[number]].share
    if transport.generation is not None and number == 0:
        ceiling = transport.generation.low_latency_ceilings[min(task.domains, 3) - 1]
        share = min(share, ceiling / tiers.bandwidth)
    return share


def _ring(task: Task, tiers: Tiers, transport: Transport, number: int) -> Way:
    protocol = transport.protocols[PROTOCOLS[number]]
    passes, n, m = PASSES[task.kind], task.ranks, task.domains
    steps, across = passes * (n - 1), passes * (m - 1)
    step = max(protocol.ring.domain_step, protocol.least_domain_step if m > 1 else 0.0)
    moved = passes * (n - 1) / n * task.nbytes
    return Way(
        f"ring {PROTOCOLS[number]}",
        number,
        protocol.ring.base,
        (steps - across) * step,
        across * protocol.ring.network_step,
        0.0,
        moved / (_ring_share(task, tiers, transport, number) * tiers.bandwidth),
        _across(task, moved / protocol.share * m / n, tiers),
        _own(task, tiers),
    )


def _chain(task: Task, tiers: Tiers, transport: Transport, number: int) -> Way:
    """Pass all bytes along a ring from its root, or to it."""
    protocol = transport.protocols[PROTOCOLS[number]]
    n, m = task.ranks, task.domains
    return Way(
        f"chain {PROTOCOLS[number]}",
        number,
        protocol.ring.base,
        (n - m) * protocol.ring.domain_step,
        (m - 1) * protocol.ring.network_step,
        0.0,
        task.nbytes / (_ring_share(task, tiers, transport, number) * tiers.bandwidth),
        _across(task, task.nbytes / protocol.share * m / n, tiers),
        0.0,
    )


def _tree(task: Task, tiers: Tiers, transport: Transport, number: int) -> Way:
    protocol = transport.protocols[PROTOCOLS[number]]
    g, m = task.ranks / task.domains, task.domains
    share = protocol.tree_share if m == 1 else protocol.network_tree_share
    return Way(
        f"tree {PROTOCOLS[number]}",
        number,
        protocol.tree.base,
        2 * (g - 1) * protocol.tree.domain_step,
        2 * log2(m) * protocol.tree.network_step,
        0.0,
        2 * task.nbytes / (share * tiers.bandwidth),
        _across(task, _tree_bytes(task) / share, tiers),
        _own(task, tiers),
    )


def _tree_bytes(task: Task) -> float:
    """Bytes of a rank's port in a double tree of domains, whose two trees share the inner domains evenly."""
    return (1 if task.domains == 2 else 2) * task.nbytes * task.domains / task.ranks


def _adding(task: Task, tiers: Tiers, transport: Transport) -> Way:
    assert transport.reduction is not None
    assert transport.generation is not None
    g = task.ranks / task.domains
    return Way(
        "adding switches",
        REDUCTION,
        0.0,
        transport.reduction.domain_step,
        2 * log2(task.domains) * transport.reduction.network_step,
        0.0,
        task.nbytes * (1 + 1 / g) / (transport.generation.reduction_share * tiers.bandwidth),
        _across(task, _tree_bytes(task), tiers),
        0.0,
    )


def _rails(task: Task, tiers: Tiers, transport: Transport, number: int) -> Way:
    latencies: Latencies = transport.protocols[PROTOCOLS[number]].ring
    passes, g, m = PASSES[task.kind], task.ranks / task.domains, task.domains
    return Way(
        f"rails {PROTOCOLS[number]}",
        number,
        latencies.base,
        passes * (g - 1) * latencies.domain_step,
        passes * (m - 1) * latencies.network_step,
        0.0,
        passes * task.nbytes * (g - 1) / g / tiers.bandwidth,
        _across(task, passes * task.nbytes * (m - 1) / m / g, tiers),
        _own(task, tiers),
    )


def _pairs(task: Task, tiers: Tiers, transport: Transport, number: int) -> Way:
    protocol = transport.protocols[PROTOCOLS[number]]
    n, g = task.ranks, task.ranks / task.domains
    return Way(
        f"all pairs {PROTOCOLS[number]}",
        number,
        protocol.ring.base,
        protocol.ring.domain_step,
        protocol.ring.network_step if task.domains > 1 else 0.0,
        n - 1,
        task.nbytes * (n - 1) / n / (protocol.share * tiers.bandwidth),
        _across(task, task.nbytes * (n - g) / n / protocol.share, tiers),
        _own(task, tiers),
    )
