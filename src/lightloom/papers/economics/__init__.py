"""Published costs, powers and reliabilities of clusters, each beside what the catalog of parts and the models give."""

from lightloom.papers.study import Paper

PAPER = Paper.load(__name__)
"""Published values, and the texts of the study."""
