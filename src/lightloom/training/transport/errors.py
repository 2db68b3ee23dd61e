"""What can go wrong between processes.

LightloomError
├── TransportError   a ring of sockets broke: names the rank at fault
└── LaunchError      a worker process ended without a result
"""

from __future__ import annotations

from lightloom.core.errors import LightloomError


class TransportError(LightloomError):
    """A ring of sockets could not be set up, or broke; the message names this rank and the one at fault."""


class LaunchError(LightloomError):
    """A worker process failed, died or ran out of time; the message names its rank and its last words."""
