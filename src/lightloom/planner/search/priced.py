"""By what the clusters of a search are priced: calibrations or priors, libraries or ideal software."""

from __future__ import annotations

from lightloom.clusters.base import Cluster
from lightloom.planner.pricing.library import LIBRARY
from lightloom.planner.search.plans import PlanSearch


def priced_lines(search: PlanSearch) -> list[str]:
    """Return a line for each cluster on its computing and its collectives, and what that says of comparing clusters."""
    lines = list(dict.fromkeys(f"{cluster.name}: {_priced(cluster, search)}" for cluster in search.clusters))
    if len({cluster.fabric.library is None for cluster in search.clusters}) > 1:
        lines.append("where one cluster pays for a library and the other does not, the other's lead is an upper bound")
    return lines


def _priced(cluster: Cluster, search: PlanSearch) -> str:
    machine, calibration, algorithms = cluster.accelerator, cluster.accelerator.calibration, search.request.algorithms
    if calibration is not None:
        basis = f"calibrated on {calibration.rows.count:,} {calibration.rows.kind} of {calibration.rows.table}"
    else:
        basis = "by priors" if machine.kernels is not None else f"at {machine.efficiency:.0%} of its roofline"
    software = cluster.fabric.software
    if cluster.fabric.library is not None and algorithms and LIBRARY.name not in algorithms:
        software = f"schedules with ideal software, as --algorithm names them in the place of {software}"
    filling = "" if cluster.fabric.filling is None else f"; {cluster.fabric.filling}"
    return f"{machine.chip} {basis}; collectives by {software}{filling}"
