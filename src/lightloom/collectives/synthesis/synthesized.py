"""Synthesis: the fastest schedule found for this fabric, this collective and this size.

What was found before comes from the disk, and is verified like any other schedule.
"""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.collectives.cost import cost
from lightloom.collectives.schedule import Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, Collective
from lightloom.collectives.synthesis.effort import effort
from lightloom.collectives.synthesis.kept import keep_schedule, read_schedule
from lightloom.collectives.synthesis.ring_gather import gather, in_few_steps
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.wdm_ring import WdmRing


def refusal(kind: str, fabric: Fabric) -> str | None:
    """Why there is nothing to synthesize for that collective on that fabric; None where there is."""
    if not isinstance(fabric, WdmRing):
        return f"synthesis needs a ring with wavelengths, not a {type(fabric).__name__}"
    if kind not in FROM_ALL_GATHER:
        return f"synthesis on a ring serves {', '.join(FROM_ALL_GATHER)}, not {kind}"
    return None


def synthesized(collective: Collective, fabric: Fabric, *, striped: bool = True) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """The fastest schedule found, not yet verified.

    Raises:
        UnsupportedError: nothing to synthesize there (:func:`refusal`).
    """
    why = refusal(collective.kind, fabric)
    if why:
        raise UnsupportedError(why)
    # A size of nothing has the circuits of a byte.
    nbytes = max(collective.nbytes, float(collective.ranks))
    question = [collective.kind, nbytes, fabric.model_dump(exclude={"sources"}), effort(fabric.ranks)]
    schedule = read_schedule(question)
    if schedule is None:
        schedule = min(_found(collective, fabric), key=lambda each: cost(each, fabric).time)
        keep_schedule(question, schedule)
    return schedule.resized(collective.nbytes)


def _found(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    assert isinstance(fabric, WdmRing)
    yield gather(collective, fabric)
    yield from in_few_steps(collective, fabric)
