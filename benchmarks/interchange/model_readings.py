"""Second readings of models and clusters by other libraries, which share no reader with lightloom.

config.json   transformers' own parameter count, and PyTorch's FlopCounterMode on the meta device
ONNX          sizes of floating constants, by onnx alone
Megatron      the closed form of a decoder's parameters, from numbers found by regular expressions
torchtitan    parameters that model cards and papers print
layer files   sums of pandas columns
networks      products of the YAML or JSON lists
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_PRINTED = {
    ("llama3", "8B"): 8_030_261_248,
    ("llama3", "70B"): 70_553_706_496,
    ("llama3", "405B"): 405_853_388_800,
    ("qwen3", "0.6B"): 596_049_920,
    ("qwen3", "1.7B"): 1_720_574_976,
    ("qwen3", "32B"): 32_762_123_264,
    ("deepseek_v3", "16B"): 15_706_484_224,
    # 58 routers correct their scores by 256 numbers each, which are no parameters in torchtitan
    ("deepseek_v3", "671B"): 671_026_419_200 - 58 * 256,
}
"""``safetensors`` totals that the model cards show."""


class Second(NamedTuple):
    """What another library says."""

    by: str
    figures: Mapping[str, float]


def second_reading(path: Path, first: Mapping[str, float]) -> Second:
    """Read a file again; ``first`` gives the tokens of a sample."""
    if path.suffix == ".onnx":
        return Second("onnx", {"parameters": _onnx_parameters(path)})
    if path.suffix == ".toml":
        model = tomllib.loads(path.read_text())["model"]
        printed = _PRINTED.get((model["name"], model["flavor"]))
        return Second("model card", {} if printed is None else {"parameters": printed})
    if path.suffix == ".txt":
        return Second("pandas", _layers(path))
    if path.suffix in (".yml", ".yaml"):
        return Second("yaml", {"ranks": prod(yaml.safe_load(path.read_text())["npus_count"])})
    if path.suffix == ".sh":
        return Second("closed form", {"parameters": _megatron_parameters(path.read_text())})
    data = json.loads(path.read_text())
    if "units-count" in data:
        return Second("json", {"ranks": prod(data["units-count"])})
    return Second("transformers, FlopCounterMode", _transformers(data, int(first["sequence"])))


def _onnx_parameters(path: Path) -> int:
    import onnx

    model = onnx.load(path, load_external_data=False)
    sizes = {each.name: list(each.dims) for each in model.graph.initializer if each.data_type == 1}
    shapes = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer if each.data_type == 7}
    statistics: set[str] = set()
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            sizes[node.output[0]] = [int(size) for size in shapes[node.input[0]]]
        if node.op_type == "BatchNormalization":
            statistics.update(node.input[3:5])
    return sum(prod(shape) for name, shape in sizes.items() if name not in statistics and prod(shape) > 1)


def _layers(path: Path) -> dict[str, float]:
    import pandas

    table = pandas.read_csv(path, sep=r"\s+", skiprows=2, header=None)
    gradients = table[table[9].str.startswith(("ALLREDUCE", "REDUCESCATTER"))][10]
    model = path.read_text().split()[0] == "MODEL"
    return {
        "operators": len(table),
        "seconds": 1e-9 * float(table[[2, 5, 8]].to_numpy().sum()),
        "parameters": 0 if model else int((gradients // 4).sum()),
    }


def _transformers(data: dict[str, Any], tokens: int) -> dict[str, float]:
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.AutoConfig.for_model(**data)
    names = {name.lower(): name for name in dir(transformers)}
    kind = getattr(transformers, names[data["architectures"][0].lower()])
    with torch.device("meta"):
        module = kind(config)
        inputs = {"input_ids": torch.zeros(1, tokens, dtype=torch.long)}
        if config.is_encoder_decoder:
            inputs["decoder_input_ids"] = inputs["input_ids"]
        with FlopCounterMode(display=False) as counter:
            module(**inputs)
    return {"parameters": module.num_parameters(), "product FLOPs": counter.get_total_flops()}


def _megatron_parameters(text: str) -> int:
    def number(name: str, default: int) -> int:
        found = re.findall(rf"--{name}[ =]+[\"']?(\S+?)[\"']?[\s\\]", text + "\n")
        value = found[-1] if found else str(default)
        if variable := re.fullmatch(r"\$\{?(\w+)\}?", value):
            assigned = re.findall(rf"^\s*{variable[1]}=[\"']?(?:\$\{{\w+:-)?(\d+)", text, re.MULTILINE)
            value = assigned[0]
        return int(value)

    def flag(name: str) -> bool:
        return re.search(rf"--{name}\b", text) is not None

    hidden, layers, heads = number("hidden-size", 0), number("num-layers", 0), number("num-attention-heads", 0)
    ffn, width = number("ffn-hidden-size", 4 * hidden), number("kv-channels", hidden // heads)
    keys = number("num-query-groups", heads) if flag("group-query-attention") else heads
    experts, expert = number("num-experts", 0), number("moe-ffn-hidden-size", ffn)
    tokens = number("vocab-size", 50_257 if flag("merge-file") else 32_000)
    multiple = number("make-vocab-size-divisible-by", 128) * number("tensor-model-parallel-size", 1)
    rows = number("padded-vocab-size", -(-tokens // multiple) * multiple)
    products = 3 if flag("swiglu") else 2
    each = 2 * width * heads * hidden + 2 * width * keys * hidden
    each += experts * (products * expert + 1) * hidden if experts else products * ffn * hidden
    norm = hidden if flag("normalization RMSNorm") else 2 * hidden
    each += 2 * norm + (2 * width if flag("qk-layernorm") else 0)
    if not flag("disable-bias-linear"):
        each += width * (heads + 2 * keys) + hidden + (products - 1) * ffn + hidden
    elif flag("add-qkv-bias"):
        each += width * (heads + 2 * keys)
    tables = rows * hidden * (2 if flag("untie-embeddings-and-output-weights") else 1)
    learned = not flag("position-embedding-type rope") and not flag("use-rotary-position-embeddings")
    return layers * each + tables + norm + (number("max-position-embeddings", 0) * hidden if learned else 0)
