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
from lightloom.core.arrays import Floats, Mask
from lightloom.core.files import write_atomically
from lightloom.machines.accelerators.kernels import KernelKind, KernelShapes, Rates
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.models.zoo import ZOO
from lightloom.reports.figures.canvas import save
from lightloom.reports.figures.comparisons import PredictedSeries, accuracy_figure

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


class Products:
    """Measured products of linear layers of at least 2,048 tokens, beside predictions of an accelerator's kernels."""

    def __init__(self, gpu: str, rows: Sequence[dict[str, Any]]) -> None:
        accelerator = load_accelerator(gpu)
        kernels, bandwidth = accelerator.kernels, accelerator.memory_bandwidth
        if kernels is None or bandwidth is None:
            raise AssertionError(f"{gpu}: expected a kernel model and a bandwidth")
        self.kernels, self._rates = kernels, Rates(accelerator.peak_rate("bf16"), bandwidth)
        self.peak = float(self._rates.peak)
        """FLOP/s in bfloat16."""
        rows = [row for row in rows if row["kernel"] == "product" and row["m"] >= 2048]
        m, n, k, self._measured = (
            np.array([[float(row[name]) for row in rows]]) for name in ("m", "n", "k", "seconds")
        )
        one, none = np.ones_like(m), np.zeros(len(rows), np.int64)
        passes = {
            name: np.array([[float(row["pass"] == name.replace("_", "-")) for row in rows]])
            for name in ("forward", "input_gradient", "weight_gradient")
        }
        self._shapes = KernelShapes(
            kind=none + KernelKind.PRODUCT,
            m=m,
            n=n,
            k=k,
            products=one,
            repeats=one,
            **passes,
            visible=np.ones(len(rows)),
            narrow=none,
            losses=none,
            element_bytes=2,
        )
        self._aligned: Mask = (n % 8 == 0) & (k % 8 == 0)

    def errors(self, *, aligned: bool, **parameters: float) -> Floats:
        """Return relative errors where rows are multiples of 16 bytes, or where not, with these parameters: [row]."""
        model, one = self.kernels.model_copy(update=parameters), np.ones_like(self._measured)
        seconds = model.operator_times(one, one, self._shapes, self._rates)
        chosen: Floats = (seconds / self._measured - 1)[self._aligned == aligned]
        return chosen

    def fitted(self) -> dict[str, float]:
        """Return the fraction and the depth with the least squares of logarithms of aligned products."""
        from scipy.optimize import minimize

        names = ("gemm_fraction", "gemm_depth")
        start = np.log([getattr(self.kernels, name) for name in names])

        def squares(logarithms: Floats) -> float:
            values = dict(zip(names, np.exp(logarithms).tolist(), strict=True))
            return float((np.log1p(self.errors(aligned=True, **values)) ** 2).mean())

        best = minimize(squares, start, method="Nelder-Mead")
        return dict(zip(names, np.exp(best.x).tolist(), strict=True))


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
    products = {gpu: Products(gpu, tables["kernels"]["rows"]) for gpu, tables in measured.items()}
    errors = {
        gpu: {
            "rows of 16 bytes": each.errors(aligned=True).tolist(),
            "other rows": each.errors(aligned=False).tolist(),
        }
        for gpu, each in products.items()
    }
    write_atomically(
        asked.docs / "measured-steps.md",
        page(measured, _read("h100-codec"), rows, errors, products["h100"].fitted(), products["h100"].peak),
    )
    picture = asked.docs / "pictures" / "measured-steps.png"
    save(accuracy_figure(series(rows)), picture, "python -m benchmarks.gpu.report")


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((MEASURED / f"{name}.json").read_text())
    return document


if __name__ == "__main__":
    sys.exit(exit_clearly(main))
