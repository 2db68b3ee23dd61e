"""Inconsistencies of the paper's numbers, each with its proof."""

from __future__ import annotations

from itertools import product

import numpy as np

from lightloom.core.claims import Claim
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.realised.area import TABLE_I
from lightloom.photonics.block_quantisation import averaging_bias
from lightloom.photonics.pam4 import encode, symbols_for

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


def _combinations() -> list[Claim]:
    signals, servers = symbols_for(_BITS), _SERVERS
    small = {(m, n): combinations(m, n) for m, n in ((1, 2), (2, 2), (1, 4), (2, 4))}
    assert all(count == 4 ** (m * n) for (m, n), count in small.items())
    function = AveragingFunction.of(servers, _BITS)
    return [
        Claim(
            id="optinc.example.input_combinations",
            paper=2 ** (signals * servers),
            ours=4 ** (signals * servers),
            unit="inputs",
            why="2^(MN) is printed for M = 4 signals and N = 4 servers. A PAM4 signal has four levels: 4^(MN), counted "
            f"one by one for (M, N) = {', '.join(map(str, small))}",
        ),
        Claim(
            id="optinc.example.dataset",
            paper=(servers * 3 + 1) ** signals,
            ours=function.points,
            unit="inputs",
            why="(N(4^ceil(M/K) − 1) + 1)^K, the grid after P. It holds when the signals of a group are weighted by "
            "powers of 4 when they are added, which the text calls averaging",
        ),
    ]


def _areas() -> list[Claim]:
    lowest = min(TABLE_I, key=lambda network: network.printed)
    rows = [
        Claim(
            id="optinc.example.lowest_area",
            paper=39.2,
            ours=round(lowest.ratio(), 1),
            unit="%",
            tolerance=0.05,
            why="the text says 39.2 % to 49.3 %, Table I says 39.3 %; 39.27 % is what the counts give",
        ),
        Claim(
            id="optinc.example.area_reduction",
            paper=50.0,
            ours=round(100 - max(network.ratio() for network in TABLE_I), 1),
            unit="%",
            tolerance=0.5,
            why="the conclusion says nearly 50 %; by Table I the area falls by 50.7 to 60.7 %",
        ),
    ]
    for network in TABLE_I:
        plain = network.ratio(units=False)
        rows.append(
            Claim(
                id=f"optinc.example.area_without_units_{network.bits}x{network.servers}",
                paper=network.printed,
                ours=round(plain, 1),
                unit="%",
                tolerance=0.05,
                why=f"the formula of section II-B over the network's matrices alone: {plain:.2f} %. All four ratios of "
                "Table I come out once P and T are counted, too, which the text does not say",
            )
        )
    return rows


def _floor() -> Claim:
    return Claim(
        id="optinc.example.floor_bias",
        paper=0,
        ours=floor_bias(),
        unit="last places",
        why="100 % accuracy counts against a mean whose decimals are discarded: that is off by −(N−1)/(2N) on average, "
        "over all codes of four servers. All of Table II's errors move it by 1e-4 at most. Half-up is the same network "
        f"with another bias, and off by 1/(2N) = {averaging_bias(_SERVERS, 'half-up'):g}",
    )


def _twos_complement() -> Claim:
    wrong = twos_complement_wrong()
    values = np.array([-1, 1])
    digits = ["".join(map(str, row)) for row in encode(values & 0xFF, _BITS)]
    return Claim(
        id="optinc.example.twos_complement",
        paper=0,
        ours=round(100 * wrong, 1),
        unit="% wrong",
        why="eq. 2 does not say how negative gradients are written. As two's complement "
        f"−1 is {digits[0]} and 1 is {digits[1]}, and means of signed numbers come out wrong; in offset binary, none",
    )
