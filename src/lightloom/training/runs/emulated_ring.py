"""The ring of N ranks in one process: what compression on every hop makes of their gradients, and how much it sends.

    block b:  rank b ──▶ b+1 ──▶ ... ──▶ b−1, added to and encoded anew at each; b−1 encodes the sum for all

What arrives depends on the gradients alone, not on where they were computed: the same numbers as of N processes with
``attach_inceptionn``, without their waiting for one another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lightloom.compression.base import Codec
from lightloom.core.arrays import Float32s


class RingSum(NamedTuple):
    """What every rank receives."""

    total: Float32s
    """Sum over ranks (n,), the same bits on every rank."""
    nbytes_sent: int
    """Bytes that all ranks send together."""


def emulated_ring_sum(values: Float32s, codec: Codec, *, leave: bool = False) -> RingSum:
    """Sum the rows of ``values`` as a ring does that encodes every block at every hop.

    Args:
        values: (ranks, n) float32, one row a rank; overwritten.
        codec: of the hops.
        leave: leave in each row what that rank's encodings took away, so that the sum and all rows add up to the input.
    """
    ranks = len(values)
    total = np.empty(values.shape[1], np.float32)
    sent = 0
    encode = codec.encode_leaving if leave else codec.encode
    for block, part in enumerate(np.array_split(np.arange(values.shape[1]), ranks)):
        if not part.size:
            continue
        places = slice(int(part[0]), int(part[-1]) + 1)
        for hop in range(ranks - 1):
            sender, receiver = (block + hop) % ranks, (block + hop + 1) % ranks
            payload = encode(values[sender, places])
            sent += payload.nbytes
            codec.decode_adding(payload, values[receiver, places])
        payload = encode(values[(block - 1) % ranks, places])
        sent += (ranks - 1) * payload.nbytes
        total[places] = codec.decode(payload)
    return RingSum(total, sent)
