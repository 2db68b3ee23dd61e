"""SiP-ML (Khani et al., SIGCOMM 2021): degrees, placement, circuits, and training time against electrical fabrics."""

from lightloom.papers.study import Paper

PAPER = Paper.load(__name__)
"""Published values of the paper, and the texts of its study."""
