"""Descriptions of gradient exchanges, their bytes and work, for plans that price them and hooks that run them.

A method turns the gradients of all ranks into what every rank applies. It has *phases*, each one collective with a
number of bytes, and *work* on the values. Methods that act less often than every step say so by ``every``.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any, Literal

from lightloom.core.errors import ConfigError, InputError

Kind = Literal["all-reduce", "reduce-scatter", "all-gather", "all-to-all"]
Placement = Literal["everywhere", "in a node", "between nodes"]


@dataclass(frozen=True, slots=True)
class CodedSums:
    """Measured bits of a value under a codec of variable length, by the number of gradients in a sum."""

    codec: str
    """Name of the codec, as :func:`lightloom.exchange.compression.registry.find` reads it."""
    bits_by_terms: tuple[tuple[int, float], ...]
    """(number of summed gradients, bits that a value takes on average), from one gradient on."""


@dataclass(frozen=True)
class Gradient:
    """The gradient that one exchange averages: the shapes of its tensors, in values."""

    shapes: tuple[tuple[int, ...], ...]
    coded: tuple[CodedSums, ...] = ()
    """Measured sizes, for methods whose bytes depend on the values."""

    @staticmethod
    def flat(values: int) -> Gradient:
        """Return a gradient of one tensor of one dimension, of ``values`` values."""
        return Gradient(((values,),))

    def bits_by_terms(self, codec: str) -> tuple[tuple[int, float], ...]:
        """Return the measured pairs (number of summed gradients, average bits of a value) of the codec of that full
        name; empty where it was not measured."""
        return next((sums.bits_by_terms for sums in self.coded if sums.codec == codec), ())

    @cached_property
    def values(self) -> int:
        """Number of values in all tensors together (not the values themselves)."""
        return sum(prod(shape) for shape in self.shapes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One collective of an exchange.

    ``nbytes`` is what ``lightloom.Collective`` calls its size: what each rank holds at the start of an
    all-reduce, reduce-scatter or all-to-all, and at the end of an all-gather.
    """

    kind: Kind
    nbytes: float
    nbytes_by_terms: tuple[tuple[int, float], ...] = ()
    """(number of summed gradients, bytes) where partial sums travel and their size depends on how many gradients they
    add up, as around a ring; empty where it does not."""
    where: Placement = "everywhere"
    hideable: bool = True
    """True if it may run behind the backward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Computation of one rank in one exchange, besides sending."""

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
    """True if the error of each encoding is added to the next gradient."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Full name, family and options, as ``methods.find`` reads it: ``int4:block=128,feedback``; equal methods have
        equal names."""

    @property
    @abstractmethod
    def scale_free(self) -> bool:
        """True if multiplying all gradients by a power of two multiplies the result by that power, bit for bit; every
        method states it."""

    @abstractmethod
    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return the collectives of one exchange of ``gradient`` among ``ranks`` ranks, in the order in which they run,
        each with its kind, its size in bytes (what a rank holds at its start, of an all-gather at its end) and between
        which ranks it is."""

    @abstractmethod
    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return the computation of one rank in one exchange among ``ranks`` ranks, as numbers of values and messages
        encoded and decoded, kernel calls made tensor by tensor and floating-point operations beyond coding (matrix
        products), that of the busiest rank where shares differ."""

    def ranks_of(self, phase: Phase, ranks: int) -> int:
        """Return how many of the job's ``ranks`` ranks exchange with each other in a phase: all, unless a method
        overrides it."""
        return ranks

    @property
    def needs_values(self) -> bool:
        """True if the bytes depend on the gradient's values, so that ``phases`` uses the measured sizes of
        ``Gradient.coded``, and the largest possible ones where there are none; False unless a method overrides it."""
        return False

    @property
    def coding(self) -> ExchangeMethod:
        """The method that codes values: this one, or, for a method around another, the innermost one."""
        return self

    @property
    def fused(self) -> bool:
        """True if one kernel codes a message on accelerators, which assumed engines price with fewer accesses of
        memory; True unless a method says otherwise."""
        return True

    @property
    def state_values(self) -> float:
        """Float32 values that a rank keeps between steps, for each value of the gradient: 1 with feedback, else 0,
        unless a method keeps more."""
        return 1.0 if self.feedback else 0.0

    @property
    def every(self) -> int:
        """Number of steps from one exchange to the next; 1 unless a method says otherwise."""
        return 1

    @property
    def synchronous(self) -> bool:
        """True if all ranks apply the same gradient at every step (``every`` is 1); plans of other methods do other
        training."""
        return self.every == 1

    def sent_bytes(self, gradient: Gradient, ranks: int) -> float:
        """Return the bytes that one rank sends in all phases of one exchange, on average over ranks, as the hooks count
        them.

        An all-reduce is counted as a reduce-scatter and an all-gather, 2 (ranks - 1) / ranks of its size.
        """
        return sum(sent_in_phase(phase, self.ranks_of(phase, ranks)) for phase in self.phases(gradient, ranks))

    def __str__(self) -> str:
        """Return the name with all options, as ``find`` reads it."""
        return self.name


def sent_in_phase(phase: Phase, ranks: int) -> float:
    """Return the bytes that one rank sends in a phase, on average over ranks, if no byte is sent twice.

    It is (ranks - 1) / ranks of the phase's size, twice that for an all-reduce. Where sizes depend on the number of
    summed gradients, the two halves of the all-reduce are the mean size over a ring's hops, and the size of a sum over
    all ranks, each times (ranks - 1) / ranks.

    Args:
        phase: one collective of an exchange.
        ranks: number of ranks that exchange with each other in it.
    """
    share = (ranks - 1) / ranks
    if phase.nbytes_by_terms:
        return share * (sum_over_hops(phase, ranks) + nbytes_of_terms(phase, ranks))
    return share * phase.nbytes * (2 if phase.kind == "all-reduce" else 1)


def sum_over_hops(phase: Phase, ranks: int) -> float:
    """Return the mean size of a phase over the hops of a ring's reduce-scatter, on which sums of 1, 2 ... ``ranks`` - 1
    gradients travel; in bytes of the whole gradient, not of the share that a hop carries; 0 for a single rank."""
    hops = range(1, ranks)
    return sum(nbytes_of_terms(phase, terms) for terms in hops) / max(len(hops), 1)


def nbytes_of_terms(phase: Phase, terms: int) -> float:
    """Return the bytes of a phase that carries a sum of ``terms`` gradients (at least 1): interpolated over the
    logarithm of the number of terms, constant beyond the measured numbers, and ``nbytes`` where sizes do not depend on
    them."""
    from numpy import interp, log2

    if not phase.nbytes_by_terms:
        return phase.nbytes
    counts, sizes = zip(*phase.nbytes_by_terms, strict=True)
    return float(interp(log2(terms), log2(counts), sizes))


# A family of methods: the ones that differ in their options.

Find = Callable[[str], ExchangeMethod]
"""Returns the method of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Methods that differ in their options."""

    name: str
    summary: str
    """One line that says what the methods do."""
    options: tuple[tuple[str, str], ...]
    """(option, what it means and its default) in the order in which names spell them."""
    build: Callable[[str, dict[str, str], Find], ExchangeMethod]
    """Builds a method from the text as the user wrote it, for messages, the options in it, and what finds methods that
    are options."""
    compared: tuple[str, ...] | None = None
    """Methods that comparisons and benchmarks run unless others are named; None for the one of the family's name."""


# How methods are written: ``name:key=value,flag``; a value in parentheses may hold commas itself.
#
# diloco:every=50,inner=(int4:block=64,feedback)


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """Return (name before the colon, options behind it as texts by key) of a method's name; a flag stands for
    ``flag=yes``, and parentheses around a value are taken off. No option is checked; ``float32`` alone gives no
    options.

    Raises:
        ConfigError: parentheses do not match, or an option is empty or given twice.
    """
    name, colon, rest = text.strip().partition(":")
    options: dict[str, str] = {}
    for part in _split_options(rest, text) if colon else ():
        key, equals, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not key or (equals and not value):
            raise ConfigError(f"exchange {text!r}: empty option in {rest!r}: expected key=value or a flag")
        if key in options:
            raise ConfigError(f"exchange {text!r}: option {key!r} is given twice")
        options[key] = value.removeprefix("(").removesuffix(")") if value.startswith("(") else value or "yes"
    return name.strip(), options


def read_options(text: str, options: Mapping[str, str], readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Return the values of the options that are given, by key, each read by its reader; defaults are not filled in.

    Args:
        text: full text that the user wrote, for messages.
        options: given options, as texts.
        readers: function that reads the text of each option there is, and raises ValueError or InputError.

    Raises:
        ConfigError: there is no such option, or its reader raised ValueError; an InputError of a reader passes
            unchanged.
    """
    values = {}
    for key, value in options.items():
        if key not in readers:
            raise ConfigError(f"exchange {text!r}: no option {key!r}: expected one of {', '.join(readers) or 'none'}")
        try:
            values[key] = readers[key](value)
        except InputError:
            raise
        except ValueError as error:
            raise ConfigError(f"exchange {text!r}: option {key}={value}: {error}") from error
    return values


def flag(text: str) -> bool:
    """Return True for ``yes`` and False for ``no``.

    Raises:
        ValueError: it is neither.
    """
    if text not in ("yes", "no"):
        raise ValueError("expected yes or no")
    return text == "yes"


def whole(least: int, largest: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` to ``largest``, both included, in decimal digits, which raises
    ValueError for any other text."""

    def read_whole(text: str) -> int:
        """Return the whole number of a text; raises ValueError where it is none, or out of range."""
        if not text.lstrip("-").isdigit() or not least <= int(text) <= largest:
            raise ValueError(f"expected a whole number from {least} to {largest}")
        return int(text)

    return read_whole


def real(least: float, largest: float) -> Callable[[str], float]:
    """Return a reader of numbers from ``least`` to ``largest``, both included, in any form that ``float`` reads, which
    raises ValueError for any other text, NaN too."""

    def read_real(text: str) -> float:
        """Return the number of a text; raises ValueError where it is none, NaN, or out of range."""
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= largest:
            raise ValueError(f"expected a number from {least:g} to {largest:g}")
        return value

    return read_real


def _split_options(rest: str, text: str) -> list[str]:
    """Return the options between the commas of ``rest`` that stand outside parentheses, which the parts keep; raises
    ConfigError, quoting ``text``, where parentheses do not match."""
    parts, depth, part = [], 0, ""
    for character in rest:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    if depth != 0:
        raise ConfigError(f"exchange {text!r}: parentheses do not match in {rest!r}")
    return [*parts, part]


# What was measured of a method's effect on the loss, here, by ``lightloom exchange compare``.
#
# Only our own runs are in ``evidence.json``; published figures, and figures of throw-away scripts, are not. A method
# without rows is "not measured": nothing is inferred from methods that are like it.

SCHEMA = "lightloom.exchange-evidence/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Validation losses of one method against those of float32 from the same seeds."""

    method: str
    """Name with all options."""
    task: str
    """Description of the training: data, network, optimizer."""
    steps: int
    seeds: int
    ranks: int
    loss_difference: float
    """Mean over seeds of the method's loss minus that of float32."""
    spread: float
    """Standard deviation of these differences over seeds; 0 for one seed."""
    command: str
    """Command line that reproduces the figures."""

    def __str__(self) -> str:
        """Return one line: the difference in loss, ± its spread where there are several seeds, the task, and in
        parentheses steps, ranks and seeds."""
        spread = f" ± {self.spread:.2g}" if self.seeds > 1 else ""
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds"
        runs = f"{self.steps} steps, {self.ranks} ranks, {seeds}"
        return f"{self.loss_difference:+.3g}{spread} in loss on {self.task} ({runs})"

    def to_json(self) -> dict[str, object]:
        """Return the fields by name, as a row of ``evidence.json`` holds them."""
        return asdict(self)


@cache
def evidence() -> tuple[Evidence, ...]:
    """Return all rows that were measured, in the order of the package's own ``evidence.json``.

    Raises:
        ConfigError: the package's table is damaged.
    """
    return _read_evidence(files("lightloom.exchange").joinpath("evidence.json").read_bytes, "evidence.json")


def _read_evidence(content: Callable[[], bytes], place: str) -> tuple[Evidence, ...]:
    """Return the rows of a table of evidence.

    Args:
        content: returns the JSON document as bytes.
        place: name of the table, for the message.

    Raises:
        ConfigError: the table cannot be read, or has another schema or other fields.
    """
    try:
        document = json.loads(content())
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}, expected {SCHEMA!r}")
        return tuple(Evidence(**row) for row in document["rows"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"the table of measured exchanges {place!r} cannot be read: {error}") from error


def merge_evidence(path: Path, rows: Sequence[Evidence]) -> str:
    """Return the JSON text of the table at ``path`` (empty if there is no file) without its rows of the same method and
    task as one of ``rows``, and with ``rows`` at the end; nothing is written.

    Raises:
        ConfigError: the file holds something else.
    """
    kept = _read_evidence(path.read_bytes, str(path)) if path.exists() else ()
    fresh = {(row.method, row.task) for row in rows}
    every = [*(row for row in kept if (row.method, row.task) not in fresh), *rows]
    return json.dumps({"schema": SCHEMA, "rows": [row.to_json() for row in every]}, indent=1) + "\n"


def evidence_of(method: str) -> tuple[Evidence, ...]:
    """Return the rows measured for the method of that full name, with exactly these options; empty where nothing
    was."""
    return tuple(row for row in evidence() if row.method == method)


def accuracy_note(method: str) -> str:
    """Return one line on the measured effect of a method, by its full name, on the loss: ``measured: `` and its rows
    separated by semicolons, such as ``+0.012 ± 0.003 in loss on TASK (500 steps, 4 ranks, 3 seeds)``, the mean loss
    less that of float32 and its standard deviation over seeds (left out for one), or ``not measured``."""
    rows = evidence_of(method)
    return "measured: " + "; ".join(map(str, rows)) if rows else "not measured"
