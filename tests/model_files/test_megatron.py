"""Arguments of Megatron-LM: models of the zoo come out, and strategies as they were exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightloom.app.api.planning import read_model
from lightloom.core.errors import InputError
from lightloom.models.decoder import DecoderSizes
from lightloom.models.files.megatron import decoder_sizes, read_options, strategy_notes, strategy_pins
from lightloom.models.files.model_file import FileRequest, is_shell_line
from lightloom.models.files.read import read_model_file

GPT = """
ARGS="--num-layers {layers} --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32"
torchrun --nproc_per_node 8 pretrain_gpt.py $ARGS --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \\
    --micro-batch-size 1 --global-batch-size 16 --vocab-size 500 --lr 6.0e-5 {more}
"""


def written(folder: Path, more: str = "", layers: str = "4") -> Path:
    path = folder / "run.sh"
    path.write_text(GPT.format(more=more, layers=layers))
    return path


def test_a_script_is_a_model_with_its_strategy(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    reading = read_model_file(
        written(tmp_path, "--sequence-parallel --use-distributed-optimizer"), FileRequest(batch=2)
    )
    hidden, vocabulary = 64, 512  # 500 up to a multiple of 128 times two tensor ranks
    layer = 12 * hidden**2 + 13 * hidden
    assert reading.graph.parameters == 4 * layer + (vocabulary + 32) * hidden + 2 * hidden
    products = 4 * (24 * hidden**2 + 4 * 32 * hidden) + 2 * hidden * vocabulary
    counted = sum(each.forward_flops for each in reading.graph.operators if each.kind in ("linear", "attention"))
    assert counted == 2 * 32 * products
    pins = {name: value for name, value in reading.pins if value is not None}
    assert pins == {
        "tp": 2, "pp": 2, "cp": 1, "ep": 1, "micro_batch": 1, "virtual_stages": 1, "recomputation": "none",
        "sharding": "zero-1", "sequence_parallel": True,
    }  # fmt: skip
    assert reading.global_batch == 16
    assert reading.unused == ("--lr",)


def test_a_shell_line_is_the_script_that_holds_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = written(tmp_path)
    line = path.read_text()
    assert is_shell_line(line) and is_shell_line("--num-layers 4") and is_shell_line("pretrain_gpt.py --num-layers=4")
    assert not any(map(is_shell_line, ("resnet50", "folder/run--2.sh", "module:factory", "my file -- old.json")))
    read = read_model(line, batch=2)
    assert read.graph.operators == read_model(path, batch=2).graph.operators
    assert (read.pins.tp, read.global_batch) == (2, 16)
    with pytest.raises(InputError, match="the shell line: no command or array"):
        read_model("python train.py --lr 3", batch=2)


@pytest.mark.parametrize("sign", [" ", "="])
@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_quotes_around_values_are_those_of_the_shell(sign: str, quote: str) -> None:
    words = " ".join(f"--{name}{sign}{quote}{value}{quote}" for name, value in (("num-layers", 4), ("hidden-size", 64)))
    outer = "'" if quote == '"' else '"'
    for line in (f"train.py {words}", f"bash -c {outer}train.py {words}{outer}", f"ARGS={outer}{words}{outer}"):
        assert read_options(Path("line"), {}, line).given == {"num-layers": ["4"], "hidden-size": ["64"]}


def test_experts_of_megatron_deepspeed_are_in_every_second_layer(tmp_path: Path) -> None:
    deepspeed = "--deepspeed --deepspeed_config ds.json"
    options = read_options(written(tmp_path, f"{deepspeed} --num-experts 8 --moe-expert-parallel-size 4"), {})
    sizes, _ = decoder_sizes(options, None)
    assert (sizes.experts, sizes.visited, sizes.dense_layers) == (8, 1, (0, 2))
    pins = strategy_pins(options)
    assert (pins.ep, pins.sharding) == (4, None)
    assert any("stage of ZeRO" in note for note in strategy_notes(options, None))
    sizes, _ = decoder_sizes(read_options(written(tmp_path, f"{deepspeed} --num-experts 1 --topk 2"), {}), None)
    assert sizes.experts == 0
    assert strategy_pins(read_options(written(tmp_path, "--deepspeed --zero-stage 2"), {})).sharding == "zero-2"
    for more, complaint in (
        ("--num-experts 4 8", "layers with different numbers of experts"),
        ("--deepspeed --num-experts 4 --mlp-type residual", "--mlp-type residual"),
    ):
        with pytest.raises(InputError, match=complaint):
            decoder_sizes(read_options(written(tmp_path, more), {}), None)


def test_what_an_unknown_condition_decides_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(
        "SIZE=\\\n$2\nif [ $SIZE = 7B ]; then\nHIDDEN=64\nfi\nONE=${10}\n" + GPT.format(more="", layers="4")
    )
    path.write_text(path.read_text().replace("--hidden-size 64", "--hidden-size $HIDDEN"))
    with pytest.raises(InputError, match=r"line 3: whether \[ \$SIZE = 7B \] succeeds \(--define 2=VALUE\)"):
        decoder_sizes(read_options(path, {}), None)
    assert decoder_sizes(read_options(path, {"2": "7B"}), None)[0].hidden == 64


def test_a_mixture_of_experts_has_the_sizes_that_are_stated(tmp_path: Path) -> None:
    more = (
        "--swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope --num-experts 8 "
        "--group-query-attention --num-query-groups 2 --moe-router-topk 2 --untie-embeddings-and-output-weights "
        '--moe-layer-freq "([0]*1+[1]*3)" --ffn-hidden-size 96 --hidden-dropout 0'
    )
    sizes, _ = decoder_sizes(read_options(written(tmp_path, more), {}), None)
    assert sizes == DecoderSizes(
        layers=4, hidden=64, heads=4, key_heads=2, vocabulary=512, sequence_length=32, ffn=96, norm="rms", gated=True,
        bias=False, experts=8, visited=2, dense_layers=(0,), tied=False, joined_query=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "pinned"),
    [
        ("--recompute-granularity full", {"recomputation": "full"}),
        ("--recompute-activations", {"recomputation": "selective"}),
        ("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", {"sharding": "zero-2"}),
        ("--num-layers-per-virtual-pipeline-stage 1", {"virtual_stages": 2}),
        ("--context-parallel-size 4 --expert-model-parallel-size 8", {"cp": 4, "ep": 8}),
    ],
)
def test_choices_are_pinned(tmp_path: Path, more: str, pinned: dict[str, object]) -> None:
    pins = strategy_pins(read_options(written(tmp_path, more), {}))
    assert {name: getattr(pins, name) for name in pinned} == pinned


@pytest.mark.parametrize(
    ("more", "layers", "complaint"),
    [
        ("", "$LAYERS", "--num-layers: the file does not set LAYERS: expected its value, by --define LAYERS=VALUE"),
        ("", "four", "--num-layers four: expected a whole number"),
        ("--num-layers-per-virtual-pipeline-stage 3", "4", "expected a divisor of the 4 / 2 layers"),
        ("--mtp-num-layers 1", "4", "--mtp-num-layers: expected a decoder"),
        ("--num-query-groups 3 --group-query-attention", "4", "3 heads of keys: expected a divisor of the 4 heads"),
        ("--moe-layer-freq x --num-experts 4", "4", "--moe-layer-freq x"),
        ("--seq-length 64", "4", "sequence length 64: the table of positions holds 32"),
    ],
)
def test_contradictions_are_refused_in_one_line(tmp_path: Path, more: str, layers: str, complaint: str) -> None:
    with pytest.raises(InputError) as refusal:
        read_model_file(written(tmp_path, more, layers), FileRequest(batch=1))
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


def test_what_the_script_leaves_open_may_be_defined(tmp_path: Path) -> None:
    sizes, _ = decoder_sizes(read_options(written(tmp_path, layers="$LAYERS"), {"LAYERS": "6"}), None)
    assert sizes.layers == 6
