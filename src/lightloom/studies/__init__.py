"""Reproductions of papers: their tables and figures, and ours."""
