"""Inconsistencies of the paper's numbers, each with its proof."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from lightloom.core.claims import Claim
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.realised.area import TABLE_I
from lightloom.photonics.block_quantisation import averaging_bias
from lightloom.photonics.pam4 import encode, symbols_for
from lightloom.studies.optinc import PAPER

_SERVERS, _BITS = 4, 8


def claims() -> tuple[Claim, ...]:
    """Return a row per inconsistency."""
    return (*_combinations(), *_areas(), _floor(), _twos_complement())


def combinations(signals: int, servers: int) -> int:
    """Return the number of different inputs of ``signals`` PAM4 signals from each of ``servers``, by enumeration."""
    return len(set(product(range(4), repeat=signals * servers)))


def twos_complement_wrong(count: int = 200_000, seed: int = 0) -> float:
    """Return the share of wrong means if the digits of eq. 2 are those of two's complement."""
    rng = np.random.default_rng(seed)
    half = 1 << (_BITS - 1)
    values = rng.integers(-half, half, (_SERVERS, count))
    received = (values & (2 * half - 1)).sum(axis=0) // _SERVERS
    signed = np.where(received >= half, received - 2 * half, received)
    return float((signed != values.sum(axis=0) // _SERVERS).mean())


def floor_bias() -> float:
    """Mean of floor(T/N) − T/N over all codes, which is that over their last digits; in units of the last place."""
    digits = np.array(list(product(range(4), repeat=_SERVERS)))
    return float((digits.sum(axis=1) // _SERVERS - digits.mean(axis=1)).mean())


def _combinations() -> Iterator[Claim]:
    signals, servers = symbols_for(_BITS), _SERVERS
    small = {(m, n): combinations(m, n) for m, n in ((1, 2), (2, 2), (1, 4), (2, 4))}
    assert all(count == 4 ** (m * n) for (m, n), count in small.items())
    function = AveragingFunction.of(servers, _BITS)
    yield PAPER.claim(
        "example.input_combinations",
        4 ** (signals * servers),
        paper=2 ** (signals * servers),
        small=", ".join(map(str, small)),
    )
    yield PAPER.claim("example.dataset", function.points, paper=(servers * 3 + 1) ** signals)


def _areas() -> Iterator[Claim]:
    lowest = min(TABLE_I, key=lambda network: network.printed)
    yield PAPER.claim("example.lowest_area", round(lowest.ratio(), 1))
    yield PAPER.claim("example.area_reduction", round(100 - max(network.ratio() for network in TABLE_I), 1))
    for network in TABLE_I:
        plain = network.ratio(units=False)
        yield PAPER.claim(
            "example.area_without_units_{network.bits}x{network.servers}",
            round(plain, 1),
            paper=network.printed,
            network=network,
            plain=plain,
        )


def _floor() -> Claim:
    return PAPER.claim("example.floor_bias", floor_bias(), averaging_bias=averaging_bias(_SERVERS, "half-up"))


def _twos_complement() -> Claim:
    wrong = twos_complement_wrong()
    values = np.array([-1, 1])
    digits = ["".join(map(str, row)) for row in encode(values & 0xFF, _BITS)]
    return PAPER.claim("example.twos_complement", round(100 * wrong, 1), digits=digits)
