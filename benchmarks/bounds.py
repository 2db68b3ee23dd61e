"""How far bounds lie below the optimum of small cases: the six classic kinds among two to four ranks.

python -m benchmarks.bounds
"""

from __future__ import annotations

from math import ceil

from tests.collectives.optimum import FABRICS, SLOT, STANDING, fewest_slots, problem

from benchmarks.support.measure import parse_no_options
from lightloom.collectives.bounds.lower_bound import lower_bound
from lightloom.collectives.collective import CLASSIC


def main() -> None:
    """One line a kind: how often the bound, rounded up to whole slots, is the optimum, and the worst other case."""
    for kind in CLASSIC:
        ratios = [
            _ratio(name, kind, ranks, lag)
            for name in FABRICS
            for ranks in ((2, 3) if kind == "all-reduce" else (2, 3, 4))
            for lag in (0, 1, 2)
        ]
        above = [ratio for ratio in ratios if ratio > 1]
        print(f"{kind:15}{len(ratios):4} cases, {len(ratios) - len(above):4} optimal, at most {max(ratios):.2f} times")


def _ratio(name: str, kind: str, ranks: int, lag: int) -> float:
    fabric = FABRICS[name](ranks, lag)
    asked = problem(kind, fabric, standing=fabric.setup_time == STANDING)
    bound = max(1, ceil((lower_bound(asked.collective, fabric).time - fabric.setup_time) / SLOT - 1e-6))
    return fewest_slots(asked, bound) / bound


if __name__ == "__main__":
    parse_no_options(__doc__)
    main()
