"""The folder of an exported step: traces, schedules, and the files of ASTRA-sim.

step.<rank>.et          the step of each rank
schedules/...           the schedule of each collective, a trace for each place in its group
schedules.yml           which node runs which schedule
groups.json             communicator groups
network.yml             the network of the analytical backends
system.json             one queue, one chunk, no delays at the ends
remote_memory.json      none
lightloom.json          what was exported, the plan's own times, and what these files say otherwise
"""

import json
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lightloom.collectives.collective import Kind
from lightloom.collectives.files.chakra import trace_path, write_traces
from lightloom.collectives.files.chakra_nodes import COLLECTIVE, COMPUTE, RECEIVE, SEND, Node, Value, encode
from lightloom.collectives.files.formats import LARGEST, export_size
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import check_writable
from lightloom.core.units import format_size
from lightloom.planning.export.chakra_operations import CollectiveUse, Operation
from lightloom.planning.export.chakra_step import StepTraces
from lightloom.planning.simulation.engine import Task, run

# The written operations played by this package's engine, under the rules by which ASTRA-sim plays traces.
#
# A rank computes one node at a time and has one send or collective on its way at a time, the smallest number first
# among those that may start; receives cost nothing. A plan's own times let axes that have channels of their own
# overlap: what both differ by is the price of these rules, and none of a network.


def replayed_seconds(traces: StepTraces, *, one_at_a_time: bool = True) -> float:
    """Return the seconds of the step when its operations are played, one rank of each stage for all, under the rules of
    ASTRA-sim: one computing operation, one operation of the host, and one collective or send of a rank at a time, of
    those that may start the first in the stage's list; receives take no time.

    A collective takes the seconds of its carrier, and where it joins stages it waits for all of them; a send takes the
    latency and bytes over the rate of the last dimension of the network. Where not ``one_at_a_time``, sends go on
    beside collectives, each link (a pair of stages and a direction) carrying one at a time.
    """
    listed = [(stage, *placed) for stage, operations in enumerate(traces.stages) for placed in enumerate(operations)]
    first = np.cumsum([0, *map(len, traces.stages)]).tolist()
    sources = {operation.tag: number for number, (_, _, operation) in enumerate(listed) if operation.verb == "send"}
    after: list[list[int]] = []
    # A collective of several stages begins when all of them are there.
    joined: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for stage, _, operation in listed:
        after.append([first[stage] + before for before in (*operation.data, *operation.control)])
        if operation.verb == "receive":
            after[-1] = [sources[operation.tag]]
        elif operation.stages:
            joined[operation.use, operation.stages] += after[-1]
            after[-1] = joined[operation.use, operation.stages]
    tasks = []
    for (stage, place, operation), before in zip(listed, after, strict=True):
        seconds, resource = operation.seconds, f"{operation.verb} {stage}"
        if operation.use is not None:
            seconds = traces.carriers[operation.use].seconds
        elif operation.verb == "send":
            line = traces.network.dimensions[-1].line
            seconds, resource = line.latency + operation.nbytes / line.rate, f"link {stage} to {operation.peer}"
        elif operation.verb == "receive":
            resource = f"receive {stage} {place}"
        if operation.verb == "collective" or (operation.verb == "send" and one_at_a_time):
            resource = f"communication {stage}"
        category = "forward" if operation.verb == "compute" else "transmission"
        tasks.append(Task(operation.name, resource, category, seconds, tuple(before), place))
    return run(tasks).step_time


# Operations of stages as nodes of every rank's trace.
#
# node id          stage · longest list + place in the list: equal ids are equal collectives, on every rank
# duration         whole microseconds, as the format has it; what is lost is added to the next one's
# pg_name          number of the communicator group; none for all ranks
#
# ASTRA-sim keeps the first schedule of each kind that a communicator group runs, so that collectives of other sizes
# have groups of the same ranks under other numbers.

COMM_TYPES: dict[Kind, int] = {"all-reduce": 0, "all-gather": 2, "all-to-all": 6, "reduce-scatter": 7}
"""``comm_type`` of the kinds that ASTRA-sim runs, as the schema numbers them."""
NANOSECONDS = "lightloom.nanoseconds"
"""Attribute: the duration of a node before it was rounded."""
MOST_NODES = 5_000_000
"""Nodes of all ranks that are written."""
MOST_GROUPS = 2147
"""Communicator groups: ASTRA-sim numbers the streams of each from its number times a million, in 32 bits."""


_TYPES = {"compute": COMPUTE, "host": COMPUTE, "collective": COLLECTIVE, "send": SEND, "receive": RECEIVE}
"""Type of a node in the trace, by the verb of its operation."""


class Groups(NamedTuple):
    """Communicator groups, numbered from 1 on."""

    members: dict[int, list[int]]
    number: dict[tuple[CollectiveUse, tuple[int, ...]], list[int]]
    """By collective and the stages that it joins: the group of each rank, 0 for all ranks."""


def communicator_groups(traces: StepTraces) -> Groups:
    """Return the communicator groups of every collective, numbered from 1 in the order of first use over the stages'
    lists: ``members``, the ranks of each group by its number, and ``number``, by collective and the stages that it
    joins, the number of each rank's group as a list over all ranks. Collectives of all ranks have no group, and number
    0.

    Raises:
        UnsupportedError: more than :data:`MOST_GROUPS` (2,147) groups, as many as ASTRA-sim counts.
    """
    groups = Groups({}, {})
    for operation in (operation for stage in traces.stages for operation in stage):
        if operation.use is None or (operation.use, operation.stages) in groups.number:
            continue
        number = [0] * traces.ranks
        if operation.use.ranks < traces.ranks:
            for members in _members(traces, operation):
                count = len(groups.members) + 1
                groups.members[count] = members
                for rank in members:
                    number[rank] = count
        groups.number[operation.use, operation.stages] = number
    if len(groups.members) > MOST_GROUPS:
        raise UnsupportedError(
            f"{len(groups.members)} communicator groups: ASTRA-sim takes at most {MOST_GROUPS}: expected fewer ranks"
        )
    return groups


def _members(traces: StepTraces, operation: Operation) -> list[list[int]]:
    """Return the ranks of the groups of a collective operation, a list each: where it names stages, a list for each
    place within a stage, with the rank at that place of every stage that it joins; else the groups of the collective
    among all ranks."""
    assert operation.use is not None
    if not operation.stages:
        members: list[list[int]] = traces.members(operation.use).tolist()
        return members
    per_stage = traces.ranks // len(traces.stages)
    return [[stage * per_stage + place for stage in operation.stages] for place in range(per_stage)]


def node_count(traces: StepTraces) -> int:
    """Return how many nodes the traces of all ranks have, those of schedules included with two for each row; a schedule
    that several collectives share counts once.

    Raises:
        UnsupportedError: more than :data:`MOST_NODES` (5,000,000).
    """
    count = traces.ranks // len(traces.stages) * sum(map(len, traces.stages))
    rows = {id(carrier.schedule): len(carrier.schedule) for carrier in traces.carriers.values() if carrier.schedule}
    count += 2 * sum(rows.values())
    if count > MOST_NODES:
        raise UnsupportedError(
            f"{count:,} nodes in all traces: at most {MOST_NODES:,} are written: expected fewer ranks or micro-batches"
        )
    return count


def collective_nodes(traces: StepTraces) -> dict[int, CollectiveUse]:
    """Return the collective of each node that is one, by node id: the number of the stage (from 0) times the length of
    the longest stage's list, plus the place in the list."""
    stride = max(map(len, traces.stages))
    return {
        stage * stride + place: operation.use
        for stage, operations in enumerate(traces.stages)
        for place, operation in enumerate(operations)
        if operation.use is not None
    }


def rank_nodes(traces: StepTraces, groups: Groups) -> Iterator[list[Node]]:
    """Yield the list of nodes of each rank's trace, rank after rank; ``groups`` are the communicator groups of the same
    traces. Ids are those of :func:`collective_nodes`, the same on every rank of a stage, and durations whole
    microseconds, 0 of communication. Dependencies are ids, those on results apart from those that only keep an order;
    attributes are those that ASTRA-sim reads (:func:`_attributes`)."""
    per_stage, stride = traces.ranks // len(traces.stages), max(map(len, traces.stages))
    durations = [_microseconds(operations) for operations in traces.stages]
    for rank in range(traces.ranks):
        stage, place = divmod(rank, per_stage)
        first, operations = stage * stride, traces.stages[stage]
        yield [
            Node(
                id=first + index,
                name=operation.name,
                type=_TYPES[operation.verb],
                control=tuple(first + before for before in operation.control),
                data=tuple(first + before for before in operation.data),
                duration=duration,
                attributes=_attributes(operation, rank, operation.peer * per_stage + place, groups),
            )
            for index, (operation, duration) in enumerate(zip(operations, durations[stage], strict=True))
        ]


def _microseconds(operations: tuple[Operation, ...]) -> list[int]:
    """Return the duration of each operation in whole microseconds, rounded so that running sums over the operations of
    each verb are right to half of one; 0 for collectives, sends and receives."""
    durations = np.zeros(len(operations), np.int64)
    for verb in ("compute", "host"):
        places = [place for place, operation in enumerate(operations) if operation.verb == verb]
        ends = np.rint(np.cumsum([0.0, *(operations[place].seconds for place in places)]) * 1e6).astype(np.int64)
        durations[places] = np.diff(ends)
    return durations.tolist()


def _attributes(operation: Operation, rank: int, peer: int, groups: Groups) -> dict[str, Value]:
    """Return the attributes of an operation's node in the trace of ``rank``, by the names that ASTRA-sim reads:
    ``is_cpu_op``; of a collective ``comm_type``, ``comm_size`` and, unless it joins all ranks, ``pg_name``; of a send
    or receive ``comm_src``, ``comm_dst``, ``comm_tag`` and ``comm_size``; of a computing or host operation
    ``lightloom.nanoseconds`` and, where known, ``num_ops`` (FLOPs). Sizes are bytes, rounded up.

    ``peer`` is the rank at the other end of a send or receive, and is not read of other operations.
    """
    attributes: dict[str, Value] = {"is_cpu_op": operation.verb == "host"}
    if operation.verb in ("compute", "host"):
        attributes[NANOSECONDS] = round(operation.seconds * 1e9)
        if operation.flops is not None:
            attributes["num_ops"] = operation.flops
    elif operation.use is not None:
        group = groups.number[operation.use, operation.stages][rank]
        attributes |= {"comm_type": COMM_TYPES[operation.use.kind], "comm_size": comm_size(operation.use)}
        attributes |= {"pg_name": str(group)} if group else {}
    else:
        source, destination = (rank, peer) if operation.verb == "send" else (peer, rank)
        attributes |= {"comm_src": source, "comm_dst": destination}
        attributes |= {"comm_tag": operation.tag, "comm_size": int(np.ceil(operation.nbytes))}
    return attributes


def comm_size(use: CollectiveUse) -> int:
    """Return the bytes of a collective as ASTRA-sim counts them, rounded up: of an all-gather what every rank brings
    (``nbytes`` over its ranks), else ``nbytes``, the whole that a rank holds."""
    return int(np.ceil(use.nbytes / (use.ranks if use.kind == "all-gather" else 1)))


SCHEMA = "lightloom.step-traces/1"
_MARK = "lightloom.json"


def check_folder(folder: Path) -> None:
    """Raise ConfigError unless :func:`write_step` can write a folder: it is new, empty, or an earlier export, which
    would be replaced. Nothing is written.

    Raises:
        ConfigError: it holds something else, is a file, or cannot be written.
    """
    if folder.is_dir():
        if any(folder.iterdir()) and not _is_export(folder):
            raise ConfigError(f"{str(folder)!r}: holds other files: expected a new folder, or an earlier export")
    elif folder.exists():
        raise ConfigError(f"{str(folder)!r}: is a file: expected a folder")
    check_writable(folder.with_name(f"{folder.name}.json") if folder.exists() else folder)


def _is_export(folder: Path) -> bool:
    """Return whether a folder is an earlier export, by the schema in its ``lightloom.json``; False where that cannot be
    read."""
    try:
        return bool(json.loads((folder / _MARK).read_text())["schema"] == SCHEMA)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write_step(folder: Path, traces: StepTraces, about: Mapping[str, object]) -> dict[str, object]:
    """Write the folder of an exported step beside its place and rename it, in place of an earlier export, which is
    deleted; return what its ``lightloom.json`` says (``schema``, all of ``about``, ``one_communication_at_a_time_s``,
    ``ranks``, ``nodes``, ``collectives``, ``notes``, ``command``). It holds a trace of each rank (``step.RANK.et``),
    the traces of the schedules, ``schedules.yml``, ``groups.json``, ``network.yml``, ``system.json``,
    ``remote_memory.json`` and ``lightloom.json``.

    Args:
        folder: new, empty, or an earlier export.
        traces: what is written.
        about: what ``lightloom.json`` says of the plan, at its top level: ``label`` and ``step_time_s`` at least.

    Raises:
        UnsupportedError: too many nodes or groups, or too many bytes.
        ConfigError: the folder holds other files, or cannot be written.
    """
    check_folder(folder)
    _check_size(traces)
    document = _describe_export(traces, about, node_count(traces))
    header = {"lightloom.step": json.dumps({name: document[name] for name in ("schema", "label", "step_time_s")})}
    groups = communicator_groups(traces)
    try:
        with tempfile.TemporaryDirectory("", f".{folder.name}.", folder.parent, ignore_cleanup_errors=True) as new:
            aside = Path(new)
            aside.chmod(0o755)
            for rank, nodes in enumerate(rank_nodes(traces, groups)):
                trace_path(aside / "step", rank).write_bytes(encode(nodes, header))
            _write_schedules(aside, traces)
            files = {
                "groups.json": json.dumps(groups.members, indent=1),
                "network.yml": traces.network.to_yaml(),
                "system.json": json.dumps(_system(traces, _scheduled(traces)), indent=1),
                "remote_memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}),
                _MARK: json.dumps(document, indent=1, allow_nan=False),
            }
            for name, content in files.items():
                (aside / name).write_text(content.rstrip("\n") + "\n")
            if folder.exists():
                shutil.rmtree(folder)
            aside.rename(folder)
    except OSError as error:
        raise ConfigError(f"cannot write {str(folder)!r}: {error.strerror}") from error
    return document


def _scheduled(traces: StepTraces) -> dict[CollectiveUse, str]:
    """Return, by collective, the path of its schedule inside the folder, such as ``schedules/0-all-reduce-of-8``;
    collectives without a schedule are left out."""
    uses = [use for use, carrier in traces.carriers.items() if carrier.schedule is not None]
    return {use: f"schedules/{number}-{use.kind}-of-{use.ranks}" for number, use in enumerate(uses)}


def _check_size(traces: StepTraces) -> None:
    """Raise UnsupportedError where the schedules of the step would take more bytes, as estimated, than an export may
    (:data:`LARGEST`, 1 GB)."""
    sizes = [
        export_size(Path("schedule.et"), carrier.schedule) for carrier in traces.carriers.values() if carrier.schedule
    ]
    if (nbytes := sum(size.nbytes for size in sizes)) > LARGEST:
        rows = sum(size.rows for size in sizes)
        raise UnsupportedError(
            f"the schedules of the step have {rows:,} rows, about {format_size(nbytes)}: expected at most "
            f"{format_size(LARGEST)}; lightloom collective --out writes one alone, --largest more of it"
        )


def _write_schedules(aside: Path, traces: StepTraces) -> None:
    """Write the traces of the schedules into the new folder ``aside``, and ``schedules.yml``, a line for each node that
    runs one: ``node: path`` (id of the node, path of :func:`_scheduled`); ``{}`` where none does."""
    names = _scheduled(traces)
    (aside / "schedules").mkdir()
    for use, name in names.items():
        carrier = traces.carriers[use]
        assert carrier.schedule is not None and carrier.fabric is not None
        write_traces(aside / name, carrier.schedule, carrier.fabric)
    lines = [f"{node}: {names[use]}" for node, use in collective_nodes(traces).items() if use in names]
    (aside / "schedules.yml").write_text("\n".join(lines or ["{}"]) + "\n")


def _system(traces: StepTraces, names: dict[CollectiveUse, str]) -> dict[str, object]:
    """Return the content of ASTRA-sim's ``system.json``: the simulator's settings by name, by which it reads the plan's
    schedules where ``names`` (paths by collective) has any, and runs rings for collectives without one."""
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    return {
        "scheduling-policy": "FIFO",
        "endpoint-delay": 1,  # at 0, collectives of ASTRA-sim's own lose their first event and never end
        "local-reduction-delay": 0,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "collective-optimization": "localBWAware",
        **{f"{kind}-implementation": ["ring"] * len(traces.network.dimensions) for kind in kinds},
        **({"per-node-custom-implementation": "schedules.yml"} if names else {}),
        "roofline-enabled": 0,
        "boost-mode": 0,
    }


def command(traces: StepTraces) -> str:
    """Return the shell command that runs the step with ASTRA-sim, from inside the folder."""
    return (
        f"AstraSim_Analytical_{traces.network.backend} --workload-configuration=step "
        "--comm-group-configuration=groups.json --system-configuration=system.json "
        "--network-configuration=network.yml --remote-memory-configuration=remote_memory.json"
    )


def _describe_export(traces: StepTraces, about: Mapping[str, object], nodes: int) -> dict[str, object]:
    """Return the content of ``lightloom.json``: ``schema``, all of ``about``, the seconds of the step with one
    communication at a time (``one_communication_at_a_time_s``), the numbers of ``ranks`` and ``nodes``, ``collectives``
    (axis, kind, nbytes, ranks and stride of each, with its ``algorithm`` and ``seconds``), ``notes`` and the
    ``command``."""
    return {
        "schema": SCHEMA,
        **about,
        "one_communication_at_a_time_s": replayed_seconds(traces),
        "ranks": traces.ranks,
        "nodes": nodes,
        "collectives": [
            {**use._asdict(), "algorithm": carrier.algorithm, "seconds": carrier.seconds}
            for use, carrier in traces.carriers.items()
        ],
        "notes": list(traces.notes),
        "command": command(traces),
    }
