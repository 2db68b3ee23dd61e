"""Arguments as people write them: sizes as text or numbers, fabrics and clusters by name, file or object."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias, cast

import numpy as np
from pydantic import Field

from lightloom.collectives.collective import RULES, Collective, Kind, Sizes, read_permutation, read_sizes
from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.core.units import parse

Natural = Annotated[int, Field(ge=0)]
"""A whole number, 0 or more."""
Number = Annotated[float, Field(ge=0)]
"""A number, 0 or more."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A number from 0 to 1; as an option also in per cent."""
Quantity: TypeAlias = str | float
"""``"64MiB"``, ``"25us"``, or a number in SI units."""
Permutation: TypeAlias = str | Sequence[int]
"""``"shift:3"``, ``"reverse"``, or the rank to which each rank sends."""
SizesLike: TypeAlias = str | Path | Sequence[float] | Sequence[Sequence[float]] | Floats | Sizes
"""``"zipf:1.2"``, ``"zipf:1.2:SEED"``, a CSV file of bytes, or sizes relative to each other: [rank] or [source,
destination]."""
Settings: TypeAlias = Mapping[str, object]
"""Fields set on top of a catalog entry or a file, by name."""


def collective_of(
    kind: str | Collective,
    ranks: int,
    nbytes: Quantity | None,
    nbytes_per_rank: Quantity | None = None,
    *,
    permutation: Permutation | None = None,
    sizes: SizesLike | None = None,
) -> Collective:
    """Return the collective of a kind and a size; one that is given as an object is returned as it is.

    ``nbytes`` and ``nbytes_per_rank`` are bytes, or texts with a unit, and exclude one another; neither is needed of a
    barrier, or beside a CSV file of ``sizes``, whose bytes count where none is given.

    Args:
        kind: name of the kind, such as all-reduce, or a collective.
        ranks: number of ranks, which a given collective must have.
        nbytes: what every rank holds in the end (all-gather, broadcast) or at the start (all others), on average where
            sizes differ; the root (gather, scatter); all ranks together (permute).
        nbytes_per_rank: size divided by the number of ranks, in the place of ``nbytes``.
        permutation: to whom each rank sends in a permute: the destinations by rank, or a text (``shift:K``,
            ``reverse``, ``1,0,3,2``); by default to the next.
        sizes: of the parts of an all-to-all-v or a reduce-scatter-v, relative to each other: by pair of ranks [source,
            destination], or by rank; as an object, numbers, or a text (``zipf:EXPONENT[:SEED]``, or a ``.csv`` file of
            bytes).

    Raises:
        ConfigError: no size, two sizes, a collective for another number of ranks or with any other argument beside it,
            or a permutation or sizes that the kind does not have or that cannot be read.
        UnitError: a size that cannot be read.
        UnknownNameError: no such kind.
        UnsupportedError: sizes of all pairs by Zipf's law do not fit in the memory that is free.
    """
    if isinstance(kind, Collective):
        if any(each is not None for each in (nbytes, nbytes_per_rank, permutation, sizes)):
            raise ConfigError(
                "a Collective states its size, permutation and sizes: expected none of nbytes, nbytes_per_rank, "
                "permutation and sizes beside it"
            )
        if kind.ranks != ranks:
            raise ConfigError(f"the collective is over {kind.ranks} ranks, the fabric has {ranks}")
        return kind
    destinations = read_permutation(permutation, ranks) if isinstance(permutation, str) else permutation
    if destinations is not None:
        destinations = tuple(int(rank) for rank in destinations)
    parts, total = _sizes(sizes, kind, ranks)
    if nbytes is None and nbytes_per_rank is None and (kind == "barrier" or total is not None):
        size = total or 0.0
    elif nbytes is not None and nbytes_per_rank is None:
        size = parse(nbytes, "size")
    elif nbytes_per_rank is not None and nbytes is None:
        size = parse(nbytes_per_rank, "size") * ranks
    else:
        raise ConfigError("give either the total size (--nbytes, nbytes) or the size per rank (--nbytes-per-rank)")
    return Collective(cast(Kind, kind), ranks, size, destinations, parts)


def _sizes(sizes: SizesLike | None, kind: str, ranks: int) -> tuple[Sizes | None, float | None]:
    """Return (sizes of parts, stated ``nbytes``): None and None if no sizes are given.

    ``nbytes`` is the sum of a CSV file of bytes, divided by the ranks where parts are those of pairs of ranks; None
    where sizes come from elsewhere.

    Args:
        sizes: as an object; a text ``zipf:EXPONENT[:SEED]`` or a CSV file; or numbers, one a rank or one a pair of
            ranks, [source, destination].
        kind: name of the collective, which says whether parts are those of ranks or of pairs; an unknown one passes.
        ranks: number of ranks.

    Raises:
        ConfigError: sizes that cannot be read, or are no numbers, negative, infinite or all 0, or are neither a list
            nor a square; whether there are as many as ranks is not checked here.
        UnsupportedError: sizes of all pairs by Zipf's law do not fit in the memory that is free.
    """
    if sizes is None or isinstance(sizes, Sizes):
        return sizes, None
    pairs = kind in RULES and RULES[kind].parts == "pairs"
    if isinstance(sizes, str | Path):
        read, total = read_sizes(str(sizes), ranks, pairs=pairs)
        return read, total / ranks if pairs and total is not None else total
    try:
        return Sizes(np.asarray(sizes, np.float64)), None
    except ValueError as error:
        raise ConfigError(f"sizes: {error}: expected numbers, one a rank or one a pair of ranks") from error
