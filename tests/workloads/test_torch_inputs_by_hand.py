"""Example inputs of configurations and factories, and what is said where a forward pass cannot be traced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lightloom.core.errors import WorkloadError
from lightloom.models.torch import pretrained
from lightloom.models.torch.pretrained import _error_text, _Inputs, _position_table, _type_of, _unknown_fields
from lightloom.models.torch.trace import (
    _named_inputs,
    _samples,
    module_and_inputs,
    refusal,
    steered_by,
    takes_length,
    trace_factory,
)
from lightloom.models.torch.values import Values, fake_tensors, to_meta


class Tokens(nn.Module):
    """Takes tokens."""

    def __init__(self, positions: int = 0, padding: int | None = None) -> None:
        super().__init__()
        if positions:
            self.wpe = nn.Embedding(positions, 4, padding_idx=padding)

    def forward(self, input_ids: Tensor) -> Tensor:
        return input_ids


class Pair(nn.Module):
    """Takes tokens and targets."""

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        return input_ids + decoder_input_ids


class Seeing(nn.Module):
    """Takes tokens and images."""

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        return input_ids + pixel_values


class Images(nn.Module):
    main_input_name = "pixel_values"

    def forward(self, pixel_values: Tensor) -> Tensor:
        return pixel_values


class Sound(nn.Module):
    main_input_name = "input_values"

    def forward(self, input_values: Tensor) -> Tensor:
        return input_values


class Speech(nn.Module):
    main_input_name = "input_features"

    def forward(self, input_features: Tensor, decoder_input_ids: Tensor) -> Tensor:
        return input_features + decoder_input_ids


def config(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


VISION = config(image_size=(6, 32, 48), num_channels=1)


@pytest.mark.parametrize(
    ("module", "fields", "length", "shapes", "told"),
    [
        (Tokens(), {}, None, {"input_ids": (2, 512)}, ["512 tokens a sample, the configuration sets no limit"]),
        (Tokens(), {"n_positions": 900}, None, {"input_ids": (2, 900)}, ["900 tokens a sample, "]),
        (Tokens(), {"n_positions": 9000}, None, {"input_ids": (2, 4096)}, ["4,096 tokens"]),
        (Tokens(), {"n_positions": 900}, 1000, {"input_ids": (2, 1000)}, []),
        (Tokens(900), {"n_positions": 900}, 900, {"input_ids": (2, 900)}, []),
        (Tokens(900, 1), {"n_positions": 900}, None, {"input_ids": (2, 898)}, ["898 tokens"]),
        (Tokens(910, 1), {"n_positions": 900}, None, {"input_ids": (2, 900)}, ["900 tokens"]),
        (Tokens(), {"text_config": config(n_positions=70)}, None, {"input_ids": (2, 70)}, ["configuration allows 70;"]),
        (Tokens(), {"max_position_embeddings": -1, "seq_length": 60}, None, {"input_ids": (2, 60)}, ["60 tokens"]),
        (Pair(), {"is_encoder_decoder": True}, 7, {"input_ids": (2, 7), "decoder_input_ids": (2, 7)}, []),
        (Pair(), {"is_encoder_decoder": True, "n_positions": 9}, None,
         {"input_ids": (2, 9), "decoder_input_ids": (2, 9)}, ["9 tokens", "targets: 9 tokens"]),
        (Pair(), {"is_encoder_decoder": False}, 7, {"input_ids": (2, 7)}, []),
        (Seeing(), {"vision_config": VISION}, 7, {"input_ids": (2, 7), "pixel_values": (2, 1, 32, 48)}, []),
        (Seeing(), {"vision_config": VISION, "image_token": 3}, 7, {"input_ids": (2, 7)}, ["images: none among"]),
        (Tokens(), {"vision_config": VISION}, 7, {"input_ids": (2, 7)}, []),
        (Images(), {}, None, {"pixel_values": (2, 3, 224, 224)}, ["images: 224 x 224"]),
        (Images(), {"image_size": 30}, None, {"pixel_values": (2, 3, 30, 30)}, []),
        (Sound(), {}, None, {"input_values": (2, 160_000)}, ["sound: 10 s of 16,000 samples a second"]),
        (Speech(), {"is_encoder_decoder": True, "max_target_positions": 44}, None,
         {"input_features": (2, 80, 3000), "decoder_input_ids": (2, 44)}, ["targets: 44 tokens"]),
        (Speech(), {"is_encoder_decoder": True, "num_mel_bins": 5, "max_source_positions": 11}, 6,
         {"input_features": (2, 5, 22), "decoder_input_ids": (2, 6)}, ["targets: 6 tokens"]),
    ],
)  # fmt: skip
def test_inputs_are_of_the_kind_and_size_that_the_configuration_says(
    module: nn.Module, fields: dict[str, Any], length: int | None, shapes: dict[str, Any], told: list[str]
) -> None:
    made = _Inputs(config(**fields), length, "x")
    same, inputs, axis = made.with_module(module)
    assert same is module and axis == 0 and {name: tuple(each.shape) for name, each in inputs.items()} == shapes
    assert all(each.is_meta for each in inputs.values())
    assert len(made.assumptions) == len(told)
    for line, words in zip(made.assumptions, told, strict=True):
        assert words in line


def test_lengths_that_a_model_does_not_take_are_refused() -> None:
    with pytest.raises(WorkloadError, match="x: Images takes no tokens: expected no sequence length"):
        _Inputs(config(), 7, "x").with_module(Images())
    with pytest.raises(WorkloadError, match="--sequence-length 901: its table of positions holds 900"):
        _Inputs(config(n_positions=900), 901, "x").with_module(Tokens(900))
    assert _position_table(Tokens()) is None and isinstance(_position_table(Tokens(5)), nn.Embedding)


def test_fields_that_no_configuration_of_a_class_has_are_told() -> None:
    class Known:
        attribute_map = {"hidden": "d_model"}  # noqa: RUF012
        of_class = 1

        def to_dict(self) -> dict[str, int]:
            return {"d_model": 4}

    class Broken(Known):
        def __init__(self, size: int) -> None:
            self.size = size

    fields = {"odd": 1, "d_model": 8, "hidden": 2, "of_class": 3, "torch_dtype": "x", "rope_theta": 1.0, "strange": 2}
    assert _unknown_fields(Known(), fields) == ("odd", "strange") and _unknown_fields(Broken(1), fields) == ()


def test_errors_are_one_line_of_at_most_three_hundred_characters() -> None:
    assert (
        _error_text(ValueError("  a\n b ")) == "ValueError: a b" and _error_text(KeyError()) == "KeyError: no message"
    )
    assert _error_text(ValueError("x" * 400)) == "ValueError: " + "x" * 300
    assert pretrained.LONGEST == 4096


def test_a_type_is_that_of_the_first_architecture_in_any_table(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = SimpleNamespace(ONE={"llama": "LlamaModel", "bert": ("BertModel", "BertOther")}, other="BertModel")
    tables.TWO = {"gpt2": ["GPT2Model"], "bart": "BertModel"}
    for name, module in (("", None), (".models", None), (".models.auto", SimpleNamespace(modeling_auto=tables))):
        monkeypatch.setitem(sys.modules, f"transformers{name}", module or SimpleNamespace())
    for first, kind in (("LlamaModel", "llama"), ("BertOther", "bert"), ("BertModel", "bert"), ("GPT2Model", "gpt2")):
        assert _type_of([first, "LlamaModel"]) == kind
    for nothing in (None, [], ["Model"], "LlamaModel", [3]):
        assert _type_of(nothing) is None


@pytest.mark.parametrize(
    ("error", "steered"),
    [
        (RuntimeError("aten::nonzero on a Meta tensor"), "shape"),
        (NotImplementedError("aten::unique: DynamicOutputShape"), "shape"),
        (RuntimeError("aten::nonzero failed"), None),
        (ValueError("aten::nonzero on a meta tensor"), None),
        (RuntimeError("DataDependentOutput"), "value"),
        (ValueError("Boolean value of Tensor with more than one value"), "value"),
        (RuntimeError("out of memory on meta"), None),
    ],
)
def test_what_steers_a_forward_pass_is_told_by_its_error(error: Exception, steered: str | None) -> None:
    assert steered_by(error) == steered


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.inner(x)
        return result


class Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("no such thing\nat all")


def test_a_refusal_names_the_innermost_module_and_the_last_line_outside_of_libraries() -> None:
    module = Outer(nn.Sequential(Failing()))
    try:
        module(torch.zeros(1))
    except ValueError as error:
        line = Failing.forward.__code__.co_firstlineno + 1
        where = f" in module 'inner.0' (Failing), {__file__.rpartition('/')[2]} line {line}"
        told = f"x: the forward pass fails on meta tensors{where}: ValueError: no such thing"
        assert str(refusal("x", module, error)) == told
        alone = str(refusal("x", nn.Linear(1, 1), error))
        assert alone.startswith("x: the forward pass fails on meta tensors, test_torch") and "module" not in alone
    try:
        Failing()(torch.zeros(1))
    except ValueError as error:
        assert "in module" not in str(refusal("x", module, error))
        failing = Failing()
    try:
        failing(torch.zeros(1))
    except ValueError as error:
        assert "tensors in the model, " in str(refusal("x", failing, error))
    assert str(refusal("x", failing, ValueError())).endswith("on meta tensors: ValueError: no message")


def test_factories_return_a_module_with_or_without_inputs_and_their_axis() -> None:
    module, inputs = nn.Linear(3, 2), torch.zeros(4, 3)
    assert module_and_inputs(module, "x") == (module, None, None)
    assert module_and_inputs((module, inputs), "x") == (module, inputs, None)
    for axis in (0, 1):
        assert module_and_inputs((module, inputs, axis), "x") == (module, inputs, axis)
    for odd in (2, -1, "a"):
        with pytest.raises(WorkloadError, match=f"x: batch_axis is {odd!r}, expected 0 or 1"):
            module_and_inputs((module, inputs, odd), "x")
    for wrong in (3, (inputs, module), (module,), (module, inputs, 0, 1), [module, inputs]):
        with pytest.raises(WorkloadError, match=f"x: returned a {type(wrong).__name__}; expected a torch.nn.Module"):
            module_and_inputs(wrong, "x")
    assert (_samples(inputs, 0, "x"), _samples({"a": [inputs]}, 1, "x")) == (4, 3)
    for nothing, axis in ((torch.zeros(4), 1), (torch.zeros(0, 3), 0), ("text", 0)):
        with pytest.raises(WorkloadError, match=f"with samples along axis {axis}"):
            _samples(nothing, axis, "x")


def test_inputs_are_named_as_the_forward_pass_does() -> None:
    one, two, three = (torch.zeros(size) for size in (1, 2, 3))

    class Plain(nn.Module):
        def forward(self, tokens: Any, *rest: Any) -> None: ...

    named = list(_named_inputs(Plain(), ((one, [two]), two, three), {"mask": {"a": three}}))
    assert [name for name, _ in named] == ["tokens", "tokens", "rest", "input_2", "mask"]
    assert [tensor.numel() for _, tensor in named] == [1, 2, 2, 3, 3]
    with_length: Callable[..., None] = lambda sequence_length=3: None  # noqa: E731
    assert takes_length(with_length) and not takes_length(lambda length: None) and not takes_length(3)


def test_parameters_that_nothing_reads_are_counted() -> None:
    """Three times two and two of the layer that runs; ten of the one that does not. A step takes 2 FLOPs a product."""

    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.used(x)
            return result

    graph = trace_factory(lambda: (Half(), torch.zeros(5, 3)), name="x", batch=7)
    assert (graph.batch, graph.parameters, graph.unused_parameters) == (7, 8, 10)
    (given, layer) = graph.operators
    assert (given.kind, given.dimensions) == ("input", {"sample": 7, "channel": 3})
    assert layer.forward_flops == 2 * 7 * 3 * 2 and layer.dimensions == {"sample": 7, "channel": 2, "in_channel": 3}


def test_factories_that_look_at_values_are_called_again_with_real_tensors_and_others_once() -> None:
    calls: list[str] = []

    def factory(message: str = "", width: int = 3) -> nn.Module:
        calls.append(message)
        if message and len(calls) == 1:
            raise RuntimeError(message)
        return nn.Linear(width, 2)

    def traced(message: str) -> int:
        calls.clear()
        made = trace_factory(
            lambda width: (factory(message, width), torch.zeros(5, width)), name="x", batch=5, arguments={"width": 4}
        )
        return made.parameters

    assert traced("") == 10 and len(calls) == 1
    assert traced("no values on meta") == 10 and len(calls) == 2
    with pytest.raises(WorkloadError, match="x: the factory fails: RuntimeError: boom"):
        traced("boom")
    assert len(calls) == 1
    with pytest.raises(WorkloadError, match=r"x: is a int; expected a torch\.nn\.Module"):
        trace_factory(3, name="x", batch=5)


def test_messages_of_the_library_are_silent_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [20]
    logging = SimpleNamespace(get_verbosity=lambda: levels[-1], set_verbosity=levels.append)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "transformers.utils", SimpleNamespace(logging=logging))
    with pretrained._offline():
        assert levels[-1] > 40
    assert levels[-1] == 20


def test_fake_tensors_stand_in_for_those_of_a_module_for_a_while() -> None:
    module = nn.Linear(3, 2)
    module.register_buffer("steps", torch.tensor([1.0]))
    values = Values()
    to_meta(module, values)
    own = [*module.parameters(), *module.buffers()]
    with fake_tensors(module, values):
        inside = [*module.parameters(), *module.buffers()]
        assert not any(one is other for one, other in zip(own, inside, strict=True))
        assert [tuple(each.shape) for each in inside] == [(2, 3), (2,), (1,)] and all(each.is_meta for each in inside)
    assert all(one is other for one, other in zip(own, [*module.parameters(), *module.buffers()], strict=True))
