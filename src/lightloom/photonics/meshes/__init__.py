"""Meshes of Mach-Zehnder interferometers, which multiply light by a matrix."""
