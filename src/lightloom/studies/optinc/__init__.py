"""OptINC (arXiv 2603.28290): averaging inside the light, reproduced."""
