"""``lightloom budget --cluster``: the watts, lanes, light, latency and area that a cluster's averager takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from lightloom.cli.output import print_result
from lightloom.clusters.base import Cluster
from lightloom.clusters.load import load_cluster
from lightloom.core.errors import ConfigError
from lightloom.core.provenance import provenance
from lightloom.core.results import Document
from lightloom.core.units import format_bandwidth, format_quantity, format_time
from lightloom.fabrics.averaging import BuiltAverager
from lightloom.reports.console import facts_table, plain_table


def averager_budget(name: str, settings: Mapping[str, Any], as_json: bool) -> None:
    """Print what the averager of a cluster takes; ``settings`` replace fields of the cluster.

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
    print_result(document, as_json, _parts(cluster, built))


def _parts(cluster: Cluster, built: BuiltAverager) -> Iterator[str | Text | Table]:
    """The facts of the averager, watts by part, and what it asks of the world."""
    fabric = cluster.fabric
    facts = [
        ("averager", built.reducer),
        ("instances", f"{built.instances} of {format_bandwidth(built.instance_bandwidth)} a rank"),
        ("lanes of a rank", f"{built.lanes}"),
        ("passive meshes", f"{built.meshes}"),
        ("latency, fibres included", format_time(fabric.diameter_latency())),
    ]
    if built.area:
        facts.append(("area of meshes", f"{1e6 * built.area:.3g} mm2"))
    if fabric.power_per_rank is not None:
        facts.append(("power of a rank", format_quantity(fabric.power_per_rank, "power")))
    yield facts_table(facts, title=f"{cluster.name}: {cluster.ranks} ranks")
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
    for field in ("averaging_latency", "power_per_rank"):
        if field in fabric.sources:
            yield Text(f"{field.replace('_', ' ')}: {fabric.sources[field]}", style="dim")
