"""How rows of a few ranks stand for all of them: everything repeats every ``period`` ranks around the ring.

    rows       what ranks 0 ... period − 1 send
    copy r     the same by rank + r · period, to rank + r · period, of chunks owned by rank + r · period, and of blocks
               of an all-to-all that go to rank + r · period

Only wavelengths differ from copy to copy, since chords that overlap need different ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Folding:
    """The repetition of a folded schedule."""

    period: int
    """Ranks after which everything repeats; divides the ranks."""
    channel: NDArray[np.int32]
    """First channel (fibre · wavelengths + wavelength) of every lightpath's copy, shape [copy, lightpath]."""

    @property
    def copies(self) -> int:
        """Times that the rows are repeated, the rows themselves included."""
        return len(self.channel)
