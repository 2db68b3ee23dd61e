"""Tables I and II: hyper-parameters of our training, and checks of the printed sums."""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.core.claims import Claim
from lightloom.studies.inceptionn import PAPER
from lightloom.studies.inceptionn.models import Link, one_link, worker_aggregator
from lightloom.studies.inceptionn.paper import (
    ITERATIONS,
    MODELS,
    TABLE_1,
    TABLE_2,
    TABLE_2_PERCENT,
    WORKERS,
    size_bytes,
)


def claims() -> tuple[Claim, ...]:
    """Return the rows of Tables I and II."""
    return (*_table_1(), *_sums(), *_percentages(), *_communication())


def slug(model: str) -> str:
    """Return the model's name as part of a row id."""
    return model.lower().replace("-", "")


def _table_1() -> Iterator[Claim]:
    from lightloom.training.runs.digits import Recipe

    recipe, renamed = Recipe(seed=0), {"batch_per_node": "batch_per_rank", "divisor": "learning_rate_divisor"}
    for name, printed in TABLE_1["HDC"].items():
        ours = getattr(recipe, renamed.get(name, name))
        yield PAPER.claim("table1.hdc_{name}", ours, paper=printed, name=name.removesuffix("_per_node"))


def _sums() -> Iterator[Claim]:
    for model in MODELS:
        ours = round(sum(TABLE_2[model].parts.values()), 2)
        yield PAPER.claim("table2.{model}_total", ours, paper=TABLE_2[model].total, model=slug(model))


def _percentages() -> Iterator[Claim]:
    """Return a row per model: the printed share that differs most from seconds over total."""
    for model in MODELS:
        column = TABLE_2[model]
        off = {
            name: (printed, 100 * seconds / column.total)
            for (name, seconds), printed in zip(column.parts.items(), TABLE_2_PERCENT[model], strict=True)
        }
        name, (printed, ours) = max(off.items(), key=lambda item: abs(item[1][0] - item[1][1]))
        yield PAPER.claim("table2.{model}_{name}_percent", round(ours, 2), paper=printed, model=slug(model), name=name)


def _communication() -> Iterator[Claim]:
    for model in MODELS:
        paper = TABLE_2[model].communicate / ITERATIONS
        for name, form in (("section8d", worker_aggregator), ("one_link", one_link)):
            ours = form(WORKERS, size_bytes(model), Link())
            yield PAPER.claim(
                "table2.{model}_communicate_{name}",
                round(ours, 4),
                paper=paper,
                tolerance=0.02 * paper,
                model=slug(model),
                name=name,
                says=PAPER.tables["communication_forms"][name],
                mebibytes=size_bytes(model) / 2**20,
                quotient=ours / paper,
                verdict=PAPER.tables["communication_verdicts"]["longer" if ours > paper else "shorter"],
            )
