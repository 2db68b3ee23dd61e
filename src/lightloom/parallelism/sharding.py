"""What replicas keep of parameters, gradients and optimizer state: everything, or each its share.

    none      everything in every replica; gradients are all-reduced
    zero-1    optimizer state is shared out: gradients are reduce-scattered, updated parameters gathered, once a step
    zero-2    gradients too
    zero-3    parameters too: gathered unit by unit for every pass of a micro-batch, gradients reduce-scattered after it
    hybrid    as zero-3 among the replicas of a node; shares of gradients are all-reduced between nodes, once a step

Sources: Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.2.2 (hybrid sharding).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from lightloom.core.arrays import Ints, Mask

Sharding = Literal["none", "zero-3", "zero-1", "zero-2", "hybrid"]
SHARDINGS: tuple[Sharding, ...] = get_args(Sharding)
"""The first two are those of data parallelism alone, exchange by exchange."""
NONE, ZERO_3, ZERO_1, ZERO_2, HYBRID = range(len(SHARDINGS))
"""Their places in :data:`SHARDINGS`."""
SYNONYMS = {"ddp": "none", "fsdp": "zero-3"}
"""Other names by which users may call them."""
KIND_OF_SHARDING = {"none": "ddp", "zero-3": "fsdp"}
"""Kinds of data parallelism alone by sharding."""


def canonical(sharding: str | None) -> str | None:
    """Return the name in :data:`SHARDINGS` of a sharding that a user names."""
    return None if sharding is None else SYNONYMS.get(sharding, sharding)


def gathers_in_passes(sharding: Ints) -> Mask:
    """Return the rows that gather parameters for every pass: [rows]."""
    return np.isin(sharding, (ZERO_3, HYBRID))


def state_sharers(sharding: Ints, dp: Ints, tp: Ints, node_ranks: int) -> Ints:
    """Return among how many replicas the optimizer's state is shared out: [rows], as the degrees."""
    replicas: Ints = np.where(sharding == NONE, 1, dp)
    return np.where(sharding == HYBRID, node_replicas(dp, tp, node_ranks), replicas)


def node_replicas(dp: Ints, tp: Ints, node_ranks: int) -> Ints:
    """Return how many neighbouring replicas of a tensor shard lie in one node: [rows], a divisor of ``dp``."""
    divides = node_ranks % tp == 0
    return np.where(divides, np.gcd(dp, np.where(divides, node_ranks // tp, 1)), 1)
