"""What all figures share: colours, notes, ticks, legends, bars of colours and how they are written to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.reports.figures import canvas
from lightloom.reports.figures.canvas import (
    FAINT,
    INK,
    annotate,
    check_format,
    colour_legend,
    cyclic_colours,
    evenly_spaced,
    headline,
    hide_spines,
    integer_ticks,
    logarithmic_ticks,
    name_rows,
    need_figures,
    number_bar,
    panel_grid,
    plain,
    ramp,
    save,
    share_bar,
    share_image,
    single_panel,
    styled,
    to_svg,
)
from tests.reports.artists import hidden, ticks, told


def panel() -> tuple[Any, Any]:
    return single_panel(4.0, 3.0)


def lightness(colours: Any) -> tuple[Any, Any, Any]:
    """Lightness, chroma and hue of sRGB colours in OKLCH, by the matrices that its author gives (Ottosson, 2020)."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    cones = np.cbrt(
        linear
        @ np.array(
            [
                [0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005],
            ]
        ).T
    )
    lab = (
        cones
        @ np.array(
            [
                [0.2104542553, 0.7936177850, -0.0040720468],
                [1.9779984951, -2.4285922050, 0.4505937099],
                [0.0259040371, 0.7827717662, -0.8086757660],
            ]
        ).T
    )
    return lab[:, 0], np.hypot(lab[:, 1], lab[:, 2]), np.arctan2(lab[:, 2], lab[:, 1])


@pytest.mark.parametrize("count", [1, 3, 16])
def test_colours_of_ranks_go_round_the_hues_at_one_lightness(count: int) -> None:
    colours = cyclic_colours(count)
    light, chroma, hue = lightness(colours)
    inside = (colours > 0).all(axis=1) & (colours < 1).all(axis=1)
    assert inside.sum() >= 0.6 * count
    assert np.allclose(light[inside], 0.72, atol=1e-6) and np.allclose(chroma[inside], 0.125, atol=1e-6)
    expected = 2 * np.pi * np.arange(count) / count + 0.5
    assert np.allclose(np.exp(1j * hue[inside]), np.exp(1j * expected[inside]), atol=1e-5)


def test_ramps_rise_in_256_even_steps() -> None:
    colours = np.array([ramp((0.25, 0.5, 0.75), 0.5)(step) for step in range(256)])
    assert np.allclose(colours[:, 3], np.linspace(0.5, 1.0, 256)) and np.allclose(colours[:, :3], [0.25, 0.5, 0.75])
    assert ramp("red")(0) == (1.0, 0.0, 0.0, 0.03) and ramp("red")(255) == (1.0, 0.0, 0.0, 1.0)


def test_panels_are_as_large_as_asked_for() -> None:
    figure, axes = panel()
    assert figure.get_size_inches().tolist() == [4, 3] and figure.axes == [axes]
    assert type(figure.get_layout_engine()).__name__ == "ConstrainedLayoutEngine"
    figure, panels = panel_grid(6.0, 2.0, 1, 1)
    assert panels.shape == (1, 1) and figure.get_size_inches().tolist() == [6, 2]
    figure, panels = panel_grid(6.0, 2.0, 2, 3, width_ratios=(1, 2, 3))
    assert panels.shape == (2, 3) and panels[0, 0].get_gridspec().get_width_ratios() == (1, 2, 3)
    assert type(figure.get_layout_engine()).__name__ == "ConstrainedLayoutEngine"


def test_notes_stand_beside_their_point() -> None:
    _, axes = panel()
    annotate(axes, "words", (1.0, 2.0), (3.0, 4.0), ha="right", color=FAINT)
    (note,) = axes.texts
    assert (note.get_text(), note.xy, note.get_position(), note.get_ha()) == ("words", (1, 2), (3, 4), "right")
    assert note.anncoords == "offset points" and note.xycoords == "data" and note.get_color() == FAINT


def test_sides_of_a_box_are_hidden_by_name() -> None:
    _, axes = panel()
    hide_spines(axes)
    assert hidden(axes) == {"top", "right"}
    hide_spines(axes, "left", "bottom")
    assert hidden(axes) == {"top", "right", "left", "bottom"}


@pytest.mark.parametrize(("names", "low"), [([], 0.5), (["a"], 0.5), (["a", "b $", "c"], 2.5)])
def test_rows_are_named_from_the_top(names: list[str], low: float) -> None:
    _, axes = panel()
    name_rows(axes, names)
    assert ticks(axes.yaxis) == [(n, name.replace("$", r"\$")) for n, name in enumerate(names)]
    assert axes.get_ylim() == (low, -0.5) and hidden(axes) == {"top", "right", "left"}
    assert all(tick.tick1line.get_markersize() == 0 for tick in axes.yaxis.get_major_ticks())
    assert all(tick.tick1line.get_markersize() > 0 for tick in axes.xaxis.get_major_ticks())


def test_headlines_are_bold_and_flush_left() -> None:
    figure, _ = panel()
    headline(figure, "costs $")
    title = figure._suptitle
    assert title.get_text() == r"costs \$" and title.get_position()[0] == 0.008 and title.get_ha() == "left"
    assert (title.get_fontsize(), title.get_fontweight()) == (9.5, "bold")


@pytest.mark.parametrize(("end", "places"), [(3.0, [0, 1, 2, 3]), (1.0, [0, 1]), (100.0, [0, 25, 50, 75, 100])])
def test_whole_ticks_are_few(end: float, places: list[int]) -> None:
    _, axes = panel()
    axes.set_xlim(0, end)
    integer_ticks(axes.xaxis, 4)
    assert [tick for tick in axes.xaxis.get_majorticklocs().tolist() if 0 <= tick <= end] == places


def test_logarithmic_ticks_are_told_in_words() -> None:
    _, axes = panel()
    axes.set(xscale="log", xlim=(1, 100))
    logarithmic_ticks(axes.xaxis, lambda value: f"<{value}>", subs=(1.0, 5.0))
    inside = [tick for tick in axes.xaxis.get_majorticklocs().tolist() if 1 <= tick <= 100]
    assert inside == pytest.approx([1, 5, 10, 50, 100])
    words = axes.xaxis.get_major_formatter()
    assert words(0.1 + 0.2, None) == "<0.3>" and words(1234567.0, 0) == "<1234570.0>"
    assert axes.xaxis.get_minor_formatter()(2.0, None) == ""
    logarithmic_ticks(axes.xaxis, str, base=2)
    assert axes.xaxis.get_major_locator()._base == 2


@pytest.mark.parametrize(
    ("count", "most", "chosen"),
    [
        (0, 2, []),
        (3, 3, [0, 1, 2]),
        (3, 4, [0, 1, 2]),
        (4, 3, [0, 2, 3]),
        (5, 3, [0, 2, 4]),
        (10, 4, [0, 3, 6, 9]),
        (11, 2, [0, 10]),
    ],
)
def test_items_that_are_kept_are_evenly_spaced(count: int, most: int, chosen: list[int]) -> None:
    assert evenly_spaced(range(count), most) == chosen


def test_legends_have_a_patch_for_each_colour_in_one_line() -> None:
    figure, _ = panel()
    colour_legend(figure, {})
    assert not figure.legends
    colour_legend(figure, {"a $": "#112233", "b": "#445566"}, alpha=0.5)
    (legend,) = figure.legends
    assert told(legend) == [r"a \$", "b"] and legend._ncols == 2 and legend._outside_loc == "upper"
    assert [to_hex(each.get_facecolor()) for each in legend.legend_handles] == ["#112233", "#445566"]
    assert {each.get_alpha() for each in legend.legend_handles} == {0.5}


def test_images_of_shares_have_steps_downwards_from_one() -> None:
    _, axes = panel()
    shares = np.array([[0.0, 0.5], [0.25, 0.75]])
    image = share_image(axes, shares, 0.8, 2, 5)
    assert np.array_equal(image.get_array(), shares) and image.get_clim() == (0, 0.8)  # type: ignore[arg-type]
    assert [*image.get_extent()] == [-0.5, 1.5, 5.5, 0.5] and image.get_interpolation() == "none"
    assert axes.get_aspect() == "auto" and axes.get_ylim() == (5.5, 0.5) and axes.get_xlim() == (-0.5, 1.5)
    assert image.get_cmap()(1.0) == pytest.approx((0.86, 0.47, 0.1, 1.0))


def test_bars_of_shares_are_in_percent() -> None:
    figure, axes = panel()
    share_bar(figure, share_image(axes, np.eye(2), 1.0, 2, 2), axes, "full", 12)
    bar = figure.axes[1]
    assert bar.get_ylabel() == "full" and bar.yaxis.get_major_formatter()(0.25) == "25%"
    about = bar._colorbar_info
    assert (about["aspect"], about["pad"], about["fraction"], about["parents"]) == (12, 0.015, 0.035, [axes])
    assert not bar._colorbar.outline.get_visible()


def test_bars_of_numbered_things_have_a_colour_each() -> None:
    figure, axes = panel()
    colours = cyclic_colours(6)
    number_bar(figure, colours, axes, "rank", 9)
    bar = figure.axes[1]
    found = bar._colorbar
    assert bar.get_ylabel() == "rank" and bar.get_ylim() == (-0.5, 5.5) and not found.outline.get_visible()
    assert np.allclose([found.cmap(found.norm(rank))[:3] for rank in range(6)], colours)
    assert (found.locator._nbins, found.locator._integer) == (5, True)
    about = bar._colorbar_info
    assert (about["aspect"], about["pad"], about["fraction"]) == (9, 0.015, 0.035)


def test_dollar_signs_are_no_formulas() -> None:
    assert plain("$1 and $2") == r"\$1 and \$2" and plain("none") == "none"


def test_figures_have_their_own_style_whatever_the_user_has_set() -> None:
    seen: dict[str, Any] = {}

    @styled
    def draw(size: float) -> Any:
        """Draw nothing."""
        seen.update({name: matplotlib.rcParams[name] for name in ("font.size", "text.color", "axes.edgecolor")})
        return single_panel(size, size)[0]

    with matplotlib.rc_context({"font.size": 30.0, "text.color": "red"}):
        assert draw(2.0).get_size_inches().tolist() == [2, 2]
        assert matplotlib.rcParams["font.size"] == 30.0
    assert seen == {"font.size": 8.5, "text.color": INK, "axes.edgecolor": FAINT}
    assert draw.__name__ == "draw" and draw.__doc__ == "Draw nothing."
    style = canvas._style()
    assert {style[name] for name in ("axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")} == {
        INK
    }
    assert {style[name] for name in ("xtick.color", "ytick.color")} == {FAINT}


def test_pictures_say_where_they_come_from_and_nothing_of_when() -> None:
    figure, _ = panel()
    text = to_svg(figure, "lightloom 1 <x>")
    assert "<dc:description>lightloom 1 &lt;x&gt;</dc:description>" in text
    assert "dc:date" not in text and "dc:creator" not in text
    assert "dc:description" not in to_svg(figure)
    figure.text(0.5, 0.5, "words")
    assert "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif" in to_svg(figure) and ">words</text>" in to_svg(
        figure
    )


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf", ".SVG", ".Pdf"])
def test_files_hold_their_origin(tmp_path: Path, suffix: str) -> None:
    figure, _ = panel()
    path = save(figure, tmp_path / f"a{suffix}", "made by hand")
    assert path == tmp_path / f"a{suffix}"
    held = path.read_bytes()
    assert b"made by hand" in held and b"made by hand" not in save(figure, tmp_path / f"b{suffix}").read_bytes()
    assert b"CreationDate" not in held and b"Software" not in held


def test_rasters_have_160_dots_an_inch_on_white(tmp_path: Path) -> None:
    from matplotlib.image import imread

    figure, axes = panel()
    axes.axis("off")
    pixels = imread(save(figure, tmp_path / "a.png"))
    assert pixels.shape[:2] == (480, 640) and (pixels[..., :3] == 1).all() and (pixels[..., 3] == 1).all()


def test_files_of_other_kinds_and_machines_without_matplotlib_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure, _ = panel()
    with pytest.raises(ConfigError, match=r"cannot draw 'a\.jpg': expected a name that ends in \.svg, \.png, \.pdf$"):
        check_format(Path("a.jpg"))
    check_format(Path("a.PNG"))
    need_figures()
    with pytest.raises(ConfigError):
        save(figure, tmp_path / "a.txt")
    monkeypatch.setattr(canvas, "find_spec", lambda name: None if name == "matplotlib" else name)
    for call in (need_figures, lambda: check_format(Path("a.svg")), lambda: to_svg(figure)):
        with pytest.raises(UnsupportedError, match="figures and reports need Matplotlib"):
            call()
