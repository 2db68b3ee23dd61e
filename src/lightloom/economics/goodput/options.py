"""What a user states of failures, checkpoints and restarts; everything else has a default that is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lightloom.core.configfile import validate
from lightloom.core.fields import Config, Count, Dollars, Seconds, Size

_Positive = Annotated[Seconds, Field(gt=0)]
Remedy = Literal["restart", "rewire", "damaged"]
"""What follows a failed link: a restart on a spare node, a spare channel by rewiring, or slower steps."""


class GoodputOptions(Config):
    """Inputs of a goodput; what is None is derived or has a default."""

    rates: str | None = None
    """A log of interruptions (``llama-3``, ``rsc-1``, a YAML file) for all causes. Null: mean times between failures of
    the cluster's parts, and Llama 3's rate of interruptions by software."""
    mtbf: dict[str, _Positive] = Field(default_factory=dict)
    """Mean times between failures by part or by group (accelerator, host, network, software), for one part or rank."""
    interruption_time: _Positive | None = None
    """Mean time between interruptions of the whole job, in the place of all rates."""
    recovery: dict[str, Seconds] = Field(default_factory=dict)
    """Seconds of parts of a restart, by name."""
    restart: Seconds | None = None
    """Seconds of every restart, in the place of its parts."""
    stall: Seconds | None = None
    """Seconds that training stops for each checkpoint; alone: a blocking checkpoint."""
    save: Seconds | None = None
    """Seconds until an asynchronous checkpoint is durable."""
    interval: _Positive | None = None
    """Useful seconds between checkpoints. Null: the optimum."""
    spares: Annotated[int, Field(ge=0, le=100_000, strict=True)] | None = None
    """Spare nodes. Null: as many as pay for themselves."""
    repair: Seconds | None = None
    """Mean seconds until a failed node works again."""
    node_ranks: Count | None = None
    """Ranks that fail and are replaced together. Null: those of a host."""
    remedy: Remedy | None = None
    """What follows a failed link. Null: whichever is best."""
    spare_channels: Annotated[int, Field(ge=0, le=4096, strict=True)] = 0
    """Spare wavelengths, transceivers or ports of every rank, to which rewiring can move a failed link."""
    damage_slowdown: Annotated[float, Field(ge=1)] | None = None
    """Times as long as a collective takes around a failed link. Null: as ``lightloom damage`` prices it."""
    communication: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of a step that waits for communication, which damage makes longer. Null: all of it, the worst case."""
    message: Size = 2.0**28
    """Bytes of the all-reduce at which damage is priced."""
    node_price: Dollars | None = None
    """Dollars of a node in use. Null: from the bill."""
    spare_price: Dollars | None = None
    """Dollars of a spare node. Null: those of a node in use."""

    @model_validator(mode="after")
    def _inputs_agree(self) -> Self:
        if self.restart is not None and self.recovery:
            raise ValueError("restart and recovery contradict each other: expected the whole or its parts")
        if self.save is not None and self.stall is None:
            raise ValueError("save without stall: expected the seconds that training stops for a checkpoint as well")
        if self.interruption_time is not None:
            others = {"rates": self.rates, "mtbf": self.mtbf, "spares": self.spares, "repair": self.repair}
            stated = [name for name, value in others.items() if value not in (None, {})]
            if stated:
                raise ValueError(
                    f"interruption_time and {stated[0]} contradict each other: expected the rate of the whole job, or "
                    "what it is made of"
                )
        if self.interval is not None and self.save is not None and self.interval + (self.stall or 0) < self.save:
            raise ValueError(
                f"interval of {self.interval:g} s: expected at least {self.save - (self.stall or 0):g} s, in which one "
                "checkpoint is saved before the next"
            )
        if self.spare_price is not None and self.spares is not None:
            raise ValueError(
                "spares and spare_price contradict each other: expected a number, or the price that decides it"
            )
        return self


def options_of(given: GoodputOptions | Mapping[str, object] | None) -> GoodputOptions:
    """Return options from what a user gives; what is None is left at its default.

    Raises:
        ConfigError: an option is unknown, cannot be read, is out of range or contradicts another.
    """
    if isinstance(given, GoodputOptions):
        return given
    stated = {name: value for name, value in (given or {}).items() if value is not None}
    options: GoodputOptions = validate(GoodputOptions, stated, "goodput")
    return options
