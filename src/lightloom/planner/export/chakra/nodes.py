"""Operations of stages as nodes of every rank's trace.

    node id          stage · longest list + place in the list: equal ids are equal collectives, on every rank
    duration         whole microseconds, as the format has it; what is lost is added to the next one's
    pg_name          number of the communicator group; none for all ranks

ASTRA-sim keeps the first schedule of each kind that a communicator group runs, so that collectives of other sizes have
groups of the same ranks under other numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lightloom.collectives.spec import Kind
from lightloom.core.errors import UnsupportedError
from lightloom.interchange.chakra_attributes import Value
from lightloom.interchange.chakra_nodes import COLLECTIVE, COMPUTE, RECEIVE, SEND, Node
from lightloom.planner.export.chakra.operations import CollectiveUse, Operation
from lightloom.planner.export.chakra.step_traces import StepTraces

COMM_TYPES: dict[Kind, int] = {"all-reduce": 0, "all-gather": 2, "all-to-all": 6, "reduce-scatter": 7}
"""``comm_type`` of the kinds that ASTRA-sim runs, as the schema numbers them."""
NANOSECONDS = "lightloom.nanoseconds"
"""Attribute: the duration of a node before it was rounded."""
MOST_NODES = 5_000_000
"""Nodes of all ranks that are written."""
MOST_GROUPS = 2147
"""Communicator groups: ASTRA-sim numbers the streams of each from its number times a million, in 32 bits."""


class Groups(NamedTuple):
    """Communicator groups, numbered from 1 on."""

    members: dict[int, list[int]]
    number: dict[tuple[CollectiveUse, tuple[int, ...]], list[int]]
    """By collective and the stages that it joins: the group of each rank, 0 for all ranks."""


def communicator_groups(traces: StepTraces) -> Groups:
    """Number the groups of every collective.

    Raises:
        UnsupportedError: more groups than ASTRA-sim counts.
    """
    groups = Groups({}, {})
    for operation in (operation for stage in traces.stages for operation in stage):
        key = operation.use, operation.stages
        if operation.use is None or key in groups.number:
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
    """Return the ranks of the groups of a collective that run it: those of the stages that have it."""
    assert operation.use is not None
    if not operation.stages:
        members: list[list[int]] = traces.members(operation.use).tolist()
        return members
    per_stage = traces.ranks // len(traces.stages)
    return [[stage * per_stage + place for stage in operation.stages] for place in range(per_stage)]


def node_count(traces: StepTraces) -> int:
    """Return how many nodes the traces of all ranks have.

    Raises:
        UnsupportedError: too many to write.
    """
    per_stage = traces.ranks // len(traces.stages)
    count = per_stage * sum(map(len, traces.stages))
    rows = {id(carrier.schedule): len(carrier.schedule) for carrier in traces.carriers.values() if carrier.schedule}
    count += 2 * sum(rows.values())
    if count > MOST_NODES:
        raise UnsupportedError(
            f"{count:,} nodes in all traces: at most {MOST_NODES:,} are written: expected fewer ranks or micro-batches"
        )
    return count


def collective_nodes(traces: StepTraces) -> dict[int, CollectiveUse]:
    """Return the collective of each node id that is one."""
    stride = max(map(len, traces.stages))
    return {
        stage * stride + place: operation.use
        for stage, operations in enumerate(traces.stages)
        for place, operation in enumerate(operations)
        if operation.use is not None
    }


def rank_nodes(traces: StepTraces, groups: Groups) -> Iterator[list[Node]]:
    """Yield the nodes of each rank."""
    per_stage, stride = traces.ranks // len(traces.stages), max(map(len, traces.stages))
    durations = [_microseconds(operations) for operations in traces.stages]
    for rank in range(traces.ranks):
        stage, place = divmod(rank, per_stage)
        first, operations = stage * stride, traces.stages[stage]
        yield [
            Node(
                id=first + index,
                name=operation.name,
                type=_type(operation),
                control=tuple(first + before for before in operation.control),
                data=tuple(first + before for before in operation.data),
                duration=duration,
                attributes=_attributes(operation, rank, operation.peer * per_stage + place, groups),
            )
            for index, (operation, duration) in enumerate(zip(operations, durations[stage], strict=True))
        ]


def _type(operation: Operation) -> int:
    types = {"compute": COMPUTE, "host": COMPUTE, "collective": COLLECTIVE, "send": SEND, "receive": RECEIVE}
    return types[operation.verb]


def _microseconds(operations: tuple[Operation, ...]) -> list[int]:
    """Return durations in whole microseconds whose running sums, of each verb, are right to half of one."""
    durations = np.zeros(len(operations), np.int64)
    for verb in ("compute", "host"):
        places = [place for place, operation in enumerate(operations) if operation.verb == verb]
        ends = np.rint(np.cumsum([0.0, *(operations[place].seconds for place in places)]) * 1e6).astype(np.int64)
        durations[places] = np.diff(ends)
    return durations.tolist()


def _attributes(operation: Operation, rank: int, peer: int, groups: Groups) -> dict[str, Value]:
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
    """Bytes of a collective as ASTRA-sim counts them: of an all-gather what every rank brings, else what it holds."""
    return int(np.ceil(use.nbytes / (use.ranks if use.kind == "all-gather" else 1)))
