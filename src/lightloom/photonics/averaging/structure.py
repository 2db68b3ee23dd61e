"""Embed a network in wider layers so that every matrix has the paper's form: squares Σ · U (OptINC, Fig. 4, eq. 4).

    dark signals    those of the wider layers that the network lacks: rows and biases of 0, so that they are always 0
    a square        live rows D R, with D their lengths, and in columns of dark signals D Z:
                    R Rᵀ + Z Zᵀ = λ I,  λ at least the largest eigenvalue of R Rᵀ,
                    so that the square is D √λ times orthonormal rows

Entries in columns of dark signals change no signal. Z needs as many dark columns as λ I − R Rᵀ has rank: one less than
the rows are enough. A square without dark columns takes rows that are orthogonal already, or a single one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnsupportedError
from lightloom.photonics.averaging.networks import LayeredNetwork
from lightloom.photonics.meshes.mapping import connected_components, square_places

_TOLERANCE = 1e-12
"""Cosines, and differences of eigenvalues as a share of the largest one, that are rounding errors of 0."""
_ENTRY = 1e-7
"""Length of a column of entries that is a rounding error of 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """A network in wider layers, and where its signals are."""

    network: LayeredNetwork
    """The network with all signals; dark ones have a full scale of 1, so that they are as noisy as live ones."""
    places: tuple[Ints, ...]
    """Number of every live signal in the wider layer, for the inputs, the hidden layers and the outputs."""

    @property
    def dark(self) -> list[Floats]:
        """Sum of the magnitudes of the weights from dark signals, (live signals,), for each matrix."""
        parts = zip(self.network.weights, self.places, self.places[1:], strict=False)
        return [np.abs(np.delete(matrix[rows], columns, axis=1)).sum(axis=1) for matrix, columns, rows in parts]


def embed(network: LayeredNetwork, layers: Sequence[int]) -> Embedding:
    """Return the network in layers of these numbers of signals, with rows of every square orthogonal to rounding.

    Raises:
        UnsupportedError: the layers are of another number, narrower, or too narrow for orthogonal rows.
    """
    sizes, wide = network.layers, tuple(layers)
    ends = (sizes[0], sizes[-1]) == (wide[0], wide[-1])
    if len(sizes) != len(wide) or not ends or any(n > m for n, m in zip(sizes, wide, strict=True)):
        raise UnsupportedError(f"layers of {sizes} signals do not fit into {wide}")
    places = [np.arange(sizes[0])]
    weights, biases, scales = [], [], [network.full_scale[0]]
    for layer, width in enumerate(wide[1:], 1):
        places.append(np.arange(width) if layer == len(wide) - 1 else _places(network, wide, layer))
        matrix, bias, scale = np.zeros((width, wide[layer - 1])), np.zeros(width), np.ones(width)
        matrix[np.ix_(places[-1], places[-2])] = network.weights[layer - 1]
        bias[places[-1]], scale[places[-1]] = network.biases[layer - 1], network.full_scale[layer]
        lit = np.isin(np.arange(wide[layer - 1]), places[-2])
        squares = [(rows, at[lit[at]], at[~lit[at]]) for rows, at in square_places((width, wide[layer - 1]))]
        least = max(float(np.linalg.norm(_overlaps(matrix[np.ix_(rows, live)]), 2)) for rows, live, _ in squares)
        for rows, live, dark in squares:
            ways = (_completion(matrix[np.ix_(rows, live)], dark.size, each) for each in (least, 0.0))
            completed = next((way for way in ways if way is not None), None)
            if completed is None:
                raise UnsupportedError(f"layer {layer} of {wide}: too few dark signals for orthogonal rows")
            matrix[np.ix_(rows, dark)] = completed
        weights.append(matrix)
        biases.append(bias)
        scales.append(scale)
    whole = LayeredNetwork(tuple(weights), tuple(biases), network.nonlinearity, tuple(scales))
    return Embedding(whole, tuple(places))


def _places(network: LayeredNetwork, wide: tuple[int, ...], layer: int) -> Ints:
    """Return the place of every signal of a hidden layer: in the emptiest squares of the matrices before and after that
    can still be completed, so that rows get the fewest entries from dark signals.

    Squares of the matrix before lie one below the other where the layer is not narrower than the one before, and a
    place decides which of them its row joins. Those of the matrix after lie side by side where the next layer is
    narrower.
    """
    before, after = (np.asarray(matrix, np.float64) for matrix in network.weights[layer - 1 : layer + 1])
    width, inputs, outputs = wide[layer], wide[layer - 1], wide[layer + 1]
    tall, broad = width >= inputs, width > outputs
    places: list[int] = []
    for signal in range(len(before)):
        choices: dict[tuple[int, int], int] = {}
        for place in sorted({*range(width)}.difference(places), reverse=True):
            choices[tall * place // inputs, broad * place // outputs] = place
        fitting: list[tuple[int, int]] = []
        for (row, column), place in choices.items():
            joined = [at for at, other in enumerate(places) if other // inputs == row or not tall] + [signal]
            beside = [at for at, other in enumerate(places) if other // outputs == column or not broad] + [signal]
            free = min(outputs, width - column * outputs) - len(beside)
            fits = not tall or _completion(before[joined], inputs - before.shape[1]) is not None
            if fits and (not broad or _completion(after[:, beside], free) is not None):
                overlapping = int(np.count_nonzero(before[joined] @ before[signal])) if tall else 0
                fitting.append((overlapping + broad * len(beside), place))
        if not fitting:
            raise UnsupportedError(f"layer {layer} of {wide} has no place for {len(before)} signals")
        places.append(min(fitting)[1])
    return np.array(places)


def _completion(rows: Floats, dark: int, least: float = 0.0) -> Floats | None:
    """Return the entries of rows [n, live columns] in ``dark`` further columns that make them orthogonal, [n, dark];
    None if that takes more columns. Rows that overlap with no other get none.

    They are triangular, with ``least`` as the least λ: squares whose first rows are parallel to each other's then read
    equal shares of the same dark signals, so that the noise of these cancels where the two halves of a ramp differ.
    """
    overlaps = _overlaps(rows)
    lengths, added, used = np.linalg.norm(rows, axis=1), np.zeros((len(rows), dark)), 0
    for group, _ in connected_components(overlaps):
        values, vectors = np.linalg.eigh(overlaps[np.ix_(group, group)])
        lacking = max(values[-1], least) - values if group.size > 1 else np.zeros(1)
        lacking[lacking < _TOLERANCE * values[-1]] = 0.0
        triangle = np.linalg.qr((vectors * np.sqrt(lacking)).T)[1].T
        triangle = (triangle * np.where(np.diag(triangle) < 0, -1.0, 1.0))[:, np.linalg.norm(triangle, axis=0) > _ENTRY]
        columns = used + np.arange(triangle.shape[1])
        used += columns.size
        if used > dark:
            return None
        added[np.ix_(group, columns)] = lengths[group, None] * triangle
    return added


def _overlaps(rows: Floats) -> Floats:
    """Return the cosines of the angles between rows [n, columns], 0 for rows of zeros, [n, n]."""
    lengths = np.linalg.norm(rows, axis=1)
    units = rows / np.where(lengths > 0, lengths, 1.0)[:, None]
    cosines = units @ units.T
    return np.asarray(np.where(np.abs(cosines) > _TOLERANCE, cosines, 0.0))
