"""What the compiled loops of placement read and change, as named tuples of arrays.

Neighbours of a sub-operator are those with which it exchanges data: its parents and the part with which it shares
parameters come ``before`` it, and it comes before those ``after`` it.
"""

from __future__ import annotations

from typing import NamedTuple

from lightloom.core.arrays import Floats, Int32s, Ints, Mask


class Neighbours(NamedTuple):
    """Neighbours on one side: those of sub-operator x are rows ``start[x]`` to ``start[x + 1]``."""

    start: Ints
    """[sub-operators + 1]."""
    node: Int32s
    """[row] the neighbour."""
    delay: Floats
    """[row] seconds of a transfer between two devices; negative where neither waits for the other."""


class PlacementProblem(NamedTuple):
    """What is placed, and the limits; arrays have shape [sub-operators] unless they say otherwise."""

    order: Ints
    """Sub-operators in the order in which they start."""
    before: Neighbours
    after: Neighbours
    forward: Floats
    """Duration of the forward pass, in seconds."""
    backward: Floats
    """Duration of the backward pass, in seconds."""
    memory: Floats
    """Bytes that each holds on its device."""
    capacity: float
    """Memory of a device, in bytes."""
    offsets: Ints
    """Allowed values of (device after − device before) modulo the devices."""
    allowed: Mask
    """[devices] the same as a mask."""


class PlacementState(NamedTuple):
    """A partial placement, changed in place."""

    device: Int32s
    """[sub-operators] device, or −1."""
    used: Floats
    """[devices] bytes."""
    free: Floats
    """[devices] seconds at which the device is free."""
    pending: Mask
    """[sub-operators] whether the repair must look at it."""
    moves: Ints
    """[1] moves of the repair."""
    reached: Ints
    """[devices] scratch space, 0 between calls."""
    votes: Ints
    """[devices] scratch space: neighbours that each device reaches."""
    end: Floats
    """[sub-operators] end of each in the forward pass, in seconds."""
    latest: Floats
    """[devices] scratch space: end of the latest producer there, which is its arrival without a transfer."""


class Arrivals(NamedTuple):
    """When the inputs of a sub-operator arrive by transfers."""

    first: float
    """Latest arrival by a transfer, in seconds."""
    first_device: int
    """Device from which that comes, or −1."""
    second: float
    """Latest arrival by a transfer from any other device, in seconds."""
    home: int
    """Device of the producer with the longest transfer, or −1."""
