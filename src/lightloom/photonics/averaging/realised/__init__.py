"""Circuits as weights: layered networks, their files and their area."""
