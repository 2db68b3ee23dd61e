"""Gradient exchange times in closed form: section VIII-D, and a model from the measured tables.

    worker-aggregator   (1 + log p) a + (p + log p) n b + (p − 1) n c
    ring                2 (p − 1) a + 2 (p − 1)/p n b + (p − 1)/p n c

with p workers, n bytes, a seconds a message, b seconds a byte on a link, c seconds a byte summed. The base of the
logarithm is not stated; 2 is taken. Table II's communication fits neither, but 2 p n b: p copies of the gradients in
and p copies of the weights out, one after the other over the aggregator's one link.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lightloom.studies.inceptionn.paper import ITERATIONS, LINK_BITS, TABLE_2, WORKERS, size_bytes


@dataclass(frozen=True, slots=True)
class Link:
    """Costs of a message."""

    latency: float = 0.0
    """a: seconds per message. The paper calls it negligible and gives no value."""
    byte_seconds: float = 8 / LINK_BITS
    """b: seconds per byte on a link."""
    sum_seconds: float = 0.0
    """c: seconds per added byte."""


def worker_aggregator(p: int, nbytes: float, link: Link) -> float:
    """Section VIII-D, seconds."""
    log = math.log2(p)
    return (1 + log) * link.latency + (p + log) * nbytes * link.byte_seconds + (p - 1) * nbytes * link.sum_seconds


def ring(p: int, nbytes: float, link: Link) -> float:
    """Section VIII-D, seconds."""
    share = (p - 1) / p
    return 2 * (p - 1) * link.latency + share * nbytes * (2 * link.byte_seconds + link.sum_seconds)


def one_link(p: int, nbytes: float, link: Link) -> float:
    """2 p n b: every copy over the aggregator's one link, gradients in and weights out; seconds."""
    return 2 * p * nbytes * link.byte_seconds


def link_of(model: str) -> Link:
    """Return a link of 10 Gbit/s without latency, with sums at the speed of Table II.

    The aggregator adds p − 1 times n bytes in the table's gradient sum.
    """
    return Link(sum_seconds=TABLE_2[model].gradient_sum / ITERATIONS / ((WORKERS - 1) * size_bytes(model)))
