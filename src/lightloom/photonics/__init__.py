"""Optical signals and devices."""
