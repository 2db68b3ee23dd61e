"""Figures of averaging networks and their meshes."""
