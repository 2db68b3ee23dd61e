"""What a restart is made of: from the failure to the next computed step, part by part, each with its source.

node, accelerator   detection + swap + (rewiring + link up, over circuits) + initialisation + loading
link, by rewiring   network detection + rewiring + link up + initialisation + loading
link, left damaged  network detection + initialisation + loading
software            detection + initialisation + loading
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lightloom.core.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a restart."""

    seconds: float
    source: str
    """Where the seconds come from; begins with ``assumption`` where no publication states them."""

    @property
    def assumed(self) -> bool:
        """Whether no publication states it."""
        return self.source.startswith("assumption")


DEFAULTS: Mapping[str, Step] = MappingProxyType(
    {
        "detection": Step(
            600.0,
            "assumption: an upper limit, MegaScale, NSDI 2024, section 6.3: detection and diagnosis take less than 10 "
            "minutes in the mean",
        ),
        "network_detection": Step(30.0, "ByteRobust, arXiv 2509.16293: network failures are detected within 30 s"),
        "swap": Step(60.0, "assumption: a warm spare takes a node's place within a minute; no source was found"),
        "rewiring": Step(
            0.0435, "MixNet, SIGCOMM 2025, appendix C: 41.4 to 46.8 ms in the mean for 1 to 16 pairs of circuits"
        ),
        "link_up": Step(
            5.67, "MixNet, SIGCOMM 2025, appendix C: 5.67 s in the mean until the link of the network card is up"
        ),
        "initialisation": Step(
            30.0,
            "assumption: an upper limit, MegaScale, NSDI 2024, section 6.3: less than 5 s on 2,048 GPUs and less "
            "than 30 s on more than 10,000",
        ),
        "loading": Step(
            129.0, "assumption: ByteCheckpoint, arXiv 2407.20143, table 8, a model of 405B on 8,960 GPUs, taken for all"
        ),
    }
)
"""Parts of a restart by name."""
CHECKPOINT_DEFAULTS: Mapping[str, Step] = MappingProxyType(
    {
        "stall": Step(
            0.59, "assumption: ByteCheckpoint, arXiv 2407.20143, table 8, a model of 405B on 8,960 GPUs, taken for all"
        ),
        "save": Step(
            51.0, "assumption: ByteCheckpoint, arXiv 2407.20143, table 8, a model of 405B on 8,960 GPUs, taken for all"
        ),
    }
)
"""Seconds that training stops for an asynchronous checkpoint, and until it is durable."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The parts of restarts on one cluster."""

    steps: Mapping[str, Step]
    circuits: bool
    """Whether optical circuits join the nodes, so that a spare node needs rewiring."""
    whole: float | None = None
    """Seconds of every restart, in the place of its parts."""

    @classmethod
    def of(cls, given: Mapping[str, float], *, circuits: bool, whole: float | None = None) -> Recovery:
        """Return the defaults with ``given`` seconds in place of some parts.

        Raises:
            UnknownNameError: a part that restarts do not have.
        """
        for name in given:
            if name not in DEFAULTS:
                raise UnknownNameError("part of a restart", name, DEFAULTS)
        stated = {name: Step(seconds, "given") for name, seconds in given.items()}
        return cls(MappingProxyType({**DEFAULTS, **stated}), circuits, whole)

    def with_step(self, name: str, seconds: float, source: str) -> Recovery:
        """Return the recovery with one default replaced by a fabric's own figure; a part that was given stays."""
        if self.steps[name].source == "given":
            return self
        return replace(self, steps=MappingProxyType({**self.steps, name: Step(seconds, source)}))

    def parts(self, remedy: str) -> tuple[str, ...]:
        """Return the names of the parts of a restart: of ``node``, ``rewire``, ``damaged`` or ``software``."""
        rewiring = ("rewiring", "link_up")
        return {
            "node": ("detection", "swap", *(rewiring if self.circuits else ()), "initialisation", "loading"),
            "rewire": ("network_detection", *rewiring, "initialisation", "loading"),
            "damaged": ("network_detection", "initialisation", "loading"),
            "software": ("detection", "initialisation", "loading"),
        }[remedy]

    def seconds(self, remedy: str) -> float:
        """Return the seconds of a restart."""
        if self.whole is not None:
            return self.whole
        return sum(self.steps[name].seconds for name in self.parts(remedy))

    def assumptions(self) -> tuple[str, ...]:
        """Return the parts that restarts take here and that are not given, with their sources."""
        if self.whole is not None:
            return ()
        used = dict.fromkeys(name for remedy in ("node", "rewire", "software") for name in self.parts(remedy))
        used = {name: None for name in used if self.circuits or name not in ("rewiring", "link_up")}
        return tuple(
            f"{name.replace('_', ' ')} {self.steps[name].seconds:g} s, {self.steps[name].source}"
            for name in used
            if self.steps[name].source != "given"
        )
