"""Figures of plans, schedules and circuits."""
