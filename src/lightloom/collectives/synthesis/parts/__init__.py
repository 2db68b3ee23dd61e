"""Synthesis of collectives each part of which goes from one rank to one rank, parts of any size."""
