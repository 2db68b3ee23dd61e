"""The folder of an exported step: traces, schedules, and the files of ASTRA-sim.

step.<rank>.et          the step of each rank
schedules/...           the schedule of each collective, a trace for each place in its group
schedules.yml           which node runs which schedule
groups.json             communicator groups
network.yml             the network of the analytical backends
system.json             one queue, one chunk, no delays at the ends
remote_memory.json      none
lightloom.json          what was exported, the plan's own times, and what these files say otherwise
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import check_writable
from lightloom.core.units import format_size
from lightloom.interchange.chakra import trace_path, write_traces
from lightloom.interchange.chakra_nodes import encode
from lightloom.interchange.formats import LARGEST, export_size
from lightloom.planner.export.chakra.nodes import collective_nodes, communicator_groups, node_count, rank_nodes
from lightloom.planner.export.chakra.operations import CollectiveUse
from lightloom.planner.export.chakra.replay import replayed_seconds
from lightloom.planner.export.chakra.step_traces import StepTraces

SCHEMA = "lightloom.step-traces/1"
_MARK = "lightloom.json"
_RING = ["ring"]


def check_folder(folder: Path) -> None:
    """Check before the work that a folder can be written: it is new, empty, or an earlier export, which is replaced.

    Raises:
        ConfigError: it holds something else, is a file, or cannot be written.
    """
    if folder.is_dir():
        if any(folder.iterdir()) and not _is_export(folder):
            raise ConfigError(f"{str(folder)!r}: holds other files: expected a new folder, or an earlier export")
    elif folder.exists():
        raise ConfigError(f"{str(folder)!r}: is a file: expected a folder")
    check_writable(folder.with_name(f"{folder.name}.json") if folder.exists() else folder)


def _is_export(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / _MARK).read_text())["schema"] == SCHEMA)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write_step(folder: Path, traces: StepTraces, about: Mapping[str, object]) -> dict[str, object]:
    """Write the folder aside and rename it; returns what ``lightloom.json`` says.

    Args:
        folder: new, empty, or an earlier export.
        traces: what is written.
        about: what ``lightloom.json`` says of the plan: its ``label``, ``step_time_s`` and more.

    Raises:
        UnsupportedError: too many nodes or groups, or too many bytes.
        ConfigError: the folder cannot be written.
    """
    check_folder(folder)
    _check_size(traces)
    document = _document(traces, about, node_count(traces))
    groups = communicator_groups(traces)
    try:
        aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    except OSError as error:
        raise ConfigError(f"cannot write {str(folder)!r}: {error.strerror}") from error
    try:
        aside.chmod(0o755)
        header = {"lightloom.step": json.dumps({name: document[name] for name in ("schema", "label", "step_time_s")})}
        for rank, nodes in enumerate(rank_nodes(traces, groups)):
            trace_path(aside / "step", rank).write_bytes(encode(nodes, header))
        _write_schedules(aside, traces)
        files = {
            "groups.json": json.dumps(groups.members, indent=1),
            "network.yml": traces.network.to_yaml(),
            "system.json": json.dumps(_system(traces, _scheduled(traces)), indent=1),
            "remote_memory.json": json.dumps({"memory-type": "NO_MEMORY_EXPANSION"}),
            _MARK: json.dumps(document, indent=1, allow_nan=False),
        }
        for name, content in files.items():
            (aside / name).write_text(content.rstrip("\n") + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        aside.rename(folder)
    except OSError as error:
        raise ConfigError(f"cannot write {str(folder)!r}: {error.strerror}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return document


def _scheduled(traces: StepTraces) -> dict[CollectiveUse, str]:
    """Return the name of the schedule of each collective that has one."""
    uses = [use for use, carrier in traces.carriers.items() if carrier.schedule is not None]
    return {use: f"schedules/{number}-{use.kind}-of-{use.ranks}" for number, use in enumerate(uses)}


def _check_size(traces: StepTraces) -> None:
    """Refuse schedules of the step that would take more than an export may."""
    sizes = [
        export_size(Path("schedule.et"), carrier.schedule) for carrier in traces.carriers.values() if carrier.schedule
    ]
    if (nbytes := sum(size.nbytes for size in sizes)) > LARGEST:
        rows = sum(size.rows for size in sizes)
        raise UnsupportedError(
            f"the schedules of the step have {rows:,} rows, about {format_size(nbytes)}: expected at most "
            f"{format_size(LARGEST)}; lightloom schedule export writes one alone, --largest more of it"
        )


def _write_schedules(aside: Path, traces: StepTraces) -> None:
    names = _scheduled(traces)
    (aside / "schedules").mkdir()
    for use, name in names.items():
        carrier = traces.carriers[use]
        assert carrier.schedule is not None and carrier.fabric is not None
        write_traces(aside / name, carrier.schedule, carrier.fabric)
    lines = [f"{node}: {names[use]}" for node, use in collective_nodes(traces).items() if use in names]
    (aside / "schedules.yml").write_text("\n".join(lines or ["{}"]) + "\n")


def _system(traces: StepTraces, names: dict[CollectiveUse, str]) -> dict[str, object]:
    """Return the system: the plan's schedules, and rings where there is none."""
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    native = {f"{kind}-implementation": _RING * len(traces.network.dimensions) for kind in kinds}
    return {
        "scheduling-policy": "FIFO",
        "endpoint-delay": 1,  # at 0, collectives of ASTRA-sim's own lose their first event and never end
        "local-reduction-delay": 0,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "collective-optimization": "localBWAware",
        **native,
        **({"per-node-custom-implementation": "schedules.yml"} if names else {}),
        "roofline-enabled": 0,
        "boost-mode": 0,
    }


def command(traces: StepTraces) -> str:
    """Return the command that runs the step, from inside the folder."""
    return (
        f"AstraSim_Analytical_{traces.network.backend} --workload-configuration=step "
        "--comm-group-configuration=groups.json --system-configuration=system.json "
        "--network-configuration=network.yml --remote-memory-configuration=remote_memory.json"
    )


def _document(traces: StepTraces, about: Mapping[str, object], nodes: int) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **about,
        "one_communication_at_a_time_s": replayed_seconds(traces),
        "ranks": traces.ranks,
        "nodes": nodes,
        "collectives": [
            {**use._asdict(), "algorithm": carrier.algorithm, "seconds": carrier.seconds}
            for use, carrier in traces.carriers.items()
        ],
        "notes": list(traces.notes),
        "command": command(traces),
    }
