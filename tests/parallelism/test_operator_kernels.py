"""Shapes of a graph's products: what a tensor or an expert group divides, and what conserves the FLOPs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from lightloom.core.arrays import Floats
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.kernels import (
    KernelKind,
    KernelModel,
    KernelShapes,
    Rates,
)
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.models.zoo import load_workload
from lightloom.planning.parallelism.operators import (
    Divisors,
    OperatorColumns,
    graph_times,
    kernel_columns,
    kernel_shapes,
    operator_columns,
    passes,
    repetition,
    times_and_launches,
)
from lightloom.planning.parallelism.tensor_parallel import expert_split, tensor_split

A100 = load_accelerator("a100")
MODELS = ("gpt2-355m", "resnet50", "mixtral-8x7b", "googlenet-2014", "hdc")


@cache
def model(name: str, batch: int = 2) -> ComputeGraph:
    """A model of the zoo in bf16."""
    pytest.importorskip("torch", reason="needs lightloom[torch]")
    return load_workload(name, batch=batch).with_element_bytes(2)


def kernels(graph: ComputeGraph) -> tuple[KernelShapes, KernelShapes, Floats, Floats]:
    """Kernels forward and backward, and FLOPs of both passes, [operators]."""
    forward = np.array([operator.forward_flops for operator in graph.operators], np.float64)
    backward = np.array([operator.backward_flops for operator in graph.operators], np.float64)
    times = repetition(
        forward, backward, np.array([operator.kind == "input" for operator in graph.operators], np.int64)
    )
    columns = kernel_columns(graph.operators, "flash")
    return *kernel_shapes(columns, forward, times, graph.element_bytes, Divisors()), forward, backward


def columns_of(graph: ComputeGraph) -> OperatorColumns:
    """Columns of a graph."""
    split = tensor_split(graph)
    return operator_columns(graph, split, expert_split(graph, split), graph.element_bytes)


def seen(chip: Accelerator, graph: ComputeGraph, tp: int, ep: int = 1) -> KernelShapes:
    """Kernels of the forward pass that the columns of a split hand to an accelerator."""
    taken: list[KernelShapes] = []

    class Watched(KernelModel):
        def operator_times(self, nbytes: Floats, flops: Floats, kernels: KernelShapes, rates: Rates) -> Floats:
            taken.append(kernels)
            return super().operator_times(nbytes, flops, kernels, rates)

    watched = chip.model_copy(update={"kernels": Watched(compute_units=108)})
    one = np.ones(1, np.int64)
    columns_of(graph).times(watched, "bf16", one * graph.batch, one * tp, ep=one * ep)
    return taken[0]


@pytest.mark.parametrize("name", MODELS)
def test_products_do_the_flops_of_their_operators(name: str) -> None:
    forward, backward, flops, backward_flops = kernels(model(name))
    factor = np.where(forward.kind == KernelKind.PRODUCT, 2, 4)
    which = np.isin(forward.kind, (KernelKind.PRODUCT, KernelKind.FLASH))
    work = factor * forward.m * forward.n * forward.k * forward.products
    assert work[which] == pytest.approx(flops[which])
    again = work * (backward.input_gradient + backward.weight_gradient)
    assert again[which] == pytest.approx(backward_flops[which])
    assert (backward.forward == 0).all() and set(forward.kind) >= {KernelKind.MEMORY, KernelKind.PRODUCT}
    assert (forward.kind != KernelKind.ARITHMETIC).all()


def shape(graph: ComputeGraph, name: str) -> tuple[float, ...]:
    forward, *_ = kernels(graph)
    at = [operator.name for operator in graph.operators].index(name)
    return tuple(float(each[at]) for each in (forward.m, forward.n, forward.k, forward.products))


def test_shapes_are_those_of_the_layers() -> None:
    gpt, resnet, mixtral = model("gpt2-355m"), model("resnet50"), model("mixtral-8x7b")
    assert shape(gpt, "layers.0.qkv") == (2 * 1024, 3072, 1024, 1)
    assert shape(gpt, "layers.0.attention") == (1024, 1024, 64, 2 * 16)
    assert shape(resnet, "layer1.0.conv2") == (2 * 56 * 56, 64, 64 * 9, 1)
    # Two of eight experts a token.
    experts = next(operator for operator in mixtral.operators if operator.kind == "experts")
    assert shape(mixtral, experts.name) == (2 * 4096 * 2 / 8, experts.dimensions["channel"], 4096, 8)
    alexnet = model("alexnet-2012")
    assert shape(alexnet, next(o.name for o in alexnet.operators if o.dimensions.get("groups") == 2))[3] == 2


def test_causal_models_say_so() -> None:
    assert all(operator.causal == (operator.kind == "attention") for operator in model("gpt2-355m").operators)
    # The encoder sees everything, the decoder looks at the encoder and at what came before.
    attention = [operator.causal for operator in model("transformer-big").operators if operator.kind == "attention"]
    assert attention.count(True) == 6 and attention.count(False) == 12


def test_products_of_activations_count_their_samples() -> None:
    sizes = {"sample": 4, "axis_1": 8, "axis_2": 128, "axis_3": 256, "in_channel": 64}
    flops = 2 * 4 * 8 * 128 * 256 * 64
    product = Operator(name="scores", kind="matmul", dimensions=sizes, forward_flops=flops, backward_flops=2 * flops)
    assert shape(ComputeGraph(name="g", batch=4, operators=(product,)), "scores") == (128, 256, 64, 32)


def test_tensor_groups_divide_columns_then_rows_and_heads() -> None:
    graph, tp = model("gpt2-355m"), 4
    whole, share = seen(A100, graph, 1), seen(A100, graph, tp)
    at = {operator.name: index for index, operator in enumerate(graph.operators)}
    for name, divided in (("qkv", "n"), ("attention", "products"), ("projection", "k"), ("up", "n"), ("down", "k")):
        for size in ("m", "n", "k", "products"):
            ratio = getattr(whole, size)[0, at["layers.0." + name]] / getattr(share, size)[0, at["layers.0." + name]]
            assert ratio == (tp if size == divided else 1), (name, size)


def test_expert_groups_hold_fewer_experts_of_more_tokens() -> None:
    graph = model("mixtral-8x7b")
    whole, share = seen(A100, graph, 1), seen(A100, graph, 1, ep=4)
    experts = [index for index, operator in enumerate(graph.operators) if operator.kind == "experts"]
    assert (whole.products[0, experts] == 4 * share.products[0, experts]).all()
    assert (share.m[0, experts] == 4 * whole.m[0, experts]).all()


def test_unfused_attention_takes_longer() -> None:
    graph = model("gpt2-355m")
    attention = [operator.kind == "attention" for operator in graph.operators]
    fused, unfused = (np.stack(graph_times(graph, A100, "bf16", way)) for way in ("flash", "unfused"))
    assert (unfused[:, attention] > 3 * fused[:, attention]).all()
    assert (unfused[:, ~np.array(attention)] == fused[:, ~np.array(attention)]).all()


def test_a_pass_takes_no_less_than_its_launches() -> None:
    graph = model("hdc")
    assert A100.kernels is not None
    times, launches = times_and_launches(graph, A100, "bf16")
    none = np.zeros(len(graph.operators))
    forward, backward = passes(times, launches, none)
    # Five linear layers, four activations; a linear layer has gradients of inputs, weights and biases.
    assert forward.sum() == pytest.approx(9 * A100.kernels.dispatch)
    assert backward.sum() == pytest.approx((5 * 3 + 4) * A100.kernels.dispatch)
    assert passes(times, launches, none + 1)[1].sum() == pytest.approx((5 * 4 + 4 * 2) * A100.kernels.dispatch)
    assert forward / forward.sum() == pytest.approx(times[0] / times[0].sum())
    large = model("gpt2-355m", 32)
    once, launches = times_and_launches(large, A100, "bf16")
    assert (passes(once, launches, np.zeros(len(large.operators)))[0] == once[0]).all()
    assert not any(seconds.any() for seconds in times_and_launches(graph, A100.flat(), "bf16")[1])


def test_attention_of_unknown_sizes_costs_its_flops() -> None:
    operator = Operator(
        name="a", kind="attention", dimensions={"sample": 2}, forward_flops=10**12, backward_flops=2 * 10**12
    )
    graph = ComputeGraph(name="g", batch=2, operators=(operator,))
    for way in ("flash", "unfused"):
        assert graph_times(graph, A100, "bf16", way)[0][0] == pytest.approx(1e12 / (0.4 * 312e12))
