"""Every Triton kernel compiles for CUDA, without a GPU, in a process where Triton does not interpret."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from lightloom.exchange.compression.blocks import BlockFormat

SIGNATURES: dict[str, dict[str, str]] = {
    "measure_groups": {"values": "*i32", "sizes": "*i32"},
    "write_groups": {"values": "*i32", "ends": "*i64", "out": "*u8"},
    "seal_frames": {"out": "*u8", "starts": "*i64", "ends": "*i64"},
    "find_frames": {"data": "*u8", "starts": "*i64", "status": "*i32"},
    "walk_frames": {"data": "*u8", "starts": "*i64", "places": "*i64", "status": "*i32"},
    "read_groups": {"data": "*u8", "places": "*i64", "out": "*i32"},
}
"""Types of the pointers of INCEPTIONN's kernels; every other argument is a count or a constant."""

BLOCK_TYPES = {"values": "*fp32", "rest": "*fp32", "out": "*fp32", "places": "*i64", "wire": "*u8", "factor": "fp32"}


def compile_codec(counts: str) -> None:
    """Compile INCEPTIONN's kernels for sm90 and counts of one size, i32 or i64."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from lightloom.exchange.gpu import kernels

    for name, signature in SIGNATURES.items():
        kernel = getattr(kernels, name)
        constants = {"bound": 10, "width": 12}
        types = dict.fromkeys(kernel.arg_names, counts) | signature
        types |= {argument: "constexpr" for argument in constants if argument in types}
        arguments = enumerate(kernel.arg_names)
        values = {(place,): constants[argument] for place, argument in arguments if argument in constants}
        assert compile(ASTSource(kernel, types, values), target=GPUTarget("cuda", 90, 32)).asm["cubin"]


def compile_blocks(*formats: BlockFormat, capabilities: tuple[int, ...] = (80, 90)) -> None:
    """Compile the kernels of blocks for some GPUs; no product may be contracted with a sum, divisions are exact."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from lightloom.exchange.gpu import block_kernels, blocks

    kernels = (block_kernels.encode_blocks, block_kernels.decode_blocks)
    for fmt, kernel, capability in product(formats, kernels, capabilities):
        constants = {"add": True, "feedback": True, "layout": blocks.layout_of(fmt)}
        names = kernel.arg_names
        types = {name: "constexpr" if name in constants else BLOCK_TYPES.get(name, "i32") for name in names}
        known = {(place,): constants[name] for place, name in enumerate(names) if name in constants}
        built = compile(
            ASTSource(kernel, types, known), target=GPUTarget("cuda", capability, 32), options=blocks.OPTIONS
        )
        code = built.asm["ptx"]
        assert built.asm["cubin"] and f".target sm_{capability}" in code
        assert "fma." not in code and "div.full" not in code and "div.approx" not in code


USUAL = "compile_codec('i32'); compile_blocks(BlockFormat('linear', 4, 128), capabilities=(90,))"
OTHERS = (
    "compile_codec('i64'); compile_blocks(BlockFormat('linear', 4, 128), BlockFormat('linear', 8, 256),"
    "BlockFormat('linear', 3, 128), BlockFormat('lloyd', 2, 64),"
    "BlockFormat('sign', 1, 256), BlockFormat('linear', 5, 24))"
)


@pytest.mark.long
@pytest.mark.parametrize("code", [USUAL, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["usual", "others"])
def test_kernels_compile_for_cuda_without_a_gpu(tmp_path: Path, code: str) -> None:
    pytest.importorskip("triton", reason="needs triton")
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    imports = f"from {__name__} import BlockFormat, compile_blocks, compile_codec"
    root = Path(__file__).parents[__name__.count(".")]
    command = [sys.executable, "-c", f"{imports}; {code}"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
