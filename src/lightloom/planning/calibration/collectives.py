"""Measured collectives: tables of ours, and what nccl-tests prints, as text or as CSV.

nodes,gpus,collective,nbytes,time_us                           several collectives and numbers of GPUs
size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)   one of each; out of place, then in place
# size count type redop root time algbw busbw #wrong ...       what all_reduce_perf prints on a terminal
"""

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from lightloom.collectives.collective import Kind
from lightloom.core.arrays import Floats, Mask
from lightloom.core.documents import read_number
from lightloom.core.errors import ConfigError
from lightloom.core.fields import Config
from lightloom.core.results import in_groups
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.accelerators.load import names as accelerators
from lightloom.machines.clusters.cluster import transport_tiers
from lightloom.machines.clusters.load import load_cluster
from lightloom.machines.transports.price import Constants, WayColumns, columns, scales_array, seconds
from lightloom.machines.transports.transport import PARAMETERS, Scales, Transport, load_transport, names
from lightloom.machines.transports.ways import LibraryTask, Tiers, task_of
from lightloom.planning.calibration.accuracy import rounded
from lightloom.planning.calibration.rows import measured_file, node_link, read_measured, read_table, transport_of

_PROGRAMS: dict[str, Kind] = {
    "all_reduce_perf": "all-reduce",
    "all_gather_perf": "all-gather",
    "reduce_scatter_perf": "reduce-scatter",
    "alltoall_perf": "all-to-all",
    "broadcast_perf": "broadcast",
    "reduce_perf": "reduce",
}
_UNNAMED: Kind = "all-reduce"
_RANK = re.compile(r"#\s+Rank\s+\d+.*\bon\s+(\S+)\s+device")
_SIZES_OF_CSV = "size(B),count,type,time(ns)"


class MeasuredCollective(Config):
    """A collective of one size among some GPUs, with the time that it took."""

    nodes: Annotated[int, Field(ge=1)]
    gpus: Annotated[int, Field(ge=2)]
    """Number of GPUs of all nodes together."""
    collective: Kind
    nbytes: Annotated[float, Field(gt=0)]
    """Bytes as nccl-tests counts them: an all-gather's output, an all-to-all's buffer of one rank."""
    time_us: Annotated[float, Field(gt=0)]
    """Duration of the collective, in microseconds."""

    @model_validator(mode="after")
    def _nodes_have_gpus(self) -> Self:
        """Return the row itself; ValueError for fewer GPUs than nodes."""
        if self.gpus < self.nodes:
            raise ValueError(f"column 'nodes': {self.nodes}: expected at most gpus, {self.gpus}")
        return self


def read_collectives(name: Path | str, *, gpus: int | None = None) -> list[MeasuredCollective]:
    """Return the rows of a file of timed collectives: a CSV table with columns ``nodes``, ``gpus``, ``collective``,
    ``nbytes`` and ``time_us``, or what nccl-tests writes as CSV or prints on a terminal. Which of the three is told
    from the first line. Of nccl-tests' times out of place and in place, the mean is taken; its rows of no bytes on a
    terminal are left out. Where a file does not say which collective it timed, that is an all-reduce.

    Args:
        name: the file, or its name in the folder ``LIGHTLOOM_MEASURED``.
        gpus: number of GPUs of all nodes, where the file does not say it; must be None for a table with a column
            ``gpus``.

    Raises:
        ConfigError: the file or a row cannot be read, it has no rows, or ``gpus`` is missing, contradicts the file or
            is below 2; the message names file, row and column.
    """
    path = measured_file(name)
    text, _ = read_measured(path)
    if gpus is not None and gpus < 2:
        raise ConfigError(f"--gpus {gpus}: expected at least 2 for a collective")
    if text.startswith(_SIZES_OF_CSV):
        rows = list(_rows_of_csv(text, path, gpus))
    elif text.startswith("nodes,") or "," in text.split("\n", 1)[0]:
        if gpus is not None:
            raise ConfigError(f"--gpus {gpus}: {path} states the GPUs of each row in column 'gpus': expected no --gpus")
        rows = read_table(text, MeasuredCollective, path)
    else:
        rows = list(_rows_of_terminal(text, path, gpus))
    if not rows:
        raise ConfigError(f"{path}: no rows of timed collectives")
    return rows


def _rows_of_csv(text: str, path: Path, gpus: int | None) -> Iterator[MeasuredCollective]:
    """Yield the rows below the heading of nccl-tests' CSV, all as all-reduces of ``gpus`` GPUs on one node, with the
    bytes of the first column and as microseconds the mean of the nanoseconds out of place (fourth column) and, where
    the heading has more than five columns, in place (sixth); ``path`` is for messages.

    Raises:
        ConfigError: ``gpus`` is None, or a cell is missing or no number above 0.
    """
    if gpus is None:
        raise ConfigError(f"{path}: the file does not say the number of GPUs: give it with --gpus")
    lines = [cells for cells in csv.reader(StringIO(text)) if cells]
    for number, cells in enumerate(lines[1:], 1):
        place = f"{path}, row {number}"
        numbers = []
        for column in (0, 3, 5)[: 2 + (len(lines[0]) > 5)]:
            where = f"{place}: column {lines[0][column]!r}"
            if column >= len(cells):
                raise ConfigError(f"{where}: no cell, the row is too short")
            numbers.append(_positive_number(cells[column], where))
        nbytes, *times = numbers
        time_us = sum(times) / len(times) / 1e3
        yield MeasuredCollective(nodes=1, gpus=gpus, collective=_UNNAMED, nbytes=nbytes, time_us=time_us)


def _positive_number(cell: str, place: str) -> float:
    """Return the number in a cell of a table.

    Raises:
        ConfigError: it is no finite number above 0; the message begins with ``place``, which names file, row and
            column.
    """
    try:
        value = read_number(cell)
    except ValueError as error:
        raise ConfigError(f"{place}: {cell!r}: expected a number") from error
    if not (value > 0 and math.isfinite(value)):
        raise ConfigError(f"{place}: {cell!r}: expected a finite number above 0")
    return value


def _rows_of_terminal(text: str, path: Path, gpus: int | None) -> Iterator[MeasuredCollective]:
    """Yield the rows, but those of no bytes, that a program of nccl-tests printed on a terminal, with the mean of the
    microseconds out of place and, where a line has them, in place. The GPUs are the ``# Rank`` lines of the heading and
    the nodes their different hosts, else ``gpus`` on one node; the collective is that of the program named in the text,
    else an all-reduce; ``path`` is for messages.

    Raises:
        ConfigError: the number of GPUs is not known, below 2 or contradicts ``gpus``, a line has other columns, or a
            time is no number above 0.
    """
    hosts = [match.group(1) for line in text.splitlines() if (match := _RANK.match(line))]
    ranks = len(hosts) or gpus
    if ranks is None:
        raise ConfigError(f"{path}: no '#  Rank' lines that say the number of GPUs: give it with --gpus")
    if ranks < 2 or gpus not in (None, ranks):
        expected = "at least 2" if gpus is None else f"the {gpus} of --gpus"
        raise ConfigError(f"{path}: {ranks} lines '# Rank', one for each GPU: expected {expected}")
    kind = next((kind for program, kind in _PROGRAMS.items() if re.search(rf"(?<![a-z_]){program}", text)), _UNNAMED)
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split()
        if not cells or not cells[0].isdigit():
            continue
        place = f"{path}, line {number}"
        # size count type [redop root] time algbw busbw #wrong time algbw busbw #wrong
        if len(cells) < 8 or (len(cells) - 3) % 4 not in (0, 1, 2):
            raise ConfigError(
                f"{place}: {len(cells)} columns: expected size, count, type, ..., time, algbw, busbw, #wrong"
            )
        count = 2 if len(cells) >= 11 else 1
        starts = [len(cells) - 4 * half for half in range(count, 0, -1)]
        times = [_positive_number(cells[start], f"{place}: column 'time'") for start in starts]
        if float(cells[0]) > 0:
            nodes, time_us = len(set(hosts)) or 1, sum(times) / len(times)
            yield MeasuredCollective(nodes=nodes, gpus=ranks, collective=kind, nbytes=float(cells[0]), time_us=time_us)


# A transport fitted to timed collectives of one system: four numbers.
#
# Every octave of sizes of each number of ranks and kind counts once, however densely a table samples it. Large
# collectives repeat within a few per cent, small ones do not: a row's error is taken to be 20 % at the smallest sizes
# and 3 % at the largest, half way at 4 MiB.

_SMALL_ERROR, _LARGE_ERROR, _HALF_WAY = 0.2, 0.03, 4 * 2.0**20
_SCALE_SPREADS = np.array([PARAMETERS[name].spread for name in Scales.model_fields])
"""Standard deviations of the logarithms of a system's four numbers around those of the transport."""


@dataclass(frozen=True)
class System:
    """Timed collectives of one system."""

    name: str
    rows: Sequence[MeasuredCollective]
    tiers: Tiers
    transport: Transport
    """Transport of the system's architecture, uncalibrated."""
    machine: str = ""
    """Machine that several systems share; empty for a machine of its own."""

    @cached_property
    def tasks(self) -> list[LibraryTask]:
        """Rows as collectives of a library over the system's tiers (kind, bytes, GPUs, and how they divide into
        domains), one for each row, in their order."""
        return [task_of(row.collective, row.gpus, row.nodes, row.nbytes, self.tiers) for row in self.rows]

    @cached_property
    def ways(self) -> WayColumns:
        """All ways (protocol and algorithm) in which the library may carry each row of the system, in columns, one a
        row of the system, of terms that a transport prices: [ways, rows]. The terms of ways that a row lacks are
        infinite."""
        return columns(self.tasks, self.tiers, self.transport)

    @cached_property
    def measured(self) -> Floats:
        """Measured seconds of each collective: [rows]."""
        return np.array([row.time_us for row in self.rows]) * 1e-6

    @cached_property
    def nbytes(self) -> Floats:
        """Bytes of each collective, as nccl-tests counts them: [rows]."""
        return np.array([row.nbytes for row in self.rows])

    @cached_property
    def across(self) -> Mask:
        """Mask of the rows whose ranks lie in more than one domain of the inner tier (nodes, or larger groups of GPUs
        with fast links): [rows]."""
        return np.array([task.domains > 1 for task in self.tasks])


def fit_scales(system: System, transport: Transport) -> Transport:
    """Return a copy of a transport with the four numbers of its ``scales`` (factors of the latencies of collectives
    inside a domain and across domains, and of the bandwidth inside and between domains) fitted to all of the system's
    rows, to six significant digits; all else stays.

    The fit minimises errors of logarithms of seconds, in which errors far off count less (soft L1), begins at the
    values that ``transport`` has and is drawn towards them; rows weigh as :func:`row_weights` says.

    Raises:
        ConfigError: the system has no rows.
    """
    if not system.rows:
        raise ConfigError(f"{system.name}: no rows to fit a transport to")
    from scipy.optimize import least_squares

    center, weights = np.log(scales_array(transport.scales)), row_weights(system)
    constants = Constants.of(transport)

    def residuals(logarithms: Floats) -> Floats:
        """Return the weighted errors of the rows' logarithms, then the numbers' distances from their start, in
        spreads."""
        model = Constants(constants.factors, constants.shared, np.exp(logarithms))
        errors = np.log(seconds(system.ways, model) / system.measured) * weights
        return np.concatenate([errors, (logarithms - center) / _SCALE_SPREADS])

    solved = least_squares(residuals, center, x_scale=_SCALE_SPREADS, loss="soft_l1")
    numbers = dict(zip(Scales.model_fields, map(rounded, np.exp(solved.x)), strict=True))
    return transport.model_copy(update={"scales": Scales(**numbers)})


def predicted_collectives(system: System, transport: Transport) -> Floats:
    """Return the predicted seconds of every row of a system, each by its fastest way (protocol and algorithm): [rows].
    The ways are those of the system's own transport, priced with the corrections, shared figures and scales of
    ``transport``."""
    return seconds(system.ways, Constants.of(transport))


def row_weights(system: System) -> Floats:
    """Return the factor of each row's error (of a logarithm, before it is squared) in a fit: [rows].

    It is 1 / (σ · √n · g^¼), where σ is the standard deviation of a logarithm of time, which falls as data grow (0.2 at
    the smallest sizes, 0.03 at the largest: 0.03 + 0.17 / (1 + bytes / 4 MiB)), n the number of rows of the row's group
    whose bytes lie in the same octave, and g the number of groups. A group is the rows with the same GPUs, nodes and
    kind of collective.
    """
    groups = [(row.gpus, row.nodes, row.collective) for row in system.rows]
    keys = list(zip(groups, np.floor(np.log2(system.nbytes)).astype(int).tolist(), strict=True))
    counts = {key: keys.count(key) for key in set(keys)}
    error = _LARGE_ERROR + (_SMALL_ERROR - _LARGE_ERROR) / (1 + system.nbytes / _HALF_WAY)
    weights: Floats = np.array([counts[key] for key in keys]) ** -0.5 * len(set(groups)) ** -0.25 / error
    return weights


# Tables of timed collectives, of one system or several, with the cluster and the transport of each.


class SystemCollective(MeasuredCollective):
    """A timed collective of a system that the row names."""

    cluster: str
    """A name of the catalog, or a YAML file: it states the bandwidths of the tiers."""
    transport: str
    """A transport of the catalog, or a YAML file."""


def is_collectives(name: Path | str) -> bool:
    """Return True for a file (or a name in the folder ``LIGHTLOOM_MEASURED``) of timed collectives: its first line,
    after blank ones, is not empty and has neither of the columns ``row`` and ``step_s`` of measured steps.

    Raises:
        ConfigError: there is no such file, it cannot be read, or it differs from its checksum in ``SHA256SUMS``.
    """
    heading = read_measured(measured_file(name))[0].strip().split("\n", 1)[0]
    return heading != "" and {"row", "step_s"}.isdisjoint(heading.split(","))


def read_systems(
    tables: Sequence[Path | str],
    *,
    cluster: str | None = None,
    transport: str | None = None,
    accelerator: str | None = None,
    gpus: int | None = None,
) -> tuple[list[System], list[str]]:
    """Return the systems (what was measured on: rows, tiers of bandwidth, transport) of tables of timed collectives,
    their rows grouped by system, and the checksums of the files.

    Args:
        tables: files, or names in the folder ``LIGHTLOOM_MEASURED``; columns ``cluster`` and ``transport`` name the
            system of each row, which goes before the arguments below.
        cluster: cluster that tables without these columns were measured on: a name of the catalog, or a YAML file.
        transport: transport of tables without these columns; None for the one that the cluster's fabric or the
            accelerator names.
        accelerator: what was measured on where ``cluster`` is None and all rows are of one node.
        gpus: number of GPUs, where a file without these columns does not say it.

    Returns:
        The systems, in the order of files and rows, named after their file without its ending and, where rows name
        their system, "FILE, CLUSTER"; and the SHA-256 of each file, as hexadecimal digits.

    Raises:
        ConfigError: a file cannot be read, nothing names the system of a table or its transport, the transport costs
            nothing, or rows are of several nodes without a cluster.
        UnsupportedError: a cluster's fabric has no tiers of switches, or the accelerator states no bandwidth into its
            node.
    """
    systems, digests = [], []
    for name in tables:
        path = measured_file(name)
        text, digest = read_measured(path)
        digests.append(digest)
        if "cluster" in text.split("\n", 1)[0].strip().split(","):
            named = read_table(text, SystemCollective, path)
            for system, own in in_groups(named, attrgetter("cluster", "transport")).items():
                systems.append(_system_of_cluster(f"{path.stem}, {system[0]}", own, *system))
            continue
        rows = read_collectives(path, gpus=gpus)
        if cluster is not None:
            systems.append(_system_of_cluster(path.stem, rows, cluster, transport))
        elif accelerator is not None:
            systems.append(_system_of_node(path, rows, load_accelerator(accelerator), transport))
        else:
            raise ConfigError(
                f"{path}: nothing says what was measured: expected --cluster (calibrate takes --accelerator for a node)"
            )
    return systems, digests


def _system_of_cluster(name: str, rows: Sequence[MeasuredCollective], cluster: str, transport: str | None) -> System:
    """Return the system, called ``name``, of timed collectives on a cluster of the catalog or a YAML file: ``rows`` as
    they are, the two tiers of the cluster's fabric and accelerator (bandwidths inside a domain and between domains),
    and a transport. Its transport is the one named ``transport``, else that of the cluster's library, else that of its
    accelerator.

    Where the cluster's accelerator is a calibration of one of the catalog, that uncalibrated accelerator takes its
    place, since what was fitted to steps is no prior of collectives.

    Raises:
        ConfigError: there is no transport, or the one that is named or the accelerator's costs nothing.
        UnsupportedError: the cluster's fabric has no tiers of switches.
    """
    machine = load_cluster(cluster)
    calibration = machine.accelerator.calibration
    if calibration is not None and calibration.accelerator in accelerators():
        # What was fitted to steps is no prior of collectives.
        machine = load_cluster(cluster, set={"accelerator": calibration.accelerator})
    library = machine.fabric.library
    carried = library.transport if transport is None and library else _transport(machine.accelerator, transport)
    return System(name, rows, transport_tiers(machine.fabric, machine.accelerator), carried)


def _system_of_node(
    path: Path, rows: Sequence[MeasuredCollective], machine: Accelerator, transport: str | None
) -> System:
    """Return the system of timed collectives on one node, which has as many GPUs as the largest row and whose links
    have the accelerator's bandwidth into its node, times the share of it that the transport's generation states (1
    without one); the file's name without its ending names it. ``transport`` is the transport's name; None for the
    accelerator's.

    Raises:
        ConfigError: a row is of several nodes, there is no transport, or it costs nothing.
        UnsupportedError: the accelerator states no bandwidth into its node.
    """
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
    """Return the transport of a name of the catalog or a YAML file; without a name, that of the accelerator.

    Raises:
        ConfigError: there is none, or it costs nothing.
    """
    if name is None and machine.transport is None:
        known = ", ".join(names())
        raise ConfigError(f"{machine.name} names no transport: expected --transport, one of {known} or a YAML file")
    transport = transport_of(machine) if name is None else load_transport(name)
    if transport.ideal:
        raise ConfigError(f"transport {name!r} costs nothing and predicts no collectives: expected another one")
    return transport
