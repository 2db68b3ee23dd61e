"""Permutations of ranks as people write them: who sends to whom in a permute."""

from __future__ import annotations

from lightloom.core.errors import ConfigError

_FORMS = "shift:K (rank r to r + K), reverse, or the rank to which each sends, e.g. 1,0,3,2"


def read_permutation(text: str, ranks: int) -> tuple[int, ...]:
    """The rank to which each rank sends.

    Raises:
        ConfigError: a text of no such form.
    """
    what, _, number = text.partition(":")
    try:
        if what == "shift":
            return tuple((rank + int(number)) % ranks for rank in range(ranks))
        if text == "reverse":
            return tuple(reversed(range(ranks)))
        return tuple(int(rank) for rank in text.split(","))
    except ValueError as error:
        raise ConfigError(f"permutation {text!r}: expected {_FORMS}") from error
