"""Collectives of many groups of ranks at once on one circuit-switched fabric: joint schedules and their bound."""
