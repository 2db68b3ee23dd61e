"""Rates of exchanges that share packet links: max-min fairness among their flows, by progressive filling.

all flows rise together until a link is full or their exchange has its own speed; those on a full link keep their rate,
and their whole exchange with them, all others go on rising
"""

from __future__ import annotations

import numpy as np

from lightloom.core.arrays import Floats

_FULL = 1e-12


def max_min_rates(usage: Floats, flow_rates: Floats) -> Floats:
    """Shares of its own speed at which each exchange goes on while all are under way: [exchange].

    No flow's rate can be raised without lowering one that is no higher. An exchange slows down as a whole, and its
    flows are taken to be alike: as those of the link that it loads most of those that others load too.

    Args:
        usage: share of each link that an exchange takes at its own speed: [exchange, link], 0 to 1.
        flow_rates: rate of one of its flows on each link at that speed, in any unit: [exchange, link].
    """
    shared = (usage > _FULL) & ((usage > _FULL).sum(axis=0) > 1)
    most = np.where(shared, usage, 0.0).argmax(axis=1)
    alone = ~shared.any(axis=1)
    rates, rising = np.where(alone, 1.0, 0.0), ~alone
    # How fast the share of an exchange rises while the rates of all flows rise by one.
    speed = 1.0 / np.where(alone, 1.0, flow_rates[np.arange(len(usage)), most])
    speed /= speed.max(initial=1.0)
    while rising.any():
        free, growth = 1 - rates @ usage, (rising * speed) @ usage
        tight = growth > _FULL * speed[rising].min()
        full_at = (free[tight] / growth[tight]).min(initial=np.inf)
        rise = min(float(((1 - rates) / speed)[rising].min()), float(full_at))
        rates = rates + rising * speed * max(rise, 0.0)
        full = tight & (1 - rates @ usage <= _FULL)
        rising &= ~((usage[:, full] > _FULL).any(axis=1) | (rates >= 1 - _FULL))
    return np.minimum(rates, 1.0)
