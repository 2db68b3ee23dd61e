"""Averagers that a search tries: constructions, windows, copies and mappings, by their interferometers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lightloom.photonics.averaging.construct import Construction, sturdy_circuits, sturdy_realisations
from lightloom.photonics.averaging.mapped_averager import MappedAverager, map_averager
from lightloom.photonics.averaging.realised.compiler import realise
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.light import Matrix, light_matrices, unit_matrices
from lightloom.photonics.averaging.realised.networks import Nonlinearity
from lightloom.photonics.meshes.blocks import connected_components
from lightloom.photonics.meshes.counts import compact_count, full_count
from lightloom.photonics.meshes.mapping import Form
from lightloom.photonics.meshes.mesh_mapping import BALANCED, MeshMapping

MAPPINGS = {"compact": MeshMapping(form="compact", components=True), "balanced": BALANCED}
"""Mappings of connected components: with the fewest interferometers, and to square meshes that balance loss."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A construction and a mapping of it."""

    construction: Construction
    arguments: FunctionArguments
    window: Fraction
    copies: int
    mapping: str
    mzis: int
    """Interferometers of P, the layers and T."""

    @property
    def name(self) -> str:
        """Construction, window, copies and mapping in words."""
        copies = f", {self.copies} copies" if self.copies > 1 else ""
        regenerated = ", regenerated" if self.construction.realised.realisation.regenerate else ""
        return f"{self.construction.name}, window {self.window}{copies}{regenerated}, {self.mapping}"

    def mapped(self) -> MappedAverager:
        """Return the meshes of P, every layer and T in this mapping."""
        return map_averager(self.construction.network, self.arguments, MAPPINGS[self.mapping])


def candidates(
    arguments: FunctionArguments,
    nonlinearity: Nonlinearity = "clipped",
    advance: Callable[[int], None] = lambda _: None,
) -> list[Candidate]:
    """Return all candidates, those with the fewest interferometers first.

    Raises:
        InputError: the nonlinearity is unknown, or an argument of the function is out of range.
    """
    function = arguments.function()
    units = list(unit_matrices(arguments).values())
    around = {mapping: sum(component_count(matrix, how.form) for matrix in units) for mapping, how in MAPPINGS.items()}
    made = []
    for name, circuit in sturdy_circuits(function):
        for how in sturdy_realisations(nonlinearity):
            construction = Construction(name, function, realise(circuit, function, how))
            matrices = light_matrices(construction.network)
            made += [
                Candidate(
                    construction=construction,
                    arguments=arguments,
                    window=how.window,
                    copies=how.copies,
                    mapping=mapping,
                    mzis=around[mapping] + sum(component_count(matrix, meshes.form) for matrix in matrices),
                )
                for mapping, meshes in MAPPINGS.items()
            ]
            advance(1)
    return sorted(made, key=lambda candidate: (candidate.mzis, candidate.copies, -candidate.window))


def component_count(matrix: Matrix, form: Form) -> int:
    """Return the number of interferometers of `meshes.map_components`, without decomposing."""
    total = 0
    for rows, columns in connected_components(matrix):
        if form == "compact":
            rank = max(1, int(np.linalg.matrix_rank(matrix[np.ix_(rows, columns)])))
            total += compact_count(rows.size, columns.size, rank)
        else:
            total += full_count(rows.size, columns.size)
    return total
