"""An accelerator as a roofline sees it: a peak rate per precision, a memory, what is reached."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from lightloom.core.errors import UnsupportedError
from lightloom.core.fields import Bandwidth, ComputeRate, Config, Seconds, Size, Watts

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fixed32"]
"""Number format of the arithmetic; ``fixed32`` is 32-bit fixed point."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

ELEMENT_BYTES: dict[Precision, int] = {
    "fp64": 8,
    "fp32": 4,
    "tf32": 4,
    "bf16": 2,
    "fp16": 2,
    "fp8": 1,
    "fixed32": 4,
}
"""Bytes of one stored element; TF32 rounds inside the multiplier and is stored as float32."""


class Accelerator(Config):
    """One accelerator: what a rank computes on."""

    name: str = "accelerator"
    """For people."""
    peak: Annotated[dict[Precision, ComputeRate], Field(min_length=1)]
    """Peak FLOP/s by precision, dense (no structured sparsity); a multiply-accumulate is two."""
    memory_bandwidth: Bandwidth | None = None
    """Bytes per second of the main memory; null leaves memory traffic out of the model."""
    memory: Size | None = None
    """Bytes of main memory; null when unknown, so that nothing is said about what fits."""
    efficiency: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Fraction of the roofline that is reached, the same for arithmetic and for memory."""
    kernel_launch: Seconds = 0.0
    """Seconds that every operator pays in each direction, on top of the roofline."""
    power: Watts | None = None
    """Watts of the whole board; null when no source gives them."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where each field's value comes from, by field name (``peak.bf16`` for one precision)."""

    def peak_rate(self, precision: Precision) -> float:
        """Peak FLOP/s at one precision.

        Raises:
            UnsupportedError: this accelerator has no rate for it.
        """
        if precision not in self.peak:
            raise UnsupportedError(
                f"accelerator {self.name!r} has no rate for precision {precision!r}: "
                f"expected one of {', '.join(self.peak)}"
            )
        return self.peak[precision]
