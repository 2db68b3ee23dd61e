"""Made-up measured steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from lightloom.machines.accelerators.calibrated import Calibration, CalibrationRows, CrossValidatedError
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.planning.calibration.accuracy import parameters_of
from lightloom.planning.calibration.fit import prior_fit
from lightloom.planning.calibration.rows import MeasuredStep, MeasuredSteps, priors_of

COLUMNS: Mapping[str, str] = {
    "row": "first",
    "accelerator": "a100",
    "memory_bandwidth_gbs": "2039",
    "gpus": "16",
    "gpus_per_node": "8",
    "node_network_gbps": "1600",
    "hidden": "4096",
    "layers": "24",
    "heads": "32",
    "ffn": "16384",
    "vocabulary": "50304",
    "sequence_length": "2048",
    "dp": "4",
    "tp": "2",
    "pp": "2",
    "virtual_stages": "1",
    "sharding": "none",
    "micro_batch": "2",
    "global_batch": "64",
    "recomputation": "none",
    "sequence_parallel": "no",
    "attention": "unfused",
    "precision": "fp16",
    "gradient_bytes": "2",
    "step_s": "5.0",
}


def step(**changes: object) -> MeasuredStep:
    """Return the made-up step with some columns changed; None leaves one open."""
    cells: dict[str, object] = {**COLUMNS, **changes}
    return MeasuredStep.model_validate({name: cell for name, cell in cells.items() if cell is not None})


def write_rows(path: Path, *rows: Mapping[str, str]) -> Path:
    """Write a table of the made-up row with changes."""
    lines = [",".join(COLUMNS)] + [",".join({**COLUMNS, **row}[name] for name in COLUMNS) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def varied_steps() -> list[MeasuredStep]:
    """Return steps of two model sizes, one of them in a pipeline, and many splits of 16 GPUs, all timed as 1 s.

    Those of one size are priced together.
    """
    whole, piped = ((16, 1, 1), (8, 2, 1), (4, 4, 1), (2, 8, 1)), ((8, 1, 2), (4, 2, 2), (2, 4, 2), (1, 8, 2))
    sizes = ((2048, 16, 24, whole), (8192, 64, 32, piped))
    return [
        step(
            row=f"{hidden}-{dp}-{tp}-{pp}-{micro}",
            hidden=hidden,
            ffn=4 * hidden,
            heads=heads,
            layers=layers,
            gpus=dp * tp * pp,
            dp=dp,
            tp=tp,
            pp=pp,
            micro_batch=micro,
            global_batch=dp * 16,
            step_s=1.0,
        )
        for hidden, heads, layers, splits in sizes
        for (dp, tp, pp), micro in product(splits, (1, 2, 4, 8))
    ]


def table_of(steps: Sequence[MeasuredStep], name: str = "made-up") -> MeasuredSteps:
    """Return a table of steps."""
    return MeasuredSteps(name=name, sha256="0" * 64, steps=tuple(steps))


def made_calibration(accelerator: str = "a100", **values: float) -> Calibration:
    """Return a calibration whose ``values`` are said to be determined by rows, the others left at their priors."""
    priors = priors_of(load_accelerator(accelerator))
    parameters = parameters_of(prior_fit(priors), priors)
    for name, value in values.items():
        changes = {"value": value, "spread": 0.01, "determined": True}
        parameters[name] = parameters[name].model_copy(update=changes)
    spreads = [parameter.spread for parameter in parameters.values()]
    return Calibration(
        description=f"{accelerator}, made up",
        accelerator=accelerator,
        rows=CalibrationRows(table="made-up", sha256="ab" * 32, count=12),
        cross_validated=CrossValidatedError(
            folds=10, mean=0.05, median=0.03, bias=0.0, percentile_90=0.1, coverage=0.9
        ),
        noise=0.05,
        scatter=0.1,
        parameters=parameters,
        covariance=[
            [spread**2 * (row == column) for column in range(len(spreads))] for row, spread in enumerate(spreads)
        ],
    )
