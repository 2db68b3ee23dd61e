"""Seconds that the kernels of an operator take: matrix products by shape, attention, and what waits for memory.

    product     tiles, rounded up to whole waves over the compute units, at the reached rate; each wave pays a fixed
                depth for filling its pipeline and writing its tile; slower where rows are not multiples of 16 bytes;
                never faster than its matrices can be moved
    attention   flash: at its own reached fractions of the peak; unfused: two products forward, four backward, and the
                traffic of its scores
    others      bytes over the reached bandwidth of memory, less what fusion saves

Sources: NVIDIA, "Matrix Multiplication Background User's Guide" (tile and wave quantisation); Dao et al.,
"FlashAttention", NeurIPS 2022; Korthikanti et al., MLSys 2023 (traffic of the scores).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from math import inf
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.configfile import read_yaml
from lightloom.core.fields import Config, Count, Seconds

# What is believed of a parameter before any measurement.


class Prior(NamedTuple):
    """Belief in a positive number, whose logarithm is normally distributed."""

    value: float
    """Median of the parameter, in its own unit."""
    spread: float
    """Standard deviation of the parameter's logarithm."""
    source: str
    """Where the value comes from, or ``assumption: ...``."""
    meaning: str
    unit: str = ""
    """Unit, empty for a fraction or a factor."""
    most: float = inf
    """The largest value that it can have: 1 for fractions."""


PRIORS: Mapping[str, Prior] = {
    name: Prior(**prior) for name, prior in read_yaml(Path(__file__).with_name("priors.yaml")).items()
}
"""Priors of the parameters that a calibration may change, where a :class:`KernelModel` states no others."""


Fraction = Annotated[float, Field(gt=0, le=1)]
Factor = Annotated[float, Field(gt=0)]

TILES = ((128, 256, 1.0), (256, 128, 1.0), (128, 128, 0.93), (64, 128, 0.75), (64, 64, 0.6))
"""Rows and columns of a tile of the product that one compute unit makes, and its rate relative to the best. The guide
names the tiles and their order; the rates of the smaller ones are assumptions."""
LEAST_DEPTH = 256.0
"""Least depth of the parts into which a product is cut along its depth (split-K) to fill all units, an assumption."""
ROW_BYTES = 16
"""Bytes of which the rows of a product's matrices are multiples, where tensor cores reach their rate."""
SCORE_ACCESSES = (5, 6)
"""Reads and writes of each score in unfused attention, forward and backward: scale, mask and softmax (2), dropout (3);
backward of dropout (3) and of softmax (3). ``KernelModel.score_traffic`` multiplies them."""
LOSS_BYTES = (14, 22)
"""Bytes moved for each logit forward and backward, as PyTorch's cross entropy does under mixed precision: cast to
float32 (2 + 4), log-softmax (4 + 4); gradients of the loss (4), of the log-softmax (4 + 4 + 4) and of the cast
(4 + 2)."""
FLASH_BACKWARD = 2.5
"""Products of the backward pass of flash attention for each of the forward pass: five instead of two."""
NARROW_BYTES = 1
"""Bytes of an element of a narrow product's operands (FP8)."""
CAST_ACCESSES = (1, 1)
"""Reads of a stored element and writes of a narrow one to cast an operand of a product. Every tensor enters two
products, in one of them transposed: one pass finds its largest value, another writes it in both orders (dynamic scaling
by tensor). An assumption; delayed scaling and fusion with what makes the tensor save a part."""


class KernelKind(IntEnum):
    """Kind of kernels that an operator launches."""

    MEMORY = 0
    """Waits for memory: everything that is no matrix product."""
    PRODUCT = 1
    """Matrix products of a known shape, convolutions and experts among them."""
    FLASH = 2
    """Attention in one kernel, whose scores never reach memory."""
    UNFUSED = 3
    """Attention as two products, with softmax and dropout on the scores between them."""
    ARITHMETIC = 4
    """Products of an unknown shape, at the rate of large ones."""


class KernelShapes(NamedTuple):
    """Kernels of operators in one pass.

    ``kind``, ``visible``, ``narrow`` and ``losses`` have shape [operators], the rest [rows, operators].
    """

    kind: Ints
    """Kind of each operator, a value of :class:`KernelKind`."""
    m: Floats
    """Rows of a product (tokens, or positions of a convolution's output); queries of attention."""
    n: Floats
    """Columns of a product; keys of attention."""
    k: Floats
    """Depth of a product, what is summed over; size of a head."""
    products: Floats
    """Independent products: experts, groups, or samples times heads."""
    repeats: Floats
    """How often the left matrix holds an element of the input: positions of a convolution's kernel, otherwise 1."""
    forward: Floats
    """How often the forward kernels run in this pass."""
    input_gradient: Floats
    """How often the gradient of the input is computed."""
    weight_gradient: Floats
    """How often the gradient of the weights is computed."""
    visible: Floats
    """Share of the scores that attention in one kernel computes: half where a token sees only those before it."""
    narrow: Ints
    """1 for products that a job in FP8 computes in it: layers and experts, but not the one that gives the logits."""
    losses: Ints
    """1 for products whose outputs enter a cross entropy that the graph does not hold, otherwise 0."""
    element_bytes: int
    """Bytes of one element."""


class Rates(NamedTuple):
    """Peak rates on an accelerator's data sheet; arrays where several accelerators are priced at once."""

    peak: float | Floats
    """Peak arithmetic rate in FLOP/s."""
    bandwidth: float | Floats
    """Bytes per second of the main memory."""
    narrow_peak: float | Floats | None = None
    """FLOP/s of narrow products; null where all products are of one format."""
    fill: float | Floats = 1.0
    """Depth that goes by while a tile's pipeline fills, relative to ``gemm_depth``."""


class KernelModel(Config):
    """Reached rates of one accelerator's kernels; a calibration replaces the values, the catalog's are priors."""

    compute_units: Count
    """Units that each make one tile of a product at a time: streaming multiprocessors."""
    gemm_fraction: Fraction = PRIORS["gemm_fraction"].value
    """Fraction of the peak that large products reach."""
    gemm_depth: Factor = PRIORS["gemm_depth"].value
    """Depth at which a product reaches half of its rate."""
    unaligned: Fraction = PRIORS["unaligned"].value
    """Rate of products whose matrices have rows that are no multiples of 4 bytes, relative to those of 16 bytes, which
    tensor cores load at once; rows of 4 or 8 bytes reach twice that."""
    flash_forward: Fraction = PRIORS["flash_forward"].value
    """Fraction of the peak that flash attention reaches forward, counting only the scores that are needed."""
    flash_backward: Fraction = PRIORS["flash_backward"].value
    """Fraction of the peak that flash attention reaches in the backward pass."""
    memory_fraction: Fraction = PRIORS["memory_fraction"].value
    """Fraction of the memory's bandwidth that element-wise kernels reach."""
    fusion: Factor = PRIORS["fusion"].value
    """Traffic of element-wise operators that is left after fusion; 1 if each reads its inputs and writes its output."""
    score_traffic: Factor = PRIORS["score_traffic"].value
    """Traffic of the scores in unfused attention, relative to :data:`SCORE_ACCESSES`."""
    dispatch: Seconds = PRIORS["dispatch"].value
    """Seconds that the host takes to launch a kernel; a pass takes no less than all of its kernels."""
    optimizer_traffic: Factor = PRIORS["optimizer_traffic"].value
    """Traffic of an optimizer's update relative to ``optimizer_traffic_bytes`` of the training settings."""
    step_overhead: Seconds = PRIORS["step_overhead"].value
    """Seconds that every step adds: loading, loss scaling, gradient norm."""
    spreads: dict[str, float] = Field(default_factory=dict)
    """Standard deviation of a parameter's logarithm, where it is not the one of :data:`PRIORS`."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Source of a parameter, where it is not the one of :data:`PRIORS`."""

    @model_validator(mode="after")
    def _known_parameters(self) -> Self:
        """Raise ValueError for spreads or sources of parameters that the model does not have; otherwise return it
        unchanged."""
        unknown = (self.spreads.keys() | self.sources.keys()) - type(self).model_fields.keys()
        if unknown:
            raise ValueError(f"spreads and sources of unknown parameters: {', '.join(sorted(unknown))}")
        return self

    def priors(self) -> dict[str, Prior]:
        """Return the prior of every parameter that a calibration may change (the names of :data:`PRIORS`), by name: its
        value is this model's, as are spread and source where the model states them, otherwise those of
        :data:`PRIORS`."""
        return {
            name: prior._replace(
                value=getattr(self, name),
                spread=self.spreads.get(name, prior.spread),
                source=self.sources.get(name, prior.source),
            )
            for name, prior in PRIORS.items()
        }

    def memory_time(self, nbytes: Floats, rates: Rates) -> Floats:
        """Return the seconds to move ``nbytes`` to or from memory at ``memory_fraction`` of ``rates.bandwidth``, in the
        shape of ``nbytes``."""
        return nbytes / (self.memory_fraction * rates.bandwidth)

    def product_time(self, m: Floats, n: Floats, k: Floats, products: Floats, rates: Rates) -> Floats:
        """Return the seconds of ``products`` independent matrix products of [m, k] by [k, n] at ``gemm_fraction`` of
        ``rates.peak`` (2 m n k FLOPs each), memory traffic left out, in the shape to which the arguments broadcast.

        Tiles fill the compute units in whole waves; the fastest of the tile sizes (:data:`TILES`) counts. Each wave
        takes ``gemm_depth`` times ``rates.fill`` of depth longer, while pipelines fill. Products too small for all
        units are cut along their depth, into parts of a depth of 256 or more.
        """
        units, rate = self.compute_units, self.gemm_fraction * rates.peak / self.compute_units
        seconds = np.full(np.broadcast_shapes(np.shape(m), np.shape(n), np.shape(k), np.shape(products)), np.inf)
        for rows, columns, relative in TILES:
            tiles = np.ceil(m / rows) * np.ceil(n / columns) * products
            depth = np.maximum(k / np.maximum(np.floor(units / tiles), 1.0), np.minimum(k, LEAST_DEPTH))
            tile = 2.0 * rows * columns * (depth + self.gemm_depth * rates.fill) / (rate * relative)
            seconds = np.minimum(seconds, np.ceil(tiles / units) * tile)
        return seconds

    def operator_times(self, nbytes: Floats, flops: Floats, kernels: KernelShapes, rates: Rates) -> Floats:
        """Return the seconds of each operator in one pass, launches left out: [rows, operators].

        Operators that wait for memory take the time of their bytes, scaled by ``fusion``; products of unknown shape the
        longer of that of their bytes and of their FLOPs, at ``gemm_fraction`` of the peak; products of known shape and
        attention that of the kernels that run in the pass (forward, input's and weights' gradient as often as
        ``kernels`` says), whatever ``flops``. A product is in the narrow format where ``kernels.narrow`` is 1 and
        ``rates`` has a peak for it. Operators without FLOPs and bytes take no time.

        Args:
            nbytes: bytes read from and written to main memory, [rows, operators]; not used for products of known shape
                and unfused attention, whose traffic follows from their shapes.
            flops: floating-point operations, [rows, operators].
            kernels: kind and shapes of the kernels that the operators launch.
            rates: peak rates of the accelerator.
        """
        seconds = self.memory_time(nbytes, rates)
        memory, arithmetic = kernels.kind == KernelKind.MEMORY, kernels.kind == KernelKind.ARITHMETIC
        seconds = np.where(memory, seconds * self.fusion, seconds)
        seconds = np.where(arithmetic, np.maximum(seconds, flops / (self.gemm_fraction * rates.peak)), seconds)
        narrow = (kernels.narrow == 1) & (rates.narrow_peak is not None)
        products = kernels.kind == KernelKind.PRODUCT
        for chosen, price in (
            (products & ~narrow, self._products),
            (products & narrow, self._narrow_products),
            (kernels.kind == KernelKind.FLASH, self._flash),
            (kernels.kind == KernelKind.UNFUSED, self._unfused),
        ):
            which = np.flatnonzero(chosen)
            if len(which):
                seconds[..., which] = price(_select(kernels, which), seconds[..., which], rates)
        return np.where(flops + nbytes > 0, seconds, 0.0)

    def _products(self, kernels: KernelShapes, _moving: Floats, rates: Rates) -> Floats:
        """Return the seconds of matrix products in their stored format, [rows, operators]: the sum over forward pass
        and both gradients, each as often as ``kernels`` says, of the longer of arithmetic and of one access to both
        operands and the result (an element of a convolution's input once, not ``repeats`` times), plus the cross
        entropy. ``_moving`` is not used."""
        m, n, k, products = kernels.m, kernels.n, kernels.k, kernels.products
        moving = self.memory_time(kernels.element_bytes * products * (m * k / kernels.repeats + k * n + m * n), rates)
        slower = self._alignment(kernels, kernels.element_bytes)
        seconds = np.zeros_like(m)
        for times, rows, columns, depth in _products_of_passes(kernels):
            if times.any():
                seconds += times * np.maximum(slower * self.product_time(rows, columns, depth, products, rates), moving)
        return seconds + self._loss(kernels, rates)

    def _narrow_products(self, kernels: KernelShapes, _moving: Floats, rates: Rates) -> Floats:
        """Return the seconds of matrix products in the narrow format, [rows, operators]: the sum over forward pass and
        both gradients, each as often as ``kernels`` says, of the longer of arithmetic and memory traffic (operands of 1
        byte an element, results of ``element_bytes``), plus the casts of both operands, each element read as stored and
        written as a byte.

        Products are priced at ``rates.narrow_peak``, which must be given, and filling a tile's pipeline takes as long
        as in the wide format. ``_moving`` is not used.
        """
        assert rates.narrow_peak is not None
        faster = rates._replace(peak=rates.narrow_peak, fill=rates.narrow_peak / rates.peak)
        slower, (reads, writes) = self._alignment(kernels, NARROW_BYTES), CAST_ACCESSES
        seconds = np.zeros_like(kernels.m)
        for times, rows, columns, depth in _products_of_passes(kernels):
            if times.any():
                operands, result = kernels.products * depth * (rows + columns), kernels.products * rows * columns
                moving = self.memory_time(NARROW_BYTES * operands + kernels.element_bytes * result, rates)
                computing = slower * self.product_time(rows, columns, depth, kernels.products, faster)
                casting = self.memory_time((reads * kernels.element_bytes + writes * NARROW_BYTES) * operands, rates)
                seconds += times * (np.maximum(computing, moving) + casting)
        return seconds

    def _alignment(self, kernels: KernelShapes, element_bytes: int) -> Floats:
        """Return the factor, 1 or more, by which products take longer whose rows are not multiples of 16 bytes at
        ``element_bytes`` bytes an element: [rows, operators]. It is 1 / ``unaligned``, half of that but at least 1
        where rows are multiples of 4 bytes.

        Rows are as long as the features of a layer, n and k, in the forward pass and for both gradients; convolutions,
        whose k is that of an implicit matrix, pad their channels and are never slower.
        """
        best, even = (max(nbytes // element_bytes, 1) for nbytes in (ROW_BYTES, 4))
        aligned = (kernels.n % best == 0) & (kernels.k % best == 0)
        halfway = (kernels.n % even == 0) & (kernels.k % even == 0)
        rate = np.where(halfway, np.minimum(2 * self.unaligned, 1.0), self.unaligned)
        return np.where(aligned | (kernels.repeats > 1), 1.0, 1.0 / rate)

    def _loss(self, kernels: KernelShapes, rates: Rates) -> Floats:
        """Return the seconds of the memory traffic of a cross entropy on the m x n outputs of each product, [rows,
        operators]: 14 bytes a logit for each forward pass, 22 for each gradient of the weights; 0 for operators whose
        ``losses`` is 0."""
        forward, backward = LOSS_BYTES
        logits = kernels.losses * kernels.m * kernels.n * kernels.products
        return self.memory_time(logits * (forward * kernels.forward + backward * kernels.weight_gradient), rates)

    def _flash(self, kernels: KernelShapes, moving: Floats, rates: Rates) -> Floats:
        """Return the seconds of attention in one kernel, forward and backward together as often as ``kernels`` counts
        them, [rows, operators], a row for each strategy: the longer of ``moving``, the seconds of the operator's bytes,
        and of the arithmetic on the visible scores, at the model's ``flash_forward`` of the peak forward and its
        ``flash_backward`` backward, which has 2.5 times the FLOPs; each gradient counts as half of it."""
        flops = 4.0 * kernels.products * kernels.m * kernels.n * kernels.k * kernels.visible
        # Half of the backward kernel stands for each of the two gradients.
        backward = FLASH_BACKWARD * (kernels.input_gradient + kernels.weight_gradient) / 2 / self.flash_backward
        return np.maximum(flops / rates.peak * (kernels.forward / self.flash_forward + backward), moving)

    def _unfused(self, kernels: KernelShapes, _moving: Floats, rates: Rates) -> Floats:
        """Return the seconds of attention as two matrix products with softmax and dropout between them, [rows,
        operators]: the products plus the memory traffic of all scores, hidden ones too, 5 accesses forward and 6
        backward times ``score_traffic``; backward there are twice the products. Each gradient counts as half of the
        backward pass. ``_moving`` is not used."""
        queries, keys, size, heads = kernels.m, kernels.n, kernels.k, kernels.products
        scores = self.product_time(queries, keys, size, heads, rates)
        values = self.product_time(queries, size, keys, heads, rates)
        traffic = self.memory_time(kernels.element_bytes * heads * queries * keys * self.score_traffic, rates)
        moved, returned = SCORE_ACCESSES
        gradients = (kernels.input_gradient + kernels.weight_gradient) / 2
        return kernels.forward * (scores + values + moved * traffic) + gradients * (
            2 * scores + 2 * values + returned * traffic
        )


def _products_of_passes(kernels: KernelShapes) -> tuple[tuple[Floats, Floats, Floats, Floats], ...]:
    """Return, for the forward pass, for the gradient of the input and for that of the weights in turn, how often the
    product is computed, and its rows, columns and depth: four arrays, [rows, operators] each."""
    m, n, k = kernels.m, kernels.n, kernels.k
    return ((kernels.forward, m, n, k), (kernels.input_gradient, m, k, n), (kernels.weight_gradient, k, n, m))


def _select(kernels: KernelShapes, which: Ints) -> KernelShapes:
    """Return the kernels of the operators whose numbers are in ``which``, in that order."""
    arrays = {name: getattr(kernels, name)[..., which] for name in KernelShapes._fields if name != "element_bytes"}
    return kernels._replace(**arrays)
