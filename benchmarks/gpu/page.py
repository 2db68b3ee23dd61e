"""The page ``docs/measured-steps.md``: steps and kernels that this project measured on one GPU, and predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measured step and its prediction."""

    gpu: str
    model: str
    batch: int
    numbers: str
    """Formats of numbers, and whether the step is compiled."""
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    measured_bytes: float
    predicted_bytes: float

    @property
    def error(self) -> float:
        """Relative error of the time."""
        return self.predicted_s / self.measured_s - 1

    @property
    def memory_error(self) -> float:
        """Relative error of the memory."""
        return self.predicted_bytes / self.measured_bytes - 1


_INTRODUCTION = """# Steps measured on an H100 and an H200

`python -m benchmarks.gpu.kernels` and `python -m benchmarks.gpu.steps` measured single kernels and whole training steps
on {gpus};
the figures lie in `benchmarks/gpu/measured`, and `python -m benchmarks.gpu.report` writes this page from them, on any
machine. Predictions are those of `lightloom plan` from priors, for one rank. Nothing was calibrated on these steps. Two
terms were added because of those of the H100 and are named below; the H200 was measured after that.

![Predicted against measured steps](pictures/measured-steps.png)

Errors are (predicted - measured) / measured; means and medians are those of their absolute values.
"""

_READING = """
Steps in bfloat16 are what FSDP, Megatron-LM and torchtitan compute between their exchanges, and what a plan assumes.
What the others show:

* **Steps that wait for the host** (small batches; ResNet-152, DenseNet and Inception) are predicted much too fast. The
  prior of a launch is 10 us, and only kernels of the model's own operators are counted. The host of the H100 took
  {add:.1f} us for the shortest launch and {linear:.0f} us for a linear layer forward and backward under autocast.
  `--set accelerator.kernels.dispatch=25us` sets another value.
* **Autocast** casts every weight in every step and keeps the residual stream in float32; a plan counts neither.
* **Without a compiler** element-wise operators of images move more than the prior of `fusion`, 0.8, says: ResNet-50
  takes {eager:.0f} ms, compiled {compiled:.0f} ms, predicted {predicted:.0f} ms.

## What the measurements changed

* The **memory of the loss** was missing: the logits, their log-softmax in float32 and two gradients of that size,
  14 bytes a logit in bfloat16. Predicted memory was up to 77 % too small (a vocabulary of 32,000 after 8 thin layers).
* **Rows that are not aligned**: products with 50,257 columns take {slower:.1f} times as long as those with 50,304. They
  were predicted alike; `unaligned` is the parameter, and its prior is from the kernels of the H100. A padded vocabulary
  makes a step of GPT-2 with 16 samples {padded:.0%} shorter.
* The zoo's decoders could not run in bfloat16, nor be compiled on a GPU.

## Kernels

| kernels | rows | mean error | median | bias |
| --- | ---: | ---: | ---: | ---: |
"""

_FLASH = """
Priors for products and attention stay as they were published: on these kernels of the H100 the best fit would be a
`gemm_fraction` of {gemm_fraction:.2f} and a `gemm_depth` of {gemm_depth:.0f}. Causal attention reaches these shares of
the H100's peak, without dropout. [Accelerators](accelerators.md#kernels) has the priors.

| attention | samples x heads | tokens | size of a head | forward | backward |
| --- | ---: | ---: | ---: | ---: | ---: |
"""

_CODEC = """
## The gradient codec

The Triton kernels of the codec ([compression](compression.md)) ran on the H100: their bytes and values are the
processor's (`pytest tests/training/gpu`, and again before each timing). GB/s of float32 input, {megabytes} MB of
Laplace noise, header, checksums and waits included; `python -m benchmarks.gpu.codec` measured it.

| codec | encodes, GB/s | decodes, GB/s | ratio |
| --- | ---: | ---: | ---: |
"""


def page(
    measured: Mapping[str, Mapping[str, Any]],
    codec: Mapping[str, Any],
    rows: Sequence[Row],
    products: Mapping[str, Mapping[str, Sequence[float]]],
    fitted: Mapping[str, float],
    peak: float,
) -> str:
    """Return the page.

    Args:
        measured: by GPU, the documents of its ``steps`` and ``kernels``.
        codec: the document of the codec's speed.
        rows: every measured step and its prediction.
        products: by GPU and kind of product, the relative errors of predicted seconds.
        fitted: the parameters that suit the products of the H100 best.
        peak: FLOP/s of the H100 in bfloat16.
    """
    kernels = measured["h100"]["kernels"]["rows"]
    machines = [tables["steps"] for tables in measured.values()]
    gpus = " and ".join(f"one {each['gpu']} (torch {each['torch']}, CUDA {each['cuda']})" for each in machines)
    return "".join(
        (
            _INTRODUCTION.format(gpus=gpus),
            *_groups(rows),
            *_steps(rows),
            _READING.format(**_figures(kernels, [row for row in rows if row.gpu == "h100"])),
            *(
                f"| {gpu}: products, {what} | {_summary(errors)}"
                for gpu, kinds in products.items()
                for what, errors in kinds.items()
            ),
            _FLASH.format(**fitted),
            *_attention(kernels, peak),
            _CODEC.format(**codec),
            *(
                f"| {row['codec']} | {row['encode_GBps']:.0f} | {row['decode_GBps']:.0f} | {row['ratio']:.2f} |\n"
                for row in codec["data"]["laplace 1e-3"]
            ),
        )
    )


def _summary(errors: Sequence[float]) -> str:
    sizes = [abs(error) for error in errors]
    return f"{len(errors)} | {fmean(sizes):.1%} | {median(sizes):.1%} | {fmean(errors):+.1%} |\n"


def _groups(rows: Sequence[Row]) -> Iterator[str]:
    yield "\n| steps | rows | mean error | median | bias | memory: mean error | median | inside the interval |\n"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    for gpu, numbers in dict.fromkeys((row.gpu, row.numbers) for row in rows):
        group = [row for row in rows if (row.gpu, row.numbers) == (gpu, numbers)]
        memory = [abs(row.memory_error) for row in group]
        inside = sum(row.low_s <= row.measured_s <= row.high_s for row in group)
        summary = _summary([row.error for row in group]).rstrip("|\n")
        held = f"{fmean(memory):.1%} | {median(memory):.1%}"
        yield f"| {gpu}: {numbers} | {summary}| {held} | {inside} of {len(group)} |\n"


def _steps(rows: Sequence[Row]) -> Iterator[str]:
    yield "\n| GPU | model | batch | numbers | measured | predicted | error | memory measured | predicted | error |\n"
    yield "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
    for row in rows:
        times = f"{row.measured_s * 1e3:.1f} ms | {row.predicted_s * 1e3:.1f} ms | {row.error:+.0%}"
        memory = (
            f"{row.measured_bytes / 2**30:.1f} GiB | {row.predicted_bytes / 2**30:.1f} GiB | {row.memory_error:+.0%}"
        )
        yield f"| {row.gpu} | `{row.model}` | {row.batch} | {row.numbers} | {times} | {memory} |\n"


def _figures(kernels: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> dict[str, float]:
    add, linear = (row["seconds"] * 1e6 for row in kernels if row["kernel"] == "launch")
    by_columns = {
        columns: sum(row["seconds"] for row in kernels if row.get("n") == columns and row["m"] == 8192)
        for columns in (50257, 50304)
    }
    step = {(row.model, row.batch, row.numbers): row for row in rows}
    plain, padded = (step[model, 16, "bfloat16"].measured_s for model in ("gpt2-355m", "gpt2_padded"))
    eager, compiled = (step["resnet50", 256, numbers] for numbers in ("bfloat16", "bfloat16, compiled"))
    return {
        "add": add,
        "linear": linear,
        "slower": by_columns[50257] / by_columns[50304],
        "padded": 1 - padded / plain,
        "eager": eager.measured_s * 1e3,
        "compiled": compiled.measured_s * 1e3,
        "predicted": eager.predicted_s * 1e3,
    }


def _attention(kernels: Sequence[Mapping[str, Any]], peak: float) -> Iterator[str]:
    chosen = [row for row in kernels if row["kernel"] == "flash" and row["causal"] and not row["dropout"]]
    for forward, backward in zip(chosen[::2], chosen[1::2], strict=True):
        flops = 2.0 * forward["products"] * forward["tokens"] ** 2 * forward["size"]
        shares = (flops / forward["seconds"] / peak, 2.5 * flops / backward["seconds"] / peak)
        name = {"flash_attention": "FlashAttention-2", "cudnn_attention": "cuDNN, PyTorch's default"}[
            forward["backend"]
        ]
        sizes = f"{forward['products']} | {forward['tokens']:,} | {forward['size']}"
        yield f"| {name} | {sizes} | {shares[0]:.0%} | {shares[1]:.0%} |\n"
