"""Normalisations that a library has written in parts, each as one call, as modules of them are traced.

    x ──► [to] ──► pow ──► mean ──► add ──► rsqrt ──► mul ──► [to] ──► mul ──► y        one call: rms_norm(x, weight)
            └─────────────────────────────────────────┘                └── weight

A trace names no modules. What tells such a norm is its arithmetic: a tensor is multiplied by the reciprocal root of the
mean of its own squares, which nothing else reads. Accelerators run it as one kernel (``workloads/torch/saved.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lightloom.interchange.traces.calls import Call, TraceTensor
from lightloom.interchange.traces.passes import made
from lightloom.workloads.operator_words import plain_word

_CASTS = frozenset({"to", "to_copy", "type_as", "float"})
_ROOTS = {"rsqrt": "mul", "sqrt": "div"}
"""What scales a tensor by a root."""
_BETWEEN = _CASTS | {"add", "clamp", "clamp_min", "maximum"}
"""What lies between the mean of squares and the root: the least value, and casts."""


def with_whole_norms(calls: Sequence[Call]) -> list[Call]:
    """Return the calls of a forward pass, the parts of each norm as one call in the place of the last of them."""
    return list(_Norms(calls).merged())


class _Norms:
    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._words = [plain_word(call.name) for call in calls]
        self._sources: list[list[int | None]] = []
        """For each call the place of the call that computed each tensor that it reads; None for those that none did."""
        self._readers: list[set[int]] = [set() for _ in calls]
        producer: dict[int, int] = {}
        for place, call in enumerate(calls):
            self._sources.append([producer.get(tensor.storage) for tensor in call.reads])
            results = made(call)
            for source in self._sources[place] if results else ():  # views share what they are of
                if source is not None:
                    self._readers[source].add(place)
            producer.update((tensor.storage, place) for tensor in results)

    def merged(self) -> Iterator[Call]:
        norms: dict[int, Call] = {}
        parts: set[int] = set()
        for place in range(len(self._calls)):
            norm = self._norm(place)
            if norm and parts.isdisjoint(norm):
                norms[max(norm)] = self._whole(sorted(norm))
                parts |= norm
        for place, call in enumerate(self._calls):
            if place in norms:
                yield norms[place]
            elif place not in parts:
                yield call

    def _norm(self, root: int) -> set[int]:
        """Return the parts of the norm with a root at that place; none if it is of none."""
        if self._words[root] not in _ROOTS:
            return set()
        chain = [root]
        while (source := self._first(chain[-1])) is not None and self._words[source] in _BETWEEN:
            chain.append(source)
        square = None if source is None or self._words[source] != "mean" else self._first(source)
        scaled = self._only_reader(root)
        if source is None or square is None or scaled is None or not self._squares(square):
            return set()
        values = self._calls[square].reads[0]
        if self._words[scaled] != _ROOTS[self._words[root]] or not any(_same(values, t) for t in self._read(scaled)):
            return set()
        norm = self._with_what_follows({*chain, source, square, scaled}, scaled)
        self._add_what_precedes(norm)
        inside = norm - {max(norm)}
        return norm if all(self._readers[place] <= norm for place in inside) else set()

    def _with_what_follows(self, norm: set[int], last: int) -> set[int]:
        """Add casts, and weight and bias of the channels."""
        follower = self._only_reader(last)
        while follower is not None and (
            self._words[follower] in _CASTS
            or (self._words[follower] in ("mul", "add") and self._by_channels(follower, last))
        ):
            norm.add(follower)
            last, follower = follower, self._only_reader(follower)
        return norm

    def _add_what_precedes(self, norm: set[int]) -> None:
        """Add casts of what it reads, one plus its weight, and what takes away the mean."""
        waiting = list(norm)
        while waiting:
            for source in self._sources[waiting.pop()]:
                if source is not None and source not in norm and self._readers[source] <= norm and self._joins(source):
                    norm.add(source)
                    waiting.append(source)

    def _joins(self, place: int) -> bool:
        word, shape = self._words[place], self._calls[place].returns[0].shape
        if word == "sub":
            return any(len(t.shape) == len(shape) and t.shape[-1:] == (1,) for t in self._read(place))
        return word in _CASTS or word == "mean" or (word == "add" and len(shape) == 1)

    def _by_channels(self, place: int, norm: int) -> bool:
        """Whether a call combines the result of another with one element for each of its channels."""
        channels = self._calls[norm].returns[0].shape[-1:]
        return any(t.shape[-1:] == channels and t.elements == channels[0] for t in self._read(place)[:2])

    def _squares(self, place: int) -> bool:
        read = self._read(place)
        word = self._words[place]
        return word in ("pow", "square") or (word == "mul" and len(read) == 2 and _same(*read))

    def _read(self, place: int) -> list[TraceTensor]:
        return self._calls[place].reads

    def _first(self, place: int) -> int | None:
        return next(iter(self._sources[place]), None)

    def _only_reader(self, place: int) -> int | None:
        readers = self._readers[place]
        return next(iter(readers)) if len(readers) == 1 else None

    def _whole(self, norm: list[int]) -> Call:
        calls = [self._calls[place] for place in norm]
        reads = [
            tensor
            for place in norm
            for source, tensor in zip(self._sources[place], self._calls[place].reads, strict=True)
            if source not in norm
        ]
        last = calls[-1]
        return Call(last.id, "aten::rms_norm", last.schema, -1, reads, last.returns, [], calls=calls)


def _same(one: TraceTensor, other: TraceTensor) -> bool:
    return (one.storage, one.offset, one.shape) == (other.storage, other.offset, other.shape)
