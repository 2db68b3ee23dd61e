"""How matrices become meshes: one value that commands, files of networks and chips share."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.photonics.meshes.blocks import MappedBlocks, map_blocks, map_components
from lightloom.photonics.meshes.layout import KINDS, Kind
from lightloom.photonics.meshes.mapping import FORMS, GAINS, Form, Gains, MappedMatrix, map_matrix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from lightloom.core.results import Document


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
        """Whether ideal devices implement the matrix itself; ``sigma-u`` approximates it."""
        return self.form != "sigma-u"

    def exact(self) -> MeshMapping:
        """Return the mapping itself.

        Raises:
            ConfigError: its form is an approximation.
        """
        if not self.is_exact:
            raise ConfigError(f"form {self.form!r} approximates: expected economy, compact or svd, which are exact")
        return self

    def around(self) -> MeshMapping:
        """Return the mapping of P and T, which the paper does not approximate: ``svd`` in place of ``sigma-u``."""
        return self if self.is_exact else replace(self, form="svd")

    def but(self, **changes: Any) -> MeshMapping:
        """Return the mapping with other values."""
        return replace(self, **changes)

    def to_json(self) -> Document:
        """Return all four values by name."""
        return asdict(self)

    def __str__(self) -> str:
        what = "connected components" if self.components else "whole matrices"
        gain = "a gain for each output" if self.gains == "rows" else "one gain for all outputs"
        return f"{self.form}, {self.mesh} meshes of {what}, {gain}"


BALANCED = MeshMapping(form="svd", components=True)
"""The mapping that bears loss best: square meshes of connected components, whose paths are the most alike."""


def map_part(matrix: ArrayLike, mapping: MeshMapping | None = None) -> MappedMatrix | MappedBlocks:
    """Map one matrix [outputs, inputs] to meshes: all of it, its connected components, or the squares of ``sigma-u``.

    Raises:
        ConfigError: the argument is not a finite matrix.
    """
    chosen = MeshMapping() if mapping is None else mapping
    if chosen.components:
        return map_components(matrix, chosen.form, chosen.mesh, chosen.gains)
    if not chosen.is_exact:
        return map_blocks(matrix, chosen.mesh, chosen.gains)
    return map_matrix(matrix, chosen.form, chosen.mesh, chosen.gains)
