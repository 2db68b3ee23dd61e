"""Files that ``lightloom plan`` writes for other tools: settings of frameworks, and the step for a simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightloom.cli.output import check_outputs
from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.core.files import write_atomically
from lightloom.planner.export import megatron, torchtitan
from lightloom.planner.export.chakra.folder import check_folder, command, write_step
from lightloom.planner.export.chakra.step_traces import StepTraces, step_traces
from lightloom.planner.export.job import exported, expressible

if TYPE_CHECKING:
    from pathlib import Path

    from lightloom.cli.plan.options import PlanOptions
    from lightloom.planner.search.plans import Plan, PlanSearch


def exported_files(options: PlanOptions) -> dict[str, Path | None]:
    """Return all files and folders of exports."""
    return {
        "graph": options.export_graph,
        "torchtitan": options.export_torchtitan,
        "megatron": options.export_megatron,
        "chakra": options.export_chakra,
    }


def check_exports(options: PlanOptions) -> None:
    """Check before the search that what is to be exported can be written.

    Raises:
        ConfigError: a place cannot be written to, or only placed plans are searched.
    """
    paths = [path for name, path in exported_files(options).items() if path is not None and name != "graph"]
    if paths and set(options.strategy or ()) == {"placed"}:
        raise ConfigError(
            "--strategy placed with an export: no framework or trace has placed plans: expected another --strategy too"
        )
    files = [options.export_graph, options.export_torchtitan, options.export_megatron]
    check_outputs([], [path for path in files if path is not None])
    if options.export_graph is not None and options.export_graph.suffix != ".json":
        raise ConfigError(f"--export-graph {options.export_graph}: expected a path that ends in .json")
    if options.export_chakra is not None:
        check_folder(options.export_chakra)


def write_exports(options: PlanOptions, search: PlanSearch, document: dict[str, object]) -> list[str]:
    """Write what is asked for; returns messages about it."""
    if options.export_graph is not None:
        search.graph.save(options.export_graph)
        document["exported_graph"] = str(options.export_graph)
    return [*_export_settings(options, search, document), *_export_step(options, search, document)]


def _export_settings(options: PlanOptions, search: PlanSearch, document: dict[str, object]) -> list[str]:
    """Write the settings of frameworks."""
    targets = [("torchtitan", options.export_torchtitan, torchtitan.to_toml, torchtitan.notes)]
    targets += [("megatron", options.export_megatron, megatron.to_script, megatron.notes)]
    if all(path is None for _, path, _, _ in targets):
        return []
    winner, chosen = search.winner, expressible(search)
    job, messages = exported(chosen, search.graph), []
    entry: dict[str, Any] = {"rank": search.ranking.index(chosen) + 1, "label": chosen.label, "notes": {}}
    if chosen is not winner:
        entry["why"] = "the winner is a placed plan, which no framework has settings for"
        slower = chosen.sample_time / winner.sample_time
        messages.append(
            f"exported: {chosen.label}, rank {entry['rank']}: {entry['why']}; a sample takes {slower:.3g} times as long"
        )
    for name, path, form, notes in targets:
        if path is not None:
            write_atomically(path, form(job))
            entry[name], entry["notes"][name] = str(path), notes(job)
    document["exported"] = entry
    return messages


def _export_step(options: PlanOptions, search: PlanSearch, document: dict[str, object]) -> list[str]:
    """Write the step of the winner as traces, or that of the first plan that traces can hold."""
    if options.export_chakra is None:
        return []
    chosen, traces, why = _first_traced(search)
    about = {"model": search.graph.name, "cluster": chosen.site, "label": chosen.label, "step_time_s": chosen.step_time}
    entry = write_step(options.export_chakra, traces, about)
    rank = search.ranking.index(chosen) + 1
    messages = []
    if why is not None:
        slower = chosen.sample_time / search.winner.sample_time
        messages.append(
            f"exported to {options.export_chakra}: {chosen.label}, rank {rank}; of the winner, {why}; a sample takes "
            f"{slower:.3g} times as long"
        )
    document["exported_step"] = {"folder": str(options.export_chakra), "rank": rank, "why": why, **entry}
    return [*messages, *(f"traces: {note}" for note in traces.notes), f"in the folder: {command(traces)}"]


def _first_traced(search: PlanSearch) -> tuple[Plan, StepTraces, str | None]:
    """Return the first plan of the ranking that traces can hold, taken apart, and why the winner is not it.

    Raises:
        UnsupportedError: no plan; why the first one is not.
    """
    why: str | None = None
    for plan in search.ranking:
        try:
            return plan, step_traces(plan.job, plan.choice, plan.step), why
        except UnsupportedError as error:
            why = why or str(error)
    raise UnsupportedError(f"--export-chakra: none of the plans can be written as traces; of the first, {why}")
