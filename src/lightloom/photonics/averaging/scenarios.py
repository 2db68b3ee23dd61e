"""The paper's four scenarios: constructed networks on their full grids, compared with the networks of Table I."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightloom.photonics.averaging.construct import Construction, candidates
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.networks import TABLE_I, Nonlinearity, PaperNetwork, largest_gain_db, mzi_count

CHOSEN: tuple[tuple[str, Nonlinearity], ...] = (
    ("", "relu"),
    ("lsb-ripple, regenerated", "relu"),
    ("", "clipped"),
    ("lsb-ripple, carry-save", "clipped"),
)
"""Constructions of each scenario; an empty name selects the smallest that is proved exact."""
ROWS = len(TABLE_I) * (2 + len(CHOSEN))


def scenario_rows(advance: Callable[[int], None] = lambda _: None, evaluations: int = 400_000) -> list[dict[str, Any]]:
    """Return a row per network: for each scenario the paper's two networks, then the constructed ones.

    Wrong outputs are counted over the whole grid. Values that the paper does not state are None.
    """
    rows = []
    for paper in TABLE_I:
        function = AveragingFunction.of(paper.servers, paper.bits)
        for approximated in (False, True):
            rows.append(_paper_row(paper, function, approximated))
            advance(1)
        for name, nonlinearity in CHOSEN:
            construction = _pick(function, name, nonlinearity)
            rows.append(_row(paper, construction, evaluations))
            advance(1)
    return rows


def _pick(function: AveragingFunction, name: str, nonlinearity: Nonlinearity) -> Construction:
    """Return the smallest construction that is proved exact, of that name if it is not empty."""
    for construction in candidates(function, nonlinearity):
        if name in ("", construction.name) and construction.proof.float64:
            return construction
    raise AssertionError(f"no {nonlinearity} construction {name!r} for {function}")


def _row(paper: PaperNetwork, construction: Construction, evaluations: int) -> dict[str, Any]:
    layers = construction.network.layers
    return {
        **_described(paper, f"{construction.name}, {construction.network.nonlinearity}", layers),
        "constructed": True,
        **construction.verify().counts,
        "proved": construction.proof.float64,
        "mzi_count": construction.mzi_count,
        "mzi_count_economy": mzi_count(layers, "economy"),
        "largest_gain_db": largest_gain_db(construction.network),
        "noise_limit": construction.noise_limit(evaluations),
    }


def _paper_row(paper: PaperNetwork, function: AveragingFunction, approximated: bool) -> dict[str, Any]:
    return {
        **_described(paper, "the paper's, approximated" if approximated else "the paper's", paper.layers),
        "checked_inputs": function.points,
        "mzi_count": paper.area(approximated=approximated, units=False),
        "mzi_count_economy": paper.area("economy", approximated, units=False),
    }


def _described(paper: PaperNetwork, network: str, layers: tuple[int, ...]) -> dict[str, Any]:
    """Return the fields of a row that describe its network, and those that the paper leaves open."""
    size = {"bits": paper.bits, "servers": paper.servers, "network": network, "constructed": False}
    unknown = {"wrong_outputs": None, "checked_inputs": None, "exhaustive": None, "proved": False}
    shape = {"layers": list(layers), "hidden_layers": len(layers) - 2, "mzi_count": None, "mzi_count_economy": None}
    return size | unknown | shape | {"largest_gain_db": None, "noise_limit": None}
