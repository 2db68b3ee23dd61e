"""``lightloom budget``: whether light reaches across a ring, and how many destinations it may serve on its way."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from rich.table import Table
from rich.text import Text

from lightloom.app.cli.options import FigureFile, Shown, Wavelengths, draw, read_settings
from lightloom.core.configfile import validate
from lightloom.core.errors import ConfigError
from lightloom.core.fields import MAXIMUM_RANKS
from lightloom.core.results import Document, provenance
from lightloom.core.units import format_bandwidth, format_quantity, format_time
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.link_budget import SOURCES, LinkBudget, dbm
from lightloom.machines.reducers.built import BuiltAverager
from lightloom.reports.console import facts_table, plain_table, rows_table
from lightloom.reports.figures.comparisons import budget_figure

# ``lightloom budget --cluster``: the watts, lanes, light, latency and area that a cluster's averager takes.


def averager_budget(name: str, settings: Mapping[str, Any]) -> Shown:
    """Show what the averager of a cluster takes; ``settings`` replace fields of the cluster.

    Raises:
        ConfigError: the cluster has no averager whose devices are known.
    """
    cluster = load_cluster(name, settings)
    built = getattr(cluster.fabric, "built", None)
    if not isinstance(built, BuiltAverager):
        raise ConfigError(f"--cluster {name!r}: expected a cluster around an averager, such as optinc-4")
    fabric = cluster.fabric
    document: Document = {
        "schema": "lightloom.averager-budget/1",
        "cluster": cluster.name,
        "ranks": cluster.ranks,
        "averager": built.model_dump(mode="json"),
        "power_per_rank": fabric.power_per_rank,
        "latency": fabric.diameter_latency(),
        "warnings": list(fabric.warnings),
        "sources": fabric.sources,
        "provenance": provenance(["averager-budget", fabric.model_dump(mode="json")]),
    }
    return Shown(document, _averager_budget_parts(cluster, built))


def _averager_budget_parts(cluster: Cluster, built: BuiltAverager) -> Iterator[str | Text | Table]:
    """Yield the facts of the averager, its watts by part (of all instances, largest first), the range of its power, and
    what it asks of the world."""
    fabric = cluster.fabric
    power = fabric.power_per_rank
    facts = {
        "averager": built.reducer,
        "instances": f"{built.instances} of {format_bandwidth(built.instance_bandwidth)} a rank",
        "lanes of a rank": f"{built.lanes}",
        "passive meshes": f"{built.meshes}",
        "latency, fibres included": format_time(fabric.diameter_latency()),
        "area of meshes": f"{1e6 * built.area:.3g} mm2" if built.area else "",
        "power of a rank": "" if power is None else format_quantity(power, "power"),
    }
    yield facts_table([fact for fact in facts.items() if fact[1]], title=f"{cluster.name}: {cluster.ranks} ranks")
    yield ""
    whole = sum(built.watts.values())
    rows = [
        [part, format_quantity(watts, "power"), f"{100 * watts / whole:.0f} %"]
        for part, watts in sorted(built.watts.items(), key=lambda entry: -entry[1])
    ]
    yield plain_table(["part", "all instances", "share"], [*rows, ["in all", format_quantity(whole, "power"), ""]])
    if built.low is not None:
        most = "no limit" if built.high is None else format_quantity(built.high, "power")
        yield f"90 % of draws of all constants: {format_quantity(built.low, 'power')} to {most}"
    if built.unknown:
        yield f"without a figure, hence left out: {', '.join(built.unknown)}"
    yield from (f"warning: {line}" for line in fabric.warnings)
    if built.needs:
        yield f"needs: {'; '.join(built.needs)}"
    stated = [field for field in ("averaging_latency", "power_per_rank") if field in fabric.sources]
    yield from (Text(f"{field.replace('_', ' ')}: {fabric.sources[field]}", style="dim") for field in stated)


_TAPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)


def budget(
    *,
    ranks: int = 64,
    wavelengths: Wavelengths = None,
    set: list[str] | None = None,
    taps: int = 10,
    cluster: str | None = None,
    figure: FigureFile = None,
) -> Shown:
    """Power, losses and errors of a lightpath: its reach, its taps, and the laser that it needs.

    Args:
        ranks: Nodes on the ring.
        set: field=value of the budget, losses in dB; repeatable.
        taps (T): Most destinations of one lightpath.
        cluster (CLUSTER): Instead of a ring: what the averager of a cluster takes (optinc-4, or a file).
        figure: Draw the power along the longest lightpath (.svg, .png, .pdf).
    """
    if cluster is not None:
        if figure is not None or wavelengths is not None:
            raise ConfigError("--cluster takes --set and --json alone")
        return averager_budget(cluster, read_settings(set))
    chosen = read_settings(set, wavelengths)
    if not 2 <= ranks <= MAXIMUM_RANKS:
        raise ConfigError(f"--ranks {ranks}: expected 2 to {MAXIMUM_RANKS} nodes")
    if not 1 <= taps < ranks:
        raise ConfigError(f"--taps {taps}: expected 1 to {ranks - 1}, since {ranks} nodes are on the ring")
    light = validate(LinkBudget, chosen, "budget")
    half = ranks // 2
    document = {
        "schema": "lightloom.budget/1",
        "ranks": ranks,
        "budget": light.model_dump(mode="json"),
        "sources": {name: "given" if name in chosen else where for name, where in SOURCES.items()},
        "laser_dbm": light.laser_dbm,
        "sensitivity_dbm": dbm(light.sensitivity),
        "losses": [loss._asdict() for loss in light.losses()],
        "neighbours_close": light.closes(1),
        "half_ring_closes": light.closes(half),
        "half_ring_laser_dbm": light.needed_dbm(half),
        "half_ring_error_rate": light.errors_over(half),
        "most_taps": light.most_taps(),
        "rows": [
            {
                "taps": served,
                "reach": (reach := light.reach(served)),
                "adjacent_taps_close": light.closes(served, served),
                "adjacent_taps_laser_dbm": light.needed_dbm(served, served),
                "error_rate_at_reach": light.errors_over(reach, min(served, reach)) if reach else None,
            }
            for served in sorted({*(each for each in _TAPS if each <= taps), taps})
        ],
        "provenance": provenance(["budget", ranks, taps, light.model_dump(mode="json")]),
    }
    written = {"drawn": draw(figure, partial(budget_figure, light, taps), document)}
    return Shown(document, _budget_parts(document), written)


def _budget_parts(document: Document) -> Iterator[str | Table]:
    """Yield the tables of losses in dB and of the reach by number of destinations, and whether a link and half a ring
    close."""
    losses = [(loss["item"], f"{loss['decibels']:.4g}", loss["counted"]) for loss in document["losses"]]
    light = document["budget"]
    rate = f"{light['wavelengths']} wavelengths of {format_bandwidth(light['wavelength_bandwidth'])}"
    title = f"light of {document['laser_dbm']:.2f} dBm a wavelength, {rate}"
    yield plain_table(("loss", "dB", "counts"), losses, title=title, left=("loss", "counts"))
    yield (
        f"a photodiode needs {document['sensitivity_dbm']:.2f} dBm for at most {light['error_rate']:.2g} errors a bit"
    )
    yield ""
    reaches = [
        {
            "up to": row["taps"],
            "reach": "no limit" if row["reach"] is None else f"{row['reach']} links",
            "errors a bit there": "" if row["error_rate_at_reach"] is None else f"{row['error_rate_at_reach']:.1e}",
            "all adjacent": "close" if row["adjacent_taps_close"] else "too weak",
            "laser for that": f"{row['adjacent_taps_laser_dbm']:.1f} dBm",
        }
        for row in document["rows"]
    ]
    yield rows_table(reaches, title="destinations of one lightpath", left=())
    most = "no limit" if document["most_taps"] is None else f"at most {document['most_taps']}"
    half = document["ranks"] // 2
    yield (
        f"ring of {document['ranks']}: a link {_closes(document['neighbours_close'])}; half a ring, {half} links, "
        f"{_closes(document['half_ring_closes'])} and takes a laser of {document['half_ring_laser_dbm']:.1f} dBm; "
        f"adjacent destinations of one lightpath: {most}"
    )


def _closes(closes: bool) -> str:
    """Return the words for whether light suffices: "closes" or "does not close"."""
    return "closes" if closes else "does not close"
