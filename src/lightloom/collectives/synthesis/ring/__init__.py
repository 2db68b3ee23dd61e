"""Synthesis of collectives on WDM rings, sound and damaged."""
