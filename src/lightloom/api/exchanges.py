"""How a plan's replicas exchange gradients: checked before the model is traced, and priced when it is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from lightloom.compression.profile import read
from lightloom.compression.registry import find as find_codec
from lightloom.core.errors import ConfigError
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.registry import find
from lightloom.planner.gradients.engine import ACCELERATOR, NIC, check_engine_name
from lightloom.planner.gradients.priced import PricedExchange
from lightloom.planner.gradients.sized import ring_codec_of, sized
from lightloom.workloads.graph import ComputeGraph

_INSTEAD = {
    "compression": "--exchange METHOD, e.g. --exchange int4 or --exchange inceptionn:bound=2^-10 "
    "(`lightloom exchange list` names all)",
    "compression_profile": "--exchange-profile FILE",
    "compression_ratio": "--exchange-ratio X",
    "compression_engine": "--exchange-engine accelerator, local, nic or FILE.yaml",
}
"""What took the place of options that are gone."""


def refuse_old_options(**given: object) -> None:
    """Refuse the options of ``plan`` that methods took the place of.

    Raises:
        ConfigError: one is given; says what to write instead.
    """
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"--{name.replace('_', '-')} {value} is gone: expected {_INSTEAD[name]}")


class ExchangeChoice(NamedTuple):
    """Methods as they were requested; None for what was not."""

    names: tuple[str, ...]
    """Methods with their options; every plan is ranked with gradients as they are, and with each."""
    profile: str | Path | None
    """File of the model's profile, for methods whose bytes depend on the gradient; else the one that was stored."""
    ratio: str | float | None
    """Bytes as float32 for each coded byte, instead of what a profile measured."""
    engine: str | None
    """``accelerator``, ``local``, ``nic`` or a YAML file."""

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            ConfigError: options that need a method, or exclude each other, or cannot be read.
            UnknownNameError: no such method or engine.
        """
        methods = self._methods()
        for option in ("profile", "ratio", "engine"):
            if getattr(self, option) is not None and not methods:
                raise ConfigError(f"--exchange-{option} needs --exchange METHOD")
        by_value = [method.name for method in methods if method.needs_values]
        for option in ("profile", "ratio"):
            if getattr(self, option) is not None and not by_value:
                fixed = ", ".join(method.name for method in methods)
                raise ConfigError(
                    f"--exchange-{option} is for methods whose bytes depend on the gradient, such as inceptionn; those "
                    f"of {fixed} do not"
                )
        if self.profile is not None and self.ratio is not None:
            raise ConfigError("give either --exchange-profile or --exchange-ratio")
        if self.profile is not None:
            read(Path(self.profile))
        if self.ratio is not None:
            for method in methods:
                self._ratio_of(method)
        if self.engine is not None:
            check_engine_name(self.engine)
        if self.engine == NIC:
            for method in methods:
                if not method.name.startswith("inceptionn"):
                    raise ConfigError(f"--exchange-engine nic runs inceptionn only, not {method.name}")

    def priced(self, model: str, graph: ComputeGraph) -> tuple[PricedExchange, ...]:
        """Return the methods with the bytes that they make of a model's gradients, and their engines.

        Raises:
            ConfigError: no profile of this model and codec, or no rates of this host (says how to make them).
        """
        profile = None if self.profile is None else Path(self.profile)
        return tuple(
            sized(method, model, graph, profile, self._ratio_of(method), self.engine or ACCELERATOR)
            for method in self._methods()
        )

    def _methods(self) -> list[ExchangeMethod]:
        return list(dict.fromkeys(map(find, self.names)))

    def _ratio_of(self, method: ExchangeMethod) -> float | None:
        """The ratio that is stated for a method; None where there is none, or its bytes do not depend on values.

        Raises:
            ConfigError: no positive number, or more than its codec can reach.
        """
        if self.ratio is None or not method.needs_values:
            return None
        try:
            ratio = float(str(self.ratio))
        except ValueError:
            ratio = math.nan
        if not (math.isfinite(ratio) and ratio > 0):
            raise ConfigError(f"--exchange-ratio {self.ratio}: expected a positive number")
        codec = find_codec(ring_codec_of(method).codec)
        largest = codec.largest_ratio
        if largest is not None and ratio > largest:
            raise ConfigError(
                f"--exchange-ratio {ratio:g}: expected at most {largest:g}, which is what {codec.name} makes of zeros"
            )
        return ratio
