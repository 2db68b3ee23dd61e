"""Which axis holds the samples, and sequences of another length, for factories that bring their example inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lightloom.core.errors import WorkloadError
from lightloom.models.torch.trace import trace_factory

WIDTH = 8


class Reader(nn.Module):
    """An LSTM, sequence-first as PyTorch has it, between a table and a head; tokens (T, B), or (B, T) if turned."""

    def __init__(self, turned: bool) -> None:
        super().__init__()
        self.turned = turned
        self.table = nn.Embedding(50, WIDTH)
        self.layer = nn.LSTM(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 50)

    def forward(self, tokens: Tensor) -> Any:
        x = self.table(tokens)
        return self.head(self.layer(x.transpose(0, 1) if self.turned else x)[0])


def traced(*built: Any, batch: int = 12, length: int | None = None) -> Any:
    return trace_factory(lambda: built, name="m", batch=batch, sequence_length=length)


def tokens(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.long)


def test_samples_of_sequence_first_models_lie_along_the_second_axis() -> None:
    first, second = traced(Reader(turned=False), tokens(5, 4)), traced(Reader(turned=True), tokens(4, 5))
    assert first.batch == second.batch == 12
    assert first.operator("head").forward_flops == second.operator("head").forward_flops == 12 * 5 * 2 * WIDTH * 50
    assert first.operator("head").dimensions["sample"] == 12


def test_a_square_input_of_sequence_first_layers_is_asked_for() -> None:
    with pytest.raises(WorkloadError, match=r"samples cannot be told from tokens in an input of 4 x 4: .*batch_axis"):
        traced(Reader(turned=False), tokens(4, 4))
    assert traced(Reader(turned=False), tokens(4, 4), 1).batch == 12
    with pytest.raises(WorkloadError, match="batch_axis is 2, expected 0 or 1"):
        traced(Reader(turned=False), tokens(4, 4), 2)


class Masked(nn.Module):
    """Tokens (B, T) and a mask over pairs of them."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, WIDTH)

    def forward(self, tokens: Tensor, mask: Tensor) -> Any:
        x = self.table(tokens)
        return torch.softmax(x @ x.transpose(1, 2) + mask, -1)


def test_example_inputs_take_another_length() -> None:
    short = traced(Masked(), (tokens(4, 16), torch.zeros(16, 16)))
    long = traced(Masked(), (tokens(4, 16), torch.zeros(16, 16)), length=32)
    assert long.operator("softmax").forward_flops == 4 * short.operator("softmax").forward_flops
    assert traced(Reader(turned=False), tokens(5, 4), length=10).operator("head").dimensions["sequence"] == 10


def test_a_factory_may_take_the_length_itself() -> None:
    def build(sequence_length: int = 6) -> Any:
        return Masked(), (tokens(2, sequence_length), torch.zeros(sequence_length, sequence_length))

    graph = trace_factory(build, name="m", batch=2, sequence_length=9)
    assert graph.operator("input.mask").activation_bytes == 4 * 81


def test_images_have_no_length() -> None:
    with pytest.raises(WorkloadError, match="takes no sequence length: its first example input, 4 x 3 x 8 x 8"):
        traced(nn.Conv2d(3, 4, 3), torch.zeros(4, 3, 8, 8), length=5)
