"""k-way model times l-way data parallelism: one placement, repeated in l groups.

    rank = group · k + device            k = 4, l = 2

    group 0    0 ─ 1 ─ 2 ─ 3             along a row: activations, their gradients, gradients of copied parameters
               │   │   │   │             along a column: the ring all-reduce between counterparts
    group 1    4 ─ 5 ─ 6 ─ 7

l = 1 is model parallelism alone, k = 1 data parallelism alone. Source: SiP-ML (Khani et al., SIGCOMM 2021), section 3.2
and Fig. 4 (d).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lightloom.core.arrays import Floats, Int32s
from lightloom.core.errors import ConfigError
from lightloom.parallelism.placement.balanced import BalancedGraph
from lightloom.parallelism.placement.base import Placement

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Traffic(NamedTuple):
    """Bytes [ranks, ranks] of one iteration, from row to column; sparse, nothing on the diagonal."""

    model_parallel: csr_array
    data_parallel: csr_array

    @property
    def total(self) -> csr_array:
        """Both together."""
        return self.model_parallel + self.data_parallel


@dataclass(frozen=True, eq=False)
class HybridPlan:
    """One placement in every group, and what all ranks exchange.

    Raises:
        ConfigError: no group, or the placement is for other devices or another graph.
    """

    placement: Placement
    balanced: BalancedGraph
    k: int
    """Devices of a group (model parallelism)."""
    groups: int
    """l: groups that each take a share of the batch (data parallelism)."""
    shares_state: bool = False
    """Whether the devices that hold copies of a parameter, of all groups, share out its optimizer state and its update
    (ZeRO stage 1): each updates what it owns. SiP-ML's devices update every copy."""

    def __post_init__(self) -> None:
        placed, size, k = self.placement, self.balanced.size, self.k
        if self.groups < 1 or placed.devices != k or len(placed.device) != size:
            raise ConfigError(
                f"k = {k}, l = {self.groups}, {size} sub-operators: expected k = {placed.devices}, l of at least 1 "
                f"and {len(placed.device)} sub-operators, as placed"
            )

    @property
    def ranks(self) -> int:
        """Devices altogether."""
        return self.k * self.groups

    @cached_property
    def gradient_bytes(self) -> Floats:
        """Bytes [k] of the gradients that a device all-reduces with its counterparts: of the parameters it owns.

        Where parts hold copies, the sum over a group is complete before and handed out after.
        """
        gradients = self.balanced.parameters.astype(np.float64) * self.balanced.gradient_bytes
        owned: Floats = np.bincount(self.placement.device, gradients, self.k).astype(np.float64)
        return owned

    @cached_property
    def all_reduce_bytes(self) -> Floats:
        """Bytes [k] that a device sends to its successor: 2 (l − 1)/l of its gradients, a ring all-reduce."""
        sent: Floats = 2 * (self.groups - 1) / self.groups * self.gradient_bytes
        return sent

    @cached_property
    def traffic(self) -> Traffic:
        """Bytes of one iteration between all ranks.

        Elements that several sub-operators of a device read are sent to it once, and their gradients added up before
        they return.
        """
        from scipy.sparse import csr_array

        size = self.ranks
        model = self._in_all_groups(_within(self.balanced, self.placement.device, self.k))
        ranks = np.arange(size)
        sent = np.tile(self.all_reduce_bytes, self.groups)
        ring = csr_array((sent, (ranks, (ranks + self.k) % size)), shape=(size, size))
        ring.eliminate_zeros()
        return Traffic(model, ring)

    @property
    def activation_traffic(self) -> csr_array:
        """Bytes [ranks, ranks] of activations and their gradients, of every micro-batch."""
        return self._in_all_groups(_activations(self.balanced, self.placement.device, self.k))

    def _in_all_groups(self, within: csr_array) -> csr_array:
        from scipy.sparse import csr_array, kron

        return csr_array(kron(np.eye(self.groups), within, format="csr")) if self.groups > 1 else within


def _within(balanced: BalancedGraph, device: Int32s, k: int) -> csr_array:
    """Return the bytes [k, k] sent inside a group in a step of one micro-batch."""
    from scipy.sparse import csr_array

    shared = np.flatnonzero((balanced.synchronised > 0) & (device != np.roll(device, 1)))
    summed = csr_array((balanced.synchronised[shared], (device[shared - 1], device[shared])), shape=(k, k))
    return csr_array(_activations(balanced, device, k) + summed + summed.T)


def _activations(balanced: BalancedGraph, device: Int32s, k: int) -> csr_array:
    """Return the bytes [k, k] of activations and their gradients inside a group."""
    from scipy.sparse import csr_array

    reader = np.repeat(np.arange(balanced.size), np.diff(balanced.parent_start))
    crossing = np.flatnonzero(device[balanced.parent] != device[reader])
    source, target = balanced.parent[crossing], device[reader[crossing]]
    pair = source.astype(np.int64) * k + target
    order = np.lexsort((balanced.content[crossing], pair))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(pair[order]) != 0) | (np.diff(balanced.content[crossing][order]) != 0)
    once = order[fresh]
    sent = csr_array((balanced.nbytes[crossing][once], (device[source[once]], target[once])), shape=(k, k))
    return csr_array(sent + sent.T)
