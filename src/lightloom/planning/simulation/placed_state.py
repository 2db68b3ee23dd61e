"""Work and state of a placed step, as the named tuples of arrays that compiled loops take."""

from typing import NamedTuple

from lightloom.core.arrays import Floats, Int32s, Ints, Mask


class Nodes(NamedTuple):
    """The work of a step; arrays of shape [node] but for the followers."""

    resource: Int32s
    """Device 0 ... k − 1, pipe k + 0, 1, ..., or −1 for a node that takes no time."""
    amount: Floats
    """Seconds of computing, bytes of a hop."""
    delay: Floats
    """Seconds from a node's end to the start of those that follow it."""
    pipe: Int32s
    """Pipe of a hop, −1 of any other node."""
    first: Ints
    """[node + 1]: those that wait for node x are ``follower[first[x] : first[x + 1]]``."""
    follower: Int32s


class Ports(NamedTuple):
    """Where pipes leave and enter devices; arrays of shape [pipe] but for those of the ports. A port has one parcel at
    a time; ports that are left and ports that are entered are numbered together."""

    leaves: Ints
    """Port at the device that sends."""
    enters: Ints
    """Port at the device that receives."""
    first: Ints
    """[port + 1]: the pipes of port p are ``member[first[p] : first[p + 1]]``."""
    member: Ints
    turn: Ints
    """Place among pipes whose parcels have been ready equally long."""
    pipe: Ints
    """The pipe of each place."""
    shared: bool
    """True when some port has several pipes."""


class Holds(NamedTuple):
    """Circuits that come round: holds of one period each, which begin dark."""

    rates: Floats
    """Bytes per second of each pipe in each hold: [holds, pipe]; the first again after the last."""
    dark: Floats
    """Rates while circuits are set, 0 for every pipe: [pipe]."""
    period: float
    """Seconds from one hold to the next."""
    reconfiguration: float
    """Seconds at the beginning of a hold in which no pipe sends."""
    most: int
    """Number of holds after which the step is given up."""


class Stretches(NamedTuple):
    """Sending, without the time in which a pipe was dark; arrays of shape [stretch]."""

    node: Ints
    start: Floats
    end: Floats
    nbytes: Floats
    """Bytes that are sent in the stretch."""


class State(NamedTuple):
    """The state of a simulated step, changed in place.

    Queues are rows of ``key`` and ``item``: one for each device (a heap; nodes of smaller number first) and pipe (first
    in, first out), then the ends of computing and arrivals, the ends of hops, and pipes that can send (heaps by time).
    """

    waits: Int32s
    """[node] for how many others it still waits."""
    ready: Floats
    """[node] moment at which it waits for nothing more, in seconds; NaN until then."""
    start: Floats
    """[node] moment at which it begins, in seconds."""
    piece: Floats
    """[node] moment at which its last stretch without a dark period began, in seconds."""
    end: Floats
    """[node] moment at which it ends, in seconds."""
    key: Floats
    item: Int32s
    first_row: Ints
    """[queue + 1] where the rows of each queue begin."""
    head: Ints
    size: Ints
    current: Int32s
    """[resource] node at work, or −1."""
    remaining: Floats
    """[resource] bytes still to send of the node at work."""
    listed: Mask
    """[resource] whether it is listed in ``idle``."""
    busy: Mask
    """[port] whether a parcel leaves or enters there."""
    idle: Int32s
    """Resources that may begin a node."""
    counts: Ints
    """Nodes done; entries of ``idle``; devices and pipes at work."""
    totals: Floats
    """Seconds that hops waited in the dark; moment of the last event; then seconds of the step by what it waits for:
    computing, else sending, else reconfiguration, else nothing."""
    stack: Int32s
