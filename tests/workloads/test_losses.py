"""A step without its loss: what the last logits alone lead to, and targets, are gone; nothing else is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lightloom.models.graph import ComputeGraph, Operator, without_loss

BODY = (
    Operator(name="table", kind="embedding", dimensions={"sample": 2}, parameters=8),
    Operator(name="router", kind="linear", inputs=("table",), dimensions={"sample": 2}, parameters=8),
    Operator(name="mix", kind="elementwise", inputs=("table", "router"), dimensions={"sample": 2}),
    Operator(name="head", kind="linear", inputs=("mix",), dimensions={"sample": 2}, parameters=8),
)
TARGETS = (
    Operator(name="pad", kind="copy", dimensions={"sample": 2}),
    Operator(name="shift", kind="copy", inputs=("pad",), dimensions={"sample": 2}),
)
AUXILIARY = (
    Operator(name="share", kind="softmax", inputs=("router",), dimensions={"sample": 2}),
    Operator(name="balance", kind="reduce", inputs=("share",)),
)


@given(casts=st.integers(0, 3), targets=st.booleans(), auxiliary=st.booleans(), scaled=st.booleans())
def test_the_loss_goes_and_all_else_stays(casts: int, targets: bool, auxiliary: bool, scaled: bool) -> None:
    """Whatever lies between logits and loss, and whatever else the step computes after its logits."""
    last = "head"
    tail: list[Operator] = []
    for number in range(casts):
        tail.append(Operator(name=f"cast {number}", kind="copy", inputs=(last,), dimensions={"sample": 2}))
        last = tail[-1].name
    tail += [*TARGETS[: 2 * targets], *AUXILIARY[: 2 * auxiliary]]
    tail.append(Operator(name="loss", kind="loss", inputs=(last, *(["shift"] if targets else []))))
    if scaled:
        tail.append(Operator(name="scaled", kind="elementwise", inputs=("loss", *(["balance"] if auxiliary else []))))
    left = without_loss((*BODY, *tail))
    kept = AUXILIARY if auxiliary and not scaled else ()
    assert left == (*BODY[:-1], *kept, BODY[-1])
    ComputeGraph(name="left", batch=2, operators=left)
    assert without_loss(left) == left


def test_what_ends_otherwise_is_left_as_it_is() -> None:
    loss = Operator(name="loss", kind="loss", inputs=("head",))
    convolution = replace(BODY[-1], kind="conv")
    learned = Operator(name="temperature", kind="elementwise", inputs=("head",), parameters=1)
    for operators in (
        BODY,
        (*BODY, replace(loss, kind="reduce")),
        (*BODY[:-1], convolution, loss),
        (*BODY, learned, replace(loss, inputs=("temperature",))),
        (*BODY, replace(loss, inputs=("mix",))),
    ):
        assert without_loss(operators) == operators
