"""``lightloom circuits``: optical circuits for a traffic matrix, beside what no assignment can exceed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from lightloom.cli.circuits.solvers import counted, read_request, solve
from lightloom.cli.circuits.traffic_file import read_traffic
from lightloom.cli.options import Json, Settings, figure_option, option
from lightloom.cli.output import check_outputs, print_result, read_settings
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.provenance import provenance, provenance_line
from lightloom.core.results import Document
from lightloom.core.units import format_bandwidth, format_size, format_time, parse
from lightloom.fabrics.capabilities import NEEDS_CIRCUITS
from lightloom.fabrics.load import load_fabric
from lightloom.parallelism.circuits import Timing
from lightloom.reports.console import facts_table
from lightloom.reports.figures.base import save
from lightloom.reports.figures.traffic_figure import assignment_figure

if TYPE_CHECKING:
    from lightloom.cli.circuits.solvers import Solved
    from lightloom.fabrics.base import Fabric
    from lightloom.parallelism.circuits import Played, Timing, Traffic


def circuits(
    *,
    traffic: Annotated[Path, typer.Argument(help="Bytes between ranks: CSV of N rows and columns, or .npy.")],
    fabric: Annotated[str, option("A wdm-ring or circuit-switch of the catalog, or a YAML file.")],
    settings: Settings = None,
    solver: Annotated[str, option("fast, or milp (exact, small cases).")] = "fast",
    time_limit: Annotated[str | None, option("Wall time of the milp; 10s without it.")] = None,
    holds: Annotated[str, option("Holds of the cycle, or auto.", "N")] = "auto",
    objective: Annotated[str, option("max-min or throughput (circuit switches).")] = "max-min",
    hold: Annotated[str | None, option("How long circuits stand; 10 reconfigurations without it.")] = None,
    reconfiguration: Annotated[str | None, option("How long setting takes; the fabric's time without it.")] = None,
    figure: Annotated[Path | None, figure_option("Draw traffic beside circuits")] = None,
    as_json: Json = False,
) -> None:
    """Assign circuits to a traffic matrix, verify them, and play the traffic through them."""
    request = read_request(solver, time_limit, holds, objective)
    check_outputs([figure])
    demands = read_traffic(traffic)
    on = _load_fabric(fabric, demands, read_settings(settings))
    timing = _timing(on, hold, reconfiguration)
    solved, played = solve(demands, on, request, timing)
    flows = [demands.source.tolist(), demands.destination.tolist(), demands.nbytes.tolist()]
    origin = provenance([flows, on.model_dump(mode="json"), request._asdict(), timing.hold, timing.reconfiguration])
    if figure is not None:
        save(assignment_figure(solved.assignment, on.channel_bandwidth), figure, provenance_line(origin))
    document = _document(solved, played, on, timing) | {"provenance": origin}
    if figure is not None:
        document["figure"] = str(figure)
    print_result(document, as_json, _parts(document, solved, on), {"drawn": figure})


def _load_fabric(name: str, traffic: Traffic, settings: Document) -> Fabric:
    ranks = settings.get("ranks", traffic.ranks)
    if ranks != traffic.ranks:
        raise ConfigError(f"--set ranks={ranks}: the matrix is of {traffic.ranks} ranks: expected the same number")
    on = load_fabric(name, traffic.ranks, settings)
    if not on.assigns_circuits:
        raise UnsupportedError(f"--fabric {name}: no circuits on a {on.kind_name}: {NEEDS_CIRCUITS}")
    return on


def _timing(on: Fabric, hold: str | None, reconfiguration: str | None) -> Timing:
    dark = on.setup_time if reconfiguration is None else parse(reconfiguration, "time")
    standing = 10 * dark if hold is None else parse(hold, "time")
    if not standing:
        raise ConfigError("--hold is needed where setting circuits takes no time: expected e.g. --hold 250us")
    return Timing(standing, dark)


def _document(solved: Solved, played: Played, on: Fabric, timing: Timing) -> Document:
    assignment, traffic = solved.assignment, solved.assignment.traffic
    granted = assignment.circuits.counts(traffic).sum(axis=0)
    columns = ("hold", "source", "destination", "route", "channel")
    return {
        "schema": "lightloom.circuits/1",
        "ranks": traffic.ranks,
        "fabric": on.model_dump(mode="json"),
        "solver": solved.solver,
        "solver_status": solved.status,
        "solver_gap": solved.solver_gap,
        "objective": solved.objective,
        "holds": assignment.circuits.holds,
        "hold_s": timing.hold,
        "reconfiguration_s": timing.reconfiguration,
        "duty_cycle": 1.0 if assignment.circuits.holds == 1 else timing.duty_cycle,
        "nbytes": float(traffic.nbytes.sum()),
        "circuit_bandwidth": on.channel_bandwidth,
        "max_min": assignment.max_min,
        "bound": assignment.bound,
        "gap": assignment.gap,
        "without_wavelength": assignment.unassigned,
        "verified": True,
        "finish_s": played.makespan,
        "holds_begun": played.holds,
        "carried_bytes": float(played.carried.sum()),
        "relayed_pairs": len(played.relayed),
        "relayed_bytes": float(traffic.nbytes[played.relayed].sum()),
        "pairs": {
            "source": traffic.source.tolist(),
            "destination": traffic.destination.tolist(),
            "nbytes": traffic.nbytes.tolist(),
            "circuits": granted.tolist(),
            "hops": played.hops.tolist(),
            "finish_s": played.finish.tolist(),
        },
        "circuits": {name: getattr(assignment.circuits, name).tolist() for name in columns},
    }


def _parts(document: Document, solved: Solved, on: Fabric) -> Iterator[Table]:
    """The facts of the circuits."""
    assignment = solved.assignment
    pairs, holds = len(assignment.traffic), assignment.circuits.holds
    stopped = "" if solved.status == "optimal" else f", stopped {solved.solver_gap:.1%} from proof"
    per_hold = "set once" if holds == 1 else f"{holds} holds in turn, duty cycle {document['duty_cycle']:.1%}"
    relays = document["relayed_pairs"]
    facts = [
        ("traffic", f"{format_size(document['nbytes'])} of {pairs} pairs among {document['ranks']} ranks"),
        ("circuits", f"{len(assignment.circuits)} of {format_bandwidth(on.channel_bandwidth)}, verified; {per_hold}"),
        ("solver", f"{solved.solver}{stopped}; {solved.objective}"),
        ("largest demand", f"{assignment.max_min:.4g} circuits a hold, others in proportion"),
        ("bound", f"{assignment.bound:.4g}; the circuits stay {assignment.gap:.1%} below"),
        ("all sent after", f"{format_time(document['finish_s'])}, {counted(document['holds_begun'])} begun"),
        ("relayed", f"{relays} pairs, {format_size(document['relayed_bytes'])}" if relays else "nothing"),
    ]
    if assignment.unassigned:
        facts.append(("unassigned", f"{assignment.unassigned} circuits that loads admit found no wavelength"))
    yield facts_table(facts, title=f"circuits on a {on.kind_name}")
