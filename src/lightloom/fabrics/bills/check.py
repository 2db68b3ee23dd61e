"""What every bill of a fabric promises, for :func:`lightloom.fabrics.conformance.check_fabric`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lightloom.parts.bill import Bill, Total

_CLOSE = 1e-9


def bill_complaints(bill: Bill, ranks: int) -> Iterator[str]:
    """Yield the promises that a bill breaks.

    Counts are finite and not negative, every line is of a part, totals lie within their ranges and name what they lack,
    and energy is static power times time without load and grows by the dynamic energy of every bit.
    """
    if bill.ranks != ranks:
        yield f"the bill is of {bill.ranks} ranks: expected {ranks}"
    if not bill.lines and not bill.missing:
        yield "the bill has no parts and names nothing as missing"
    for line in bill.lines:
        if not (math.isfinite(line.per_rank) and line.per_rank >= 0):
            yield f"the bill counts {line.per_rank} of {line.part.name} for a rank"
        elif not line.why:
            yield f"the bill does not say how it counts {line.part.name}"
    for name in ("dollars", "static_power", "dynamic_power", "failure_rate"):
        total: Total = getattr(bill, name)
        if total.value is None or total.low is None or total.high is None:
            if not total.missing:
                yield f"{name} is unknown and nothing is named as missing"
        elif not 0 <= total.low <= total.value * (1 + _CLOSE) <= total.high * (1 + 2 * _CLOSE) < math.inf:
            yield f"{name} is {total.value}, outside {total.low} to {total.high}"
    yield from _energies(bill)


def _energies(bill: Bill) -> Iterator[str]:
    static, dynamic = bill.static_power.value, bill.dynamic_power.value
    idle = bill.energy(2.0, 0.0).value
    if static is not None and not math.isclose(idle or 0.0, 2.0 * static, rel_tol=_CLOSE):
        yield f"2 s without load take {idle} J: expected the static power of {static} W times 2 s"
    if None in (static, dynamic) or bill.bandwidth is None or bill.dynamic_energy.value is None:
        return
    full = bill.energy(2.0, 2.0 * 8 * bill.bandwidth).value
    if not math.isclose(full or 0.0, 2.0 * ((static or 0.0) + (dynamic or 0.0)), rel_tol=_CLOSE):
        yield f"2 s at full load take {full} J: expected {static} W and {dynamic} W of load times 2 s"
