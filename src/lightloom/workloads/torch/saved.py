"""What autograd keeps for the backward pass, by storage: PyTorch's own hooks on saved tensors tell.

    x ──► [linear] ──► y ──► [gelu] ──► z ──► [linear]      x, y, z are kept, the last output is not
           keeps x           keeps y           keeps z       a storage counts once, at the operator that made it

Parameters and buffers are there anyway and count nowhere. What a region of ``torch.utils.checkpoint`` makes is kept
only while its backward pass runs (``checkpoints.py``).

Attention and the root-mean-square norm are one kernel each on accelerators, whatever parts they have on the meta
device: they keep what they read, attention also its output and one float32 for each row of scores (Dao et al.,
"FlashAttention", NeurIPS 2022, section 3.1), the norm one for each row. Dropout keeps one byte for each element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from lightloom.workloads.graph import Operator
from lightloom.workloads.torch.frame import Origin, key_of

ELEMENT_BYTES = 4
"""Bytes at which one element counts in a traced graph."""
ONE_KERNEL = frozenset({"attention", "rms_norm"})
"""Functions whose parts keep nothing: what the whole keeps is known."""
_STATISTIC_BYTES = 4


@dataclass(frozen=True, slots=True)
class Kept:
    """One storage that is kept."""

    storage: torch.UntypedStorage
    """Held so that its address is not given to another tensor."""
    nbytes: int
    """At the graph's element size if ``floating``."""
    floating: bool
    region: str
    """Checkpoint region that makes it anew; empty if it is kept throughout."""
    reader: int
    """Index of the operator that keeps it first."""


@dataclass(slots=True)
class _Sums:
    """Bytes of the storages that one operator made, as the fields of ``Operator``."""

    throughout: int = 0
    shared: int = 0
    indices: int = 0
    recomputed: int = 0
    recomputed_shared: int = 0


class SavedTensors:
    """Collects the storages that autograd keeps during one forward pass of ``module``."""

    def __init__(self, module: nn.Module, batch: int) -> None:
        self._batch = batch
        own = [*module.parameters(), *module.buffers()]
        self._ignored = frozenset(key_of(tensor) for tensor in own)
        sizes: Counter[int] = Counter()
        for tensor in own:
            sizes[tensor.element_size()] += tensor.numel() * tensor.is_floating_point()
        self._unit = sizes.most_common(1)[0][0] if sizes else ELEMENT_BYTES
        """Bytes of one element in the model: a float32 statistic of a bfloat16 model counts as two elements."""
        self._kept: dict[int, Kept] = {}
        self._statistics: Counter[int] = Counter()

    def keep(self, tensor: Tensor, region: str, reader: int, *, mask: bool = False) -> None:
        """Note that a tensor is kept, by operator number ``reader``; a ``mask`` has one byte for each element."""
        key = key_of(tensor)
        earlier = self._kept.get(key)
        if key in self._ignored or (earlier is not None and (region or not earlier.region)):
            return
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        floating = tensor.is_floating_point() and not mask
        if floating:
            size = -(-size // self._unit) * ELEMENT_BYTES
        elif mask:
            size //= tensor.element_size()
        self._kept[key] = Kept(storage, size, floating, region, reader)

    def keep_statistic(self, rows: int, reader: int) -> None:
        """Note one float32 for each row of what operator number ``reader`` computes."""
        self._statistics[reader] += rows * _STATISTIC_BYTES

    def counted(self, operators: Sequence[Operator], origins: Mapping[int, Origin]) -> list[Operator]:
        """Return the operators with the bytes of what they made and autograd keeps."""
        position = {operator.name: index for index, operator in enumerate(operators)}
        sums = [_Sums() for _ in operators]
        for key, kept in self._kept.items():
            origin = origins.get(key)
            producer = origin.producer if origin is not None else None
            index = kept.reader if producer is None else position[producer]
            if index < len(operators):
                sampled = origin is not None and origin.sampled and not origin.over_samples
                self._add(sums[index], kept, sampled=sampled)
        for index, nbytes in self._statistics.items():
            if operators[index].checkpoint:
                sums[index].recomputed += nbytes
            else:
                sums[index].indices += nbytes
        return [
            replace(
                operator,
                saved_bytes=entry.throughout,
                saved_shared_bytes=entry.shared,
                saved_index_bytes=entry.indices,
                recomputed_bytes=entry.recomputed,
                recomputed_shared_bytes=entry.recomputed_shared,
            )
            for operator, entry in zip(operators, sums, strict=True)
        ]

    def _add(self, sums: _Sums, kept: Kept, *, sampled: bool) -> None:
        grows = sampled and (kept.nbytes // ELEMENT_BYTES if kept.floating else kept.nbytes) % self._batch == 0
        whole = -(-kept.nbytes // ELEMENT_BYTES) * ELEMENT_BYTES
        if kept.region:
            sums.recomputed += whole
            sums.recomputed_shared += 0 if grows else whole
        elif kept.floating or not grows:
            sums.throughout += whole
            sums.shared += 0 if grows else whole
        else:
            sums.indices += kept.nbytes
