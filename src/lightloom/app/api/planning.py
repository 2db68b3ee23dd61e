"""Plans: every way to train a model on a cluster, ranked by the time of a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from lightloom.app.api.arguments import Natural, Quantity, Settings
from lightloom.collectives.cost.price import known_cost_model
from lightloom.core.answer import Answer
from lightloom.core.errors import ConfigError, WorkloadError, needing_torch
from lightloom.core.fields import Count
from lightloom.core.forms import looks_like_file
from lightloom.core.results import Document, cells, plain, provenance
from lightloom.core.units import format_rate, format_size, format_time, parse
from lightloom.exchange.compression.profile import read_profile
from lightloom.exchange.compression.registry import find as find_codec
from lightloom.exchange.method import ExchangeMethod
from lightloom.exchange.methods import find
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import ClusterLike, load_cluster
from lightloom.models.files.megatron import read_megatron_line
from lightloom.models.files.model_file import LINE, FileRequest, ModelReading, is_shell_line
from lightloom.models.files.read import read_model_file
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import is_model_name, load_workload
from lightloom.planning.economics.ledger import Site, amount, check_inputs, site_of
from lightloom.planning.gradients import ACCELERATOR, NIC, PricedExchange, check_engine_name, ring_codec_of, sized
from lightloom.planning.pricing.placed_space import DEFAULT_QUANTA
from lightloom.planning.search.answer import plan_answer
from lightloom.planning.search.assumptions import assumed
from lightloom.planning.search.document import exchange_settings, plan_document, plan_row
from lightloom.planning.search.plans import Plan, PlanSearch
from lightloom.planning.search.request import KINDS, Pins, SearchRequest, on_machine, with_choices
from lightloom.planning.search.search import search
from lightloom.planning.search.what_if import WhatIf, WhatIfs
from lightloom.reports.figures.comparisons import breakdown_figure
from lightloom.reports.html import DrawnResult
from lightloom.reports.progress import progress
from lightloom.reports.report import PAGE_WIDTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor, nn


# How a plan's replicas exchange gradients: checked before the model is traced, and priced when it is known.


class ExchangeChoice(NamedTuple):
    """Methods as they were requested; None for what was not."""

    names: tuple[str, ...]
    """Methods with their options; every plan is ranked with gradients as they are, and with each."""
    profile: str | Path | None
    """File of the model's profile, for methods whose bytes depend on the gradient; else the one that was stored."""
    ratio: str | float | None
    """Bytes as float32 for each coded byte, instead of what a profile measured."""
    engine: str | None
    """``accelerator``, ``local``, ``nic`` or a YAML file."""

    def check(self) -> None:
        """Check everything that needs no model: that methods, profile, ratio and engine exist, can be read and go
        together.

        Raises:
            ConfigError: a profile, ratio or engine without a method; a profile or a ratio where no method's bytes
                depend on the gradient's values, or both; engine ``nic`` with a method other than inceptionn; or a
                profile, ratio or engine file that cannot be read.
            UnknownNameError: no such method or engine.
        """
        methods = self._methods()
        given = [option for option in ("profile", "ratio", "engine") if getattr(self, option) is not None]
        if given and not methods:
            raise ConfigError(f"--exchange-{given[0]} needs --exchange METHOD")
        by_value = [option for option in given if option != "engine"]
        if by_value and not any(method.needs_values for method in methods):
            fixed = ", ".join(method.name for method in methods)
            raise ConfigError(
                f"--exchange-{by_value[0]} is for methods whose bytes depend on the gradient, such as inceptionn; "
                f"those of {fixed} do not"
            )
        if len(by_value) == 2:
            raise ConfigError("give either --exchange-profile or --exchange-ratio")
        if self.profile is not None:
            read_profile(Path(self.profile))
        if self.engine is not None:
            check_engine_name(self.engine)
        for method in methods:
            self._ratio_of(method)
            if self.engine == NIC and not method.name.startswith("inceptionn"):
                raise ConfigError(f"--exchange-engine nic runs inceptionn only, not {method.name}")

    def priced(self, model: str, graph: ComputeGraph) -> tuple[PricedExchange, ...]:
        """Return each different requested method, in their order, priced for a model: with the bytes that it makes of
        the model's gradients, and the engine that codes them. The engine is None for the accelerator, as where none is
        named: which one is known only with the cluster (:meth:`PricedExchange.on`). Empty where none was requested.

        Args:
            model: name of the model, by which stored profiles are found.
            graph: the model's graph.

        Raises:
            ConfigError: a method's bytes depend on the gradient's values, no ratio is stated, and there is no profile
                of this model and codec, or a file of another model's; or the engine is ``local`` and there are no rates
                of this host (both say how to make them).
        """
        profile = None if self.profile is None else Path(self.profile)
        return tuple(
            sized(method, model, graph, profile, self._ratio_of(method), self.engine or ACCELERATOR)
            for method in self._methods()
        )

    def _methods(self) -> list[ExchangeMethod]:
        """Return the requested methods, each once, in their order; UnknownNameError for a name that none has,
        ConfigError for options that a method lacks or that cannot be read."""
        return list(dict.fromkeys(map(find, self.names)))

    def _ratio_of(self, method: ExchangeMethod) -> float | None:
        """Return the stated ratio, bytes as float32 for each coded byte, as the number that holds for a method; None
        where none is stated, or where the method's bytes do not depend on the gradient's values.

        Raises:
            ConfigError: the ratio is no finite positive number, or more than the method's codec makes of zeros.
        """
        if self.ratio is None or not method.needs_values:
            return None
        try:
            ratio = float(str(self.ratio))
        except ValueError:
            ratio = math.nan
        if not (math.isfinite(ratio) and ratio > 0):
            raise ConfigError(f"--exchange-ratio {self.ratio}: expected a positive number")
        codec = find_codec(ring_codec_of(method).codec)
        largest = codec.largest_ratio
        if largest is not None and ratio > largest:
            raise ConfigError(
                f"--exchange-ratio {ratio:g}: expected at most {largest:g}, which is what {codec.name} makes of zeros"
            )
        return ratio


# Models: a zoo name, a user's factory, a module, a file or a graph, made into a compute graph.

ModelLike: TypeAlias = "str | Path | ComputeGraph | nn.Module"
"""A zoo name, ``package.module:factory``, ``file.py:factory``, a file of a known form, a shell line of Megatron-LM, a
module, or a graph."""


def trace(
    model: ModelLike,
    *,
    batch: int = 1,
    inputs: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None = None,
    sequence_length: int | None = None,
    step: int | None = None,
    define: Mapping[str, object] | None = None,
    name: str | None = None,
) -> ComputeGraph:
    """Return a model's graph: its operators with their FLOPs and bytes, for ``batch`` samples.

    >>> trace("resnet50", batch=32)
    >>> trace(torch.nn.Linear(16, 4), inputs=torch.zeros(8, 16), batch=32)

    Args:
        model: a zoo name, ``package.module:factory``, ``file.py:factory``, a file of a form that describes a model (a
            message about an unknown file lists them), a shell line with arguments of Megatron-LM, a graph, or an
            ``nn.Module``, whose parameters are moved to the meta device.
        batch: samples in one forward pass.
        inputs: example inputs of a module; without them its method ``example_inputs(batch)`` gives them.
        sequence_length: tokens in a sample, for models that take tokens; the model's own number without it.
        step: which step of a trace of PyTorch, as the profiler counts; without it the first one that has a backward
            pass.
        define: values that a file leaves open, by their names there: variables of a script, dimensions of a graph.
        name: the graph's name, for a module; its class without it.

    Raises:
        UnknownNameError: no such model.
        WorkloadError: the model cannot be imported, built or traced, or PyTorch is missing.
        ConfigError: an unreadable file, or arguments that do not go with this kind of model.
    """
    return read_model(
        model, batch=batch, inputs=inputs, sequence_length=sequence_length, step=step, define=define, name=name
    ).graph


def read_model(
    model: ModelLike,
    *,
    batch: int,
    inputs: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None = None,
    sequence_length: int | None = None,
    step: int | None = None,
    define: Mapping[str, object] | None = None,
    name: str | None = None,
) -> ModelReading:
    """Return what is read of a model: its graph for ``batch`` samples, and from a file or a shell line also sentences
    on what is assumed where it says nothing, the settings in it that plans do not use, and the degrees and batches of a
    strategy that it states (all of these empty or None for other models).

    The arguments are those of :func:`trace`: ``inputs`` and ``name`` are for a module, ``sequence_length`` for models
    that take tokens, ``step`` for traces, ``define`` for files that leave values open.

    Raises:
        UnknownNameError: no such model.
        WorkloadError: the model cannot be imported, built or traced, or PyTorch is missing.
        ConfigError: an unreadable file, or arguments that do not go with this kind of model.
    """
    if isinstance(model, str | Path):
        if inputs is not None:
            raise ConfigError(f"{model}: brings its own example inputs: expected no inputs")
        definitions = {key: str(value) for key, value in (define or {}).items()}
        request = FileRequest(batch=batch, sequence_length=sequence_length, step=step, definitions=definitions)
        shell = isinstance(model, str) and is_shell_line(model)
        if not shell and not is_model_name(str(model)) and (isinstance(model, Path) or looks_like_file(model)):
            return read_model_file(Path(model), request)
        if shell and step is None:
            return read_megatron_line(str(model), request)
        place: object = LINE if shell else model
    else:
        place = model
    if step is not None:
        raise ConfigError(f"--step {step}: {place} is no execution trace (.json), which alone has steps")
    if define:
        raise ConfigError(f"--define {next(iter(define))}: {place} is no file that leaves values open")
    if isinstance(model, str | Path):
        return ModelReading(graph=load_workload(str(model), batch=batch, sequence_length=sequence_length))
    if isinstance(model, ComputeGraph):
        if inputs is not None or sequence_length is not None:
            raise ConfigError(f"{model.name}: a graph is traced already: expected neither inputs nor sequence_length")
        return ModelReading(graph=model.with_batch(batch))
    return ModelReading(graph=_from_module(model, batch, inputs, sequence_length, name))


def _from_module(
    module: nn.Module,
    batch: int,
    inputs: Tensor | tuple[Tensor, ...] | Mapping[str, Tensor] | None,
    sequence_length: int | None,
    name: str | None,
) -> ComputeGraph:
    """Return the traced graph of a module for ``batch`` samples, named as its class unless ``name`` is given. It is
    traced with ``inputs``, or else with those of its method ``example_inputs``, of ``sequence_length`` tokens if that
    is given; where these are of another batch, the graph is rescaled. WorkloadError without PyTorch, if ``module`` is
    no ``nn.Module``, or if it fails or has no inputs."""
    title = name or type(module).__name__
    with needing_torch(f"{title}:", error=WorkloadError):
        from torch import nn

        from lightloom.models.torch.trace import trace_factory
    if not isinstance(module, nn.Module):
        raise WorkloadError(f"{title}: expected a model's name, a file, a graph or a torch.nn.Module")
    factory = module if inputs is None else lambda: (module, inputs)
    return trace_factory(factory, name=title, batch=batch, sequence_length=sequence_length)


ALL = "all"
MOST_SAMPLES = 10_000_000
TRIED = "int4:block=128,feedback"
"""Method of exchanging gradients that a changed question tries."""
DIVISIONS = 8
"""Divisions of the job whose best plans are found."""
_DRAWN = 8
"""Plans in the picture; rows and documents hold all."""


@dataclass(frozen=True, repr=False, kw_only=True)
class PlanRanking(DrawnResult):
    """The plans of a model that were simulated: those that fit first, then the least time a sample."""

    search: PlanSearch
    """Every plan, what was refused, and why."""
    origin: Document
    """Version, hash of the configuration, and seed."""
    unrecorded: tuple[str, ...] = ()
    """Sentences on what the model's file does not say, and which of its settings are not used."""
    method: PricedExchange | None = None
    """Method of exchanging gradients that a changed question tries, priced for the model; None where none can be."""

    @property
    def winner(self) -> Plan:
        """The first plan; it fits unless no plan does."""
        return self.search.winner

    def __len__(self) -> int:
        """Return the number of plans that were simulated."""
        return len(self.search.ranking)

    def __iter__(self) -> Iterator[Plan]:
        """Yield the simulated plans by their place in the ranking."""
        return iter(self.search.ranking)

    def __getitem__(self, index: int) -> Plan:
        """Return the plan of a place in the ranking; 0 is the winner."""
        return self.search.ranking[index]

    @cached_property
    def _changed(self) -> WhatIfs:
        """The object behind :attr:`what_ifs` and :attr:`limit`: it changes one thing of the winner's question (a faster
        network, half the batch, ...) and searches again; it searches nothing before it is asked."""
        return WhatIfs(self.search, self.method)

    @cached_property
    def what_ifs(self) -> tuple[WhatIf, ...]:
        """Answers, at most five, to the question of the winner (its cluster and batch of a step) with one thing
        changed, as far as it applies, in this order: links twice as fast, the electrical reference or else circuits in
        place of packets, coded gradients, half and twice the batch, and the accelerator's successor. Each has the plan
        that wins then and its seconds a sample as a ratio to the winner's; a change that no plan serves has no winner
        and says why.

        Where :attr:`limit` shows that no network gains 2 %, one answer without a winner stands for all changes of
        network and gradients. Searched when they are first asked for, and kept."""
        with progress("What if", None) as advance:
            return tuple(self._changed.answers(lambda: advance(1)))

    @property
    def limit(self) -> float:
        """Share (0 to 1) of the winner's seconds a sample that remains however fast the network is, by a lower bound
        over all plans on its cluster at its batch of a step; 0 where no bound is found."""
        return self._changed.limit

    def answer(self, *, everything: bool = False, what_if: bool = True) -> Answer:
        """Return the answer as the terminal, the page and notebooks show it: lines on the winner, rows, answers to
        changed questions, what limits the winner, and what it rests on. The rows are at most six, one for the best plan
        of each cluster, division of the job (the degrees of parallelism, and whether parameters are sharded) and method
        of exchanging gradients; with ``everything`` one for every plan. Without ``what_if`` no changed question is
        searched, and none is answered."""
        count = len(assumed(self.search))
        return plan_answer(self.search, self.what_ifs if what_if else (), self.limit, count, everything=everything)

    def lines(self) -> Sequence[str]:
        """Return the question, the lines on the winner, and those on changed questions (``What if``), the limit and
        what the answer rests on, without the table and its legend; searches :attr:`what_ifs` where that was not done
        before."""
        answer = self.answer()
        return [answer.question, *answer.lines(PAGE_WIDTH)]

    def summary(self) -> str:
        """Return a sentence on the first plan, with units: the model, where it trains, the plan's name among how many
        plans, time of a step and its samples, samples a second, model-FLOPs utilization in per cent and memory of a
        rank; ``, which does not fit`` only where that is known."""
        winner = self.winner
        return (
            f"{self.search.graph.name} on {winner.site}: {winner.label} is the first of {len(self)} plans; "
            f"{format_time(winner.step_time)} a step of {winner.global_batch:,} samples, "
            f"{format_rate(winner.samples_per_second)} samples/s, {100 * self.search.utilization(winner):.3g} % "
            f"model-FLOPs utilization, {format_size(winner.memory)} a rank"
            + (", which does not fit" if winner.fits is False else "")
        )

    def to_json(self) -> Document:
        """Return the document that ``lightloom plan --json`` prints: what was asked (``model``, ``clusters``,
        ``strategies`` and more); ``ranking``, a row for each simulated plan by its place (``rank``, from 1);
        ``best_of_strategy`` and ``front`` as such ranks; ``reference``, plans on the electrical reference; ``refused``
        with the reason (``why``); what the prices rest on, and ``provenance``. Infinite and undefined numbers are
        None."""
        return {name: plain(value) for name, value in plan_document(self.search, self.origin, self.unrecorded).items()}

    def rows(self) -> list[Document]:
        """Return one row for each simulated plan by its place, in SI units: what was chosen (``strategy``, ``label``,
        ``cluster``, ``ranks``, ``global_batch``, ``choice``, ``algorithm``), ``iteration_time_s`` of a step and
        ``sample_time_s``, its lower bound ``bound_s``, the 90 % interval of the step (``low_s`` and ``high_s``),
        ``energy_j`` of a step on all ranks, ``memory_bytes`` of a rank, ``fits``, and more, the row of ``ranking`` in
        :meth:`to_json` without its place. The parts of its step (``compute_s``, ``exposed_communication_s``,
        ``exposed_reconfiguration_s``, ``idle_s``) are columns, seconds of a step.

        ``dollars_per_rank`` (a price) and ``least_dollars_per_step`` count what has a known price, and are None if
        nothing has. Other figures that are unknown are None, too, but ``fits`` is True unless the plan is known not to
        fit.
        """
        rows = [plan_row(plan, self.search) for plan in self]
        for row in rows:
            row |= row.pop("breakdown")
            row["dollars_per_rank"] = row["ledger"]["dollars_per_rank"]["value"]
            row["least_dollars_per_step"] = row["ledger"]["dollars_per_step"]["value"]
        return rows

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row of text for each simulated plan by its place: "plan", "where" (cluster and ranks), time of a
        "step", "samples" of a step on all ranks, "samples a second", "memory" of the fullest rank, whether it "fits"
        ("yes", "no", or "unknown" where the accelerator's memory is not known), "energy" of a step on all ranks ("not
        sourced" where unknown), and "dollars a step" with their range ("unknown" where nothing has a price)."""
        columns = (
            "plan: {label} | where: {site} | step: {step_time:time} | samples: {global_batch:,} | samples a second: "
            "{samples_per_second:rate} | memory: {memory:size} | fits: {fits} | energy: {energy.total_j:energy}"
        )
        rows = cells(columns, self)
        for row, plan in zip(rows, self, strict=True):
            row["fits"] = {True: "yes", False: "no", None: "unknown"}[plan.fits]
            row["dollars a step"] = amount(plan.ledger.dollars)
        return rows

    def figure(self) -> Figure:
        """Return a matplotlib figure of where the time of a step goes (compute, exposed communication, exposed
        reconfiguration, idle): a stacked horizontal bar for each of the first eight plans, the winner on top."""
        return breakdown_figure([(plan.label, plan.breakdown) for plan in self.search.ranking[:_DRAWN]])


def plan(
    model: ModelLike,
    cluster: ClusterLike | Sequence[ClusterLike] = "terarack-64",
    *,
    batch: int | Literal["max"] | None = None,
    global_batch: int | Sequence[int] | None = None,
    sequence_length: int | None = None,
    step: Natural | None = None,
    define: Settings | None = None,
    model_only: bool = False,
    measured_on: str | None = None,
    strategy: str | Sequence[str] = ALL,
    algorithm: str | Sequence[str] = ALL,
    dp: Count | None = None,
    tp: Count | None = None,
    pp: Count | None = None,
    ep: Count | None = None,
    cp: Count | None = None,
    micro_batches: Count | None = None,
    micro_batch: Count | None = None,
    virtual_stages: Count | None = None,
    recompute: Literal["full", "selective", "none"] | None = None,
    sharding: Literal["none", "zero-1", "zero-2", "zero-3", "hybrid", "ddp", "fsdp"] | None = None,
    sequence_parallel: bool | None = None,
    quantum: Quantity | Sequence[Quantity] = DEFAULT_QUANTA,
    cost_model: str = "physical",
    overlap: bool = True,
    exchange: str | Sequence[str] = (),
    exchange_profile: str | Path | None = None,
    exchange_ratio: str | float | None = None,
    exchange_engine: str | None = None,
    reconfigure_in_step: bool = False,
    every_algorithm: bool = True,
    site: Site | Settings | None = None,
    set: Settings | None = None,
    **fields: object,
) -> PlanRanking:
    """Rank the ways to train a model: data, sharded, tensor, pipeline and expert parallelism, and placed operators.

    >>> plan("gpt3-175b", cluster="my_cluster.yaml", global_batch=1536, tp=8, pp=16, micro_batches=192)

    Args:
        model: what :func:`lightloom.trace` takes.
        cluster: a name of the catalog, a YAML file or a cluster; of several, all plans are ranked together.
        batch: samples for each rank, or ``max``: each plan's most; up to 32 without it.
        global_batch: samples of a step on all ranks, or several of them, in place of ``batch``; repeatable.
        sequence_length: tokens in a sample, for models that take tokens.
        step: step of an execution trace, as its profiler counts; the first whole one without it.
        define: values that a model's file leaves open, by their names there: variables of a script, dimensions.
        model_only: takes the model of a file and not the strategy and the batch that it states.
        measured_on: what the durations of a trace were measured on, if it does not say: an accelerator, ``unscaled``
            (as on the cluster's), or ``none`` (price all operators).
        strategy: some of ``ddp``, ``fsdp``, ``tensor-pipeline`` and ``placed``, or ``all``; repeatable.
        algorithm: collective algorithms among which exchanges choose, or ``all`` that the fabric admits, as without it;
            repeatable.
        dp: pins the data-parallel degree.
        tp: pins the tensor-parallel degree.
        pp: pins the number of pipeline stages.
        ep: pins the expert-parallel degree.
        cp: pins the slices of a sample's tokens (context parallelism).
        micro_batches: pins the micro-batches of a step: divisors of a replica's batch.
        micro_batch: pins the samples of a micro-batch; the last may be smaller.
        virtual_stages: pins the chunks of the model that a stage holds.
        recompute: pins activation recomputation: ``full``, ``selective`` or ``none``.
        sharding: pins what replicas shard: ``none``, ``zero-1``, ``zero-2``, ``zero-3`` (also: ``fsdp``) or ``hybrid``.
        sequence_parallel: pins slices of the sequence in tensor groups, or none.
        quantum: durations below which placed plans cut no operator, e.g. 10us; repeatable.
        cost_model: ``physical`` (circuits change when needed) or ``paper`` (every step costs d/B + a; ddp and fsdp
            only).
        overlap: communicates while computing; without it ddp and fsdp only.
        exchange (METHOD): methods by which replicas exchange gradients, e.g. int4:block=128 (`lightloom catalog
            exchanges`); plans are ranked with gradients as they are, and with each; repeatable.
        exchange_profile: a file that `lightloom compress profile` wrote, for inceptionn; else the profile of the model
            that it has kept.
        exchange_ratio (X): a ratio of your own, for inceptionn, in place of a profile's.
        exchange_engine: what encodes: ``accelerator`` (an assumed rate; the default), ``local`` (this host's kernels as
            measured), ``nic`` (the INCEPTIONN paper's), or a .yaml file.
        reconfigure_in_step: shares out the planes of a circuit switch among the groups of a plan, and sets them anew
            between the phases of a step where that is faster; grants placed plans circuits anew from what waits.
        every_algorithm: ranks data parallelism with each algorithm alone too, and on the electrical reference of the
            cluster; without it the winner is the same and fewer plans are compared.
        site: what turns parts and watts into dollars, ``{"pue": 1.1, "electricity": "8 ct/kWh", "amortisation": "5
            years", "host_price": "5 k$", "prices": {"wdm-engine": "$ 120"}, "choices": {"switches": "whole"}}``: fields
            of :class:`~lightloom.planning.economics.ledger.Site`; decides no ranking.
        set: fields of the cluster by their path, ``{"fabric.wavelengths": 16}``.
        **fields: top-level fields of the cluster (``ranks``, ``accelerator``).

    Returns:
        The ranking of all plans that were simulated, those that fit first, then by seconds a sample, with what was
            refused.

    Raises:
        InputError: an argument that cannot be read, pins that contradict each other, no plan that serves or fits.
    """
    pins = Pins(dp=dp, tp=tp, pp=pp, ep=ep, cp=cp, virtual_stages=virtual_stages, sequence_parallel=sequence_parallel)
    pins = replace(
        pins, micro_batches=micro_batches, micro_batch=micro_batch, recomputation=recompute, sharding=sharding
    )
    places = [cluster] if isinstance(cluster, str | Path | Cluster) else cluster
    clusters = [load_cluster(place, set={**(set or {}), **fields}) for place in places]
    quanta = [quantum] if isinstance(quantum, str | float | int) else quantum
    request = SearchRequest(
        strategies=_names(strategy) or KINDS,
        algorithms=_names(algorithm),
        quanta=list(dict.fromkeys(parse(duration, "time") for duration in quanta)),
        pins=pins,
        cost_model=known_cost_model(cost_model),
        overlap=overlap,
        reconfigure_in_step=reconfigure_in_step,
        compare=every_algorithm,
        divisions=DIVISIONS,
    )
    request = replace(_with_batches(request, clusters, batch, global_batch), site=site_of(site))
    names = dict.fromkeys(each.name for each in clusters)
    if request.site.fabric_price is not None and len(names) > 1:
        raise ConfigError(f"fabric_price on {', '.join(names)}: expected one cluster, whose fabric it is of")
    references = (each.reference for each in clusters if each.reference is not None)
    check_inputs(chain((each.fabric for each in clusters), references), request.site)
    methods = (exchange,) if isinstance(exchange, str) else tuple(exchange or ())
    choice = ExchangeChoice(methods, exchange_profile, exchange_ratio, exchange_engine)
    choice.check()
    samples = clusters[0].training.batch_per_rank
    if isinstance(model, str | Path) and looks_like_file(str(model)) and request.global_batches:
        # A file that does not state its own samples holds those of the plan.
        samples = max(1, request.global_batches[0] // clusters[0].ranks)
    reading = read_model(model, batch=samples, sequence_length=sequence_length, step=step, define=define)
    graph = on_machine(reading.graph, measured_on, clusters)
    if not model_only:
        source = LINE if isinstance(model, str) and is_shell_line(model) else str(model)
        request, clusters = with_choices(request, clusters, replace(reading, graph=graph), source)
    if choice.names:
        request = replace(request, exchanges=choice.priced(str(model), graph))
    with progress("Plans", None) as advance:
        result = search(graph, clusters, request, advance=lambda: advance(1))
    batches = [list(request.global_batches or ()), request.largest_batches]
    configuration = [
        *(graph.to_json(), [cluster.to_json() for cluster in clusters], batches),
        *(list(request.strategies), list(request.algorithms), list(request.quanta), dict(request.pins)),
        [request.cost_model, request.overlap, *(["in-step"] if request.reconfigure_in_step else [])],
        [exchange_settings(exchange) for exchange in request.exchanges],
        *([request.site.to_json()] if request.site.model_fields_set else []),
    ]
    method = sized(find(TRIED), str(model), graph, None, None, ACCELERATOR)
    return PlanRanking(search=result, origin=provenance(configuration), unrecorded=reading.lines(), method=method)


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names without repetition and without "all", a single one as a tuple of one; empty, which stands for
    all, where "all" alone is given."""
    return tuple(name for name in dict.fromkeys([names] if isinstance(names, str) else names) if name != ALL)


def _with_batches(
    request: SearchRequest,
    clusters: Sequence[Cluster],
    batch: int | str | None,
    global_batch: int | Sequence[int] | None,
) -> SearchRequest:
    """Return the request with the batches of a step that are given, in samples of all ranks, or else those that the
    files of the clusters state; unchanged where neither does, and with ``largest_batches`` for "max".

    Args:
        request: the search.
        clusters: where plans are searched.
        batch: samples of a rank, multiplied by the ranks of each cluster, all of which are then tried; "max" for the
            most that fits each plan; or None.
        global_batch: samples of all ranks, one or several numbers, or None.

    Raises:
        ConfigError: both batches are given, or one is no whole number from 1 to 10,000,000.
    """
    global_batches = [global_batch] if isinstance(global_batch, int) else list(global_batch or ())
    if batch is not None and global_batches:
        raise ConfigError(f"--batch {batch} and --global-batch {global_batches[0]}: expected one of them")
    if batch == "max":
        return replace(request, largest_batches=True)
    if global_batches:
        batches = [_samples(samples, "--global-batch") for samples in global_batches]
    elif batch is not None:
        if not str(batch).removeprefix("-").isdecimal():
            raise ConfigError(f"--batch {batch}: expected samples of a rank, or max")
        batches = [_samples(int(batch), "--batch") * cluster.ranks for cluster in clusters]
    else:
        stated = [cluster for cluster in clusters if "batch_per_rank" in cluster.training.model_fields_set]
        batches = [cluster.training.batch_per_rank * cluster.ranks for cluster in stated]
    return replace(request, global_batches=tuple(dict.fromkeys(batches))) if batches else request


def _samples(samples: int, option: str) -> int:
    """Return a number of samples as it is; ConfigError, which names the option, unless it is from 1 to 10,000,000."""
    if not 1 <= samples <= MOST_SAMPLES:
        raise ConfigError(f"{option} {samples}: expected 1 to {MOST_SAMPLES:,} samples")
    return samples
