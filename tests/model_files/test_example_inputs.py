"""Example inputs of models by their configurations: kinds, sizes and what is assumed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch as pytorch

from lightloom.core.errors import WorkloadError
from lightloom.models.torch.pretrained import _Inputs

torch: Any = pytorch


class Taking(torch.nn.Module):  # type: ignore[misc]
    """A module with a main input."""

    def __init__(self, main: str, table: Any = None) -> None:
        super().__init__()
        self.main_input_name = main
        if table is not None:
            self.wpe = table

    def forward(self, **inputs: Any) -> Any:
        return inputs


def made(main: str, length: int | None = None, table: Any = None, **fields: Any) -> tuple[tuple[int, ...], list[str]]:
    """The shape of the main input, and what is assumed of it."""
    inputs: Any = _Inputs(SimpleNamespace(**fields), length, "m")
    _, found, axis = inputs.with_module(Taking(main, table))
    assert axis == 0 and found[main].device.type == "meta"
    return tuple(found[main].shape), inputs.assumptions


@pytest.mark.parametrize(
    ("main", "fields", "shape", "assumed"),
    [
        ("pixel_values", {"image_size": 32}, (2, 3, 32, 32), None),
        ("pixel_values", {"image_size": [4, 32, 16], "num_channels": 1}, (2, 1, 32, 16), None),
        ("pixel_values", {"vision_config": SimpleNamespace(image_size=64), "image_size": 8}, (2, 3, 64, 64), None),
        ("pixel_values", {}, (2, 3, 224, 224), "images: 224 x 224, the configuration states no size"),
        ("input_values", {}, (2, 160_000), "sound: 10 s of 16,000 samples a second, an assumption"),
        ("input_features", {}, (2, 80, 3000), None),
        ("input_features", {"num_mel_bins": 128, "max_source_positions": 7}, (2, 128, 14), None),
        ("input_ids", {"n_positions": 64}, (2, 64), "64 tokens a sample, the configuration allows 64"),
        ("input_ids", {"max_position_embeddings": 8192}, (2, 4096), "the configuration allows 8,192"),
        ("input_ids", {"text_config": SimpleNamespace(n_positions=9), "n_positions": 5}, (2, 9), "allows 9"),
        ("input_ids", {}, (2, 512), "512 tokens a sample, the configuration sets no limit"),
        ("input_ids", {"length": 7, "n_positions": 5}, (2, 7), None),
    ],
)
def test_inputs_are_two_samples_of_the_size_that_is_stated(
    main: str, fields: dict[str, Any], shape: tuple[int, ...], assumed: str | None
) -> None:
    found, assumptions = made(main, **fields)
    assert found == shape
    assert [assumed in line for line in assumptions if assumed] == ([] if assumed is None else [True])
    assert (assumptions == []) == (assumed is None)


def test_a_table_of_positions_bounds_the_tokens() -> None:
    """Of a table that keeps places for the padding, positions begin behind these."""
    table = torch.nn.Embedding(16, 4)
    assert made("input_ids", 16, table, n_positions=16)[0] == (2, 16)
    with pytest.raises(WorkloadError, match="--sequence-length 17: its table of positions holds 16"):
        made("input_ids", 17, table, n_positions=16)
    padded = torch.nn.Embedding(16, 4, padding_idx=1)
    assert made("input_ids", None, padded, n_positions=16)[0] == (2, 14)
    assert made("input_ids", None, padded, n_positions=10)[0] == (2, 10)
    for main in ("pixel_values", "input_values", "input_features"):
        with pytest.raises(WorkloadError, match="m: Taking takes no tokens: expected no sequence length"):
            made(main, 16, image_size=8)
