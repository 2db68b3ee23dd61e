"""Every algorithm by name; and the only door through which schedules leave: verified."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache
from hashlib import blake2b

from lightloom.collectives.algorithm import Algorithm
from lightloom.collectives.collective import Collective
from lightloom.collectives.cost.loads import StepLoads, at_size, step_loads
from lightloom.collectives.cost.price import CostModel
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.verifier import verify
from lightloom.core.errors import UnknownNameError, UnsupportedError
from lightloom.core.plugins import plugins_of
from lightloom.machines.fabrics.fabric import Fabric


@cache
def algorithms() -> dict[str, Algorithm]:
    """Return every algorithm, plug-ins included, by name.

    Raises:
        ConfigError: a plug-in registered something that is not an :class:`Algorithm`.
    """
    return {algorithm.name: algorithm for algorithm in [*_built_in(), *plugins_of("algorithms", Algorithm)]}


def _built_in() -> list[Algorithm]:
    from lightloom.collectives.algorithms import direct, doubling, optree, ring, trees, wrht
    from lightloom.collectives.synthesis.synthesized import SYNTHESIZED

    plain = [
        ring.RING,
        ring.RING_TWO_WAY,
        doubling.RECURSIVE_DOUBLING,
        doubling.HALVING_DOUBLING,
        doubling.BRUCK,
        ring.NEIGHBOUR_EXCHANGE,
        direct.ONE_STAGE,
        trees.BINOMIAL_TREE,
        trees.WORKER_AGGREGATOR,
        wrht.WRHT,
        optree.OPTREE,
        direct.SERPENTINE,
    ]
    alone = [ring.NEIGHBOUR_EXCHANGE_PAIRS, SYNTHESIZED, direct.IN_NETWORK, doubling.HIERARCHICAL]
    alone += [trees.DOUBLE_TREE, direct.MESH_BROADCAST, direct.BOTH_AXES]
    return [*plain, *(algorithm.bundled() for algorithm in plain), *alone]


def find(name: str) -> Algorithm:
    """Return an algorithm by name.

    Raises:
        UnknownNameError: no such algorithm (lists all).
    """
    if name not in algorithms():
        raise UnknownNameError("algorithm", name, algorithms())
    return algorithms()[name]


def admitted(kind: str, fabric: Fabric, model: CostModel = "physical") -> list[Algorithm]:
    """Return the algorithms that can serve ``kind`` on this fabric under a cost model."""
    return [algorithm for algorithm in algorithms().values() if algorithm.refusal(kind, fabric, model) is None]


def build(algorithm: Algorithm, collective: Collective, fabric: Fabric) -> Schedule:
    """Build a schedule, a pipeline in as many pieces as suit its size, and verify it.

    Raises:
        UnsupportedError: the algorithm cannot serve this (says why).
        VerificationError: the algorithm is wrong.
    """
    schedule = _built(algorithm, collective, fabric)
    verify(schedule, fabric)
    if schedule.pipeline is None:
        return schedule
    return at_size(schedule, collective.nbytes, step_loads(schedule, fabric), fabric)


def build_with_loads(
    algorithm: Algorithm, collective: Collective, fabric: Fabric, model: CostModel = "physical"
) -> tuple[Schedule, StepLoads | None]:
    """Return the verified schedule, and its loads under a cost model; None of a queued schedule, whose rows are priced.

    Raises:
        UnsupportedError: the algorithm cannot serve this (says why).
        VerificationError: the algorithm is wrong.
    """
    schedule = _built(algorithm, collective, fabric)
    content = _content(schedule, fabric, model)
    loads = None if content is None else _latest.get(content)
    if loads is None:
        verify(schedule, fabric)
        if schedule.queued:
            return schedule, None
        loads = step_loads(schedule, fabric, model)
        if content is not None:
            _latest[content] = loads
            if len(_latest) > _KEPT:
                _latest.popitem(last=False)
    loads = loads.at_size(collective.nbytes, fabric)
    return at_size(schedule, collective.nbytes, loads, fabric), loads


_KEPT = 16
_latest: OrderedDict[bytes, StepLoads] = OrderedDict()
"""Loads of the schedules of circuits that were verified last: bundling wavelengths often changes nothing."""


def _content(schedule: Schedule, fabric: Fabric, model: CostModel) -> bytes | None:
    """Return a hash of all that is verified and loaded; None where that costs no more than the hash."""
    if not fabric.exclusive or schedule.queued or schedule.folding is not None or schedule.dependencies is not None:
        return None
    collective = schedule.collective
    fields = (*fabric.implementation, fabric.model_dump_json(exclude={"sources"}), model, collective.resized(0.0))
    digest = blake2b(repr((fields, hash(collective.sizes), schedule.chunks, schedule.steps)).encode())
    lists = schedule.lists
    for column in (*schedule.columns().values(), *(() if lists is None else (lists.chunks, lists.first, lists.count))):
        digest.update(column.data)
    return digest.digest()


def _built(algorithm: Algorithm, collective: Collective, fabric: Fabric) -> Schedule:
    refusal = algorithm.refusal(collective.kind, fabric)
    if refusal:
        raise UnsupportedError(refusal)
    kind = algorithm.carried_as(collective.kind)
    if kind == collective.kind:
        return algorithm.build(collective, fabric, striped=algorithm.striped)
    carrier = algorithm.build(collective.of_kind(kind), fabric, striped=algorithm.striped)
    return carrier.carrying(collective, fabric.fibre_channels)
