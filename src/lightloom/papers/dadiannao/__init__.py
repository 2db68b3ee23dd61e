"""DaDianNao clusters with optical links (Ro, Lee and Ahn, Electronics 2018)."""

from lightloom.papers.study import Paper

PAPER = Paper.load(__name__)
"""Published values of the paper, and the texts of its study."""
