"""Prices for the simulator: one verified schedule a kind of collective, resized to each bucket."""

from __future__ import annotations

from dataclasses import dataclass

from lightloom.collectives.bounds import Bound
from lightloom.collectives.cost import CircuitChanges, CostModel, circuit_changes, circuits_key
from lightloom.collectives.evaluate import costed
from lightloom.collectives.price import Cost
from lightloom.collectives.registry import Algorithm, build
from lightloom.collectives.schedule import Schedule
from lightloom.collectives.spec import Collective, Kind
from lightloom.fabrics.base import Fabric
from lightloom.simulation.lower import Priced


@dataclass(frozen=True, slots=True)
class _Built:
    """A verified schedule and what does not depend on its size."""

    schedule: Schedule
    changes: CircuitChanges | None
    circuits: str | None


class SchedulePrices:
    """Calls as the simulator's ``Price``; builds and verifies on first use of a kind, costs on first use of a size."""

    def __init__(self, algorithm: Algorithm, fabric: Fabric, model: CostModel) -> None:
        self.algorithm = algorithm
        self.fabric = fabric
        self.model = model
        self._built: dict[Kind, _Built] = {}
        self._priced: dict[tuple[Kind, float], tuple[Priced, Bound]] = {}

    def __call__(self, kind: Kind, nbytes: float) -> Priced:
        return self._entry(kind, nbytes)[0]

    def cost(self, kind: Kind, nbytes: float) -> tuple[Cost, Bound]:
        """The cost of one collective, and the bound it was held against."""
        priced, bound = self._entry(kind, nbytes)
        return priced.cost, bound

    def schedule(self, kind: Kind, nbytes: float) -> Schedule:
        """The verified schedule of one collective."""
        return self._build(kind).schedule.resized(nbytes)

    def forget_schedules(self) -> None:
        """Keep the prices only: schedules grow with the square of the ranks, and can be built again."""
        self._built.clear()

    def _build(self, kind: Kind) -> _Built:
        if kind not in self._built:
            schedule = build(self.algorithm, Collective(kind, self.fabric.ranks, 0.0), self.fabric)
            changes = circuit_changes(schedule, self.fabric) if self.fabric.exclusive else None
            circuits = circuits_key(schedule) if changes is not None and changes.static else None
            self._built[kind] = _Built(schedule, changes, circuits)
        return self._built[kind]

    def _entry(self, kind: Kind, nbytes: float) -> tuple[Priced, Bound]:
        key = kind, nbytes
        if key not in self._priced:
            built = self._build(kind)
            price, bound = costed(built.schedule.resized(nbytes), self.fabric, self.model, built.changes)
            self._priced[key] = Priced(cost=price, circuits=built.circuits if price.static else None), bound
        return self._priced[key]
