"""Synthesis on meshes, tori and electrical rings."""
