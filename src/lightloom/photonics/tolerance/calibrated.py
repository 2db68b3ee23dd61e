"""Calibrate the chips of P, of every layer and of T, and count the words that come out right before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lightloom.photonics.averaging.mapped_averager import MappedAverager, Part
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.meshes.blocks import MappedBlocks
from lightloom.photonics.meshes.calibration import Conditions, Trial, target_of, try_calibration
from lightloom.photonics.meshes.calibration.twin import Fields
from lightloom.photonics.meshes.mapping import MappedMatrix
from lightloom.photonics.tolerance.fabricated import averagers_of
from lightloom.photonics.tolerance.word_errors import wrong_words

_AT_ONCE = 1 << 13


@dataclass(frozen=True, kw_only=True, eq=False)
class CalibratedAverager:
    """The chips of P, all layers and T, calibrated one by one."""

    trials: Mapping[str, Trial]
    """One for each chip, by part and block."""
    words: int
    """Words behind each share."""
    right_before: float
    """Share of words that all servers receive right with the phases of ideal devices; amplifiers make up for loss."""
    right_after: float


def calibrate_averager(
    mapped: MappedAverager,
    non_idealities: NonIdealities,
    conditions: Conditions,
    *,
    words: int,
    seed: int,
    advance: Callable[[int], None],
) -> CalibratedAverager:
    """Fabricate and calibrate the chips of each part, one for each of its blocks.

    Coherent light is assumed at the inputs of each part and detectors at its outputs while it is calibrated, and phases
    of its outputs that homodyne units, receivers or, behind P, the next mesh follow. Light in quadrature counts little,
    as real parts are detected in the end; that of P goes through the first layer before.
    """
    conditions = replace(conditions, real=True)
    trials = {
        name: [
            try_calibration(chip, non_idealities, conditions, seed + 1000 * number + block, advance)
            for block, chip in enumerate(blocks_of(part))
        ]
        for number, (name, part) in enumerate(mapped.parts.items())
    }
    before = {name: [trial.before_matrix for trial in chips] for name, chips in trials.items()}
    after = {name: [trial.after_matrix for trial in chips] for name, chips in trials.items()}
    return CalibratedAverager(
        trials={
            name + (f", block {block}" if len(chips) > 1 else ""): trial
            for name, chips in trials.items()
            for block, trial in enumerate(chips, 1)
        },
        words=words,
        right_before=_share_right(mapped, before, words, seed),
        right_after=_share_right(mapped, after, words, seed),
    )


def blocks_of(part: Part) -> tuple[MappedMatrix, ...]:
    """Return the blocks of a matrix, each of which is a chip."""
    return part.blocks if isinstance(part, MappedBlocks) else (part,)


def _share_right(mapped: MappedAverager, matrices: Mapping[str, Sequence[Fields]], words: int, seed: int) -> float:
    """Return the share of words received right through passive matrices by part and block; rows' gains are set."""
    drawn = []
    for name, part in mapped.parts.items():
        chips = zip(blocks_of(part), matrices[name], strict=True)
        amplified = [_amplified(chip, matrix, detected=name != "P") for chip, matrix in chips]
        drawn.append(part.joined(amplified) if isinstance(part, MappedBlocks) else amplified[0])
    batch = averagers_of(mapped, [matrix[None] for matrix in drawn], "rows")
    rng, wrong = np.random.default_rng((seed, 3)), 0
    for start in range(0, words, _AT_ONCE):
        wrong += int(wrong_words(batch, [None] * len(batch.gains), min(_AT_ONCE, words - start), rng).sum())
    return 1 - wrong / words


def _amplified(chip: MappedMatrix, matrix: Fields, detected: bool) -> Fields:
    """Return fields behind the amplifiers, or their real parts if they are detected, [outputs, inputs]."""
    phases = np.exp(1j * np.angle(np.einsum("oi,oi->o", matrix.conj(), target_of(chip))))
    fields = chip.gains[:, None] * (phases[:, None] * matrix)
    return np.asarray(fields.real + 0j if detected else fields)
