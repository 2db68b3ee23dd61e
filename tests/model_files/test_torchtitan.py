"""Configurations of torchtitan: models by flavor, and the strategy; keys of older releases count as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightloom.core.errors import InputError
from lightloom.models.decoder import DecoderSizes
from lightloom.models.files.model_file import FileRequest
from lightloom.models.files.read import read_model_file
from lightloom.models.files.torchtitan import sizes_of


def parameters(sizes: DecoderSizes) -> int:
    """Parameters of a decoder without a trace: the sum of its tables, products, norms and biases."""
    torch, decoders = pytest.importorskip("torch"), pytest.importorskip("lightloom.models.torch.zoo.llama")
    with torch.device("meta"):
        return sum(each.numel() for each in decoders.Decoder(sizes).parameters())


NEW = """
[model]
name = "{name}"
flavor = "{flavor}"
[training]
local_batch_size = 2
seq_len = 64
steps = 10
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
{more}
[activation_checkpoint]
mode = "full"
[job]
dump_folder = "x"
"""
OLD = """
[model]
name = "llama3"
flavor = "debugmodel"
[training]
batch_size = 8
seq_len = 64
data_parallel_degree = 4
tensor_parallel_degree = 2
[experimental]
pipeline_parallel_degree = 2
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_a_configuration_is_a_model_with_its_strategy(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = written(tmp_path, NEW.format(name="llama3", flavor="debugmodel", more=""))
    reading = read_model_file(path, FileRequest(batch=2))
    sizes = sizes_of("llama3", "debugmodel")
    assert sizes is not None and reading.graph.parameters == parameters(sizes)
    pins = {name: value for name, value in reading.pins if value is not None}
    assert pins == {
        "tp": 2, "pp": 1, "cp": 1, "ep": 1, "micro_batch": 2, "virtual_stages": 1, "recomputation": "full",
        "sharding": "zero-3", "sequence_parallel": True,
    }  # fmt: skip
    assert reading.replica_batch == 2 and reading.global_batch is None
    assert reading.unused == ("training.steps", "job")
    old = read_model_file(written(tmp_path, OLD), FileRequest(batch=2))
    assert (old.pins.dp, old.pins.tp, old.pins.pp, old.replica_batch) == (4, 2, 2, 8)


@pytest.mark.parametrize(
    ("name", "flavor", "count"),
    [
        ("llama3", "8B", 8_030_261_248),
        ("llama3", "70B", 70_553_706_496),
        ("llama3", "405B", 405_853_388_800),
        ("llama2", "7B", 6_738_415_616),
        ("qwen3", "0.6B", 596_049_920),
        ("qwen3", "30B-A3B", 30_532_122_624),
        ("deepseek_v3", "16B", 15_706_484_224),
        ("deepseek_v3", "671B", 671_026_404_352),
    ],
)
def test_flavors_have_the_published_parameters(name: str, flavor: str, count: int) -> None:
    sizes = sizes_of(name, flavor)
    assert sizes is not None and parameters(sizes) == count


PARTS = '[["tok_embeddings", "layers.0"], ["layers.1", "layers.2", "layers.3"], ["layers.4"], ["layers.5", "output"]]'


@pytest.mark.parametrize(
    ("more", "cut"),
    [
        ("pipeline_parallel_degree = 2", (3, 3)),
        ("pipeline_parallel_degree = 3", (2, 3, 1)),
        ("pipeline_parallel_degree = 2\npipeline_parallel_last_stage_less_layers = 3", (4, 2)),
        ("pipeline_parallel_degree = 2\npipeline_parallel_layers_per_stage = 2", (1, 2, 2, 1)),
        (f"pipeline_parallel_degree = 4\nmodule_fqns_per_model_part = {PARTS}", (1, 3, 1, 1)),
        (f"pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = {PARTS}", (1, 3, 1, 1)),
        ('pipeline_parallel_degree = 2\npipeline_parallel_split_points = ["layers.5"]', (5, 1)),
        ("", None),
    ],
)
def test_six_layers_are_cut_as_torchtitan_cuts_them(tmp_path: Path, more: str, cut: object) -> None:
    pytest.importorskip("torch")
    path = written(tmp_path, NEW.format(name="llama3", flavor="debugmodel", more=more))
    reading = read_model_file(path, FileRequest(batch=2))
    assert reading.stage_blocks == cut and not [name for name in reading.unused if "parallel" in name]
    if cut:
        assert (reading.pins.pp or 1) * (reading.pins.virtual_stages or 1) == len(reading.stage_blocks or ())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[model]\nname = 'flux'\nflavor = 'dev'", "[model] 'flux', flavor 'dev': expected one of llama3 (debugmodel"),
        ("[training]\nseq_len = 3", "[model] name and flavor are missing"),
        ("[model", "not TOML"),
        (NEW.format(name="llama3", flavor="8B", more="pipeline_parallel_degree = 'x'"), "expected a whole number"),
        (NEW.format(name="llama3", flavor="8B", more="context_parallel_degree = 0"), "expected at least 1"),
        (OLD.replace("seq_len = 64", "local_batch_size = 0"), "local_batch_size = 0: expected at least 1"),
        (OLD.replace("batch_size = 8", "batch_size = -1"), "batch_size = -1: expected at least 1"),
        (OLD + "pipeline_parallel_microbatch_size = 0", "microbatch_size = 0: expected at least 1"),
        (OLD + "pipeline_parallel_first_stage_less_layers = -1", "less_layers = -1: expected at least 0"),
        (OLD + "pipeline_parallel_layers_per_stage = -2", "layers_per_stage = -2: expected at least 1"),
        (OLD.replace("seq_len = 64", "seq_len = 0"), "seq_len = 0: expected at least 1"),
        (
            NEW.format(
                name="llama3",
                flavor="8B",
                more="pipeline_parallel_degree = 4\npipeline_parallel_layers_per_stage = 5",
            ),
            "7 stages of 32 layers, expected a multiple of the 4 ranks",
        ),
        (
            NEW.format(name="llama3", flavor="debugmodel", more="pipeline_parallel_degree = 5"),
            "stages of 1, 2, 2, 1, 0 of 6 layers: expected one or more in each",
        ),
        (
            NEW.format(
                name="llama3",
                flavor="debugmodel",
                more='pipeline_parallel_degree = 2\nmodule_fqns_per_model_part = [["layers.0"], ["layers.2"]]',
            ),
            "module_fqns_per_model_part: expected layers.0 to layers.5 in their order",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(InputError) as refusal:
        read_model_file(written(tmp_path, text), FileRequest(batch=1))
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)
