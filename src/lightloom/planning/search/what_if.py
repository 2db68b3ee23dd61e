"""Changes of one thing in a question, each answered by the same search, and what a network without delay would gain.

Changes are chosen by what could matter: where the step without exchanges is hardly shorter, no network is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import NamedTuple

from lightloom.collectives.synthesis.engine.cache import effort
from lightloom.core.errors import InputError, UnsupportedError
from lightloom.core.files import cache_directory, check_folder, kept, source_hash
from lightloom.core.plugins import any_installed
from lightloom.core.results import Document, attributes, content_hash
from lightloom.core.units import format_bandwidth
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import with_accelerator
from lightloom.machines.fabrics.fabric import Fabric
from lightloom.machines.fabrics.load import fabric_from, load_fabric
from lightloom.planning.gradients import PricedExchange
from lightloom.planning.parallelism.strategy_space import Strategy
from lightloom.planning.pricing.broadcast_step import BroadcastStep
from lightloom.planning.pricing.group_prices import GroupPrices
from lightloom.planning.search.document import exchange_settings
from lightloom.planning.search.plans import PlanSearch
from lightloom.planning.search.request import SearchRequest
from lightloom.planning.search.rows import ClusterRows
from lightloom.planning.search.search import Floor, free_rows, prices_for, search

_SUCCESSORS = {"titan-xp": "a100", "a100": "h100", "h100": "b200", "h200": "b200", "tpu-v4": "tpu-v5p"}
"""The chip that followed each, by the name in the catalog."""
_PLANES = 8
"""Planes of the circuit switch that takes the place of packet switches, as in SiP-ML."""
MOST = 5
"""Changes that are answered."""
MATTERS = 0.02
"""Share of the step from which on a change of the network is worth a search."""


@dataclass(frozen=True)
class Change:
    """A question that differs from another in one thing."""

    name: str
    """The change in words: ``links twice as fast``."""
    arguments: Mapping[str, object]
    """Arguments of :func:`lightloom.plan` for it, besides those of the question; empty where no argument says it."""
    cluster: Cluster
    request: SearchRequest
    network: bool = False
    """True where only the network changes, so that a step without exchanges bounds what is gained."""


class Winner(NamedTuple):
    """The plan that wins a changed question."""

    label: str
    global_batch: int
    """Samples of a step on all ranks together."""
    step_time: float
    """Seconds."""
    sample_time: float
    """Seconds of a step for each sample."""


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """The answer to a changed question."""

    change: Change
    winner: Winner | None
    """Plan that wins then; None where a bound decided, or there is none."""
    step: float
    """Seconds of a sample then as a share of those now; where a bound decided, at least so much."""
    why: str = ""
    """Why there is no plan; empty where there is one."""

    def __str__(self) -> str:
        """Return the change and its effect on the time of a sample in words: ``links twice as fast -12 %``."""
        if self.why:
            return f"{self.change.name}: no plan"
        percent = 100 * (self.step - 1)
        if self.winner is None:
            return f"{self.change.name} at most {percent:.1f} %" if percent < -0.05 else f"{self.change.name} 0 %"
        digits = 1 if abs(percent) < 9.95 else 0
        return f"{self.change.name} " + (f"{percent:+.{digits}f} %" if abs(percent) >= 0.05 else "0 %")

    def to_json(self) -> dict[str, object]:
        """Return the ``change`` in words, its ``arguments``, what decided (``decided_by``: "search", "bound" or
        "refusal"), the seconds of a sample as a ratio to those now (``sample_time_ratio``; the least that any network
        can reach where a bound decided, None without a plan), the label of the plan that wins then (``winner``) with
        its ``global_batch`` and ``iteration_time_s``, all three None where a bound decided or there is no plan, and
        ``why`` there is no plan, else None."""
        return {
            "change": self.change.name,
            "arguments": dict(self.change.arguments),
            "sample_time_ratio": None if self.why else self.step,
            "decided_by": "search" if self.winner is not None else "refusal" if self.why else "bound",
            "winner": None if self.winner is None else self.winner.label,
            "global_batch": None if self.winner is None else self.winner.global_batch,
            "iteration_time_s": None if self.winner is None else self.winner.step_time,
            "why": self.why or None,
        }


class WhatIfs:
    """Changes of the question that a search answered, with their answers, and the time that no network beats.

    Args:
        found: the search whose winner's question is changed.
        method: a method of exchanging gradients, priced for the model; None for none.
    """

    def __init__(self, found: PlanSearch, method: PricedExchange | None = None) -> None:
        self._found, self._method = found, method
        self._winner = found.winner
        self._floor: Floor | None = None
        """Times that no network beats, once they are found."""
        # No placed plan leaves a runnable one out, so that none can win where the winner is one.
        kinds = found.request.strategies
        self._request = replace(
            found.request,
            global_batches=(found.winner.global_batch,),
            largest_batches=False,
            compare=False,
            divisions=1,
            strategies=tuple(kind for kind in kinds if kind != "placed" or not found.winner.runnable),
        )

    @cached_property
    def limit(self) -> float:
        """Seconds of a sample that no network makes shorter, as a share of the winner's, at most 1; 0 where no lower
        bound of them is found."""
        if isinstance(self._winner.step, BroadcastStep):
            return self._winner.step.computation / self._winner.step_time
        cluster, request = self._winner.cluster, replace(self._request, exchanges=(), algorithms=())

        def found() -> float:
            """Return the share, and keep the floor that it follows from."""
            rows = free_rows(self._found.graph, cluster, request, splits_neurons=self._winner.job.splits_neurons)
            self._floor = Floor.of(rows, (self._winner.global_batch,))
            least = self._floor.per_sample
            return min(1.0, float(least[0]) / self._winner.sample_time) if len(least) else 0.0

        try:
            return float(kept(self._path(cluster, request, "limit"), found))
        except UnsupportedError:
            return 0.0

    def answers(self, advance: Callable[[], None] = lambda: None) -> Iterator[WhatIf]:
        """Yield the answers to at most five changes. Where a network without delay would gain less than 2 %, the first
        change of the network alone is answered, by that bound (no winner, its ``step`` the :attr:`limit`), and others
        of the network are skipped. ``advance`` is called before each refinement and simulation."""
        decided, answered = False, 0
        for change in self.changes():
            if answered == MOST:
                return
            if change.network and 1 - self.limit < MATTERS:
                if not decided:
                    decided, answered = True, answered + 1
                    yield WhatIf(change=change, winner=None, step=self.limit)
            else:
                answered += 1
                yield self._answer(change, advance)

    def _answer(self, change: Change, advance: Callable[[], None]) -> WhatIf:
        """Return the answer that a search of a changed question gives: the plan that wins there and, as ``step``, its
        seconds of a sample as a ratio to the winner's now; without a winner, infinite and with the reason in ``why``,
        where it has no plan. Winners are kept on the disk. ``advance`` is called before each refinement and
        simulation."""

        def found() -> Document:
            """Return the fields of the plan that wins."""
            return attributes(self._searched(change, advance).winner, " ".join(Winner._fields))

        path = self._path(change.cluster, change.request)
        if path is not None:
            # A folder of somebody else is no answer.
            check_folder(path.parent)
        try:
            winner = Winner(**kept(path, found))
        except InputError as error:
            return WhatIf(change=change, winner=None, step=inf, why=str(error))
        return WhatIf(change=change, winner=winner, step=winner.sample_time / self._winner.sample_time)

    def _searched(self, change: Change, advance: Callable[[], None]) -> PlanSearch:
        """Return the search of a changed question. Where only the network changes, strategies are left out whose step
        takes longer on any network than that of the winner does on this one."""
        graph, cluster, request, winner = self._found.graph, change.cluster, change.request, self._winner
        pricing, below = winner.job.pricing, inf
        prices = prices_for(cluster, request, pricing if isinstance(pricing, GroupPrices) else None)
        if self._floor is None or not change.network or not isinstance(winner.choice, Strategy):
            return search(graph, cluster, request, prices=prices, advance=advance)
        if cluster.fabric.node_ranks == winner.cluster.fabric.node_ranks:
            below = ClusterRows(graph, cluster, request, prices).seconds(winner.choice)
        may_win = self._floor.below(below) if below < inf else None
        return search(graph, cluster, request, prices=prices, may_win=may_win, advance=advance)

    def _path(self, cluster: Cluster, request: SearchRequest, what: str = "winner") -> Path | None:
        """Return the path of the cache file for the winner of a question on this search's model, or, where ``what`` is
        "limit", for the :attr:`limit`, whether or not it exists. Its name is a hash of the question, of the code that
        answers, and of the effort of searches for schedules. None where a plug-in is installed."""
        if any_installed():
            return None
        # Sites decide no ranking.
        asked = {each.name: str(getattr(request, each.name)) for each in fields(request) if each.name != "site"}
        asked["exchanges"] = str([exchange_settings(each) for each in request.exchanges])
        key = [
            *(what, self._winner.sample_time if what == "limit" else 0.0, effort(cluster.ranks)),
            *(self._found.graph.to_json(), cluster.to_json(), asked),
            source_hash("core", "exchange", "photonics", "machines", "collectives", "models", "planning"),
        ]
        return cache_directory() / "what-if" / f"{content_hash(key)}.json"

    def changes(self) -> Iterator[Change]:
        """Yield the changes of the winner's question, in this order, as far as each applies: links twice as fast, the
        electrical reference or circuits in place of packets, the exchange method, half and twice the batch where that
        leaves a sample a rank, and the accelerator's successor. Changes of the network come on more than one rank only;
        the exchange method only where one is given and the request has none."""
        cluster, request = self._winner.cluster, self._request
        if cluster.ranks > 1:
            twice, settings = faster(cluster.fabric, 2.0)
            if settings:
                arguments = {"set": {f"fabric.{name}": value for name, value in settings.items()}}
                yield Change(
                    _network(twice, settings), arguments, replace(cluster, fabric=twice), request, network=True
                )
            if cluster.reference is not None:
                other = replace(cluster, fabric=cluster.reference, reference=None)
                yield Change(f"electrical {cluster.reference.kind_name}", {}, other, request, network=True)
            elif (circuits := counterpart(cluster.fabric)) is not None:
                yield Change("optical circuits", {}, replace(cluster, fabric=circuits), request, network=True)
        if self._method is not None and not request.exchanges and cluster.ranks > 1:
            name, coded = self._method.name, replace(request, exchanges=(self._method,))
            yield Change(f"{name.partition(':')[0]} gradients", {"exchange": name}, cluster, coded, network=True)
        samples = self._winner.global_batch
        for words, batch in (("half the batch", samples // 2), ("twice the batch", samples * 2)):
            if batch >= cluster.ranks:
                yield Change(words, {"global_batch": batch}, cluster, replace(request, global_batches=(batch,)))
        if (successor := _SUCCESSORS.get(cluster.accelerator.chip)) is not None:
            other = with_accelerator(cluster, successor)
            yield Change(successor.upper(), {"accelerator": successor}, other, request)


def _network(fabric: Fabric, settings: Mapping[str, float]) -> str:
    """Return in words the bandwidth of a faster fabric's links, or wavelengths: ``100 GB/s links``. ``settings`` are
    bytes per second by field."""
    rates = dict.fromkeys(format_bandwidth(rate) for rate in settings.values())
    return f"{' and '.join(rates)} {'a wavelength' if fabric.wavelength_routed else 'links'}"


def counterpart(fabric: Fabric) -> Fabric | None:
    """Return a circuit switch of eight planes in the place of a packet fabric between ranks, each of an eighth of its
    ``bandwidth``, so that a rank has the same in all; None for fabrics of circuits, fabrics that add up in the network
    or state no bandwidth, and where a collective library is priced, which circuits have none of."""
    rate = getattr(fabric, "bandwidth", None)
    if fabric.exclusive or fabric.in_network_reduction or fabric.library is not None or rate is None:
        return None
    return load_fabric("circuit-switch", fabric.ranks, set={"degree": _PLANES, "bandwidth": rate / _PLANES})


def faster(fabric: Fabric, times: float) -> tuple[Fabric, dict[str, float]]:
    """Return a fabric whose network has ``times`` the bandwidth, and the settings that make it so, bytes per second by
    field, such as ``bandwidth`` or ``tiers.1.bandwidth``.

    Of several tiers all but a switch at the innermost, that of nodes, are faster; else the bandwidth of all links or
    wavelengths. The fabric itself and no settings where no field states one.
    """
    fields = fabric.model_dump(mode="python", exclude_none=True)
    tiers = fields.get("tiers")
    if tiers:
        # Circuits that join the sides of a torus are as fast as its links.
        places = range(int(len(tiers) > 1 and tiers[0]["shape"] == "switch"), len(tiers))
        rates = {f"tiers.{place}.bandwidth": tiers[place]["bandwidth"] for place in places}
    else:
        rates = {name: fields[name] for name in ("bandwidth", "wavelength_bandwidth") if name in fields}
    settings = {name: times * rate for name, rate in rates.items()}
    if not settings:
        return fabric, {}
    return fabric_from(fields, fabric.ranks, settings, where="what if"), settings
