"""A method of exchange as plans price it: what it makes of a model's gradient, and the engine that codes it.

    values of a bucket  ──►  phases: (kind, bytes, group)  ──►  prices of collectives  ──┐
                        └─►  values and messages to code   ──►  rates of the engine    ──┴─►  seconds / every

Bytes of a part of the gradient are its share of those of the whole: blocks that are padded, indices and factors are
spread evenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, nextafter
from typing import NamedTuple

import numpy as np

from lightloom.accelerators.base import Accelerator
from lightloom.clusters.settings import TrainingSettings
from lightloom.collectives.spec import Kind
from lightloom.core.arrays import Floats
from lightloom.exchange.method import (
    ExchangeMethod,
    Gradient,
    Phase,
    Work,
    nbytes_of_terms,
    sent_in_phase,
    sum_over_hops,
)
from lightloom.exchange.methods.blocks import BlockExchange
from lightloom.exchange.methods.optical import OpticalExchange
from lightloom.exchange.methods.periodic import DiLoCoExchange
from lightloom.exchange.methods.ring_codec import RingCodecExchange
from lightloom.exchange.methods.two_level import TwoLevelExchange
from lightloom.planner.gradients.engine import VALUE_BYTES, CodecEngine, assumed_engine
from lightloom.workloads.graph import ComputeGraph


class Coding(NamedTuple):
    """Seconds of coding in one exchange."""

    encode: float
    decode: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedExchange:
    """A method on a model's gradients."""

    method: ExchangeMethod
    gradient: Gradient
    """Of the whole model, with measured sizes where the method needs them."""
    sizes: str
    """Where the bytes come from."""
    engine: CodecEngine | None = None
    """What codes; None for kernels on each cluster's accelerator at an assumed rate."""

    def on(self, accelerator: Accelerator) -> PricedExchange:
        """The same with an engine: its own, or the accelerator's.

        Raises:
            ConfigError: the accelerator's memory bandwidth is unknown.
        """
        return (
            self
            if self.engine is not None
            else replace(self, engine=assumed_engine(accelerator, fused=self.method.coding.fused))
        )

    @property
    def coder(self) -> CodecEngine:
        """The engine, which :meth:`on` has chosen."""
        assert self.engine is not None
        return self.engine

    @property
    def name(self) -> str:
        """The method's name with all options."""
        return self.method.name

    @property
    def label(self) -> str:
        """The method in a few words; how often, where that is not every step."""
        if self.every == 1:
            return self.name
        inner = f" by {self.method.inner}" if isinstance(self.method, DiLoCoExchange) else ""
        return f"{self.name.partition(':')[0]} every {self.every} steps{inner}"

    @property
    def in_schedule(self) -> bool:
        """Whether coded sums travel along a schedule of one collective, instead of phases of their own."""
        return isinstance(self.method, RingCodecExchange)

    @property
    def in_line(self) -> bool:
        """Whether coding runs beside the link."""
        return self.engine is not None and self.engine.placement == "nic"

    @property
    def every(self) -> int:
        """Steps from one exchange to the next."""
        return self.method.every

    @property
    def blocking(self) -> bool:
        """Whether the exchange waits for the end of the backward pass."""
        return not self.method.synchronous

    @property
    def state_bytes(self) -> float:
        """Bytes that a rank keeps between steps for each parameter that it holds unsharded."""
        return VALUE_BYTES * self.method.state_values

    def refusal(self, kind: Kind, *, in_network: bool, stride: int) -> str | None:
        """Why the method does not serve a kind of collective of gradients on a fabric; None where it does.

        Args:
            kind: of the collective that it stands for.
            in_network: whether the fabric adds up light on its way.
            stride: distance of the ranks of the group.
        """
        name = self.method.name.partition(":")[0]
        if in_network and not isinstance(self.method, OpticalExchange):
            return "a fabric that adds up light in the network cannot add up compressed streams"
        if isinstance(self.method, OpticalExchange) and not in_network:
            return f"{name} needs a fabric that adds up light in the network"
        if kind == "reduce-scatter" and not isinstance(self.method, RingCodecExchange | BlockExchange):
            return f"{name} averages whole gradients, which sharded replicas do not have"
        if isinstance(self.method, TwoLevelExchange) and stride > 1:
            return f"{name} needs replicas on neighbouring ranks; these lie {stride} apart"
        return None

    def group_refusal(self, ranks: int) -> str | None:
        """Why a group of so many ranks cannot use the method."""
        if isinstance(self.method, TwoLevelExchange) and ranks % self.method.node:
            return f"{self.method.name}: {ranks} ranks: expected a multiple of node={self.method.node}"
        return None

    def phases(self, kind: Kind, values: float, ranks: int) -> list[Phase]:
        """Collectives of an exchange of so many values, in order, in the place of one of ``kind``."""
        share = values / max(self.gradient.values, 1)
        phases = [scaled(phase, share) for phase in self.method.phases(self.gradient, ranks)]
        return phases[:1] if kind == "reduce-scatter" else phases

    def coding(self, kind: Kind, values: float, ranks: int) -> Coding:
        """Seconds in which a rank codes what it exchanges in the place of a collective of ``kind``."""
        work, engine = self._work(kind, values, ranks), self.coder
        products = work.flops / engine.flops if engine.flops else 0.0
        encoding = VALUE_BYTES * work.encoded_values / engine.encode
        encoding += (work.encoded_messages + work.calls) * engine.encode_message
        decoding = VALUE_BYTES * work.decoded_values / engine.decode + work.decoded_messages * engine.decode_message
        return Coding(encoding + products, decoding)

    def _work(self, kind: Kind, values: float, ranks: int) -> Work:
        work, share = self.method.work(self.gradient, ranks), values / max(self.gradient.values, 1)
        work = replace(
            work,
            encoded_values=work.encoded_values * share,
            decoded_values=work.decoded_values * share,
            calls=work.calls * share,
            flops=work.flops * share,
        )
        if kind != "reduce-scatter":
            return work
        # The owner of a share adds up what the others sent, and keeps the sum as it is.
        return replace(work, decoded_values=values * (ranks - 1) / ranks, decoded_messages=float(ranks - 1))

    def along_schedule(self, kind: Kind, values: float, ranks: int, *, ring: bool) -> float:
        """Size of the collective that a schedule carries in the place of ``values``, in bytes, where coded sums travel.

        Around a ring, hops carry sums of 1, 2 ... ranks - 1 gradients, and finished sums of all. Other schedules add up
        in another order; their sums are taken to be as large as finished ones.
        """
        (phase,) = self.phases("all-reduce", values, ranks)
        finished = nbytes_of_terms(phase, ranks)
        hops = sum_over_hops(phase, ranks) if ring and ranks > 1 else finished
        return hops if kind == "reduce-scatter" else (hops + finished) / 2

    def least_share(self) -> float:
        """Bytes sent along a schedule for each byte of float32, at least."""
        (sizes,) = self.method.phases(self.gradient, 2)
        least = min((nbytes for _, nbytes in sizes.nbytes_by_terms), default=sizes.nbytes)
        return least / (VALUE_BYTES * max(self.gradient.values, 1))

    def sent_bytes(self, kind: Kind, values: float, ranks: int) -> float:
        """Size of the plain collective of ``kind`` whose ranks send as many bytes as this exchange's do."""
        ways = 2 if kind == "all-reduce" else 1
        phases = self.phases(kind, values, ranks)
        if kind == "reduce-scatter" and self.in_schedule:
            (phase,) = phases
            return sum_over_hops(phase, ranks)
        sent = sum(sent_in_phase(phase, self.method.ranks_of(phase, ranks)) for phase in phases)
        return sent * ranks / (ways * max(ranks - 1, 1))

    def ratio(self, ranks: int) -> float:
        """Bytes of an all-reduce of float32 for each byte that an exchange among so many ranks sends."""
        values = float(self.gradient.values)
        return VALUE_BYTES * values / self.sent_bytes("all-reduce", values, ranks)

    @property
    def placed_ratio(self) -> float:
        """Bytes of float32 for each byte of the largest sums that were measured: what placed plans divide by."""
        (phase,) = self.method.phases(self.gradient, 2)
        largest = max((nbytes for _, nbytes in phase.nbytes_by_terms), default=phase.nbytes)
        ratio = VALUE_BYTES * self.gradient.values / largest
        # A codec that makes nothing smaller is still another plan.
        return nextafter(1, inf) if ratio == 1 else ratio


def scaled(phase: Phase, share: float) -> Phase:
    """The phase of a share of the gradient."""
    sizes = tuple((terms, nbytes * share) for terms, nbytes in phase.nbytes_by_terms)
    return replace(phase, nbytes=phase.nbytes * share, nbytes_by_terms=sizes)


def gradient_element_bytes(training: TrainingSettings) -> Mapping[Kind, int]:
    """The kinds of collectives that carry gradients, and the bytes of one gradient in each."""
    return {"all-reduce": training.gradient_bytes, "reduce-scatter": training.sharded_gradient_bytes}


def sent_ratio(training: TrainingSettings, ratio: Floats) -> Floats:
    """Bytes of gradients for each byte sent; codecs count float32, in which narrower gradients are larger."""
    return np.where(ratio == 1, 1.0, ratio * training.gradient_bytes / VALUE_BYTES)


def model_gradient(graph: ComputeGraph) -> Gradient:
    """The shapes of a model's gradients, as far as its graph tells: matrices of linear layers and convolutions, with a
    vector of what is left; vocabulary by width for embeddings; vectors of everything else."""
    shapes: list[tuple[int, ...]] = []
    for operator in graph.operators:
        sizes = operator.dimensions
        inner = sizes.get("in_channel", 0) // sizes.get("groups", 1)
        inner *= sizes.get("kernel_height", 1) * sizes.get("kernel_width", 1)
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
