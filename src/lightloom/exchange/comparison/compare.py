"""What a comparison says of each method: bytes, loss beside the plain exchange's, and loss after equal time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from lightloom.core.errors import ConfigError
from lightloom.exchange.comparison.runs import REFERENCE, Case, Result, read, train_all
from lightloom.training.transport.launch import launch

SECONDS_A_RUN = 3600.0
"""Longest time that a run may take before its processes are ended."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One method beside plain training, over all seeds."""

    method: str
    seeds: int
    ratio: float
    """Bytes of a ring all-reduce of float32 for each byte sent."""
    loss: float
    """Validation loss after the last step, mean over seeds, nats."""
    difference: float
    """Mean over seeds of the loss less that of plain training from the same weights, on the same batches."""
    spread: float
    """Largest less smallest difference over seeds."""
    step_seconds: float
    """A step over the stated link, by a model: processor time as measured, then sending at the link's speed."""
    loss_at_equal_time: float
    """Mean loss when plain training has done half its steps over that link; the last one where the run had ended."""
    replicas_equal: bool
    on_front: bool = False
    """Whether no other method has both fewer bytes and a lower loss."""


def run_all(
    cases: Sequence[Case],
    folder: Path,
    data: Path | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """Run what ``folder`` does not hold yet, seed by seed, and return all results.

    Raises:
        LaunchError: a rank failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    seeds = sorted({case.seed for case in cases})
    for seed in seeds:
        chosen = [case for case in cases if case.seed == seed]
        missing = [case for case in chosen if read(folder / case.file) is None]
        advance(len(chosen) - len(missing))
        if missing:
            arguments = {
                "cases": [asdict(case) for case in missing],
                "folder": str(folder.resolve()),
                "data": None if data is None else str(data.resolve()),
            }
            launch(train_all, missing[0].ranks, SECONDS_A_RUN * len(missing), arguments)
            advance(len(missing))
    results = [read(folder / case.file) for case in cases]
    return [result for result in results if result is not None]


def compare(results: Sequence[Result], link: float) -> list[Comparison]:
    """Return one row a method, in the order of the results, each compared with the reference of the same seed.

    Args:
        results: of one task, one number of steps and of ranks; the reference among them for every seed.
        link: bytes that a rank sends in a second.

    Raises:
        ConfigError: a seed lacks its reference.
    """
    references = {result.case.seed: result for result in results if result.case.method == REFERENCE}
    lacking = sorted({result.case.seed for result in results} - set(references))
    if lacking:
        raise ConfigError(f"no plain run of seed {lacking[0]}: expected a run of {REFERENCE!r} for every seed")
    plain_runs = list(references.values())
    half = _step_seconds(plain_runs, link) * min(run.steps[-1] for run in plain_runs) / 2
    rows = []
    for method in dict.fromkeys(result.case.method for result in results):
        runs = [result for result in results if result.case.method == method]
        differences = [run.loss[-1] - references[run.case.seed].loss[-1] for run in runs]
        step = _step_seconds(runs, link)
        rows.append(
            Comparison(
                method=method,
                seeds=len(runs),
                ratio=float(np.mean([run.raw_bytes / run.sent_bytes for run in runs])),
                loss=float(np.mean([run.loss[-1] for run in runs])),
                difference=float(np.mean(differences)),
                spread=max(differences) - min(differences),
                step_seconds=step,
                loss_at_equal_time=float(np.mean([np.interp(half / step, run.steps, run.loss) for run in runs])),
                replicas_equal=all(run.replicas_equal for run in runs),
            )
        )
    return [_with_front(row, rows) for row in rows]


def _step_seconds(runs: Sequence[Result], link: float) -> float:
    return median(run.step_seconds for run in runs) + float(np.mean([run.sent_bytes for run in runs])) / link


def _with_front(row: Comparison, rows: Sequence[Comparison]) -> Comparison:
    """Say of a row whether any other beats it in bytes and loss."""
    beaten = any(
        other.ratio >= row.ratio and other.loss <= row.loss and (other.ratio, other.loss) != (row.ratio, row.loss)
        for other in rows
    )
    return replace(row, on_front=not beaten)
