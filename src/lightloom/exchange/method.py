"""What an exchange of gradients sends and does, for plans that price it and for hooks that run it.

A method turns the gradients of all ranks into what every rank applies. It has *phases*, each one collective with a
number of bytes, and *work* on the values. Methods that act less often than every step say so by ``every``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

Kind = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all"]
Placement = Literal["everywhere", "in a node", "between nodes"]


@dataclass(frozen=True, slots=True)
class CodedSums:
    """What a codec whose codes differ in size makes of sums of gradients, as measured."""

    codec: str
    """Name of the codec, as :func:`lightloom.compression.find` reads it."""
    bits_by_terms: tuple[tuple[int, float], ...]
    """(number of summed gradients, bits that a value takes on average), from one gradient on."""


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradient that one exchange averages: the shapes of its tensors, in values."""

    shapes: tuple[tuple[int, ...], ...]
    coded: tuple[CodedSums, ...] = ()
    """Measured sizes, for methods whose bytes depend on the values."""

    @staticmethod
    def flat(values: int) -> Gradient:
        """One tensor of one dimension."""
        return Gradient(((values,),))

    def bits_by_terms(self, codec: str) -> tuple[tuple[int, float], ...]:
        """Measured bits of a value by the number of summed gradients; empty where that codec was not measured."""
        return next((sums.bits_by_terms for sums in self.coded if sums.codec == codec), ())

    @property
    def values(self) -> int:
        """Number of values in all tensors together."""
        return sum(prod(shape) for shape in self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One collective of an exchange.

    ``nbytes`` is what ``lightloom.collectives.Collective`` calls its size: what each rank holds at the start of an
    all-reduce, reduce-scatter or all-to-all, and at the end of an all-gather.
    """

    kind: Kind
    nbytes: float
    nbytes_by_terms: tuple[tuple[int, float], ...] = ()
    """(number of summed gradients, bytes) where partial sums travel and their size depends on how many gradients they
    add up, as around a ring; empty where it does not."""
    where: Placement = "everywhere"
    hideable: bool = True
    """Whether it may run behind the backward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What each rank computes in one exchange, besides sending."""

    encoded_values: float = 0.0
    decoded_values: float = 0.0
    encoded_messages: float = 0.0
    decoded_messages: float = 0.0
    calls: float = 0.0
    """Calls of kernels tensor by tensor, whatever their size; an exchange of part of the gradient has its share."""
    flops: float = 0.0
    """Floating-point operations beyond a fixed number for each encoded or decoded value, such as matrix products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeMethod(ABC):
    """A gradient exchange with its options; equal methods have equal names."""

    feedback: bool = False
    """Whether the error of each encoding is added to the next gradient."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name and all options as ``find`` reads them: ``int4:block=128,feedback``."""

    @property
    @abstractmethod
    def scale_free(self) -> bool:
        """Whether gradients times a power of two give the result times that power, bit for bit."""

    @abstractmethod
    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Collectives of one exchange among ``ranks`` ranks, in order."""

    @abstractmethod
    def work(self, gradient: Gradient, ranks: int) -> Work:
        """What each rank computes in one exchange; the largest over ranks where shares differ."""

    def ranks_of(self, phase: Phase, ranks: int) -> int:
        """Number of ranks that exchange with each other in a phase, of ``ranks`` in all."""
        return ranks

    @property
    def needs_values(self) -> bool:
        """Whether the bytes depend on the gradient's values (``Gradient.coded``): without measured sizes, phases have
        the largest that may occur."""
        return False

    @property
    def coding(self) -> ExchangeMethod:
        """The method that codes values: this one, or the one that it runs inside."""
        return self

    @property
    def fused(self) -> bool:
        """Whether one kernel codes a message on accelerators, rather than operations of a library one by one."""
        return True

    @property
    def state_values(self) -> float:
        """Float32 values that a rank keeps between steps, for each value of the gradient."""
        return 1.0 if self.feedback else 0.0

    @property
    def every(self) -> int:
        """Number of steps from one exchange to the next."""
        return 1

    @property
    def synchronous(self) -> bool:
        """Whether all ranks apply the same gradient at every step; plans of other methods do other training."""
        return self.every == 1

    def sent_bytes(self, gradient: Gradient, ranks: int) -> float:
        """Bytes that one rank sends in one exchange, on average over ranks: what the hooks count.

        An all-reduce is counted as a reduce-scatter and an all-gather, 2 (ranks - 1) / ranks of its size.
        """
        return sum(sent_in_phase(phase, self.ranks_of(phase, ranks)) for phase in self.phases(gradient, ranks))

    def __str__(self) -> str:
        return self.name


def sent_in_phase(phase: Phase, ranks: int) -> float:
    """Bytes that one rank sends in a phase, on average over ranks, by an algorithm that sends no byte twice."""
    share = (ranks - 1) / ranks
    if phase.nbytes_by_terms:
        return share * (sum_over_hops(phase, ranks) + nbytes_of_terms(phase, ranks))
    return share * phase.nbytes * (2 if phase.kind == "all-reduce" else 1)


def sum_over_hops(phase: Phase, ranks: int) -> float:
    """Mean size, over the hops of a ring's reduce-scatter, of ``phase`` where partial sums of 1, 2 ... gradients
    travel, in bytes of the whole gradient."""
    hops = range(1, ranks)
    return sum(nbytes_of_terms(phase, terms) for terms in hops) / max(len(hops), 1)


def nbytes_of_terms(phase: Phase, terms: int) -> float:
    """Size of a sum of ``terms`` gradients, in bytes, interpolated over the logarithm of the number of terms."""
    from numpy import interp, log2

    if not phase.nbytes_by_terms:
        return phase.nbytes
    counts, sizes = zip(*phase.nbytes_by_terms, strict=True)
    return float(interp(log2(terms), log2(counts), sizes))


def matrix_shapes(shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """(rows, columns) of the tensors that have two dimensions or more, all but the first flattened."""
    return [(shape[0], prod(shape[1:])) for shape in shapes if len(shape) > 1]
