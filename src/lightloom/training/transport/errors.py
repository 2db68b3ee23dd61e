"""Errors of communication between processes.

LightloomError
├── TransportError   connections between ranks failed: names the rank at fault
└── LaunchError      a worker process ended without a result
"""

from __future__ import annotations

from lightloom.core.errors import LightloomError


class TransportError(LightloomError):
    """Connections between ranks could not be made, or failed; the message names this rank and the one at fault."""


class LaunchError(LightloomError):
    """A worker process failed, died or ran out of time; the message names its rank and quotes its output."""
