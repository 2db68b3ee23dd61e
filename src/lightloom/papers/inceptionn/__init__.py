"""INCEPTIONN (MICRO 2018): its tables and figures, measured where they can be."""

from lightloom.papers.study import Paper

PAPER = Paper.load(__name__)
"""Published values of the paper, and the texts of its study."""
