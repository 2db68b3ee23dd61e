"""Seconds of one transformer block and of the head, forward and backward, on one rank.

    x ─ norm ─ qkv ─ attention ─ projection ─ + ─ norm ─ ffn up ─ activation ─ ffn down ─ +
              [h, 3h/t]          [h/t, h]                 [h, f/t]             [f/t, h]

t ranks share each block (tensor parallelism), and all-reduce its output twice forward and twice backward. Every array
is of shape [jobs]. Sources: Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al., "Reducing Activation Recomputation
in Large Transformer Models", MLSys 2023.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lightloom.accelerators.kernels import KernelKind, KernelModel, KernelShapes, Rates
from lightloom.calibration.jobs import Jobs
from lightloom.calibration.links import Links
from lightloom.core.arrays import Floats

_ELEMENT_BYTES = 2
_HIDDEN_ACCESSES = (16, 14)
"""Reads and writes of hidden-sized arrays outside matrix products, forward and backward, each operator on its own, as
graphs count them: two norms (4, 4), two dropouts (4, 2), two residual sums (6, 6), one transposition (2, 2).
``KernelModel.fusion`` says what fusion leaves of them."""
_ACTIVATION_ACCESSES = (2, 2)
"""The same of arrays of the feed-forward width: the activation."""
_KERNELS_FORWARD = {"unfused": 22, "flash": 16}
_KERNELS_BACKWARD = {"unfused": 40, "flash": 28}
_HEAD_LOGIT_BYTES = 36
"""Bytes moved for each logit beyond its product, as PyTorch's cross entropy does under mixed precision: cast to float32
(2 + 4), log-softmax (4 + 4); gradients of the loss (4), of the log-softmax (4 + 4 + 4) and of the cast (4 + 2)."""
_HEAD_HIDDEN_BYTES = 12
"""Bytes moved for each hidden element by the embedding and the last norm, both passes."""


@dataclass(frozen=True)
class BlockTimes:
    """Seconds of one block: [jobs]."""

    forward: Floats
    backward: Floats
    """With recomputation, where the job recomputes."""


class Blocks:
    """Prices of blocks and heads for given parameters."""

    def __init__(self, jobs: Jobs, kernels: KernelModel, links: Links) -> None:
        self._jobs = jobs
        self._kernels = kernels
        self._links = links
        self._rates = Rates(jobs.peak[:, None], jobs.column("memory_bandwidth_gbs")[:, None] * 1e9)
        self._tp = jobs.column("tp")
        self._sequence = jobs.column("sequence_length")
        self._hidden = jobs.column("hidden")
        self._ffn = jobs.column("ffn")
        self._unfused = jobs.where("attention", "unfused")

    @cached_property
    def parameters(self) -> Floats:
        """Parameters of one block, all ranks together."""
        return 4 * self._hidden**2 + 2 * self._hidden * self._ffn

    def times(self, batch: Floats) -> BlockTimes:
        """Return the seconds of a block for micro-batches of ``batch`` sequences, of shape [jobs]."""
        full, selective = (self._jobs.where("recomputation", kind) for kind in ("full", "selective"))
        (products_forward, products_backward), (core_forward, core_backward) = (
            self._products(batch),
            self._attention(batch),
        )
        passes_forward, passes_backward = self._elementwise(batch)
        shared = 2 * self._links.tensor_all_reduce(_ELEMENT_BYTES * batch * self._sequence * self._hidden)
        forward = products_forward + core_forward + passes_forward + shared
        backward = products_backward + core_backward + passes_backward + shared
        launched_forward, launched_backward = self._launches()
        recomputed = np.where(full, forward, np.where(selective, core_forward, 0.0))
        relaunched = np.where(full, launched_forward, 0.0)
        return BlockTimes(
            forward=np.maximum(forward, launched_forward),
            backward=np.maximum(backward + recomputed, launched_backward + relaunched),
        )

    def head(self, batch: Floats) -> Floats:
        """Return the seconds of the head, of the loss and of the embedding, both passes."""
        tokens = batch * self._sequence
        vocabulary = self._jobs.column("vocabulary") / self._tp
        forward, backward = self._kernel_times(KernelKind.PRODUCT, [(tokens, vocabulary, self._hidden)])
        moved = tokens * (vocabulary * _HEAD_LOGIT_BYTES + self._hidden * _HEAD_HIDDEN_BYTES)
        return forward + backward + self._kernels.memory_time(moved[:, None], self._rates)[:, 0]

    def _products(self, batch: Floats) -> tuple[Floats, Floats]:
        """Matrix products with parameters."""
        tokens, hidden, tp = batch * self._sequence, self._hidden, self._tp
        shapes = [
            (tokens, 3 * hidden / tp, hidden),
            (tokens, hidden, hidden / tp),
            (tokens, self._ffn / tp, hidden),
            (tokens, hidden, self._ffn / tp),
        ]
        return self._kernel_times(KernelKind.PRODUCT, shapes)

    def _attention(self, batch: Floats) -> tuple[Floats, Floats]:
        """Scores, softmax and weighted values: unfused as batched products and passes over the scores, or flash."""
        heads = self._jobs.column("heads")
        shape = (self._sequence, self._sequence, self._hidden / heads)
        unfused, flash = (
            self._kernel_times(kind, [shape], batch * heads / self._tp)
            for kind in (KernelKind.UNFUSED, KernelKind.FLASH)
        )
        return np.where(self._unfused, unfused[0], flash[0]), np.where(self._unfused, unfused[1], flash[1])

    def _kernel_times(
        self, kind: KernelKind, shapes: Sequence[tuple[Floats, Floats, Floats]], count: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Seconds of operators forward and backward, as :class:`KernelModel` prices them, all together: [jobs].

        Args:
            kind: of each operator; attention is causal.
            shapes: m, n and k of each operator, each [jobs].
            count: independent products of each, [jobs]; one by default.
        """
        m, n, k = (np.stack(sizes, axis=1) for sizes in zip(*shapes, strict=True))
        one, none = np.ones_like(m), np.zeros_like(m)
        forward = KernelShapes(
            kind=np.full(len(shapes), kind),
            m=m,
            n=n,
            k=k,
            products=one if count is None else one * count[:, None],
            repeats=one,
            forward=one,
            input_gradient=none,
            weight_gradient=none,
            causal=np.ones(len(shapes), np.int64),
            element_bytes=_ELEMENT_BYTES,
        )
        backward = forward._replace(forward=none, input_gradient=one, weight_gradient=one)
        flops = 2 * m * n * k
        seconds = [self._kernels.operator_times(none, flops, pass_, self._rates) for pass_ in (forward, backward)]
        return seconds[0].sum(axis=1), seconds[1].sum(axis=1)

    def _elementwise(self, batch: Floats) -> tuple[Floats, Floats]:
        """Norms, residuals, dropout and activations, all waiting for memory."""
        moved = _ELEMENT_BYTES * batch * self._sequence * self._hidden * self._kernels.fusion
        one = self._kernels.memory_time(moved[:, None], self._rates)[:, 0]
        divided = np.where(self._jobs.where("sequence_parallel", "yes"), self._tp, 1.0)
        widening = self._ffn / self._hidden / self._tp
        forward, backward = (
            one * (hidden / divided + activation * widening)
            for hidden, activation in zip(_HIDDEN_ACCESSES, _ACTIVATION_ACCESSES, strict=True)
        )
        return forward, backward

    def _launches(self) -> tuple[Floats, Floats]:
        """Host seconds to launch the kernels of a pass: a pass is not faster than its launches."""
        forward = np.where(self._unfused, _KERNELS_FORWARD["unfused"], _KERNELS_FORWARD["flash"])
        backward = np.where(self._unfused, _KERNELS_BACKWARD["unfused"], _KERNELS_BACKWARD["flash"])
        return forward * self._kernels.dispatch, backward * self._kernels.dispatch
