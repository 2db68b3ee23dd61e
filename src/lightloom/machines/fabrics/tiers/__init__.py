"""Fabrics of tiers: switches, rings, tori, full meshes and circuit switches around each other."""
