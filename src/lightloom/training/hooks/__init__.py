"""Communication hooks for training with PyTorch: gradients compressed, averaged by light, or exchanged by a schedule.

    from lightloom.training.hooks import attach_inceptionn

    state = attach_inceptionn(ddp_model)

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightloom.training.gradients.ddp_hook import average_hook as average_hook
    from lightloom.training.hooks.inceptionn_ddp import InceptionnState as InceptionnState
    from lightloom.training.hooks.inceptionn_ddp import attach_inceptionn as attach_inceptionn
    from lightloom.training.hooks.inceptionn_fsdp import InceptionnFsdpState as InceptionnFsdpState
    from lightloom.training.hooks.inceptionn_fsdp import attach_inceptionn_fsdp as attach_inceptionn_fsdp
    from lightloom.training.hooks.optical_ddp import OpticalAverageState as OpticalAverageState
    from lightloom.training.hooks.optical_ddp import attach_optical_average as attach_optical_average
    from lightloom.training.hooks.schedule_ddp import ScheduleState as ScheduleState
    from lightloom.training.hooks.schedule_ddp import attach_schedule as attach_schedule

_MODULES = {
    "InceptionnFsdpState": ".inceptionn_fsdp",
    "InceptionnState": ".inceptionn_ddp",
    "OpticalAverageState": ".optical_ddp",
    "ScheduleState": ".schedule_ddp",
    "attach_inceptionn": ".inceptionn_ddp",
    "attach_inceptionn_fsdp": ".inceptionn_fsdp",
    "attach_optical_average": ".optical_ddp",
    "attach_schedule": ".schedule_ddp",
    "average_hook": "..gradients.ddp_hook",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)
