"""Tables of timed collectives, of one system or several, with the cluster and the transport of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lightloom.calibration.collective_rows import MeasuredCollective, read_collectives
from lightloom.calibration.measured import measured_file, read_measured, read_table
from lightloom.calibration.transport_fit import System
from lightloom.clusters.load import load_cluster
from lightloom.clusters.transport_tiers import transport_tiers
from lightloom.core.errors import ConfigError
from lightloom.transports.load import load_transport, names


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
    tables: Sequence[Path | str], *, cluster: str | None, transport: str | None, gpus: int | None = None
) -> tuple[list[System], list[str]]:
    """Read tables of timed collectives, and group their rows by system.

    Args:
        tables: files, or names in the folder ``LIGHTLOOM_MEASURED``; columns ``cluster`` and ``transport`` name the
            system of each row.
        cluster: of tables without these columns.
        transport: of tables without these columns.
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
        if cluster is None or transport is None:
            option = "--cluster" if cluster is None else "--transport"
            known = "" if cluster is None else f", one of {', '.join(names())} or a YAML file"
            raise ConfigError(f"{path}: nothing says what was measured: expected {option}{known}")
        systems.append(_system(path.stem, read_collectives(path, gpus=gpus).rows, cluster, transport))
    return systems, digests


def _stated(rows: Sequence[SystemCollective], path: Path) -> Iterator[System]:
    for cluster, transport in dict.fromkeys((row.cluster, row.transport) for row in rows):
        own = [row for row in rows if (row.cluster, row.transport) == (cluster, transport)]
        yield _system(f"{path.stem}, {cluster}", own, cluster, transport)


def _system(name: str, rows: Sequence[MeasuredCollective], cluster: str, transport: str) -> System:
    machine = load_cluster(cluster)
    carried = load_transport(transport)
    if carried.ideal:
        raise ConfigError(f"transport {transport!r} costs nothing and predicts no collectives: expected another one")
    return System(name, rows, transport_tiers(machine.fabric, machine.accelerator), carried)
