"""What the codec benchmark says: tables, the sum-up against its targets, the picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom.reports.figures.canvas import FAINT, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS = "inceptionn:2^-10"
OF_MEMCPY = 0.5
FASTER = {"encode": 10.0, "decode": 5.0}
"""How many times faster than each peer ours should be."""
_MARKS = {
    "copy": ("memcpy", "s", "#a3abb8"),
    "ours": ("this package", "o", "#e0892b"),
    "cast": ("torch casts", "^", "#5ba8a0"),
    "peer": ("other codecs", "D", "#4c78c8"),
}


def print_table(found: dict[str, Any]) -> None:
    """Everything measured, a block for each file."""
    versions = ", ".join(f"{name} {version}" for name, version in found["packages"].items())
    print(f"{found['megabytes']} MB, one thread, best of {found['rounds']} rounds")
    print(f"kernel {found['kernel']} on {found['cpu']}")
    print(f"{versions}; not installed: {', '.join(found['missing']) or 'none'}")
    for data, rows in found["data"].items():
        values = found["gradients"].get(data)
        print(f"\n{data}" + (f" ({values} values, repeated)" if values else " (generated)"))
        print(f"{'':24}{'GB/s of float32':>17}{'x memcpy':>15}{'':>9}{'largest':>10}{'relative':>10}")
        print(
            f"{'codec':24}{'encode':>9}{'decode':>8}{'encode':>8}{'decode':>7}{'ratio':>9}{'error':>10}{'L2 error':>10}"
        )
        for row in rows:
            print(
                f"{row['codec']:24}{row['encode_GBps']:9.2f}{row['decode_GBps']:8.2f}{row['encode_of_memcpy']:8.3f}"
                f"{row['decode_of_memcpy']:7.3f}{row['ratio']:9.2f}{row['largest_error']:10.2g}"
                f"{row['relative_l2_error']:10.2g}"
            )


def verdicts(found: dict[str, Any]) -> list[str]:
    """Ours against memcpy on the middle file, and against every peer and cast on every file; losses as they are."""
    middle = found["middle"]
    ours = _row(found["data"][middle], OURS)
    lines = [
        "",
        f"{OURS} over memcpy on {middle}: "
        + ", ".join(
            f"{way} {ours[f'{way}_of_memcpy']:.2f} ({_met(ours[f'{way}_of_memcpy'], OF_MEMCPY)})" for way in FASTER
        ),
    ]
    for data, rows in found["data"].items():
        ours = _row(rows, OURS)
        lines.append(
            f"{OURS} over each on {data}: times as fast to encode (target {FASTER['encode']:g} for other "
            f"codecs), to decode (target {FASTER['decode']:g}), times the ratio"
        )
        for row in rows:
            if row["kind"] not in ("peer", "cast"):
                continue
            times = {way: ours[f"{way}_GBps"] / row[f"{way}_GBps"] for way in FASTER}
            words = ", ".join(
                f"{way} {times[way]:.1f}" + (f" ({_met(times[way], FASTER[way])})" if row["kind"] == "peer" else "")
                for way in FASTER
            )
            slower = [way for way in FASTER if times[way] < 1]
            lost = f"; ours is slower to {' and '.join(slower)}" if slower else ""
            lines.append(f"  {row['codec']:24}{words}, ratio {ours['ratio'] / row['ratio']:.2f}{lost}")
    lines.extend(
        f"note: {row['codec']} on {data} spent {row['cpu_s_on_other_threads']:.2f} CPU-s on other threads"
        for data, rows in found["data"].items()
        for row in rows
        if row["cpu_s_on_other_threads"] > 0.05
    )
    return lines


def markdown(found: dict[str, Any]) -> str:
    """The documentation's table: for each file GB/s to encode and decode, the ratio, the relative L2 error."""
    lines = [f"| codec | {' | '.join(found['data'])} |", "| --- |" + " ---: |" * len(found["data"])]
    for codec in (row["codec"] for row in found["data"][found["middle"]]):
        cells = []
        for rows in found["data"].values():
            row = _row(rows, codec)
            speeds = f"{_short(row['encode_GBps'])} / {_short(row['decode_GBps'])}"
            cells.append(f"{speeds}, {_short(row['ratio'])}×, {row['relative_l2_error']:.2g}")
        lines.append(f"| {f'**{codec}**' if codec == OURS else codec} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: dict[str, Any], path: Path) -> None:
    """Throughput against ratio on the middle file, to encode on the left and to decode on the right."""
    save(_figure(found), path)


@styled
def _figure(found: dict[str, Any]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    rows = found["data"][found["middle"]]
    for axes, way in ((left, "encode"), (right, "decode")):
        _panel(axes, rows, f"{way}_GBps")
        axes.set_title(f"{way}: GB/s of float32, {found['middle']} gradients, one thread")
    left.set_ylabel("GB/s")
    left.legend(loc="lower right")
    return figure


def _panel(axes: Axes, rows: list[dict[str, Any]], key: str) -> None:
    for kind, (label, mark, colour) in _MARKS.items():
        chosen = [row for row in rows if row["kind"] == kind]
        axes.plot([row["ratio"] for row in chosen], [row[key] for row in chosen], mark, ms=6, color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(0.8, max(row["ratio"] for row in rows) ** 1.3)
    speeds = [row[each] for row in rows for each in ("encode_GBps", "decode_GBps")]
    axes.set_ylim(min(speeds) / 1.6, 2 * max(speeds))
    axes.xaxis.set_major_formatter("{x:g}×")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("compression ratio")
    axes.grid(color=FAINT, lw=0.3, alpha=0.5)
    _name(axes, rows, key)


def _name(axes: Axes, rows: list[dict[str, Any]], key: str) -> None:
    """Write names beside the points, each moved down until it covers no other name and no point."""
    place = axes.transScale + axes.transLimits
    points = [tuple(place.transform((row["ratio"], row[key]))) for row in rows]
    taken = [(x - 0.012, x + 0.012, y) for x, y in points]
    for row, (x, y) in sorted(zip(rows, points, strict=True), key=lambda pair: -pair[1][1]):
        left, right, at = x + 0.02, x + 0.02 + 0.0125 * len(row["codec"]), y
        while any(left < end and begin < right and abs(at - other) < 0.03 for begin, end, other in taken):
            at -= 0.004
        taken.append((left, right, at))
        line = {"arrowstyle": "-", "lw": 0.3, "color": FAINT, "shrinkA": 0, "relpos": (0, 0.5)}
        axes.annotate(
            row["codec"],
            (x, y),
            (left, at),
            "axes fraction",
            "axes fraction",
            va="center",
            fontsize=6.5,
            arrowprops=line,
        )


def _row(rows: list[dict[str, Any]], codec: str) -> dict[str, Any]:
    return next(row for row in rows if row["codec"] == codec)


def _met(value: float, target: float) -> str:
    return "met" if value >= target else f"MISSED, target {target:g}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
