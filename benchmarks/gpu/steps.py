"""Training steps on one GPU, timed: ``python -m benchmarks.gpu.steps --json FILE``.

Mixed precision as PyTorch documents it (parameters in float32, arithmetic in bfloat16 under autocast), or everything
in bfloat16; AdamW in one kernel, cross entropy, random data that is already on the device; images in the memory format
that PyTorch recommends (channels last). Seconds of forward, backward and update are medians by CUDA events. Without a
GPU the command says so and ends with status 2.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from benchmarks.gpu import models
from benchmarks.gpu.machine import described, require_gpu
from benchmarks.support.measure import exit_clearly
from lightloom.core.files import check_writable, write_atomically
from lightloom.models.zoo import ZOO, resolve

if TYPE_CHECKING:
    from torch import Tensor, nn

WARM_UP, STEPS = 4, 10


class Case(NamedTuple):
    """One measured step."""

    model: str
    """A name of the zoo, or a factory of ``benchmarks.gpu.models``."""
    batch: int
    numbers: Literal["autocast", "bfloat16"] = "autocast"
    """Parameters in float32 with arithmetic in bfloat16, or both in bfloat16."""
    compiled: bool = False
    """Whether ``torch.compile`` makes the kernels of the passes."""


LANGUAGE = {"gpt2-355m": (1, 2, 4, 8, 16), "gpt2_padded": (8, 16), "gpt_1b": (1, 2, 4), "llama_1b": (1, 2, 4)}
LANGUAGE |= {"llama_3b": (1, 2), "optinc-llama": (8, 32, 128), "transformer-big": (16, 64, 256)}
IMAGES = {"resnet50": (32, 128, 256), "resnet152": (64,), "vgg16": (64,), "densenet121": (64,), "inception-v3": (64,)}
IMAGES |= {"alexnet": (256,)}
LARGE = (("gpt2-355m", 16), ("gpt2_padded", 16), ("gpt_1b", 4), ("llama_1b", 4), ("llama_3b", 2), ("resnet50", 256))
CASES = [Case(model, batch) for model, batches in (LANGUAGE | IMAGES).items() for batch in batches]
CASES += [Case(model, batch, "bfloat16") for model, batches in (LANGUAGE | IMAGES).items() for batch in batches[-2:]]
COMPILED = [Case(model, batch, "bfloat16", True) for model, batch in LARGE]


def built(name: str) -> Any:
    """Return the module of a case, with its parameters on the GPU."""
    import torch

    torch.manual_seed(1)
    entry = ZOO.get(name)
    return resolve(entry.path)(**entry.arguments) if entry else getattr(models, name)()


def measured(case: Case) -> dict[str, object]:
    """Return one row: seconds of the passes, and the memory that the step reaches at most."""
    import torch

    model = built(case.model)
    inputs = tuple(
        value.to(memory_format=torch.channels_last) if value.ndim == 4 else value
        for value in model.example_inputs(case.batch)
    )
    inputs = tuple(_random(value, model) for value in inputs)
    if inputs[0].ndim == 4:
        model = model.to(memory_format=torch.channels_last)
    if case.numbers == "bfloat16":
        model = model.to(torch.bfloat16)
        inputs = tuple(value.to(torch.bfloat16) if value.is_floating_point() else value for value in inputs)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    called = torch.compile(model) if case.compiled else model
    torch.cuda.reset_peak_memory_stats()
    autocast = case.numbers == "autocast"
    seconds = [_step(called, optimizer, inputs, autocast) for _ in range(WARM_UP + STEPS)][WARM_UP:]
    forward, backward, update, whole = (statistics.median(column) for column in zip(*seconds, strict=True))
    return {
        **case._asdict(),
        "parameters": parameters,
        "forward_s": forward,
        "backward_s": backward,
        "update_s": update,
        "step_s": whole,
        "spread_s": statistics.pstdev(row[-1] for row in seconds),
        "memory_bytes": torch.cuda.max_memory_allocated(),
    }


def _random(value: Tensor, model: nn.Module) -> Tensor:
    import torch

    if value.is_floating_point():
        return torch.randn_like(value)
    tables = [module.num_embeddings for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    return torch.randint_like(value, max(tables))


def _step(model: Any, optimizer: Any, inputs: tuple[Tensor, ...], autocast: bool = True) -> tuple[float, ...]:
    """Run one step; return the milliseconds of its passes and of the whole, as seconds."""
    import torch

    marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    marks[0].record()
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        outputs = model(*inputs)
        losses = [_loss(output) for output in (outputs if isinstance(outputs, tuple) else (outputs,))]
        loss = torch.stack(losses).sum()
    marks[1].record()
    loss.backward()  # type: ignore[no-untyped-call]
    marks[2].record()
    optimizer.step()
    optimizer.zero_grad()
    marks[3].record()
    torch.cuda.synchronize()
    pairs = ((0, 1), (1, 2), (2, 3), (0, 3))
    return tuple(marks[start].elapsed_time(end) / 1e3 for start, end in ((i, marks[j]) for i, j in pairs))


def _loss(logits: Tensor) -> Tensor:
    import torch

    flat = logits.flatten(0, -2).float()
    targets = torch.zeros(len(flat), dtype=torch.long)
    return torch.nn.functional.cross_entropy(flat, targets)


def profiled(case: Case, path: Path) -> None:
    """Write the Kineto trace of three steps, as ``lightloom calibrate`` reads it."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    model = built(case.model)
    inputs = tuple(_random(value, model) for value in model.example_inputs(case.batch))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    plain = path.with_suffix("")
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        record_shapes=True,
        schedule=schedule(wait=1, warmup=2, active=2),
        on_trace_ready=lambda run: run.export_chrome_trace(str(plain)),
    ) as running:
        for _ in range(5):
            _step(model, optimizer, inputs)
            running.step()
    path.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()


def main(arguments: list[str] | None = None) -> None:
    """Measure, print a row each, write JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.steps", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, required=True, help="write the measurement here")
    parser.add_argument("--only", choices=("eager", "compiled"), help="only these; compiled ones take some minutes")
    parser.add_argument("--profile", type=Path, help="write a Kineto trace of GPT-2 here, FILE.json.gz")
    asked = parser.parse_args(arguments)
    check_writable(asked.json)
    require_gpu()
    import torch

    torch.set_default_device("cuda")
    rows: list[dict[str, object]] = []
    for case in CASES + COMPILED:
        if asked.only is not None and case.compiled != (asked.only == "compiled"):
            continue
        try:
            rows.append(measured(case))
        except torch.cuda.OutOfMemoryError:
            rows.append({**case._asdict(), "refused": "out of memory"})
        print(json.dumps(rows[-1]), flush=True)
        write_atomically(asked.json, json.dumps({**described(), "rows": rows}, indent=1) + "\n")
        gc.collect()
        torch.cuda.empty_cache()
    if asked.profile is not None:
        profiled(Case("gpt2-355m", 8), asked.profile)


if __name__ == "__main__":
    sys.exit(exit_clearly(main))
