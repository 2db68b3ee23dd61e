"""Fabrics of any graph: ranks and switches joined by the links of an edge list."""
