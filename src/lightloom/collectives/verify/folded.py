"""What the verifier proves of folded schedules and of pipelines: that their rows stand for all ranks and all pieces.

Why the chunks of one period of ranks prove all: with every rank moved to that of another copy (``Folding.moved``) the
schedule is the same, each chunk being the one whose owner is moved alike, since one move after another is a move. So
what happens to the chunks of owners 0 ... period − 1, in rows of all copies,
is what happens to every other chunk. Each row moves such a chunk in exactly one of its copies, so that there are as
many of these rows as the folded schedule has. Light is checked in all copies, once for all steps that are alike.

Pieces of a pipeline are proved by their first: piece p does the same as piece 0 on chunks of its own, each of its steps
p · interval later, so what precedes what does not change; and packets share links.
"""

from __future__ import annotations

from math import prod

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import FOLDABLE
from lightloom.collectives.verify import checks
from lightloom.core.errors import VerificationError
from lightloom.fabrics.base import Fabric


def first_piece(schedule: Schedule, fabric: Fabric) -> Schedule:
    """The rows of a pipeline's first piece, which stand for all, after proving that they can.

    Raises:
        VerificationError: the pieces cannot follow each other so.
    """
    pipeline = schedule.pipeline
    if pipeline is None:
        return schedule
    if fabric.exclusive or schedule.queued or schedule.dependencies is not None:
        raise VerificationError("only steps in order, of packets, can be a pipeline: unfold the schedule")
    if pipeline.pieces < 1 or pipeline.interval < 1 or schedule.chunks % pipeline.pieces:
        raise VerificationError(
            f"{schedule.chunks} chunks in {pipeline.pieces} pieces, {pipeline.interval} steps apart: expected a "
            "divisor of the chunks, and at least one step"
        )
    if schedule.steps <= pipeline.delay:
        raise VerificationError(
            f"{pipeline.pieces} pieces, {pipeline.interval} steps apart, do not end in {schedule.steps} steps"
        )
    return schedule.first_piece()


def check_folding(schedule: Schedule, fabric: Fabric) -> None:
    """Prove that the rows, of steps in order or queued, can be repeated around the ring.

    Raises:
        VerificationError: the first violation found.
    """
    folding, ranks, kind = schedule.folding, fabric.ranks, schedule.collective.kind
    if folding is None:
        return
    if fabric.in_network_reduction or schedule.dependencies is not None:
        raise VerificationError("only steps in order, or queues, between ranks can be folded: unfold the schedule")
    paths = int(schedule.lightpath.max(initial=-1)) + 1
    widths = {0} if not fabric.exclusive else {paths} if schedule.queued else {0, paths}
    copies, given = divmod(ranks, max(folding.period, 1))[0], folding.channel.shape
    if folding.period < 1 or ranks % folding.period or given[0] != copies or given[1] not in widths:
        expected = " or ".join(str((copies, width)) for width in sorted(widths))
        raise VerificationError(
            f"folded every {folding.period} of {ranks} ranks with channels of shape {given}: expected a divisor of the "
            f"ranks and {expected}"
        )
    if folding.axes and (min(folding.axes) < 1 or prod(folding.axes) != copies):
        along = " x ".join(map(str, folding.axes))
        raise VerificationError(f"{copies} copies on axes {along}: expected axes that hold them")
    if kind not in FOLDABLE:
        raise VerificationError(f"{checks.article(kind)} {kind} is not the same from every rank and cannot be folded")
    if schedule.chunks % ranks:
        raise VerificationError(f"{schedule.chunks} chunks do not rotate among {ranks} ranks")
    outside = np.flatnonzero(schedule.source >= folding.period)
    if len(outside):
        raise VerificationError(f"row {outside[0]}: rank {schedule.source[outside[0]]} is beyond the first period")
    if not folding.channel.shape[1]:
        return
    own = checks.channels(schedule, fabric)
    if np.any(folding.channel[0, schedule.lightpath] != own):
        row = int(np.argmax(folding.channel[0, schedule.lightpath] != own))
        raise VerificationError(f"row {row}: its channel {own[row]} is not that of copy 0 of its lightpath")


def of_first_owners(schedule: Schedule) -> Schedule:
    """Of all copies of each row the one whose chunk is owned by a rank of the first period."""
    if schedule.folding is None:
        return schedule
    chunk = schedule.chunk.astype(np.int64)
    copy = chunk // (schedule.chunks // schedule.collective.ranks) // schedule.folding.period
    source, destination = (
        checks.moved(schedule, end, copy, back=True) for end in (schedule.source, schedule.destination)
    )
    columns = {"source": source, "destination": destination, "chunk": checks.moved_back(schedule, chunk, copy)}
    return schedule.with_columns(columns)
