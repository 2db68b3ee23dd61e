"""Transports: laws of their prices, and constants found again from made-up rows."""
