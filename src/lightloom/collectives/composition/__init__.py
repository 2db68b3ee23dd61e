"""Collectives of groups of ranks that follow each other and together serve all ranks."""
