"""The methods that lightloom has: what each sends and computes, and how its options are written; none needs torch."""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from itertools import accumulate, pairwise
from math import ceil, prod
from typing import Any

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.plugins import plugins_of
from lightloom.exchange.compression.registry import find as find_codec
from lightloom.exchange.compression.registry import read_bound
from lightloom.exchange.method import (
    ExchangeMethod,
    Family,
    Find,
    Gradient,
    Phase,
    Work,
    flag,
    read_options,
    real,
    split_name,
    whole,
)


class BuiltInExchange(ExchangeMethod):
    """A method of a built-in family, whose name follows from the options of that family."""

    __slots__ = ()
    family: str
    """Name of the family, under which ``BUILT_IN`` describes it."""

    @property
    def name(self) -> str:
        """Full name, as ``find`` reads it, ``topk:share=0.01,feedback``: the family and every option, those at their
        default too; a flag that is off by default stands in it only where it is on."""
        return _spelled(self)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return the computation of a rank in one exchange: none here; families that code values override it."""
        return Work()


@cache
def _spelled(method: BuiltInExchange) -> str:
    """Return the full name of a method: its family, a colon, and every option as ``Option.spell`` writes it, joined by
    commas; the family alone where no option is written."""
    options = _OPTIONS[method.family].items()
    words = [option.spell(key, getattr(method, option.attribute or key)) for key, option in options]
    return ":".join(filter(None, [method.family, ",".join(filter(None, words))]))


def _work_of_shares(encoded: float, decoded: float, ranks: int) -> Work:
    """Return the work of a rank that codes ``encoded`` and decodes ``decoded`` values in all (of the whole exchange)
    where each message holds one rank's share of the gradient: ``ranks`` messages are encoded and 2 ``ranks`` - 1
    decoded."""
    messages = {"encoded_messages": ranks, "decoded_messages": 2 * ranks - 1}
    return Work(encoded_values=encoded, decoded_values=decoded, **messages)


def _sum_of_works(works: Sequence[Work]) -> Work:
    """Return one ``Work`` whose every field is the sum of that field over ``works``; zeros for none."""
    return Work(**{field.name: sum(getattr(work, field.name) for work in works) for field in fields(Work)})


def written(value: object) -> str:
    """Return a value as names of methods spell it: its text, in parentheses where that holds a comma or a colon."""
    text = str(value)
    return f"({text})" if "," in text or ":" in text else text


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a built-in family: how it is read and written, and what it means."""

    read: Callable[[str], Any]
    """Reads its value; raises ValueError for a text that is none."""
    default: str
    """Text that stands for it in names that leave it out."""
    meaning: str
    """One line that says what it does, with its default."""
    attribute: str = ""
    """Attribute of the method that holds the value, where it has another name than the option."""
    write: Callable[[Any], str] = written
    """Writes a value as ``read`` reads it."""

    def spell(self, key: str, value: Any) -> str:
        """Return the option as names of methods have it: ``key=value``. A flag is ``key`` where it is on; where it is
        off, ``key=no`` if it is on by default, else empty.

        Args:
            key: name of the option.
            value: value of the method's attribute, as ``read`` returns it.
        """
        if self.read is not flag:
            return f"{key}={self.write(value)}"
        off = f"{key}=no" if self.default == "yes" else ""
        return key if value else off


# Gradients as they are: the all-reduce that a framework runs without any hook.


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainExchange(BuiltInExchange):
    """The plain exchange: one all-reduce of float32 values, nothing coded."""

    family = "float32"
    scale_free = True

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return one all-reduce of the whole gradient, 4 bytes a value, whatever the number of ranks."""
        return (Phase(kind="all-reduce", nbytes=4.0 * gradient.values),)


# Narrow formats, summed in float32: each rank sends its shares to their owners, which add up and send the sums back.
#
# all-to-all of codes  ->  the owner of a share adds all ranks' values in float32  ->  all-gather of the sum's codes
#
# Each value is encoded twice whatever the number of ranks, unlike around a ring, where every hop encodes a partial
# sum. Sources: the quantised all-reduce of torchft; ZeRO++ (Wang et al., 2023), section 3.3.


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """How a narrow format stores values."""

    name: str
    bits: int
    """Bits for each code."""
    block: int
    """Default number of values that share a scale; 0 where values have no scale."""
    summary: str
    feedback: str = "yes"
    """``yes`` if error feedback is the default: without it, the loss grows visibly (docs/exchange.md)."""


WIDTHS = (
    Width(name="bf16", bits=16, block=0, feedback="no", summary="bfloat16"),
    Width(name="fp16", bits=16, block=0, feedback="no", summary="IEEE half precision; overflows at 65,504"),
    Width(name="fp8", bits=8, block=256, feedback="no", summary="8-bit floats (e4m3), a scale a block"),
    Width(name="int8", bits=8, block=256, feedback="no", summary="8-bit integers, a scale a block"),
    Width(name="int4", bits=4, block=128, summary="4-bit integers, a scale a block"),
    Width(name="int3", bits=3, block=128, summary="3-bit integers, a scale a block"),
    Width(name="lloyd2", bits=2, block=64, summary="2 bits at the Lloyd-Max levels of a Gaussian"),
    Width(name="sign", bits=1, block=256, summary="signs and a mean size a block"),
)

SCALE_BYTES = 2
"""Each block begins with its scale, a bfloat16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockExchange(BuiltInExchange):
    """All-to-all and all-gather of a narrow format."""

    width: Width
    block: int
    """Values that share a scale; 0 where values have none."""

    @property
    def family(self) -> str:  # type: ignore[override]
        """Name of the format, such as ``int4``."""
        return self.width.name

    @property
    def scale_free(self) -> bool:
        """True for all formats but fp16: multiplying all gradients by a power of two multiplies the result by it, bit
        for bit; the range of fp16 is too narrow for that."""
        return self.width.name != "fp16"

    @property
    def fused(self) -> bool:
        """True for all formats but fp8, for which there is no Triton kernel that codes a message in one pass."""
        return self.width.name != "fp8"

    def nbytes(self, values: int) -> int:
        """Return the bytes of the codes and scales of one tensor of ``values`` values: ceil(values / block) blocks, the
        last one padded, each of 2 bytes of scale and block bits / 8 bytes of codes; of the codes alone, rounded down,
        in formats without scales."""
        if not self.block:
            return values * self.width.bits // 8
        return -(-values // self.block) * (SCALE_BYTES + self.block * self.width.bits // 8)

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return an all-to-all and an all-gather, each of the codes and scales of the whole gradient, in which every
        tensor has blocks of its own; the bytes do not depend on ``ranks``."""
        nbytes = float(sum(self.nbytes(prod(shape)) for shape in gradient.shapes))
        return (Phase(kind="all-to-all", nbytes=nbytes), Phase(kind="all-gather", nbytes=nbytes))

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return a rank's work: it encodes as many values as the gradient has (the other ranks' shares of its gradient,
        and the means of its own share), and decodes its own share from each other rank, then the means of all shares:
        ``ranks`` messages are encoded and 2 ``ranks`` - 1 decoded."""
        return _work_of_shares(gradient.values, gradient.values * (1 + (ranks - 1) / ranks), ranks)


def _power_of_two(text: str) -> int:
    """Return the block size that a text names, a power of two from 8 to 4096; raises ValueError for any other text."""
    value = whole(8, 4096)(text)
    if value & (value - 1):
        raise ValueError("expected a power of two from 8 to 4096")
    return value


# Top-k: of each tensor the values of largest size, with their indices; all ranks gather all ranks' and add them up.
#
# What is sent grows with the ranks: (ranks - 1) · share · 8 bytes a value, more than float32 from about 1 / share
# ranks on. Source: Lin et al., Deep Gradient Compression (ICLR 2018); its momentum correction is left out.

PAIR_BYTES = 8
"""An index (int32, from the start of its tensor) and a value (float32)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKExchange(BuiltInExchange):
    """All-gather of the largest values and their indices."""

    family = "topk"
    scale_free = True
    fused = False
    share: float
    """Values of each tensor that are sent, as a share of all; at least one."""

    def kept(self, values: int) -> int:
        """Return the number of values that are sent of a tensor of ``values`` values: ``share`` of them, rounded up, at
        least one and at most all."""
        return min(max(ceil(self.share * values), 1), values)

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return one all-gather; its size is what all ``ranks`` ranks keep together, 8 bytes for each value that is
        kept of each tensor."""
        kept = sum(self.kept(prod(shape)) for shape in gradient.shapes)
        return (Phase(kind="all-gather", nbytes=float(ranks * PAIR_BYTES * kept)),)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return a rank's work: all values of its gradient count as encoded, in one message, and the values that all
        ``ranks`` ranks keep as decoded, in ``ranks`` messages."""
        kept = sum(self.kept(prod(shape)) for shape in gradient.shapes)
        return Work(
            encoded_values=gradient.values, decoded_values=ranks * kept, encoded_messages=1, decoded_messages=ranks
        )


# PowerSGD: each gradient matrix M [rows, columns] as P Qᵀ of low rank, P and Q being averaged over ranks.
#
# P = mean of M Q  ->  orthogonalise P  ->  Q = mean of Mᵀ P  ->  M ≈ P Qᵀ
#
# Q is kept as the start of the next step. Tensors of one dimension, and those whose factors would not be smaller, go
# as float32. Source: Vogels, Karimireddy and Jaggi, PowerSGD (NeurIPS 2019), Algorithm 1.


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSgdExchange(BuiltInExchange):
    """All-reduces of the factors of each matrix."""

    family = "powersgd"
    scale_free = False
    """It would take an orthogonalisation whose rounding does not depend on the scale."""
    rank: int
    """Columns of each factor."""

    def factors(self, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
        """Return (rows, columns, rank) of a tensor's factors, P [rows, rank] and Q [columns, rank]; None for a tensor
        that is sent as float32.

        The first dimension gives the rows, all others together the columns; ``rank`` is cut to the smaller of both.
        None comes for a tensor of fewer than two dimensions, and where the factors are not smaller: (rows + columns)
        rank >= rows columns.
        """
        if len(shape) < 2:
            return None
        rows, columns = shape[0], prod(shape[1:])
        rank = min(self.rank, rows, columns)
        return (rows, columns, rank) if (rows + columns) * rank < rows * columns else None

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return up to three float32 all-reduces, in this order: of tensors that are not factored, of the factors P
        [rows, rank] of all others, and of their Q [columns, rank]; empty ones are left out. The sizes do not depend on
        ``ranks``."""
        matrices = self._matrices(gradient)
        plain = sum(prod(shape) for shape in gradient.shapes if self.factors(shape) is None)
        left = sum(rows * rank for rows, _, rank in matrices)
        right = sum(columns * rank for _, columns, rank in matrices)
        return tuple(Phase(kind="all-reduce", nbytes=4.0 * size) for size in (plain, left, right) if size)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return a rank's work on the tensors that are sent as factors: M Q and Mᵀ P count every value as encoded
        twice, P Qᵀ as decoded once; each matrix takes three calls, and ``flops`` are those of the three products, 6
        rows columns rank, and of Gram-Schmidt on P, 2 rows rank². Tensors sent as float32 count as no work; nothing
        depends on ``ranks``."""
        matrices = self._matrices(gradient)
        values = sum(rows * columns for rows, columns, _ in matrices)
        flops = sum(6 * rows * columns * rank + 2 * rows * rank * rank for rows, columns, rank in matrices)
        return Work(encoded_values=2 * values, decoded_values=values, calls=3 * len(matrices), flops=float(flops))

    def _matrices(self, gradient: Gradient) -> list[tuple[int, int, int]]:
        """Return (rows, columns, rank) of each tensor that is sent as factors, in the gradient's order."""
        return [factors for shape in gradient.shapes if (factors := self.factors(shape)) is not None]


# Codecs of floats around a ring: every hop encodes a partial sum anew, the finished sum goes round as it is.
#
# reduce-scatter   hop h carries sums of h gradients, h = 1 ... ranks - 1
# all-gather       sums of all ranks' gradients
#
# INCEPTIONN's bound is absolute, so that larger sums take more bits; scaled, each tensor's part of a message is
# multiplied by a power of two that brings its root mean square near 2^-5, which a free byte of its header holds.
# Truncation is what the INCEPTIONN paper compares with.
# Sources: Li et al., MICRO 2018, Algorithms 1 to 3; ``lightloom.exchange.transport.ring_all_reduce``.

STREAM_BYTES = 32
"""Header of a coded message and of its first frame (``compression.stream``); a frame more every 65,536 values."""
FRAME_BYTES, FRAME_VALUES = 8, 1 << 16
LENGTH_BYTES = 4
"""Scaled, a message is a stream for each tensor, behind its length, so that scales do not depend on DDP's buckets."""
_MOST_EXPONENT = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class RingCodecExchange(BuiltInExchange):
    """All-reduce around a ring whose hops carry coded partial sums."""

    @property
    def codec(self) -> str:
        """Name of the codec, as :func:`lightloom.exchange.compression.registry.find` reads it; every subclass overrides
        it, here it raises NotImplementedError."""
        raise NotImplementedError

    @property
    def largest_bits(self) -> float:
        """Bits of a value, tags included, by which ``phases`` reckons where no sizes were measured: 32, unless a
        subclass overrides it."""
        return 32.0

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return one all-reduce, whose bytes are those of the coded values and of the headers: 32 bytes for each of
        ``ranks`` shares (for each share of each tensor, and 4 more, where the codec scales messages), and 8 for every
        further 65,536 values.

        A value takes the bits measured for this codec (``Gradient.coded``) where the method needs values and they were
        measured, else ``largest_bits``. With measured bits of several sums, ``nbytes_by_terms`` has the bytes by number
        of summed gradients, and ``nbytes`` is that of the fewest; else ``nbytes_by_terms`` is empty.
        """
        values = gradient.values
        # Of the frames behind the first of a message, as if the last one could be cut short.
        frames = max(values / FRAME_VALUES - ranks, 0.0) * FRAME_BYTES
        streams = ranks * STREAM_BYTES
        if find_codec(self.codec).scales_messages:
            streams = ranks * len(gradient.shapes) * (STREAM_BYTES + LENGTH_BYTES)
        headers = streams + frames
        # Pairs (number of summed gradients, average bits of a value, tags included).
        measured = (gradient.bits_by_terms(self.codec) if self.needs_values else ()) or ((1, self.largest_bits),)
        sizes = tuple((terms, values * bits / 8 + headers) for terms, bits in measured)
        return (Phase(kind="all-reduce", nbytes=sizes[0][1], nbytes_by_terms=sizes if len(sizes) > 1 else ()),)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return a rank's work: it encodes one message of a share at each of ``ranks`` - 1 hops of the reduce-scatter
        and one finished sum, and decodes 2 ``ranks`` - 1 messages of a share, that finished sum of its own among them:
        the gradient's values encoded, (2 ``ranks`` - 1) / ``ranks`` times as many decoded."""
        return _work_of_shares(gradient.values, gradient.values * (2 * ranks - 1) / ranks, ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class InceptionnExchange(RingCodecExchange):
    """INCEPTIONN's codec around its ring; scaled, its bound is relative to the root mean square of each message."""

    family = "inceptionn"
    needs_values = True
    largest_bits = 34.0
    """Bits of a value that is sent as it is, tag included."""
    exponent: int
    """k of the bound 2^-k."""
    scaled: bool = False
    """True if every message is scaled by a power of two of its own before it is coded."""

    @property
    def codec(self) -> str:
        """Name of the codec: ``inceptionn:2^-k``, or ``inceptionn-scaled:2^-k`` where messages are scaled."""
        return f"inceptionn{'-scaled' if self.scaled else ''}:2^-{self.exponent}"

    @property
    def scale_free(self) -> bool:
        """True where messages are scaled, so that the bound is relative and multiplying gradients by a power of two
        multiplies the result by it, bit for bit."""
        return self.scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedExchange(RingCodecExchange):
    """Float32 without its low bits, around a ring."""

    family = "truncate"
    bits: int
    """Low bits that are cut off each value, as the paper counts them: 16b-T, 22b-T, 24b-T."""

    @property
    def codec(self) -> str:
        """Name of the codec with the bits cut off: ``truncate:16``."""
        return f"truncate:{self.bits}"

    @property
    def scale_free(self) -> bool:
        """True where fewer than 24 bits are cut off, so that multiplying gradients by a power of two multiplies the
        result by it; 24 take the last bit of the exponent too, by which every second power of two becomes another
        value."""
        return self.bits < 24

    @property
    def largest_bits(self) -> float:
        """Bits of a value on the wire, 32 less those cut off."""
        return 32.0 - self.bits


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecExchange(RingCodecExchange):
    """Any registered codec around a ring, those of plug-ins too."""

    family = "codec"
    scale_free = False
    """Nothing is known of other people's codecs."""
    needs_values = True
    coder: str
    """Full name of the codec."""

    @property
    def codec(self) -> str:
        """Full name of the codec, ``coder``."""
        return self.coder


def _read_bound(text: str) -> int:
    """Return k of a bound written ``2^-k``, ``2**-k`` or as that number in decimals; raises ValueError unless it is a
    power of two and k is 1 to 14."""
    try:
        mantissa, exponent = math.frexp(read_bound(text))
    except (ValueError, OverflowError):
        mantissa, exponent = 0.0, 0
    if mantissa != 0.5 or not 1 <= 1 - exponent <= _MOST_EXPONENT:
        raise ValueError(f"expected a power of two from 2^-1 to 2^-{_MOST_EXPONENT}")
    return 1 - exponent


def _read_codec(text: str) -> str:
    """Return the full name, defaults included, of the codec that a text names (``family:parameter``); raises
    UnknownNameError for an unknown family, ConfigError for a parameter that cannot be read or is out of range."""
    return find_codec(text).name


def _read_dropped(text: str) -> int:
    """Return the number of low bits to cut off, 16, 22 or 24; raises ValueError for any other text."""
    if text not in ("16", "22", "24"):
        raise ValueError("expected 16, 22 or 24")
    return int(text)


# Averages of integer codes by an averager of light: OptINC's servers around a chip.
#
# all-gather of block exponents  ->  largest over ranks  ->  codes  ->  the averager's mean codes on every rank
#
# Where no light adds codes up, hooks send each share of the codes to one rank and gather the means: the same bytes as
# an all-reduce of codes. Sources: ``lightloom.photonics.averaging.block_quantisation``,
# ``lightloom.photonics.registry``.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpticalExchange(BuiltInExchange):
    """All-reduce of codes that share a power-of-two scale in each block."""

    family = "optical"
    averager: str
    """Name of the averager, as :func:`lightloom.photonics.registry.find_averager` reads it."""
    bits: int
    """Bits of a code."""
    block: int
    """Values that share a scale; no block spans two tensors."""

    @property
    def scale_free(self) -> bool:
        """True if the averager is ``ideal``, which gives equal codes the same mean, without noise or errors of its own,
        so that multiplying all gradients by a power of two multiplies the result by it, bit for bit."""
        return self.averager == "ideal"

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return an all-gather of block exponents, its size one byte a block from each of ``ranks`` ranks together,
        blocks not spanning tensors, and an all-reduce of codes of ``bits`` bits a value."""
        blocks = sum(-(-prod(shape) // self.block) for shape in gradient.shapes)
        return (
            Phase(kind="all-gather", nbytes=float(ranks * blocks)),
            Phase(kind="all-reduce", nbytes=gradient.values * self.bits / 8),
        )

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return a rank's work: every value encoded and decoded once, in one message each, whatever the number of
        ``ranks``."""
        return Work(
            encoded_values=gradient.values, decoded_values=gradient.values, encoded_messages=1, decoded_messages=1
        )


def _read_averager(text: str) -> str:
    """Return the name of an averager unchanged if the part before its colon is a known kind, else raise
    UnknownNameError; options behind the colon are not checked."""
    from lightloom.photonics.registry import KNOWN

    if text.partition(":")[0] not in KNOWN:
        raise UnknownNameError("averager", text, KNOWN)
    return text


# Methods inside methods: ``inner=(int4:block=128,feedback)``.


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterExchange(BuiltInExchange):
    """A method around another one, which codes the values."""

    @property
    def coded_by(self) -> ExchangeMethod:
        """The method inside, which codes the values; every subclass overrides it, here it raises
        NotImplementedError."""
        raise NotImplementedError

    @property
    def scale_free(self) -> bool:
        """True where the method inside is scale-free: multiplying all gradients by a power of two multiplies the result
        by it, bit for bit."""
        return self.coded_by.scale_free

    @property
    def needs_values(self) -> bool:
        """True where the bytes of the method inside depend on the gradient's values."""
        return self.coded_by.needs_values

    @property
    def coding(self) -> ExchangeMethod:
        """The innermost method, which codes the values: ``coding`` of the method inside."""
        return self.coded_by.coding


def _read_inner(text: str) -> ExchangeMethod:
    """Return the method that a full name names; raises ValueError for one that does not average gradients at every step
    (LocalSGD, DiLoCo), and UnknownNameError or ConfigError where the name cannot be read."""
    method = find(text)
    if not method.synchronous:
        raise ValueError("expected a method that exchanges at every step, not localsgd or diloco")
    return method


# Sums inside a node, where links are fast, and another method between nodes.
#
# inside   reduce-scatter: rank s of a node has the node's sum of slot s
# between  the method, among the ranks of slot s of all nodes
# inside   all-gather of the averages
#
# Each rank sends 1 / node of the gradient between nodes. Source: ZeRO++ (Wang et al., 2023), section 3.3, for the
# order. Inside, ranks send each other float32, or what the rows of two schedules say, coded at every row.


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSums:
    """Reduce-scatter and all-gather by the rows of an algorithm's schedules for the ranks of a node."""

    algorithm: str
    """Name of the algorithm, as ``lightloom collective --algorithm`` reads it."""
    fabric: str
    """Fabric of the schedules: a name in the catalog or a file."""
    coding: PlainExchange | BlockExchange
    """How values are coded on the wire; sums are float32."""

    def __str__(self) -> str:
        """Return the name with all options, as ``two-level:inside=`` reads it."""
        return f"{self.algorithm}:coding={written(self.coding)},fabric={written(self.fabric)}"

    def check(self, ranks: int) -> None:
        """Check that the algorithm can make both a reduce-scatter and an all-gather for ``ranks`` ranks on the fabric;
        no schedule is built.

        Raises:
            UnknownNameError: there is no such algorithm or fabric.
            ConfigError: the algorithm refuses one of the two there, or the fabric cannot have so many ranks.
        """
        from lightloom.collectives.registry import find as find_algorithm
        from lightloom.machines.fabrics.load import load_fabric

        algorithm, fabric = find_algorithm(self.algorithm), load_fabric(self.fabric, ranks)
        for kind in ("reduce-scatter", "all-gather"):
            if (why := algorithm.refusal(kind, fabric)) is not None:
                raise ConfigError(f"inside=({self}) among {ranks} ranks: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelExchange(OuterExchange):
    """Reduce-scatter and all-gather in a node around a method between nodes."""

    family = "two-level"
    inside: PlainExchange | ScheduledSums = PlainExchange()
    """Sums in a node: of float32, sent to the rank that adds them, or by schedules."""
    between: ExchangeMethod
    """Method that averages each slot between the nodes."""
    node: int
    """Ranks of a node."""

    def __post_init__(self) -> None:
        """Check that the schedules exist by which a node sums; raises ConfigError where they do not."""
        if isinstance(self.inside, ScheduledSums):
            self.inside.check(self.node)

    @property
    def coded_by(self) -> ExchangeMethod:
        """The method between nodes."""
        return self.between

    @property
    def coded_inside(self) -> PlainExchange | BlockExchange:
        """The method that codes values inside a node: plain float32, or the coding of the schedules."""
        return self.inside.coding if isinstance(self.inside, ScheduledSums) else self.inside

    @property
    def scale_free(self) -> bool:
        """True where the codings inside and between nodes are both scale-free: multiplying all gradients by a power of
        two multiplies the result by it, bit for bit."""
        return self.between.scale_free and self.coded_inside.scale_free

    @property
    def state_values(self) -> float:
        """Float32 values kept for each value of the gradient: those of the method between nodes, divided by
        ``node``."""
        return self.between.state_values / self.node

    def ranks_of(self, phase: Phase, ranks: int) -> int:
        """Return how many ranks exchange with each other in a phase: the ranks of a node where the phase is inside a
        node, else the number of nodes that ``ranks`` ranks fill; raises ConfigError where they do not fill nodes."""
        return self.node if phase.where == "in a node" else self.nodes(ranks)

    def slot(self, gradient: Gradient) -> Gradient:
        """Return the gradient that a rank exchanges between nodes: one of ``node`` equal slots of all tensors laid one
        after the other.

        It has one dimension, of ceil(values / node) values; measured sizes (``coded``) are kept.
        """
        return replace(gradient, shapes=((-(-gradient.values // self.node),),))

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return the phases in order: a reduce-scatter in the node, the phases of the method between nodes on one
        rank's slot (none with a single node), and an all-gather in the node.

        The phases in the node have the bytes of ``node`` slots as coded there: 4 bytes a value for float32, codes and
        scales for a narrow format.

        Raises:
            ConfigError: the ranks do not fill nodes.
        """
        nodes, (inside, *_) = self.nodes(ranks), self.coded_inside.phases(self.slot(gradient), self.node)
        nbytes = inside.nbytes * self.node
        between = self.between.phases(self.slot(gradient), nodes) if nodes > 1 else ()
        return (
            Phase(kind="reduce-scatter", nbytes=nbytes, where="in a node"),
            *(replace(phase, where="between nodes") for phase in between),
            Phase(kind="all-gather", nbytes=nbytes, where="in a node"),
        )

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return a rank's work: coding inside the node, which is none for float32, added to the work of the method
        between nodes on this rank's slot where there are several nodes; raises ConfigError where the ranks do not fill
        nodes."""
        nodes, slot = self.nodes(ranks), self.slot(gradient)
        works = [self.between.work(slot, nodes)] if nodes > 1 else []
        if self.coded_inside != PlainExchange():
            works.append(self.coded_inside.work(Gradient.flat(slot.values * self.node), self.node))
        return _sum_of_works(works)

    def nodes(self, ranks: int) -> int:
        """Return the number of nodes, ranks / ``node``; raises ConfigError where the ranks do not fill nodes."""
        if ranks % self.node:
            raise ConfigError(f"exchange {self.name!r}: {ranks} ranks: expected a multiple of node={self.node}")
        return ranks // self.node


def _read_inside(text: str) -> PlainExchange | ScheduledSums:
    """Return how values are summed inside a node: plain for ``float32``, else the name of an algorithm with the options
    ``coding`` (float32 by default) and ``fabric`` (``wdm-ring`` by default). Algorithm and fabric are not checked.

    Raises:
        ValueError: the coding is neither float32 nor a narrow format, or has feedback.
        UnknownNameError: there is no such coding.
        ConfigError: another option is given, or parentheses do not match.
    """
    if text == "float32":
        return PlainExchange()
    name, given = split_name(text)
    defaults = {"coding": "float32", "fabric": "wdm-ring"}
    values = read_options(text, defaults | given, {"coding": find, "fabric": str})
    if not isinstance(coding := values["coding"], PlainExchange | BlockExchange) or coding.feedback:
        raise ValueError(f"coding={coding}: expected float32 or a narrow format without feedback, for example int8")
    return ScheduledSums(algorithm=name, **values)


def _read_between(text: str) -> ExchangeMethod:
    """Return the method that a full name names; raises ValueError for two-level, PowerSGD, LocalSGD and DiLoCo, which
    cannot run between nodes, and UnknownNameError or ConfigError where the name cannot be read."""
    method = _read_inner(text)
    if isinstance(method, TwoLevelExchange):
        raise ValueError("expected a method of one level")
    if isinstance(method, PowerSgdExchange):
        raise ValueError("expected a method that needs no matrices: a slot cuts tensors anywhere")
    return method


# Methods that exchange weights every so many steps, in between each rank trains alone.
#
# LocalSGD averages the weights. DiLoCo averages what they moved by, the *pseudo-gradient*, with any method, and lets
# an outer optimizer (SGD with Nesterov momentum) apply it to the weights of the last exchange. With several
# fragments, each has its own turn, evenly spread over the steps (streaming DiLoCo).
#
# These do other training than data parallelism: fewer exchanges at equal steps, another loss.
# Sources: Stich, Local SGD (ICLR 2019); Douillard et al., DiLoCo (2023) and Streaming DiLoCo (2025).

_steps = whole(1, 100_000)
"""Reads a number of steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSgdExchange(BuiltInExchange):
    """All-reduce of the weights every so many steps."""

    family = "localsgd"
    scale_free = True
    synchronous = False
    every: int = field()
    """Steps from one average of the weights to the next."""

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return one float32 all-reduce of the weights, 4 bytes a value, which cannot run behind the backward pass; it
        comes once in ``every`` steps."""
        return (Phase(kind="all-reduce", nbytes=4.0 * gradient.values, hideable=False),)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiLoCoExchange(OuterExchange):
    """Pseudo-gradients averaged by another method, an outer optimizer on every rank."""

    family = "diloco"
    synchronous = False
    every: int = field()
    """Inner steps from one exchange of a fragment to its next."""
    inner: ExchangeMethod
    """Method that averages the pseudo-gradients."""
    fragments: int
    outer_lr: float
    outer_momentum: float

    @property
    def coded_by(self) -> ExchangeMethod:
        """The inner method, which averages the pseudo-gradients."""
        return self.inner

    @property
    def state_values(self) -> float:
        """Float32 values that a rank keeps for each weight: that of the last exchange, the outer momentum, and what the
        inner method keeps."""
        return 2.0 + self.inner.state_values

    def ranks_of(self, phase: Phase, ranks: int) -> int:
        """Return how many of ``ranks`` ranks exchange with each other in a phase, as the inner method says."""
        return self.inner.ranks_of(phase, ranks)

    def parts(self, gradient: Gradient) -> tuple[Gradient, ...]:
        """Return the fragments, one gradient each: consecutive tensors, about equally many values each, none empty;
        fewer than ``fragments`` where there are fewer tensors. Measured sizes (``coded``) are kept."""
        shapes = gradient.shapes
        sums = list(accumulate(map(prod, shapes), initial=0))
        count, ends = min(self.fragments, len(shapes)), [0]
        for fragment in range(1, count):
            nearest = bisect_left(sums, sums[-1] * fragment / count)
            ends.append(min(max(nearest, ends[-1] + 1), len(shapes) - count + fragment))
        return tuple(replace(gradient, shapes=shapes[begin:end]) for begin, end in pairwise([*ends, len(shapes)]))

    def turn(self, fragment: int) -> int:
        """Return after which step of a round fragment number ``fragment`` (from 0 on) is exchanged: floor(``every``
        (fragment + 1) / ``fragments``), so that turns are evenly spread and the last of ``fragments`` comes at
        ``every``."""
        return self.every * (fragment + 1) // self.fragments

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Return the inner method's collectives for one round of ``every`` steps, fragment by fragment, none of which
        can run behind the backward pass."""
        return tuple(
            replace(phase, hideable=False) for part in self.parts(gradient) for phase in self.inner.phases(part, ranks)
        )

    def work(self, gradient: Gradient, ranks: int) -> Work:
        """Return the inner method's work on all fragments, which is that of one round of ``every`` steps, added up
        field by field."""
        return _sum_of_works([self.inner.work(part, ranks) for part in self.parts(gradient)])


# All methods that lightloom has: what each does, its options, and how it is built.

_OPTIONS: dict[str, dict[str, Option]] = {}
"""Options of each built-in family by name, in the order in which names spell them."""


def _family(
    name: str,
    summary: str,
    make: Callable[..., ExchangeMethod],
    compared: tuple[str, ...] | None = None,
    /,
    **options: Option,
) -> Family:
    """Return a family of methods, and enter its options in ``_OPTIONS`` under its name. Where there are options
    ``every`` and ``fragments``, a method's ``fragments`` may be at most its ``every``.

    Args:
        name: name of the family.
        summary: one line that says what the methods do.
        make: called with the values of all options, by the attribute of each; returns the method.
        compared: methods that comparisons run unless others are named; None for the one of the family's name.
        options: options by name, in the order in which names spell them.
    """
    _OPTIONS[name] = options

    def build(text: str, given: dict[str, str], _find: Find) -> ExchangeMethod:
        """Return the method of the given option texts, defaults for the rest; ``text`` is the whole name, for
        messages."""
        readers = {key: option.read for key, option in options.items()}
        texts = {key: option.default for key, option in options.items()} | given
        if "fragments" in options:  # at most as many as there are steps between two exchanges of one
            readers["fragments"] = whole(1, read_options(text, {"every": texts["every"]}, readers)["every"])
        values = read_options(text, texts, readers)
        return make(**{options[key].attribute or key: value for key, value in values.items()})

    words = tuple((key, option.meaning) for key, option in options.items())
    return Family(name=name, summary=summary, options=words, build=build, compared=compared)


def _feedback(default: str, words: str = "add the error of each encoding to the") -> Option:
    """Return the option ``feedback``, a flag.

    Args:
        default: ``yes`` or ``no``.
        words: beginning of its meaning, which ends in "next gradient, on (off) by default".
    """
    return Option(flag, default, f"{words} next gradient, {'on' if default == 'yes' else 'off'} by default")


def _narrow(width: Width) -> Family:
    """Return the family of a narrow format; ``block`` is an option only where the format has scales, and ``feedback``
    is by default as the format states."""
    make, options = partial(BlockExchange, width=width, block=0), {"feedback": _feedback(width.feedback)}
    if width.block:
        meaning = f"values that share a scale, {width.block} by default"
        options = {"block": Option(_power_of_two, str(width.block), meaning)} | options
    return _family(width.name, f"{width.summary}; sums in float32", make, **options)


BUILT_IN: tuple[Family, ...] = (
    _family("float32", "all-reduce of float32, as without a hook", PlainExchange),
    *map(_narrow, WIDTHS),
    _family(
        "codec",
        "any codec that `lightloom catalog` lists, plug-ins too, around a ring",
        CodecExchange,
        (),
        name=Option(_read_codec, "block-fixed-point:8", "the codec, block-fixed-point:8 by default", "coder", str),
        feedback=_feedback("no"),
    ),
    _family(
        "inceptionn",
        "INCEPTIONN around a ring: 0, 8, 16 or 32 bits a value, more for larger gradients and sums",
        InceptionnExchange,
        ("inceptionn", "inceptionn:scaled"),
        bound=Option(
            _read_bound,
            "2^-10",
            "largest error of an encoding, a power of two from 2^-1 to 2^-14; 2^-10 by default",
            "exponent",
            "2^-{}".format,
        ),
        scaled=Option(flag, "no", "scale each message by a power of two first; off by default: an absolute bound"),
        feedback=_feedback("yes"),
    ),
    _family(
        "truncate",
        "float32 without its low bits, around a ring",
        TruncatedExchange,
        bits=Option(_read_dropped, "16", "low bits that are cut off: 16 (the default), 22 or 24"),
        feedback=_feedback("no"),
    ),
    _family(
        "topk",
        "the largest values of each tensor with their indices, gathered from all ranks",
        TopKExchange,
        share=Option(real(1e-6, 1.0), "0.01", "values that are sent, from 1e-6 to 1; 0.01 by default"),
        feedback=_feedback("yes", "keep what is not sent for the"),
    ),
    _family(
        "powersgd",
        "each gradient matrix as a product of two narrow ones, which are averaged",
        PowerSgdExchange,
        rank=Option(whole(1, 1024), "2", "columns of the narrow matrices, from 1 to 1024; 2 by default"),
        feedback=_feedback("yes", "add what the product leaves out to the"),
    ),
    _family(
        "localsgd",
        "weights averaged every so many steps; other training than data parallelism",
        LocalSgdExchange,
        every=Option(_steps, "20", "steps from one average to the next; 20 by default"),
    ),
    _family(
        "diloco",
        "what weights moved by averaged every so many steps, with an outer optimizer; other training",
        DiLoCoExchange,
        ("diloco:every=20",),
        every=Option(_steps, "50", "inner steps from one exchange to the next; 50 by default"),
        inner=Option(
            _read_inner, "float32", "method that averages what weights moved by, in parentheses; float32 by default"
        ),
        fragments=Option(_steps, "1", "parts of the model that take turns, at most the steps; 1 by default"),
        outer_lr=Option(real(0.0, 10.0), "0.7", "learning rate of the outer optimizer; 0.7 by default"),
        outer_momentum=Option(real(0.0, 0.9999), "0.9", "Nesterov momentum of the outer optimizer; 0.9 by default"),
    ),
    _family(
        "two-level",
        "sums inside a node, another method between nodes",
        TwoLevelExchange,
        (),
        inside=Option(
            _read_inside,
            "float32",
            "float32 (the default), or in parentheses an algorithm whose schedules are executed, as "
            "synthesized:coding=int8,fabric=wdm-ring; its coding is float32 by default",
        ),
        between=Option(_read_between, "int4", "method between nodes, in parentheses; int4 by default"),
        node=Option(whole(2, 4096), "8", "ranks of a node; 8 by default"),
    ),
    _family(
        "optical",
        "integer codes with a scale a block, averaged by light",
        OpticalExchange,
        (),
        averager=Option(
            _read_averager,
            "ideal",
            "ideal (the default) or another averager, in parentheses; see docs/photonics/averaging.md",
        ),
        bits=Option(whole(2, 32), "16", "bits of a code, from 2 to 32; 16 by default"),
        block=Option(whole(1, 1 << 20), "256", "values that share a scale; 256 by default"),
    ),
)


# Methods by name; plug-ins are registered in the group ``lightloom.exchanges``.


@cache
def families() -> dict[str, Family]:
    """Return all families by name, those of plug-ins included, which replace a built-in one of the same name and
    otherwise come last.

    Raises:
        ConfigError: a plug-in registered something that is not a :class:`Family`.
    """
    return {family.name: family for family in [*BUILT_IN, *plugins_of("exchanges", Family)]}


def names() -> list[str]:
    """Return the names of all families of exchange methods, built-in ones first, without options."""
    return list(families())


def compared() -> tuple[str, ...]:
    """Return the names of the methods that comparisons and benchmarks run unless others are named, those of plug-ins
    included: for each family the names in its ``compared``, or the family's own name where that is None."""
    chosen = [(family.name,) if family.compared is None else family.compared for family in families().values()]
    return tuple(name for group in chosen for name in group)


def find(text: str) -> ExchangeMethod:
    """Return the method that ``text`` names, for example ``int4:block=128,feedback``; options that are left out have
    their defaults.

    Raises:
        UnknownNameError: there is no family of that name, or an option names a codec, averager, algorithm or fabric
            that is unknown.
        ConfigError: an option is unknown, given twice, cannot be read or is out of range, or parentheses do not match.
    """
    name, options = split_name(text)
    if name not in (known := families()):
        raise UnknownNameError("exchange", name, known)
    return known[name].build(text, options, find)


def method_of(method: ExchangeMethod | str) -> ExchangeMethod:
    """Return ``method`` itself if it is one, else the method of that name; raises UnknownNameError or ConfigError where
    the name cannot be read."""
    return find(method) if isinstance(method, str) else method
