"""INCEPTIONN (MICRO 2018): its tables and figures, measured where they can be."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from lightloom.papers.study import Paper

PAPER = Paper.load(__name__)
"""Published values of the paper, and the texts of its study."""

# Figures of the paper: Tables I to III, and the numbers of its text. Source: Li et al., MICRO 2018.

WORKERS = 4
"""Number of workers, beside one aggregator in the worker-aggregator cluster (section VII-C)."""
LINK_BITS = 10e9
"""Bandwidth of Ethernet in each direction, in bit/s."""
BOUNDS = (10, 8, 6)
"""Exponents k of the error bounds 2^-k."""
MODELS = ("AlexNet", "HDC", "ResNet-50", "VGG-16")


TABLE_1: Mapping[str, Mapping[str, float]] = PAPER.tables["hyperparameters"]
"""Table I by model and hyper-parameter, with signs as printed."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A column of Table II: seconds of 100 iterations on four workers and one aggregator."""

    forward: float
    backward: float
    gpu_copy: float
    gradient_sum: float
    communicate: float
    update: float
    total: float

    @property
    def parts(self) -> dict[str, float]:
        """Seconds in 100 iterations of each of the six printed steps, by field name (``forward``, ``backward``,
        ``gpu_copy``, ``gradient_sum``, ``communicate``, ``update``); the total is left out."""
        return {name: seconds for name, seconds in asdict(self).items() if name != "total"}

    @property
    def local(self) -> float:
        """Seconds of 100 iterations of forward and backward pass, copies to and from the GPU, and update: without
        communication and the sum of gradients."""
        return self.forward + self.backward + self.gpu_copy + self.update


TABLE_2 = {model: Breakdown(**row) for model, row in PAPER.tables["seconds"].items()}
TABLE_2_PERCENT: Mapping[str, Sequence[float]] = PAPER.tables["percent_of_seconds"]
ITERATIONS = 100
"""Number of iterations that Table II times."""

TABLE_3: Mapping[tuple[str, int], Sequence[float]] = {
    (model, k): shares for model, rows in PAPER.tables["percent_by_bits"].items() for k, shares in rows.items()
}
"""Percent of values sent with 2, 10, 18 and 34 bits, by model and k of the bound 2^-k."""
TAG_BITS = (2, 10, 18, 34)

MEGABYTES: Mapping[str, float] = {"AlexNet": 233, "HDC": 2.5, "ResNet-50": 98, "VGG-16": 525}
"""Model sizes (section VII-A); 2^20 bytes each, as AlexNet's and ResNet-50's parameter counts show."""

INC_TOTAL: Mapping[str, float] = {"AlexNet": 52, "HDC": 38, "ResNet-50": 49, "VGG-16": 31}
"""Fig. 12: percent by which ring training is shorter than worker-aggregator training, neither compressed."""
INC_COMMUNICATION: Mapping[str, float] = {"AlexNet": 55, "HDC": 39, "ResNet-50": 58, "VGG-16": 36}
"""Fig. 12: the same for communication alone."""


def size_bytes(model: str) -> float:
    """Return the bytes of a model's weights, and of its gradients: the megabytes that the paper states
    (:data:`MEGABYTES`), of 2^20 bytes. KeyError for a model other than AlexNet, HDC, ResNet-50 and VGG-16."""
    return MEGABYTES[model] * 2**20


def ratio_of_shares(shares: Sequence[float]) -> float:
    """Return float32 bits per sent bit, from the percentages of values sent with 2, 10, 18 and 34 bits, in this
    order."""
    return 32 / sum(share / 100 * bits for share, bits in zip(shares, TAG_BITS, strict=True))


def ratio(model: str, k: int) -> float:
    """Return float32 bits per sent bit of a model at the bound 2^-k, from the shares of Table III, which has AlexNet,
    HDC, ResNet-50 and VGG-16 and k 10, 8 and 6 (KeyError for others)."""
    return ratio_of_shares(TABLE_3[model, k])


# Gradient exchange times in closed form: section VIII-D, and a model from the measured tables.
#
# worker-aggregator   (1 + log p) a + (p + log p) n b + (p − 1) n c
# ring                2 (p − 1) a + 2 (p − 1)/p n b + (p − 1)/p n c
#
# with p workers, n bytes, a seconds a message, b seconds a byte on a link, c seconds a byte summed. The base of the
# logarithm is not stated; 2 is taken. The aggregator of Fig. 2 takes 2 p n b: p copies of the gradients in and p copies
# of the weights out, over its one link.


@dataclass(frozen=True, slots=True)
class Link:
    """Costs of a message over a link, and of adding what it brings."""

    latency: float = 0.0
    """a: seconds per message. The paper calls it negligible and gives no value."""
    byte_seconds: float = 8 / LINK_BITS
    """b: seconds per byte on a link."""
    sum_seconds: float = 0.0
    """c: seconds per added byte."""


def worker_aggregator(p: int, nbytes: float, link: Link) -> float:
    """Return the seconds of a worker-aggregator exchange by section VIII-D, (1 + log p) a + (p + log p) n b + (p − 1) n
    c, with base 2, for p workers, n ``nbytes`` of gradients, and the costs a, b, c of ``link``."""
    log = math.log2(p)
    return (1 + log) * link.latency + (p + log) * nbytes * link.byte_seconds + (p - 1) * nbytes * link.sum_seconds


def ring(p: int, nbytes: float, link: Link) -> float:
    """Return the seconds of a ring exchange by section VIII-D, 2 (p − 1) a + 2 (p − 1)/p n b + (p − 1)/p n c, for p
    workers, n ``nbytes`` of gradients, and the costs a, b, c of ``link``."""
    return 2 * (p - 1) * link.latency + (p - 1) / p * nbytes * (2 * link.byte_seconds + link.sum_seconds)


def link_of(model: str) -> Link:
    """Return the costs of a message for a model: 10 Gbit/s without latency, and the seconds of summing a byte that
    follow from Table II, where the aggregator adds p − 1 times the model's n bytes (p = 4 workers) in the gradient sum
    of an iteration."""
    return Link(sum_seconds=TABLE_2[model].gradient_sum / ITERATIONS / ((WORKERS - 1) * size_bytes(model)))
