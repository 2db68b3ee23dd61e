"""The verifier of joint schedules: every group does what its collective promises, and no two share a channel.

What it proves:

1. the schedule of each part serves its collective on the channels of one group, by the verifier of schedules;
2. the lightpaths of all groups of a part lie between the ranks of these groups as the schedule says;
3. the lightpaths of all parts together are legal: those whose steps nothing orders hold different channels of every
   link, light reaches its destination, and no rank uses more transceivers than it has;
4. sends reach the rank a stride further on, and the one as far before, hop by hop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lightloom.collectives.joint.parts import GroupPart, Part, ShiftPart, joint_schedule, lightpath_rows
from lightloom.collectives.schedule.columns import Schedule
from lightloom.collectives.verify.stepped import verify, verify_light
from lightloom.core.errors import VerificationError
from lightloom.fabrics.base import Fabric


def verify_joint(parts: Sequence[Part], fabric: Fabric) -> Schedule:
    """Prove that all parts can run at once, and return the lightpaths of all of them.

    Raises:
        VerificationError: the first violation found.
    """
    joint, begins = joint_schedule(parts, fabric)
    for part, begin, end in zip(parts, begins, [*begins[1:], len(joint)], strict=True):
        rows = slice(begin, end)
        if isinstance(part, ShiftPart):
            _check_shift(part, joint, rows, fabric)
        else:
            verify(part.schedule, part.local(fabric))
            _check_members(part, joint, rows, fabric)
    verify_light(joint, fabric)
    return joint


def _check_members(part: GroupPart, joint: Schedule, rows: slice, fabric: Fabric) -> None:
    """Prove that the lightpaths of every group join the ranks that the schedule of one group says."""
    ranks, stride = part.axis.ranks, part.axis.stride
    first = (np.arange(0, fabric.ranks, ranks * stride)[:, None] + np.arange(stride)).ravel()
    own = lightpath_rows(part.schedule, part.local(fabric))
    for name in ("source", "destination"):
        expected = (first[:, None] + getattr(own, name).astype(np.int64) * stride).ravel()
        if not np.array_equal(getattr(joint, name)[rows], expected):
            raise VerificationError(f"{part.name}: a lightpath's {name} is not the rank that its group has there")


def _check_shift(part: ShiftPart, joint: Schedule, rows: slice, fabric: Fabric) -> None:
    """Follow what every rank sends, hop by hop, both ways."""
    shift = fabric.shift(part.stride, part.channels)
    for way in (1, -1):
        onward = np.full(fabric.ranks, -1, np.int64)
        ends = joint.source[rows].astype(np.int64), joint.destination[rows].astype(np.int64)
        chosen = (ends[1] - ends[0] - way * shift.hop) % fabric.ranks == 0
        onward[ends[0][chosen]] = ends[1][chosen]
        at = np.arange(fabric.ranks)
        for _ in range(part.stride // shift.hop):
            at = onward[at]
            if (at < 0).any():
                raise VerificationError(f"{part.name}: a rank has no circuit to the one {way * shift.hop} further on")
        if not np.array_equal(at, (np.arange(fabric.ranks) + way * part.stride) % fabric.ranks):
            raise VerificationError(f"{part.name}: sends do not reach the rank {way * part.stride} further on")
