"""The type of constants that decide how much is tried, kept or held in memory at once.

Such a constant can be one more or one less without any result being wrong.
"""

from __future__ import annotations

Effort = int
"""A number of rows, bytes, rounds or entries."""
