"""The methods that lightloom has, one file a kind; none needs torch."""

from lightloom.exchange.family import Family
from lightloom.exchange.methods import blocks, plain

BUILT_IN: tuple[Family, ...] = (*plain.FAMILIES, *blocks.FAMILIES)
