"""Cost of a schedule on a fabric, under two models that are never mixed.

``paper``
    every step of a circuit-switched fabric costs d/B + a: the bytes on its fullest wavelength over the wavelength's
    bandwidth, plus conversion and reconfiguration, always; propagation is free (OpTree, Eq. 3; WRHT).
``physical``
    a step costs its slowest lightpath: bytes over the bundled bandwidth plus propagation, plus conversion;
    reconfiguration is paid only when a circuit really changes, and once if one set of circuits serves all steps.

On packet fabrics there is nothing to reconfigure and both models agree: a step costs its busiest link plus the longest
propagation. That is exact when the busiest link lies on the longest path, and an upper estimate otherwise. Steps that
nothing orders run at once and share links (:func:`shared_times`).

A codec adds its seconds to each step, or, in line with the links, makes the step wait for the slower of the two
(:func:`loads_times`); the schedule's size is then that of the compressed data.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from math import inf
from typing import NamedTuple

import numpy as np

from lightloom.collectives.cost import kernels
from lightloom.collectives.cost.loads import (
    PacketLoads,
    StepLoads,
    lightpath_chunks,
    rows_by_step,
    step_loads,
    steps_before,
)
from lightloom.collectives.cost.price import Cost, CostModel, known_cost_model, play, queued_line, rows_over_circuits
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.results import attributes
from lightloom.machines.fabrics.fabric import Fabric

# Steps that nothing orders run at once and share what they use: packet links, and the engine of a codec.
#
# A step encodes, sends and decodes, one after the other (in line with the links, all at once). While several steps
# use the same link or engine, they slow down alike: speeds, relative to that of the step alone, are max-min fair, so
# that no link ever carries more than its bandwidth. Circuits that run at once hold channels of their own, and share
# no link.


@dataclass(frozen=True, slots=True)
class CodecTimes:
    """Seconds of coding in each step, each array of shape [steps]."""

    encode: Floats
    decode: Floats
    in_line: bool
    """True where coding runs beside sending, so that a step waits for the slower of the two; else they add up."""


def shared_times(
    loads: StepLoads, fabric: Fabric, alone: Floats, lead: Floats, codec: CodecTimes | None
) -> tuple[Floats, Floats, Floats]:
    """Return the seconds of sending, encoding and decoding of steps with dependencies, which share links and codecs
    where they run at once: [step] each.

    Each step begins when the last step that it waits for has ended. Setting circuits and conversion are not in the
    seconds of sending. Encoding and decoding are 0 without a codec and in line.

    Args:
        alone: seconds of bits and propagation of each step that runs alone, in line with a codec what takes longer:
            [step].
        lead: seconds of setting circuits and of conversion before these: [step].
        codec: seconds of coding in each step; None without a codec.
    """
    steps, engine, nothing = loads.steps, fabric.links, np.zeros(loads.steps)
    (step, link), busy = np.zeros((2, 0), np.int64), np.zeros(0)
    if isinstance(loads.transfers, PacketLoads) and loads.transfers.by_link is not None:
        step, link, chunks = loads.transfers.by_link
        busy = chunks * (loads.chunk_nbytes / fabric.link_bandwidth()[link])
    if codec is None and not len(step):
        return alone, nothing, nothing
    every, engines = np.arange(steps), np.full(steps, engine)
    if codec is not None and codec.in_line:
        step, link = np.append(step, every), np.append(link, engines)
        busy = np.append(busy, np.maximum(codec.encode, codec.decode))
        order = np.argsort(step, kind="stable")
        step, link, busy = step[order], link[order], busy[order]
    shared = np.zeros(steps)
    np.maximum.at(shared, step, busy)
    tasks: list[_Task] = [(lead, shared, np.maximum(alone - shared, 0.0), step, link, busy)]
    if codec is not None and not codec.in_line:
        encode, decode = ((nothing, part, nothing, every, engines, part) for part in (codec.encode, codec.decode))
        tasks = [encode, tasks[0], decode]
    begin, end = _run_tasks(tasks, steps_before(steps, loads.dependencies), engine + 1)
    seconds = [stop - start for start, stop in zip(begin, end, strict=True)]
    if len(tasks) == 1:
        return seconds[0] - lead, nothing, nothing
    return seconds[1] - lead, seconds[0], seconds[2]


_Task = tuple[Floats, Floats, Floats, Ints, Ints, Floats]
"""One kind of work of every step: seconds before anything is shared, those that the work takes where nothing else runs,
and those after it, [step] each; step (ascending), number and busy seconds of each link or engine used, [use] each."""


def _run_tasks(tasks: list[_Task], before: list[list[int]], resources: int) -> tuple[Floats, Floats]:
    """Return the seconds at which each task may begin and at which it ends: [kind of task, step] each.

    The first task of a step waits for the last tasks of those steps that the step waits for, every other one for the
    task before.

    Args:
        tasks: for each kind of task, in the order of a step: seconds before, during (alone) and after what is shared,
            [step] each; and step (ascending), resource and busy seconds of each use, [use] each.
        before: steps that must end before each step.
        resources: number of links and engines.
    """
    steps, kinds = len(before), len(tasks)
    number = np.arange(steps * kinds).reshape(kinds, steps)
    pairs = [(earlier + (kinds - 1) * steps, step) for step in range(steps) for earlier in before[step]]
    pairs += [pair for kind in range(kinds - 1) for pair in zip(*number[kind : kind + 2].tolist(), strict=True)]
    earlier, later = np.array(pairs, np.int64).reshape(-1, 2).T
    order = np.argsort(earlier, kind="stable")
    lead, alone, tail, step, resource, busy = map(np.concatenate, zip(*tasks, strict=True))
    uses = step + np.repeat(np.arange(kinds) * steps, [len(task[3]) for task in tasks])
    work = kernels.TaskGraph(
        waits=np.bincount(later, minlength=steps * kinds),
        first_follower=np.searchsorted(earlier[order], np.arange(steps * kinds + 1)),
        follower=later[order],
        lead=lead,
        alone=alone,
        tail=tail,
        first_use=np.searchsorted(uses, np.arange(steps * kinds + 1)),
        resource=resource,
        busy=busy,
    )
    begin, end = np.zeros((2, steps * kinds))
    kernels.run_at_once(work, resources, begin, end)
    return begin.reshape(kinds, steps), end.reshape(kinds, steps)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of each step, by cause; each array has shape [steps].

    Where steps have dependencies, seconds are those of a step that shares links and codecs with those beside it.
    """

    transmission: Floats
    conversion: Floats
    reconfiguration: Floats
    encode: Floats
    decode: Floats
    static: bool

    @property
    def parts(self) -> dict[str, Floats]:
        """Seconds by name, ``transmission``, ``conversion``, ``reconfiguration``, ``encode`` and ``decode``: [step]
        each."""
        return attributes(self, "transmission conversion reconfiguration encode decode")

    @property
    def duration(self) -> Floats:
        """Seconds of each step, the sum of its parts: [step]."""
        return np.asarray(sum(self.parts.values()))


def cost(schedule: Schedule, fabric: Fabric, model: CostModel = "physical", codec: CodecTimes | None = None) -> Cost:
    """Return time and energy of one run from dark fibres.

    A queued schedule is played, each row sent as soon as its lightpath or links and its data allow; another one is
    priced by its steps, each of which ends when its slowest transfer has.

    Args:
        codec: seconds of coding in each step of a schedule of steps, whose bytes are then those of the compressed data;
            not looked at for a queued one. None: nothing is coded.

    Raises:
        UnknownNameError: no such cost model.
        UnsupportedError: the paper model, which charges steps, of a queued schedule; and what :func:`step_loads`
            refuses.
    """
    model = known_cost_model(model)
    if schedule.queued:
        if model == "paper":
            raise UnsupportedError(
                f"{schedule.algorithm} has no steps that the paper cost model could charge: use physical"
            )
        return queued_line(schedule, fabric)[0]
    return loads_cost(step_loads(schedule, fabric, model), fabric, codec)


class Timed(NamedTuple):
    """A schedule whose seconds are known."""

    schedule: Schedule
    seconds: float
    """From dark fibres, in the physical model."""


class Unbuilt(NamedTuple):
    """A schedule that is only built where no other one is faster than it can be."""

    seconds: float
    """Seconds from dark fibres that it takes at least, or that another may take so that it is not worth building."""
    build: Callable[[], Schedule | Timed]


def fastest(
    schedules: Iterable[Schedule | Timed | Unbuilt], fabric: Fabric, enough: float = 0.0, most_rows: float = inf
) -> Timed:
    """Return the fastest of some schedules in the physical model, the first of equal ones, and its seconds from dark
    fibres.

    No more schedules are taken once one takes at most ``enough`` seconds, or the queued ones that were built have more
    than ``most_rows`` stored rows together. One that is not built yet is not built where it takes at least longer than
    one before.

    Raises:
        UnsupportedError: no schedules are given, or :func:`cost` refuses one.
    """
    best: Timed | None = None
    rows = 0
    for offered in schedules:
        if isinstance(offered, Unbuilt) and best is not None and offered.seconds > best.seconds:
            continue
        built = offered.build() if isinstance(offered, Unbuilt) else offered
        timed = built if isinstance(built, Timed) else Timed(built, cost(built, fabric).time)
        best = timed if best is None or timed.seconds < best.seconds else best
        rows += len(timed.schedule) if timed.schedule.queued else 0
        if best.seconds <= enough or rows > most_rows:
            break
    if best is None:
        raise UnsupportedError(f"no schedule found on this {fabric.kind_name}")
    return best


def loads_cost(loads: StepLoads, fabric: Fabric, codec: CodecTimes | None = None) -> Cost:
    """Return time and energy of one run from dark fibres.

    Time is the sum over the longest chain of dependent steps, or over all steps where they follow each other. Energy is
    that of all chunks on every lightpath, or every packet link that they cross, in bits on the wire; None where the
    fabric states none per bit.

    Args:
        loads: what the steps of the schedule carry on the fabric, at the size that is sent.
        fabric: the same, or the same with smaller packets.
        codec: seconds of coding in each step; None without a codec.
    """
    times = loads_times(loads, fabric, codec)
    critical = np.ones(loads.steps, np.bool_) if loads.dependencies is None else _critical_steps(loads, times.duration)
    parts = {name: float(part[critical].sum()) for name, part in times.parts.items()}
    energy = None
    if fabric.energy_per_bit is not None:
        energy = loads.crossings * loads.pieces * fabric.wire_bytes(loads.chunk_nbytes) * 8 * fabric.energy_per_bit
    return Cost(
        steps=loads.steps,
        time=sum(parts.values()),
        **parts,
        setup=min(fabric.setup_time, parts["reconfiguration"]),
        static=times.static,
        energy=energy,
    )


def loads_times(loads: StepLoads, fabric: Fabric, codec: CodecTimes | None = None) -> StepTimes:
    """Return the seconds of each step, by cause: transmission, conversion, reconfiguration, encoding and decoding.

    With a codec in line transmission is that of the link or the coding, whichever takes longer, the latter plus the
    least latency between two ranks (left out in the paper model on circuits), and encoding and decoding are 0. Steps
    with dependencies take as long as they do beside those that run at once (:func:`shared_times`). Conversion is the
    fabric's overhead of a step in every step; reconfiguration its set-up time in steps that change circuits, in the
    paper model on circuits in all.

    Args:
        loads: what the steps of the schedule carry on the fabric, at the size that is sent.
        fabric: the same, or the same with smaller packets.
        codec: seconds of coding in each step; None without a codec.
    """
    steps, transmission = loads.steps, loads.transmission(fabric)
    conversion, setups, static = np.full(steps, fabric.step_overhead), np.zeros(steps), True
    if loads.changes is not None:
        setups, static = np.where(loads.changes.changed, fabric.setup_time, 0.0), loads.changes.static
    elif fabric.exclusive:
        setups, static = np.full(steps, fabric.setup_time), False
    encode = decode = np.zeros(steps)
    if codec is not None and codec.in_line:
        # What leaves the slower of link and engine still has to cross at least to the nearest rank.
        away = fabric.neighbour_latency() if loads.model == "physical" or not fabric.exclusive else 0.0
        transmission = np.maximum(transmission, np.maximum(codec.encode, codec.decode) + away)
    elif codec is not None:
        encode, decode = codec.encode, codec.decode
    if loads.dependencies is not None:
        transmission, encode, decode = shared_times(loads, fabric, transmission, conversion + setups, codec)
    return StepTimes(transmission, conversion, setups, encode, decode, static)


def _critical_steps(loads: StepLoads, duration: Floats) -> Mask:
    """Return True for the steps on the longest chain of dependencies, one chain where several are equally long: [step].

    ``duration`` has the seconds of each step: [step].
    """
    before, end = steps_before(loads.steps, loads.dependencies), np.zeros(loads.steps)
    for step in TopologicalSorter(dict(enumerate(before))).static_order():
        end[step] = max((end[b] for b in before[step]), default=0.0) + duration[step]
    critical = np.zeros(loads.steps, np.bool_)
    at: int | None = int(np.argmax(end))
    while at is not None:
        critical[at] = True
        at = max(before[at], key=lambda b: float(end[b]), default=None)
    return critical


# Work of a codec in each step of a schedule, on the rank that has most to do.
#
# Between hops (``in_line=False``, a codec in software), as ``exchange.transport`` does it: a rank encodes a chunk
# whose sum has changed, passes on the bytes of what it only forwards, decodes what arrives, and adopts its own
# decoded chunk before it hands out a finished sum. In line with the link (a codec in the network card) every chunk
# that leaves is encoded and every chunk that arrives is decoded, while the link sends.


@dataclass(frozen=True, slots=True)
class CodecWork:
    """Chunks that the busiest rank encodes and decodes in each step, whatever their size; shape [steps]."""

    encoded: Ints
    decoded: Ints
    chunks: int
    in_line: bool
    sent: Ints
    """Messages that the busiest rank sends in each step; it encodes no more of them than chunks."""
    received: Ints

    def times(self, nbytes: float, encode: float, decode: float, calls: tuple[float, float] = (0.0, 0.0)) -> CodecTimes:
        """Return the seconds of encoding and of decoding in each step, [step] each, at rates in bytes of values per
        second: the chunks of the busiest rank, each of ``nbytes`` over the chunks of the schedule, over the rate, plus
        the calls.

        Args:
            nbytes: bytes of all chunks before compression, each chunk counted once.
            encode: rate of encoding.
            decode: rate of decoding.
            calls: seconds that one call of the encoder, and of the decoder, adds whatever its size; there is one for
                each message, but no more than chunks.
        """
        chunk = nbytes / self.chunks
        encoded = np.minimum(self.encoded, np.maximum(self.sent, 1)) * calls[0]
        decoded = np.minimum(self.decoded, np.maximum(self.received, 1)) * calls[1]
        encoding, decoding = self.encoded * (chunk / encode), self.decoded * (chunk / decode)
        return CodecTimes(encoding + encoded, decoding + decoded, self.in_line)


def codec_work(schedule: Schedule, *, in_line: bool) -> CodecWork:
    """Return the chunks that the busiest rank encodes and decodes in each step of a schedule of steps, and the messages
    that the busiest rank sends and receives: [step] each.

    The busiest ranks of encoding and decoding may differ; their times are added, an upper estimate where they do.

    Args:
        in_line: True for a codec in the network card, which encodes every chunk that leaves and decodes every one that
            arrives; False for one in software, which passes on the bytes of what it only forwards.

    Time: linear in the rows of the schedule. Memory: a flag for every rank and chunk; of a folded schedule, for every
    rank and the chunks of one period of owners, since turned by a period all ranks do the same.
    """
    schedule = schedule.of_single_chunks()
    ranks, chunks = schedule.collective.ranks + 1, schedule.chunks  # in-network schedules number the switch last
    if schedule.folding is not None:
        ranks, share = schedule.folding.period, schedule.chunks // schedule.collective.ranks
        copy = schedule.chunk.astype(np.int64) // share // ranks
        schedule, chunks = schedule.moved(copy, back=True), ranks * share
    ends = schedule.source.astype(np.int64), schedule.destination.astype(np.int64)
    reads, writes = (end * chunks + schedule.chunk for end in ends)
    sender, receiver = (end % ranks for end in ends)
    order, path = rows_by_step(schedule), schedule.lightpath
    rows = kernels.CodedRows(order, schedule.step, path, reads, writes, sender, receiver, schedule.reduces)
    coded_as = np.full((schedule.collective.ranks + 1) * chunks, -1, np.int32)
    count, most = np.zeros((2, ranks), np.int64), np.zeros((2, schedule.steps), np.int64)
    kernels.codec_work(rows, in_line, coded_as, count, most)
    encoded, decoded = most
    sent, received = (_messages(schedule, end) for end in (sender, receiver))
    return CodecWork(encoded, decoded, schedule.chunks, in_line, sent, received)


def _messages(schedule: Schedule, end: Ints) -> Ints:
    """Return, for each step, the most lightpaths that have the same rank at one end: [step].

    ``end`` is the rank at that end of each row, its source or its destination: [row].
    """
    ranks, paths = schedule.collective.ranks + 1, int(schedule.lightpath.max()) + 1
    place = schedule.step.astype(np.int64) * ranks + end
    of_path = np.full(paths, -1)
    of_path[schedule.lightpath] = place
    if (of_path[schedule.lightpath] == place).all():
        # A lightpath has one rank at this end: no row but its last counts.
        ends = of_path[of_path >= 0]
    else:
        ends = np.unique(place * paths + schedule.lightpath) // paths
    most: Ints = np.bincount(ends, minlength=schedule.steps * ranks).reshape(schedule.steps, ranks).max(axis=1)
    return most


# How much later a collective ends when one rank starts late, or sends slower than the others.
#
# late      the rank sends nothing before some time; what reaches it earlier waits there for it
# slower    whatever the rank sends holds its lightpath so many times longer
#
# A queued schedule is played again: rows keep their order on each lightpath and wait for what they need. A schedule
# of steps has barriers: a step ends when its slowest sender has sent, and the steps that depend on it wait.


@dataclass(frozen=True, slots=True)
class Straggling:
    """The delay that each rank causes if it straggles."""

    time: float
    """Seconds of a run in which none straggles, circuits set up on the way."""
    later: Floats
    """Seconds that a run ends later if it is this rank that straggles: [rank]."""

    @property
    def worst(self) -> int:
        """Rank that delays the run most if it straggles; the first of several."""
        return int(self.later.argmax())


def straggling(schedule: Schedule, fabric: Fabric, *, late: float = 0.0, slower: float = 1.0) -> Straggling:
    """Return how much later a run of a verified schedule on circuits ends if one rank straggles, for each rank in turn
    (``later``, seconds: [rank]), and the seconds of a run in which none does, set-up included (``time``).

    Of a folded queued schedule, one period of ranks is played; the others delay as much as these.

    Args:
        late: seconds after the first circuits stand before which the rank sends nothing.
        slower: factor by which it holds lightpaths longer; 1 or more.

    Raises:
        ConfigError: ``late`` is negative or ``slower`` below 1, or either is not finite.
        UnsupportedError: a fabric that switches packets.
    """
    if not (late >= 0 and np.isfinite(late)):
        raise ConfigError(f"late={late}: expected seconds, not negative")
    if not (slower >= 1 and np.isfinite(slower)):
        raise ConfigError(f"slower={slower}: expected a factor of 1 or more")
    if not fabric.exclusive:
        raise UnsupportedError("stragglers are played on circuits, and this fabric switches packets")
    if schedule.queued:
        return _straggling_in_queues(schedule, fabric, late, slower)
    return _straggling_in_steps(schedule, fabric, late, slower)


def _straggling_in_queues(schedule: Schedule, fabric: Fabric, late: float, slower: float) -> Straggling:
    """Return what each rank delays a queued schedule if it straggles.

    The schedule is played again with every rank of one period late and slower in turn. The time includes the set-up of
    circuits.

    Args:
        late: seconds after the first circuits stand before which the straggler sends nothing.
        slower: factor, 1 or more, by which it holds lightpaths longer.
    """
    ranks, folding = schedule.collective.ranks, schedule.folding
    period = ranks if folding is None else folding.period
    unfolded = schedule.unfolded(fabric.fibre_channels)
    # In the order in which rows begin; of some bytes, so that nothing begins before what it waits for.
    begin = play(unfolded.resized(max(unfolded.collective.nbytes, 1.0)), fabric).begin
    rows, held = rows_over_circuits(unfolded, fabric, np.lexsort((unfolded.lightpath, begin)))
    end = np.zeros(1 + period)
    # Nobody is rank -1: the first run is one without a straggler.
    kernels.straggle(rows, unfolded.source, len(held), np.arange(-1, period), late, slower, end)
    return Straggling(float(end[0]) + fabric.setup_time, np.tile(end[1:] - end[0], ranks // period))


def _straggling_in_steps(schedule: Schedule, fabric: Fabric, late: float, slower: float) -> Straggling:
    """Return what each rank delays a schedule of steps if it straggles, each rank in turn.

    A step ends when the last of its senders has sent, and the straggler sends no step's data sooner than ``late`` after
    the first set-up. The time is that of a run without a straggler; delays are 0 or more.

    Args:
        late: seconds after the first circuits stand before which the straggler sends nothing.
        slower: factor, 1 or more, by which it holds lightpaths longer.
    """
    schedule = schedule.unfolded(fabric.fibre_channels)
    ranks, steps = schedule.collective.ranks, schedule.steps
    times = loads_times(step_loads(schedule, fabric), fabric)
    sends = _sending_seconds(schedule, fabric)
    slow = _sending_seconds(schedule, fabric, slower)
    before = steps_before(steps, schedule.dependencies)
    setup = min(fabric.setup_time, float(times.reconfiguration.sum()))
    alone, end = np.zeros(steps), np.zeros((steps, ranks))
    for step in TopologicalSorter(dict(enumerate(before))).static_order():
        alone[step] = max((alone[earlier] for earlier in before[step]), default=0.0) + times.duration[step]
        begin = np.max([end[earlier] for earlier in before[step]], axis=0, initial=0.0)
        waits = times.duration[step] - times.transmission[step]
        end[step] = begin + waits + np.maximum(times.transmission[step], slow[step])
        # Later circuits are set up while it is waited for.
        came = setup + late + times.conversion[step] + slow[step]
        end[step] = np.where(sends[step] > 0, np.maximum(end[step], came), end[step])
    last = float(alone.max())
    return Straggling(last, np.maximum(end.max(axis=0) - last, 0.0))


def _sending_seconds(schedule: Schedule, fabric: Fabric, slower: float = 1.0) -> Floats:
    """Return the seconds that each rank sends in each step on circuits, to the arrival of the last: [step, rank].

    They are those of the rank's slowest lightpath, with its latency and no conversion; 0 exactly where the rank sends
    nothing in the step.

    Args:
        slower: factor by which lightpaths are held longer; latency is not multiplied.
    """
    path, _, sent = lightpath_chunks(schedule)
    source, destination, route = schedule.ends(slice(None))
    width = schedule.wavelength_count * fabric.channel_bandwidth
    seconds = slower * sent[path] * schedule.chunk_nbytes / width + fabric.latency(source, destination, route)
    longest = np.zeros((schedule.steps, schedule.collective.ranks))
    np.maximum.at(longest, (schedule.step, source), np.maximum(seconds, 1e-300))
    return longest
