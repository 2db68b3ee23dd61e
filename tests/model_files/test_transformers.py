"""``config.json`` of ``transformers``: parameters as the library counts them; the rest is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightloom.core.errors import InputError
from lightloom.core.forms import looks_like_file
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file

LLAMA = {
    "architectures": ["LLaMAForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "max_position_embeddings": 96,
    "made_up": 3,
    "transformers_version": "4.0.0",
}


def written(folder: Path, fields: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return path


@pytest.mark.long
def test_a_model_is_built_on_meta_and_counted_as_the_library_counts(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    reading = read_model_file(written(tmp_path, LLAMA), FileRequest(batch=3))
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        config = transformers.LlamaConfig(**{name: LLAMA[name] for name in LLAMA if name != "architectures"})
        own = transformers.LlamaForCausalLM(config)
    assert reading.graph.parameters + reading.graph.unused_parameters == own.num_parameters()
    assert reading.graph.batch == 3
    assert any("96 tokens" in line for line in reading.unrecorded)
    assert reading.unused == ("made_up",)
    longer = read_model_file(written(tmp_path, LLAMA), FileRequest(batch=3, sequence_length=48)).graph
    assert longer.operator("lm_head").dimensions["sequence"] == 48


@pytest.mark.long
def test_no_weight_is_ever_allocated(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    giant = LLAMA | {"hidden_size": 2**17, "intermediate_size": 2**19, "num_attention_heads": 128, "vocab_size": 2**20}
    reading = read_model_file(written(tmp_path, giant), FileRequest(batch=1))
    assert 4 * reading.graph.parameters > 2**41


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model_type": "nonesuch"}, "field 'model_type': 'nonesuch': no architecture that transformers"),
        ({"model_type": None, "architectures": None}, "field 'model_type' is missing"),
        ({"architectures": ["MyOwnModel"]}, "field 'architectures': 'MyOwnModel': no class of transformers"),
        ({"num_attention_heads": "four"}, "refuses the configuration"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_line(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(InputError) as refusal:
        read_model_file(written(tmp_path, LLAMA | changes), FileRequest(batch=1))
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.long
def test_positions_after_those_of_the_padding_are_all_that_a_table_holds(tmp_path: Path) -> None:
    """RoBERTa numbers positions from the one after its padding's, so that a table of 24 holds 22 tokens."""
    pytest.importorskip("transformers")
    roberta = {"architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "pad_token_id": 1}
    path = written(tmp_path, LLAMA | roberta | {"max_position_embeddings": 24})
    reading = read_model_file(path, FileRequest(batch=1, sequence_length=22))
    assert any(operator.dimensions.get("sequence") == 22 for operator in reading.graph.operators)
    with pytest.raises(InputError, match="--sequence-length 23: its table of positions holds 22"):
        read_model_file(path, FileRequest(batch=1, sequence_length=23))


@pytest.mark.long
def test_a_folder_is_read_by_its_configuration(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = written(tmp_path, LLAMA)
    named, folder = (read_model_file(place, FileRequest(batch=3)) for place in (path, tmp_path))
    assert folder.graph == named.graph and looks_like_file(str(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"cannot read '.*empty/config\.json'"):
        read_model_file(tmp_path / "empty", FileRequest(batch=3))
