"""Assumptions of a plan: values of its clusters that no publication gives, and calibrations in place of priors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lightloom.core.results import formatted_fields, in_groups
from lightloom.core.units import format_time
from lightloom.machines.accelerators.load import SYSTEM_ORIGIN as SYSTEM
from lightloom.machines.clusters.astra_sim import ORIGIN
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.broadcast_step import FITTED, BroadcastStep
from lightloom.planning.search.plans import Plan, PlanSearch, influences
from lightloom.planning.search.published import default_batch


class Assumption(NamedTuple):
    """A value that decides the answer and has no publication behind it."""

    about: str
    """Part of the cluster, the plan or the batch."""
    field: str
    value: str
    """With its unit; empty where it is a part with values of its own."""
    source: str
    """Statement in place of a source: a rule, a fit or an assumption."""
    moves: float | None = None
    """Share by which its 90 % interval moves the winner's step; None where no spread of it is known."""
    fitted: bool = False
    """True for a number that was published or fitted to measurements, whose spread counts too."""


def assumed(search: PlanSearch) -> list[Assumption]:
    """Return what a search's winner rests on without a publication: the cluster's values whose source has the word
    "assumption" (or that are unstated latencies), fitted parameters of prices that have a known spread, assumptions on
    how ranks of the plan work together and, where the request states no batch, one that is assumed for the model.

    Each has what it is about (a part of the cluster such as ``accelerator.kernels``, "prices", "plan" or "batch"), its
    field, value and source as text (field and value empty for the plan's), and the share by which its 90 % interval
    moves the winner's step (0.1 for 10 %), None where no spread is known. First come those that are known to move the
    step, the largest first, then the others in the order of the cluster's parts, the prices, the plan and the batch.
    """
    winner, moves = search.winner, influences(search.winner)
    kernels, library = winner.cluster.accelerator.kernels, winner.cluster.fabric.library
    priors = (kernels.priors() if kernels else {}) | (library.transport.priors() if library else {})
    rows = []
    for group, field, value, source in assumed_values(winner.cluster):
        known = moves.get(field) if group in ("accelerator.kernels", "accelerator") else None
        rows.append(Assumption(group, field, value, source, known))
    listed = {row.field for row in rows}
    rows += [
        Assumption("prices", name, f"{priors[name].value:.4g}", priors[name].source, share, fitted=True)
        for name, share in moves.items()
        if name not in listed and name in priors
    ]
    rows += [Assumption("plan", "", "", line) for line in plan_assumptions(winner)]
    default = default_batch(search.graph, max(cluster.ranks for cluster in search.clusters))
    if search.request.global_batches is None and default is not None and default.published.assumed:
        rows.append(Assumption("batch", "global batch", f"{winner.global_batch:,}", default.published.source))
    return sorted(rows, key=lambda row: -(row.moves or 0.0))


def assumed_values(cluster: Cluster) -> Iterator[tuple[str, str, str, str]]:
    """Yield the values of a cluster that have no publication behind them, as far as they decide a result: those whose
    source has the word "assumption", the filling of domains that ranks fill only in part, and a hop latency that no
    source states.

    Each is four texts: the part of the cluster (``accelerator``, ``accelerator.kernels``, ``fabric``, ``reference``,
    ``cluster``), the field, the value with its unit (empty where it is a part with values of its own), and what stands
    in place of a source: a text with the word "assumption", or "not sourced" for an unstated latency. Fields that the
    accelerator does not use are left out.
    """
    machine, fabric = cluster.accelerator, cluster.fabric
    unused = machine.unused_fields()
    sources = {name: text for name, text in machine.sources.items() if name not in unused}
    parts = [("accelerator", formatted_fields(machine), sources)]
    if machine.kernels is not None:
        priors = {name: prior.source for name, prior in machine.kernels.priors().items()}
        parts.append(("accelerator.kernels", formatted_fields(machine.kernels), priors))
    parts.append(("fabric", formatted_fields(fabric) | {"transport": fabric.software}, dict(fabric.sources)))
    named = {"ranks": str(cluster.ranks), "accelerator": machine.name, "fabric": fabric.kind_name}
    if cluster.reference is not None:
        parts.append(("reference", formatted_fields(cluster.reference), dict(cluster.reference.sources)))
        named["reference"] = cluster.reference.kind_name
    parts.append(("cluster", named | formatted_fields(cluster.training), dict(cluster.sources)))
    for group, values, stated in parts:
        for field, source in stated.items():
            if "assumption" in source:
                yield group, field, values.get(field.rpartition(".")[2], ""), source
    if fabric.filling is not None:
        yield "fabric", "filling", fabric.filling, "assumption: all domains alike, the fewest that divide the ranks"
    if fabric.latency_unstated:
        yield "fabric", "hop_latency", format_time(fabric.hop_latency), "not sourced"


def assumptions(cluster: Cluster) -> tuple[str, ...]:
    """Return a line for each assumption about a cluster, ``part.field: source``: each value whose source has the word
    "assumption", domains that ranks fill only in part, and a hop latency that no source states (``fabric.hop_latency: 1
    µs, not sourced``, the only line with a value)."""
    return tuple(
        f"{group}.{field}: " + (f"{value}, {source}" if source == "not sourced" else source)
        for group, field, value, source in assumed_values(cluster)
    )


def assumed_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return lines on each cluster without repetition: its accelerator's calibration if it has one, with the parameters
    that are missing from it, and the assumed values of each of its parts, one line for a part (``assumed of NAME: field
    value, field value``, without sources)."""
    lines: list[str] = []
    for cluster in clusters:
        machine, library = cluster.accelerator, cluster.fabric.library
        if machine.calibration is not None:
            lines.append(f"calibrated: {machine.name}: {machine.calibration}")
            # Of a transport's parameters a calibration fits those of the one that the accelerator names.
            own = library is not None and library.transport.name == machine.transport
            if absent := machine.calibration.at_priors(list(library.transport.priors()) if library and own else []):
                lines.append(f"not in that calibration, as it is older: {', '.join(absent)}; priors take their places")
        names = {"accelerator": machine.name, "accelerator.kernels": f"{machine.name}'s kernels"}
        names |= {"fabric": cluster.fabric.kind_name, "reference": "the electrical reference", "cluster": cluster.name}
        for group, rows in in_groups(assumed_values(cluster), lambda row: row[0]).items():
            values = (f"{field.replace('_', ' ')} {value}".strip() for _, field, value, _ in rows)
            lines.append(f"assumed of {names[group]}: {', '.join(values)}")
    return list(dict.fromkeys(lines))


def carried_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line for each collective library of the clusters' fabrics, without repetition: its transport, that it is
    priced in closed form with fitted constants, and what share of the arithmetic beside them exchanges take, with where
    that share comes from."""
    lines = []
    for cluster in clusters:
        if cluster.fabric.library is not None:
            transport = cluster.fabric.library.transport
            source = transport.priors()["arithmetic_share"].source if transport.arithmetic_share else ""
            origin = "an assumption" if source.startswith("assumption") else source or "as stated"
            lines.append(
                f"transport of {cluster.fabric.kind_name}: {transport.name}, in closed form; its constants are fitted; "
                f"exchanges take {transport.arithmetic_share:.0%} of the arithmetic beside them, {origin}"
            )
    return list(dict.fromkeys(lines))


def imported_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line, without repetition, for each network and each system of the clusters that was read from another
    tool's file: how it was read, and what was left out."""
    networks = (cluster for cluster in clusters if cluster.sources.get("fabric", "").startswith(ORIGIN))
    lines = [f"{cluster.sources['fabric']}: {cluster.description}" for cluster in networks]
    named = (cluster.accelerator.sources.get("name", "") for cluster in clusters)
    return list(dict.fromkeys([*lines, *(source for source in named if source.startswith(SYSTEM))]))


def built_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line for each cluster whose fabric is built around an averager, on what the averager is built of."""
    return [f"averager of {name}: {fabric.built_of}" for name, fabric in _fabrics(clusters) if fabric.built_of]


def warning_lines(clusters: Sequence[Cluster]) -> list[str]:
    """Return a line for each warning of the clusters' fabrics, such as that one cannot be built as it is described."""
    return [f"{fabric.kind_name} of {name}: {line}" for name, fabric in _fabrics(clusters) for line in fabric.warnings]


def _fabrics(clusters: Sequence[Cluster]) -> Iterable[tuple[str, Fabric]]:
    """Return pairs of a cluster's name and its fabric; of clusters of the same name (which differ in their ranks alone)
    the last one's fabric."""
    return {cluster.name: cluster.fabric for cluster in clusters}.items()


def plan_assumptions(plan: Plan) -> Iterator[str]:
    """Yield the assumptions on how ranks of a plan work together that decide its step, each where it applies: fitted
    constants of DaDianNao's equations, neurons that are shared out evenly, gradients that leave beside backward passes,
    which groups go first on shared links, and equal work of context groups; none for plans of other choices than a
    ``Strategy``."""
    choice = plan.choice
    if not isinstance(choice, Strategy):
        return
    if isinstance(plan.step, BroadcastStep):
        yield (
            f"multipliers pass {FITTED.passes:g} times at their peak for a pass of broadcasts, and reading synapses "
            f"takes {FITTED.synapse:g} of their seconds at 6.4 GB/s: fitted to the ten headlines of DaDianNao's paper"
        )
    elif plan.splits_neurons:
        yield "neurons of every layer are shared out evenly among the ranks of a tensor group"
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
