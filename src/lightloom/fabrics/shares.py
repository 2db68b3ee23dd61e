"""Shares of a circuit-switched fabric's channels: what the groups of one axis of parallelism hold, beside other axes.

    channels of every link   | tensor groups | data groups        | sends of the pipeline |
                               0 ... 2         3 ... 6              7

All groups of an axis, whose ranks lie a stride apart, hold the same range of channels; other axes hold others, so that
circuits of all of them stand at once. A schedule of one group is built on a fabric of its ranks and of the channels
that reach it (:meth:`Fabric.share`); :meth:`Shares.embedded` says where its lightpaths lie in the whole fabric.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from lightloom.core.arrays import Ints
from lightloom.fabrics.capabilities import Capabilities


class AxisShare(NamedTuple):
    """Groups of ranks that tile a fabric, and the channels of every link that they hold."""

    ranks: int
    """Ranks of a group."""
    stride: int
    """Distance between neighbouring ranks of a group."""
    first: int
    """First channel."""
    channels: int


class Lightpaths(NamedTuple):
    """Lightpaths, arrays of shape [lightpath]."""

    source: Ints
    destination: Ints
    route: Ints
    channel: Ints
    """First channel."""


class Shares(Capabilities):
    """What a fabric says that has no channels to share."""

    @property
    def shared_channels(self) -> int:
        """Channels of each link that axes may share."""
        return self.usable_channels

    def blocks(self) -> list[tuple[int, float, str]]:
        """Sizes of blocks of neighbouring ranks that divide the ranks, the bytes per second that can enter (or leave)
        each of them, and a name."""
        return []

    def share_unit(self, ranks: int, stride: int) -> int:
        """The number of channels of which every share of such groups is a multiple; 0 where channels cannot be
        shared."""
        return 0

    def embedded(self, axis: AxisShare, group: Ints, local: Lightpaths) -> Lightpaths:
        """Lightpaths of the whole fabric, between its ranks, for those of groups, whose ranks count from 0.

        Args:
            axis: where the groups lie, and their channels.
            group: the group of each lightpath, numbered as :meth:`Fabric.siblings` does: [lightpath].
            local: lightpaths on the fabric of :meth:`Fabric.share`.
        """
        raise NotImplementedError

    def embedding(self) -> Self:
        """This fabric with all channels that lightpaths of :meth:`embedded` may have."""
        return self

    def shift_unit(self, stride: int) -> int:
        """Fewest channels with which every rank sends to the one ``stride`` further on while it sends to the one
        ``stride`` before; 0 where channels cannot be shared."""
        return 0

    def shift(self, stride: int, channels: int) -> Shift:
        """How every rank sends to the one ``stride`` further on, over so many channels that sending back shares.

        Both ways at once, and on circuits that stand.
        """
        raise NotImplementedError

    def shift_circuits(self, stride: int, first: int, channels: int) -> tuple[Lightpaths, int]:
        """The circuits of :meth:`shift`, one hop of every rank each way, and the channels of each.

        ``channels`` are those from ``first`` on.
        """
        raise NotImplementedError


class Shift(NamedTuple):
    """Sends from every rank to the one a stride further on: in hops of equal length over circuits that stand."""

    hop: int
    """Ranks that every hop passes; divides the stride."""
    hops: int
    width: int
    """Channels of every circuit."""
    rate: float
    """Bytes per second, all hops counted."""
    latency: float
    """Seconds besides the bytes."""
