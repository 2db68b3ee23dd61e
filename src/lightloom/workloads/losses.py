"""The loss that ends a training step. Graphs are without: plans price the cross entropy of their last logits."""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.workloads.operator import TENSOR_KINDS, Operator


def without_loss(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Return the operators of a step without the loss of its last logits, which then come last, and what leads to it.

    Operators that end otherwise than in a linear layer and a loss of its outputs are returned as they are.
    """
    places = [place for place, operator in enumerate(operators) if operator.kind in TENSOR_KINDS]
    if not places or operators[places[-1]].kind != "linear":
        return tuple(operators)
    logits, rest = operators[places[-1]], operators[places[-1] + 1 :]
    following = {logits.name}
    for operator in rest:
        if not following.isdisjoint(operator.inputs):
            following.add(operator.name)
    ended = [operator for operator in rest if operator.name in following]
    if not any(operator.kind == "loss" for operator in ended) or any(operator.parameters for operator in ended):
        return tuple(operators)
    # Targets, which the loss alone reads.
    kept: list[Operator] = []
    for operator in reversed([operator for operator in rest if operator.name not in following]):
        readers = [each for each in rest if operator.name in each.inputs]
        if not readers or any(each in kept for each in readers):
            kept.insert(0, operator)
    return (*operators[: places[-1]], *kept, logits)
