"""What attention masks hide: traced on shapes, held against the values that PyTorch computes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightloom.core.errors import WorkloadError
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.models.torch import values as values_module
from lightloom.models.torch.trace import trace, trace_factory

from .library_models import BATCH, DECODER, EXAMPLES

TOKENS = 24


def _places() -> tuple[Tensor, Tensor]:
    place = torch.arange(TOKENS)
    return place[:, None], place[None, :]


def _causal() -> Tensor:
    query, key = _places()
    return key <= query


def _window(size: int = 5) -> Tensor:
    query, key = _places()
    return (key <= query) & (key > query - size)


def _chunks(size: int = 7) -> Tensor:
    query, key = _places()
    return (key <= query) & (key // size == query // size)


def _prefix() -> Tensor:
    query, key = _places()
    return (key <= query) | (key < 6)


def _two_sided() -> Tensor:
    query, key = _places()
    return (query - key).abs() < 4


def _additive() -> Tensor:
    return torch.full((TOKENS, TOKENS), float("-inf")).triu(1)


def _least() -> Tensor:
    mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    return torch.zeros(1, 1, TOKENS, TOKENS).masked_fill_(~mask, torch.finfo(torch.float32).min)


def _subtracted() -> Tensor:
    return (1.0 - torch.tril(torch.ones(TOKENS, TOKENS))) * -10_000.0


def _written_in_place() -> Tensor:
    mask = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril_()
    mask[:, :3] = True
    return mask


def _gathered() -> Tensor:
    return _causal()[torch.arange(TOKENS)]


def _turned() -> Tensor:
    """A window over the first keys, whose rows are keys until it is turned: its elements lie column by column."""
    key, query = _places()
    seen = (key <= query) & (key > query - 5)
    return seen.mT & (torch.arange(TOKENS) < TOKENS - 4)


def _chosen() -> Tensor:
    return torch.where(_window(9), 0.0, float("-inf")).expand(BATCH, 1, -1, -1)


def _nothing() -> Tensor:
    return torch.ones(1, TOKENS, dtype=torch.bool)


MASKS: list[Callable[[], Tensor]] = [
    _causal,
    _window,
    _chunks,
    _prefix,
    _two_sided,
    _additive,
    _least,
    _subtracted,
    _written_in_place,
    _gathered,
    _turned,
    _chosen,
    _nothing,
]


class Masked(nn.Module):
    """Attention with a mask, made while it runs or when it is built."""

    def __init__(self, mask: Callable[[], Tensor], *, buffered: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 24)
        self.mask, self.buffered = mask, buffered
        if buffered:
            self.register_buffer("stored", mask())

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.layer(x).unflatten(-1, (2, 12)).transpose(1, 2).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, self.get_buffer("stored") if self.buffered else self.mask())

    def example_inputs(self, batch: int) -> Tensor:
        """Features (batch, tokens, 8)."""
        return torch.zeros(batch, TOKENS, 8)


def share_of(mask: Tensor) -> float:
    """Share of the scores that a mask with values leaves."""
    seen = mask if mask.dtype == torch.bool else mask > -1e4
    return float(seen.expand(*mask.shape[:-2], TOKENS, TOKENS).double().mean())


def is_causal(mask: Tensor) -> bool:
    seen = mask if mask.dtype == torch.bool else mask > -1e4
    return share_of(mask) < 1 and not (seen & ~_causal()).any()


def attention_of(graph: ComputeGraph) -> list[Operator]:
    return [operator for operator in graph.operators if operator.kind == "attention"]


def expected(mask: Tensor) -> tuple[bool, Any]:
    """Whether a mask is causal, and its visible share; a whole triangle or square needs none."""
    causal, share = is_causal(mask), share_of(mask)
    exact = share == ((TOKENS + 1) / (2 * TOKENS) if causal else 1.0)
    return causal, None if exact else pytest.approx(share)


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask.__name__)
@pytest.mark.parametrize("built", ["forward", "buffer", "buffer on meta"])
def test_masks_hide_what_their_values_hide(mask: Callable[[], Tensor], built: str) -> None:
    if built == "buffer on meta":
        graph = trace_factory(lambda: Masked(mask, buffered=True), name="m", batch=BATCH)
    else:
        module = Masked(mask, buffered=built == "buffer")
        graph = trace(module, module.example_inputs(BATCH), batch=BATCH, name="m")
    (attention,) = attention_of(graph)
    assert (attention.causal, attention.visible) == expected(mask())
    assert graph.uncounted == ()


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask.__name__)
def test_large_masks_are_looked_at_by_points(monkeypatch: pytest.MonkeyPatch, mask: Callable[[], Tensor]) -> None:
    monkeypatch.setattr(values_module, "LARGEST", 8 * TOKENS)
    module = Masked(mask)
    graph = trace(module, module.example_inputs(BATCH), batch=BATCH, name="m")
    (attention,) = attention_of(graph)
    if graph.uncounted:  # not an expression of single elements: said, and counted whole
        assert mask in (_written_in_place, _gathered)
        assert (attention.causal, attention.visible) == (False, None)
    else:
        causal, share = expected(mask())
        assert attention.causal == causal
        assert (attention.visible is None) == (share is None)
        assert share is None or attention.visible == pytest.approx(share_of(mask()), rel=0.01)


def test_windows_of_very_long_sequences_cost_no_memory() -> None:
    length, window = 1 << 17, 4096

    class Long(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            place = torch.arange(x.shape[2])
            seen = (place[None] <= place[:, None]) & (place[None] > place[:, None] - window)
            return F.scaled_dot_product_attention(x, x, x, seen)

    (attention,) = attention_of(trace(Long(), torch.empty(1, 1, length, 8, device="meta"), batch=1, name="m"))
    exact = (length * window - window * (window - 1) / 2) / length**2
    assert attention.causal and attention.visible == pytest.approx(exact, rel=2e-3)


def test_masks_that_only_values_tell_are_said_and_counted_whole() -> None:
    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x)
            return F.scaled_dot_product_attention(y, y, y, (y @ y.transpose(-1, -2)) > 0)

    graph = trace(Sparse(), torch.empty(BATCH, 2, TOKENS, 8), batch=BATCH, name="m")
    assert [(operator.causal, operator.visible) for operator in attention_of(graph)] == [(False, None)]
    assert graph.uncounted == ("attention: what its mask hides is unknown: counted as attention to all tokens",)


@pytest.mark.parametrize("order", [{"enable_gqa": True, "is_causal": False}, {"is_causal": True, "enable_gqa": False}])
def test_causality_is_an_argument_by_its_name(order: dict[str, bool]) -> None:
    class Named(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(key=x, query=x, value=x, **order)  # type: ignore[arg-type]

    (attention,) = attention_of(trace(Named(), torch.empty(BATCH, 2, TOKENS, 8), batch=BATCH, name="m"))
    assert attention.causal == order["is_causal"]


def test_constants_steer_and_inputs_do_not() -> None:
    class Steered(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            places = torch.arange(x.shape[1])
            chosen = places[places % 3 == 0]  # its length follows from values
            return x[:, chosen] if bool((places.diff() == 1).all()) and int(chosen[1]) == 3 else -x

    graph = trace(Steered(), torch.empty(BATCH, 9, 4), batch=BATCH, name="m")
    assert graph.operators[-1].activation_bytes == 4 * BATCH * 3 * 4

    class Looking(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if bool((x == x).all()) else -x

    with pytest.raises(WorkloadError, match="only shapes"):
        trace(Looking(), torch.ones(BATCH, 4), batch=BATCH, name="m")


def test_padding_among_the_inputs_leaves_a_decoder_causal() -> None:
    """A mask without values hides nothing, one with values what it says."""

    class Padded(nn.Module):
        def forward(self, x: Tensor, padding: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, _causal() & padding.bool()[:, None, None])

    for device, kept in (("meta", TOKENS), ("cpu", TOKENS), ("cpu", TOKENS // 2)):
        padding = torch.ones(BATCH, TOKENS, dtype=torch.long, device=device)
        padding[:, kept:] = 0
        if kept == TOKENS and device == "meta":
            padding = torch.empty(BATCH, TOKENS, dtype=torch.long, device=device)
        (attention,) = attention_of(trace(Padded(), (torch.empty(BATCH, 2, TOKENS, 8), padding), batch=BATCH, name="m"))
        assert attention.causal
        seen = float((_causal() & (torch.arange(TOKENS) < kept)).double().mean())
        assert attention.visible == (None if kept == TOKENS else pytest.approx(seen))


DECODERS = {
    "llama-checkpointed": [True, True],
    "llama-mask": [True, True],
    "gpt2-mask-checkpointed": [True, True],
    "mixtral-mask": [True, True],
    "deepseek-v3": [True, True],
    "bert-mask": [False, False],
    "bart-mask": [False, False, True, False, True, False],
    "clip": [False, False, True, True],
}


@pytest.mark.parametrize("name", DECODERS)
def test_attention_of_library_models_is_causal_where_the_model_is(name: str) -> None:
    with torch.device("meta"):
        example = EXAMPLES[name]()
    graph = trace(example.module, example.inputs, batch=BATCH, name=name)
    assert [operator.causal for operator in attention_of(graph)] == DECODERS[name]
    assert all(operator.visible is None for operator in attention_of(graph))


def _fields(kind: str, **changes: Any) -> dict[str, Any]:
    return {
        "model_type": kind,
        "max_position_embeddings": 64,
        **DECODER,
        "num_hidden_layers": 4,
        "head_dim": 16,
        **changes,
    }


WINDOWED: dict[str, tuple[dict[str, Any], list[int]]] = {
    "mistral": (_fields("mistral", sliding_window=10), [10] * 4),
    "gemma3": (
        _fields("gemma3_text", sliding_window=10, layer_types=["sliding_attention", "full_attention"] * 2),
        [10, 64, 10, 64],
    ),
    "qwen3": (_fields("qwen3"), [64] * 4),
    "llama": (_fields("llama"), [64] * 4),
}


@pytest.mark.parametrize("name", WINDOWED)
def test_configurations_keep_causality_and_windows(tmp_path: Path, name: str) -> None:
    pytest.importorskip("transformers")
    fields, windows = WINDOWED[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(fields))
    attention = attention_of(read_model_file(path, FileRequest(batch=2)).graph)
    assert all(operator.causal for operator in attention)
    for operator, window in zip(attention, windows, strict=True):
        pairs = sum(min(query + 1, window) for query in range(64))
        assert operator.visible == (None if window == 64 else pytest.approx(pairs / 64**2))
