"""What all figures share: fonts, colours and saving. Without pyplot, so that no state remains between figures."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

from lightloom.core.configfile import read_yaml
from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.reports.figures.palette import FAINT, INK, light_ramp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.image import AxesImage

    from lightloom.core.arrays import Floats

    Panels: TypeAlias = Axes | Sequence[Axes]

FORMATS = (".svg", ".png", ".pdf")
_INKED = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
_FAINT = ("axes.edgecolor", "xtick.color", "ytick.color")
_DOTS_PER_INCH = 160
_P = ParamSpec("_P")


@cache
def _style() -> dict[str, Any]:
    return read_yaml(Path(__file__).with_name("style.yaml"))


@contextmanager
def _look() -> Iterator[None]:
    import matplotlib

    settings = _style() | dict.fromkeys(_INKED, INK) | dict.fromkeys(_FAINT, FAINT)
    with matplotlib.rc_context(settings):  # type: ignore[arg-type, unused-ignore]
        yield


def styled(draw: Callable[_P, Figure]) -> Callable[_P, Figure]:
    """Make a function draw with lightloom's fonts and colours, whatever the user's matplotlib settings are."""

    @wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> Figure:
        with _look():
            return draw(*args, **kwargs)

    return drawn


def single_panel(width: float, height: float) -> tuple[Figure, Axes]:
    """Return a figure of one panel without a box; sizes are in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    return figure, axes


def hide_spines(axes: Axes, *more: str) -> None:
    """Hide the top and the right side of a panel's box, and ``more`` of its sides."""
    axes.spines[["top", "right", *more]].set_visible(False)


def headline(figure: Figure | SubFigure, text: str) -> None:
    """Write the title of a figure at its left."""
    figure.suptitle(plain(text), x=0.008, ha="left", fontsize=9.5, fontweight="bold")


def integer_ticks(axis: Axis, most: int) -> None:
    """Put at most so many ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, integer=True))


def share_image(axes: Axes, shares: Floats, most: float, links: int, steps: int) -> AxesImage:
    """Draw shares, shape [bins of steps, bins of links], from none to ``most``, the first of ``steps`` on top."""
    extent = (-0.5, links - 0.5, steps + 0.5, 0.5)
    return axes.imshow(shares, aspect="auto", interpolation="none", cmap=light_ramp(), vmin=0, vmax=most, extent=extent)


def share_bar(figure: Figure | SubFigure, image: AxesImage, axes: Panels, label: str, aspect: float) -> None:
    """Draw the colour bar of an image of shares, in percent."""
    from matplotlib.ticker import PercentFormatter

    bar = figure.colorbar(image, ax=axes, aspect=aspect, pad=0.015, fraction=0.035, format=PercentFormatter(1))
    bar.set_label(label)
    bar.outline.set_visible(False)  # type: ignore[operator, unused-ignore]


def number_bar(figure: Figure | SubFigure, colours: Floats, axes: Panels, label: str, aspect: float) -> None:
    """Draw the colour bar of numbered things, such as ranks: ``colours`` are RGB, shape [things, 3]."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.ticker import MaxNLocator

    legend = ScalarMappable(Normalize(-0.5, len(colours) - 0.5), ListedColormap(colours))
    bar = figure.colorbar(legend, ax=axes, aspect=aspect, pad=0.015, fraction=0.035)
    bar.set_label(label)
    bar.locator = MaxNLocator(5, integer=True)
    bar.outline.set_visible(False)  # type: ignore[operator, unused-ignore]


def plain(text: str) -> str:
    """Return text that matplotlib shows as it is: a dollar sign does not start a formula."""
    return text.replace("$", r"\$")


def to_svg(figure: Figure, origin: str = "") -> str:
    """Return the figure as SVG on a transparent ground; equal figures give equal bytes, and text stays text."""
    buffer = io.StringIO()
    with _look():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Description": origin or None})
    # Text is measured in DejaVu Sans, which is wide: any common sans-serif fits where it does.
    return re.sub(
        r"'DejaVu Sans'(, '?[\w ]+'?)*", "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif", buffer.getvalue()
    )


def check_format(path: Path) -> None:
    """Refuse a file name that :func:`save` cannot write.

    Raises:
        ConfigError: the suffix is none of :data:`FORMATS`.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"cannot draw {str(path)!r}: expected a name that ends in {', '.join(FORMATS)}")


def save(figure: Figure, path: Path, origin: str = "") -> Path:
    """Write a figure as ``.svg``, ``.png`` or ``.pdf``, by the suffix; completely or not at all.

    ``origin`` (one line of provenance) goes into the file's metadata.

    Raises:
        ConfigError: another suffix, or the place cannot be written to.
    """
    check_format(path)
    suffix = path.suffix.lower()
    if suffix == ".svg":
        return write_atomically(path, to_svg(figure, origin))
    png = suffix == ".png"
    metadata: dict[str, Any] = {"Software": None} if png else {"CreationDate": None}
    if origin:
        metadata["Description" if png else "Subject"] = origin
    buffer = io.BytesIO()
    with _look():
        figure.savefig(buffer, format=suffix[1:], dpi=_DOTS_PER_INCH, metadata=metadata, facecolor="white")
    return write_atomically(path, buffer.getvalue())
