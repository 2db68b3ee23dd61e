"""The links that transfers occupy, and cuts through links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lightloom.core.arrays import Column, Ints


class Footprint(NamedTuple):
    """The links that transfers occupy, as runs of consecutive links on cyclic tracks.

    Each array has shape [transfer, run]. Run ``r`` of transfer ``t`` occupies the links
    ``base + (start + k) % period`` for ``k < length``.
    """

    base: Ints
    start: Ints
    length: Ints
    period: Ints

    @classmethod
    def of(cls, runs: Sequence[tuple[Any, Any, Any, Any]]) -> Footprint:
        """Stack ``(base, start, length, period)`` runs, each broadcast to one entry a transfer."""
        transfers = np.broadcast_shapes(*(np.shape(value) for run in runs for value in run))
        columns = np.empty((4, *transfers, len(runs)), np.int64)
        for position, run in enumerate(runs):
            for column, value in zip(columns, run, strict=True):
                column[..., position] = value
        return cls(*columns)

    def runs(self) -> list[tuple[Ints, Ints, Ints, Ints]]:
        """``(base, start, length, period)`` of each run, each [transfer]."""
        return [tuple(columns.T) for columns in np.stack(self).T]


class CellOrder(NamedTuple):
    """Where an array holds the channels of all links: ``link`` and ``channel`` are the distances between neighbours."""

    link: int
    channel: int

    @classmethod
    def of(cls, links: int, channels: int, footprint: Footprint, width: Column) -> CellOrder:
        """The order in which the cells of a transfer lie closest: link by link where its lightpath has more channels
        than links, else channel by channel.

        Args:
            links: of the fabric.
            channels: of a link.
            footprint: of some of the transfers.
            width: channels of each of them.
        """
        wide = len(footprint.length) > 0 and np.mean(width) > footprint.length.sum(axis=1).mean()
        return cls(channels, 1) if wide else cls(1, links)


def ordered_links(runs: Sequence[tuple[Any, Any, Any, Any]], backward: Sequence[Any]) -> Ints:
    """The links of runs one after the other, those of backward runs from the last to the first; −1 fills up.

    Args:
        runs: ``(base, start, length, period)``, each [transfer].
        backward: whether a run is crossed from its last link to its first, for each run: [transfer] or one value.

    Returns:
        Shape [transfer, place].
    """
    parts = []
    for (base, start, length, period), back in zip(runs, backward, strict=True):
        place, longest = np.arange(int(np.max(length, initial=0))), np.asarray(length)[:, None]
        turn = np.where(np.reshape(back, (-1, 1)), longest - 1 - place, place)
        link = np.reshape(base, (-1, 1)) + (np.reshape(start, (-1, 1)) + turn) % np.reshape(period, (-1, 1))
        parts.append(np.where(place < longest, link, -1))
    links: Ints = np.concatenate(parts, axis=1)
    return links


def links_of(footprint: Footprint) -> tuple[Ints, Ints]:
    """The links that transfers occupy: (transfer, link), one entry a link."""
    length = footprint.length.ravel()
    run = np.repeat(np.arange(len(length)), length)
    step = np.arange(len(run)) - np.repeat(np.cumsum(length) - length, length)
    base, start, period = (part.ravel()[run] for part in (footprint.base, footprint.start, footprint.period))
    return run // max(footprint.length.shape[1], 1), base + (start + step) % period


@dataclass(frozen=True, slots=True)
class Cut:
    """A set of ranks and what can enter (or leave) it: no more than ``capacity`` bytes per second, each way."""

    name: str
    ranks: int
    capacity: float
    sets: int = 1
    """Sets of as many ranks, with the same limit, into which all ranks fall; 1 where they do not so."""
