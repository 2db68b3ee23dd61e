"""Values of tensors without values, what autograd keeps, and names of axes: small cases worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lightloom.core.errors import WorkloadError
from lightloom.models.graph import Operator
from lightloom.models.torch import values as values_module
from lightloom.models.torch.frame import (
    Frame,
    Origin,
    Region,
    attention_call,
    distinct_elements,
    image_axes,
    key_of,
    linear_dimensions,
    map_tensors,
    output_dimensions,
    tensors_in,
)
from lightloom.models.torch.trace import sample_axis, steered_by, with_length
from lightloom.models.torch.values import Hidden, SavedTensors, Values, to_meta

ATEN = torch.ops.aten


def noted(values: Values, function: Any, *args: Any, **kwargs: Any) -> Tensor:
    """Call a function on tensors without values, and note it."""
    result: Tensor = function(*args, **kwargs)
    values.note(function, args, kwargs, result)
    return result


def entered(values: Values, example: Tensor) -> Tensor:
    stand_in = torch.empty_like(example, device="meta")
    values.enter(stand_in, example)
    return stand_in


@pytest.fixture(params=[1 << 24, 8])
def largest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Tensors that are computed whole, or of which larger ones than eight elements are looked at in points."""
    monkeypatch.setattr(values_module, "LARGEST", request.param)
    monkeypatch.setattr(values_module, "POINTS", 1 << 12)
    return int(request.param)


@pytest.mark.parametrize(
    ("diagonal", "upper", "hidden"),
    [
        (0, False, Hidden(True, None)),
        (-1, False, Hidden(True, 15 / 36)),
        (2, False, Hidden(False, 30 / 36)),
        (0, True, Hidden(False, 21 / 36)),
        (9, False, Hidden(False, None)),
        (-9, False, None),
    ],
)
def test_triangles_hide_what_lies_beyond_their_diagonal(
    largest: int, diagonal: int, upper: bool, hidden: Hidden | None
) -> None:
    """Of 6 x 6 scores: 21 up to the own token, 15 before it, 30 up to the token after the next."""
    values = Values()
    ones = noted(values, ATEN.ones.default, [6, 6], dtype=torch.bool, device=torch.device("meta"))
    triangle = ATEN.triu.default if upper else ATEN.tril.default
    found = values.hidden(noted(values, triangle, ones, diagonal), 6, 6)
    if hidden is None or hidden.visible is None or largest > 8:
        assert found == hidden
    else:
        assert found is not None and found.causal == hidden.causal
        assert found.visible == pytest.approx(hidden.visible, abs=0.02)


def test_numbers_hide_at_ten_thousand_below_and_later_tokens_by_positions(largest: int) -> None:
    """Keys at 0 to 4 against queries at 1 to 3, as a column and a row that are compared; then as added numbers."""
    values = Values()
    keys, queries = entered(values, torch.arange(5)), entered(values, torch.arange(1, 4))
    seen = noted(values, ATEN.le.Tensor, keys, ATEN.unsqueeze.default(queries, 1))
    found = values.hidden(seen, 3, 5)
    # Of 15 scores 2 + 3 + 4 are left; the second row sees its third key, which comes later than its own place.
    assert found is not None and not found.causal and found.visible == pytest.approx(9 / 15, abs=0.01)
    for least, share in ((-1e4, 9 / 15), (-9999.0, None)):
        zeros = noted(values, ATEN.zeros_like.default, seen, dtype=torch.float32)
        added = noted(values, ATEN.masked_fill.Scalar, zeros, noted(values, ATEN.logical_not.default, seen), least)
        told = values.hidden(added, 3, 5)
        assert told is not None and (told.visible is None) == (share is None)
        assert share is None or told.visible == pytest.approx(share, abs=0.01)
    assert values.hidden(torch.empty(3, 5, device="meta"), 3, 5) is None


def test_padding_of_a_batch_hides_as_much_of_every_row() -> None:
    """Two samples of four tokens, of which the second has two: 12 of 16 keys are left, broadcast to two queries."""
    values = Values()
    tokens = entered(values, torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]]))
    mask = noted(values, ATEN.ne.Scalar, tokens, 0)
    wide = ATEN.expand.default(ATEN.view.default(mask, [2, 1, 1, 4]), [2, 1, 2, 4])
    assert values.hidden(wide, 2, 4) == Hidden(False, 12 / 16)
    row = ATEN.view.default(noted(values, ATEN.ne.Scalar, entered(values, torch.tensor([1, 1, 0, 1])), 0), [4])
    assert values.hidden(row, 3, 4) == Hidden(False, 3 / 4)


def test_tokens_without_a_meaning_count_as_ones_and_numbers_without_values_stay_unknown() -> None:
    values = Values()
    for example in (torch.zeros(4, dtype=torch.long), torch.empty(4, dtype=torch.long, device="meta")):
        stand_in = torch.empty(4, dtype=torch.long, device="meta")
        values.enter(stand_in, example)
        assert values.hidden(noted(values, ATEN.ne.Scalar, stand_in, 0), 3, 4) == Hidden(False, None)
    features = torch.empty(4, device="meta")
    values.enter(features, torch.empty(4, device="meta"))
    assert values.hidden(noted(values, ATEN.gt.Scalar, features, -1.0), 3, 4) is None
    zeros = entered(values, torch.zeros(4))
    assert values.hidden(noted(values, ATEN.gt.Scalar, zeros, -1.0), 3, 4) == Hidden(False, None)
    # Sums of what is only assumed say nothing, nor does what is drawn at random.
    assert values.hidden(noted(values, ATEN.cumsum.default, stand_in, 0), 3, 4) is None
    counted = noted(values, ATEN.cumsum.default, entered(values, torch.tensor([0, 1, 0, 0])), 0)
    assert values.hidden(noted(values, ATEN.ne.Scalar, counted, 0), 3, 4) == Hidden(False, 3 / 4)
    assert values.hidden(noted(values, ATEN.bernoulli.default, entered(values, torch.ones(4))), 3, 4) is None


def test_calls_in_place_keep_what_they_do_not_write() -> None:
    """Two of eight tokens become 0 by a view; a number that is read needs constants alone."""
    values = Values()
    mask = noted(values, ATEN.ones.default, [8], dtype=torch.bool, device=torch.device("meta"))
    part = ATEN.slice.Tensor(mask, 0, 5, 7)
    noted(values, ATEN.fill_.Scalar, part, False)
    assert values.hidden(mask, 2, 8) == Hidden(False, 6 / 8)
    assert values.computed(ATEN.item.default, (ATEN.select.int(mask, 0, 5),), {}) is False
    assert values.computed(ATEN.item.default, (ATEN.select.int(mask, 0, 7),), {}) is True
    summed = values.computed(ATEN.sum.default, (mask,), {})
    assert summed.is_meta and values.computed(ATEN.item.default, (summed,), {}) == 6
    with pytest.raises(KeyError):
        values.computed(ATEN.item.default, (ATEN.select.int(entered(values, torch.tensor([1, 2])), 0, 1),), {})
    with pytest.raises(KeyError):
        values.computed(ATEN.item.default, (torch.empty((), device="meta"),), {})


def test_buffers_keep_their_values_on_the_meta_device_and_what_is_shared_stays_shared() -> None:
    module = nn.Module()
    module.one, module.other = nn.Linear(2, 2), nn.Linear(2, 2)
    module.other.weight = module.one.weight
    module.other.bias.requires_grad_(False)
    module.register_buffer("steps", torch.tensor([4.0, 5.0]))
    values = Values()
    to_meta(module, values)
    assert all(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))
    assert module.one.weight is module.other.weight
    assert [each.requires_grad for each in (module.one.bias, module.other.bias)] == [True, False]
    steps: Any = module.steps
    assert values.computed(ATEN.item.default, (ATEN.select.int(steps, 0, 1),), {}) == 5.0


def test_what_autograd_keeps_counts_once_at_what_made_it() -> None:
    """A model of float32 and a batch of 2. Bytes of floats, of a mask, of indices, of a region and of statistics."""
    module = nn.Linear(3, 5)
    kept = SavedTensors(module, 2)
    made, constant = torch.zeros(2, 6), torch.zeros(3)
    mask, indices, statistic = torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.int64), torch.zeros(7)
    odd = torch.zeros(5, dtype=torch.uint8)
    again, wide = torch.zeros(2, 8), torch.zeros(4, dtype=torch.float64)
    kept.keep(made, "", 1)
    kept.keep(ATEN.view.default(made, [12]), "", 2)
    kept.keep(module.weight, "", 1)
    kept.keep(constant, "", 1)
    kept.keep(mask, "", 1, mask=True)
    kept.keep(indices, "", 1)
    kept.keep(odd, "", 0)
    kept.keep(again, "block", 2)
    kept.keep(wide, "block", 2)
    kept.keep(wide, "", 1)
    kept.keep(wide, "other", 2)
    kept.keep(statistic, "", 0)
    kept.keep(torch.zeros(9), "", 3)
    kept.keep_statistic(3, 1)
    kept.keep_statistic(2, 1)
    kept.keep_statistic(4, 2)
    origins = {
        key_of(made): Origin(made.untyped_storage(), "a", sampled=True),
        key_of(mask): Origin(mask.untyped_storage(), "b", sampled=True),
        key_of(indices): Origin(indices.untyped_storage(), "b", sampled=True),
        key_of(again): Origin(again.untyped_storage(), "a", sampled=True),
        key_of(statistic): Origin(statistic.untyped_storage(), "b", sampled=True, over_samples=True),
    }
    fields: dict[str, Any] = {"kind": "elementwise", "dimensions": {}}
    operators = [Operator(name=name, **fields) for name in "ab"] + [Operator(name="c", checkpoint="block", **fields)]
    first, second, third = kept.counted(operators, origins)

    def told(operator: Operator) -> tuple[int | None, ...]:
        saved = operator.saved_bytes, operator.saved_shared_bytes, operator.saved_index_bytes
        return (*saved, operator.recomputed_bytes, operator.recomputed_shared_bytes)

    # 12 floats of the first operator, five bytes of a constant in whole elements; 16 floats that a region makes anew.
    assert told(first) == (48 + 8, 8, 0, 64, 0)
    # Of the second: seven statistics over samples, three constant floats, four doubles as eight floats; a byte for
    # each of eight elements of the mask and six whole numbers of eight bytes, and five rows of four bytes.
    assert told(second) == (28 + 12 + 32, 28 + 12 + 32, 8 + 48 + 20, 0, 0)
    assert told(third) == (0, 0, 0, 16, 0)


def test_regions_repeat_what_comes_before_their_last_tensor() -> None:
    region = Region("block", 2, frozenset())
    frame = Frame("linear", forward=11)
    region.note(4, frame)
    assert (region.last, region.product_flops, region.other_flops) == (4, 0, 11)
    one = Operator(name="x", kind="elementwise", dimensions={}, forward_flops=70)
    assert [region.repeated(place, one) for place in (3, 4, 5)] == [70, 11, 0]
    region.product_flops = 9
    product = Operator(name="y", kind="linear", dimensions={"in_channel": 3, "channel": 5}, forward_flops=30)
    assert region.repeated(4, product) == 9
    region.note(6, None)
    assert (region.last, region.product_flops, region.other_flops) == (6, 0, 0)


NUMBERED = ("sample", "axis_1", "axis_2", "axis_3")


@pytest.mark.parametrize(
    ("shape", "batch", "axes", "sizes", "names"),
    [
        ((8,), 8, None, {"sample": 8}, ("sample",)),
        ((8, 3), 8, None, {"sample": 8, "channel": 3}, ("sample", "channel")),
        ((8, 5, 3), 8, None, {"sample": 8, "sequence": 5, "channel": 3}, ("sample", "sequence", "channel")),
        ((5, 8, 3), 8, None, {"sequence": 5, "sample": 8, "channel": 3}, ("sequence", "sample", "channel")),
        ((8, 8, 3), 8, None, {"sample": 8, "sequence": 8, "channel": 3}, ("sample", "sequence", "channel")),
        ((5, 8), 8, None, {"axis_0": 5, "sample": 8}, ("axis_0", "sample")),
        ((8, 2, 3, 1), 8, None, {"sample": 8, "axis_1": 2, "axis_2": 3, "axis_3": 1}, NUMBERED),
        ((8, 0), 8, None, {"sample": 8}, ("sample", "channel")),
        ((5, 3), None, ("sample", "channel"), {"axis_0": 5, "axis_1": 3}, None),
        ((3, 8), 8, ("channel", "sample"), {"channel": 3, "sample": 8}, ("channel", "sample")),
        ((8, 3), 8, ("channel", "sample"), {"sample": 8, "channel": 3}, ("sample", "channel")),
        ((8, 3), 8, ("sample",), {"sample": 8, "channel": 3}, ("sample", "channel")),
    ],
)  # fmt: skip
def test_axes_of_outputs_are_found_by_the_number_of_samples(
    shape: tuple[int, ...], batch: int | None, axes: Any, sizes: dict[str, int], names: Any
) -> None:
    assert output_dimensions(shape, batch, axes) == (sizes, names)


def test_the_last_axis_of_a_linear_layer_is_its_channel() -> None:
    """Beside samples, alone, and of as many channels as samples."""
    assert linear_dimensions((8, 3), 8, 7) == ({"sample": 8, "channel": 3, "in_channel": 7}, ("sample", "channel"))
    assert linear_dimensions((4, 3), None, 7) == ({"axis_0": 4, "channel": 3, "in_channel": 7}, None)
    found = linear_dimensions((8, 2, 5, 3), 8, 7)
    assert found[0] == {"sample": 8, "axis_1": 2, "axis_2": 5, "channel": 3, "in_channel": 7}
    assert found[1] == ("sample", "axis_1", "axis_2", "channel")
    assert linear_dimensions((8,), 8, 7)[1] is None


def test_images_have_one_to_three_axes_beside_samples_and_channels() -> None:
    spatial = {3: ("length",), 4: ("height", "width"), 5: ("depth", "height", "width")}
    for rank in range(1, 8):
        assert image_axes(rank) == (("sample", "channel", *spatial[rank]) if rank in spatial else None)


def test_nests_of_tensors_keep_their_kinds_and_views_count_once() -> None:
    one, two = torch.zeros(4, 5), torch.zeros(3)
    nest = {"a": (one, [two, 1]), "b": "x"}
    assert [tensor is each for tensor, each in zip(tensors_in(nest), (one, two), strict=True)] == [True, True]
    assert map_tensors(lambda tensor: tensor.numel(), nest) == {"a": (20, [3, 1]), "b": "x"}
    assert distinct_elements([one, one[:2], one[1:], two, two[:1]]) == 20 + 3
    assert distinct_elements([one[:2], one[3:]]) == 15 and distinct_elements([]) == 0
    query, key, mask, causal = attention_call((one, two), {"is_causal": True})
    assert query is one and key is two and mask is None and causal
    assert attention_call((one, two, two, two), {})[2:] == (two, False)


def test_sequences_of_another_length_change_tokens_and_square_masks() -> None:
    tokens, mask, features = torch.zeros(2, 6, dtype=torch.long), torch.zeros(6, 6), torch.zeros(2, 6, 3)
    inputs = {"tokens": tokens, "rest": [mask, features, torch.zeros(6), torch.zeros(2, 1, 6, 6), torch.zeros(3, 7)]}
    found = with_length(inputs, 0, 9, "x")
    shapes = [tuple(tensor.shape) for tensor in tensors_in(found)]
    assert shapes == [(2, 9), (9, 9), (2, 9, 3), (6,), (2, 1, 9, 9), (3, 7)]
    assert found["tokens"].dtype == torch.long and all(tensor.is_meta for tensor in tensors_in(found))
    square = torch.zeros(6, 6, dtype=torch.long)
    assert [tuple(tensor.shape) for tensor in tensors_in(with_length([square], 0, 9, "x"))] == [(6, 9)]
    first = [tuple(each.shape) for each in tensors_in(with_length([torch.zeros(6, 2, 3)], 1, 9, "x"))]
    assert first == [(9, 2, 3)]
    for wrong in (torch.zeros(2, 6), torch.zeros(2, 6, 3, dtype=torch.long)):
        with pytest.raises(WorkloadError, match="x: takes no sequence length: its first example input, 2 x 6"):
            with_length(wrong, 0, 9, "x")


def test_samples_lie_along_the_first_axis_unless_layers_take_the_sequence_first() -> None:
    def recurrent(batch_first: bool) -> nn.Module:
        return nn.LSTM(3, 4, batch_first=batch_first)

    assert sample_axis(nn.Linear(3, 3), torch.zeros(5, 3), "x", Values()) == 0
    assert sample_axis(recurrent(True), torch.zeros(5, 2, 3), "x", Values()) == 0
    assert sample_axis(recurrent(False), torch.zeros(5, 2, 3), "x", Values()) == 1
    with pytest.raises(WorkloadError, match="cannot be told from tokens in an input of 5 x 5 x 3"):
        sample_axis(recurrent(False), torch.zeros(5, 5, 3), "x", Values())
    for wrong in (torch.zeros(()), torch.zeros(0, 3), "text"):
        with pytest.raises(WorkloadError, match="must be a tensor whose leading size is the batch"):
            sample_axis(nn.Linear(3, 3), wrong, "x", Values())


@pytest.mark.parametrize(
    ("error", "steered"),
    [
        (RuntimeError("Tensor.item() cannot be called on meta tensors"), "value"),
        (ValueError("nothing of that"), None),
        (RuntimeError("nothing of that on meta"), None),
    ],
)
def test_a_pass_is_steered_by_values_where_its_error_says_so(error: Exception, steered: str | None) -> None:
    assert steered_by(error) == steered
