"""Prices for the simulator: one verified schedule a kind of collective, resized to each bucket."""

from __future__ import annotations

from lightloom.collectives.bounds import Bound
from lightloom.collectives.cost import CostModel, circuits_key
from lightloom.collectives.evaluate import costed
from lightloom.collectives.price import Cost
from lightloom.collectives.registry import Algorithm, build
from lightloom.collectives.schedule import Schedule
from lightloom.collectives.spec import Collective, Kind
from lightloom.fabrics.base import Fabric
from lightloom.simulation.lower import Priced


class SchedulePrices:
    """Calls as the simulator's ``Price``; builds and verifies on first use of a kind, costs on first use of a size."""

    def __init__(self, algorithm: Algorithm, fabric: Fabric, model: CostModel) -> None:
        self.algorithm = algorithm
        self.fabric = fabric
        self.model = model
        self._schedules: dict[str, tuple[Schedule, str]] = {}
        self._priced: dict[tuple[str, float], tuple[Priced, Bound]] = {}

    def __call__(self, kind: str, nbytes: float) -> Priced:
        return self._entry(kind, nbytes)[0]

    def cost(self, kind: str, nbytes: float) -> tuple[Cost, Bound]:
        """The cost of one collective, and the bound it was held against."""
        priced, bound = self._entry(kind, nbytes)
        return priced.cost, bound

    def schedule(self, kind: str, nbytes: float) -> Schedule:
        """The verified schedule of one collective."""
        return self._schedule(kind)[0].resized(nbytes)

    def _schedule(self, kind: str) -> tuple[Schedule, str]:
        if kind not in self._schedules:
            collective = Collective(_as_kind(kind), self.fabric.ranks, 0.0)
            schedule = build(self.algorithm, collective, self.fabric)
            self._schedules[kind] = schedule, circuits_key(schedule)
        return self._schedules[kind]

    def _entry(self, kind: str, nbytes: float) -> tuple[Priced, Bound]:
        key = kind, nbytes
        if key not in self._priced:
            schedule, circuits = self._schedule(kind)
            price, bound = costed(schedule.resized(nbytes), self.fabric, self.model)
            self._priced[key] = Priced(cost=price, circuits=circuits if price.static else None), bound
        return self._priced[key]


def _as_kind(kind: str) -> Kind:
    return kind  # type: ignore[return-value]  # Collective refuses what is none
