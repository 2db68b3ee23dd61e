"""The balanced graph: operators split into parts of about one quantum, as columns."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.core.arrays import Floats, Int32s, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BalancedGraph:
    """Sub-operators in columns of length n, in a topological order; parts of one operator lie side by side.

    The parents of sub-operator x are rows ``parent_start[x]`` to ``parent_start[x + 1]`` of the edge columns.
    """

    name: str
    operators: tuple[str, ...]
    """Operators that were split: all but the model's inputs."""
    dimensions: tuple[str, ...]
    """Along which dimension; empty for an operator in one part."""
    first: Ints
    """[operators + 1]: the parts of operator o are ``first[o]`` to ``first[o + 1]``."""
    operator: Int32s
    part: Int32s
    forward: Floats
    """Duration of the forward pass, in seconds."""
    backward: Floats
    """Duration of the backward pass, in seconds."""
    parameters: Ints
    """Elements that are this part's own: they sum to the operator's, also where every part holds a copy of all."""
    memory: Floats
    """Bytes: parameters held with gradients and optimizer state, and the part's output, kept for the backward pass."""
    synchronised: Floats
    """Bytes of gradients exchanged with the part before it, in each direction (copied parameters); 0 for a first part.
    A chain that adds up on its way and then hands out the sums moves each parameter once in each direction."""
    parent_start: Ints
    parent: Int32s
    nbytes: Floats
    """Bytes of an edge, forward; its gradient has as many."""
    content: Ints
    """Edges that leave one sub-operator with equal content carry the same elements."""
    gradient_bytes: int

    @property
    def size(self) -> int:
        """Sub-operators."""
        return len(self.operator)

    def label(self, x: int) -> str:
        """Return the display name of a sub-operator: operator and part."""
        return f"{self.operators[self.operator[x]]}/{self.part[x]}"
