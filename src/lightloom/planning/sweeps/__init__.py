"""Sweeps: many collectives and plans from one file, computed by several processes, resumed after a kill."""
