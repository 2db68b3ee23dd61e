"""Small jobs: a transformer of a few blocks on a few ranks, collectives at made-up or at verified prices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from lightloom.collectives.collective import Kind
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.parallelism.strategy_space import Strategies
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.price_lines import LowerPrice, price_line
from lightloom.planning.simulation.engine import Price
from tests.simulation.prices import linear

BATCH, SEQUENCE, HEADS = 13, 16, 4
Model = Callable[[int, int], ComputeGraph]


def transformer(blocks: int, hidden: int = 256, vocabulary: int = 1000) -> ComputeGraph:
    """Embedding, blocks of attention and feed-forward, a tied head."""
    made = _Maker()
    made.add("tokens", "embedding", (), hidden, vocabulary * hidden, 0)
    at = "tokens"
    for index in range(blocks):
        made.block, name = f"layers.{index}", f"layers.{index}."
        made.linear(name + "qkv", at, hidden, 3 * hidden)
        made.add(name + "attention", "attention", (name + "qkv",), hidden, 0, 4 * SEQUENCE * hidden)
        made.linear(name + "out", name + "attention", hidden, hidden)
        made.add(name + "add", "add", (at, name + "out"), hidden, 0, hidden)
        made.linear(name + "up", name + "add", hidden, 4 * hidden)
        made.add(name + "gelu", "activation", (name + "up",), 4 * hidden, 0, 4 * hidden)
        made.linear(name + "down", name + "gelu", 4 * hidden, hidden)
        made.add(name + "add2", "add", (name + "add", name + "down"), hidden, 0, hidden)
        at = name + "add2"
    made.block = ""
    made.linear("head", at, hidden, vocabulary, parameters=0)
    return ComputeGraph(name="transformer", batch=BATCH, operators=tuple(made.operators), unused_parameters=7)


def mixture(blocks: int, hidden: int = 256, experts: int = 4) -> ComputeGraph:
    """Embedding, blocks of attention and of experts, of which a token visits one, a tied head."""
    made = _Maker()
    made.add("tokens", "embedding", (), hidden, 1000 * hidden, 0)
    at = "tokens"
    for index in range(blocks):
        made.block, name = f"layers.{index}", f"layers.{index}."
        made.linear(name + "qkv", at, hidden, 3 * hidden)
        made.add(name + "attention", "attention", (name + "qkv",), hidden, 0, 4 * SEQUENCE * hidden)
        made.linear(name + "out", name + "attention", hidden, hidden)
        made.linear(name + "router", name + "out", hidden, experts)
        made.add(name + "topk", "topk", (name + "router",), 2, 0, experts)
        made.add(name + "sort", "copy", (name + "out", name + "topk"), hidden, 0, 0)
        made.expert(name + "up", name + "sort", hidden, 4 * hidden, experts)
        made.add(name + "gelu", "activation", (name + "up",), 4 * hidden, 0, 4 * hidden)
        made.expert(name + "down", name + "gelu", 4 * hidden, hidden, experts)
        made.add(name + "add", "add", (name + "out", name + "down"), hidden, 0, hidden)
        at = name + "add"
    made.block = ""
    made.linear("head", at, hidden, 1000, parameters=0)
    return ComputeGraph(name="mixture", batch=BATCH, operators=tuple(made.operators))


class _Maker:
    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.block = ""

    def linear(self, name: str, source: str, inner: int, outer: int, parameters: int | None = None) -> None:
        """A linear layer."""
        held = inner * outer if parameters is None else parameters
        self.add(name, "linear", (source,), outer, held, 2 * inner * outer, in_channel=inner)

    def expert(self, name: str, source: str, inner: int, outer: int, experts: int) -> None:
        """A product with the weights of one of the experts."""
        sizes = {"in_channel": inner, "expert": experts, "sequence": SEQUENCE // experts}
        self.add(name, "experts", (source,), outer, experts * inner * outer, 2 * inner * outer, **sizes)

    def add(
        self, name: str, kind: str, inputs: tuple[str, ...], outer: int, parameters: int, flops: int, **sizes: int
    ) -> None:
        """An operator of ``flops`` a token."""
        tokens = BATCH * SEQUENCE
        heads = {"head": HEADS} if kind == "attention" else {"channel": outer}
        self.operators.append(
            Operator(
                name=name,
                kind=kind,
                inputs=inputs,
                dimensions={"sample": BATCH, "sequence": SEQUENCE} | heads | sizes,
                forward_flops=tokens * flops,
                backward_flops=2 * tokens * flops,
                parameters=parameters,
                parameter_bytes=4 * parameters,
                activation_bytes=4 * tokens * outer,
                forward_bytes=4 * parameters + 8 * tokens * outer,
                shared_bytes=4 * parameters,
                block=self.block,
            )
        )


class MadeUp:
    """One price for every group, whatever its ranks."""

    def __init__(self, price: Price) -> None:
        self._price = price

    def refusal(self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> str | None:
        """Serves everything."""
        return None

    def price(self, algorithm: str, ranks: int, exchange: int, stride: int = 1) -> Price:
        """The one price, of the algorithm that is asked for."""
        return lambda kind, nbytes: replace(self._price(kind, nbytes), algorithm=algorithm)

    def lines(
        self, kind: Kind, algorithm: str, ranks: int, exchange: int, stride: int = 1, *, hidden_setup: bool
    ) -> Sequence[LowerPrice]:
        """The line below the one price."""
        return [price_line(self._price, kind, hidden_setup=hidden_setup)]


def cluster(ranks: int) -> Cluster:
    """TeraRack rings."""
    return load_cluster("terarack-64", set={"ranks": ranks, "training.unit_parameters": 300_000})


def job(
    blocks: int = 4,
    ranks: int = 8,
    price: Price | None = None,
    hidden: int = 256,
    model: Model = transformer,
    *,
    kernels: bool = False,
) -> Job:
    """A job at made-up prices; with a kernel model, so small a model takes as long as the host launches its kernels."""
    on = cluster(ranks)
    chip = on.accelerator if kernels else on.accelerator.flat()
    return Job.of(model(blocks, hidden), chip, on.fabric, on.training, MadeUp(price or linear(1e10, 1e-6)))


def with_model(of: Job, **changes: Any) -> Job:
    """The same job of another graph or with other settings."""
    return replace(of, model=replace(of.model, **changes))


def verified_job(graph: ComputeGraph, on: Cluster) -> Job:
    """A job at prices of verified schedules."""
    return Job.of(graph, on.accelerator, on.fabric, on.training, GroupPrices(on.fabric, on.training))


def space(of: Job, batches: tuple[int, ...] = (16, 64), algorithms: tuple[str, ...] = ("ring",)) -> Strategies:
    """All strategies of a job."""
    return of.space(batches, algorithms=algorithms, most_micro_batches=8)


hiddens = st.sampled_from([64, 256, 1024])
models = st.sampled_from([transformer, mixture])
