"""Forward and backward passes among calls without nesting, as Chakra's converters of 2023 wrote them.

forward    calls with a number of autograd
backward   from the first call named so to the last one; autograd's numbers are missing, so that each call goes to the
           last forward operator of its kind that has none yet: ``convolution_backward`` to ``conv2d``, products to
           linear layers, two each; others to the operator before
"""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.interchange.traces.calls import Call
from lightloom.interchange.traces.costs import product_flops
from lightloom.interchange.traces.steps import BACKWARD

_WORDS = (
    "convolution",
    "conv",
    "batch_norm",
    "layer_norm",
    "threshold",
    "relu",
    "pool",
    "loss",
    "softmax",
    "attention",
)
_SAME = {"convolution": "conv", "threshold": "relu", "softmax": "loss"}
_PRODUCTS = 2
"""Products of the backward pass of a linear layer."""


def passes_of(calls: Sequence[Call]) -> tuple[list[Call], tuple[Call, ...]]:
    """Return the calls of the passes, those of the backward pass inside ones of autograd, and the calls of neither."""
    backward = [place for place, call in enumerate(calls) if "backward" in call.word]
    if not backward:
        return list(calls), ()
    forward = [call for call in calls[: backward[0]] if call.sequence >= 0]
    owners = _owners(forward, calls[backward[0] : backward[-1] + 1])
    passes = list(forward)
    for call, owner in owners:
        engine = Call(call.id, BACKWARD, "", -1, [], [], [])
        call.sequence = owner.sequence
        engine.calls.append(call)
        passes.append(engine)
    kept = {call.id for call in forward} | {call.id for call, _ in owners}
    return passes, tuple(call for call in calls if call.id not in kept)


def _owners(forward: Sequence[Call], backward: Sequence[Call]) -> list[tuple[Call, Call]]:
    """Return the calls of the backward pass, each with its forward operator."""
    waiting: dict[str, list[Call]] = {}
    for call in forward:
        waiting.setdefault(_kind(call), []).append(call)
    owners: list[tuple[Call, Call]] = []
    current, products = forward[-1] if forward else None, 0
    for call in backward:
        if "backward" in call.word:
            kind = _kind(call)
        elif product_flops(call):
            kind = "linear" if products % _PRODUCTS == 0 else ""
            products += 1
        else:
            kind = ""
        if waiting.get(kind):
            current = waiting[kind].pop()
        if current is not None and not call.word.startswith(("allreduce", "broadcast")):
            owners.append((call, current))
    return owners


def _kind(call: Call) -> str:
    word = next((word for word in _WORDS if word in call.word), call.word)
    return _SAME.get(word, word)
