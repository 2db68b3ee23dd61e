"""Single kernels on a GPU, as priors of the kernel model count them: ``python -m benchmarks.gpu.kernels --json FILE``.

Matrix products in bfloat16 of the forward pass and of both gradients, attention in one kernel, element-wise operators,
the optimizer, and how fast the host launches. Seconds are medians by CUDA events, with the L2 cache emptied before each
(``triton.testing.do_bench``). Without a GPU the command says so and ends with status 2.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.gpu.machine import described, require_gpu
from benchmarks.support.measure import exit_clearly
from lightloom.core.files import check_writable, write_atomically

if TYPE_CHECKING:
    from torch import Tensor

TOKENS = (512, 2048, 8192, 16384)
LAYERS = (
    (1024, 1024),
    (3072, 1024),
    (4096, 1024),
    (1024, 4096),
    (50257, 1024),
    (4096, 4096),
    (22016, 4096),
    (4096, 11008),
    (32000, 4096),
    (12288, 12288),
)
"""Outputs and inputs of linear layers: GPT-2 of 355 million parameters, Llama-2 7B, and one of GPT-3's."""
UNEVEN = (
    (50258, 1024),
    (50260, 1024),
    (50264, 1024),
    (50304, 1024),
    (4097, 4096),
    (4096, 4097),
    (1000, 2048),
    (1001, 2048),
)
"""Rows of matrices that begin at every 4, 8, 16 and 128 bytes, and others that are not multiples of 16 bytes."""
HEADS = ((8, 16, 1024, 64), (4, 32, 2048, 64), (2, 32, 2048, 128), (1, 32, 4096, 128), (1, 32, 8192, 128))
"""Samples, heads, tokens and size of a head."""
ELEMENTS = (4 * 1024 * 1024, 32 * 1024 * 1024, 128 * 1024 * 1024)
LAUNCHES = 2000


def seconds_of(work: Callable[[], object]) -> float:
    """Return the median of the seconds that the GPU takes."""
    from triton.testing import do_bench

    return float(do_bench(work, warmup=10, rep=40, return_mode="median")) / 1e3


def products() -> Iterator[dict[str, object]]:
    """Yield products of linear layers, [m, k] by [k, n]: forward, gradient of the input, gradient of the weights."""
    import torch

    for m, (n, k) in [*product(TOKENS, LAYERS), *product(TOKENS[-2:], UNEVEN)]:
        x, weight, gradient = (
            torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (n, k), (m, n))
        )
        for step_pass, work in (
            ("forward", partial(torch.matmul, x, weight.T)),
            ("input-gradient", partial(torch.matmul, gradient, weight)),
            ("weight-gradient", partial(torch.matmul, gradient.T, x)),
        ):
            yield {"kernel": "product", "pass": step_pass, "m": m, "n": n, "k": k, "seconds": seconds_of(work)}


def attention() -> Iterator[dict[str, object]]:
    """Yield attention in one kernel, forward and backward."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    backends = (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION)
    for backend, (samples, heads, tokens, size), causal, dropout in product(backends, HEADS, (True, False), (0.0, 0.1)):
        q, k, v = (
            torch.randn(samples, heads, tokens, size, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        )
        forward = partial(F.scaled_dot_product_attention, q, k, v, dropout_p=dropout, is_causal=causal)
        with sdpa_kernel(backend):
            output = forward()
            backward = partial(torch.autograd.grad, output, (q, k, v), torch.randn_like(output), retain_graph=True)
            for step_pass, work in (("forward", forward), ("backward", backward)):
                yield {
                    "kernel": "flash",
                    "backend": backend.name.lower(),
                    "pass": step_pass,
                    "products": samples * heads,
                    "tokens": tokens,
                    "size": size,
                    "causal": causal,
                    "dropout": dropout,
                    "seconds": seconds_of(work),
                }


def element_wise() -> Iterator[dict[str, object]]:
    """Yield what waits for memory, with the bytes that it must move at least."""
    import torch
    import torch.nn.functional as F

    for count in ELEMENTS:
        x = torch.randn(count // 1024, 1024, device="cuda", dtype=torch.bfloat16)
        y, out = torch.randn_like(x), torch.empty_like(x)
        scale = torch.ones(1024, device="cuda", dtype=torch.bfloat16)
        for name, moved, work in (
            ("copy", 4, partial(out.copy_, x)),
            ("add", 6, partial(torch.add, x, y, out=out)),
            ("gelu", 4, partial(F.gelu, x, approximate="tanh")),
            ("dropout", 5, partial(F.dropout, x, 0.1, True)),
            ("layer-norm", 4, partial(F.layer_norm, x, (1024,), scale, scale)),
            ("softmax", 4, partial(torch.softmax, x, -1)),
        ):
            yield {"kernel": name, "elements": count, "bytes": moved * count, "seconds": seconds_of(work)}
    for tokens, vocabulary in ((4096, 50257), (8192, 32000)):
        yield from _loss(tokens, vocabulary)


def _loss(tokens: int, vocabulary: int) -> Iterator[dict[str, object]]:
    import torch
    import torch.nn.functional as F

    logits = torch.randn(tokens, vocabulary, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    targets = torch.randint(vocabulary, (tokens,), device="cuda")

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(F.cross_entropy(logits.float(), targets), logits)

    count = tokens * vocabulary
    yield {"kernel": "cross-entropy", "elements": count, "bytes": 36 * count, "seconds": seconds_of(both)}


def optimizers() -> Iterator[dict[str, object]]:
    """Yield an update of Adam on the tensors of 24 layers of 1,024, in float32."""
    import torch

    shapes = [(50257, 1024)] + 24 * [
        (3072, 1024),
        (3072,),
        (1024, 1024),
        (1024,),
        (4096, 1024),
        (4096,),
        (1024, 4096),
        (1024,),
    ]
    for way in ("fused", "foreach"):
        tensors = [torch.randn(*shape, device="cuda", requires_grad=True) for shape in shapes]
        for tensor in tensors:
            tensor.grad = torch.randn_like(tensor)
        optimizer = torch.optim.AdamW(tensors, fused=way == "fused", foreach=way == "foreach")
        count = sum(tensor.numel() for tensor in tensors)
        seconds = seconds_of(optimizer.step)
        yield {"kernel": f"adam-{way}", "elements": count, "bytes": 28 * count, "seconds": seconds}


def launches() -> Iterator[dict[str, object]]:
    """Yield the host's seconds for each launch of a kernel that is shorter than its launch."""
    import torch

    x, weight = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda", requires_grad=True)

    def adds() -> None:
        for _ in range(LAUNCHES):
            torch.add(x, x)

    def linear() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            y = x
            for _ in range(LAUNCHES // 4):
                y = torch.nn.functional.linear(y, weight)
            y.sum().backward()  # type: ignore[no-untyped-call]

    for name, work, count in (("add", adds, LAUNCHES), ("linear forward and backward", linear, LAUNCHES // 4)):
        yield {
            "kernel": "launch",
            "of": name,
            "calls": count,
            "seconds": statistics.median(_host(work) for _ in range(5)) / count,
        }


def _host(work: Callable[[], None]) -> float:
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the count of rows, write JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.kernels", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, required=True, help="write the measurement here")
    asked = parser.parse_args(arguments)
    check_writable(asked.json)
    require_gpu()
    rows: list[dict[str, object]] = []
    for measure in (products, attention, element_wise, optimizers, launches):
        rows.extend(measure())
        print(f"{measure.__name__}: {len(rows)} rows in all", file=sys.stderr)
    write_atomically(asked.json, json.dumps({**described(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(exit_clearly(main))
