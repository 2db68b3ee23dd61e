"""Kinds and FLOPs of the calls in an execution trace, from the table of operators, their names and shapes.

The backward pass of attention is twice its forward, recomputation not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lightloom.interchange.traces.calls import Call
from lightloom.workloads import operator_words
from lightloom.workloads.operator_words import KIND_OF_WORD, VIEWS, Product, Shape, has_rule, is_move, plain_word


def kind_of(call: Call, producers: int, *, stacked: bool = False) -> str:
    """Return the kind of an operator that reads the results of ``producers`` earlier ones, and perhaps a parameter that
    stacks matrices."""
    made = [inner.name for inner in _innermost(call) if plain_word(inner.name) not in VIEWS]
    if KIND_OF_WORD.get(plain_word(call.name)) == "elementwise":
        made.append(call.name)  # calls inside it may only prepare a scalar
    names = [inner.name for inner, _ in products(call)]
    return operator_words.kind_of(plain_word(call.name), names, made, producers, stacked=stacked)


def kind_of_name(name: str) -> str:
    """Return the kind of an operator of which only the name is known."""
    return KIND_OF_WORD.get(plain_word(name)) or ("copy" if is_move(name) else "elementwise")


def other_flops(call: Call, kind: str) -> int:
    """Return the FLOPs of an operator that multiplies no matrices."""
    if kind in ("copy", "concat", "embedding", "dropout" if not call.calls else ""):
        return 0
    return max((tensor.elements for tensor in (*call.reads, *call.returns)), default=0)


def is_causal(call: Call) -> bool:
    """Return whether the arguments of scaled dot-product attention ask for a causal mask.

    Their first truth value says so; in calls of two backends one about statistics comes before it, and in the kernel of
    one of them the number of a kind of mask before that (0 is none).
    """
    flags = [value for value in call.values if isinstance(value, bool)]
    if call.word.strip("_") == "efficient_attention_forward" and flags:
        mask = call.values[next(place for place, value in enumerate(call.values) if isinstance(value, bool)) - 1]
        return isinstance(mask, int) and mask > 0
    place = "efficient" in call.name or "cudnn" in call.name
    return any(flags[place : place + 1])


def guessed(call: Call) -> list[str]:
    """Return the names of the calls inside a call of which one FLOP for each element is a guess: the table lacks them,
    and their operands do not fit element by element."""
    unknown = [inner for inner in _innermost(call) if not has_rule(inner.name)]
    return [inner.name for inner in unknown if not _elementwise([tensor.shape for tensor in inner.reads])]


def products(call: Call) -> list[tuple[Call, Product]]:
    """Return the matrix products and convolutions of a call: those of the calls inside it where they exist."""
    inner = [entry for made in call.calls for entry in products(made)]
    if inner:
        return inner
    result = call.returns[0].shape if call.returns else None
    own = operator_words.product(call.name, [tensor.shape for tensor in call.reads], result, call.values)
    return [(call, own)] if own is not None and own.flops else []


def product_flops(call: Call) -> int:
    """Return the FLOPs of the matrix products and convolutions of a call."""
    return sum(made.flops for _, made in products(call))


def _innermost(call: Call) -> Iterator[Call]:
    """Yield the calls inside a call that made no others; the call itself if it made none."""
    for inner in call.calls:
        yield from _innermost(inner)
    if not call.calls:
        yield call


def _elementwise(shapes: Sequence[Shape]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True
