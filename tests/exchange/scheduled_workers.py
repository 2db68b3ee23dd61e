"""Laws of sums by the rows of schedules, tried by every rank of one launch; results are JSON."""

from __future__ import annotations

import zlib
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lightloom import exchange
from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.collectives.schedule.columns import Schedule
from lightloom.core.errors import LightloomError
from lightloom.exchange.distributed.factory import exchanger
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.residuals import Geometry
from lightloom.exchange.distributed.schedule_exchange import BUCKET_BYTES
from lightloom.exchange.execution import ScheduleExecutor
from lightloom.exchange.transport.worker import Worker
from lightloom.machines.fabrics.load import load_fabric
from tests import imported_by_ranks  # noqa: F401

ALGORITHMS = ("synthesized", "ring", "ring-two-way", "optree", "one-stage")
BLOCK = 8
"""Values of a block; chunks are whole blocks."""
CODINGS = {
    "float32": (32, 0.0),
    "bf16": (16, 2.0**-9),
    "int8:block=8": (10, 1 / 254),
    "int4:block=8,feedback=no": (6, 1 / 14),
}
"""By coding, bytes of ``BLOCK`` values on the wire, and the largest error of an encoding relative to the block's
largest value."""


def halves(algorithm: str, ranks: int) -> tuple[Schedule, Schedule]:
    """The reduce-scatter and the all-gather of an algorithm on a ring of wavelengths."""
    fabric = load_fabric("wdm-ring", ranks)
    scatter, gather = (Collective(kind, ranks, BUCKET_BYTES) for kind in ("reduce-scatter", "all-gather"))
    return build(find(algorithm), scatter, fabric), build(find(algorithm), gather, fabric)


def draw(rank: int, values: int) -> Tensor:
    """Normal values of a rank."""
    return torch.randn(values, generator=torch.Generator().manual_seed(rank))


def averages(worker: Worker, group: OwnGroup) -> dict[str, dict[str, Any]]:
    """By algorithm and coding: the mean's error over its bound, equal replicas, bytes as rows have them, and the bits
    of the executor of schedules, where nothing is coded."""
    results = {}
    for algorithm in ALGORITHMS:
        schedules = halves(algorithm, worker.size)
        values = 3 * BLOCK * max(schedule.chunks for schedule in schedules)
        every = torch.stack([draw(rank, values) for rank in range(worker.size)]).double()
        exact, largest = every.mean(0), float(every.abs().mean(0).max())
        plain = draw(worker.rank, values) / worker.size
        for schedule in schedules:
            plain = ScheduleExecutor(schedule)(plain)
        # The executor cuts blocks into chunks in order; tensors of this name are cut so, too.
        pieces = schedules[0].chunks // worker.size
        name = next(f"weight{k}" for k in range(1000) if zlib.crc32(f"weight{k}".encode()) % pieces == 0)
        rows = [schedule.unfolded(1 << 15) for schedule in schedules]
        carried = sum(int((each.source == worker.rank).sum()) * values // each.chunks for each in rows)
        for coding, (nbytes, error) in CODINGS.items():
            text = f"two-level:node={worker.size},inside=({algorithm}:coding=({coding})),between=float32"
            run, before, mean = exchanger(exchange.find(text), group), group.sent, draw(worker.rank, values)
            run.average(mean, Geometry.joined([(name, (values,))]))
            first = mean.clone()
            dist.broadcast(first, 0)
            # Each of the ranks' partial sums is encoded at most once, and the sum once more; rounding is float32's.
            bound = largest * (1.02 * worker.size * error + worker.size * 2.0**-23)
            results[f"{algorithm} {coding}"] = {
                "error": float((mean - exact).abs().max()) / bound,
                "replicas": torch.equal(mean, first),
                "bytes": group.sent - before == carried * nbytes // BLOCK,
                "executor": coding != "float32" or torch.equal(mean, plain),
            }
    return results


def refusals(worker: Worker, group: OwnGroup) -> list[str]:
    """What every rank is told; afterwards the group works."""
    said = []
    light = "two-level:node=2,inside=(ring:coding=(int8)),between=(optical)"
    for text, value in (
        ("two-level:node=3,inside=ring,between=float32", torch.ones(8)),
        ("two-level:node=2,inside=wrht,between=float32", torch.ones(8)),
        ("two-level:node=2,inside=ring,between=int8", torch.ones(8, dtype=torch.float64)),
        (light, torch.tensor([torch.nan if worker.rank == 1 else 1.0] + [1.0] * 7)),
    ):
        try:
            exchanger(exchange.find(text), group).average_tensor(value, Geometry.joined([("weight", (8,))]))
        except LightloomError as error:
            said.append(str(error))
    ones = torch.ones(8)
    exchanger(exchange.find(light), group).average_tensor(ones, Geometry.joined([("weight", (8,))]))
    return [*said, "works" if torch.allclose(ones, torch.ones(8), atol=1e-2) else str(ones)]


def everything(worker: Worker) -> dict[str, Any]:
    """All laws."""
    torch.set_num_threads(1)
    default = dist.group.WORLD
    assert default is not None
    group = OwnGroup(default, 600.0)
    return {"averages": averages(worker, group), "refusals": refusals(worker, group)}
