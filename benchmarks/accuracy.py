"""How near predicted steps and collectives are to what others measured: ``python -m benchmarks.accuracy``.

Needs the measured tables (``LIGHTLOOM_MEASURED``). Writes ``docs/accuracy.md`` and its picture, and fails where a
figure is beyond its limit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.support.accuracy_page import Check, page
from benchmarks.support.measure import parse_no_options
from lightloom.machines.accelerators.calibrated import Calibration
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.planning.calibration.accuracy import Accuracy, accuracy, calibrate, cross_validated, draw_accuracy
from lightloom.planning.calibration.collectives import fit_scales, predicted_collectives, read_systems
from lightloom.planning.calibration.fit import fit, log_seconds
from lightloom.planning.calibration.rows import MeasuredSteps, jobs_of, priors_of, read_steps
from lightloom.reports.figures.canvas import save

TABLES = ("megatron-a100", "megatron-sc21", "foundry-a100-40", "foundry-h100-small")
CALIBRATED = ("megatron-a100", "foundry-a100-40", "foundry-h100-small")
LEAST_COVERAGE, MOST_COVERAGE, MOST_HALF_WIDTH, LEAST_AGREEMENT = 0.8, 0.97, 0.2, 0.9
PRIOR_LIMITS = {"megatron-a100": 0.13, "megatron-sc21": 0.08, "foundry-a100-40": 0.15}
"""Mean errors of predictions from priors alone, by table."""
DRAWS = 20
_SMALL = 16 * 2**20
PAGE = Path("docs/accuracy.md")
PICTURE = Path("docs/pictures/accuracy.png")


def priors_only(tables: dict[str, MeasuredSteps]) -> tuple[list[Accuracy], list[Check]]:
    """Predict every table from priors."""
    judged = [accuracy(tables[name]) for name in TABLES]
    scores = {entry.steps.name: entry.scores for entry in judged}
    checks = [Check(f"priors only, {name}, mean", scores[name].mean, limit) for name, limit in PRIOR_LIMITS.items()]
    return judged, [*checks, Check("priors only, megatron-a100, median", scores["megatron-a100"].median, 0.11)]


def held_out(tables: dict[str, MeasuredSteps]) -> tuple[list[Accuracy], list[Check]]:
    """Predict rows, and models, by fits to the others."""
    limits = {"megatron-a100": 0.08, "foundry-a100-40": 0.05, "foundry-h100-small": 0.06}
    judged, checks = [], []
    for name in CALIBRATED:
        rows, models = cross_validated(tables[name], "rows"), cross_validated(tables[name], "models")
        judged += [rows, models]
        checks += [
            Check(f"ten-fold, {name}, mean", rows.scores.mean, limits[name]),
            Check(f"one model left out, {name}, mean", models.scores.mean, 0.1),
        ]
        if name == "megatron-a100":
            checks.append(Check("ten-fold, megatron-a100, median", rows.scores.median, 0.05))
    return judged, checks


def carried_over(tables: dict[str, MeasuredSteps], calibration: Calibration) -> tuple[list[Accuracy], list[Check]]:
    """Predict other tables by a calibration on ``megatron-a100``."""
    limits = {"foundry-a100-40": 0.1, "megatron-sc21": 0.07}
    judged = [accuracy(tables[name], calibration) for name in limits]
    checks = [
        Check(f"calibrated on megatron-a100, {entry.steps.name}, mean", entry.scores.mean, limits[entry.steps.name])
        for entry in judged
    ]
    return judged, checks


def from_ten_rows(steps: MeasuredSteps) -> Check:
    """Predict the H100 rows from ten of them, over seeded draws."""
    machine = load_accelerator("h100")
    priors, jobs = priors_of(machine), jobs_of(steps.steps, machine)
    errors = []
    for seed in range(DRAWS):
        chosen = np.random.default_rng(seed).permutation(jobs.rows) < 10
        fitted, others = fit(jobs.subset(chosen), priors), jobs.subset(~chosen)
        predicted = np.exp(log_seconds(others, priors, fitted.logarithms))
        errors.append(np.abs(predicted / others.measured - 1).mean())
    return Check(f"ten H100 rows, the others, mean of {DRAWS} draws", float(np.mean(errors)), 0.07)


def intervals(judged: Sequence[Accuracy]) -> Iterator[Check]:
    """Coverage and width of intervals, and agreement of ranks, of rows that were not calibrated on."""
    for entry in judged:
        name = f"{entry.steps.name}, {entry.basis}"
        yield Check(f"90 % intervals miss, {name}", 1 - entry.scores.coverage, 1 - LEAST_COVERAGE)
        yield Check(f"median half-width, {name}", entry.scores.half_width, MOST_HALF_WIDTH)
    rows = sum(entry.scores.rows for entry in judged)
    inside = sum(entry.scores.coverage * entry.scores.rows for entry in judged) / rows
    yield Check("share of all unseen rows in their 90 % interval", inside, MOST_COVERAGE)
    agreements = [entry.scores.rank_agreement for entry in judged if entry.scores.rank_agreement is not None]
    yield Check("rank agreement within models, short of 1", 1 - float(np.mean(agreements)), 1 - LEAST_AGREEMENT)


def collectives() -> Iterator[Check]:
    """All-reduces of 2, 4 and 8 GPUs of a node, by a transport fitted to one of them."""
    tables = {
        gpus: read_systems([f"nccl-all-reduce-a100-{gpus}.csv"], accelerator="a100", gpus=gpus)[0][0]
        for gpus in (2, 4, 8)
    }
    for gpus, table in tables.items():
        fitted = fit_scales(table, table.transport)
        for others, rows in tables.items():
            errors = np.abs(predicted_collectives(rows, fitted) / rows.measured - 1)
            words = f"all-reduce of {others} GPUs, transport fitted to {gpus}"
            yield Check(f"{words}, mean", float(errors.mean()), 0.06)
            yield Check(f"{words}, below 16 MiB", float(errors[rows.nbytes < _SMALL].mean()), 0.1)


def main() -> None:
    """Predict and calibrate, write the page, and say which limits do not hold."""
    tables = {name: read_steps(f"{name}.csv") for name in TABLES}
    priors, checks = priors_only(tables)
    began = time.process_time()
    accuracy(tables["megatron-a100"])
    checks.append(Check("megatron-a100 predicted, CPU seconds", time.process_time() - began, 5, "s"))
    began = time.process_time()
    calibration = calibrate(tables["megatron-a100"], "a100")
    checks.append(Check("megatron-a100 calibrated, CPU seconds", time.process_time() - began, 60, "s"))
    unseen, more = held_out(tables)
    carried, others = carried_over(tables, calibration)
    checks += [*more, *others, from_ten_rows(tables["foundry-h100-small"])]
    checks += [*intervals([*unseen, *carried]), *collectives()]
    judged = [*priors, *unseen, *carried]
    PAGE.write_text(page(judged, checks))
    save(draw_accuracy(priors), PICTURE)
    broken = [check.line() for check in checks if not check.holds]
    print("\n".join(check.line() for check in checks))
    sys.exit(f"{len(broken)} limits do not hold" if broken else 0)


if __name__ == "__main__":
    parse_no_options(__doc__)
    main()
