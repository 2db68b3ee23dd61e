"""Counts of what the architecture promises to keep small, in one source tree or in two (``make census``)."""
