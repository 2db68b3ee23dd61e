"""Errors of communication between processes.

LightloomError
├── InputError
│   └── AgreedError  all ranks refuse alike
├── TransportError   connections between ranks failed: names the rank at fault
└── LaunchError      a worker process ended without a result
"""

from __future__ import annotations

from lightloom.core.errors import InputError, LightloomError


class AgreedError(InputError):
    """All ranks of an exchange raise this together, in step: connections stay, and the next exchange works."""


class TransportError(LightloomError):
    """Connections between ranks could not be made, or failed; the message names this rank and the one at fault."""


class LaunchError(LightloomError):
    """A worker process failed, died or ran out of time; the message names its rank and quotes its output."""
