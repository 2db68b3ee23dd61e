"""OpTree: all-gather on a ring of wavelengths (Dai, Chen, Huang and Zhang, ICC 2023)."""

from lightloom.papers.study import Paper

PAPER = Paper.load(__name__)
"""Published values of the paper, and the texts of its study."""
