"""``lightloom plan``: a model on clusters, every plan ranked."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from lightloom.cli.plan.options import PlanOptions
from lightloom.cli.plan.run import run


def plan(**values: object) -> None:
    """Rank every plan for training this model on these clusters.

    Plans are data, tensor, pipeline and expert parallelism and placed operators, with every collective algorithm, with
    and without a codec. Those that fit the memory come first, then the fastest.
    """
    run(PlanOptions(**values))  # type: ignore[arg-type]


def _signature() -> inspect.Signature:
    """The fields of the options as parameters, annotated with typer's arguments and options."""
    hints = get_type_hints(PlanOptions, include_extras=True)
    parameters = inspect.signature(PlanOptions).parameters.items()
    return inspect.Signature([parameter.replace(annotation=hints[name]) for name, parameter in parameters])


plan.__signature__ = _signature()  # type: ignore[attr-defined]
