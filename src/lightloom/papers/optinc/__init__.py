"""OptINC (arXiv 2603.28290): averaging inside the light, reproduced."""

from lightloom.papers.study import Paper

PAPER = Paper.load(__name__)
"""Published values of the paper, and the texts of its study."""
