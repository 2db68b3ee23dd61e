"""An interpreter of MSCCL programs that shares no code with lightloom: what a program does, and whether it is right.

Threadblocks are state machines; values are multisets of contributions (GPU, chunk of its input). A run is one order of
many. Whether all orders give the same is decided on the graph of what comes before what: the events of a run with the
edges of threadblocks, dependencies and messages, transitively closed. Two accesses of a chunk, one of them a write,
that no path orders can meet element by element on a GPU, and count as wrong.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

Value = Counter[tuple[int, int]]
Spot = tuple[int, str, int]
"""GPU, buffer, offset."""

_SENDS = {"s", "rcs", "rrs", "rrcs"}
_RECEIVES = {"r", "rcs", "rrs", "rrc", "rrcs"}
_LOADS = {"s", "rrs", "rrc", "rrcs", "cpy", "re"}
_STORES = {"r", "rcs", "rrc", "rrcs", "cpy", "re"}
_SLOTS = {"Simple": 2, "LL": 8, "LL128": 8}


class Wrong(Exception):
    """Why a program is wrong."""


@dataclass
class _Thread:
    gpu: int
    send: int
    receive: int
    channel: int
    steps: list[dict[str, str]]
    at: int = 0


@dataclass
class _Event:
    """A step that ended, with the events that it directly follows and the spots that it used."""

    after: set[int] = field(default_factory=set)
    loads: set[Spot] = field(default_factory=set)
    stores: set[Spot] = field(default_factory=set)


class Interpreter:
    """One program, run once: ``run`` raises :class:`Wrong` with a reason where it is wrong."""

    def __init__(self, text: str, in_place: bool) -> None:
        root = ET.fromstring(text)
        self.kind, self.loop = (
            root.attrib["coll"].replace("reducescatter", "reduce_scatter"),
            int(root.attrib["nchunksperloop"]),
        )
        self.slots, self.in_place = _SLOTS[root.attrib["proto"]], in_place
        self.gpus = [list(gpu) for gpu in root]
        self.count = len(self.gpus)
        share, uneven = divmod(self.loop, self.count)
        if uneven and self.kind in ("allgather", "reduce_scatter", "alltoall"):
            raise Wrong("chunks that the GPUs cannot share")
        self.size = {
            "i": share if self.kind == "allgather" else self.loop,
            "o": share if self.kind == "reduce_scatter" else self.loop,
        }
        self.scratch = [int(gpu.attrib["s_chunks"]) for gpu in root]
        self.threads = [[_thread(gpu, block) for block in blocks] for gpu, blocks in enumerate(self.gpus)]
        self.memory: dict[Spot, Value] = {}
        for gpu in range(self.count):
            for k in range(self.size["i"]):
                self.memory[self.spot(gpu, "i", k)] = Counter({(gpu, k): 1})
        self.wires: dict[tuple[int, int, int], deque[tuple[list[Value | None], int]]] = defaultdict(deque)
        self.events: list[_Event] = []
        self.ended: dict[tuple[int, int, int], int] = {}
        self.messages = 0

    def spot(self, gpu: int, buffer: str, offset: int) -> Spot:
        """Where a chunk lies: in place, the smaller of input and output is a window of the larger."""
        size = self.size.get(buffer, self.scratch[gpu])
        if not 0 <= offset < size:
            raise Wrong(f"offset {offset} of {buffer}, which has {size}")
        if buffer == "s" or not self.in_place:
            return gpu, buffer, offset
        shift = gpu * size if size < max(self.size.values()) else 0
        return gpu, "io", shift + offset

    def run(self) -> dict[Spot, Value]:
        """Run to the end, and check the result and that it depends on no order."""
        moved = True
        while moved:
            moved = False
            for threads in self.threads:
                for number, thread in enumerate(threads):
                    while thread.at < len(thread.steps) and self._step(number, thread, threads):
                        moved = True
        if any(thread.at < len(thread.steps) for threads in self.threads for thread in threads):
            raise Wrong("waits forever")
        if any(self.wires.values()):
            raise Wrong("a message is left")
        self._races()
        self._result()
        return self.memory

    def _step(self, number: int, thread: _Thread, threads: list[_Thread]) -> bool:
        step = thread.steps[thread.at]
        kind, count = step["type"], int(step["cnt"])
        event = _Event()
        if int(step["depid"]) >= 0:
            told = self._announcer(threads, int(step["depid"]), int(step["deps"]))
            if (thread.gpu, int(step["depid"]), told) not in self.ended:
                return False
            event.after.add(self.ended[thread.gpu, int(step["depid"]), told])
        if kind == "nop":
            if int(step["depid"]) < 0 or thread.at + 1 == len(thread.steps):
                raise Wrong("a nop without a purpose")
        elif kind not in _SENDS | _RECEIVES | _STORES:
            raise Wrong(f"type {kind}")
        elif not self._work(thread, step, kind, count, event):
            return False
        if thread.at and thread.steps[thread.at - 1]["type"] == "nop" and int(step["depid"]) < 0:
            raise Wrong("what follows a nop does not wait")
        if (thread.gpu, number, thread.at - 1) in self.ended:
            event.after.add(self.ended[thread.gpu, number, thread.at - 1])
        self.events.append(event)
        self.ended[thread.gpu, number, thread.at] = len(self.events) - 1
        thread.at += 1
        return True

    def _announcer(self, threads: list[_Thread], block: int, step: int) -> int:
        """The step that raises the flag for which others wait."""
        if not 0 <= block < len(threads) or not 0 <= step < len(threads[block].steps):
            raise Wrong("waits for what does not exist")
        for later in range(step, len(threads[block].steps)):
            if threads[block].steps[later]["hasdep"] == "1" and threads[block].steps[later]["type"] != "nop":
                return later
        raise Wrong("waits for what is never announced")

    def _work(self, thread: _Thread, step: dict[str, str], kind: str, count: int, event: _Event) -> bool:
        gpu = thread.gpu
        if count < 1:
            raise Wrong("no chunk")
        inbound = (thread.receive, gpu, thread.channel)
        outbound = (gpu, thread.send, thread.channel)
        if (kind in _RECEIVES and thread.receive < 0) or (kind in _SENDS and thread.send < 0):
            raise Wrong("no peer")
        if kind in _RECEIVES and not self.wires[inbound]:
            return False
        # A threadblock that receives and sends on one step needs both: it keeps what it received until there is room.
        if kind in _SENDS and len(self.wires[outbound]) >= self.slots:
            return False
        values: list[Value | None] = []
        received: list[Value | None] = [None] * count
        if kind in _RECEIVES:
            received, sender = self.wires[inbound].popleft()
            if len(received) != count:
                raise Wrong("a message of another size")
            event.after.add(sender)
        for k in range(count):
            loaded = None
            if kind in _LOADS:
                spot = self.spot(gpu, step["srcbuf"], int(step["srcoff"]) + k)
                event.loads.add(spot)
                loaded = self.memory.get(spot)
            value = loaded if kind not in _RECEIVES else received[k]
            if kind in {"rrs", "rrc", "rrcs"}:
                value = _sum(loaded, received[k])
            if kind in _STORES:
                target = self.spot(gpu, step["dstbuf"], int(step["dstoff"]) + k)
                if kind == "re":
                    event.loads.add(target)
                    value = _sum(loaded, self.memory.get(target))
                event.stores.add(target)
                self.memory[target] = Counter({(-1, -1): 1}) if value is None else value
            values.append(value)
        if kind in _SENDS:
            self.messages += 1
            self.wires[outbound].append((values, len(self.events)))
        return True

    def _races(self) -> None:
        """Any two accesses of a spot, one a write, lie on one path."""
        before: list[int] = []
        for event in self.events:
            mask = 0
            for number in event.after:
                mask |= before[number] | 1 << number
            before.append(mask)
        users: dict[Spot, list[tuple[int, bool]]] = defaultdict(list)
        for number, event in enumerate(self.events):
            for spot in event.loads | event.stores:
                writes = spot in event.stores
                for other, wrote in users[spot]:
                    if (writes or wrote) and not before[number] >> other & 1:
                        raise Wrong(f"a race for {spot}")
                users[spot].append((number, writes))

    def _result(self) -> None:
        share = max(1, self.loop // self.count)
        everyone = range(self.count)
        for gpu in everyone:
            for k in range(self.size["o"]):
                want: Value = Counter()
                if self.kind == "allgather":
                    want[k // share, k % share] = 1
                elif self.kind == "alltoall":
                    want[k // share, gpu * share + k % share] = 1
                else:
                    chunk = gpu * share + k if self.kind == "reduce_scatter" else k
                    want.update({(other, chunk): 1 for other in everyone})
                if self.memory.get(self.spot(gpu, "o", k)) != want:
                    raise Wrong(f"GPU {gpu}, output {k}")


def _thread(gpu: int, block: ET.Element) -> _Thread:
    send, receive, channel = (int(block.attrib[name]) for name in ("send", "recv", "chan"))
    return _Thread(gpu, send, receive, channel, [dict(step.attrib) for step in block])


def _sum(one: Value | None, other: Value | None) -> Value | None:
    return None if one is None or other is None else one + other


def verdict(text: str) -> str | None:
    """Return why a program is wrong; None if it is right in every way of its buffers."""
    root = ET.fromstring(text)
    try:
        if int(root.attrib["nchannels"]) > 32:
            raise Wrong("more channels than the runtime has")
        ends: set[tuple[str, int, str, str]] = set()
        for gpu, blocks in enumerate(root):
            for block in blocks:
                for verb in ("send", "recv"):
                    peer, end = int(block.attrib[verb]), (verb, gpu, block.attrib[verb], block.attrib["chan"])
                    if peer >= 0 and (end in ends or peer == gpu or peer >= len(root)):
                        raise Wrong("a connection of two threadblocks, or of none")
                    ends.add(end)
                    if sum(end[:2] == (verb, gpu) and end[3] == block.attrib["chan"] for end in ends) > 33:
                        raise Wrong("more peers than a channel has")
                if not 0 <= int(block.attrib["chan"]) < int(root.attrib["nchannels"]):
                    raise Wrong("no such channel")
        for name in ("inplace", "outofplace"):
            lacking = str(1 - int(root.attrib["inplace"]))
            if root.get(name, lacking) == "1":
                Interpreter(text, name == "inplace").run()
    except Wrong as error:
        return str(error)
    return None
