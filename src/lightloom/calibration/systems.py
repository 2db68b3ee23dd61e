"""Tables of timed collectives, of one system or several, with the cluster and the transport of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from lightloom.accelerators.base import Accelerator
from lightloom.accelerators.load import load_accelerator
from lightloom.accelerators.load import names as accelerators
from lightloom.calibration.collective_rows import MeasuredCollective, read_collectives
from lightloom.calibration.measured import measured_file, read_measured, read_table
from lightloom.calibration.priors import node_link, transport_of
from lightloom.calibration.transport_fit import System
from lightloom.clusters.load import load_cluster
from lightloom.clusters.transport_tiers import transport_tiers
from lightloom.core.errors import ConfigError
from lightloom.transports.base import Transport
from lightloom.transports.load import load_transport, names
from lightloom.transports.ways import Tiers


class SystemCollective(MeasuredCollective):
    """A timed collective of a system that the row names."""

    cluster: str
    """A name of the catalog, or a YAML file: it states the bandwidths of the tiers."""
    transport: str
    """A transport of the catalog, or a YAML file."""


def is_collectives(name: Path | str) -> bool:
    """Whether a file is a table of timed collectives by its heading."""
    heading = read_measured(measured_file(name))[0].split("\n", 1)[0]
    return "collective" in heading.strip().split(",")


def read_systems(
    tables: Sequence[Path | str],
    *,
    cluster: str | None = None,
    transport: str | None = None,
    accelerator: str | None = None,
    gpus: int | None = None,
) -> tuple[list[System], list[str]]:
    """Read tables of timed collectives, and group their rows by system.

    Args:
        tables: files, or names in the folder ``LIGHTLOOM_MEASURED``; columns ``cluster`` and ``transport`` name the
            system of each row.
        cluster: of tables without these columns.
        transport: of tables without these columns; without it the one that the accelerators name.
        accelerator: what was measured on in place of a cluster, where all rows are of one node.
        gpus: number of GPUs, where a file does not say it.

    Returns:
        The systems, and the SHA-256 of each file.

    Raises:
        ConfigError: a file cannot be read, or nothing names the system of a table.
        UnsupportedError: a cluster's fabric has no tiers of switches.
    """
    systems, digests = [], []
    for name in tables:
        path = measured_file(name)
        text, digest = read_measured(path)
        digests.append(digest)
        if "cluster" in text.split("\n", 1)[0].strip().split(","):
            systems += list(_stated(read_table(text, SystemCollective, path), path))
            continue
        rows = read_collectives(path, gpus=gpus).rows
        if cluster is not None:
            systems.append(_system(path.stem, rows, cluster, transport))
        elif accelerator is not None:
            systems.append(_node(path, rows, load_accelerator(accelerator), transport))
        else:
            raise ConfigError(
                f"{path}: nothing says what was measured: expected --cluster (calibrate takes --accelerator for a node)"
            )
    return systems, digests


def _stated(rows: Sequence[SystemCollective], path: Path) -> Iterator[System]:
    for cluster, transport in dict.fromkeys((row.cluster, row.transport) for row in rows):
        own = [row for row in rows if (row.cluster, row.transport) == (cluster, transport)]
        yield _system(f"{path.stem}, {cluster}", own, cluster, transport)


def _system(name: str, rows: Sequence[MeasuredCollective], cluster: str, transport: str | None) -> System:
    machine = load_cluster(cluster)
    calibration = machine.accelerator.calibration
    if calibration is not None and calibration.accelerator in accelerators():
        # What was fitted to steps is no prior of collectives.
        machine = load_cluster(cluster, {"accelerator": calibration.accelerator})
    library = machine.fabric.library
    carried = library.transport if transport is None and library else _transport(machine.accelerator, transport)
    return System(name, rows, transport_tiers(machine.fabric, machine.accelerator), carried)


def _node(path: Path, rows: Sequence[MeasuredCollective], machine: Accelerator, transport: str | None) -> System:
    """The system of one node, whose links are those of its accelerators."""
    if across := [row for row in rows if row.nodes > 1]:
        raise ConfigError(
            f"{path}: {len(across)} rows of several nodes, whose network an accelerator does not state: expected "
            "--cluster instead of --accelerator"
        )
    carried = _transport(machine, transport)
    generation = carried.generation
    link_share, adds = (1.0, False) if generation is None else (generation.link_share, generation.reduction_share > 0)
    most = max(row.gpus for row in rows)
    tiers = Tiers(most, node_link(machine) * link_share, math.inf, adds, machine.memory_bandwidth)
    return System(path.stem, rows, tiers, carried)


def _transport(machine: Accelerator, name: str | None) -> Transport:
    if name is None and machine.transport is None:
        known = ", ".join(names())
        raise ConfigError(f"{machine.name} names no transport: expected --transport, one of {known} or a YAML file")
    transport = transport_of(machine) if name is None else load_transport(name)
    if transport.ideal:
        raise ConfigError(f"transport {name!r} costs nothing and predicts no collectives: expected another one")
    return transport
