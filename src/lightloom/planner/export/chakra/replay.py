"""The written operations played by this package's engine, under the rules by which ASTRA-sim plays traces.

A rank computes one node at a time and has one send or collective on its way at a time, the smallest number first among
those that may start; receives cost nothing. A plan's own times let axes that have channels of their own overlap: what
both differ by is the price of these rules, and none of a network.
"""

from __future__ import annotations

from functools import partial

from lightloom.planner.export.chakra.operations import Operation
from lightloom.planner.export.chakra.step_traces import StepTraces
from lightloom.simulation.engine import Task, run


def replayed_seconds(traces: StepTraces, *, one_at_a_time: bool = True) -> float:
    """Return the seconds of the step when every rank has one communication at a time, or sends beside collectives."""
    index = {(stage, place): 0 for stage, operations in enumerate(traces.stages) for place in range(len(operations))}
    index = {key: number for number, key in enumerate(index)}
    sources = {
        operation.tag: index[stage, place]
        for stage, operations in enumerate(traces.stages)
        for place, operation in enumerate(operations)
        if operation.verb == "send"
    }
    task = partial(_task, traces, one_at_a_time)
    joined: dict[tuple[object, ...], list[int]] = {}
    tasks: list[Task] = []
    for stage, operations in enumerate(traces.stages):
        for place, operation in enumerate(operations):
            after = [index[stage, before] for before in (*operation.data, *operation.control)]
            if operation.stages:
                joined.setdefault((operation.use, operation.stages), []).extend(after)
            if operation.verb == "receive":
                after = [sources[operation.tag]]
            tasks.append(task((stage, place), operation, tuple(after)))
    # A collective of several stages begins when all of them are there.
    for stage, operations in enumerate(traces.stages):
        for place, operation in enumerate(operations):
            if operation.stages:
                number = index[stage, place]
                tasks[number] = task((stage, place), operation, tuple(joined[operation.use, operation.stages]))
    return run(tasks).step_time


def _task(
    traces: StepTraces, one_at_a_time: bool, key: tuple[int, int], operation: Operation, after: tuple[int, ...]
) -> Task:
    stage, place = key
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
    return Task(
        name=operation.name, resource=resource, category=category, duration=seconds, after=after, priority=place
    )
