"""Map any matrix to meshes and attenuators: W = diag(gains) · U · Σ · V†, with Σ at most 1 and amplifiers behind.

x ──▶ V† mesh ──▶ Σ: a column of MZIs ──▶ U mesh ──▶ an amplifier for each output ──▶ y

A passive mesh H has singular values up to 1. With r_i = |row i| and s, the largest singular value of diag(1/r) W, it is
H = diag(1/r) W / s, and output i is amplified by r_i s. An error of a device reaches output i in proportion to r_i,
but with one gain for all outputs it reaches each of them in proportion to the largest singular value of W.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from lightloom.core.arrays import Column, Floats, Ints
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.devices import Complex, mzi
from lightloom.photonics.meshes.decompose import checked_matrix, decompose
from lightloom.photonics.meshes.mesh import KINDS, Kind, Mesh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lightloom.core.results import Document


Form = Literal["svd", "economy", "compact", "sigma-u"]
FORMS: tuple[str, ...] = get_args(Form)
Gains = Literal["rows", "common"]
"""A gain for each row, or the largest singular value (if it exceeds 1) for all of them."""
GAINS: tuple[str, ...] = get_args(Gains)
_RANK_TOLERANCE = 1e-12
"""Singular values below this share of the largest one are rounding errors of the matrix's elements."""


@dataclass(frozen=True, eq=False)
class MappedMatrix:
    """The meshes, attenuators and amplifiers that implement a matrix of ``shape`` (outputs, inputs).

    Raises:
        ConfigError: meshes do not fit, an attenuation is outside [0, 1], or a gain is not positive and finite.
    """

    shape: tuple[int, int]
    input_mesh: Mesh
    """Mesh of V†; in the form sigma-u the only mesh, U_a."""
    attenuations: Floats
    """Amplitude transmissions of the MZIs of Σ, in [0, 1]."""
    output_mesh: Mesh | None
    """Mesh of U; None in the form sigma-u."""
    gains: Floats
    """Amplitude gain of the amplifier behind each output, [outputs]; below 1 it weakens."""

    def __post_init__(self) -> None:
        """Raise ConfigError where meshes, attenuations or gains do not fit ``shape``, an attenuation is outside [0, 1],
        or a gain is not positive and finite."""
        outputs = self.output_mesh.outputs if self.output_mesh else self.attenuations.size
        if (outputs, self.input_mesh.inputs) != self.shape:
            raise ConfigError(f"meshes from {self.input_mesh.inputs} to {outputs} modes for a matrix of {self.shape}")
        reach = self.output_mesh.inputs if self.output_mesh else outputs
        if self.attenuations.ndim != 1 or not min(self.input_mesh.outputs, reach) <= self.attenuations.size <= reach:
            raise ConfigError(f"{self.attenuations.size} attenuations for a matrix of {self.shape}")
        if not ((self.attenuations >= 0) & (self.attenuations <= 1)).all():
            raise ConfigError("attenuations: expected amplitudes from 0 to 1")
        if self.gains.shape != (self.shape[0],):
            raise ConfigError(f"gains of shape {self.gains.shape}: expected {self.shape[0]}, one for each output")
        if not ((self.gains > 0) & np.isfinite(self.gains)).all():
            at = int(np.flatnonzero(~((self.gains > 0) & np.isfinite(self.gains)))[0])
            raise ConfigError(f"gains[{at}]={self.gains[at]}: expected a finite amplitude above 0")

    @property
    def mzis(self) -> int:
        """Number of MZIs of both meshes and of the attenuators Σ."""
        return self.input_mesh.mzis + self.attenuations.size + (self.output_mesh.mzis if self.output_mesh else 0)

    @property
    def gain(self) -> float:
        """Largest amplitude gain, as a factor, of an amplifier behind an output."""
        return float(self.gains.max())

    @property
    def depth(self) -> int:
        """Number of columns of MZIs that the light passes, one of them that of Σ."""
        return self.input_mesh.layout.depth + 1 + (self.output_mesh.layout.depth if self.output_mesh else 0)

    @property
    def attenuator_phases(self) -> Floats:
        """θ and φ of the MZIs of Σ on ideal devices, in radians, [2, mzis], a new array each time.

        Light uses the upper ports, and φ makes T₀₀ = sin θ/2 real.
        """
        theta = 2 * np.arcsin(self.attenuations)
        return np.stack([theta, (-np.pi / 2 - theta / 2) % (2 * np.pi)])

    @property
    def blocks(self) -> tuple[MappedMatrix, ...]:
        """The matrix itself, as `MappedBlocks` of one block have it."""
        return (self,)

    @property
    def outputs(self) -> tuple[Ints, ...]:
        """Numbers of the outputs of the only block, all of them in order: a tuple of one array."""
        return (np.arange(self.shape[0]),)

    @property
    def inputs(self) -> tuple[Ints, ...]:
        """Numbers of the inputs of the only block, all of them in order: a tuple of one array."""
        return (np.arange(self.shape[1]),)

    def joined(self, matrices: Sequence[Column]) -> Complex:
        """Return the matrix of the only block, the first of ``matrices``."""
        return np.asarray(matrices[0])

    def propagate(self, fields: ArrayLike) -> Complex:
        """Return the output fields [outputs, ...] of input fields [inputs, ...] on ideal devices, behind the
        amplifiers."""
        inner = self.input_mesh.propagate(fields)
        behind = self.output_mesh.propagate if self.output_mesh else None
        return self.behind(inner, mzi(*self.attenuator_phases)[:, 0, 0], behind)

    def behind(self, inner: Column, column: Column, output_mesh: Callable[[Column], Column] | None) -> Complex:
        """Return the fields behind Σ, U and the amplifiers, [outputs, ...].

        Args:
            inner: fields behind V†, [modes, ...]; those of modes without an MZI of Σ are dropped, and inputs of U
                without light are dark.
            column: amplitude transmissions of the MZIs of Σ, [mzis].
            output_mesh: propagates fields through U, ideal or fabricated; None in the form sigma-u.
        """
        count = min(len(inner), column.size)
        lit = self.output_mesh.inputs if self.output_mesh else self.shape[0]
        passed = np.zeros((lit, *inner.shape[1:]), np.complex128)
        passed[:count] = inner[:count] * column[:count].reshape(-1, *[1] * (inner.ndim - 1))
        gains = self.gains.reshape(-1, *[1] * (inner.ndim - 1))
        return np.asarray(gains * (output_mesh(passed) if output_mesh else passed))

    def matrix(self) -> Complex:
        """Return the matrix [outputs, inputs] that ideal devices implement, gains of amplifiers included."""
        return self.propagate(np.eye(self.shape[1]))


def map_matrix(
    matrix: ArrayLike, form: Form = "economy", kind: Kind = "rectangular", gains: Gains = "rows"
) -> MappedMatrix:
    """Return the meshes, attenuators and amplifiers for ``matrix`` [M outputs, N inputs], real or complex.

    Args:
        matrix: any finite matrix.
        form: ``svd`` is the paper's form (eq. 1) with both square unitaries and M(M+1)/2 + N(N−1)/2 MZIs. ``economy``
            leaves out MZIs that no light reaches and has M · N. ``compact`` also leaves out modes beyond the rank r of
            the matrix (at least 1; singular values up to 1e-12 of the largest count as 0) and has r(M + N) − r². All
            three are exact; paths of light through the square meshes of ``svd`` are the most alike, so it bears loss
            best. ``sigma-u`` is the paper's approximation Σ_a · U_a of a square matrix (eq. 4 to 6) with N(N+1)/2 MZIs.
        kind: layout of square meshes; others are triangular.
        gains: ``rows`` for a gain of each output (that of `row_gains`; of ``sigma-u`` the row's scale, 1 where that is
            0), or ``common`` for amplification of every output by the largest singular value (of ``sigma-u``, the
            largest row scale), at least 1.

    Raises:
        ConfigError: the argument is not a finite matrix, or ``sigma-u`` is given one that is not square (`map_blocks`
            takes it).
        UnknownNameError: the form, the kind of mesh or the kind of gains does not exist.
    """
    MeshMapping(form=form, mesh=kind, gains=gains)  # refuses unknown names
    values = checked_matrix(matrix)
    outputs, inputs = values.shape
    if form == "sigma-u":
        if outputs != inputs:
            cure = "sigma-u needs a square one, map_blocks divides it into squares"
            raise ConfigError(f"matrix of {outputs} x {inputs}: {cure}")
        unitary, scales = sigma_u(values)
        factors = positive(scales) if gains == "rows" else np.full(outputs, max(1.0, float(scales.max())))
        attenuations = np.minimum(scales / factors, 1.0)
        input_mesh, output_mesh = decompose(unitary, kind), None
    else:
        factors = row_gains(values) if gains == "rows" else np.full(outputs, max(1.0, float(np.linalg.norm(values, 2))))
        u, singular, v = np.linalg.svd(values / factors[:, None], full_matrices=form == "svd")
        if form == "compact":
            rank = max(1, int((singular > _RANK_TOLERANCE * singular[0]).sum()))
            u, singular, v = u[:, :rank], singular[:rank], v[:rank]
        attenuations = np.minimum(singular, 1.0)
        if form == "svd":
            attenuations = np.concatenate([attenuations, np.zeros(outputs - attenuations.size)])
        input_mesh = decompose(v, "triangular" if v.shape[0] < inputs else kind)
        output_mesh = decompose(u, "triangular" if u.shape[1] < outputs else kind)
    return MappedMatrix((outputs, inputs), input_mesh, attenuations, output_mesh, factors)


def row_gains(matrix: ArrayLike) -> Floats:
    """Return the amplitude gain behind each output of a mapped ``matrix`` W, [outputs].

    It is r_i s for the Euclidean length r_i of row i (1 for a row of zeros) and s = the largest singular value of
    diag(1/r) W (1 if all is 0), so that the passive remainder diag(1/(r s)) W has singular values of at most 1.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    values = checked_matrix(matrix)
    lengths = positive(np.linalg.norm(values, axis=1))
    return lengths * (float(np.linalg.norm(values / lengths[:, None], 2)) or 1.0)


def decibels(gain: float) -> float:
    """Return an amplitude gain in dB: 20 log10 of it."""
    return float(20 * np.log10(gain))


def positive(values: Floats) -> Floats:
    """Return a copy of ``values`` with 1 in place of those that are not above 0."""
    return np.where(values > 0, values, 1.0)


def sigma_u(matrix: ArrayLike) -> tuple[Column, Floats]:
    """Return the unitary U_a and the diagonal of Σ_a, for which Σ_a · U_a approximates a square ``matrix`` W (eq. 4 to
    6).

    U_a = U_s V_sᵀ is the nearest unitary (the polar factor), and d_i = Σ_j W_ij conj(U_a,ij) is the least-squares scale
    of row i; as W U_a† is positive semidefinite, no d_i is negative.

    Raises:
        ConfigError: the argument is not a finite square matrix.
    """
    values = checked_matrix(matrix)
    if values.shape[0] != values.shape[1]:
        raise ConfigError(f"matrix of {values.shape[0]} x {values.shape[1]}: expected a square one")
    u, _, v = np.linalg.svd(values)
    unitary = u @ v
    return unitary, np.maximum(np.einsum("ij,ij->i", values, unitary.conj()).real, 0.0)


# Matrices of several meshes: the paper's square approximations, and connected components.
#
# squares       blocks Σ_a · U_a along the longer side (OptINC, Fig. 4, eq. 4 to 6), an approximation
# components    rows and columns that no element joins to the others: exact, fewer MZIs, and waveguides that cross


@dataclass(frozen=True, slots=True, eq=False)
class MappedBlocks:
    """Blocks of a matrix of ``shape`` (outputs, inputs), each with meshes of its own.

    Inputs that several blocks read are split, and outputs that several blocks give are combined. A block may have more
    modes than waveguides; the others are dark. Outputs of no block carry no light.

    Raises:
        ConfigError: a block has no waveguide, more of them than modes, or one that does not exist or appears twice.
    """

    shape: tuple[int, int]
    blocks: tuple[MappedMatrix, ...]
    outputs: tuple[Ints, ...]
    """Output of the matrix that each output of a block is, for every block."""
    inputs: tuple[Ints, ...]
    """Input of the matrix that each input of a block is, for every block."""

    def __post_init__(self) -> None:
        """Raise ConfigError where a block has no waveguide, more of them than modes, or one that does not exist or
        appears twice."""
        if not len(self.blocks) == len(self.outputs) == len(self.inputs):
            raise ConfigError(f"{len(self.blocks)} blocks, waveguides of {len(self.outputs)} and {len(self.inputs)}")
        for number, block in enumerate(self.blocks, 1):
            ends = zip(("outputs", "inputs"), (self.outputs[number - 1], self.inputs[number - 1]), strict=True)
            for (name, guides), modes, count in zip(ends, block.shape, self.shape, strict=True):
                if not 1 <= guides.size <= modes or guides.min() < 0 or guides.max() >= count:
                    raise ConfigError(f"block {number}: {name} {guides.tolist()}, expected up to {modes} below {count}")
                if np.unique(guides).size < guides.size:
                    raise ConfigError(f"block {number}: {name} {guides.tolist()}, expected each one once")

    @property
    def mzis(self) -> int:
        """Number of MZIs of all blocks, without splitters and combiners."""
        return sum(block.mzis for block in self.blocks)

    @property
    def depth(self) -> int:
        """Number of columns of MZIs of the deepest block, Σ included; 0 without blocks."""
        return max((block.depth for block in self.blocks), default=0)

    @property
    def gain(self) -> float:
        """Largest amplitude gain, as a factor, of an amplifier, over all outputs (`gains`)."""
        return float(self.gains.max())

    @property
    def gains(self) -> Floats:
        """Largest amplitude gain of the amplifiers behind each output, [outputs]; 1 for dark outputs.

        A gain makes up for splitters and combiners too: it is the block's gain times √(k j), with k the most blocks
        that read one of the block's inputs and j the blocks that give this output.
        """
        none = np.empty(0, np.int64)
        split, combined = (np.bincount(np.concatenate([none, *guides])) for guides in (self.inputs, self.outputs))
        gains = np.zeros(self.shape[0])
        for block, rows, columns in zip(self.blocks, self.outputs, self.inputs, strict=True):
            shared = np.sqrt(split[columns].max() * combined[rows])
            gains[rows] = np.maximum(gains[rows], block.gains[: rows.size] * shared)
        return np.where(gains > 0, gains, 1.0)

    def matrix(self) -> Complex:
        """Return the matrix [outputs, inputs] that ideal devices implement: the blocks' matrices, gains included, added
        up at their places."""
        return self.joined([block.matrix() for block in self.blocks])

    def joined(self, matrices: Sequence[Column]) -> Complex:
        """Return the matrix of ``shape`` from those of the blocks, which add up where they overlap.

        Matrices are [..., outputs, inputs], one for each block in order; rows and columns of dark modes are left out.
        """
        total = np.zeros((*(matrices[0].shape[:-2] if matrices else ()), *self.shape), np.complex128)
        for matrix, rows, columns in zip(matrices, self.outputs, self.inputs, strict=True):
            total[..., rows[:, None], columns] += matrix[..., : rows.size, : columns.size]
        return total


def map_blocks(matrix: ArrayLike, kind: Kind = "rectangular", gains: Gains = "rows") -> MappedBlocks:
    """Return the meshes of ``matrix`` [outputs, inputs] cut into square blocks along its longer side.

    Each square is approximated by one mesh, of the layout ``kind``, and a scale for each row (``sigma-u``); the last
    one is filled up with zeros. Amplifiers have a gain for each row, or with ``common`` one for all rows of a square.

    Raises:
        ConfigError: the argument is not a finite matrix.
        UnknownNameError: the kind of mesh or of gains does not exist.
    """
    values = checked_matrix(matrix)
    blocks = tuple(map_matrix(block, "sigma-u", kind, gains) for block in _squares(values))
    return square_blocks((values.shape[0], values.shape[1]), blocks)


def square_blocks(shape: tuple[int, int], blocks: Sequence[MappedMatrix]) -> MappedBlocks:
    """Return ``blocks`` as the squares along the longer side of a matrix of ``shape`` (outputs, inputs), in order.

    The last one may be partly dark.
    """
    outputs, inputs = zip(*square_places(shape), strict=True)
    return MappedBlocks(shape=shape, blocks=tuple(blocks), outputs=outputs, inputs=inputs)


def square_places(shape: tuple[int, int]) -> list[tuple[Ints, Ints]]:
    """Return the output numbers and the input numbers of every square along the longer side of a matrix, in order.

    ``shape`` is (outputs, inputs); the last square may be cut off.
    """
    side, most = sorted(shape)
    along = [np.arange(start, min(start + side, most)) for start in range(0, most, side)]
    across = np.arange(side)
    return [(part, across) if shape[0] >= shape[1] else (across, part) for part in along]


def map_components(
    matrix: ArrayLike, form: Form = "compact", kind: Kind = "rectangular", gains: Gains = "rows"
) -> MappedBlocks:
    """Return the meshes of every connected component of ``matrix`` [outputs, inputs], which are exact.

    Rows and columns that no element joins to the others are mapped by themselves (`connected_components`), in the form
    ``svd``, ``economy`` or ``compact``, to meshes of the layout ``kind``, with a gain for each row or a ``common`` one
    for a component.

    Raises:
        ConfigError: the argument is not a finite matrix, or ``form`` is the approximation sigma-u.
        UnknownNameError: the form, the kind of mesh or of gains does not exist.
    """
    MeshMapping(form=form, mesh=kind, gains=gains, components=True)  # refuses sigma-u
    values = checked_matrix(matrix)
    parts = connected_components(values)
    blocks = tuple(map_matrix(values[np.ix_(rows, columns)], form, kind, gains) for rows, columns in parts)
    sides = tuple(rows for rows, _ in parts), tuple(columns for _, columns in parts)
    return MappedBlocks((values.shape[0], values.shape[1]), blocks, *sides)


def connected_components(matrix: ArrayLike) -> list[tuple[Ints, Ints]]:
    """Return the outputs and the inputs, both ascending, of every connected component of ``matrix`` [outputs, inputs].

    Outputs and inputs are joined where the element is not 0; dark ones, of a row or column of zeros, are in none.
    Components ascend by the sum of their mean output and mean input, as shares of the outputs and of the inputs.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    lit = checked_matrix(matrix) != 0
    outputs, inputs = lit.shape
    free, parts = lit.any(axis=1), []
    while free.any():
        rows = np.arange(outputs) == free.argmax()
        while True:
            columns = lit[rows].any(axis=0)
            reached = lit[:, columns].any(axis=1)
            if (reached == rows).all():
                break
            rows = reached
        parts.append((np.flatnonzero(rows), np.flatnonzero(columns)))
        free &= ~rows
    return sorted(parts, key=lambda part: float(part[0].mean() / outputs + part[1].mean() / inputs))


def crossings(places: Sequence[int] | Ints) -> Ints:
    """Return how many others each waveguide crosses, [waveguides], if the waveguide that leaves at place k arrives at
    ``places[k]``.

    Places differ from each other; each crossing counts for both of its waveguides.
    """
    order = np.asarray(places)
    exchanged = np.triu(order[:, None] > order, 1)
    return np.asarray(exchanged.sum(axis=0) + exchanged.sum(axis=1))


def approximate(matrix: ArrayLike) -> Column:
    """Return ``matrix`` [outputs, inputs] with every square along its longer side replaced by its approximation Σ_a ·
    U_a.

    This is what `map_blocks` implements; hardware-aware training projects its weights to it.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    values = checked_matrix(matrix)
    parts = [scales[:, None] * unitary for unitary, scales in map(sigma_u, _squares(values))]
    outputs, inputs = values.shape
    return np.concatenate(parts, axis=0 if outputs >= inputs else 1)[:outputs, :inputs]


def _squares(values: Column) -> list[Column]:
    """Return the square blocks of a matrix along its longer side, each as wide as the shorter, the last one filled up
    with zeros."""
    side = min(values.shape)
    count = -(-max(values.shape) // side)
    tall = values.shape[0] >= values.shape[1]
    filled = np.zeros((count * side, side) if tall else (side, count * side), values.dtype)
    filled[: values.shape[0], : values.shape[1]] = values
    return np.split(filled, count, axis=0 if tall else 1)


# Number of MZIs of a matrix or a network, in closed form.
#
# The *paper* convention is the OptINC paper's count (Sec. II-B): a full singular value decomposition with
# M(M+1)/2 + N(N−1)/2 MZIs. The *economy* convention leaves out MZIs that no light reaches: M · N.

Convention = Literal["paper", "economy"]


def compact_count(outputs: int, inputs: int, rank: int) -> int:
    """Return the number of MZIs, r (M + N) − r², of an ``outputs`` x ``inputs`` matrix of rank r without modes beyond
    it.

    Those of Σ are included.

    Raises:
        ConfigError: a size is below 1, or the rank is not from 1 to the smaller side.
    """
    full_count(outputs, inputs)  # refuses sizes below 1
    if not 1 <= rank <= min(outputs, inputs):
        raise ConfigError(f"rank {rank} of a matrix of {outputs} x {inputs}: expected 1 to {min(outputs, inputs)}")
    return rank * (outputs + inputs) - rank**2


def full_count(outputs: int, inputs: int, convention: Convention = "paper") -> int:
    """Return the number of MZIs of an ``outputs`` x ``inputs`` matrix that is not approximated, those of Σ included.

    ``paper`` counts a full singular value decomposition, M(M+1)/2 + N(N−1)/2, ``economy`` M · N.

    Raises:
        ConfigError: a size is below 1.
    """
    if outputs < 1 or inputs < 1:
        raise ConfigError(f"matrix of {outputs} x {inputs}: expected at least 1 x 1")
    if convention == "economy":
        return outputs * inputs
    return (outputs * (outputs + 1) + inputs * (inputs - 1)) // 2


def approximated_count(outputs: int, inputs: int) -> int:
    """Return the number of MZIs of an ``outputs`` x ``inputs`` matrix approximated by square blocks Σ_a · U_a (eq. 4).

    They are s(s+1)/2 per block, s = min(outputs, inputs), with as many blocks as cover the longer side.

    Raises:
        ConfigError: a size is below 1.
    """
    full_count(outputs, inputs)  # refuses sizes below 1
    side = min(outputs, inputs)
    return -(-max(outputs, inputs) // side) * side * (side + 1) // 2


def network_count(layers: Sequence[int], approximated: Collection[int] = (), convention: Convention = "paper") -> int:
    """Return the number of MZIs of all matrices of a network, without P in front of them and T behind.

    Args:
        layers: numbers of signals of the inputs, the hidden layers and the outputs.
        approximated: numbers of the matrices that consist of squares Σ · U, from 1 as in Table I.
        convention: how the other matrices are counted, ``paper`` or ``economy``.

    Raises:
        ConfigError: there are fewer than two layers, or an approximated matrix does not exist.
    """
    if len(layers) < 2:
        raise ConfigError(f"layers={list(layers)}: expected at least an input and an output")
    if unknown := sorted(set(approximated) - set(range(1, len(layers)))):
        raise ConfigError(f"approximated layer {unknown[0]}: the network has matrices 1 to {len(layers) - 1}")
    return sum(
        approximated_count(outputs, inputs) if index in approximated else full_count(outputs, inputs, convention)
        for index, (inputs, outputs) in enumerate(pairwise(layers), 1)
    )


# How matrices become meshes: one value that commands, files of networks and chips share.


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshMapping:
    """Form, kind of mesh, gains, and whether connected components have meshes of their own.

    Raises:
        ConfigError: ``sigma-u`` has components, or ``components`` is no truth value.
        UnknownNameError: the form, the kind of mesh or the kind of gains does not exist.
    """

    form: Form = "economy"
    mesh: Kind = "rectangular"
    gains: Gains = "rows"
    components: bool = False

    def __post_init__(self) -> None:
        """Raise UnknownNameError for an unknown form, mesh or kind of gains, and ConfigError for components of
        ``sigma-u`` or that are no truth value."""
        names = (("form", self.form, FORMS), ("mesh", self.mesh, KINDS), ("gains", self.gains, GAINS))
        for name, value, known in names:
            if value not in known:
                raise UnknownNameError(name, str(value), known)
        if type(self.components) is not bool:
            raise ConfigError(f"components = {self.components!r}: expected true or false")
        if self.components and not self.is_exact:
            raise ConfigError("sigma-u: the approximation has square blocks, components need svd, economy or compact")

    @property
    def is_exact(self) -> bool:
        """True if ideal devices implement the matrix itself; ``sigma-u`` approximates it."""
        return self.form != "sigma-u"

    def exact(self, where: str = "") -> MeshMapping:
        """Return the mapping itself if it is exact; ``where`` starts the message of the error.

        Raises:
            ConfigError: its form is an approximation.
        """
        if not self.is_exact:
            raise ConfigError(
                f"{where}form {self.form!r} approximates: expected economy, compact or svd, which are exact"
            )
        return self

    def around(self) -> MeshMapping:
        """Return the mapping for P, the matrix in front of a network, and T, the one behind it, which the paper does
        not approximate: ``svd`` in place of ``sigma-u``, else unchanged."""
        return self if self.is_exact else replace(self, form="svd")

    def but(self, **changes: Any) -> MeshMapping:
        """Return the mapping with the values of some fields (form, mesh, gains, components) changed; raises ConfigError
        or UnknownNameError where the result is invalid."""
        return replace(self, **changes)

    def to_json(self) -> Document:
        """Return the fields ``form``, ``mesh`` and ``gains`` (words) and ``components`` (true or false) by name, for
        JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Return the form, the kind of mesh, what is mapped and the gains in words."""
        what = "connected components" if self.components else "whole matrices"
        gain = "a gain for each output" if self.gains == "rows" else "one gain for all outputs"
        return f"{self.form}, {self.mesh} meshes of {what}, {gain}"


BALANCED = MeshMapping(form="svd", components=True)
"""The mapping that bears loss best: square meshes of connected components, whose paths are the most alike."""


def map_part(matrix: ArrayLike, mapping: MeshMapping | None = None) -> MappedMatrix | MappedBlocks:
    """Return the meshes of one matrix [outputs, inputs], mapped as ``mapping`` says; None takes the default mapping.

    They are those of its connected components, of the squares of ``sigma-u`` (both `MappedBlocks`), or of the whole
    matrix.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    chosen = MeshMapping() if mapping is None else mapping
    if chosen.components:
        return map_components(matrix, chosen.form, chosen.mesh, chosen.gains)
    if not chosen.is_exact:
        return map_blocks(matrix, chosen.mesh, chosen.gains)
    return map_matrix(matrix, chosen.form, chosen.mesh, chosen.gains)
