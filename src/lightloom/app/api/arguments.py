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
from lightloom.machines.clusters import load as clusters
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.fabrics import load as fabrics
from lightloom.machines.fabrics.fabric import Fabric

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
FabricLike: TypeAlias = str | Path | Fabric
"""A name of the catalog, a YAML file, or a fabric."""
ClusterLike: TypeAlias = str | Path | Cluster
"""A name of the catalog, a YAML file, or a cluster."""


def load_fabric(
    fabric: FabricLike, ranks: int | None = None, *, set: Settings | None = None, **fields: object
) -> Fabric:
    """Return a fabric from the catalog or a YAML file, with single fields replaced.

    >>> load_fabric("wdm-ring", 64, wavelengths=16, conversion_time="1us")

    Args:
        fabric: a name of the catalog, a ``.yaml`` file, or a fabric of which a changed copy is wanted.
        ranks: number of ranks attached; may be left out for a fabric that is given as an object.
        set: fields and their values, as keywords do.
        fields: single fields by keyword, quantities as text or in SI units.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a field is unknown or out of range, or ``ranks`` is missing.
    """
    settings = {**(set or {}), **fields}
    if isinstance(fabric, Fabric):
        settings |= {} if ranks is None else {"ranks": ranks}
        return fabrics.changed(fabric, settings) if settings else fabric
    if ranks is None:
        raise ConfigError(f"fabric {str(fabric)!r}: expected a number of ranks, e.g. ranks=64")
    return fabrics.load_fabric(str(fabric), ranks, settings)


def load_cluster(
    cluster: ClusterLike, ranks: int | None = None, *, set: Settings | None = None, **fields: object
) -> Cluster:
    """Return a cluster from the catalog or a YAML file, with single fields replaced.

    >>> load_cluster("terarack-64", ranks=32, set={"fabric.wavelengths": 16, "training.batch_per_rank": 8})

    Args:
        cluster: a name of the catalog, a ``.yaml`` file, or a cluster, which is returned as it is.
        ranks: number of ranks; the cluster's own without it.
        set: fields and their values; a dot reaches into a part.
        fields: top-level fields by keyword.

    Raises:
        UnknownNameError: neither a catalog name nor a file.
        ConfigError: a field is unknown or out of range, or a cluster that is given as an object should be changed.
    """
    settings = {**(set or {}), **fields, **({} if ranks is None else {"ranks": ranks})}
    if not isinstance(cluster, Cluster):
        return clusters.load_cluster(cluster, settings)
    if settings:
        raise ConfigError(f"cluster {cluster.name}: expected a name or a file where fields are set")
    return cluster


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

    Args:
        permutation: to whom each rank sends in a permute, by default to the next.
        sizes: of the parts of an all-to-all-v or a reduce-scatter-v; a file of bytes also states the total.

    Raises:
        ConfigError: no size, two sizes, a collective for another number of ranks, or a permutation or sizes that the
            kind does not have or that cannot be read.
        UnitError: a size that cannot be read.
        UnknownNameError: no such kind.
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
    """Return the sizes of parts (None if none are given) and the ``nbytes`` that a file of bytes states, for pairs its
    total divided by the ranks; None where nothing states them. ConfigError where they are no numbers."""
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
