"""Dollars, watts and failures of clusters: what a step costs, and what is left of a month after failures."""
