"""How much of a cluster can train while some of it is broken: blocks that any circuit joins, fixed slices, spares.

    reconfigurable   any ``needed`` of the blocks that work make a slice: floor(working / needed) slices
    static           a slice is fixed, and works only while all its hosts work
    spares           a job of ``needed`` nodes runs while at least so many of ``needed + spares`` work

Hosts fail and are repaired independently of each other; each works with probability ``host``.
"""

from __future__ import annotations

import math

from lightloom.core.errors import ConfigError


def host_availability(mtbf: float, repair: float) -> float:
    """Return the share of the time that a host works: MTBF / (MTBF + mean time to repair)."""
    return 1.0 if mtbf == math.inf else mtbf / (mtbf + repair)


def reconfigurable_share(blocks: int, needed: int, block: float) -> float:
    """Return the expected share of the ranks in slices that can run, where any blocks join into slices.

    Args:
        blocks: blocks of the machine.
        needed: blocks of one slice.
        block: probability that a block works.
    """
    _check(blocks, needed, block)
    from scipy.special import bdtrc

    # The sum of floor(k / needed) over the distribution is the sum over j of P(k >= j needed).
    slices = sum(float(bdtrc(number * needed - 1, blocks, block)) for number in range(1, blocks // needed + 1))
    return slices * needed / blocks


def static_share(blocks: int, needed: int, block: float) -> float:
    """Return the expected share of the ranks in slices that can run, where slices are fixed and aligned."""
    _check(blocks, needed, block)
    return blocks // needed * needed / blocks * block**needed


def spare_share(nodes: int, needed: int, host: float) -> float:
    """Return the probability that at least ``needed`` of ``nodes`` work."""
    _check(nodes, needed, host)
    from scipy.special import bdtrc

    return float(bdtrc(needed - 1, nodes, host))


def _check(units: int, needed: int, share: float) -> None:
    if not 1 <= needed <= units:
        raise ConfigError(f"{needed} of {units} units: expected 1 to {units}")
    if not 0 <= share <= 1:
        raise ConfigError(f"availability {share:g}: expected 0 to 1, such as 0.99 or 99 %")
