"""Proof that the lightpaths of all jobs are legal together: no wavelength is used twice on a link."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.spec import Collective
from lightloom.collectives.verify.joint import verify_joint
from lightloom.collectives.verify.stepped import verify_light
from lightloom.core.arrays import Ints
from lightloom.fabrics.base import Fabric
from lightloom.planner.traffic.placing import neighbours
from lightloom.planner.traffic.work import Work


def verify_jobs(works: Sequence[Work], fabric: Fabric) -> Schedule:
    """Prove that the circuits of all jobs can be there at once, and return their lightpaths.

    Each job's parts are proved on its own fabric first. Jobs that meet hold one range of channels after the other.

    Raises:
        VerificationError: the first violation found.
    """
    first = np.zeros(len(works), np.int64)
    for numbers in neighbours([work.job for work in works], fabric):
        begin = 0
        for number in numbers:
            first[number] = begin
            begin += works[number].channels or 0
    parts: list[dict[str, Ints]] = []
    steps = paths = 0
    dependencies: list[Ints] = []
    for work, begin in zip(works, first.tolist(), strict=True):
        local = work.fabric.embedding()
        joint = verify_joint(work.parts, local)
        members = np.array(work.job.ranks, np.int64)
        channel = joint.fibre.astype(np.int64) * local.fibre_channels + joint.first_wavelength + begin
        parts.append(
            {
                "step": joint.step + steps,
                "lightpath": joint.lightpath + paths,
                "source": members[joint.source],
                "destination": members[joint.destination],
                "route": joint.route.astype(np.int64),
                "fibre": channel // fabric.fibre_channels,
                "first_wavelength": channel % fabric.fibre_channels,
                "wavelength_count": joint.wavelength_count.astype(np.int64),
                "chunk": joint.chunk.astype(np.int64),
                "reduces": joint.reduces.astype(np.int64),
            }
        )
        assert joint.dependencies is not None
        dependencies.append(joint.dependencies.astype(np.int64) + steps)
        steps, paths = steps + joint.steps, paths + int(joint.lightpath.max(initial=-1)) + 1
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    together = Schedule(
        algorithm="jobs",
        collective=Collective("all-gather", fabric.ranks, 0.0),
        chunks=fabric.ranks,
        steps=steps,
        dependencies=np.concatenate(dependencies),
        **columns,  # type: ignore[arg-type]
    )
    verify_light(together, fabric)
    return together
