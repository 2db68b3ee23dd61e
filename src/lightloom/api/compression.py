"""The codec of a plan's gradients: checked before the model is traced, and read when it is known."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lightloom.compression import find
from lightloom.compression.profile import read
from lightloom.core.errors import ConfigError
from lightloom.planner.pricing.compression import LOCAL, Compression, engine_of, measured, profile_of, stated
from lightloom.workloads.graph import ComputeGraph


class CodecChoice(NamedTuple):
    """A codec as it was requested; None for what was not."""

    name: str | None
    """The codec with its parameter, e.g. ``inceptionn:2^-10``; gradients are not compressed without it."""
    profile: str | Path | None
    """File of the model's profile; else the one that was stored for the model."""
    ratio: str | float | None
    """Bytes as float32 for each compressed byte, instead of what a profile measured."""
    engine: str | None
    """``local``, ``nic`` or a YAML file."""

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            ConfigError: arguments that need a codec, or exclude each other, or cannot be read.
            UnknownNameError: no such codec or engine.
        """
        if self.name is None:
            for argument in ("profile", "ratio", "engine"):
                if getattr(self, argument) is not None:
                    raise ConfigError(f"--compression-{argument} needs --compression CODEC")
            return
        codec = find(self.name).name
        if self.profile is not None and self.ratio is not None:
            raise ConfigError("give either --compression-profile or --compression-ratio")
        if self.profile is not None:
            read(Path(self.profile))
        if self.ratio is not None:
            self._stated()
        elif self.engine not in (None, LOCAL):
            engine_of(self.engine, codec)

    def compression(self, model: str, graph: ComputeGraph) -> Compression:
        """Return the codec with its ratio and its engine, for the gradients of a model.

        Raises:
            ConfigError: no profile of this model and codec (says how to make one), or an engine that cannot run the
                codec.
            UnknownNameError: no such codec or engine.
        """
        if self.ratio is not None:
            return self._stated()
        profile = None if self.profile is None else Path(self.profile)
        return measured(*profile_of(model, graph, find(str(self.name)).name, profile), self.engine or LOCAL)

    def _stated(self) -> Compression:
        try:
            ratio = float(str(self.ratio))
        except ValueError as error:
            raise ConfigError(f"--compression-ratio {self.ratio!r}: expected a number") from error
        return stated(str(self.name), ratio, self.engine or LOCAL)
