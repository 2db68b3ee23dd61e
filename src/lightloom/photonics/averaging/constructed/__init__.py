"""Circuits of averaging that are exact by construction, one form a file."""
