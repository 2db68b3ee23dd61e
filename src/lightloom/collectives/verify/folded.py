"""The verifier of folded schedules of steps on packet fabrics: one period of ranks is replayed and stands for all.

It shares no code with what makes such schedules. Why one period proves all: the state of rank u + r · period on chunks
of rank o + r · period is that of rank u on chunks of rank o, with every contribution r · period ranks further on. So it
is at the start, and rows that repeat alike in every copy, all copies of a step at once, keep it so.

Pieces of a pipeline are proved by their first: piece p does the same as piece 0 on chunks of its own, each of its steps
p · interval later, so what precedes what does not change; and packets share links.
"""

from __future__ import annotations

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import ROOTED
from lightloom.collectives.verify import checks
from lightloom.core.arrays import Ints
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


def verify_folded(schedule: Schedule, fabric: Fabric) -> None:
    """Prove what :func:`lightloom.collectives.verify.stepped.verify` proves, of one period of ranks.

    Raises:
        VerificationError: the first violation found.
    """
    _check_folding(schedule, fabric)
    checks.lightpaths(schedule, fabric)
    checks.shares(schedule)
    _replay(schedule)


def _check_folding(schedule: Schedule, fabric: Fabric) -> None:
    folding, ranks, kind = schedule.folding, fabric.ranks, schedule.collective.kind
    assert folding is not None
    if fabric.exclusive or fabric.in_network_reduction or schedule.dependencies is not None:
        raise VerificationError("of schedules of steps, only those of packets, steps in order, can be folded")
    if folding.period < 1 or ranks % folding.period or folding.channel.shape != (ranks // folding.period, 0):
        raise VerificationError(
            f"folded every {folding.period} of {ranks} ranks with channels of shape {folding.channel.shape}: expected "
            f"a divisor of the ranks and ({ranks // max(folding.period, 1)}, 0)"
        )
    if kind in ROOTED:
        raise VerificationError(f"{kind} has one root and cannot be folded")
    if schedule.chunks % ranks:
        raise VerificationError(f"{schedule.chunks} chunks do not rotate among {ranks} ranks")
    outside = np.flatnonzero(schedule.source >= folding.period)
    if len(outside):
        raise VerificationError(f"row {outside[0]}: rank {schedule.source[outside[0]]} is beyond the first period")


def _replay(schedule: Schedule) -> None:
    from lightloom.collectives.verify import _folded_replay_kernels as kernels

    assert schedule.folding is not None
    ranks, chunks, kind = schedule.collective.ranks, schedule.chunks, schedule.collective.kind
    period = schedule.folding.period
    in_order = np.argsort(schedule.step, kind="stable")
    source, destination, _ = schedule.ends(in_order)
    chunk = schedule.chunk[in_order].astype(np.int64)
    to = destination % period
    shift = destination - to
    origin, target = source * chunks + chunk, to * chunks + _rotated_back(schedule, chunk, shift)
    begins, ends = _conditions(kind, ranks, chunks, period)
    if kind == "all-to-all":
        # Far fewer cells are ever used than there are.
        cells, number = np.unique(np.concatenate([origin, target, begins, ends]), return_inverse=True)
        origin, target, begins, ends = np.split(number, np.cumsum([len(origin), len(target), len(begins)]))
    else:
        cells = np.arange(period * chunks)
    rows = kernels.FoldedRows(schedule.step[in_order], origin, target, shift, schedule.reduces[in_order])
    if kind in checks.STORING:
        held = np.zeros(len(cells), np.bool_)
        held[begins] = True
        code, at = kernels.replay_copies(rows, held, ends)
    else:
        state = np.zeros((len(cells), (ranks + 63) // 64), np.uint64)
        owner = cells[begins] // chunks
        state[begins, owner // 64] = np.uint64(1) << (owner % 64).astype(np.uint64)
        complete = np.zeros(state.shape[1], np.uint64)
        everybody = np.arange(ranks)
        np.bitwise_or.at(complete, everybody // 64, np.uint64(1) << (everybody % 64).astype(np.uint64))
        code, at = kernels.replay_sums(rows, state, complete, ranks, ends)
    if code == kernels.WRONG_END:
        rank, missing = divmod(int(cells[ends[at]]), chunks)
        raise VerificationError(f"rank {rank} does not end with the complete chunk {missing}")
    if code != kernels.OK:
        row = int(in_order[at])
        reasons = {
            kernels.NOT_HELD: f"rank {schedule.source[row]} does not hold the chunk when the step begins",
            kernels.EMPTY: f"rank {schedule.source[row]} has nothing of the chunk to send",
            kernels.TWICE: f"rank {schedule.destination[row]} receives a contribution that it already holds",
            kernels.LOST: f"what rank {schedule.destination[row]} had summed so far is overwritten and lost",
            kernels.INCOMPLETE: f"rank {schedule.destination[row]} stores a sum that is not complete over what it "
            "holds",
            kernels.RACE: f"rank {schedule.destination[row]} is written to by two sends of one step that do not both "
            "add",
        }
        raise VerificationError(f"{checks.row_name(schedule, row)}: {reasons[code]}")


def _conditions(kind: str, ranks: int, chunks: int, period: int) -> tuple[Ints, Ints]:
    """Cells (rank · chunks + chunk) that hold something before, and that must be complete in the end."""
    share = chunks // ranks
    own = (np.arange(period)[:, None] * (chunks + share) + np.arange(share)).ravel()
    if kind == "all-to-all":
        rank, other, inner = np.indices((period, ranks, share // ranks)).reshape(3, -1)
        return own, rank * chunks + other * share + rank * (share // ranks) + inner
    everything = np.arange(period * chunks)
    return own if kind == "all-gather" else everything, own if kind == "reduce-scatter" else everything


def _rotated_back(schedule: Schedule, chunk: Ints, shift: Ints) -> Ints:
    """The chunks that lie to owners ``shift`` ranks before (and to their readers) as these do to their own."""
    ranks = schedule.collective.ranks
    share = schedule.chunks // ranks
    owner, inner = np.divmod(chunk, share)
    if schedule.collective.kind == "all-to-all":
        block = share // ranks
        reader, inner = np.divmod(inner, block)
        inner = (reader - shift) % ranks * block + inner
    return (owner - shift) % ranks * share + inner
