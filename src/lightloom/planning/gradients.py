"""A method of exchange as plans price it: what it makes of a model's gradient, and the engine that codes it.

    values of a bucket  ──►  phases: (kind, bytes, group)  ──►  prices of collectives  ──┐
                        └─►  values and messages to code   ──►  rates of the engine    ──┴─►  seconds / every

Bytes of a part of the gradient are its share of those of the whole: blocks that are padded, indices and factors are
spread evenly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf, nextafter, prod
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from lightloom.collectives.collective import Kind
from lightloom.core.configfile import read_yaml, validate
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.fields import Bandwidth, ComputeRate, Config, Seconds
from lightloom.core.results import attributes, content_hash
from lightloom.exchange import methods
from lightloom.exchange.compression.inceptionn import BURST_BITS, CLOCK_HZ
from lightloom.exchange.compression.profile import CodecProfile, CompressionProfile, Rates, cache_path, read_profile
from lightloom.exchange.measuring import KernelRates, measured_rates
from lightloom.exchange.method import (
    CodedSums,
    ExchangeMethod,
    Gradient,
    Phase,
    Work,
    nbytes_of_terms,
    sent_in_phase,
    sum_over_hops,
)
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.models.graph import ComputeGraph

# Where gradients are coded, and how fast: this host as measured, the paper's network card, a file, or an assumption.
#
# Only gradients are coded: all-reduce and reduce-scatter. The weights that FSDP gathers are not: a bounded error in a
# gradient is repaid by later steps, in a weight it stays.

VALUE_BYTES = 4
"""Codecs take float32; narrower gradients are widened first, which is exact."""
ACCELERATOR, LOCAL, NIC = "accelerator", "local", "nic"
"""Engines that have a name."""
LINE_RATE = BURST_BITS / 8 * CLOCK_HZ
"""Bytes per second of the paper's engines (section VI-A): 256 bits at 100 MHz."""
_SHARE = 0.5
"""Share of the accelerator's memory bandwidth that kernels reach: an assumption."""
_TOUCHED = 3
"""Times that each float32 is read or written while it is encoded or decoded, residual included: an assumption."""
_TOUCHED_UNFUSED = 20
"""Times that top-k and fp8, which are operations of torch one by one, read or write each float32: counted from these,
not measured on a device."""
_LAUNCH = 10e-6
"""Seconds to launch a kernel where the accelerator states none: an assumption."""
_PRODUCTS = 0.3
"""Share of the accelerator's lowest peak rate that products with narrow matrices reach: an assumption."""


_RATES = "encode decode encode_message decode_message"


class CodecEngine(Config):
    """Where gradients are coded, and how fast; bytes of float32 values per second."""

    name: str = "engine"
    placement: Literal["host", "nic"]
    """``host``: between hops, one after the other, and messages become smaller. ``nic``: behind the port, beside the
    link; every packet becomes smaller and there are as many."""
    encode: Bandwidth
    decode: Bandwidth
    encode_message: Seconds = 0.0
    """Time to encode a message, whatever its size."""
    decode_message: Seconds = 0.0
    """Time to decode a message, whatever its size."""
    flops: ComputeRate | None = None
    """Rate of the matrix products of low-rank methods; without it they take no longer than coding."""
    source: Annotated[str, Field(min_length=1)]
    """Where the rates come from."""


def assumed_engine(accelerator: Accelerator, *, fused: bool) -> CodecEngine:
    """Return an engine named "accelerator" of kernels on the accelerator (rates in bytes of float32 values a second),
    at half of its memory bandwidth by assumption, alike for encoding and decoding. With ``fused``, each float32 value
    is read or written 3 times, otherwise 20 times (operations of torch one by one). A message takes a kernel launch of
    the accelerator, 10 us where it states none; products of matrices run at 0.3 of its lowest peak rate.

    Raises:
        ConfigError: its memory bandwidth is unknown.
    """
    if accelerator.memory_bandwidth is None:
        raise ConfigError(
            f"accelerator {accelerator.name!r} states no memory bandwidth, at which kernels that code gradients could "
            "be assumed to run: give --exchange-engine local or a .yaml file"
        )
    touched = _TOUCHED if fused else _TOUCHED_UNFUSED
    rate, launch = _SHARE * accelerator.memory_bandwidth / touched, accelerator.kernel_launch or _LAUNCH
    rates = {"encode": rate, "decode": rate, "encode_message": launch, "decode_message": launch}
    return CodecEngine(
        name=ACCELERATOR,
        placement="host",
        **rates,
        flops=_PRODUCTS * min(accelerator.peak.values()),
        source=f"assumption: {'kernels' if fused else 'operations of torch'} on the {accelerator.name} at half of its "
        f"memory bandwidth, every value read or written {touched} times, {launch * 1e6:.3g} us a launch",
    )


def profiled_engine(profile: CompressionProfile, entry: CodecProfile) -> CodecEngine:
    """Return the engine named "local" of this host's kernel of a codec: the rates in ``entry`` at the number of threads
    that takes the least time to encode and then decode a value; a message that was not timed takes no time.
    ``profile``, which ``entry`` belongs to, names the kernel in the engine's source."""
    fastest = max(entry.host, key=lambda rates: rates.encode * rates.decode / (rates.encode + rates.decode))
    threads = f"{fastest.threads} thread{'s' if fastest.threads > 1 else ''}"
    old = "" if fastest.encode_message is not None else "; an old profile, without the time of a message"
    return _host_engine(fastest, f"{profile.kernel} with {threads}, measured with the profile{old}")


def local_engine(method: str) -> CodecEngine:
    """Return the engine named "local" of this host's kernels for the method of this full name (with all options), at
    the rates that ``lightloom exchange measure`` measured and stored.

    Raises:
        ConfigError: they were not measured (says how to).
    """
    rates = measured_rates(method)
    if rates is None:
        raise ConfigError(
            f"this host's kernels for {method} were not measured; measure them with: lightloom exchange measure "
            f"'{method}'"
        )
    return _host_engine(rates, f"{rates.kernel}, measured on this host", rates.flops)


def _host_engine(rates: Rates | KernelRates, source: str, flops: float | None = None) -> CodecEngine:
    """Return the engine named "local" of this host's kernels at measured rates; a message that was not timed takes no
    time. ``flops`` is the rate of matrix products, None where it was not measured."""
    speeds = {name: seconds or 0.0 for name, seconds in attributes(rates, _RATES).items()}
    return CodecEngine(name=LOCAL, placement="host", **speeds, flops=flops, source=source)


def nic_engine(codec: str | None, entry: CodecProfile | None, ratio: float | None) -> CodecEngine:
    """Return the engine named "nic", those of INCEPTIONN's network card: at the rates counted in cycles on the
    profile's gradients, else at their line rate (256 bits a cycle of 100 MHz), or ``ratio`` times that where the ratio
    is below 1.

    Args:
        codec: name of the INCEPTIONN codec that the method runs around a ring; None for other methods.
        entry: measurements of that codec; None where there are none.
        ratio: bytes as float32 for each coded byte, where that is stated instead of measured; None otherwise.

    Raises:
        ConfigError: the card cannot run this method, or neither its cycles nor a ratio are at hand.
    """
    if entry is not None and entry.engine is not None:
        encode, decode = entry.engine.encode, entry.engine.decode
        source = "cycles of the paper's 256-bit engines at 100 MHz on the profile's gradients"
    elif ratio is not None and codec is not None and codec.startswith("inceptionn:"):
        # A burst of eight values a cycle, unless what they become needs more than a burst (17/16 of one at the most).
        encode = decode = LINE_RATE * min(1.0, ratio)
        source = "the paper's 256-bit engines at 100 MHz, a burst a cycle"
    else:
        raise ConfigError("--exchange-engine nic runs inceptionn only: expected local, accelerator or a .yaml file")
    return CodecEngine(name=NIC, placement="nic", encode=encode, decode=decode, source=source)


def engine_from_file(path: Path) -> CodecEngine:
    """Return the engine that a YAML file describes by the fields of :class:`CodecEngine` (``placement`` "host" or
    "nic", ``encode`` and ``decode`` in bytes of float32 values a second, seconds of a message, FLOP/s of matrix
    products, ``source``); it is named after the file, without its ending, unless it states a name.

    Raises:
        ConfigError: the file is unreadable or malformed.
    """
    return validate(CodecEngine, {"name": path.stem} | read_yaml(path), str(path))


def check_engine_name(name: str) -> None:
    """Raise unless an engine's name is ``accelerator``, ``local``, ``nic`` or the path of a YAML file that describes an
    engine.

    Raises:
        UnknownNameError: no such engine.
        ConfigError: the file is unreadable or malformed.
    """
    if name.endswith((".yaml", ".yml")):
        engine_from_file(Path(name))
    elif name not in (ACCELERATOR, LOCAL, NIC):
        raise UnknownNameError("exchange engine", name, [ACCELERATOR, LOCAL, NIC, "a .yaml file"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedExchange:
    """An exchange method on one model's gradients, with the engine that codes them."""

    method: ExchangeMethod
    gradient: Gradient
    """Shapes of the gradients of the whole model, with measured sizes where the method needs them."""
    sizes: str
    """Where the bytes come from."""
    engine: CodecEngine | None = None
    """Engine that codes; None for kernels on each cluster's accelerator at an assumed rate."""

    def on(self, accelerator: Accelerator) -> PricedExchange:
        """Return the exchange with an engine: its own where it has one, else kernels on ``accelerator`` at an assumed
        rate (half of its memory bandwidth over the accesses to a value, :func:`assumed_engine`), fused where the
        method's are.

        Raises:
            ConfigError: an engine has to be assumed, and the accelerator's memory bandwidth is unknown.
        """
        if self.engine is not None:
            return self
        return replace(self, engine=assumed_engine(accelerator, fused=self.method.coding.fused))

    @property
    def coder(self) -> CodecEngine:
        """The engine that codes; one must have been chosen before, as by :meth:`on` (AssertionError otherwise)."""
        assert self.engine is not None
        return self.engine

    @property
    def name(self) -> str:
        """Full name of the method with all options."""
        return self.method.name

    @property
    def label(self) -> str:
        """Full name of the method where it exchanges at every step, else ``FAMILY every N steps``, followed for DiLoCo
        by " by" and its inner method; FAMILY is the name up to the first colon."""
        if self.every == 1:
            return self.name
        inner = f" by {self.method.inner}" if isinstance(self.method, methods.DiLoCoExchange) else ""
        return f"{self.name.partition(':')[0]} every {self.every} steps{inner}"

    @property
    def in_schedule(self) -> bool:
        """True where coded sums travel along the schedule of one collective, as with a codec around a ring; False for
        methods with phases of their own."""
        return isinstance(self.method, methods.RingCodecExchange)

    @property
    def in_line(self) -> bool:
        """True where coding runs beside the link, on the network card, and makes packets smaller; False where no engine
        is chosen."""
        return self.engine is not None and self.engine.placement == "nic"

    @property
    def every(self) -> int:
        """Number of training steps from one exchange to the next."""
        return self.method.every

    @property
    def blocking(self) -> bool:
        """True where the exchange starts only after the whole backward pass, as the method is not synchronous data
        parallelism but exchanges every so many steps."""
        return not self.method.synchronous

    @property
    def state_bytes(self) -> float:
        """Bytes that a rank keeps between steps for each parameter that it holds unsharded."""
        return VALUE_BYTES * self.method.state_values

    def refusal(self, kind: Kind, *, in_network: bool, stride: int) -> str | None:
        """Return the reason, in words, that the method does not serve a kind of collective of gradients on a fabric;
        None where it does. A fabric that adds up light serves optical methods alone, and these no other fabric; a
        reduce-scatter is served by codecs around a ring and by narrow formats in blocks alone, a method of two levels
        needs groups of neighbouring ranks.

        Args:
            kind: of the collective that it stands for, all-reduce or reduce-scatter.
            in_network: whether the fabric adds up light on its way.
            stride: distance between neighbouring ranks of the group.
        """
        name = self.method.name.partition(":")[0]
        if in_network and not isinstance(self.method, methods.OpticalExchange):
            return "a fabric that adds up light in the network cannot add up compressed streams"
        if isinstance(self.method, methods.OpticalExchange) and not in_network:
            return f"{name} needs a fabric that adds up light in the network"
        if kind == "reduce-scatter" and not isinstance(self.method, methods.RingCodecExchange | methods.BlockExchange):
            return f"{name} averages whole gradients, which sharded replicas do not have"
        if isinstance(self.method, methods.TwoLevelExchange) and stride > 1:
            return f"{name} needs replicas on neighbouring ranks; these lie {stride} apart"
        return None

    def group_refusal(self, ranks: int) -> str | None:
        """Return the reason, in words, that a group of so many ranks cannot use the method: a method of two levels
        needs a multiple of its ``node``, the ranks of a node. None where it can."""
        if isinstance(self.method, methods.TwoLevelExchange) and ranks % self.method.node:
            return f"{self.method.name}: {ranks} ranks: expected a multiple of node={self.method.node}"
        return None

    def phases(self, kind: Kind, values: float, ranks: int) -> list[Phase]:
        """Return the collectives of an exchange of ``values`` gradients among ``ranks`` ranks, in order, each with its
        kind, its bytes (also by number of summed gradients where they depend on it), among which ranks it goes and
        whether it may hide behind the backward pass, in the place of one of ``kind``; for a reduce-scatter the first
        phase only. Their bytes are those for the whole model's gradient times ``values`` over its number of values."""
        share = values / max(self.gradient.values, 1)
        phases = [scaled(phase, share) for phase in self.method.phases(self.gradient, ranks)]
        return phases[:1] if kind == "reduce-scatter" else phases

    def coding(self, kind: Kind, values: float, ranks: int) -> tuple[float, float]:
        """Return the seconds in which a rank encodes, matrix products included (at no time where the engine states no
        rate of them), and those in which it decodes, in one exchange of ``values`` gradients among ``ranks`` ranks in
        the place of a collective of ``kind``. Each encoded message and call takes the engine's time of a message, and
        so does each decoded message. An engine must have been chosen (AssertionError otherwise)."""
        work, engine = self._work(kind, values, ranks), self.coder
        products = work.flops / engine.flops if engine.flops else 0.0
        encoding = VALUE_BYTES * work.encoded_values / engine.encode
        encoding += (work.encoded_messages + work.calls) * engine.encode_message
        decoding = VALUE_BYTES * work.decoded_values / engine.decode + work.decoded_messages * engine.decode_message
        return encoding + products, decoding

    def _work(self, kind: Kind, values: float, ranks: int) -> Work:
        """Return the values and messages that a rank encodes and decodes, its calls and its FLOPs, in an exchange of
        ``values`` gradients among ``ranks`` ranks: their share of those of the whole gradient, calls and FLOPs too, but
        the number of messages is not scaled. In a reduce-scatter a rank decodes what the others send it and no finished
        sums."""
        work, share = self.method.work(self.gradient, ranks), values / max(self.gradient.values, 1)
        scaled_work = attributes(work, "encoded_values decoded_values calls flops")
        work = replace(work, **{name: count * share for name, count in scaled_work.items()})
        if kind != "reduce-scatter":
            return work
        # The owner of a share adds up what the others sent, and keeps the sum as it is.
        return replace(work, decoded_values=values * (ranks - 1) / ranks, decoded_messages=float(ranks - 1))

    def along_schedule(self, kind: Kind, values: float, ranks: int, *, ring: bool) -> float:
        """Return the size in bytes of the collective of ``kind`` that a schedule carries in the place of ``values``
        gradients, where coded sums travel along it (only of methods of one phase; ValueError otherwise): for a
        reduce-scatter that of the sums on the way, for an all-reduce the mean of these and of finished sums.

        Around a ring (``ring``), hops carry sums of 1, 2 ... ranks - 1 gradients, whose sizes are interpolated between
        those that were measured. Other schedules add up in another order; their sums are taken to be as large as
        finished ones.
        """
        (phase,) = self.phases("all-reduce", values, ranks)
        finished = nbytes_of_terms(phase, ranks)
        hops = sum_over_hops(phase, ranks) if ring and ranks > 1 else finished
        return hops if kind == "reduce-scatter" else (hops + finished) / 2

    def least_share(self) -> float:
        """Return the least number of bytes sent along a schedule for each byte of float32, over sums of any number of
        gradients that were measured; only of methods whose sums a schedule carries, in one phase (ValueError
        otherwise)."""
        return min(self._measured_bytes()) / (VALUE_BYTES * max(self.gradient.values, 1))

    def _measured_bytes(self) -> list[float]:
        """Return the bytes of coded sums of the whole gradient, one entry for each number of summed gradients that was
        measured; one entry alone where the size does not depend on that number."""
        (phase,) = self.method.phases(self.gradient, 2)
        return [nbytes for _, nbytes in phase.nbytes_by_terms] or [phase.nbytes]

    def sent_bytes(self, kind: Kind, values: float, ranks: int) -> float:
        """Return the size in bytes of the plain collective of ``kind`` among ``ranks`` ranks in which each sends as
        many bytes as in one whole exchange of ``values`` gradients by this method: bytes sent by a rank · ranks /
        (ranks - 1), halved for an all-reduce; but for a reduce-scatter of sums that travel along a schedule, their mean
        size around a ring."""
        ways = 2 if kind == "all-reduce" else 1
        phases = self.phases(kind, values, ranks)
        if kind == "reduce-scatter" and self.in_schedule:
            (phase,) = phases
            return sum_over_hops(phase, ranks)
        sent = sum(sent_in_phase(phase, self.method.ranks_of(phase, ranks)) for phase in phases)
        return sent * ranks / (ways * max(ranks - 1, 1))

    def ratio(self, ranks: int) -> float:
        """Return the compression ratio of an exchange of the whole gradient among so many ranks: bytes of an all-reduce
        of float32 for each byte sent, above 1 where fewer are sent."""
        values = float(self.gradient.values)
        return VALUE_BYTES * values / self.sent_bytes("all-reduce", values, ranks)

    @property
    def placed_ratio(self) -> float:
        """Compression ratio that placed plans divide bytes by: bytes of float32 for each byte of the largest coded sums
        that were measured. A ratio of exactly 1 becomes the next float above 1, so that the plan still counts as
        compressed."""
        ratio = VALUE_BYTES * self.gradient.values / max(self._measured_bytes())
        # A codec that makes nothing smaller is still another plan.
        return nextafter(1, inf) if ratio == 1 else ratio


def scaled(phase: Phase, share: float) -> Phase:
    """Return the phase with all its bytes multiplied by ``share``, the part of the gradient that is exchanged over the
    whole gradient."""
    sizes = tuple((terms, nbytes * share) for terms, nbytes in phase.nbytes_by_terms)
    return replace(phase, nbytes=phase.nbytes * share, nbytes_by_terms=sizes)


def model_gradient(graph: ComputeGraph) -> Gradient:
    """Return the shapes of a model's gradients in the order of its operators, as far as its graph tells: a matrix
    (outputs, inputs times kernel) for each linear layer and convolution, with a vector of what is left (the bias); a
    matrix (vocabulary, width) for embeddings; one vector for any other operator's parameters, and one at the end for
    those that no operator uses."""
    shapes: list[tuple[int, ...]] = []
    for operator in graph.operators:
        sizes = operator.dimensions
        inner = sizes.get("in_channel", 0) // sizes.get("groups", 1)
        inner *= prod(sizes.get(f"kernel_{axis}", 1) for axis in ("length", "depth", "height", "width"))
        if operator.kind == "embedding":
            inner = sizes.get("channel", 0)
        rows, rest = divmod(operator.parameters, inner) if inner else (0, operator.parameters)
        outer = sizes.get("channel", 0)
        if operator.kind != "embedding" and inner and operator.parameters == outer * (inner + 1):
            rows, rest = outer, outer
        shapes += [(rows, inner)] if rows else []
        shapes += [(rest,)] if rest else []
    if graph.unused_parameters:
        shapes.append((graph.unused_parameters,))
    return Gradient(tuple(shapes))


# Methods with the bytes that they make of one model's gradients: fixed by their format, profiled, or stated.

_BITS = 32
_FORMAT = "fixed by the format"
_STATED = "given, not measured; the same for sums of any number of gradients"


def sized(
    method: ExchangeMethod, model: str, graph: ComputeGraph, profile: Path | None, ratio: float | None, engine: str
) -> PricedExchange:
    """Return a method on a model's gradients with its engine (none yet for ``accelerator``); where its bytes depend on
    the gradients' values, with the bits of a value by the stated ratio (32 over it, alike for sums of any number of
    gradients), else as profiled (:func:`bits_by_terms`). For other methods ``profile`` is not read, and ``ratio`` by
    the engine "nic" alone.

    Args:
        method: exchange method.
        model: as the user named it; profiles are kept under it.
        graph: the model's operators.
        profile: file of a compression profile; None for the one in the cache.
        ratio: bytes as float32 for each coded byte, stated; None to take the profile's.
        engine: ``accelerator``, ``local``, ``nic`` or the path of a YAML file.

    Raises:
        ConfigError: there is no profile that the method needs, or it is another model's; or the engine cannot run the
            method, was not measured, or its file is unreadable.
    """
    gradient, sizes = model_gradient(graph), _FORMAT
    profiled: tuple[CompressionProfile, CodecProfile] | None = None
    if method.needs_values:
        codec = ring_codec_of(method).codec
        bits: tuple[tuple[int, float], ...]
        if ratio is not None:
            bits, sizes = ((1, _BITS / ratio),), _STATED
        else:
            profiled = held, entry = profile_of(model, graph, codec, profile)
            bits, sizes = bits_by_terms(entry), f"measured: {held.gradients}{_sums_note(entry)}"
        gradient = Gradient(gradient.shapes, (CodedSums(codec, bits),))
    coder = _engine(method, engine, profiled, ratio)
    return PricedExchange(method=method, gradient=gradient, sizes=sizes, engine=coder)


def ring_codec_of(method: ExchangeMethod) -> methods.RingCodecExchange:
    """Return ``method.coding``, which codes sums around a ring; the method must be one that needs values, as no other
    kind of coding has bytes that depend on the gradient's values (AssertionError otherwise)."""
    coding = method.coding
    assert isinstance(coding, methods.RingCodecExchange)
    return coding


def bits_by_terms(entry: CodecProfile) -> tuple[tuple[int, float], ...]:
    """Return the bits of a coded value (32 of float32 over the compression ratio) by the number of gradients in a sum:
    pairs (number of summed gradients, bits), ascending. Each is the bits of a single gradient's value, over all
    gradients that were profiled, times how much larger a sum of so many was at the step where sums were profiled. Where
    sums were not profiled, the one pair of a single gradient."""
    one = _BITS / entry.whole.ratio
    # Sums are measured at one step; how much larger they are than single gradients holds for all.
    return tuple((terms, one * entry.sums[1] / ratio) for terms, ratio in sorted(entry.sums.items())) or ((1, one),)


def _sums_note(entry: CodecProfile) -> str:
    """Return a note that begins with "; ", to follow a source: the largest number of gradients in a sum that was
    profiled, or that no sums were."""
    if entry.sums:
        return f"; sums of up to {max(entry.sums)} gradients"
    return "; of one gradient only, which is too few bytes for sums: profile again"


def _engine(
    method: ExchangeMethod, name: str, profiled: tuple[CompressionProfile, CodecProfile] | None, ratio: float | None
) -> CodecEngine | None:
    """Return the engine that codes the method's values, by name or file; None for "accelerator", the kernels on each
    cluster's own accelerator.

    Args:
        method: exchange method.
        name: ``accelerator``, ``local`` (kernels on this host), ``nic``, or the path of a file that describes an
            engine, which any other text is taken for.
        profiled: the model's profile and its entry for the method's codec; None where none was read.
        ratio: bytes as float32 for each coded byte, stated; used by ``nic`` alone.

    Raises:
        ConfigError: the engine was not measured, cannot run the method, or its file is unreadable.
    """
    if name == ACCELERATOR:
        return None
    if name == LOCAL:
        return local_engine(method.name) if profiled is None else profiled_engine(*profiled)
    if name == NIC:
        codec = method.codec if isinstance(method, methods.InceptionnExchange) else None
        return nic_engine(codec, None if profiled is None else profiled[1], ratio)
    return engine_from_file(Path(name))


def model_key(model: str) -> str:
    """Return the name under which a model's profile is kept: ``model`` itself, or for ``file.py:factory``, where the
    file exists, a hash of path, factory and content."""
    place, _, factory = model.rpartition(":")
    path = Path(place)
    if not place.endswith(".py") or not path.is_file():
        return model
    return content_hash([str(path.resolve()), factory, sha256(path.read_bytes()).hexdigest()])


def profile_of(
    model: str, graph: ComputeGraph, codec: str, path: Path | None = None
) -> tuple[CompressionProfile, CodecProfile]:
    """Return the compression profile of a model's gradients and its entry for a codec.

    Args:
        model: as the user named it; the profile in the cache is kept under it.
        graph: the model's operators, whose number of parameters must be the profile's.
        codec: name of the codec.
        path: file to read; None for the profile in the cache.

    Raises:
        ConfigError: there is none (says how to make one), it is another model's, or it has no entry for the codec.
    """
    command = f"make one with: lightloom compress profile {model} --codec {codec}"
    place = path if path is not None else cache_path(model_key(model), codec)
    if path is None and not place.is_file():
        raise ConfigError(f"there is no compression profile of {model} with {codec}; {command}")
    profile = read_profile(place)
    if (_short(profile.model), profile.parameters) != (_short(model), graph.parameters):
        raise ConfigError(
            f"{str(place)!r} is the profile of {profile.model} with {profile.parameters:,} parameters, "
            f"not of {model} with {graph.parameters:,}; {command}"
        )
    entry = profile.of(codec)
    if entry is None:
        held = ", ".join(entry.codec for entry in profile.codecs)
        raise ConfigError(f"{str(place)!r} has no {codec}, only {held}; {command}")
    return profile, entry


def _short(model: str) -> str:
    """Return the name of a model without its folder, the part after the last "/"."""
    return model.rpartition("/")[2]
