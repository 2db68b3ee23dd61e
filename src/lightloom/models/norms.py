"""Normalisations that a library has written in parts, found among the nodes of a graph, as modules of them are traced.

    x ──► [cast] ──► square ──► mean ──► add ──► rsqrt ──► mul ──► [cast] ──► mul ──► y      one norm of x and weight
               └────────────────────────────────────────────┘                  └── weight

Traces and ONNX files name no modules. What tells such a norm is its arithmetic: a tensor is multiplied by the
reciprocal root of the mean of its own squares, which nothing else reads. Accelerators run it as one kernel.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set

_CASTS = frozenset({"to", "to_copy", "type_as", "float", "identity"})
_BETWEEN = _CASTS | {"add", "clamp", "clamp_min", "maximum"}
"""Calls between the mean of squares and the root: adding epsilon, and casts."""


class NormFinder(ABC):
    """Finder of norms among nodes that are named by their places, in the order in which they run."""

    words: Mapping[int, str]
    """Plain word of each node."""
    reads: Mapping[int, Sequence[Hashable]]
    """Tensors that a node reads, equal where they are the same elements."""
    sources: Mapping[int, Sequence[int | None]]
    """Place of the node that computed each tensor that a node reads; None where none did."""
    readers: Mapping[int, Set[int]]
    """Places of the nodes that compute with the result of a node; -1 stands for a result of the model."""

    @abstractmethod
    def weighs(self, place: int, last: int) -> bool:
        """Return whether the node at ``place``, which follows a norm ending at ``last``, reads one number for each
        channel of that norm's result (a weight or a bias)."""

    def joins(self, place: int) -> bool:
        """Return whether the node at ``place``, which computes what a norm reads, can be a part of it: a cast, a mean,
        or the subtraction of a mean."""
        taken = [self.words[source] for source in self.sources[place] if source is not None]
        return self.words[place] in (*_CASTS, "mean") or (self.words[place] == "sub" and "mean" in taken)

    def norms(self) -> Iterator[list[int]]:
        """Yield the places of the parts of each norm, a tensor divided by the root of the mean of its own squares,
        ascending; no node is a part of two, and nothing outside reads the result of a part but of the last."""
        taken: set[int] = set()
        for root in self.words:
            norm = self._around(root)
            if norm and norm.isdisjoint(taken):
                norm = self._whole(norm, taken)
                if all(self.readers[place] <= norm for place in norm - {max(norm)}):
                    taken |= norm
                    yield sorted(norm)

    def _around(self, root: int) -> set[int]:
        """Return the places from the square to the scaled tensor around the node ``root``; empty unless it is the root
        of a norm.

        The tensor scaled must be the one that is squared, multiplied by a reciprocal root or divided by a root.
        """
        parts, word, scaled = [root], self.words[root], self._only_reader(root)
        if word not in ("sqrt", "rsqrt") or scaled is None:
            return set()
        inverted = word == "rsqrt"
        if self.words[scaled] == "reciprocal":
            inverted, parts, scaled = not inverted, [scaled, root], self._only_reader(scaled)
        while (mean := self._first(parts[-1])) is not None and self.words[mean] in _BETWEEN:
            parts.append(mean)
        square = None if mean is None or self.words[mean] != "mean" else self._first(mean)
        if mean is None or square is None or scaled is None or not self._squares(square):
            return set()
        scales = self.words[scaled] == ("mul" if inverted else "div")
        return {*parts, mean, square, scaled} if scales and self.reads[square][0] in self.reads[scaled] else set()

    def _whole(self, norm: set[int], taken: set[int]) -> set[int]:
        """Return the places of a norm with what belongs to it: behind it casts, and the weight and bias of its
        channels; before it the nodes that can be a part of it by :meth:`joins`.

        Nodes in ``taken`` are left to other norms; what precedes is taken only if nothing else reads it.
        """
        last, norm = max(norm), set(norm)
        while (follower := self._only_reader(last)) is not None and follower not in taken:
            word = self.words[follower]
            if word not in _CASTS and not (word in ("mul", "add") and self.weighs(follower, last)):
                break
            norm.add(follower)
            last = follower
        waiting = list(norm)
        while waiting:
            for source in self.sources[waiting.pop()]:
                known = source is None or source in norm or source in taken
                if source is not None and not known and self.readers[source] <= norm and self.joins(source):
                    norm.add(source)
                    waiting.append(source)
        return norm

    def _squares(self, place: int) -> bool:
        """Return whether the node at ``place`` squares a tensor: a product of it with itself, or a node of word ``pow``
        or ``square``, whatever its exponent."""
        word, read = self.words[place], self.reads[place]
        return word in ("pow", "square") or (word == "mul" and len(read) == 2 and read[0] == read[1])

    def _first(self, place: int) -> int | None:
        """Return the place of the node that computed the first tensor read at ``place``; None if no node did."""
        return next(iter(self.sources[place]), None)

    def _only_reader(self, place: int) -> int | None:
        """Return the place of the one node that computes with the result made at ``place``; None if several or none do,
        or the model returns it."""
        readers = self.readers[place]
        return next((reader for reader in readers if reader in self.words), None) if len(readers) == 1 else None
