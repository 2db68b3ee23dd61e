"""What short rows of a schedule are compared by with its twin, whose rows are all written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from lightloom.collectives.cost.loads import step_loads
from lightloom.collectives.cost.price import Cost, CostModel
from lightloom.collectives.cost.stepped import codec_work, cost
from lightloom.collectives.schedule.columns import Schedule, circuits_key
from lightloom.collectives.verify.verifier import verify
from lightloom.core.arrays import Column
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.fabric import Fabric


def refused(schedule: Schedule, fabric: Fabric) -> bool:
    """Whether the verifier refuses the schedule."""
    try:
        verify(schedule, fabric)
    except VerificationError:
        return True
    return False


def same(one: Cost, other: Cost) -> bool:
    """Whether all figures agree to a part in 10¹²."""
    figures = [{name: -1.0 if value is None else value for name, value in of.to_json().items()} for of in (one, other)]
    return figures[0] == pytest.approx(figures[1], rel=1e-12, abs=0)


def check_twins(schedule: Schedule, twin: Schedule, fabric: Fabric) -> None:
    """Assert that both are correct, cost the same, give codecs the same work and change the same circuits."""
    verify(schedule, fabric)
    verify(twin, fabric)
    models: tuple[CostModel, ...] = ("physical", "paper")
    for model in models:
        assert same(cost(schedule, fabric, model), cost(twin, fabric, model))
    for in_line in (False, True):
        one, other = (codec_work(rows, in_line=in_line) for rows in (schedule, twin))
        for name in ("encoded", "decoded", "sent", "received"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
    if fabric.exclusive:
        changes = [step_loads(rows, fabric).changes for rows in (schedule, twin)]
        assert changes[0] is not None and changes[1] is not None
        assert np.array_equal(changes[0].changed, changes[1].changed) and changes[0].static == changes[1].static
        assert circuits_key(schedule, fabric.fibre_channels, changes[0].rows) == circuits_key(
            twin, fabric.fibre_channels
        )


@st.composite
def mutated_columns(draw: st.DrawFn, schedule: Schedule, fabric: Fabric, chunks: int, fewest: int) -> dict[str, Column]:
    """The columns with a few cells of one row changed, ``fewest`` or more, and perhaps a row left out; the column
    ``chunk`` numbers ``chunks`` of them."""
    row = draw(st.integers(0, len(schedule) - 1))
    limits = {
        "chunk": chunks,
        "step": schedule.steps,
        "route": fabric.routes,
        "reduces": 2,
        "destination": fabric.ranks,
        "fibre": 2,
        "first_wavelength": max(fabric.fibre_channels, 1),
        "wavelength_count": max(fabric.channels, 1) + 1,
        "lightpath": len(schedule) + 1,
    }
    columns = {name: column.copy() for name, column in schedule.columns().items()}
    for name in draw(st.lists(st.sampled_from(sorted(limits)), min_size=fewest, max_size=3, unique=True)):
        columns[name][row] = draw(st.integers(0, limits[name] - 1))
    if draw(st.booleans()):
        dropped = draw(st.integers(0, len(schedule) - 1))
        columns = {name: np.delete(column, dropped) for name, column in columns.items()}
    return columns
