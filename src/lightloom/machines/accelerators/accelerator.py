"""An accelerator: peak rates, memory, and the seconds that operators take on it.

A subclass changes how operators are priced by overriding :meth:`Accelerator.operator_times` or what that calls.
Simulated steps and the search of the planner price every operator by this method, and every optimizer update by
:meth:`Accelerator.update_time`.
"""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self, TypeVar, get_args

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.core.fields import Bandwidth, ComputeRate, Seconds, Size, Watts
from lightloom.core.results import Described
from lightloom.machines.accelerators.calibrated import Calibration
from lightloom.machines.accelerators.kernels import KernelModel, KernelShapes, Rates

Precision = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fixed32"]
"""Number format of the arithmetic; ``fixed32`` is 32-bit fixed point. ``fp8`` is that of matrix products alone: all
other arithmetic, and what is stored, is in bfloat16."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

ELEMENT_BYTES: dict[Precision, int] = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2, "fixed32": 4}
"""Bytes of one stored element; TF32 rounds inside the multiplier and is stored as float32, FP8 is cast from bfloat16
for a product."""
WIDE: dict[Precision, Precision] = {"fp8": "bf16"}
"""Number format of everything but matrix products, where it is another one."""


Amount = TypeVar("Amount", float, Floats)
"""One quantity, or an array of them."""


class Work(NamedTuple):
    """Work of operators in one pass: arrays that broadcast together, such as [strategies, operators]."""

    flops: Floats
    """Floating-point operations; a multiply-accumulate counts as two."""
    nbytes: Floats
    """Bytes read from and written to main memory."""
    kernels: KernelShapes | None = None
    """The kernels that they launch; null for an accelerator without a kernel model."""
    narrow: Ints | None = None
    """1 for operators whose products are in the job's number format where all else is in a wider one (:data:`WIDE`),
    [operators]; null where all are."""


class Accelerator(Described):
    """One accelerator: what a rank computes on.

    The price of an operator is that of its kernels where there is a kernel model, otherwise a roofline. Source:
    Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009.
    """

    name: str = "accelerator"
    """Name that tables and reports show."""
    peak: Annotated[dict[Precision, ComputeRate], Field(min_length=1)]
    """Peak FLOP/s by precision, dense (no structured sparsity); a multiply-accumulate is two."""
    memory_bandwidth: Bandwidth | None = None
    """Bandwidth of the main memory, in bytes per second; null leaves memory traffic out of the model."""
    memory: Size | None = None
    """Size of the main memory, in bytes; null when unknown, so that no plan is checked against it."""
    takes_in_broadcasts: bool = False
    """True for a chip that computes on what others broadcast as it arrives, and holds none of it."""
    efficiency: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Attained fraction of the roofline, the same for arithmetic and for memory, where there is no kernel model."""
    kernels: KernelModel | None = None
    """Fractions of the peaks that kernels reach; null prices operators by the roofline and ``efficiency``."""
    kernel_launch: Seconds = 0.0
    """Launch time that every operator adds to the roofline in each pass, in seconds."""
    node_bandwidth: Bandwidth | None = None
    """Bytes per second of one accelerator into the switch of its node, each way; null when unknown. Predictions of
    measured steps use it; a cluster's fabric has bandwidths of its own."""
    transport: str | None = None
    """Transport of collectives among such accelerators: a name of the catalog (``nccl-hopper``) or a YAML file; null
    when unknown. Predictions of measured steps and collectives use it, and clusters whose fabric states none."""
    power: Watts | None = None
    """Power of the whole board, in watts; null when no source gives it."""
    calibration: Calibration | None = None
    """The calibration whose parameters ``kernels`` holds; null for priors."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Source of each value, by field name (``peak.bf16`` for one precision)."""

    @model_validator(mode="after")
    def _kernels_move_memory(self) -> Self:
        """Raise ValueError for a kernel model without a memory bandwidth; otherwise return the accelerator
        unchanged."""
        if self.kernels is not None and self.memory_bandwidth is None:
            raise ValueError("kernels need a memory_bandwidth")
        return self

    def heading(self) -> str:
        """Return the name that tables and reports show."""
        return self.name

    @property
    def chip(self) -> str:
        """Name of the accelerator itself: without a calibration its own name, otherwise the stem of the name or file of
        the accelerator that the calibration names."""
        return self.name if self.calibration is None else Path(self.calibration.accelerator).stem

    def unused_fields(self) -> tuple[str, ...]:
        """Names of fields that decide nothing: ``efficiency`` where kernels are given, otherwise none."""
        return () if self.kernels is None else ("efficiency",)

    def flat(self) -> Self:
        """Return a copy of the accelerator without its kernel model and calibration, whose operators are priced by the
        roofline and ``efficiency``."""
        return self.model_copy(update={"kernels": None, "calibration": None})

    def peak_rate(self, precision: Precision) -> float:
        """Return the peak FLOP/s at one precision.

        Raises:
            UnsupportedError: this accelerator has no rate for it.
        """
        if precision not in self.peak:
            raise UnsupportedError(
                f"accelerator {self.name!r} has no rate for precision {precision!r}: "
                f"expected one of {', '.join(self.peak)}"
            )
        return self.peak[precision]

    def compute_time(self, flops: Amount, precision: Precision) -> Amount:
        """Return the seconds of ``flops`` floating-point operations at the attained rate: the peak of the precision
        times the kernel model's fraction for large products, or else ``efficiency``; an array for an array.

        Raises:
            UnsupportedError: this accelerator has no rate for the precision.
        """
        fraction = self.efficiency if self.kernels is None else self.kernels.gemm_fraction
        return flops / (fraction * self.peak_rate(precision))

    def memory_time(self, nbytes: Amount) -> Amount:
        """Return the seconds to move ``nbytes`` to or from main memory at the attained fraction of its bandwidth, the
        kernel model's or else ``efficiency``; 0 where the accelerator states no memory bandwidth."""
        fraction = self.efficiency if self.kernels is None else self.kernels.memory_fraction
        return nbytes * 0.0 if self.memory_bandwidth is None else nbytes / (fraction * self.memory_bandwidth)

    def update_time(self, nbytes: Amount) -> Amount:
        """Return the seconds of an optimizer's update that moves ``nbytes`` of main memory: :meth:`memory_time`; with a
        kernel model that of ``nbytes`` times its ``optimizer_traffic``, plus the seconds that every step adds
        (``step_overhead``)."""
        if self.kernels is None:
            return self.memory_time(nbytes)
        return self.memory_time(nbytes * self.kernels.optimizer_traffic) + self.kernels.step_overhead

    def operator_times(self, work: Work, precision: Precision) -> Floats:
        """Return the seconds of each operator in one pass, in the shape to which the arrays of ``work`` broadcast.

        The time is that of the kernels where there is a kernel model and ``work`` states them, otherwise the longer of
        :meth:`compute_time` and :meth:`memory_time`. ``kernel_launch`` is added once to each operator; an operator
        without work is not launched and takes no time.

        Args:
            work: FLOPs, bytes, kernels and products of the operators.
            precision: number format of matrix products. With ``fp8`` everything else is computed in ``bf16``
                (:data:`WIDE`); on the roofline that needs ``work.narrow``, without which all is taken as ``fp8``.

        Raises:
            UnsupportedError: this accelerator has no rate for the precision, or none for ``bf16`` beside ``fp8``.
        """
        if self.kernels is not None and self.memory_bandwidth is not None and work.kernels is not None:
            products = self.peak_rate(precision) if precision in WIDE else None
            rates = Rates(self.peak_rate(WIDE.get(precision, precision)), self.memory_bandwidth, products)
            busy = self.kernels.operator_times(work.nbytes, work.flops, work.kernels, rates)
        else:
            computing = self.compute_time(work.flops, precision)
            if precision in WIDE and work.narrow is not None:
                computing = np.where(work.narrow, computing, self.compute_time(work.flops, WIDE[precision]))
            busy = np.maximum(computing, self.memory_time(work.nbytes))
        return np.where(busy > 0, busy + self.kernel_launch, 0.0)
