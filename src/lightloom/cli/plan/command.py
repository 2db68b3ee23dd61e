"""``lightloom plan``: a model on clusters, every plan ranked."""

from __future__ import annotations

from lightloom.cli.dataclass_command import command_of
from lightloom.cli.plan.options import PlanOptions
from lightloom.cli.plan.run import run


def _plan(options: PlanOptions) -> None:
    """Rank every plan for training this model on these clusters.

    Plans are data, tensor, pipeline and expert parallelism and placed operators, with every collective algorithm, with
    and without a codec. Those that fit the memory come first, then the fastest.
    """
    run(options)


_plan.__name__ = "plan"
plan = command_of(PlanOptions, _plan)
