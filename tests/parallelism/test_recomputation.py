"""Blocks are recomputed, head and embedding are not, and selective recomputation repeats attention alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning.parallelism.operators import loss_bytes
from lightloom.planning.parallelism.plan import attention_core, in_blocks, local_graph, repeated_operators
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.pricing.strategy_step import exact_stage_times
from lightloom.planning.search.bounds import memory
from tests.planner.jobs import HEADS, SEQUENCE, job, transformer, with_model


def written_out() -> ComputeGraph:
    """A block whose attention is two products with a softmax and dropout between them, and a router's softmax."""
    kinds = {
        "q": ("linear", "x"),
        "scores": ("matmul", "q"),
        "scale": ("elementwise", "scores"),
        "softmax": ("softmax", "scale"),
        "dropout": ("dropout", "softmax"),
        "context": ("matmul", "dropout"),
        "out": ("linear", "context"),
        "router": ("linear", "out"),
        "chances": ("softmax", "router"),
        "topk": ("topk", "chances"),
    }
    operators = [Operator(name="x", kind="input")]
    operators += [
        Operator(name=n, kind=kind, inputs=(source,), block="h.0.attn") for n, (kind, source) in kinds.items()
    ]
    return ComputeGraph(name="written-out", batch=1, operators=tuple(operators))


def names(graph: ComputeGraph, which: np.ndarray) -> list[str]:
    """Names of the chosen operators."""
    return [operator.name for operator, chosen in zip(graph.operators, which, strict=True) if chosen]


def test_embedding_and_head_lie_outside_of_blocks() -> None:
    graph = transformer(2)
    outside = names(graph, ~in_blocks(graph))
    assert outside == ["tokens", "head"] == names(graph, ~repeated_operators(graph, "full"))
    assert not repeated_operators(graph, "none").any()


def test_selective_recomputation_repeats_attention() -> None:
    graph = transformer(2)
    assert names(graph, repeated_operators(graph, "selective")) == ["layers.0.attention", "layers.1.attention"]
    core = ["scores", "scale", "softmax", "dropout", "context"]
    assert names(written_out(), attention_core(written_out())) == core


@pytest.mark.parametrize("recomputation", ["full", "selective"])
def test_a_stage_repeats_the_forward_passes_of_its_blocks(recomputation: str) -> None:
    made = job(4)
    once = Strategy(2, 2, 2, 4, 64, "none", "none", "x", 0)
    kept, again = (exact_stage_times(made, each) for each in (once, once._replace(recomputation=recomputation)))
    local = local_graph(made.graph, made.settings.model_copy(update={"batch_per_rank": once.samples}))
    repeated = repeated_operators(local, recomputation)
    one = np.ones(1, np.int64)
    forward = made.operators.passes(one * once.samples, 2 * one, 0 * one)[0][0]
    assert (again.forward == kept.forward).all()
    assert (again.backward - kept.backward).sum() == pytest.approx(forward[repeated].sum())
    # Two all-reduces a block forward; the embedding's is not repeated.
    tokens = kept.forward_exchange[0] - kept.forward_exchange[1]
    more = (again.backward_exchange - kept.backward_exchange).sum()
    assert more == pytest.approx(kept.forward_exchange.sum() - tokens if recomputation == "full" else 0.0)


def test_what_lies_outside_of_blocks_is_kept() -> None:
    made = job(4)
    alone = Strategy(8, 1, 1, 1, 8, "none", "full", "x", 0)
    held, everything = (memory(made, Strategies.of(alone._replace(recomputation=r)))[0] for r in ("full", "none"))
    local = local_graph(made.graph, made.settings.model_copy(update={"batch_per_rank": 1}))
    output = {operator.name: operator.activation_bytes for operator in local.operators}
    block = sum(size for name, size in output.items() if name.startswith("layers.0."))
    entering = 3 * output["tokens"]
    # Embedding and head, what enters the other blocks, and everything in the block that runs again; or the loss, which
    # is gone by then.
    inside, loss = sum(output.values()) - output["tokens"] - output["head"], loss_bytes(local)
    assert everything - held == pytest.approx(inside - entering + loss - max(block, loss))


def test_recomputing_attention_that_is_written_out_drops_its_insides() -> None:
    made = job(1)
    graph = written_out()
    operators = [replace(operator, activation_bytes=4000, dimensions={"sample": 1}) for operator in graph.operators]
    sized = replace(graph, operators=tuple(operators))
    made = with_model(made, graph=sized)
    alone = Strategy(8, 1, 1, 1, 8, "none", "selective", "x", 0)
    held, everything = (memory(made, Strategies.of(alone._replace(recomputation=r)))[0] for r in ("selective", "none"))
    # One block: its insides are there again while it computes.
    assert held == everything
    columns = made.model.columns
    assert [made.graph.operators[index].name for index in columns.where("inside_core")] == [
        "scores",
        "scale",
        "softmax",
        "dropout",
    ]


def test_unfused_attention_keeps_scores_unless_it_is_recomputed() -> None:
    """Korthikanti et al.: 5 bytes for each of a s² b scores of a block."""
    made = job(4)
    operators = [
        replace(each, dimensions={**each.dimensions, "key_sequence": SEQUENCE}) if each.kind == "attention" else each
        for each in made.graph.operators
    ]
    # A model that ends otherwise than with logits: their loss would hold more than a block's scores.
    operators[-1] = replace(operators[-1], kind="norm")
    made = with_model(made, graph=replace(made.graph, operators=tuple(operators)))
    unfused = with_model(made, settings=made.settings.model_copy(update={"attention": "unfused"}))
    row = Strategy(4, 2, 1, 2, 64, "none", "none", "x", 0)
    scores = 5 * HEADS * SEQUENCE**2 * row.samples / row.tp
    for recomputation, blocks in (("none", 4), ("selective", 1)):
        rows = Strategies.of(row._replace(recomputation=recomputation))
        more = memory(unfused, rows)[0] - memory(made, rows)[0]
        assert more == pytest.approx(blocks * scores)
