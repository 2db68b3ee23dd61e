"""lightloom: from a PyTorch model and a cluster to the collective, the wavelengths and the step time.

    import lightloom as ll

    ll.collective("all-gather", fabric="wdm-ring", ranks=64, nbytes="64MiB")
    ll.plan("resnet50", cluster="terarack-64")

Names are loaded when they are first used, so that importing lightloom costs nothing. See docs/python-api.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightloom.accelerators.base import Accelerator as Accelerator
    from lightloom.api.accuracy import accuracy as accuracy
    from lightloom.api.arguments import load_cluster as load_cluster
    from lightloom.api.arguments import load_fabric as load_fabric
    from lightloom.api.averaging import averager as averager
    from lightloom.api.bills import bill as bill
    from lightloom.api.calibrating import calibrate as calibrate
    from lightloom.api.collectives import collective as collective
    from lightloom.api.collectives import cost as cost
    from lightloom.api.collectives import lower_bound as lower_bound
    from lightloom.api.collectives import synthesize as synthesize
    from lightloom.api.collectives import verify as verify
    from lightloom.api.comparison import compare as compare
    from lightloom.api.designing import design as design
    from lightloom.api.goodput import goodput as goodput
    from lightloom.api.models import trace as trace
    from lightloom.api.planning import plan as plan
    from lightloom.api.traffic import traffic as traffic
    from lightloom.collectives.algorithm import Algorithm as Algorithm
    from lightloom.collectives.schedule.columns import Schedule as Schedule
    from lightloom.collectives.spec import Collective as Collective
    from lightloom.compression.base import Codec as Codec
    from lightloom.core.errors import LightloomError as LightloomError
    from lightloom.fabrics.base import Fabric as Fabric
    from lightloom.photonics.reducers.compare import compare_reducers as compare_reducers

    __version__: str

_HOMES = {
    "plan": "lightloom.api.planning",
    "collective": "lightloom.api.collectives",
    "synthesize": "lightloom.api.collectives",
    "verify": "lightloom.api.collectives",
    "cost": "lightloom.api.collectives",
    "lower_bound": "lightloom.api.collectives",
    "trace": "lightloom.api.models",
    "accuracy": "lightloom.api.accuracy",
    "calibrate": "lightloom.api.calibrating",
    "traffic": "lightloom.api.traffic",
    "goodput": "lightloom.api.goodput",
    "design": "lightloom.api.designing",
    "load_cluster": "lightloom.api.arguments",
    "load_fabric": "lightloom.api.arguments",
    "averager": "lightloom.api.averaging",
    "bill": "lightloom.api.bills",
    "compare": "lightloom.api.comparison",
    "compare_reducers": "lightloom.photonics.reducers.compare",
    "Collective": "lightloom.collectives.spec",
    "Schedule": "lightloom.collectives.schedule.columns",
    "Fabric": "lightloom.fabrics.base",
    "Accelerator": "lightloom.accelerators.base",
    "Algorithm": "lightloom.collectives.algorithm",
    "Codec": "lightloom.compression.base",
    "LightloomError": "lightloom.core.errors",
}
"""The module that defines each public name."""

__all__ = [
    "Accelerator",
    "Algorithm",
    "Codec",
    "Collective",
    "Fabric",
    "LightloomError",
    "Schedule",
    "__version__",
    "accuracy",
    "averager",
    "bill",
    "calibrate",
    "collective",
    "compare",
    "compare_reducers",
    "cost",
    "design",
    "goodput",
    "load_cluster",
    "load_fabric",
    "lower_bound",
    "plan",
    "synthesize",
    "trace",
    "traffic",
    "verify",
]


def __getattr__(name: str) -> object:
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
