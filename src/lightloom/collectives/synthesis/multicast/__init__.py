"""Synthesis on WDM rings whose lightpaths serve several destinations through taps."""
