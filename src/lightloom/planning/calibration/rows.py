"""Training steps that others measured: one row of a table for each."""

from __future__ import annotations

import csv
import hashlib
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, partial
from io import StringIO
from itertools import product
from math import log
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
from pydantic import Field, ValidationError, model_validator

from lightloom.core.arrays import Floats, Ints, Mask
from lightloom.core.errors import ConfigError, InputError, UnknownNameError, UnsupportedError
from lightloom.core.fields import Config
from lightloom.core.files import cannot_read, is_file
from lightloom.core.results import attributes, in_groups
from lightloom.machines.accelerators.accelerator import Accelerator, Precision
from lightloom.machines.accelerators.kernels import PRIORS, KernelModel, Prior
from lightloom.machines.accelerators.load import load_accelerator
from lightloom.machines.clusters.cluster import Attention, TrainingSettings
from lightloom.machines.fabrics.tiers.tier import Tier
from lightloom.machines.fabrics.tiers.tiers import Tiers
from lightloom.machines.transports.transport import Transport, load_transport
from lightloom.models.decoder import TransformerSizes, transformer_graph
from lightloom.planning.parallelism.strategy_space import Sharding, Strategies, Strategy
from lightloom.planning.pricing.job import Job
from lightloom.planning.pricing.library_prices import LIBRARY, LibraryPricing
from lightloom.planning.pricing.strategy_step import step_seconds as planned_seconds
from lightloom.planning.pricing.strategy_step import strategy_seconds

# Files of measurements: where they lie, and whether they are what their checksums say.

FOLDER_VARIABLE = "LIGHTLOOM_MEASURED"
"""Environment variable that names the folder of measured tables."""
CHECKSUMS = "SHA256SUMS"

_ODD_NUMBER = re.compile(r"\s*[-+]?[\d_]+(\.[\d_]*)?([eE][-+]?[\d_]+)?\s*")
"""Texts that Python reads as numbers, digits of any script and underscores included."""
_WORDS = {
    "Input should be a valid integer": "expected a whole number",
    "Input should be a valid number": "expected a number",
    "Input should be": "expected",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "expected greater than": "expected more than",
}
Line = TypeVar("Line", bound=Config)


def measured_file(name: Path | str) -> Path:
    """Return the path of a measured table: ``name`` as given where that is a file, else in the folder that the
    environment variable ``LIGHTLOOM_MEASURED`` names.

    Raises:
        ConfigError: there is no such file in either place, or it is a folder.
    """
    path = Path(name)
    if is_file(path):
        return path
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and is_file(Path(folder) / path):
        return Path(folder) / path
    place = f"nor in ${FOLDER_VARIABLE} ({folder})" if folder else f"and ${FOLDER_VARIABLE} is not set"
    if path.is_dir():
        raise ConfigError(f"{path}: it is a folder: expected a file")
    raise ConfigError(f"{path}: no such file, {place}")


def read_measured(path: Path) -> tuple[str, str]:
    """Return the text of a measured file, without a byte-order mark, and its SHA-256 as hexadecimal digits, compared
    with ``SHA256SUMS`` where such a file in its folder or the one above lists it.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or differs from its checksum.
    """
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, error) from error
    digest = hashlib.sha256(content).hexdigest()
    expected = _listed_checksum(path)
    if expected is not None and digest != expected:
        raise ConfigError(f"{path}: SHA-256 {digest[:16]}... differs from {CHECKSUMS}, which lists {expected[:16]}...")
    return text, digest


def _listed_checksum(path: Path) -> str | None:
    """Return the SHA-256, as hexadecimal digits, that ``SHA256SUMS`` in the file's folder, or else in the one above,
    lists for it; None where neither does."""
    for folder in (path.resolve().parent, path.resolve().parent.parent):
        sums = folder / CHECKSUMS
        if not sums.is_file():
            continue
        for line in sums.read_text(encoding="utf-8").splitlines():
            digest, _, name = line.partition("  ")
            if name and folder / name.lstrip("*") == path.resolve():
                return digest
    return None


def read_table(text: str, kind: type[Line], path: Path, name: str = "") -> list[Line]:
    """Return the rows of a CSV text, each as an object of ``kind``; an empty cell takes the field's default, and is an
    error where the field has none.

    Args:
        text: content of the file, with a heading that names every field of ``kind``, in any order, and nothing else.
        kind: a configuration whose fields are the columns.
        path: the file, for messages.
        name: column that names a row in messages, none if empty.

    Raises:
        ConfigError: a column is missing, occurs twice or is unknown, a row is too short or too long, a cell cannot be
            read, or there is no row; the message names file, row and column.
    """
    reader = csv.DictReader(StringIO(text))
    _check_columns(reader.fieldnames or [], kind, path)
    lines = [_parsed_line(cells, kind, place) for cells, place in _cells(reader, path, name)]
    if not lines:
        raise ConfigError(f"{path}: no rows: expected at least one below the heading")
    return lines


def _check_columns(columns: Sequence[str], kind: type[Config], path: Path) -> None:
    """Raise ConfigError, which names the file, where a table's heading is empty, or a column occurs twice, is no field
    of ``kind``, or is missing."""
    fields = kind.model_fields
    if not columns:
        raise ConfigError(f"{path}: empty: expected a heading with the columns {', '.join(fields)}")
    if len(columns) != len(set(columns)):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise ConfigError(f"{path}: column {twice!r} occurs twice: expected it once")
    if unknown := [column for column in columns if column not in fields]:
        raise ConfigError(f"{path}: {UnknownNameError('column', unknown[0], fields)}")
    if missing := [column for column in fields if column not in columns]:
        raise ConfigError(f"{path}: column {missing[0]!r} is missing: expected {', '.join(fields)}")


def _cells(reader: csv.DictReader[str], path: Path, name: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the cells of each row by column, as text, and the row's place for messages ("FILE, row 3 (NAME)", numbered
    from 1).

    Args:
        reader: of the table.
        path: the file, for messages.
        name: column whose cell names the row in messages, none if empty.

    Raises:
        ConfigError: a row has too many or too few cells, a number is in other than plain digits (with underscores or
            not in ASCII), or the text is not CSV.
    """
    try:
        for number, cells in enumerate(reader, 1):
            place = f"{path}, row {number}" + (f" ({cells[name]})" if name and cells.get(name) else "")
            if None in cells:
                raise ConfigError(f"{place}: more cells than columns: expected {len(cells) - 1}")
            if absent := [column for column, cell in cells.items() if cell is None]:
                raise ConfigError(
                    f"{place}: column {absent[0]!r}: no cell, the row is too short: expected {len(cells)} cells"
                )
            for column, cell in cells.items():
                if _ODD_NUMBER.fullmatch(cell) and (not cell.isascii() or "_" in cell):
                    raise ConfigError(f"{place}: column {column!r}: {cell!r}: expected a number in plain digits")
            yield cells, place
    except csv.Error as error:
        raise ConfigError(f"{path}: not CSV: {error}") from error


def _parsed_line(cells: Mapping[str, Any], kind: type[Line], place: str) -> Line:
    """Return a row's cells, by column, as an object of ``kind``, empty cells at its defaults.

    Raises:
        ConfigError: a cell cannot be read; names ``place`` and the first column at fault.
    """
    given = {column: cell for column, cell in cells.items() if cell != ""}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        column = str(first["loc"][0]) if first["loc"] else ""
        message = str(first["msg"]).removeprefix("Value error, ").partition(", unable to parse")[0]
        for theirs, ours in _WORDS.items():
            message = message.replace(theirs, ours)
        if not column:
            raise ConfigError(f"{place}: {message}") from error
        shown = "the cell is empty" if first["type"] == "missing" else f"{cells[column]!r}: {message}"
        raise ConfigError(f"{place}: column {column!r}: {shown}") from error


# Parameters of the prediction: a prior for each, its spread, its unit and its source.
#
# A parameter is a positive number, and its logarithm is normally distributed with the stated spread as its standard
# deviation: 0.1 says "within about ten percent", 0.7 "within a factor of two".


def node_link(accelerator: Accelerator) -> float:
    """Return the bytes per second of one accelerator into its node's switch, each way.

    Raises:
        UnsupportedError: it is not known for this accelerator.
    """
    if accelerator.node_bandwidth is None:
        raise UnsupportedError(
            f"accelerator {accelerator.name!r}: field 'node_bandwidth' is not set: expected the bandwidth of one "
            "accelerator into the switch of its node each way, e.g. 300 GB/s"
        )
    return accelerator.node_bandwidth


@dataclass(frozen=True, slots=True)
class Priors:
    """Priors of all parameters, in the order of the columns of fits."""

    by_name: Mapping[str, Prior]

    @property
    def names(self) -> list[str]:
        """Names of the parameters, in the order of the arrays of priors and of fits."""
        return list(self.by_name)

    @property
    def center(self) -> Floats:
        """Natural logarithms of the parameters' prior values: [parameters]."""
        return np.array([log(prior.value) for prior in self.by_name.values()])

    @property
    def spread(self) -> Floats:
        """Standard deviations of the natural logarithms of the parameters: [parameters]."""
        return np.array([prior.spread for prior in self.by_name.values()])

    @property
    def most(self) -> Floats:
        """Natural logarithms of the parameters that a fit may not exceed, infinite where a parameter has no largest
        value: [parameters]."""
        return np.log([prior.most for prior in self.by_name.values()])

    def values(self, logarithms: Iterable[float]) -> dict[str, float]:
        """Return the value of each parameter by its name, given their natural logarithms in the order of the names."""
        return dict(zip(self.names, np.exp(np.fromiter(logarithms, np.float64)).tolist(), strict=True))


def kernel_model(accelerator: Accelerator) -> KernelModel:
    """Return the kernel model of an accelerator, which holds the parameters that are calibrated.

    Raises:
        UnsupportedError: it has none.
    """
    if accelerator.kernels is None:
        raise UnsupportedError(f"accelerator {accelerator.name!r} has no kernel model, whose parameters are calibrated")
    return accelerator.kernels


def kernels_with(accelerator: Accelerator, values: Mapping[str, float]) -> KernelModel:
    """Return the kernel model of an accelerator with the parameters in ``values``, by name, in place of its own; names
    that are no parameter of kernels are ignored.

    Raises:
        UnsupportedError: the accelerator has no kernel model.
    """
    return kernel_model(accelerator).model_copy(update={name: values[name] for name in PRIORS if name in values})


def transport_of(accelerator: Accelerator) -> Transport:
    """Return the network software that carries collectives among accelerators of this kind.

    Raises:
        UnsupportedError: the accelerator names none.
    """
    if accelerator.transport is None:
        raise UnsupportedError(
            f"accelerator {accelerator.name!r}: field 'transport' is not set: expected what carries its collectives, "
            "e.g. nccl-hopper"
        )
    return load_transport(accelerator.transport)


def priors_of(accelerator: Accelerator) -> Priors:
    """Return the priors for jobs on an accelerator, by name of the parameter (value, standard deviation of its natural
    logarithm, largest value, unit, meaning, source): those of its kernels and steps, then those of its transport.

    Raises:
        UnsupportedError: the accelerator has no kernel model, or names no transport.
    """
    return Priors({**kernel_model(accelerator).priors(), **transport_of(accelerator).priors()})


Natural = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]


class MeasuredStep(Config):
    """A training step of a transformer, as somebody else ran and timed it.

    Raises:
        ValueError: columns that contradict one another; the message names one of them.
    """

    row: Annotated[str, Field(min_length=1)]
    """Name of the row."""
    accelerator: str
    """A name of the catalog, or a YAML file."""
    memory_bandwidth_gbs: Positive
    """Memory bandwidth of one GPU on its data sheet, in GB/s."""
    gpus: Natural
    """dp · tp · pp."""
    gpus_per_node: Natural
    node_network_gbps: Positive
    """Bandwidth of a node's network each way, all ports together, in Gb/s."""
    hidden: Natural
    layers: Natural
    heads: Natural
    ffn: Natural
    """Width of the hidden layer of the feed-forward network."""
    vocabulary: Natural
    sequence_length: Natural
    dp: Natural
    tp: Natural
    pp: Natural
    virtual_stages: Natural | None = None
    """Chunks of the model in each pipeline stage; None where it was not published."""
    sharding: Sharding
    """State that data-parallel ranks divide among themselves (:mod:`lightloom.planning.parallelism.strategy_space`)."""
    micro_batch: Natural | None = None
    """Sequences of a micro-batch; the last one of a rank is smaller where they do not divide; None where it was not
    published."""
    global_batch: Natural
    """Sequences of a step."""
    recomputation: Literal["none", "selective", "full"]
    sequence_parallel: Literal["no", "yes"]
    attention: Attention
    precision: Precision
    gradient_bytes: Natural
    """Bytes of one gradient element on the wire."""
    step_s: Positive
    """Seconds of the step, as measured."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Return the row itself; ValueError, which names the first column at fault, where columns contradict each
        other: GPUs are dp · tp · pp, and whole nodes where there are several; heads divide the hidden size and tp the
        heads; there is a layer for each chunk and a sequence for each replica; sequence parallelism needs tp and
        virtual stages pp above 1; interleaved stages take whole turns of micro-batches; and dp divides the batch where
        the micro-batch is left open."""
        virtual, micro = self.virtual_stages or 1, self.micro_batch or 1
        ranks, stages = self.dp * self.tp * self.pp, self.pp * virtual
        contradictions = {
            f"column 'gpus': {self.gpus}: expected dp · tp · pp, {ranks}": self.gpus != ranks,
            f"column 'heads': {self.heads}: expected a divisor of hidden, {self.hidden}": self.hidden % self.heads,
            f"column 'tp': {self.tp}: expected a divisor of heads, {self.heads}": self.heads % self.tp,
            f"column 'global_batch': {self.global_batch}: expected at least dp, {self.dp}": self.global_batch < self.dp,
            f"column 'layers': {self.layers}: expected one for each of {stages} pipeline stages": self.layers < stages,
            "column 'sequence_parallel': 'yes': expected 'no' without tensor parallelism (tp = 1)": (
                self.sequence_parallel == "yes" and self.tp == 1
            ),
            f"column 'virtual_stages': {self.virtual_stages}: expected 1 without a pipeline (pp = 1)": (
                self.pp == 1 and virtual > 1
            ),
            f"column 'virtual_stages': {self.virtual_stages}: interleaved stages take pp = {self.pp} micro-batches at "
            f"a time: expected global_batch, {self.global_batch}, to be a multiple of dp · micro_batch · pp": (
                virtual > 1 and self.global_batch % (self.dp * micro * self.pp)
            ),
            f"column 'micro_batch': empty, and dp, {self.dp}, does not divide global_batch, {self.global_batch}: "
            "expected the sequences of a micro-batch": self.micro_batch is None and self.global_batch % self.dp,
            f"column 'gpus_per_node': {self.gpus_per_node}: expected a divisor of the {self.gpus} GPUs": (
                self.gpus > self.gpus_per_node and self.gpus % self.gpus_per_node
            ),
        }
        if found := [text for text, contradicts in contradictions.items() if contradicts]:
            raise ValueError(found[0])
        return self

    @property
    def model(self) -> str:
        """The model's size as ``hidden x layers``, such as ``4096x32``; rows of equal size count as one model."""
        return f"{self.hidden}x{self.layers}"

    @property
    def tokens(self) -> int:
        """Number of tokens of a step, all GPUs together."""
        return self.global_batch * self.sequence_length

    @property
    def tokens_per_second_and_gpu(self) -> float:
        """Tokens of a step per second and GPU, as measured."""
        return self.tokens / self.gpus / self.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSteps:
    """A table of measured steps."""

    name: str
    """Name of the file, without its ending."""
    sha256: str
    steps: tuple[MeasuredStep, ...]
    file: str = "rows"
    """The file as it was named, for messages."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.steps)


def read_steps(name: Path | str) -> MeasuredSteps:
    """Return a table of measured steps, every row of it, with the file's ``name`` (without ending), its ``sha256`` and
    ``file`` as it was named; ``name`` is a path, or a name in the folder ``LIGHTLOOM_MEASURED``.

    Raises:
        ConfigError: the file is missing or differs from its checksum; two rows have one name; a cell cannot be read or
            contradicts others; or an accelerator cannot be loaded or lacks a kernel model, a node bandwidth or a rate
            for the precision. The message names file, row and column.
    """
    path = measured_file(name)
    text, digest = read_measured(path)
    steps = read_table(text, MeasuredStep, path, name="row")
    seen: set[str] = set()
    checked: set[tuple[str, str]] = set()
    for number, step in enumerate(steps, 1):
        place = f"{path}, row {number} ({step.row})"
        if step.row in seen:
            raise ConfigError(f"{place}: column 'row': {step.row!r} occurs twice")
        seen.add(step.row)
        if (step.accelerator, step.precision) not in checked:
            _check_accelerator(step, place)
            checked.add((step.accelerator, step.precision))
    return MeasuredSteps(name=path.stem, sha256=digest, steps=tuple(steps), file=str(name))


def _check_accelerator(step: MeasuredStep, place: str) -> None:
    """Raise ConfigError unless a row's accelerator can be loaded, has a kernel model and a node bandwidth, and has a
    rate for the row's precision; the message names ``place`` and the column."""
    column = "accelerator"
    try:
        accelerator = load_accelerator(step.accelerator)
        kernel_model(accelerator)
        node_link(accelerator)
        column = "precision"
        accelerator.peak_rate(step.precision)
    except InputError as error:
        raise ConfigError(f"{place}: column {column!r}: {error}") from error


# Measured rows as jobs of the planner: one for each row, or several where a row does not say everything.
#
# Where the micro-batch or the virtual stages were not published, every usual choice is a job of its own, and the
# fastest stands for the row. A row says everything that a plan chooses, so that its job is priced as ``plan`` prices
# the same strategy with everything pinned.

_MICRO_BATCHES = (1, 2, 4, 8, 16)
_VIRTUAL_STAGES = (2, 3, 4, 5, 6, 8)
_NETWORK_EFFICIENCY = 0.97
"""Part of a network's bandwidth that data reach: 388 to 390 of 400 Gb/s, as in the catalog's DGX systems."""


@dataclass(frozen=True)
class PlannedStep:
    """A step with nothing left open, as the planner prices it."""

    step: MeasuredStep
    job: Job
    strategy: Strategy
    shared: Hashable
    """Equal for steps whose jobs are."""


@dataclass(frozen=True)
class Jobs:
    """The jobs of measured rows."""

    planned: tuple[PlannedStep, ...]
    """All jobs, in the order of ``row``."""
    row: Ints
    """Which row a job stands for: [jobs]."""
    rows: int
    accelerator: Accelerator
    """Accelerator of all rows; its memory bandwidth is stated by each row."""

    @property
    def steps(self) -> tuple[MeasuredStep, ...]:
        """The measured step of each job, with every open choice filled in."""
        return tuple(planned.step for planned in self.planned)

    @cached_property
    def groups(self) -> tuple[tuple[Ints, Strategies], ...]:
        """Jobs that are priced together, each group as (places among all jobs, their strategies): jobs of one model,
        settings and fabric, and of as many stages and chunks each. A job of data parallelism alone, or with a smaller
        last micro-batch, is a group of its own."""

        def key(index: int) -> Hashable:
            """Return what jobs have in common that are priced together."""
            planned, strategy = self.planned[index], self.planned[index].strategy
            alone = strategy.plain or strategy.micro_batch
            return planned.shared, strategy.pp, strategy.virtual_stages, index if alone else -1

        return tuple(
            (np.array(indices), Strategies.of(*(self.planned[index].strategy for index in indices)))
            for indices in in_groups(range(len(self.planned)), key).values()
        )

    @cached_property
    def measured(self) -> Floats:
        """Measured seconds of the step of each row: [rows]."""
        seconds = np.zeros(self.rows)
        seconds[self.row] = [planned.step.step_s for planned in self.planned]
        return seconds

    def fastest(self, seconds: Floats) -> tuple[Floats, Ints]:
        """Return the least seconds of each row, and the index of the job that takes them: both [rows]. ``seconds`` are
        those of each job: [jobs]."""
        order = np.lexsort((seconds, self.row))
        first = np.searchsorted(self.row[order], np.arange(self.rows))
        return seconds[order][first], order[first]

    def only(self, jobs: Ints) -> Jobs:
        """Return these rows with one job each; ``jobs`` are indices of jobs, one for each row in the order of the rows:
        [rows]."""
        return replace(self, planned=tuple(self.planned[job] for job in jobs), row=np.arange(self.rows))

    def subset(self, keep: Mask) -> Jobs:
        """Return the jobs of the rows for which ``keep`` [rows] is True, with the remaining rows renumbered from 0."""
        jobs = np.flatnonzero(keep[self.row])
        planned = tuple(self.planned[job] for job in jobs)
        return replace(self, planned=planned, row=(np.cumsum(keep) - 1)[self.row[jobs]], rows=int(keep.sum()))


def jobs_of(steps: Sequence[MeasuredStep], accelerator: Accelerator) -> Jobs:
    """Return the jobs of rows that were measured on one accelerator: one a row, or one for each usual choice of
    micro-batch (1 to 16 sequences, powers of two) and of virtual stages (chunks of the model that a pipeline stage
    holds: 1, and with a pipeline 2 to 6 or 8) where the row leaves these open and the choice divides its batch and
    layers; in the order of the rows, each with the number of its row, from 0. Each takes the memory bandwidth that its
    row states, and is priced by the collective library of the accelerator's transport.

    Raises:
        ConfigError: no usual micro-batch divides what a rank works on.
        UnsupportedError: the accelerator names no transport, or the bandwidth into its node is not known.
    """
    choices = [(index, choice) for index, step in enumerate(steps) for choice in _open_choices(step)]
    graph_of, known = cache(partial(transformer_graph, batch=1)), dict[tuple[TransformerSizes, str, bool], Job]()

    def planned(step: MeasuredStep) -> PlannedStep:
        """Return the job of one step, priced by the priors; those of one model share its graph and its columns."""
        sizes, settings, fabric = sizes_of(step), settings_of(step), fabric_of(step, accelerator)
        machine = accelerator.model_copy(update={"memory_bandwidth": step.memory_bandwidth_gbs * 1e9})
        key, prices = (sizes, settings.model_dump_json(), overlaps(step)), LibraryPricing(fabric)
        if key not in known:
            known[key] = Job.of(graph_of(sizes), machine, fabric, settings, prices, overlap=key[2])
        shared = key, step.memory_bandwidth_gbs, fabric.ranks, *fabric.tiers
        return PlannedStep(step, known[key].repriced(machine, fabric, prices), strategy_of(step), shared)

    rows = np.array([index for index, _ in choices], np.int64)
    return Jobs(tuple(planned(choice) for _, choice in choices), rows, len(steps), accelerator)


def sizes_of(step: MeasuredStep) -> TransformerSizes:
    """Return the sizes of the transformer that a step trains: hidden, layers, heads, ffn, vocabulary and sequence
    length."""
    return TransformerSizes(**{field.name: getattr(step, field.name) for field in fields(TransformerSizes)})


def overlaps(step: MeasuredStep) -> bool:
    """Return whether a step exchanges gradients while it computes: True where the data-parallel ranks shard parameters,
    gradients or optimizer state (``sharding`` is not "none")."""
    return step.sharding != "none"


def settings_of(step: MeasuredStep) -> TrainingSettings:
    """Return the training settings of a measured step: its precision, attention and gradient bytes (the same where
    gradients are sharded); stages have the same number of blocks each.

    Gradients overlap the backward pass only where data-parallel ranks shard anything: Megatron-LM exchanged gradients
    after the last pass; PyTorch's sharding gathers and reduces meanwhile.
    """
    stated = attributes(step, "precision attention gradient_bytes sharded_gradient_bytes=gradient_bytes")
    return TrainingSettings(stage_blocks="equal", overlap_gradients=overlaps(step), **stated)


def fabric_of(step: MeasuredStep, accelerator: Accelerator) -> Tiers:
    """Return the fabric of a step's GPUs: the switch of each node, with the accelerator's bandwidth into it and no
    latency, and the network between nodes, whose stated bandwidth (Gbit/s of a node, each way) the GPUs of a node share
    equally, as a switch that is not oversubscribed. Data reach 97 % of the network's bandwidth, and in the node the
    share that the transport's generation states (all of it without one).

    Raises:
        UnsupportedError: the accelerator names no transport, or the bandwidth into its node is not known.
    """
    transport = transport_of(accelerator)
    share = 1.0 if transport.generation is None else transport.generation.link_share
    size, port = min(step.gpus_per_node, step.gpus), step.node_network_gbps * 1e9 / 8 / step.gpus_per_node
    node = Tier(shape="switch", size=size, bandwidth=node_link(accelerator), wire_efficiency=share, latency=0.0)
    network = Tier(shape="switch", bandwidth=port, wire_efficiency=_NETWORK_EFFICIENCY, taper=1.0)
    return Tiers(ranks=step.gpus, tiers=(node, network), transport=transport)


def strategy_of(step: MeasuredStep) -> Strategy:
    """Return the strategy of a step, whose micro-batch must be known, with the collective library as its algorithm
    ("library") and gradients exchanged as they are. All ranks have as much to do as the busiest, so that the global
    batch is rounded up to a multiple of dp; the micro-batch is at most the share of one data-parallel rank, and the
    last one is smaller where it does not divide that."""
    assert step.micro_batch is not None
    share = -(-step.global_batch // step.dp)
    micro = min(step.micro_batch, share)
    count, rest = divmod(share, micro)
    return Strategy(
        **attributes(step, "dp tp pp sharding recomputation virtual_stages"),
        micro_batches=count + bool(rest),
        global_batch=share * step.dp,
        algorithm=LIBRARY.name,
        exchange=0,
        sequence_parallel=step.sequence_parallel == "yes",
        micro_batch=micro if rest else 0,
    )


def _open_choices(step: MeasuredStep) -> list[MeasuredStep]:
    """Return the step with every usual choice of micro-batch (1 to 16, powers of two) and of virtual stages (1, and
    with a pipeline 2 to 6 or 8 where they divide the layers of a stage) that it leaves open and that divides its batch,
    with several virtual stages in whole turns of pp micro-batches (a micro-batch that it states need not divide it with
    one virtual stage); micro-batches vary slowest; the step alone where none is open.

    Raises:
        ConfigError: no choice fits.
    """
    if step.micro_batch is not None and step.virtual_stages is not None:
        return [step]
    micro_batches = (step.micro_batch,) if step.micro_batch else _MICRO_BATCHES
    usual = [1, *(number for number in _VIRTUAL_STAGES if step.pp > 1 and step.layers % (step.pp * number) == 0)]
    choices = []
    for micro, virtual in product(micro_batches, [step.virtual_stages] if step.virtual_stages else usual):
        # Interleaved stages take as many micro-batches at a time as there are stages.
        at_a_time = step.dp * micro * (step.pp if virtual > 1 else 1)
        if step.global_batch % at_a_time == 0 or (virtual == 1 and step.micro_batch):
            choices.append(step.model_copy(update={"micro_batch": micro, "virtual_stages": virtual}))
    if not choices:
        raise ConfigError(f"row {step.row}: column 'micro_batch': not published, and dp does not divide global_batch")
    return choices


# Seconds of measured steps' jobs for given parameters: each priced as ``lightloom plan`` prices the same strategy.
#
# Strategies of one job with as many stages are priced together, as columns; the others are simulated one by one.


def step_seconds(jobs: Jobs, values: Mapping[str, float]) -> Floats:
    """Return the predicted seconds of a step of each job: [jobs].

    Args:
        jobs: jobs of measured rows (:func:`jobs_of`).
        values: values of parameters by name, as :class:`Priors` names them; others stay those of the accelerator and
            its transport.
    """
    kernels = kernels_with(jobs.accelerator, values)
    transport = transport_of(jobs.accelerator).with_parameters(values)
    seconds = np.zeros(len(jobs.planned))
    for which, rows in jobs.groups:
        planned = jobs.planned[which[0]]
        accelerator = planned.job.accelerator.model_copy(update={"kernels": kernels})
        fabric = planned.job.fabric.model_copy(update={"transport": transport})
        pricing = LibraryPricing(fabric)
        job, first = planned.job.repriced(accelerator, fabric, pricing), planned.strategy
        alone = first.plain or first.micro_batch
        seconds[which] = strategy_seconds(job, first) if alone else planned_seconds(job, rows, pricing.on_axis)
    return seconds
