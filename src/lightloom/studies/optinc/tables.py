"""Tables I and II: areas from the counts of meshes, accuracies from all inputs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import floor

from lightloom.core.claims import Claim
from lightloom.photonics.averaging.averagers import TABLE_II_ERRORS
from lightloom.photonics.averaging.construct import Construction, build
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.proved.verify import Verification
from lightloom.photonics.averaging.realised.area import TABLE_I, TABLE_II, PaperNetwork
from lightloom.studies.optinc import PAPER
from lightloom.studies.optinc.paper import ACCURACY, ROWS, ident

_CONVENTIONS = {"with_units": "with P and T", "without_units": "without P and T"}


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


def _area(network: PaperNetwork) -> Iterator[Claim]:
    values = {"name": name(network), "paper": network.printed}
    counts = {"area": network.area(), "full": network.area(approximated=False), "ratio": network.ratio()}
    yield PAPER.claim("table1.area_{name}", round(network.ratio(), 1), **values, **counts)
    economy = {"area": network.area("economy", True, False), "full": network.area("economy", False, False)}
    ours = round(network.ratio("economy", units=False), 1)
    yield PAPER.claim("table1.area_economy_{name}", ours, **values, **economy)


def _constructed(network: PaperNetwork) -> Iterator[Claim]:
    construction, verification = constructed(network.bits, network.servers)
    values = {"name": name(network), "construction": construction, "verification": verification}
    yield PAPER.claim("table1.accuracy_constructed_{name}", 100 * verification.accuracy, **values)
    layers, trained = "-".join(map(str, construction.network.layers)), network.area(units=False)
    yield PAPER.claim(
        "table1.mzis_constructed_{name}", construction.mzi_count, paper=trained, layers=layers, name=name(network)
    )


def _table_ii_areas() -> list[Claim]:
    rows = []
    for row, network in zip(ROWS, TABLE_II, strict=True):
        areas = {"with_units": network.ratio(), "without_units": network.ratio(units=False)}
        printing = [words for name, words in _CONVENTIONS.items() if round(areas[name], 1) == network.printed]
        values = {"ident": ident(row), "verdict": " and ".join(printing) or "in neither way", **areas}
        rows.append(PAPER.claim("table2.area_{ident}", round(areas["with_units"], 1), paper=network.printed, **values))
    return rows


def _wrong_outputs() -> Iterator[Claim]:
    for row in ROWS[1:]:
        count, possible = likely_count(row), counts(row)
        several = f"{possible[0]:,}" if len(possible) == 1 else f"{possible[0]:,} to {possible[-1]:,}"
        yield PAPER.claim(
            "table2.wrong_{ident}",
            round(1e6 * count / points(), 1),
            paper=round(1e4 * (100 - ACCURACY[row]), 1),
            ident=ident(row),
            printed_percent=ACCURACY[row],
            count=count,
            points=points(),
            rivals=several,
            rms=rms(row),
        )


def _ranking() -> Claim:
    erring = ROWS[1:]
    by_accuracy = sorted(erring, key=lambda row: -ACCURACY[row])
    by_rms = sorted(erring, key=rms)
    sizes = ", ".join(f"{row} {rms(row):.3g}" for row in by_rms)
    return PAPER.claim("table2.order", ", ".join(by_rms), paper=", ".join(by_accuracy), sizes=sizes)
