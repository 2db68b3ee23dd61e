"""Circuits for a traffic matrix: SiP-OCS and SiP-Ring (SiP-ML, sections 3.1 and 3.3)."""
