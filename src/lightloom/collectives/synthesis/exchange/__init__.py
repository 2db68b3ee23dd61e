"""Synthesis of all-to-alls on WDM rings."""
