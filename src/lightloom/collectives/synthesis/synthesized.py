"""Synthesis: the fastest schedule found for this fabric, this collective and this size.

Schedules are cached on disk; a cached schedule is verified like any other.
"""

from collections.abc import Iterator

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import CLASSIC, FROM_ALL_GATHER, OF_PARTS, ONE_TO_ONE, ROOTED, Collective
from lightloom.collectives.cost.stepped import cost
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.synthesis.engine.cache import effort, read_schedule, write_schedule
from lightloom.collectives.synthesis.engine.queues import overlapped
from lightloom.collectives.synthesis.exchange.search import exchange
from lightloom.collectives.synthesis.multicast import multicast
from lightloom.collectives.synthesis.packets import on_packets
from lightloom.collectives.synthesis.parts import between_ranks
from lightloom.collectives.synthesis.ring.damaged import around_damage
from lightloom.collectives.synthesis.ring.gather import gather, in_few_steps, set_anew
from lightloom.collectives.synthesis.ring.rooted import rooted
from lightloom.collectives.synthesis.switch import SERVES, on_switch
from lightloom.machines.fabrics.fabric import Fabric

_MOST_RANKS = 8192
"""Ranks beyond which searches, which look at pairs of ranks, take hours."""
_MOST_ANEW = 1024
"""Ranks up to which circuits that are set anew are tried: rows grow with the square of the ranks."""


def refusal(kind: str, fabric: Fabric) -> str | None:
    """Return a sentence, without a full stop, that says why nothing can be synthesized for a kind of collective on a
    fabric: more than 8,192 ranks, or a kind that is not served there; None where something can."""
    if fabric.ranks > _MOST_RANKS:
        return f"synthesis searches among at most {_MOST_RANKS:,} ranks, not {fabric.ranks:,}"
    kinds: tuple[str, ...] = (*(SERVES if fabric.switch_planes else CLASSIC), *OF_PARTS)
    if fabric.damaged:
        kinds = (*FROM_ALL_GATHER, *ROOTED, *ONE_TO_ONE)
    return None if kind in kinds else f"synthesis on this {fabric.kind_name} serves {', '.join(kinds)}, not {kind}"


def synthesized(collective: Collective, fabric: Fabric, *, striped: bool = True) -> Schedule:  # noqa: ARG001 - every algorithm takes it
    """Return the fastest schedule found, not yet verified; one that was found before is read from the cache on disk,
    and a new one is written to it.

    It is stored under kind, bytes, parts, fabric (sources aside) and effort. The collective must be one that
    :func:`refusal` does not refuse. ``striped`` is ignored.

    Raises:
        UnsupportedError: nothing that was tried carries the collective on this fabric.
        ConfigError: the cache's folder can be written by others.
    """
    # A collective of no bytes has the circuits of a byte.
    nbytes = max(collective.nbytes, float(collective.ranks))
    described = fabric.model_dump(mode="json", exclude={"sources"})
    request: list[object] = [collective.kind, nbytes, described, effort(fabric.ranks)]
    request += [] if collective.destinations is None else [collective.destinations]
    request += [] if collective.sizes is None else [collective.sizes.digest]
    if (schedule := read_schedule(request, collective)) is None:
        schedules = list(_found(collective, fabric))
        schedule = min(schedules, key=lambda s: cost(s, fabric).time) if len(schedules) > 1 else schedules[0]
        write_schedule(request, schedule)
    return schedule.resized(collective.nbytes)


def _found(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield the schedules found for a fabric, not yet verified, the fastest of which is taken: one, or up to three on a
    sound ring."""
    if collective.kind in OF_PARTS or (fabric.damaged and collective.kind == "all-to-all"):
        yield between_ranks(collective, fabric)
    elif fabric.damaged:
        yield overlapped(around_damage(collective, fabric), fabric)
    elif fabric.wavelength_routed:
        yield from _on_ring(collective, fabric)
    elif fabric.switch_planes:
        yield overlapped(on_switch(collective, fabric), fabric)
    else:
        yield on_packets(collective, fabric)


def _on_ring(collective: Collective, fabric: Fabric) -> Iterator[Schedule]:
    """Yield the schedules found on a sound ring of wavelengths, not yet verified, one to three.

    The first is the fastest on circuits that stand. All-gathers, reduce-scatters and all-reduces among at most 1,024
    ranks may follow as OpTree's and WRHT's, which set circuits anew: where the first takes longer than the bound and a
    second set-up, and light reaches the farthest rank.
    """
    if collective.kind in ROOTED:
        yield rooted(collective, fabric)
    elif collective.kind == "all-to-all":
        yield exchange(collective, fabric)
    else:
        # Lightpaths with one tap are among those of the search for multicasts.
        by_taps = fabric.taps > 1 and collective.kind == "all-gather"
        levels = [multicast(collective, fabric)] if by_taps else gather(collective, fabric)
        standing = [overlapped(schedule, fabric) for schedule in (*levels, *in_few_steps(collective, fabric))]
        timed = [(cost(schedule, fabric).time, schedule) for schedule in standing]
        least, best = min(timed, key=lambda pair: pair[0])
        yield best
        # Setting circuits anew takes a second set-up besides what the bound asks for.
        again = fabric.ranks <= _MOST_ANEW and least > lower_bound(collective, fabric).time + fabric.setup_time
        if again and (fabric.reach is None or fabric.reach >= fabric.diameter()):
            yield from set_anew(collective, fabric)


SYNTHESIZED = Algorithm(
    name="synthesized",
    build=synthesized,
    kinds=(*CLASSIC, *OF_PARTS),
    striped=True,
    by_size=True,
    rows=lambda kind, fabric: 0,  # noqa: ARG005 - searches fold, and bound their rows themselves
    declines=refusal,
    summary="circuits and trees found for this fabric and this size",
)
