"""Parts of operators as operators of their own, for columns of parts at once.

    cut along            of a product [m, k] by [k, n]    reads of its input        weights      writes
    sample               m, as a smaller batch has        its slice                 all          its slice
    other positions      m                                its slice; attention all  all          its slice
    channel              n, or groups of a convolution    all, or its own groups    its slice    its slice
    in_channel           k                                its slice                 its slice    all, as a summand
    head                 how many                         its slice                 –            its slice

A part takes as long as its own shape does: weights that it holds a copy of are read whole, and tiles of a small product
fill few compute units. A part of some samples is the operator of a batch of so many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lightloom.accelerators.base import Accelerator, Precision
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.parallelism.measured import COLUMNS as MEASURED_COLUMNS
from lightloom.parallelism.measured import scaled
from lightloom.parallelism.operators import OperatorColumns

ROWS, COLUMNS, DEPTH, OTHERS = range(4)
"""Which sizes of an operator's products a cut changes: m where the graph states it, n, k, or what FLOPs tell."""


class Parts(NamedTuple):
    """Parts of operators: columns of shape [parts]."""

    operator: Ints
    """Place of the operator among the columns."""
    samples: Ints
    """Samples of the whole operator, or of the part where samples are cut."""
    shape: Ints
    """One of :data:`ROWS`, :data:`COLUMNS`, :data:`DEPTH` and :data:`OTHERS`."""
    size: Ints
    """Elements of the dimension that is cut; 1 where samples are."""
    slice: Ints
    """Elements of it that the part has; 1 where samples are cut."""
    reads_all: Mask
    """Whether it reads all of the operator's input."""
    copies: Mask
    """Whether it reads all of the operator's weights."""
    sums: Mask
    """Whether it writes summands of all outputs."""


def part_times(
    columns: OperatorColumns, accelerator: Accelerator, precision: Precision, parts: Parts
) -> tuple[Floats, Floats]:
    """Return the seconds of parts forward and backward, without launches, each [parts]."""
    one = np.ones(1, np.int64)
    shaped = replace(columns, values=_values(columns, parts), measured=None)
    times = shaped.times(accelerator, precision, one, one)
    if columns.measured is None:
        return times[0][0], times[1][0]
    references = columns.measured_references(columns.measured, accelerator, precision)
    sampled = np.where(columns["sampled"][parts.operator] == 1, parts.samples / columns.measured.batch, 1.0)
    forward, backward = (
        scaled(priced[0], columns[name].view(np.float64)[parts.operator], reference[parts.operator], share)
        for priced, name, reference in zip(times, MEASURED_COLUMNS, references, strict=True)
        for share in [sampled * parts.slice / parts.size]
    )
    return forward, backward


def _values(columns: OperatorColumns, parts: Parts) -> dict[str, Ints]:
    """Return the columns of the parts, which no longer grow with samples."""
    values = {name: column[parts.operator] for name, column in columns.values.items()}

    def grown(counts: str, grows: str) -> Ints:
        return np.where(values[grows] == 1, -(-values[counts] * parts.samples // columns.batch), values[counts])

    def cut(whole: Ints) -> Ints:
        # Without products that pass 64 bits.
        quotient, remainder = np.divmod(whole, parts.size)
        return quotient * parts.slice + remainder * parts.slice // parts.size

    moved = grown("moved_bytes", "sampled")
    written = np.minimum(grown("activation_bytes", "output_sampled"), moved)
    read, shared = moved - written, values["shared_bytes"]
    n, in_groups = values["kernel_n"], np.minimum(values["kernel_n"], parts.slice)
    wide, grouped = parts.shape == COLUMNS, n < parts.size
    return {
        **values,
        "forward_flops": cut(grown("forward_flops", "sampled")),
        "backward_flops": cut(grown("backward_flops", "sampled")),
        "moved_bytes": np.where(parts.reads_all, read, cut(read)) + np.where(parts.sums, written, cut(written)),
        "shared_bytes": np.where(parts.copies, shared, cut(shared)),
        "kernel_m": np.where(parts.shape == ROWS, cut(values["kernel_m"]), values["kernel_m"]),
        "kernel_n": np.where(wide, in_groups, n),
        "kernel_k": np.where(parts.shape == DEPTH, cut(values["kernel_k"]), values["kernel_k"]),
        "kernel_products": np.where(wide & grouped, -(-parts.slice // in_groups), values["kernel_products"]),
        "sampled": np.zeros_like(n),
    }
