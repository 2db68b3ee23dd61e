"""Gradients of real steps: the model's own, reproducible, and one clear line where there are none to be had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs lightloom[torch]")

import torch
from torch import nn

from lightloom.core.errors import ConfigError, WorkloadError
from lightloom.exchange.datasets import Digits
from lightloom.papers.runs import gradient_profile
from lightloom.papers.runs.gradient_profile import (
    Training,
    _build,
    saved_gradients,
    trained_gradients,
)

MODEL = """
import torch
from torch import nn


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.out = nn.Linear(6, 11)
        self.spare = nn.Linear(2, 2)

    def forward(self, tokens):
        return self.out(self.table(tokens))

    def example_inputs(self, batch):
        return (torch.empty(batch, 5, dtype=torch.long),)


def build():
    return Tiny()


def loss():
    return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), (torch.empty(4, 3),)


def sequence_first():
    return nn.Linear(3, 2), (torch.empty(5, 4, 3),), 1


def pair():
    return nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 11)), (torch.zeros(4, 5, dtype=torch.long),)


def chosen(sequence_length=5):
    return nn.Linear(sequence_length, 2), (torch.empty(4, sequence_length),)


def broken():
    return nn.Sequential(nn.Linear(3, 1)), (torch.empty(4, 7),)


def empty():
    return nn.ReLU(), (torch.empty(4, 7),)


def failing():
    raise RuntimeError("no weights today")


def images():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 10)), (torch.empty(4, 3, 8, 8),)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return f"{path}:"


def test_gradients_carry_the_parameters_names_and_repeat_themselves(model: str) -> None:
    training = Training(model=f"{model}build", steps=6, batch=3)
    assert training.sampled == [1, 2, 4, 6] and "random inputs and labels" in training.describe()
    runs = [
        [
            (step, {name: values.copy() for name, values in found.items()})
            for step, _, found in trained_gradients(training, 200)
        ]
        for _ in range(2)
    ]
    assert [step for step, _ in runs[0]] == training.sampled
    for (_, first), (_, second) in zip(*runs, strict=True):
        # What the forward pass never uses has no gradient.
        assert {name: each.size for name, each in first.items()} == {
            "table.weight": 66,
            "out.weight": 66,
            "out.bias": 11,
        }
        assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(runs[0][0][1]["out.weight"], runs[0][1][1]["out.weight"])


def test_the_first_gradient_is_autograd_s(model: str) -> None:
    [(_, _, found)] = trained_gradients(Training(model="hdc", steps=1, batch=4), 1_149_010)
    assert sum(each.size for each in found.values()) == 1_149_010
    assert all(np.isfinite(each).all() and each.any() for each in found.values())


@pytest.mark.parametrize(
    ("factory", "complaint"),
    [
        ("broken", "cannot be trained: RuntimeError"),
        ("empty", "no parameters"),
        ("failing", "cannot be built: RuntimeError: no weights today"),
        ("nothing", "has no 'nothing'"),
    ],
)
def test_models_that_cannot_be_trained_are_named(model: str, factory: str, complaint: str) -> None:
    with pytest.raises(WorkloadError, match=complaint):
        list(trained_gradients(Training(model=model + factory, steps=1), 10))


def test_a_model_with_one_output_a_sample_is_trained_on_squares(model: str) -> None:
    [(_, _, found)] = trained_gradients(Training(model=f"{model}loss", steps=1), 4)
    assert sum(each.size for each in found.values()) == 4


def test_a_factory_may_name_the_axis_of_samples(model: str) -> None:
    ((_, _, gradients),) = trained_gradients(Training(model=f"{model}sequence_first", steps=1), 8)
    assert gradients.keys() == {"weight", "bias"}


def test_digits_are_resized_for_images_and_alike_in_all_channels(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = Digits(np.random.default_rng(0).integers(0, 256, (50, 784), np.uint8), np.arange(50, dtype=np.uint8) % 10)
    monkeypatch.setattr(gradient_profile, "training_digits", lambda _: digits)
    ((_, _, found),) = trained_gradients(Training(model=f"{model}images", steps=1, data=Path()), 1_930)
    red, green, blue = found["1.weight"].reshape(10, 3, 64).swapaxes(0, 1)
    assert red.any() and np.array_equal(red, green) and np.array_equal(green, blue)


def test_requests_that_cannot_be_met(model: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="steps = 0"):
        Training(model="hdc", steps=0)
    with pytest.raises(ConfigError, match="learning rate"):
        Training(model="hdc", learning_rate=-1)
    with pytest.raises(ConfigError, match="GB are free"):
        next(trained_gradients(Training(model="hdc"), 10**15))
    with pytest.raises(ConfigError, match="no data set fits"):
        next(trained_gradients(Training(model=f"{model}build", data=tmp_path), 200))
    with pytest.raises(ConfigError, match="has no mnist"):
        next(trained_gradients(Training(model="hdc", data=tmp_path), 1_149_010))


def test_saved_gradients(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)
    torch.save({name: p.detach().to(torch.bfloat16) for name, p in layer.named_parameters()}, tmp_path / "g.pt")
    found = saved_gradients(tmp_path / "g.pt")
    assert {name: (each.size, str(each.dtype)) for name, each in found.items()} == {
        "weight": (6, "float32"),
        "bias": (2, "float32"),
    }
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"a": torch.arange(3)}, tmp_path / "whole.pt")
    (tmp_path / "text.pt").write_text("no file of torch")
    for name, complaint in (
        ("list.pt", "mapping of names"),
        ("whole.pt", "int64, expected float32"),
        ("text.pt", "plain tensors"),
        ("none.pt", "No such file"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            saved_gradients(tmp_path / name)


@pytest.mark.parametrize(("factory", "shape"), [("pair", (4, 9)), ("chosen", (4, 9)), ("sequence_first", (9, 4, 3))])
def test_sequence_lengths_reach_every_kind_of_factory(model: str, factory: str, shape: tuple[int, ...]) -> None:
    _, (example,) = _build(Training(model=f"{model}{factory}", sequence_length=9))
    assert isinstance(example, torch.Tensor)
    assert tuple(example.shape) == shape
