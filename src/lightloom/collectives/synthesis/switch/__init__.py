"""Synthesis on optical circuit switches."""
