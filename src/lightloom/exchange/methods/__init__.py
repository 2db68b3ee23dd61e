"""The methods that lightloom has, one file a kind; none needs torch."""

from lightloom.exchange.methods import blocks, plain
from lightloom.exchange.registry import Family

BUILT_IN: tuple[Family, ...] = (*plain.FAMILIES, *blocks.FAMILIES)
