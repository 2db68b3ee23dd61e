"""The in-network averager of OptINC as a fabric: light from every rank is averaged on its way back to every rank.

rank i ──up i──▶ ╔══════════╗ ──down j──▶ rank j        what enters in a step leaves in the same step
                 ║ averager ║
                 ╚══════════╝

``averaging`` says what the averager is made of; levels, latency, power and how many instances the bandwidth takes
follow from it (`photonics.capacity`, or `photonics.averaging.hardware` for a network of given devices), but for what is
given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import ValidationError, model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.errors import UnitError
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.core.units import parse
from lightloom.fabrics.averaging import Averaging, BuiltAverager
from lightloom.fabrics.bills.averagers import averager_bill
from lightloom.fabrics.footprint import Footprint
from lightloom.fabrics.star import StarGeometry
from lightloom.parts.bill import Bill
from lightloom.parts.choices import BillChoices
from lightloom.parts.part import Kind

_DERIVED = ("derived", "assumption: derived")
"""How the sources of derived fields begin."""


class OpticalAverager(StarGeometry):
    """A star around an averaging optical neural network (OptINC, Fig. 2); it cannot carry rank-to-rank transfers."""

    kind: Literal["optical-averager"] = "optical-averager"
    bandwidth: Bandwidth = 800e9
    """Bytes per second of a rank's port, per direction."""
    averaging: Averaging | None = None
    """What the averager is made of: gives the fields below, and the power of a rank, where they are left out."""
    levels: Count = 1
    """Averagers in cascade between a rank and the root."""
    averaging_latency: Seconds = 0.0
    """Seconds that light and receivers spend in one level, both ways."""
    built: BuiltAverager | None = None
    """What the bandwidth takes of the averager."""

    in_network_reduction: ClassVar[bool] = True
    stated_power_of: ClassVar[tuple[Kind, ...] | None] = ("transceiver", "averager")

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("averaging") is None or type(data.get("ranks")) is not int:
            return data
        try:
            averaging = Averaging.model_validate(data["averaging"])
        except ValidationError:
            return data  # the field itself complains, and says where
        try:
            bandwidth = parse(data.get("bandwidth", cls.model_fields["bandwidth"].default), "bandwidth")
        except UnitError:
            return data
        if not 0 < bandwidth < float("inf"):
            return data
        derived = averaging.derived(data["ranks"], bandwidth) if data["ranks"] > 1 else {"sources": {}}
        sources = {key: text for key, text in derived.pop("sources").items() if key not in data}
        given = data.get("sources")
        if not isinstance(given, Mapping | None):
            return data
        return {**derived, **data, "sources": sources | dict(given or {})}

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        watts, unknown = (self.built.watts, self.built.unknown) if self.built is not None else ({}, ())
        return averager_bill(self.ranks, self.bandwidth, watts, unknown, choices)

    @property
    def built_of(self) -> str:
        return "" if self.built is None else self.built.text()

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.built is None else self.built.limits

    def stated_fields(self) -> dict[str, object]:
        """The fields without those that follow from ``averaging``."""
        derived = set()
        if self.averaging is not None:
            derived = {name for name, source in self.sources.items() if source.startswith(_DERIVED)}
        fields = {name: value for name, value in super().stated_fields().items() if name not in derived}
        return fields | {"sources": {name: text for name, text in self.sources.items() if name not in derived}}

    @property
    def taps(self) -> int:
        return self.ranks

    @property
    def port_bandwidth(self) -> float:
        return self.bandwidth

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        up = np.asarray(destination) == self.switch_rank
        return Footprint.of([(np.where(up, 0, self.ranks), np.where(up, source, destination), 1, self.ranks)])

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        up = np.asarray(destination) == self.switch_rank
        return self.hop_latency + np.where(up, self.levels * self.averaging_latency, 0.0)

    def diameter_latency(self) -> float:
        return 2 * self.hop_latency + self.levels * self.averaging_latency
