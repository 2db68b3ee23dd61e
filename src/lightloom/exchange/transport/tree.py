"""Trees of ranks: workers at the leaves, aggregators above them. Source: INCEPTIONN, Figs. 1a and 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom.core.errors import ConfigError
from lightloom.exchange.transport.channel import Channel, Payload
from lightloom.exchange.transport.channel_group import DEFAULT_TIMEOUT, ChannelGroup
from lightloom.exchange.transport.meeting import Pair, Store, connect

_WHAT = "tree"


@dataclass(frozen=True, slots=True)
class Tree:
    """The parent of each rank, None for the root. Ranks without children are workers.

    Raises:
        ConfigError: there is not exactly one root, or a rank does not reach it.
    """

    parents: tuple[int | None, ...]

    def __post_init__(self) -> None:
        size = len(self.parents)
        if self.parents.count(None) != 1 or size < 2:
            raise ConfigError(f"parents {self.parents}: expected at least 2 ranks, one of which has none")
        for rank in range(size):
            above: int | None = rank
            for _ in range(size):
                above = None if above is None else self.parents[above] if 0 <= above < size else above
            if above is not None:
                raise ConfigError(f"parents {self.parents}: rank {rank} does not reach the root")

    @classmethod
    def star(cls, workers: int) -> Tree:
        """Workers 0 … p − 1 and one aggregator, rank p: the five-node cluster of section VII for p = 4."""
        return cls((workers,) * workers + (None,))

    @classmethod
    def of_groups(cls, sizes: Sequence[int]) -> Tree:
        """Workers group by group, then one aggregator for each group, then the root."""
        workers = sum(sizes)
        leaves = [workers + group for group, size in enumerate(sizes) for _ in range(size)]
        return cls((*leaves, *(workers + len(sizes),) * len(sizes), None))

    @property
    def root(self) -> int:
        """The rank that updates the weights."""
        return self.parents.index(None)

    @property
    def workers(self) -> tuple[int, ...]:
        """Ranks without children."""
        return tuple(rank for rank in range(len(self.parents)) if rank not in self.parents)

    def children(self, rank: int) -> tuple[int, ...]:
        """Children of ``rank``, in the order in which it adds their sums."""
        return tuple(child for child, parent in enumerate(self.parents) if parent == rank)


class Node(ChannelGroup):
    """One rank of a tree. Each method sends or receives one message on all channels to its parent or children.

    A child that is behind or ahead of its siblings by a message does no harm.
    """

    def __init__(
        self,
        rank: int,
        parent: tuple[int, Pair] | None,
        children: Mapping[int, Pair],
        *,
        workers: int,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        """Takes over the sockets, each pair as (data, control).

        Args:
            workers: in the whole tree.
            timeout: seconds without progress.
        """
        self.workers = workers
        self.parent = Channel(rank, parent[0], *parent[1], what=_WHAT) if parent is not None else None
        self.children = tuple(Channel(rank, child, *pair, what=_WHAT) for child, pair in sorted(children.items()))
        above = () if self.parent is None else (self.parent,)
        super().__init__(rank, (*self.children, *above), timeout=timeout, what=_WHAT)

    def up(self, payload: Payload, *, marked: bool) -> None:
        """Send to the parent."""
        self.transfer(dict.fromkeys(self._above(), payload), {}, marked=marked)

    def from_below(self, limit: int, *, marked: bool) -> list[Payload]:
        """Receive the messages of the children, each of at most ``limit`` bytes, in order of rank."""
        came = self.transfer({}, dict.fromkeys(self.children, limit), marked=marked)
        return [came[child] for child in self.children]

    def down(self, payload: Payload, *, marked: bool) -> None:
        """Send the same message to all children."""
        self.transfer(dict.fromkeys(self.children, payload), {}, marked=marked)

    def from_above(self, limit: int, *, marked: bool) -> Payload:
        """Receive the message of the parent, of at most ``limit`` bytes."""
        came = self.transfer({}, dict.fromkeys(self._above(), limit), marked=marked)
        return came.popitem()[1]

    def _above(self) -> tuple[Channel, ...]:
        if self.parent is None:
            raise ConfigError(f"rank {self.name} is the root of its tree: it has no parent")
        return (self.parent,)


def node_from_store(
    store: Store,
    tree: Tree,
    rank: int,
    *,
    name: str = "tree",
    host: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    **options: Any,
) -> Node:
    """Connect to parent and children; all ranks of the tree must call this, equally often for each ``name``.

    Args:
        store, host, timeout: see ``ring_from_store``.
        options: ``setup_timeout`` and ``names`` of ``ring_from_store``.

    Raises:
        TransportError: one of them did not come in time, or cannot be reached.
    """
    parent = tree.parents[rank]
    calls = () if parent is None else (parent,)
    names = options.get("names") or range(len(tree.parents))
    called, answered = connect(
        store, rank, len(tree.parents), calls, tree.children(rank), name=name, host=host, **options
    )
    above = None if parent is None else (names[parent], called[parent])
    below = {names[child]: pair for child, pair in answered.items()}
    return Node(names[rank], above, below, workers=len(tree.workers), timeout=timeout)
