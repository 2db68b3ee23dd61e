"""Seconds of one transformer block and of the head, forward and backward, on one rank.

    x ─ norm ─ qkv ─ attention ─ projection ─ + ─ norm ─ ffn up ─ activation ─ ffn down ─ +
              [h, 3h/t]          [h/t, h]                 [h, f/t]             [f/t, h]

t ranks share each block (tensor parallelism), and all-reduce its output twice forward and twice backward. Every array
is of shape [jobs]. Sources: Shoeybi et al., "Megatron-LM", 2019; Korthikanti et al., "Reducing Activation Recomputation
in Large Transformer Models", MLSys 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lightloom.calibration.jobs import Jobs
from lightloom.calibration.kernels import gemm_seconds
from lightloom.calibration.links import Links
from lightloom.core.arrays import Floats

_ELEMENT_BYTES = 2
_SCORE_PASSES_FORWARD, _SCORE_PASSES_BACKWARD = 5, 6
"""Reads and writes of the scores by unfused attention: scale and mask, softmax, dropout; their gradients."""
_NORM_PASSES_FORWARD, _NORM_PASSES_BACKWARD = 11, 12
"""Reads and writes of hidden-sized arrays outside matrix products: norms, residuals, dropout, biases."""
_ACTIVATION_PASSES_FORWARD, _ACTIVATION_PASSES_BACKWARD = 2, 3
"""The same of arrays of the feed-forward width."""
_KERNELS_FORWARD = {"unfused": 22, "flash": 16}
_KERNELS_BACKWARD = {"unfused": 40, "flash": 28}
_HEAD_LOGIT_BYTES, _HEAD_HIDDEN_BYTES = 18, 12
"""Bytes moved for each logit (cast, softmax and its gradient in float32), and for each hidden element of the head."""


@dataclass(frozen=True)
class BlockTimes:
    """Seconds of one block: [jobs]."""

    forward: Floats
    backward: Floats
    """With recomputation, where the job recomputes."""


class Blocks:
    """Prices of blocks and heads for given parameters."""

    def __init__(self, jobs: Jobs, values: Mapping[str, float], links: Links) -> None:
        self._jobs = jobs
        self._values = values
        self._links = links
        self._bandwidth = values["memory_fraction"] * jobs.column("memory_bandwidth_gbs") * 1e9
        self._peak = jobs.peak
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
        products_forward, products_backward = self._products(batch)
        core_forward, core_backward = self._attention(batch)
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
        forward = self._gemm(tokens, vocabulary, self._hidden)
        backward = self._gemm(tokens, self._hidden, vocabulary) + self._gemm(self._hidden, vocabulary, tokens)
        moved = tokens * (vocabulary * _HEAD_LOGIT_BYTES + self._hidden * _HEAD_HIDDEN_BYTES)
        return forward + backward + moved / self._bandwidth

    def _gemm(self, m: Floats, n: Floats, k: Floats, count: Floats | float = 1.0) -> Floats:
        return gemm_seconds(m, n, k, count, peak=self._peak, bandwidth=self._bandwidth, values=self._values)

    def _products(self, batch: Floats) -> tuple[Floats, Floats]:
        """Matrix products with parameters: the forward one, then the gradients of its input and of its parameters."""
        tokens, hidden, tp = batch * self._sequence, self._hidden, self._tp
        shapes = (
            (tokens, 3 * hidden / tp, hidden),
            (tokens, hidden, hidden / tp),
            (tokens, self._ffn / tp, hidden),
            (tokens, hidden, self._ffn / tp),
        )
        forward = sum((self._gemm(m, n, k) for m, n, k in shapes), np.zeros_like(tokens))
        backward = sum((self._gemm(m, k, n) + self._gemm(k, n, m) for m, n, k in shapes), np.zeros_like(tokens))
        return forward, backward

    def _attention(self, batch: Floats) -> tuple[Floats, Floats]:
        """Scores, softmax and weighted values: unfused as batched products and passes over the scores, or flash."""
        length, width = self._sequence, self._hidden / self._jobs.column("heads")
        count = batch * self._jobs.column("heads") / self._tp
        scores = _ELEMENT_BYTES * count * length**2 / self._bandwidth * self._values["score_traffic"]
        query_key = self._gemm(length, length, width, count)
        weighted = self._gemm(length, width, length, count)
        unfused = query_key + weighted + _SCORE_PASSES_FORWARD * scores
        unfused_backward = 2 * (query_key + weighted) + _SCORE_PASSES_BACKWARD * scores
        # A causal mask halves the two products; backward repeats the first and has four more: five to two.
        flops = 2 * batch * length**2 * self._hidden / self._tp
        flash = flops / (self._peak * self._values["flash_forward"])
        flash_backward = 2.5 * flops / (self._peak * self._values["flash_backward"])
        return np.where(self._unfused, unfused, flash), np.where(self._unfused, unfused_backward, flash_backward)

    def _elementwise(self, batch: Floats) -> tuple[Floats, Floats]:
        """Norms, residuals, dropout and activations, all waiting for memory."""
        one = _ELEMENT_BYTES * batch * self._sequence * self._hidden / self._bandwidth * self._values["fusion"]
        divided = np.where(self._jobs.where("sequence_parallel", "yes"), self._tp, 1.0)
        widening = self._ffn / self._hidden / self._tp
        return (
            one * (_NORM_PASSES_FORWARD / divided + _ACTIVATION_PASSES_FORWARD * widening),
            one * (_NORM_PASSES_BACKWARD / divided + _ACTIVATION_PASSES_BACKWARD * widening),
        )

    def _launches(self) -> tuple[Floats, Floats]:
        """Host seconds to launch the kernels of a pass: a pass is not faster than its launches."""
        forward = np.where(self._unfused, _KERNELS_FORWARD["unfused"], _KERNELS_FORWARD["flash"])
        backward = np.where(self._unfused, _KERNELS_BACKWARD["unfused"], _KERNELS_BACKWARD["flash"])
        return forward * self._values["dispatch"], backward * self._values["dispatch"]
