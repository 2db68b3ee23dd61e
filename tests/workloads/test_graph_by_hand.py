"""Graphs of two or three operators whose sums, scalings and refusals are worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.models.graph import (
    COUNTS,
    KINDS,
    ComputeGraph,
    MeasuredTimes,
    Operator,
    check_integer,
    has_samples,
    layers,
    neuron_bytes,
    synapse_bytes,
    without_loss,
)

WHOLE = Operator(
    name="body.conv", kind="conv", inputs=("x",), dimensions={"sample": 3, "channel": 5}, forward_flops=21,
    backward_flops=33, parameter_bytes=44, activation_bytes=60, parameters=11, forward_bytes=104, shared_bytes=44,
    saved_bytes=64, saved_shared_bytes=4, saved_index_bytes=27, recomputed_flops=6, recomputed_bytes=32,
    recomputed_shared_bytes=8, checkpoint="body", block="body",
)  # fmt: skip
GIVEN = Operator(name="x", kind="input", dimensions={"sample": 3}, activation_bytes=84)


def graph(*operators: Operator, **changes: Any) -> ComputeGraph:
    fields: dict[str, Any] = {"name": "g", "batch": 3, "operators": operators or (GIVEN, WHOLE)}
    return ComputeGraph(**fields | changes)


# Operators


def test_a_batch_scales_what_samples_do_not_share() -> None:
    assert WHOLE.with_batch(7, 3, 4) == replace(
        WHOLE, dimensions={"sample": 7, "channel": 5}, forward_flops=49, backward_flops=77, activation_bytes=140,
        forward_bytes=(104 - 44) * 7 // 3 + 44, saved_bytes=(64 - 4) * 7 // 3 + 4, saved_index_bytes=63,
        recomputed_flops=14, recomputed_bytes=(32 - 8) * 7 // 3 + 8,
    )  # fmt: skip


def test_parts_of_a_sample_are_rounded_up() -> None:
    found = replace(WHOLE, forward_flops=22, saved_bytes=None, saved_shared_bytes=0).with_batch(1, 3, 4)
    assert (found.forward_flops, found.backward_flops, found.saved_bytes) == (8, 11, None)


@pytest.mark.parametrize(
    ("kind", "elements", "grows"),
    [("loss", 1, False), ("loss", 3, True), ("reduce", 1, False), ("reduce", 3, True), ("reduce", 4, False)],
)
def test_results_without_samples_stay(kind: str, elements: int, grows: bool) -> None:
    made = Operator(name="a", kind=kind, dimensions={"sample": 3}, activation_bytes=8 * elements, forward_flops=6)
    found = made.with_batch(6, 3, 8)
    assert found.activation_bytes == 8 * elements * (2 if grows else 1) and found.forward_flops == 12
    assert has_samples(kind, elements, 3) is grows


def test_a_loss_of_one_element_stays_at_any_batch() -> None:
    """A batch of one divides it; and elements are counted, not their bytes."""
    for kind, elements, traced, grows in (("loss", 1, 1, False), ("loss", 2, 1, True), ("reduce", 1, 1, True),
                                          ("reduce", 3, 2, False), ("loss", 2, 2, True)):  # fmt: skip
        made = Operator(name="a", kind=kind, dimensions={"sample": traced}, activation_bytes=2 * elements)
        assert made.with_batch(6, traced, 2).activation_bytes == 2 * elements * (6 // traced if grows else 1)
        assert has_samples(kind, elements, traced) is grows


def test_operators_without_samples_stay() -> None:
    fixed = replace(WHOLE, dimensions={"channel": 5})
    assert fixed.with_batch(7, 3, 4) is fixed


def test_elements_of_another_size_scale_bytes_but_not_indices() -> None:
    assert WHOLE.with_element_bytes(2, 4) == replace(
        WHOLE, parameter_bytes=22, activation_bytes=30, forward_bytes=52, shared_bytes=22, saved_bytes=32,
        saved_shared_bytes=2, recomputed_bytes=16, recomputed_shared_bytes=4,
    )  # fmt: skip
    assert replace(WHOLE, saved_bytes=None, saved_shared_bytes=0).with_element_bytes(2, 4).saved_bytes is None


def test_counts_are_whole_numbers_that_every_operator_has() -> None:
    assert COUNTS == (
        "forward_flops", "backward_flops", "parameter_bytes", "activation_bytes", "parameters", "forward_bytes",
        "shared_bytes", "saved_shared_bytes", "saved_index_bytes", "recomputed_flops", "recomputed_bytes",
        "recomputed_shared_bytes",
    )  # fmt: skip


def test_what_is_kept_is_the_output_where_nothing_tells() -> None:
    assert WHOLE.saved_parts(output_sampled=True) == WHOLE.saved_parts(output_sampled=False) == (60, 4)
    assert WHOLE.kept_bytes == 64 + 27
    silent = replace(WHOLE, saved_bytes=None, saved_shared_bytes=0)
    assert silent.saved_parts(output_sampled=True) == (60, 0)
    assert silent.saved_parts(output_sampled=False) == (0, 60)
    assert silent.kept_bytes == 60 + 27
    assert replace(WHOLE, saved_bytes=4).saved_parts(output_sampled=True) == (0, 4)


@pytest.mark.parametrize(
    ("causal", "visible", "share"),
    [(False, None, 1.0), (True, None, 0.5), (True, 0.25, 0.25), (False, 0.25, 0.25), (False, 1, 1)],
)
def test_scores_that_are_needed(causal: bool, visible: float | None, share: float) -> None:
    assert replace(WHOLE, causal=causal, visible=visible).visible_scores == share


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": ""}, "an operator needs a name"),
        ({"kind": "cone"}, f"operator 'body.conv': kind 'cone' is none of {', '.join(KINDS)}"),
        (
            {"parameters": -1},
            "operator 'body.conv': parameters is -1, expected a whole number of at least 0",
        ),
        (
            {"forward_flops": 2.0},
            "operator 'body.conv': forward_flops is 2.0, expected a whole number of at least 0",
        ),
        (
            {"saved_index_bytes": True},
            "operator 'body.conv': saved_index_bytes is True, expected a whole number of at least 0",
        ),
        (
            {"dimensions": {"height": 0}},
            "operator 'body.conv': dimension height is 0, expected a whole number of at least 1",
        ),
        ({"shared_bytes": 105}, "operator 'body.conv': shared_bytes 105 exceed forward_bytes"),
        (
            {"recomputed_shared_bytes": 33},
            "operator 'body.conv': recomputed_shared_bytes 33 exceed recomputed_bytes",
        ),
        ({"visible": 0}, "operator 'body.conv': visible is 0, expected a share over 0"),
        ({"visible": 1.5}, "operator 'body.conv': visible is 1.5, expected a share over 0"),
        ({"saved_bytes": 3}, "operator 'body.conv': saved_bytes is 3, expected a whole number of at least 4"),
        ({"saved_bytes": 9.0}, "operator 'body.conv': saved_bytes is 9.0, expected a whole number of at least 4"),
    ],
)
def test_operators_that_cannot_be_are_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        replace(WHOLE, **change)
    assert str(refused.value) == complaint


@pytest.mark.parametrize(
    "change",
    [
        {"shared_bytes": 104},
        {"recomputed_shared_bytes": 32},
        {"visible": 1},
        {"visible": 1e-9},
        {"saved_bytes": 4},
        {"dimensions": {"height": 1}},
        {"parameters": 0},
    ],
)
def test_the_last_counts_that_fit_are_taken(change: dict[str, Any]) -> None:
    (name, value), *_ = change.items()
    assert getattr(replace(WHOLE, **change), name) == value


@pytest.mark.parametrize(("value", "least", "fine"), [(2, 2, True), (1, 2, False), (True, 0, False), ("2", 0, False)])
def test_whole_numbers_have_a_least_one(value: object, least: int, fine: bool) -> None:
    if fine:
        check_integer("o", "key", value, least)
        return
    with pytest.raises(WorkloadError) as refused:
        check_integer("o", "key", value, least)
    assert str(refused.value) == f"operator 'o': key is {value!r}, expected a whole number of at least {least}"


def test_an_operator_counts_nothing_unless_it_says_so() -> None:
    plain = Operator(name="a", kind="activation")
    assert [getattr(plain, name) for name in COUNTS] == [0] * len(COUNTS)
    assert (plain.inputs, plain.dimensions, plain.saved_bytes, plain.visible) == ((), {}, None, None)
    assert (plain.checkpoint, plain.block, plain.causal) == ("", "", False)


# Measured times


def test_measured_times_are_summed_and_kept() -> None:
    times = MeasuredTimes(batch=3, forward=(0.5, None), backward=(None, 0.25), machine="m", precision="bf16")
    assert times.seconds == 0.75
    document = times.to_json()
    assert document == {
        "forward_s": [0.5, None], "backward_s": [None, 0.25], "batch": 3, "machine": "m", "clock": "",
        "accelerator": None, "precision": "bf16",
    }  # fmt: skip
    assert MeasuredTimes.from_json(document) == times
    assert MeasuredTimes(batch=1, forward=(0, 0.0), backward=()).seconds == 0


@pytest.mark.parametrize("seconds", [-1e-9, math.inf, math.nan])
def test_times_that_cannot_be_are_refused(seconds: float) -> None:
    for changed in ({"forward": (seconds,), "backward": (1.0,)}, {"forward": (1.0,), "backward": (None, seconds)}):
        with pytest.raises(WorkloadError) as refused:
            MeasuredTimes(batch=1, **changed)
        assert str(refused.value) == f"a measured time of {seconds!r} seconds: expected 0 or more"


# Graphs


SECOND = replace(WHOLE, name="second", parameters=2, parameter_bytes=8, checkpoint="other", recomputed_bytes=40)
THIRD = replace(WHOLE, name="third", checkpoint="other", recomputed_bytes=10)


def test_sums_are_over_all_operators() -> None:
    found = graph(GIVEN, WHOLE, SECOND)
    assert (found.parameters, found.parameter_bytes) == (13, 52)
    assert (found.forward_flops, found.backward_flops, found.activation_bytes) == (42, 66, 84 + 120)
    assert found.recomputed_bytes == 40 and found.saved_bytes == 84 + 2 * (64 + 27) + 40
    assert graph(GIVEN, WHOLE, SECOND, THIRD).recomputed_bytes == 50
    assert graph(GIVEN).recomputed_bytes == 0


@pytest.mark.parametrize(
    ("operators", "changes", "complaint"),
    [
        ((GIVEN,), {"name": 5}, "a graph's name is 5: expected a text"),
        ((), {"operators": ()}, "graph 'g' has no operators: expected at least one"),
        ((GIVEN,), {"batch": 0}, "operator 'g': batch is 0, expected a whole number of at least 1"),
        ((GIVEN,), {"element_bytes": 0}, "operator 'g': element_bytes is 0, expected a whole number of at least 1"),
        (
            (GIVEN,), {"unused_parameters": -1},
            "operator 'g': unused_parameters is -1, expected a whole number of at least 0",
        ),
        ((GIVEN, GIVEN), {}, "graph 'g': operator 'x' occurs twice"),
        ((WHOLE, GIVEN), {}, "graph 'g': 'body.conv' reads 'x', no earlier operator"),
        ((replace(GIVEN, inputs=("x",)),), {}, "graph 'g': 'x' reads 'x', no earlier operator"),
        ((GIVEN, WHOLE), {"batch": 5}, "graph 'g': 'x' has 3 samples, expected the batch, 5"),
        (
            (GIVEN, WHOLE), {"measured": MeasuredTimes(batch=1, forward=(1.0,), backward=(1.0, 1.0))},
            "graph 'g': 1 measured times of 2 operators",
        ),
        (
            (GIVEN, WHOLE), {"measured": MeasuredTimes(batch=1, forward=(1.0, 1.0), backward=(1.0, 1.0, None))},
            "graph 'g': 3 measured times of 2 operators",
        ),
    ],
)  # fmt: skip
def test_graphs_that_cannot_be_are_refused(
    operators: tuple[Operator, ...], changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(WorkloadError) as refused:
        graph(*operators, **changes)
    assert str(refused.value) == complaint


def test_operators_are_found_by_name_and_by_what_they_read() -> None:
    found = graph(GIVEN, WHOLE, replace(SECOND, inputs=("x", "body.conv")))
    assert found.operator("second").parameters == 2
    assert found.consumers() == {"x": ("body.conv", "second"), "body.conv": ("second",), "second": ()}
    with pytest.raises(WorkloadError) as refused:
        found.operator("third")
    assert str(refused.value) == "graph 'g' has no operator 'third'"


def test_the_same_batch_or_element_is_the_same_graph() -> None:
    found = graph()
    assert found.with_batch(3) is found and found.with_element_bytes(4) is found
    assert found.with_batch(7).batch == 7 and found.with_batch(7).operators[1] == WHOLE.with_batch(7, 3, 4)
    halved = found.with_element_bytes(2)
    assert halved.element_bytes == 2 and halved.operators[1] == WHOLE.with_element_bytes(2, 4)
    # Elements of a loss are counted at the graph's size.
    loss = Operator(name="l", kind="loss", dimensions={"sample": 3}, activation_bytes=2)
    assert graph(loss, element_bytes=2).with_batch(6).operators[0].activation_bytes == 2
    with pytest.raises(WorkloadError, match="batch is 0, expected a whole number of at least 1"):
        found.with_batch(0)


def test_documents_leave_out_what_is_at_its_default() -> None:
    plain = graph(GIVEN).to_json()
    assert plain == {
        "schema": "lightloom.graph/1", "name": "g", "batch": 3, "element_bytes": 4, "unused_parameters": 0,
        "operators": [{"name": "x", "kind": "input", "dimensions": {"sample": 3}, "activation_bytes": 84}],
    }  # fmt: skip
    times = MeasuredTimes(batch=3, forward=(1.0,), backward=(None,))
    full = graph(GIVEN, uncounted=("one",), measured=times, unused_parameters=7)
    document = full.to_json()
    assert (document["uncounted"], document["measured"], document["unused_parameters"]) == (["one"], times.to_json(), 7)
    assert ComputeGraph.from_json(document) == full
    assert graph().to_json()["operators"][1]["inputs"] == ["x"]
    assert ComputeGraph.from_json(graph().to_json()) == graph()


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "not a compute graph: expected a document with schema 'lightloom.graph/1'"),
        ({"schema": "lightloom.graph/2"}, "not a compute graph: expected a document with schema 'lightloom.graph/1'"),
        ({"schema": "lightloom.graph/1"}, "not a compute graph: 'operators'"),
    ],
)
def test_documents_of_something_else_are_refused(document: Any, complaint: str) -> None:
    with pytest.raises(WorkloadError) as refused:
        ComputeGraph.from_json(document)
    assert str(refused.value) == complaint


def test_graphs_are_kept_as_one_line_of_json(tmp_path: Path) -> None:
    path = graph().save(tmp_path / "g.json")
    text = path.read_text()
    assert path == tmp_path / "g.json" and text.startswith('{"schema":"lightloom.graph/1","name":"g",')
    assert text.endswith("}\n") and text.count("\n") == 1
    with pytest.raises(ConfigError) as refused:
        graph().save(tmp_path / "g.yaml")
    assert str(refused.value) == f"{tmp_path / 'g.yaml'}: a graph is kept as JSON: expected a path that ends in .json"


def test_rows_hold_the_counts_of_each_operator() -> None:
    first, second = graph().rows()
    assert (first["name"], first["kind"], second["name"], second["kind"]) == ("x", "input", "body.conv", "conv")
    assert [second[name] for name in COUNTS] == [21, 33, 44, 60, 11, 104, 44, 4, 27, 6, 32, 8]
    assert graph().summary() == "g: 2 operators, 11 parameters, 21 FLOPs forward and 33 backward at batch 3"


# Without the loss


def step(*nodes: tuple[str, str, tuple[str, ...]], weighted: str = "") -> list[Operator]:
    return [
        Operator(name=name, kind=kind, inputs=inputs, parameters=int(name == weighted)) for name, kind, inputs in nodes
    ]


BODY = (("x", "input", ()), ("logits", "linear", ("x",)))
LOSS = (("soft", "softmax", ("logits",)), ("loss", "loss", ("soft", "t")))


@pytest.mark.parametrize(
    ("nodes", "kept"),
    [
        ((*BODY, ("t", "input", ()), *LOSS), "x logits"),
        ((BODY[0], ("t", "input", ()), BODY[1], *LOSS), "x t logits"),
        ((*BODY, ("loss", "loss", ("logits",))), "x logits"),
        # What leads to the targets goes too, and what is read by something else, or by nothing, stays.
        ((*BODY, ("s", "input", ()), ("t", "copy", ("s",)), *LOSS), "x logits"),
        ((*BODY, ("t", "input", ()), *LOSS, ("u", "copy", ("t",))), "x t u logits"),
        ((*BODY, ("t", "input", ()), *LOSS, ("u", "copy", ("x",))), "x u logits"),
        ((*BODY, ("t", "input", ()), *LOSS, ("u", "copy", ("x",)), ("v", "copy", ("u",))), "x u v logits"),
        (
            (*BODY, ("t", "input", ()), *LOSS, ("u", "copy", ("x",)), ("v", "copy", ("u",)), ("w", "copy", ("v",))),
            "x u v w logits",
        ),
        ((*BODY, ("t", "input", ()), *LOSS, ("more", "elementwise", ("loss",))), "x logits"),
        # What stands before the logits stays as it is, read or not.
        (
            (BODY[0], ("h", "linear", ("x",)), ("u", "copy", ("h",)), BODY[1], ("loss", "loss", ("logits",))),
            "x h u logits",
        ),
        # No loss of the logits, no products, or another product at the end: all stays.
        ((*BODY, ("soft", "softmax", ("logits",))), "x logits soft"),
        ((*BODY, ("loss", "loss", ("x",))), "x logits loss"),
        ((BODY[0], ("loss", "loss", ("x",))), "x loss"),
        ((*BODY, ("mm", "matmul", ("logits",)), ("loss", "loss", ("mm",))), "x logits mm loss"),
        ((*BODY, ("top", "linear", ("logits",)), ("loss", "loss", ("top",))), "x logits top"),
        ((*BODY, ("top", "linear", ("x",)), ("loss", "loss", ("logits",))), "x logits top loss"),
    ],
)
def test_what_follows_the_logits_is_left_out(nodes: tuple[Any, ...], kept: str) -> None:
    assert [each.name for each in without_loss(step(*nodes))] == kept.split()


def test_a_loss_behind_parameters_stays() -> None:
    nodes = (*BODY, ("t", "input", ()), *LOSS)
    assert len(without_loss(step(*nodes, weighted="soft"))) == 5
    assert len(without_loss(step(*nodes, weighted="logits"))) == len(without_loss(step(*nodes, weighted="t"))) == 2
    assert without_loss([]) == ()


# Synapses and neurons


def sized(name: str, kind: str, elements: int, **sizes: int) -> Operator:
    return Operator(name=name, kind=kind, dimensions={"sample": 3, **sizes}, activation_bytes=4 * 3 * elements)


NETWORK = (
    sized("x", "input", 2),
    sized("c", "conv", 3, channel=10, in_channel=6, groups=2, kernel_height=5, kernel_width=7),
    sized("n", "batch_norm", 5),
    sized("r", "activation", 7),
    sized("p", "pool", 11),
    sized("a", "add", 13),
    sized("k", "concat", 17),
    sized("l", "lrn", 19),
    sized("m", "matmul", 23, channel=3, in_channel=5),
    sized("f", "linear", 29, channel=11, in_channel=13),
)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("net", "x c n p a k l f"),
        ("googlenet-2014", "x c p f"),
        ("inception-v3", "x c p f"),
        ("my-inception", "x c n p a k l f"),
    ],
)
def test_layers_with_neurons_are_those_of_the_table(name: str, kinds: str) -> None:
    found = graph(*NETWORK, name=name)
    assert [each.name for each in layers(found)] == kinds.split()
    neurons = sum(op.activation_bytes for op in NETWORK if op.name in kinds.split())
    assert neuron_bytes(found) == neurons and neuron_bytes(found, 6) == 2 * neurons


def test_synapses_are_weights_without_biases() -> None:
    weights = 10 * 6 // 2 * 35 + 11 * 13
    assert synapse_bytes(graph(*NETWORK)) == 4 * weights
    assert synapse_bytes(graph(*NETWORK).with_element_bytes(2)) == 2 * weights
    one = sized("c", "conv", 3, channel=10, in_channel=6, groups=1, kernel_length=5)
    assert synapse_bytes(graph(one)) == 4 * 10 * 6 * 5
