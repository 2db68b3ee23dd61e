"""The verifier of circuits: shares no code with what assigns them, and names the culprit.

It proves that every circuit lies on channels and routes that exist, that no two hold one channel of a link at a time
(a circuit has one channel from end to end: continuity), and that no rank holds more circuits than it has channels or
transceivers.
"""

import numpy as np

from lightloom.core.arrays import Ints
from lightloom.core.errors import VerificationError
from lightloom.machines.fabrics.derived import links_of
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.circuits.circuits import Circuits


def verify(circuits: Circuits, fabric: Fabric) -> None:
    """Prove that the circuits can exist on the fabric: holds, ranks, routes and channels that there are, no circuit of
    a rank to itself, no channel of a link twice in a hold, and no more circuits that a rank sends, or receives, in a
    hold than it has channels or transmitters.

    Time and memory are linear in the links occupied, a sort aside.

    Raises:
        VerificationError: the first violation found.
    """
    _check_ranges(circuits, fabric)
    _check_channels(circuits, fabric)
    _check_ports(circuits, fabric)


def verify_permutations(permutations: Ints, circuits: Circuits) -> None:
    """Prove that every row of ``permutations`` [hold, plane, rank] is a permutation of the ranks, and that every
    circuit is one of its connections, in the circuit's hold and plane.

    Raises:
        VerificationError: the first violation found.
    """
    wrong = np.argwhere((np.sort(permutations, axis=-1) != np.arange(permutations.shape[-1])).any(axis=-1))
    if len(wrong):
        hold, plane = wrong[0]
        raise VerificationError(f"hold {hold}, plane {plane}: {permutations[hold, plane]} is no permutation")
    reached = permutations[circuits.hold, circuits.channel, circuits.source]
    missing = np.flatnonzero(reached != circuits.destination)
    if len(missing):
        circuit = missing[0]
        raise VerificationError(f"{_where(circuits, int(circuit))}: the plane leads to rank {reached[circuit]}")


def _where(circuits: Circuits, circuit: int) -> str:
    """Return where a circuit is, for messages: ``hold 0, rank 3→5, channel 2 (circuit 17)``."""
    hold, channel = circuits.hold[circuit], circuits.channel[circuit]
    ranks = f"{circuits.source[circuit]}→{circuits.destination[circuit]}"
    return f"hold {hold}, rank {ranks}, channel {channel} (circuit {circuit})"


def _check_ranges(circuits: Circuits, fabric: Fabric) -> None:
    """Raise VerificationError where a hold is not one of the cycle, a source, destination, route or channel is a number
    that the fabric does not have (all count from 0), or a rank has a circuit to itself."""
    limits = {
        "hold": circuits.holds,
        "source": fabric.ranks,
        "destination": fabric.ranks,
        "route": fabric.routes,
        "channel": fabric.channels,
    }
    for name, limit in limits.items():
        column = getattr(circuits, name)
        wrong = np.flatnonzero((column < 0) | (column >= limit))
        if len(wrong):
            circuit = int(wrong[0])
            raise VerificationError(f"{_where(circuits, circuit)}: {name} {column[circuit]} is not in 0..{limit - 1}")
    itself = np.flatnonzero(circuits.source == circuits.destination)
    if len(itself):
        raise VerificationError(f"{_where(circuits, int(itself[0]))}: a rank has a circuit to itself")


def _check_channels(circuits: Circuits, fabric: Fabric) -> None:
    """Raise VerificationError where two circuits have one channel on one link, anywhere on their ways, in the same
    hold; it names both circuits and the link."""
    owner, link = links_of(fabric.footprint(circuits.source, circuits.destination, circuits.route))
    cell = (circuits.hold[owner] * fabric.links + link) * fabric.channels + circuits.channel[owner]
    order = np.argsort(cell, kind="stable")
    twice = np.flatnonzero(cell[order][1:] == cell[order][:-1])
    if len(twice):
        first, second = owner[order[twice[0]]], owner[order[twice[0] + 1]]
        where = fabric.link_name(int(link[order[twice[0]]]))
        raise VerificationError(
            f"{_where(circuits, int(first))} and {_where(circuits, int(second))} share their channel on {where}"
        )


def _check_ports(circuits: Circuits, fabric: Fabric) -> None:
    """Raise VerificationError where a rank sends or receives on more channels in a hold, all routes together, than a
    link has times the fabric's routes, or than the rank has transmitters."""
    limit = fabric.routes * fabric.channels
    if fabric.transmitters is not None:
        limit = min(limit, fabric.transmitters)
    for what, column in (("sends", circuits.source), ("receives", circuits.destination)):
        load = np.bincount(circuits.hold * fabric.ranks + column, minlength=circuits.holds * fabric.ranks)
        worst = int(load.argmax())
        if load[worst] > limit:
            hold, rank = divmod(worst, fabric.ranks)
            raise VerificationError(f"hold {hold}: rank {rank} {what} on {load[worst]} channels, of {limit}")
