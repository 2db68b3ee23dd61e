"""What a plan assumes: values of its clusters that no publication gives, and calibrations in place of priors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lightloom.accelerators.astra_sim import ORIGIN as SYSTEM
from lightloom.clusters.astra_sim import ORIGIN
from lightloom.clusters.base import Cluster
from lightloom.core.described import formatted_fields
from lightloom.core.units import format_time
from lightloom.parallelism.strategy_space import Strategy
from lightloom.planner.search.plans import Plan
from lightloom.transports.base import Transport

_ASSUMED = "assumption"


class Assumption(NamedTuple):
    """A value without a publication behind it."""

    group: str
    """Part of the cluster: ``accelerator``, ``accelerator.kernels``, ``fabric``, ``reference`` or ``cluster``."""
    field: str
    value: str
    """The value with its unit; empty where it is a part with values of its own."""
    source: str
    """What is said of it instead of a source."""


def assumed_values(cluster: Cluster) -> Iterator[Assumption]:
    """Yield the values of a cluster that are assumptions, as far as they decide a result."""
    machine, fabric = cluster.accelerator, cluster.fabric
    unused = machine.unused_fields()
    parts: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
        "accelerator": (
            formatted_fields(machine),
            {name: text for name, text in machine.sources.items() if name not in unused},
        ),
        "accelerator.kernels": ({}, {}),
        "fabric": (formatted_fields(fabric) | {"transport": fabric.software}, fabric.sources),
        "reference": ({}, {}),
        "cluster": (_named_parts(cluster) | formatted_fields(cluster.training), cluster.sources),
    }
    if machine.kernels is not None:
        priors = machine.kernels.priors()
        parts["accelerator.kernels"] = (
            formatted_fields(machine.kernels),
            {name: prior.source for name, prior in priors.items()},
        )
    if cluster.reference is not None:
        parts["reference"] = formatted_fields(cluster.reference), cluster.reference.sources
    for group, (values, sources) in parts.items():
        for field, source in sources.items():
            if _ASSUMED in source:
                yield Assumption(group, field, values.get(field.rpartition(".")[2], ""), source)
    if fabric.filling is not None:
        yield Assumption(
            "fabric", "filling", fabric.filling, "assumption: all domains alike, the fewest that divide the ranks"
        )
    if fabric.latency_unstated:
        yield Assumption("fabric", "hop_latency", format_time(fabric.hop_latency), "not sourced")


def _named_parts(cluster: Cluster) -> dict[str, str]:
    names = {"ranks": str(cluster.ranks), "accelerator": cluster.accelerator.name, "fabric": cluster.fabric.kind_name}
    return names if cluster.reference is None else names | {"reference": cluster.reference.kind_name}


def assumptions(cluster: Cluster) -> tuple[str, ...]:
    """Return a line for each assumption about a cluster, with what is said of its origin."""
    return tuple(
        f"{entry.group}.{entry.field}: "
        + (f"{entry.value}, {entry.source}" if entry.source == "not sourced" else entry.source)
        for entry in assumed_values(cluster)
    )


def assumed_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line for each part of the clusters that is calibrated, or that holds assumptions, and names them."""
    lines: list[str] = []
    for cluster in clusters:
        machine = cluster.accelerator
        if machine.calibration is not None:
            lines.append(f"calibrated: {machine.name}: {machine.calibration}")
            if absent := machine.calibration.at_priors(_fitted_links(cluster)):
                lines.append(f"not in that calibration, as it is older: {', '.join(absent)}; priors take their places")
        names = {"accelerator": machine.name, "accelerator.kernels": f"{machine.name}'s kernels"}
        names |= {"fabric": cluster.fabric.kind_name, "reference": "the electrical reference", "cluster": cluster.name}
        groups: dict[str, list[str]] = {}
        for entry in assumed_values(cluster):
            groups.setdefault(entry.group, []).append(f"{entry.field.replace('_', ' ')} {entry.value}".strip())
        lines += [f"assumed of {names[group]}: {', '.join(values)}" for group, values in groups.items()]
    return list(dict.fromkeys(lines))


def _fitted_links(cluster: Cluster) -> list[str]:
    """The parameters of the transport that a calibration of the accelerator fits; none where another transport is
    used."""
    library = cluster.fabric.library
    fits = library is not None and library.transport.name == cluster.accelerator.transport
    return list(library.transport.priors()) if library is not None and fits else []


def _origin(transport: Transport) -> str:
    """What the share of the arithmetic rests on, in a word or two."""
    source = transport.priors()["arithmetic_share"].source if transport.arithmetic_share else ""
    return "an assumption" if source.startswith("assumption") else source or "as stated"


def carried_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line for each collective library that says what it takes."""
    lines = []
    for cluster in clusters:
        library, name = cluster.fabric.library, cluster.fabric.kind_name
        if library is not None:
            transport = library.transport
            lines.append(
                f"transport of {name}: {transport.name}, in closed form; its constants are fitted; exchanges take "
                f"{transport.arithmetic_share:.0%} of the arithmetic beside them, {_origin(transport)}"
            )
    return list(dict.fromkeys(lines))


def imported_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line for each network and each system that another tool's file describes: how it was read, and what was
    left out."""
    networks = (cluster for cluster in clusters if cluster.sources.get("fabric", "").startswith(ORIGIN))
    lines = [f"{cluster.sources['fabric']}: {cluster.description}" for cluster in networks]
    named = (cluster.accelerator.sources.get("name", "") for cluster in clusters)
    return list(dict.fromkeys([*lines, *(source for source in named if source.startswith(SYSTEM))]))


def built_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line for each fabric that says what its bandwidth takes of it."""
    fabrics = {cluster.name: cluster.fabric for cluster in clusters}
    return [f"averager of {name}: {fabric.built_of}" for name, fabric in fabrics.items() if fabric.built_of]


def warning_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line for each thing of a fabric that cannot be built as it is described."""
    fabrics = {cluster.name: cluster.fabric for cluster in clusters}
    return [f"{fabric.kind_name} of {name}: {line}" for name, fabric in fabrics.items() for line in fabric.warnings]


def plan_assumptions(plan: Plan) -> Iterator[str]:
    """What is assumed of how the ranks of a plan with stages work together, as far as it decides the step."""
    choice = plan.choice
    if not isinstance(choice, Strategy):
        return
    if plan.spent is not None and choice.replicas > 1 and plan.cluster.training.overlap_gradients:
        yield (
            "gradients that are exchanged once a step leave block by block beside the last backward passes where that "
            "exposes less (training.overlap_gradients; Megatron-LM's --overlap-grad-reduce, off by default there)"
        )
    degrees = {"tensor": choice.tp, "expert": choice.ep, "context": choice.cp}
    within = [name for name, ranks in degrees.items() if ranks > 1]
    if within and choice.replicas > 1 and not plan.cluster.fabric.exclusive:
        yield (
            f"exchanges of {' and '.join(within)} groups go first on links that replicas beside them need too; "
            "all load links as hierarchical exchanges do"
        )
    if choice.cp > 1:
        yield (
            "ranks of a context group have equal work; in causal attention each takes a piece from either end of the "
            "sequence"
        )
