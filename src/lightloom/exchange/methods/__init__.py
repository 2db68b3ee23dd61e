"""The methods that lightloom has, one file a kind; none needs torch."""

from lightloom.exchange.family import Family
from lightloom.exchange.methods import blocks, low_rank, optical, periodic, plain, ring_codec, sparse, two_level

BUILT_IN: tuple[Family, ...] = (
    *plain.FAMILIES,
    *blocks.FAMILIES,
    *ring_codec.FAMILIES,
    *sparse.FAMILIES,
    *low_rank.FAMILIES,
    *periodic.FAMILIES,
    *two_level.FAMILIES,
    *optical.FAMILIES,
)
