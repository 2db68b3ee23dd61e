"""``lightloom budget``: whether light reaches across a ring, and how many destinations it may serve on its way."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from lightloom.app.cli.options import FigureFile, Shown, draw, read_settings
from lightloom.core.configfile import read_config
from lightloom.core.errors import ConfigError
from lightloom.core.fields import MAXIMUM_RANKS
from lightloom.core.results import Document, provenance
from lightloom.core.units import format_bandwidth, format_quantity, format_time
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.fabrics.link_budget import SOURCES, LinkBudget, dbm
from lightloom.machines.reducers.built import BuiltAverager
from lightloom.reports.console import Parts, plain_table, rows_table, screen
from lightloom.reports.figures.comparisons import budget_figure

# ``lightloom budget --cluster``: the watts, lanes, light, latency and area that a cluster's averager takes.


def averager_budget(name: str, settings: Mapping[str, Any], explain: bool) -> Shown:
    """Return the result to print on what the averager of a cluster takes: watts by part, latency, lanes and area. Its
    document has the figures of the devices as ``averager``, ``power_per_rank`` in watts (None where unknown) and
    ``latency`` in seconds, fibres included, and the fabric's ``warnings`` and ``sources``.

    Args:
        name: a cluster of the catalog or a YAML file.
        settings: values of its fields, by path, in place of its own.
        explain: also shows every part, what the averager needs, and which parts have no figure.

    Raises:
        ConfigError: the cluster has no averager whose devices are known, or its file cannot be read.
        UnknownNameError: no such cluster.
    """
    cluster = load_cluster(name, set=settings)
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
    return Shown(document, _averager_parts(cluster, built, explain))


def _averager_parts(cluster: Cluster, built: BuiltAverager, explain: bool) -> Parts:
    """Yield what the terminal shows of an averager: the answer (watts of a rank and in all, latency with fibres,
    instances and their bandwidth, lanes, meshes and their area, the 90 % range of the watts where known), the eight
    parts with most power (of all instances) with their share of the whole, and the fabric's warnings; then with
    ``explain`` the table with every part, what the averager needs to work, the parts that are left out as no figure of
    them is known, and the sources of its latency and power."""
    fabric, whole, power = cluster.fabric, sum(built.watts.values()), cluster.fabric.power_per_rank
    rows = [
        {"part": part, "all instances": format_quantity(watts, "power"), "share": f"{watts / whole:.0%}"}
        for part, watts in sorted(built.watts.items(), key=lambda entry: -entry[1])
    ]
    least = "" if power is None else f"{format_quantity(power, 'power')} a rank, "
    area = f", {1e6 * built.area:.3g} mm2 of meshes" if built.area else ""
    best = [
        f"{least}{format_quantity(whole, 'power')} in all, {format_time(fabric.diameter_latency())} with fibres",
        f"{built.instances} instances of {format_bandwidth(built.instance_bandwidth)} a rank, {built.lanes} lanes of a "
        f"rank, {built.meshes} passive meshes{area}",
    ]
    if built.low is not None:
        most = "no limit" if built.high is None else format_quantity(built.high, "power")
        best.append(f"90% of draws of all constants take {format_quantity(built.low, 'power')} to {most}")
    yield from screen(
        f"What does the averager of {cluster.name} take, {built.reducer} for {cluster.ranks} ranks?",
        best,
        rows,
        left=("part",),
        everything="--explain",
        limit="; ".join(fabric.warnings),
        more=("--explain", "lightloom onn build --reducers"),
    )
    if explain:
        yield from ("", rows_table(rows))
        yield from (f"needs: {need}" for need in built.needs)
        yield from (f"without a figure, hence left out: {part}" for part in built.unknown)
        stated = [field for field in ("averaging_latency", "power_per_rank") if field in fabric.sources]
        yield from (f"{field.replace('_', ' ')}: {fabric.sources[field]}" for field in stated)


_TAPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)


def budget(
    *,
    ranks: int = 64,
    set: list[str] | None = None,
    cluster: str | None = None,
    figure: FigureFile = None,
    explain: bool = False,
) -> Shown:
    """Show how far light reaches across a ring, how many destinations it serves on its way, and the laser for that.

    Example: lightloom budget --ranks 64 --set node_loss=0.3 --set laser_power=10mW

    Args:
        ranks: Nodes on the ring.
        set: field=value of the budget, losses in dB (`lightloom catalog --schema budget`), or taps=N, the most
            destinations of one lightpath; repeatable.
        cluster (CLUSTER): Instead of a ring: what the averager of a cluster takes (optinc-4, or a file).
        figure: Draw the power along the longest lightpath (.svg, .png, .pdf).
        explain: List all losses with their sources.

    Returns:
        The result to print: reach and laser by number of destinations, or what an averager takes.

    Raises:
        ConfigError: a value that cannot be read or is out of range, or options that exclude each other.
    """
    chosen = read_settings(set)
    if cluster is not None:
        if figure is not None:
            raise ConfigError("--cluster takes --set, --explain and --json alone")
        return averager_budget(cluster, chosen, explain)
    if not 2 <= ranks <= MAXIMUM_RANKS:
        raise ConfigError(f"--ranks {ranks}: expected 2 to {MAXIMUM_RANKS} nodes")
    taps = chosen.pop("taps", 10)
    if not (isinstance(taps, int) and 1 <= taps < ranks):
        raise ConfigError(f"--set taps={taps}: expected 1 to {ranks - 1}, since {ranks} nodes are on the ring")
    light = read_config(LinkBudget, "budget", None, chosen)
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
    return Shown(document, _budget_parts(document, light, explain), written)


def _budget_parts(document: Document, light: LinkBudget, explain: bool) -> Parts:
    """Yield what the terminal shows of a budget: the reach to one destination and the most destinations next to each
    other, then for each of the first eight numbers of destinations of a lightpath the reach in links, the errors a bit
    there (empty where nothing is reached), whether the light suffices ("close") for as many destinations next to each
    other, and the laser that these take, in dBm; the reach with a stronger laser, better nodes or fewer wavelengths,
    and what half the ring takes. With ``explain`` also the losses in dB, all rows, and every field with its source.

    ``document`` is the command's document of the budget ``light``.
    """
    rows = [
        {
            "destinations": row["taps"],
            "reach": _links(row["reach"]),
            "errors a bit there": "" if row["error_rate_at_reach"] is None else f"{row['error_rate_at_reach']:.1e}",
            "next to each other": "close" if row["adjacent_taps_close"] else "too weak",
            "laser for these": f"{row['adjacent_taps_laser_dbm']:.1f} dBm",
        }
        for row in document["rows"]
    ]
    half, most = document["ranks"] // 2, document["most_taps"]
    closes = "closes" if document["half_ring_closes"] else "does not close"
    reached = f"{_links(document['rows'][0]['reach'])} to one destination, "
    reached += "any number" if most is None else f"at most {most}"
    changes: dict[str, dict[str, float]] = {
        "a laser twice as strong": {"laser_power": 2 * light.laser_power},
        "nodes of half the loss": {"node_loss": light.passing_loss / 2},
        "half the wavelengths": {"wavelengths": max(light.wavelengths // 2, 1)},
    }
    yield from screen(
        f"How far does light reach on a ring of {document['ranks']} nodes with {light.wavelengths} wavelengths of "
        f"{format_bandwidth(light.wavelength_bandwidth)}?",
        (
            f"{reached} next to each other" if document["neighbours_close"] else "a link does not close",
            f"from {document['laser_dbm']:.2f} dBm of the laser to the {document['sensitivity_dbm']:.2f} dBm of a "
            f"photodiode at {light.error_rate:.2g} errors a bit",
        ),
        rows,
        left=(),
        legend="close: the light suffices for the margin",
        everything="--explain",
        what_if=[f"{words}: {_links(light.model_copy(update=change).reach())}" for words, change in changes.items()],
        limit=f"a node passed takes {light.passing_loss:.3g} dB; half the ring, {_links(half)}, "
        f"{closes} and takes a laser of {document['half_ring_laser_dbm']:.1f} dBm",
        more=("--explain", "--figure light.png", "lightloom catalog --schema budget"),
    )
    if explain:
        losses = [(loss["item"], f"{loss['decibels']:.4g}", loss["counted"]) for loss in document["losses"]]
        yield from ("", plain_table(("loss", "dB", "counts"), losses, left=("loss", "counts")))
        yield from ("", rows_table(rows, left=()), "")
        yield from (f"{name} {document['budget'][name]}: {source}" for name, source in document["sources"].items())


def _links(reach: int | None) -> str:
    """Return a reach in words: ``12 links``, ``1 link``, or ``no limit`` for None."""
    return "no limit" if reach is None else f"{reach} link{'s' * (reach != 1)}"
