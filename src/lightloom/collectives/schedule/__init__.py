"""Schedules as columns, and what generators build them with: moves, composition, wavelengths."""
