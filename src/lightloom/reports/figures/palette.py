"""One colour per meaning, the same in figures, pages and terminals; mid-tones that read on white and on black."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from lightloom.core.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.colors import ListedColormap

INK = "#1b2330"
"""Text and axes of figures; pages replace it by their own text colour."""
FAINT = "#8b94a3"
"""Ticks, grids and dark channels."""

SHARES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "compute_s": ("compute", "#4c78c8"),
        "exposed_communication_s": ("exposed communication", "#e0892b"),
        "exposed_reconfiguration_s": ("exposed reconfiguration", "#c2449a"),
        "idle_s": ("idle", "#a3abb8"),
    }
)
"""Key of a breakdown: (words for people, colour), in the order in which bars are stacked."""

TASKS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "forward": ("forward", "#6f9be0"),
        "backward": ("backward", "#3b62ad"),
        "update": ("optimizer", "#7d6bc4"),
        "codec": ("codec", "#5ba8a0"),
        "all-reduce": ("all-reduce", "#e0892b"),
        "all-gather": ("all-gather", "#d9a821"),
        "reduce-scatter": ("reduce-scatter", "#c9603a"),
        "all-to-all": ("all-to-all", "#b5842f"),
        "transmission": ("transmission", "#e0892b"),
        "reconfiguration": ("reconfiguration", "#c2449a"),
    }
)
"""What a stretch of a timeline is: (words for people, colour)."""


PARALLELISM = ("#3f7fd0", "#e0892b")
"""Model parallelism's traffic, and data parallelism's."""
RELAYED = "#c2449a"
"""Pairs without a circuit of their own."""
KINDS: Mapping[str, str] = MappingProxyType(
    {"ddp": "#4c78c8", "fsdp": "#5ba8a0", "tensor-pipeline": "#d9a821", "placed": "#c9603a"}
)
"""Kinds of split."""


def cyclic_colours(count: int) -> Floats:
    """Return ``count`` colours around the circle of hues, equally light, as RGB floats of shape [count, 3].

    OKLCH with fixed lightness and chroma, so that no rank stands out and the first follows on the last.
    """
    lightness, chroma = 0.72, 0.125
    hue = 2 * np.pi * np.arange(count) / count + 0.5
    a, b = chroma * np.cos(hue), chroma * np.sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = np.stack(
        [
            4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
        ],
        axis=-1,
    ).clip(0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def light_ramp() -> ListedColormap:
    """Return a colour map from nothing (the ground shows) to full light."""
    return ramp((0.86, 0.47, 0.10))


def ramp(colour: str | tuple[float, float, float], least: float = 0.03) -> ListedColormap:
    """Return a colour map from ``least`` opaque to full in one colour."""
    from matplotlib.colors import ListedColormap, to_rgb

    colours = np.tile([*to_rgb(colour), 1.0], (256, 1))
    colours[:, 3] = np.linspace(least, 1.0, 256)
    return ListedColormap(colours)
