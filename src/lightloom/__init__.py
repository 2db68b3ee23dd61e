"""lightloom: from a PyTorch model and a cluster to the collective, the wavelengths and the step time.

    import lightloom as ll

    ll.collective("all-gather", fabric="wdm-ring", ranks=64, nbytes="64MiB")
    ll.plan("resnet50", cluster="terarack-64")

Names are loaded when they are first used, so that importing lightloom costs nothing. See docs/python-api.md.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from lightloom.app.api.accuracy import accuracy as accuracy
    from lightloom.app.api.averaging import averager as averager
    from lightloom.app.api.calibrating import calibrate as calibrate
    from lightloom.app.api.collectives import collective as collective
    from lightloom.app.api.collectives import cost as cost
    from lightloom.app.api.collectives import lower_bound as lower_bound
    from lightloom.app.api.collectives import synthesize as synthesize
    from lightloom.app.api.collectives import verify as verify
    from lightloom.app.api.comparison import compare as compare
    from lightloom.app.api.composing import compose as compose
    from lightloom.app.api.designing import design as design
    from lightloom.app.api.goodput import bill as bill
    from lightloom.app.api.goodput import goodput as goodput
    from lightloom.app.api.planning import plan as plan
    from lightloom.app.api.planning import trace as trace
    from lightloom.app.api.traffic import traffic as traffic
    from lightloom.collectives.algorithm import Algorithm as Algorithm
    from lightloom.collectives.collective import Collective as Collective
    from lightloom.collectives.schedule.columns import Schedule as Schedule
    from lightloom.core.errors import LightloomError as LightloomError
    from lightloom.exchange.compression.codec import Codec as Codec
    from lightloom.machines.accelerators.accelerator import Accelerator as Accelerator
    from lightloom.machines.clusters.load import load_cluster as load_cluster
    from lightloom.machines.fabrics.fabric import Fabric as Fabric
    from lightloom.machines.fabrics.load import load_fabric as load_fabric
    from lightloom.machines.reducers.compare import compare_reducers as compare_reducers

    __version__: str

_HOMES = {
    name: f"lightloom.{module}"
    for module, names in {
        "app.api.planning": ("plan", "trace"),
        "app.api.collectives": ("collective", "synthesize", "verify", "cost", "lower_bound"),
        "app.api.accuracy": ("accuracy",),
        "app.api.calibrating": ("calibrate",),
        "app.api.traffic": ("traffic",),
        "app.api.goodput": ("goodput", "bill"),
        "app.api.designing": ("design",),
        "app.api.averaging": ("averager",),
        "app.api.composing": ("compose",),
        "app.api.comparison": ("compare",),
        "machines.clusters.load": ("load_cluster",),
        "machines.fabrics.load": ("load_fabric",),
        "machines.reducers.compare": ("compare_reducers",),
        "collectives.collective": ("Collective",),
        "collectives.schedule.columns": ("Schedule",),
        "machines.fabrics.fabric": ("Fabric",),
        "machines.accelerators.accelerator": ("Accelerator",),
        "collectives.algorithm": ("Algorithm",),
        "exchange.compression.codec": ("Codec",),
        "core.errors": ("LightloomError",),
    }.items()
    for name in names
}
"""The module that defines each public name."""

__all__ = sorted([*_HOMES, "__version__"])

_FORMER = {
    "lightloom.accelerators": "lightloom.machines.accelerators",
    "lightloom.accelerators.base": "lightloom.machines.accelerators.accelerator",
    "lightloom.collectives.schedule.compose": "lightloom.collectives.schedule.build",
    "lightloom.compression": "lightloom.exchange.compression",
    "lightloom.compression.arrays": "lightloom.exchange.compression.codec",
    "lightloom.fabrics": "lightloom.machines.fabrics",
    "lightloom.fabrics.base": "lightloom.machines.fabrics.fabric",
    "lightloom.fabrics.bills": "lightloom.machines.fabrics.bills",
    "lightloom.fabrics.bills.links": "lightloom.machines.fabrics.bills.links",
    "lightloom.fabrics.bills.switches": "lightloom.machines.fabrics.bills.switches",
    "lightloom.fabrics.conformance": "lightloom.machines.fabrics.conformance",
    "lightloom.fabrics.footprint": "lightloom.machines.fabrics.derived",
    "lightloom.parts": "lightloom.machines.parts",
    "lightloom.parts.bill": "lightloom.machines.parts.bill",
    "lightloom.parts.load": "lightloom.machines.parts.part",
    "lightloom.training": "lightloom.exchange",
    "lightloom.training.hooks": "lightloom.exchange.hooks",
}
"""Modules that were public before 0.3, and where they are now."""


class _FormerNames:
    """Imports modules that were public before 0.3 under the names that they had, each with a DeprecationWarning."""

    @staticmethod
    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        """Return a spec that this finder loads for a module's former name, None for every other name."""
        if name not in _FORMER:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, _FormerNames)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        """Warn of the former name, and return the module that has the present one."""
        warnings.warn(f"{spec.name} is {_FORMER[spec.name]} now", DeprecationWarning, stacklevel=2)
        module = import_module(_FORMER[spec.name])
        spec.loader_state = module.__spec__
        return module

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        # Importing has put the spec of the former name into the module, which keeps its own.
        """Give the module its own spec back, in place of that of the former name; it has been executed already."""
        module.__spec__ = getattr(module.__spec__, "loader_state", None)


# Before the finders of files, which would load a second copy of a module whose last name is the same.
sys.meta_path.insert(0, _FormerNames)


def __getattr__(name: str) -> object:
    """Return a public name of the package, imported when it is first asked for; raises AttributeError for others."""
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("lightloom")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'lightloom' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
