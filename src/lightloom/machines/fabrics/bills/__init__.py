"""Bills of fabrics: which parts, and how many for a rank; a fabric's class gives its own numbers to these functions."""
