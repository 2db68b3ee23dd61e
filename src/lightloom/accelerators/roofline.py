"""The roofline: an operator takes as long as its arithmetic or its memory traffic, whichever is longer."""

from __future__ import annotations

from lightloom.accelerators.base import Accelerator, Precision


def operator_time(accelerator: Accelerator, flops: float, nbytes: float, precision: Precision) -> float:
    """Seconds of one operator in one direction.

    ``max(flops / (efficiency · peak), nbytes / (efficiency · memory_bandwidth)) + kernel_launch``; an
    operator that does nothing is not launched. Source: Williams, Waterman and Patterson, "Roofline", CACM
    52(4), 2009; the efficiency stands for everything that keeps a real machine below both roofs.

    Raises:
        UnsupportedError: the accelerator has no rate for the precision.
    """
    arithmetic = flops / (accelerator.efficiency * accelerator.peak_rate(precision))
    busy = max(arithmetic, memory_time(accelerator, nbytes))
    return busy + accelerator.kernel_launch if busy > 0 else 0.0


def memory_time(accelerator: Accelerator, nbytes: float) -> float:
    """Seconds to move ``nbytes`` to or from memory; 0 where the memory is not in the model."""
    if accelerator.memory_bandwidth is None:
        return 0.0
    return nbytes / (accelerator.efficiency * accelerator.memory_bandwidth)
