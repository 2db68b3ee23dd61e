"""Write ``docs/measured-steps.md``: ``python -m benchmarks.gpu.report``.

It reads what ``benchmarks.gpu.kernels`` and ``benchmarks.gpu.steps`` measured and sets predictions beside it; no GPU is
needed. Two minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lightloom as ll
from benchmarks.gpu.page import Row, page
from benchmarks.support.measure import exit_clearly
from lightloom.accelerators.kernels import KernelKind, KernelShapes, Rates
from lightloom.accelerators.load import load_accelerator
from lightloom.core.files import write_atomically
from lightloom.reports.figures.accuracy_figure import PredictedSeries, accuracy_figure
from lightloom.reports.figures.base import save
from lightloom.workloads.catalog import ZOO

MEASURED = Path(__file__).parent / "measured"
GPUS = ("h100", "h200")
"""Accelerators of the catalog that were measured."""
CLUSTER, RANKS = "dgx-h100-64", 8
"""Plans need several ranks: replicas on one node, of whose step only the computing counts."""
IN_BFLOAT16 = {
    "training.stored_parameter_bytes": 2,
    "training.gradient_bytes": 2,
    "training.optimizer_state_bytes": 4,
    "training.optimizer_traffic_bytes": 14,
}
"""Settings of a step whose parameters, gradients and moments are in bfloat16."""


def predicted(gpu: str, row: dict[str, Any]) -> Row:
    """Return a measured step beside its prediction from priors."""
    name = row["model"] if row["model"] in ZOO else f"benchmarks.gpu.models:{row['model']}"
    settings: dict[str, object] = {"ranks": RANKS, "accelerator": gpu}
    if row["numbers"] == "bfloat16":
        settings |= IN_BFLOAT16
    ranking = ll.plan(name, CLUSTER, batch=row["batch"], strategy="ddp", algorithm="one-stage", set=settings)
    best: Any = ranking.to_json()["ranking"]
    computing = best[0]["breakdown"]["compute_s"]
    whole = best[0]["iteration_time_s"]
    return Row(
        gpu,
        row["model"],
        row["batch"],
        row["numbers"] + (", compiled" if row["compiled"] else ""),
        row["step_s"],
        computing,
        best[0]["low_s"] * computing / whole,
        best[0]["high_s"] * computing / whole,
        row["memory_bytes"],
        best[0]["memory_bytes"],
    )


def product_errors(gpu: str, rows: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Return relative errors of products of at least 2,048 tokens, aligned ones and others."""
    errors: dict[str, list[float]] = {"rows of 16 bytes": [], "other rows": []}
    accelerator = load_accelerator(gpu)
    kernels, bandwidth = accelerator.kernels, accelerator.memory_bandwidth
    if kernels is None or bandwidth is None:
        raise AssertionError(f"{gpu}: expected a kernel model and a bandwidth")
    rates = Rates(accelerator.peak_rate("bf16"), bandwidth)
    for row in rows:
        if row["kernel"] == "product" and row["m"] >= 2048:
            shape = _linear(row)
            nbytes = flops = np.ones((1, 1))
            seconds = float(kernels.operator_times(nbytes, flops, shape, rates)[0, 0])
            aligned = row["n"] % 8 == row["k"] % 8 == 0
            errors["rows of 16 bytes" if aligned else "other rows"].append(seconds / row["seconds"] - 1)
    return errors


def _linear(row: dict[str, Any]) -> KernelShapes:
    """Return the kernel of one pass of a linear layer."""
    m, n, k, one = (np.array([[float(value)]]) for value in (row["m"], row["n"], row["k"], 1))
    runs = {
        name: one * (row["pass"] == name.replace("_", "-")) for name in ("forward", "input_gradient", "weight_gradient")
    }
    none = np.zeros(1, np.int64)
    return KernelShapes(
        kind=none + KernelKind.PRODUCT,
        m=m,
        n=n,
        k=k,
        products=one,
        repeats=one,
        **runs,
        causal=none,
        losses=none,
        element_bytes=2,
    )


def series(rows: Sequence[Row]) -> list[PredictedSeries]:
    """Return the rows of the picture, one series for each way to compute, of all GPUs together."""
    return [
        PredictedSeries(
            numbers,
            np.array([row.measured_s for row in rows if row.numbers == numbers]),
            np.array([row.predicted_s for row in rows if row.numbers == numbers]),
            np.array([row.low_s for row in rows if row.numbers == numbers]),
            np.array([row.high_s for row in rows if row.numbers == numbers]),
        )
        for numbers in dict.fromkeys(row.numbers for row in rows)
    ]


def main(arguments: list[str] | None = None) -> None:
    """Predict every measured step, write the page and its picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.report", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the folder of the page")
    asked = parser.parse_args(arguments)
    measured = {gpu: {name: _read(f"{gpu}-{name}") for name in ("steps", "kernels")} for gpu in GPUS}
    wanted = [(gpu, row) for gpu, tables in measured.items() for row in tables["steps"]["rows"]]
    rows: list[Row] = []
    for gpu, row in wanted:
        rows.append(predicted(gpu, row))
        if sys.stderr.isatty():
            print(f"{len(rows)} of {len(wanted)} steps", end="\r", file=sys.stderr)
    products = {gpu: product_errors(gpu, tables["kernels"]["rows"]) for gpu, tables in measured.items()}
    write_atomically(asked.docs / "measured-steps.md", page(measured, _read("h100-codec"), rows, products))
    picture = asked.docs / "pictures" / "measured-steps.png"
    save(accuracy_figure(series(rows)), picture, "python -m benchmarks.gpu.report")


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((MEASURED / f"{name}.json").read_text())
    return document


if __name__ == "__main__":
    sys.exit(exit_clearly(main))
