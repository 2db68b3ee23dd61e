"""Layouts of meshes: each MZI joins two neighbouring modes in a column; light passes the columns from left to right.

rectangular, 4 modes            triangular, 4 modes             triangular, 2 inputs fan out to 4

0 ──█──────█──────              0 ──────────────█──────         0 ──────█──────────────
1 ──█──█───█──█───              1 ──────────█───█───█──         1 ──█───█───█──────────
2 ──█──█───█──█───              2 ──────█───█───█───█──   ...   2 ──█───█───█───█──────
3 ──█──────█──────                                              3 ──────█───────█──────

The rectangle is the interleaving array of the OptINC paper's Fig. 2 (Clements et al., Optica 3, 1460), the triangle
that of Reck et al., PRL 73, 58. A triangle may have fewer inputs or fewer outputs than modes: MZIs that no light
reaches, or whose light reaches no output, are then left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from lightloom.core.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["rectangular", "triangular"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Positions of MZIs, ordered by column, then by mode. MZI k joins modes ``modes[k]`` and ``modes[k] + 1``."""

    kind: Kind
    inputs: int
    outputs: int
    modes: NDArray[np.int64]
    columns: NDArray[np.int64]
    chains: NDArray[np.int64]
    """Indices of the MZIs along diagonals, another valid order of propagation."""

    @property
    def size(self) -> int:
        """Number of modes, including dark ones."""
        return max(self.inputs, self.outputs)

    @property
    def count(self) -> int:
        """Number of MZIs in the mesh."""
        return int(self.modes.size)

    @property
    def depth(self) -> int:
        """Number of columns that light passes."""
        return int(self.columns[-1]) + 1 if self.count else 0


def mzi_count(kind: Kind, inputs: int, outputs: int) -> int:
    """Return the number of MZIs of a mesh, in closed form.

    Raises:
        ConfigError: a number of modes is not a whole number of at least 1, or a rectangular mesh has unequal ones.
        UnknownNameError: the kind does not exist.
    """
    if kind not in KINDS:
        raise UnknownNameError("mesh", str(kind), KINDS)
    if type(inputs) is not int or type(outputs) is not int or inputs < 1 or outputs < 1:
        raise ConfigError(f"mesh with {inputs} inputs and {outputs} outputs: expected whole numbers of at least 1")
    if kind == "rectangular" and inputs != outputs:
        raise ConfigError(
            f"rectangular mesh with {inputs} inputs, {outputs} outputs: they may differ in triangular meshes only"
        )
    size, lit = max(inputs, outputs), min(inputs, outputs)
    return lit * (2 * size - lit - 1) // 2


@cache
def layout(kind: Kind, inputs: int, outputs: int) -> Layout:
    """Return the layout of that kind; its arrays are shared and read-only.

    Raises:
        InputError: there is no such mesh, see `mzi_count`.
    """
    mzi_count(kind, inputs, outputs)
    if kind == "rectangular":
        columns, modes = _rectangle(inputs)
    else:
        columns, modes = _triangle(max(inputs, outputs), min(inputs, outputs))
        if outputs < inputs and columns.size:
            columns = columns.max() - columns
    # Stable sorts: in a column modes ascend as they are made, and along a diagonal columns ascend from here on.
    order = np.argsort(columns, kind="stable")
    columns, modes = columns[order], modes[order]
    chains = np.argsort(columns - modes, kind="stable")
    for array in (columns, modes, chains):
        array.setflags(write=False)
    return Layout(kind=kind, inputs=inputs, outputs=outputs, modes=modes, columns=columns, chains=chains)


def _rectangle(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    column, mode = np.meshgrid(np.arange(size), np.arange(size - 1), indexing="ij")
    used = (column - mode) % 2 == 0
    return column[used], mode[used]


def _triangle(size: int, lit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return columns and modes. Chain k runs from mode k to the last; the chain of the last lit mode comes first."""
    last = min(lit - 1, size - 2)
    chain, mode = np.meshgrid(np.arange(last + 1), np.arange(size - 1), indexing="ij")
    used = mode >= chain
    return (mode - 2 * chain + last)[used], mode[used]
