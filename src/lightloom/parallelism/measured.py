"""Measured seconds of operators in place of priced ones, for any batch, split and accelerator.

    seconds = priced(plan) · measured / priced(trace)

``priced(trace)`` is the price of the operator as the trace computed it: its batch, undivided, on the accelerator and in
the number format of the trace, or on those of the plan where the trace names no accelerator. A plan that computes as
the trace did takes the measured seconds; any other takes them scaled as the price changes. An operator without a price
(a trace that states durations alone) takes its measured seconds in proportion to its samples.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from lightloom.accelerators.base import PRECISIONS, Accelerator, Precision
from lightloom.accelerators.load import load_accelerator
from lightloom.core.arrays import Floats, Ints
from lightloom.workloads.measured import MeasuredTimes

COLUMNS = ("measured_forward", "measured_backward")


def measured_columns(measured: MeasuredTimes) -> dict[str, Ints]:
    """Return the :data:`COLUMNS` of operators: the bits of seconds at the batch of the trace, NaN where none are."""
    return {
        name: np.array([np.nan if value is None else value for value in seconds], np.float64).view(np.int64)
        for name, seconds in zip(COLUMNS, (measured.forward, measured.backward), strict=True)
    }


def machine_of(
    measured: MeasuredTimes, accelerator: Accelerator, precision: Precision
) -> tuple[Accelerator, Precision]:
    """Return what was measured on, and the number format: those of the plan where no accelerator is named.

    What was measured on the chip of the plan is priced by the calibration of the plan.
    """
    if measured.accelerator is None:
        return accelerator, precision
    machine = _named(measured.accelerator)
    machine = accelerator if machine.chip == accelerator.chip else machine
    fallback = precision if precision in machine.peak else next(iter(machine.peak))
    known = (name for name in PRECISIONS if name == measured.precision and name in machine.peak)
    return machine, next(known, fallback)


@lru_cache(maxsize=8)
def _named(name: str) -> Accelerator:
    return load_accelerator(name)


def scaled(priced: Floats, measured: Floats, reference: Floats, share: Floats) -> Floats:
    """Return the seconds of operators, measured ones where there are: [rows, operators].

    Args:
        priced: by the model, for the plan: [rows, operators].
        measured: in the trace, NaN where none are: [operators].
        reference: by the model, for the trace: [operators].
        share: part of the trace's samples and tokens that a rank of the plan has: [rows, operators].
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        corrected = np.where(reference > 0, priced * (measured / reference), measured * share)
    return np.where(np.isnan(measured), priced, corrected)
