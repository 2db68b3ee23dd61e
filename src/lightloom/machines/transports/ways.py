"""Ways to carry a collective over two tiers, in closed form: latency terms and the seconds of its bytes on each tier.

Domains of g ranks with fast links, m of them joined by a network; n = g · m ranks and S bytes, as nccl-tests counts.

    way              steps inside a domain   steps across     bytes of a rank inside   bytes of a rank across
    ring             p(n - 1) - across       p(m - 1)         pS(n - 1)/n              pS(n - 1)/n / g
    tree             2(g - 1)                2 log2 m         2S                       2S(m - 1)/m / g
    adding switches  1                       2 log2 m         S(1 + 1/g)               as trees
    rails, p = 1     g - 1                   m - 1            S(g - 1)/g               S(m - 1)/m / g
    parallel trees   none, as g = 1          log2 n           none                     S(n - 1)/n, for p = 1
    all pairs        1, and one post a peer  1                S(n - 1)/n               S(n - g)/n

with p = 2 for an all-reduce and 1 for an all-gather, a reduce-scatter; a broadcast and a reduction pass S along the
ring. A ring enters and leaves a domain by the ports of g ranks, so that the bus bandwidth of an all-gather,
S(n - 1)/n over its time, is at most theirs. In the last column g is at most :attr:`Transport.leaving_ranks`, except
for all pairs. Rails are a way only where the transport says so (:attr:`Transport.rails`).
"""

from collections.abc import Iterator
from functools import partial
from math import ceil
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Mask
from lightloom.machines.transports.transport import ProtocolName, Transport

_ROOTED = ("broadcast", "reduce")
"""Collectives that pass all bytes along the ring from one rank to the next, a chain."""
PASSES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, **dict.fromkeys(_ROOTED, 1)}
"""Passes around a ring."""
_OWN_BLOCK = {"all-gather": 2, "reduce-scatter": 2, "all-reduce": 2, "all-to-all": 1}
"""Accesses of memory for a rank's own block beside what it exchanges, a read and a write; an all-to-all copies it
beside its sends, which is charged half."""


class Tiers(NamedTuple):
    """Domain and network of a system, as a transport sees them."""

    domain: int
    """Ranks that fast links join at most."""
    bandwidth: float
    """Bytes per second of a rank inside a domain."""
    network: float
    """Bytes per second of a rank into the network; infinite where there is none."""
    reduction: bool = False
    """True if the domain's switches add."""
    memory: float | None = None
    """Bytes per second of a rank's memory; None leaves copies out."""


class LibraryTask(NamedTuple):
    """A collective whose time is asked for."""

    kind: str
    ranks: int
    domains: int
    """Domains that the ranks lie in, as many in each."""
    nbytes: float


class Tasks(NamedTuple):
    """Collectives of one kind, each column [collectives]."""

    kind: str
    ranks: Floats
    domains: Floats
    nbytes: Floats

    @property
    def inside(self) -> Floats:
        """Number of ranks in each of a collective's domains: [collectives]."""
        return self.ranks / self.domains


class Way(NamedTuple):
    """Terms of one way and protocol before the scales of a system, each [collectives] or a number."""

    name: str
    protocol: int
    """Place in :data:`PROTOCOLS`, or :data:`REDUCTION`."""
    base: Floats | float = 0.0
    domain_steps: Floats | float = 0.0
    """Seconds of the steps inside domains."""
    network_steps: Floats | float = 0.0
    posts: Floats | float = 0.0
    """Peers to which a rank posts sends."""
    domain_seconds: Floats | float = 0.0
    """Seconds of the bytes inside a domain, all of the bandwidth reached."""
    network_seconds: Floats | float = 0.0
    copy_seconds: Floats | float = 0.0
    """Seconds of the copies of the own block at all of the memory's bandwidth."""
    served: Mask | None = None
    """Collectives that have this way; None where all have."""


PROTOCOLS: tuple[ProtocolName, ...] = ("LL", "LL128", "Simple")
REDUCTION = -1


_BOARD = 8
"""Accelerators of one node at most; a larger domain spans nodes."""


def task_of(kind: str, ranks: int, nodes: int, nbytes: float, tiers: Tiers) -> LibraryTask:
    """Return a collective (``kind`` such as ``all-reduce``) of ``nbytes`` bytes among ``ranks`` ranks on ``nodes``
    nodes, with the number of domains that they lie in: the nodes, but at least as many as the ranks fill; where a
    domain has more than 8 ranks, so that it spans nodes, as many as the ranks fill."""
    domains = nodes if tiers.domain <= _BOARD else ceil(ranks / tiers.domain)
    return LibraryTask(kind, ranks, max(domains, ceil(ranks / tiers.domain)), nbytes)


def ways(tasks: Tasks, tiers: Tiers, transport: Transport) -> Iterator[Way]:
    """Yield every way that the transport has of carrying collectives of one kind over two tiers, with its terms before
    corrections and scales: protocol by protocol (LL, LL128, Simple), then, for an all-reduce where the domain's
    switches can add and the transport states steps and bandwidth share of that, the way through these, which serves
    tasks with more than two ranks in a domain. Nothing for a kind that the transport does not carry."""
    for number, name in enumerate(PROTOCOLS):
        if name in transport.protocols:
            yield from _ways_of_protocol(tasks, tiers, transport, number)
    reduction, generation = transport.reduction, transport.generation
    if tasks.kind == "all-reduce" and tiers.reduction and reduction and generation and generation.reduction_share > 0:
        yield Way(
            "adding switches",
            REDUCTION,
            domain_steps=reduction.domain_step,
            network_steps=2 * np.log2(tasks.domains) * reduction.network_step,
            domain_seconds=tasks.nbytes * (1 + 1 / tasks.inside) / (generation.reduction_share * tiers.bandwidth),
            network_seconds=_leaving(tasks, _tree_bytes(tasks), tiers, transport),
            served=tasks.inside > 2,
        )


def _own(tasks: Tasks, tiers: Tiers) -> Floats | float:
    """Return the seconds, [collectives], in which a rank copies its own block of the data, ``nbytes / ranks``, within
    memory at the memory's full bandwidth, counted twice (read and written), of an all-to-all once; 0 where the
    bandwidth is not stated, and for kinds without such a block."""
    return 0.0 if tiers.memory is None else _OWN_BLOCK.get(tasks.kind, 0) * tasks.nbytes / tasks.ranks / tiers.memory


def _across(tasks: Tasks, nbytes: Floats, tiers: Tiers) -> Floats:
    """Return the seconds, [collectives], in which each rank sends ``nbytes`` bytes, [collectives], into the network
    between domains at ``tiers.network`` bytes per second; 0 for collectives in one domain."""
    return np.where(tasks.domains > 1, nbytes / tiers.network, 0.0)


def _leaving(tasks: Tasks, nbytes: Floats, tiers: Tiers, transport: Transport) -> Floats:
    """Return the seconds, [collectives], in which ``nbytes`` bytes of a whole domain, [collectives], enter the network
    through the ports of those of its ranks by which rings and trees leave it: ``leaving_ranks``, at most all; 0 for
    collectives in one domain."""
    return _across(tasks, nbytes / np.minimum(tasks.inside, transport.leaving_ranks), tiers)


def _ring_share(tasks: Tasks, tiers: Tiers, transport: Transport, number: int) -> Floats | float:
    """Return the fraction of a domain's bandwidth that a ring reaches with the protocol of a ``number`` (0 LL, 1 LL128,
    2 Simple): a number; for LL of a transport with a generation an array, [collectives], since its bandwidth is also
    limited by the generation's ceilings for one, for two and for more domains."""
    share = transport.protocols[PROTOCOLS[number]].share
    if transport.generation is None or number > 0:
        return share
    ceilings = np.array(transport.generation.low_latency_ceilings)
    return np.minimum(share, ceilings[np.minimum(tasks.domains, 3).astype(np.int64) - 1] / tiers.bandwidth)


def _tree_bytes(tasks: Tasks) -> Floats:
    """Return the bytes, [collectives], that leave a domain in a double binary tree of domains: 2 (d − 1) / d times all
    of the data for d domains, as each of the d − 1 edges carries the data once up and once down and the trees share the
    inner domains evenly."""
    return 2 * (tasks.domains - 1) / tasks.domains * tasks.nbytes


def _ways_of_protocol(tasks: Tasks, tiers: Tiers, transport: Transport, number: int) -> Iterator[Way]:
    """Yield the ways that the protocol of a ``number`` (0 LL, 1 LL128, 2 Simple) has for the tasks' kind: a ring, or a
    chain for rooted kinds; all pairs for an all-to-all, but not by LL128; a tree for an all-reduce; and by Simple alone
    rails and parallel trees, for an all-gather or a reduce-scatter. None for kinds that it does not carry. They are
    named with their protocol, such as ``ring LL``, ``chain Simple``, ``all pairs LL`` and ``tree LL128``."""
    name = PROTOCOLS[number]
    protocol, passes = transport.protocols[name], PASSES.get(tasks.kind, 0)
    n, m, g, nbytes = tasks.ranks, tasks.domains, tasks.inside, tasks.nbytes
    ring, way = protocol.ring, partial(Way, protocol=number, copy_seconds=_own(tasks, tiers))
    if passes:
        across, rooted = passes * (m - 1), tasks.kind in _ROOTED
        moved = nbytes if rooted else passes * (n - 1) / n * nbytes
        least = 0.0 if rooted else np.where(m > 1, protocol.least_domain_step, 0.0)
        yield way(
            f"{'chain' if rooted else 'ring'} {name}",
            base=ring.base,
            domain_steps=(passes * (n - 1) - across) * np.maximum(ring.domain_step, least),
            network_steps=across * ring.network_step,
            domain_seconds=moved / (_ring_share(tasks, tiers, transport, number) * tiers.bandwidth),
            network_seconds=_leaving(tasks, moved / protocol.share, tiers, transport),
        )
    if tasks.kind == "all-to-all" and name != "LL128":
        yield way(
            f"all pairs {name}",
            base=ring.base,
            domain_steps=ring.domain_step,
            network_steps=np.where(m > 1, ring.network_step, 0.0),
            posts=n - 1,
            domain_seconds=nbytes * (n - 1) / n / (protocol.share * tiers.bandwidth),
            network_seconds=_across(tasks, nbytes * (n - g) / n / protocol.share, tiers),
        )
    if tasks.kind == "all-reduce":
        share = np.where(m == 1, protocol.tree_share, protocol.network_tree_share)
        yield way(
            f"tree {name}",
            base=protocol.tree.base,
            domain_steps=2 * (g - 1) * protocol.tree.domain_step,
            network_steps=2 * np.log2(m) * protocol.tree.network_step,
            domain_seconds=2 * nbytes / (share * tiers.bandwidth),
            network_seconds=_leaving(tasks, _tree_bytes(tasks) / share, tiers, transport),
        )
    if name == "Simple" and passes == 1 and tasks.kind not in _ROOTED:
        yield from _single_pass_ways(tasks, tiers, transport, number)


def _single_pass_ways(tasks: Tasks, tiers: Tiers, transport: Transport, number: int) -> Iterator[Way]:
    """Yield the rails and the parallel trees of an all-gather or a reduce-scatter, where the transport has them: rails
    serve several domains of several ranks, parallel trees domains of one rank. ``number`` is that of their protocol (2,
    Simple)."""
    n, m, g, nbytes = tasks.ranks, tasks.domains, tasks.inside, tasks.nbytes
    way = partial(Way, protocol=number, copy_seconds=_own(tasks, tiers))
    if transport.rails:
        ring = transport.protocols[PROTOCOLS[number]].ring
        yield way(
            f"rails {PROTOCOLS[number]}",
            base=ring.base,
            domain_steps=(g - 1) * ring.domain_step,
            network_steps=(m - 1) * ring.network_step,
            domain_seconds=nbytes * (g - 1) / g / tiers.bandwidth,
            network_seconds=_leaving(tasks, nbytes * (m - 1) / m, tiers, transport),
            served=(m > 1) & (m < n),
        )
    if (trees := transport.parallel_trees) is not None:
        yield way(
            "parallel trees",
            base=trees.base,
            network_steps=np.ceil(np.log2(n)) * trees.network_step,
            network_seconds=_across(tasks, nbytes * (n - 1) / n / trees.share, tiers),
            served=(m == n) & (n > 1),
        )
