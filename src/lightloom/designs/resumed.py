"""Searches over designs that resume: what each task found lies in the journal of a folder, by all that it was asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path

from lightloom.core.provenance import content_hash
from lightloom.core.results import Document
from lightloom.designs.bounded import Bounded, Evaluated, Task
from lightloom.designs.explore import Run
from lightloom.sweeps.code import code_version
from lightloom.sweeps.journal import Journal, opened
from lightloom.workloads.graph import ComputeGraph

_BOUNDED = ("least_time", "bounded", "limit", "why", "too_large")
_EVALUATED = ("sample_time", "sent", "label", "step_time", "why", "left_out")


@contextmanager
def resumed(run: Run, folder: Path, graph: ComputeGraph) -> Iterator[Run]:
    """Yield a ``run`` that takes what the folder has of earlier searches of a model, and adds what it lacks.

    Raises:
        ConfigError: the folder cannot be written to, is another's, or is in use.
    """
    model = content_hash(graph.to_json())
    with opened(folder, f"designs for {graph.name}") as journal:
        yield lambda tasks: _results(run, journal, model, tasks)


def _results(run: Run, journal: Journal, model: str, tasks: Sequence[Task]) -> Iterable[Bounded | Evaluated]:
    keys = {task.design.key: _key(model, task) for task in tasks}
    missing = [task for task in tasks if keys[task.design.key] not in journal.rows]
    for result in run(missing):
        journal.append([(keys[result.design.key], _row(result))])
    return [_result(task, journal.rows[keys[task.design.key]]) for task in tasks]


def _key(model: str, task: Task) -> str:
    """A text that differs where anything does that decides what is found: code, model, site, cluster, what is asked."""
    question, cluster = task.question, task.design.cluster()
    parts = (cluster.fabric, cluster.accelerator, cluster.training, question.site)
    fields = [part.model_dump(mode="json") for part in parts]
    return content_hash([code_version(), model, task.design.key, question.batch_per_rank, fields, repr(task.below)])


def _row(result: Bounded | Evaluated) -> Document:
    names = _BOUNDED if isinstance(result, Bounded) else _EVALUATED
    row = {name: getattr(result, name) for name in names}
    return {name: None if value == inf else value for name, value in row.items()}


def _result(task: Task, row: Document) -> Bounded | Evaluated:
    fields: Document = {name: inf if value is None else value for name, value in row.items()}
    return (Bounded if "least_time" in fields else Evaluated)(design=task.design, **fields)
