"""Tables I and II: areas from the counts of meshes, accuracies from all inputs."""

from __future__ import annotations

from functools import cache
from math import floor

from lightloom.core.claims import Claim
from lightloom.photonics.averaging.averagers import TABLE_II_ERRORS
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.verify import Verification
from lightloom.photonics.averaging.realised.area import TABLE_I, TABLE_II, PaperNetwork
from lightloom.studies.optinc.paper import ACCURACY, ROWS, ident

_WITHIN = 0.2
"""Tolerance of Table II's areas, in points."""


def claims() -> tuple[Claim, ...]:
    """Return the rows of both tables."""
    table_i = [row for network in TABLE_I for row in (*_area(network), *_constructed(network))]
    return (*table_i, *_table_ii_areas(), *_wrong_outputs(), _ranking())


def name(network: PaperNetwork) -> str:
    """Bits and servers of each scenario."""
    return f"{network.bits}x{network.servers}"


@cache
def constructed(bits: int, servers: int) -> tuple[Construction, Verification]:
    """Return the smallest constructed network and its verification on all inputs."""
    construction = build(servers, bits)
    return construction, construction.verify()


def points() -> int:
    """Return the number of inputs of the fourth scenario's grid, which Table II counts."""
    return AveragingFunction.of(4, 16).points


def counts(row: str) -> range:
    """Return the numbers of wrong outputs that round to Table II's accuracy."""
    total = points()
    low, high = ((100 - ACCURACY[row] + shift) / 100 * total for shift in (-5e-6, 5e-6))
    return range(max(floor(low) + 1, 0), floor(high) + 1)


def likely_count(row: str) -> int:
    """Return the number of wrong outputs nearest to the printed accuracy."""
    return min(counts(row), key=lambda count: abs(100 * (1 - count / points()) - ACCURACY[row]))


def rms(row: str) -> float:
    """Return the root mean square error of mean codes, in units of the last place."""
    return TABLE_II_ERRORS[row].rms


def _area(network: PaperNetwork) -> list[Claim]:
    economy = network.ratio("economy", units=False)
    return [
        Claim(
            id=f"optinc.table1.area_{name(network)}",
            paper=network.printed,
            ours=round(network.ratio(), 1),
            unit="%",
            tolerance=0.05,
            why=f"{network.area():,} of {network.area(approximated=False):,} MZIs, P and T counted as matrices: "
            f"{network.ratio():.2f} %",
        ),
        Claim(
            id=f"optinc.table1.area_economy_{name(network)}",
            paper=network.printed,
            ours=round(economy, 1),
            unit="%",
            tolerance=0.05,
            why="our own: the network against the same one by economy SVDs, which need M N MZIs for M x N, and no P "
            f"or T: {network.area('economy', True, False):,} of {network.area('economy', False, False):,}. The paper's "
            "baseline carries MZIs that no light reaches",
        ),
    ]


def _constructed(network: PaperNetwork) -> list[Claim]:
    construction, found = constructed(network.bits, network.servers)
    trained = network.area(units=False)
    return [
        Claim(
            id=f"optinc.table1.accuracy_constructed_{name(network)}",
            paper=100.0,
            ours=100 * found.accuracy,
            unit="%",
            why=f"written down, not trained: {construction.name}, {found.wrong_outputs} wrong of all "
            f"{found.checked_inputs:,} inputs",
        ),
        Claim(
            id=f"optinc.table1.mzis_constructed_{name(network)}",
            paper=trained,
            ours=construction.mzi_count,
            unit="MZIs",
            why=f"our own: the smallest constructed network {'-'.join(map(str, construction.network.layers))} instead "
            "of the paper's trained and approximated one; P, T and biases apart. How much noise either bears is "
            "another matter: optinc.example.noise_*",
        ),
    ]


def _table_ii_areas() -> list[Claim]:
    return [
        Claim(
            id=f"optinc.table2.area_{ident(row)}",
            paper=network.printed,
            ours=round(network.ratio(), 2),
            unit="%",
            tolerance=_WITHIN,
            why="P and T counted as in Table I",
        )
        for row, network in zip(ROWS, TABLE_II, strict=True)
    ]


def _wrong_outputs() -> list[Claim]:
    rows = []
    for row in ROWS[1:]:
        count, possible = likely_count(row), counts(row)
        several = f"{possible[0]:,}" if len(possible) == 1 else f"{possible[0]:,} to {possible[-1]:,}"
        rows.append(
            Claim(
                id=f"optinc.table2.wrong_{ident(row)}",
                paper=round(1e4 * (100 - ACCURACY[row]), 1),
                ours=round(1e6 * count / points(), 1),
                unit="in a million",
                tolerance=0.05,
                why=f"printed: {ACCURACY[row]} % right. Derived, not trained here: {count:,} wrong of {points():,} "
                f"inputs; {several} print alike. RMS of a mean code, by the printed errors: {rms(row):.3g} of its last "
                "place",
            )
        )
    return rows


def _ranking() -> Claim:
    erring = ROWS[1:]
    by_accuracy = sorted(erring, key=lambda row: -ACCURACY[row])
    by_rms = sorted(erring, key=rms)
    sizes = ", ".join(f"{row} {rms(row):.3g}" for row in by_rms)
    return Claim(
        id="optinc.table2.order",
        paper=", ".join(by_accuracy),
        ours=", ".join(by_rms),
        unit="",
        why=f"paper: best accuracy first; ours: least RMS error first ({sizes} of the last place). One error of 1024 "
        "weighs as much as a million of 1: accuracy ranks the networks wrongly",
    )
