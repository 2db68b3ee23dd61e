"""The in-network averager of OptINC as a fabric: light from every rank is averaged on its way back to every rank.

rank i ──up i──▶ ╔══════════╗ ──down j──▶ rank j        what enters in a step leaves in the same step
                 ║ averager ║
                 ╚══════════╝

``averaging`` says what the averager is made of; levels, latency, power and how many instances the bandwidth takes
follow from it (`machines.reducers.capacity`, or `machines.reducers.hardware` for a network of given devices), but for
what is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from lightloom.core.arrays import Floats, Ints
from lightloom.core.fields import Bandwidth, Count, Seconds
from lightloom.core.units import format_quantity, parse
from lightloom.machines.fabrics.derived import Footprint
from lightloom.machines.fabrics.fabric import with_derived, without_derived
from lightloom.machines.fabrics.packets import StarGeometry
from lightloom.machines.parts.bill import Bill, BillChoices
from lightloom.machines.parts.part import Kind
from lightloom.machines.reducers.built import SYMBOL_RATE, Averaging, BuiltAverager, instances_text
from lightloom.machines.reducers.hardware import AveragerHardware


def _of_reducer(averaging: Averaging, ranks: int, bandwidth: float) -> dict[str, Any]:
    """Return the fields that an optical averager takes from the compared reducer that ``averaging`` names, by name:
    ``levels`` (averagers in cascade), ``averaging_latency`` (seconds of a level, both ways, fibres left out),
    ``power_per_rank`` (watts), ``energy_per_bit`` (0, as parts draw the same power idle), ``built`` (a
    :class:`BuiltAverager`) and ``sources`` (the text on where each of these comes from).

    ``bandwidth`` is the bytes per second of a rank's port.

    Raises:
        UnknownNameError: there is no reducer or constant of a name.
        UnsupportedError: there is no such network, or no light suffices for so many ranks.
        ConfigError: a number is out of range, or wavelengths do not fit beside each other on a mesh.
    """
    from lightloom.machines.reducers.capacity import capacity

    made = capacity(averaging, ranks, bandwidth)
    origin = f"{averaging.reducer} of lightloom onn build --reducers"
    most = "no limit" if made.high is None else f"{made.high:.3g}"
    scaled = "; light of two levels is one level's, scaled by the noise they must bear, not simulated"
    return {
        "levels": made.levels,
        "averaging_latency": made.latency / made.levels,
        "power_per_rank": made.total / ranks,
        "energy_per_bit": 0.0,
        "built": BuiltAverager.model_validate(made.model_dump(include=set(BuiltAverager.model_fields))),
        "sources": {
            "levels": f"derived: {origin}",
            "averaging_latency": f"assumption: derived from {origin}, fibres left out",
            "power_per_rank": (
                f"assumption: derived from {origin}, {made.assumed} of whose constants are assumptions; all instances "
                f"{made.low:.3g} to {most} W in 90 % of draws{scaled if made.levels > 1 else ''}"
            ),
            "energy_per_bit": "derived: every part draws its power busy or idle, in power_per_rank",
            "built": f"derived: {instances_text(made.instances, made.instance_bandwidth)}",
        },
    }


def _of_devices(averaging: Averaging, ranks: int, bandwidth: float) -> dict[str, Any]:
    """Return the fields that an optical averager takes from a network constructed for ``ranks`` ranks of the devices in
    ``averaging``, by name: ``levels`` (averagers in cascade), ``averaging_latency`` (seconds of a level, a lower bound
    where a device's is unknown) and ``built`` (a :class:`BuiltAverager`); ``power_per_rank`` (watts) and
    ``energy_per_bit`` (0, as parts draw the same power idle) only where the power of every device is known; and
    ``sources`` (the text on where each of these comes from).

    ``bandwidth`` is the bytes per second of a rank's port.

    Raises:
        ConfigError: two levels do not reach all ranks.
        UnsupportedError: no network tolerates the noise.
    """
    from lightloom.machines.reducers.capacity import instance_bandwidth, instances_for
    from lightloom.machines.reducers.hardware import averager_for

    made = averager_for(
        ranks, averaging.bits, servers=averaging.servers, noise=averaging.noise, nonlinearity=averaging.nonlinearity
    )
    levels, latency, power = len(made.levels), made.latency(averaging), made.power(averaging)
    lacking = f"; a lower bound without {', '.join(latency.lacking)}" if latency.lacking else ""
    rate = averaging.symbol_rate or SYMBOL_RATE
    count = instances_for(bandwidth, averaging.bits, rate)
    each = instance_bandwidth(averaging.bits, rate)
    built = BuiltAverager(
        reducer="constructed network",
        instances=count,
        meshes=count,
        instance_bandwidth=each,
        lanes=count * made.levels[0].signals,
        watts={name: watts * count for name, watts in power.known.items()},
        unknown=power.lacking,
        limits=_limits(made, averaging),
    )
    fields: dict[str, Any] = {"levels": levels, "averaging_latency": latency.value / levels, "built": built}
    sources = {
        "levels": f"derived: averagers of {averaging.servers or ranks} ports for {ranks} ranks",
        "averaging_latency": f"derived: {made.depth} columns of MZIs in all{lacking}",
        "built": f"derived: {instances_text(count, each)}",
    }
    if power.complete:
        fields |= {"power_per_rank": power.value * count / ranks, "energy_per_bit": 0.0}
        sources["power_per_rank"] = f"derived: {', '.join(power.known)}; {count} instances"
        sources["energy_per_bit"] = "derived: every part draws its power busy or idle, in power_per_rank"
    return fields | {"sources": sources}


def _limits(made: AveragerHardware, parts: Averaging) -> tuple[str, ...]:
    """Return, in a tuple, one sentence that gives the light asked for and the light borne, where a server's modulator
    does not bear the light that the loss of all columns asks for; empty where it does, or where the loss of a column or
    the light asked for is not known.

    Args:
        made: the averager's network.
        parts: the devices that it is made of.
    """
    from lightloom.machines.reducers.constants import published

    launched, borne = made.launched(parts), published()["modulator_limit"]
    if launched is None or parts.loss_db is None or launched <= borne.si(borne.value):
        return ()
    columns = f"{made.depth} columns of interferometers of {parts.loss_db:g} dB"
    bear = f"{borne.value:g} {borne.unit} ({borne.source.partition(':')[0]})"
    return (
        f"{format_quantity(launched, 'power')} of light a lane at the servers' modulators, which bear {bear}: "
        f"{columns} lose {made.depth * parts.loss_db:.4g} dB; its watts and joules are not those of anything built",
    )


_DERIVED = ("derived", "assumption: derived")
"""How the sources of derived fields begin."""


class OpticalAverager(StarGeometry):
    """A star around an averaging optical neural network (OptINC, Fig. 2); it cannot carry rank-to-rank transfers."""

    kind: Literal["optical-averager"] = "optical-averager"
    bandwidth: Bandwidth = 800e9
    """Bytes per second of a rank's port, per direction."""
    averaging: Averaging | None = None
    """Parts that the averager is made of: gives the fields below, and the power of a rank, where they are left out."""
    levels: Count = 1
    """Averagers in cascade between a rank and the root."""
    averaging_latency: Seconds = 0.0
    """Seconds that light and receivers spend in one level, both ways."""
    built: BuiltAverager | None = None
    """Averagers and light that the bandwidth needs; derived from ``averaging``."""

    in_network_reduction: ClassVar[bool] = True
    any_pair: ClassVar[bool] = False
    stated_power_of: ClassVar[tuple[Kind, ...] | None] = ("transceiver", "averager")

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, data: Any) -> Any:
        """Return the fields with those that follow from ``averaging`` filled in where they are not given, before
        validation; unchanged without ``averaging``, for a single rank, or where a field that they need is invalid.

        Raises:
            UnknownNameError: there is no reducer or constant of a name in ``averaging``.
            ConfigError: more ranks than two levels reach, or wavelengths do not fit beside each other on a mesh.
            UnsupportedError: no network bears the noise, or there is no such reducer for so many ranks.
        """
        if not isinstance(data, Mapping) or data.get("averaging") is None or type(data.get("ranks")) is not int:
            return data
        try:
            averaging = Averaging.model_validate(data["averaging"])
            bandwidth = parse(data.get("bandwidth", cls.model_fields["bandwidth"].default), "bandwidth")
        except ValueError:
            return data  # the field itself complains, and says where
        if not 0 < bandwidth < float("inf"):
            return data
        derive = _of_reducer if averaging.reducer else _of_devices
        derived = derive(averaging, data["ranks"], bandwidth) if data["ranks"] > 1 else {"sources": {}}
        sources = {key: text for key, text in derived.pop("sources").items() if key not in data}
        return with_derived(data, derived, sources)

    def bill_of_parts(self, choices: BillChoices) -> Bill:
        """Return the bill of the ranks' cards, transceivers and fibres, and of the averager's devices, whose watts
        ``built`` states, per rank; what the averager is made of is missing where ``built`` is None."""
        from lightloom.machines.fabrics.bills.grids import averager_bill

        watts, unknown = (self.built.watts, self.built.unknown) if self.built is not None else ({}, ())
        return averager_bill(self.ranks, self.bandwidth, watts, unknown, choices)

    @property
    def built_of(self) -> str:
        """Text on the devices that the averager is built of (``built``); empty where that is not stated."""
        return "" if self.built is None else self.built.text()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the lines that say why the averager cannot be built; none where it can be, or where nothing is stated
        on its build."""
        return () if self.built is None else self.built.limits

    def stated_fields(self) -> dict[str, object]:
        """Return the fields, by name, from which a changed copy is built: those that were derived from ``averaging``,
        as their sources say, are left out."""
        derived = set()
        if self.averaging is not None:
            derived = {name for name, source in self.sources.items() if source.startswith(_DERIVED)}
        return without_derived(super().stated_fields(), derived)

    @property
    def taps(self) -> int:
        """Return the number of ranks, as the average reaches all of them."""
        return self.ranks

    @property
    def link_rate(self) -> float:
        """Return the bytes per second of a rank's port."""
        return self.bandwidth

    def footprint(self, source: Ints, destination: Ints, route: Ints) -> Footprint:
        """Return the one link of each transfer, whatever ``route``, uplinks numbered by rank from 0 and downlinks from
        the number of ranks on: the source's uplink for transfers to the averager (``switch_rank``), the destination's
        downlink for transfers from it."""
        up = np.asarray(destination) == self.switch_rank
        return Footprint.of([(np.where(up, 0, self.ranks), np.where(up, source, destination), 1, self.ranks)])

    def latency(self, source: Ints, destination: Ints, route: Ints) -> Floats:
        """Return the seconds of each transfer, whatever ``source`` and ``route``: ``hop_latency``, and for transfers to
        the averager (``switch_rank``) also ``averaging_latency``, which holds both ways, once for each of its levels:
        [transfer]."""
        up = np.asarray(destination) == self.switch_rank
        return self.hop_latency + np.where(up, self.levels * self.averaging_latency, 0.0)

    def diameter_latency(self) -> float:
        """Return the seconds from rank to averager and back: ``hop_latency`` twice and ``averaging_latency`` for each
        level."""
        return 2 * self.hop_latency + self.levels * self.averaging_latency
