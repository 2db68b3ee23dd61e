"""Rates of exchanges that share packet links: max-min fairness by progressive filling.

all rates rise together until a link is full; the exchanges on it keep their rate, all others go on rising
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats

_FULL = 1e-12


def max_min_rates(usage: Floats) -> Floats:
    """Shares of its own speed at which each exchange goes on while all are under way: [exchange].

    No rate can be raised without lowering one that is no higher. An exchange slows down as a whole.

    Args:
        usage: share of each link that an exchange takes at its own speed: [exchange, link], 0 to 1.
    """
    rates, rising = np.zeros(len(usage)), np.ones(len(usage), np.bool_)
    while rising.any():
        free, growth = 1 - rates @ usage, rising @ usage
        tight = growth > _FULL
        rise = min(float(1 - rates[rising].max()), float((free[tight] / growth[tight]).min(initial=np.inf)))
        rates[rising] += max(rise, 0.0)
        full = tight & (1 - rates @ usage <= _FULL)
        rising &= ~((usage[:, full] > _FULL).any(axis=1) | (rates >= 1 - _FULL))
    return np.minimum(rates, 1.0)
