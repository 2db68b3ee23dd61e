"""Fonts, colours and saving of all figures, without pyplot, so that no state remains between figures."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.configfile import read_yaml
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.image import AxesImage

    Panels: TypeAlias = Axes | Sequence[Axes]


# One colour per meaning, the same in figures, pages and terminals; mid-tones that read on white and on black.

INK = "#1b2330"
"""Text and axes of figures; pages replace it by their own text colour."""
FAINT = "#8b94a3"
"""Ticks, grids and dark channels."""

SHARES: Mapping[str, tuple[str, str]] = {
    "compute_s": ("compute", "#4c78c8"),
    "exposed_communication_s": ("exposed communication", "#e0892b"),
    "exposed_reconfiguration_s": ("exposed reconfiguration", "#c2449a"),
    "idle_s": ("idle", "#a3abb8"),
}
"""Key of a breakdown: (words for people, colour), in the order in which bars are stacked."""

TASKS: Mapping[str, tuple[str, str]] = {
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
"""Words and colour of each sort of interval in a timeline."""


PARALLELISM = ("#3f7fd0", "#e0892b")
"""Model parallelism's traffic, and data parallelism's."""
RELAYED = "#c2449a"
"""Pairs without a circuit of their own."""
KINDS: Mapping[str, str] = {"ddp": "#4c78c8", "fsdp": "#5ba8a0", "tensor-pipeline": "#d9a821", "placed": "#c9603a"}
"""Colour of plans by their kind of split."""


def cyclic_colours(count: int) -> Floats:
    """Return ``count`` colours around the circle of hues, equally light, as sRGB values from 0 to 1, shape [count, 3].

    They are OKLCH colours of fixed lightness and chroma, so that no rank stands out and the first follows on the last.
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


_LIGHT = (0.86, 0.47, 0.10)
"""Colour of full light in maps of links, as RGB."""


def ramp(colour: str | tuple[float, float, float], least: float = 0.03) -> ListedColormap:
    """Return a colour map of 256 entries of one colour, a name or code of matplotlib or RGB from 0 to 1, whose opacity
    rises evenly from ``least`` (0 to 1) for the lowest value to 1 for the highest."""
    from matplotlib.colors import ListedColormap, to_rgb

    return ListedColormap(np.column_stack([np.tile(to_rgb(colour), (256, 1)), np.linspace(least, 1.0, 256)]))


FORMATS = (".svg", ".png", ".pdf")
_INKED = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
_FAINT = ("axes.edgecolor", "xtick.color", "ytick.color")
_DOTS_PER_INCH = 160
_BAR: Mapping[str, Any] = {"pad": 0.015, "fraction": 0.035}
"""Place of a colour bar beside its panels."""
_P = ParamSpec("_P")
_T = TypeVar("_T")


@cache
def _style() -> dict[str, Any]:
    """Return matplotlib's settings (rc parameters by name) for all figures: those of ``style.yaml`` beside this module,
    and the colours of text (:data:`INK`) and of axes and ticks (:data:`FAINT`)."""
    return read_yaml(Path(__file__).with_name("style.yaml")) | dict.fromkeys(_INKED, INK) | dict.fromkeys(_FAINT, FAINT)


def need_figures() -> None:
    """Check that figures can be drawn.

    Raises:
        UnsupportedError: Matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise UnsupportedError(
            "figures and reports need Matplotlib, which is not installed: pip install 'lightloom[figures]'"
        )


@contextmanager
def _look() -> Iterator[None]:
    """Return a context manager in which matplotlib has lightloom's settings; at its end the former ones come back.

    Raises:
        UnsupportedError: Matplotlib is not installed.
    """
    need_figures()
    import matplotlib

    with matplotlib.rc_context(_style()):  # type: ignore[arg-type, unused-ignore]
        yield


def styled(draw: Callable[_P, Figure]) -> Callable[_P, Figure]:
    """Return a drawing function wrapped so that it draws with lightloom's fonts and colours, whatever the user's
    matplotlib settings are; it raises UnsupportedError where Matplotlib is not installed."""

    @wraps(draw)
    def drawn(*args: _P.args, **kwargs: _P.kwargs) -> Figure:
        """Draw with lightloom's style set for the time of the call."""
        with _look():
            return draw(*args, **kwargs)

    return drawn


def single_panel(width: float, height: float) -> tuple[Figure, Axes]:
    """Return (empty figure, its one panel), made without pyplot and with matplotlib's constrained layout; sizes in
    inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def panel_grid(width: float, height: float, rows: int, columns: int, **options: Any) -> tuple[Figure, Any]:
    """Return (empty figure, its panels), the panels as an array [rows, columns] even where there is one, made without
    pyplot and with matplotlib's constrained layout.

    ``width`` and ``height`` of the figure are in inches; further options are those of matplotlib's ``Figure.subplots``.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def annotate(axes: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **options: Any) -> None:
    """Write a note beside a point of a panel.

    Args:
        axes: the panel.
        text: the note, in matplotlib's notation: a dollar sign begins a formula (:func:`plain` escapes it).
        point: (x, y) in data coordinates, unless ``xycoords`` among the options says otherwise.
        offset: (right, up) of the note from the point, in points.
        options: options of matplotlib's ``annotate``.
    """
    axes.annotate(text, point, xytext=offset, textcoords="offset points", **options)


def hide_spines(axes: Axes, *more: str) -> None:
    """Hide the top and the right side of a panel's box, and the sides named in ``more`` (``left``, ``bottom``)."""
    axes.spines[["top", "right", *more]].set_visible(False)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows 0, 1 ... of a horizontal chart, row 0 at the top, without ticks, and hide all sides of the panel's
    box but the bottom; dollar signs in names are plain text.

    The vertical axis is set to run from half a row above the first to half a row below the last.
    """
    axes.set_yticks(range(len(names)), [plain(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    hide_spines(axes, "left")


def headline(figure: Figure | SubFigure, text: str) -> None:
    """Write the title of a figure above it, flush left; dollar signs in it are plain text."""
    figure.suptitle(plain(text), x=0.008, ha="left", fontsize=9.5, fontweight="bold")


def integer_ticks(axis: Axis, most: int) -> None:
    """Let an axis have at most about ``most`` ticks, at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, integer=True))


def logarithmic_ticks(axis: Axis, words: Callable[[float], str], **options: Any) -> None:
    """Put ticks on a logarithmic axis, labelled by ``words(value)``, where the value is rounded to six significant
    digits; minor ticks get no label. Further options are those of matplotlib's ``LogLocator``."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(**options))
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(float(f"{value:.6g}"))))
    axis.set_minor_formatter(NullFormatter())


def evenly_spaced(items: Sequence[_T], most: int) -> list[_T]:
    """Return at most ``most`` (two or more) of the items, in their order and evenly spaced by place, the first and the
    last included; all of them where there are no more."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def colour_legend(figure: Figure, colours: Mapping[str, Any], **options: Any) -> None:
    """Write a legend in one line above a figure, a patch of each colour beside its words; none if there are no words.

    Args:
        figure: the figure.
        colours: matplotlib's colours by the words beside them, in which dollar signs are plain text.
        options: options of matplotlib's ``Patch``, for all patches.
    """
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=plain(words), **options) for words, colour in colours.items()]
    if handles:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))


def share_image(axes: Axes, shares: Floats, most: float, links: int, steps: int) -> AxesImage:
    """Draw shares as an image with links, numbered from 0, across and steps, numbered from 1, downwards, and return it.

    Args:
        axes: panel to draw in.
        shares: [bins of steps, bins of links], both axes cut into bins of equal width.
        most: share that has the full colour; opacity falls evenly from there to 3 % at 0.
        links: number of links that the axis spans.
        steps: number of steps that the axis spans.
    """
    extent = (-0.5, links - 0.5, steps + 0.5, 0.5)
    return axes.imshow(shares, aspect="auto", interpolation="none", cmap=ramp(_LIGHT), vmin=0, vmax=most, extent=extent)


def share_bar(figure: Figure | SubFigure, image: AxesImage, axes: Panels, label: str, aspect: float) -> None:
    """Draw a colour bar beside the panels ``axes`` for an image of shares (0 to 1), with ticks in percent.

    Args:
        figure: the figure.
        image: the image whose colours are explained.
        axes: panels beside which the bar stands.
        label: words along the bar.
        aspect: length of the bar over its width.
    """
    from matplotlib.ticker import PercentFormatter

    bar = figure.colorbar(image, ax=axes, aspect=aspect, format=PercentFormatter(1), label=label, **_BAR)
    bar.outline.set_visible(False)  # type: ignore[operator, unused-ignore]


def number_bar(figure: Figure | SubFigure, colours: Floats, axes: Panels, label: str, aspect: float) -> None:
    """Draw a colour bar beside the panels ``axes`` for things that are numbered from 0, such as ranks, with ticks at
    about five whole numbers at most.

    Args:
        figure: the figure.
        colours: RGB of each thing, 0 to 1: [things, 3].
        axes: panels beside which the bar stands.
        label: words along the bar.
        aspect: length of the bar over its width.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.ticker import MaxNLocator

    legend = ScalarMappable(Normalize(-0.5, len(colours) - 0.5), ListedColormap(colours))
    bar = figure.colorbar(legend, ax=axes, aspect=aspect, label=label, **_BAR)
    bar.locator = MaxNLocator(5, integer=True)
    bar.outline.set_visible(False)  # type: ignore[operator, unused-ignore]


def plain(text: str) -> str:
    """Return text with its dollar signs escaped, so that matplotlib shows them and starts no formula."""
    return text.replace("$", r"\$")


def to_svg(figure: Figure, origin: str = "") -> str:
    """Return the figure as SVG text on a transparent ground; equal figures give equal bytes, and text stays text.

    ``origin`` (one line of provenance) becomes the description in its metadata; empty leaves it out. Texts name DejaVu
    Sans as their font and common sans-serif ones in its place. UnsupportedError is raised where Matplotlib is not
    installed.
    """
    buffer = io.StringIO()
    with _look():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Description": origin or None})
    # Text is measured in DejaVu Sans, which is wide: any common sans-serif fits where it does.
    return re.sub(
        r"'DejaVu Sans'(, '?[\w ]+'?)*", "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif", buffer.getvalue()
    )


def check_format(path: Path) -> None:
    """Check that the suffix of ``path`` names a format that :func:`save` writes; nothing is written, and the folder is
    not looked at.

    Raises:
        ConfigError: the suffix is none of ``.svg``, ``.png`` and ``.pdf`` (:data:`FORMATS`), in either case of letters.
        UnsupportedError: Matplotlib is not installed.
    """
    need_figures()
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"cannot draw {str(path)!r}: expected a name that ends in {', '.join(FORMATS)}")


def save(figure: Figure, path: Path, origin: str = "") -> Path:
    """Write a figure as ``.svg``, ``.png`` or ``.pdf``, by the suffix of ``path``, completely or not at all, and return
    the path; missing folders are made.

    The ground is transparent in SVG and white in the others; PNG has 160 dots an inch. ``origin`` (one line of
    provenance) goes into the file's metadata; empty leaves it out. Dates are left out, so that equal figures give equal
    files.

    Raises:
        ConfigError: another suffix, or the place cannot be written to.
        UnsupportedError: Matplotlib is not installed.
    """
    check_format(path)
    suffix = path.suffix.lower()
    if suffix == ".svg":
        return write_atomically(path, to_svg(figure, origin))
    dropped, stated = ("Software", "Description") if suffix == ".png" else ("CreationDate", "Subject")
    metadata: dict[str, Any] = {dropped: None} | ({stated: origin} if origin else {})
    buffer = io.BytesIO()
    with _look():
        figure.savefig(buffer, format=suffix[1:], dpi=_DOTS_PER_INCH, metadata=metadata, facecolor="white")
    return write_atomically(path, buffer.getvalue())
