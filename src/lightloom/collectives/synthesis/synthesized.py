"""Synthesis: the fastest schedule found for this fabric, this collective and this size.

What was found before comes from the disk, and is verified like any other schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import FROM_ALL_GATHER, KINDS, ROOTED, Collective
from lightloom.collectives.synthesis.engine.effort import effort
from lightloom.collectives.synthesis.engine.kept import keep_schedule, read_schedule
from lightloom.collectives.synthesis.exchange.ring import exchange
from lightloom.collectives.synthesis.grid.rounds import in_rounds
from lightloom.collectives.synthesis.multicast.gather import multicast
from lightloom.collectives.synthesis.ring.damaged import around_damage
from lightloom.collectives.synthesis.ring.gather import gather, in_few_steps
from lightloom.collectives.synthesis.ring.rooted import rooted
from lightloom.collectives.synthesis.ring.stages import MOST_RANKS, stages
from lightloom.collectives.synthesis.switch.gather import SERVES, on_switch
from lightloom.core.errors import UnsupportedError
from lightloom.fabrics.base import Fabric
from lightloom.fabrics.circuit_switch import CircuitSwitch
from lightloom.fabrics.damage import DamagedWdmRing
from lightloom.fabrics.mesh import Mesh
from lightloom.fabrics.wdm_ring import Ring, WdmRing


def refusal(kind: str, fabric: Fabric) -> str | None:
    """Why there is nothing to synthesize for that collective on that fabric; None where there is."""
    kinds = _kinds(fabric)
    if kind in kinds:
        return None
    if kinds:
        return f"synthesis on this {type(fabric).__name__} serves {', '.join(kinds)}, not {kind}"
    return f"synthesis needs a ring, a mesh, a torus or a circuit switch, not a {type(fabric).__name__}"


def _kinds(fabric: Fabric) -> tuple[str, ...]:
    if isinstance(fabric, WdmRing):
        return KINDS
    if isinstance(fabric, CircuitSwitch):
        return SERVES
    return FROM_ALL_GATHER if isinstance(fabric, (DamagedWdmRing, Mesh, Ring)) else ()


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
    question = [collective.kind, nbytes, fabric.model_dump(mode="json", exclude={"sources"}), effort(fabric.ranks)]
    schedule = read_schedule(question)
    if schedule is None:
        schedule = min(_found(collective, fabric), key=lambda each: cost(each, fabric).time)
        keep_schedule(question, schedule)
    return schedule.resized(collective.nbytes)


def _found(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    if isinstance(fabric, DamagedWdmRing):
        yield around_damage(collective, fabric)
    elif isinstance(fabric, WdmRing):
        yield from _on_ring(collective, fabric)
    elif isinstance(fabric, CircuitSwitch):
        yield on_switch(collective, fabric)
    else:
        yield in_rounds(collective, fabric)


def _on_ring(collective: Collective, fabric: WdmRing) -> Iterator[Schedule]:
    if collective.kind in ROOTED:
        yield rooted(collective, fabric)
    elif collective.kind == "all-to-all":
        yield exchange(collective, fabric)
    else:
        # Lightpaths with one tap are among those of the search for multicasts.
        by_taps = fabric.taps > 1 and collective.kind == "all-gather"
        standing = [(multicast if by_taps else gather)(collective, fabric), *in_few_steps(collective, fabric)]
        least, best = min(((cost(each, fabric).time, each) for each in standing), key=lambda each: each[0])
        yield best
        # Stages take a second set-up besides what the bound asks for.
        staged = fabric.ranks <= MOST_RANKS and least > lower_bound(collective, fabric).time + fabric.setup_time
        if staged and (fabric.reach is None or fabric.reach >= fabric.diameter()):
            yield replace(stages(collective, fabric), algorithm="synthesized")
