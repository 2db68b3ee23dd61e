"""Training steps that others measured: one row of a table for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lightloom.accelerators.base import Precision
from lightloom.accelerators.load import load_accelerator
from lightloom.calibration.measured import measured_file, read_measured, read_table
from lightloom.calibration.priors import kernel_model, node_link
from lightloom.clusters.settings import Attention
from lightloom.core.errors import ConfigError, InputError
from lightloom.core.fields import Config
from lightloom.parallelism.sharding import Sharding

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
    """What data-parallel ranks divide among themselves (:mod:`lightloom.parallelism.sharding`)."""
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
        if self.gpus != self.dp * self.tp * self.pp:
            raise ValueError(f"column 'gpus': {self.gpus}: expected dp · tp · pp, {self.dp * self.tp * self.pp}")
        if self.hidden % self.heads:
            raise ValueError(f"column 'heads': {self.heads}: expected a divisor of hidden, {self.hidden}")
        if self.heads % self.tp:
            raise ValueError(f"column 'tp': {self.tp}: expected a divisor of heads, {self.heads}")
        if self.global_batch < self.dp:
            raise ValueError(f"column 'global_batch': {self.global_batch}: expected at least dp, {self.dp}")
        if self.layers < self.pp * (self.virtual_stages or 1):
            stages = self.pp * (self.virtual_stages or 1)
            raise ValueError(f"column 'layers': {self.layers}: expected one for each of {stages} pipeline stages")
        if self.sequence_parallel == "yes" and self.tp == 1:
            raise ValueError("column 'sequence_parallel': 'yes': expected 'no' without tensor parallelism (tp = 1)")
        if self.pp == 1 and (self.virtual_stages or 1) > 1:
            raise ValueError(f"column 'virtual_stages': {self.virtual_stages}: expected 1 without a pipeline (pp = 1)")
        if (self.virtual_stages or 1) > 1 and self.global_batch % (self.dp * (self.micro_batch or 1) * self.pp):
            raise ValueError(
                f"column 'virtual_stages': {self.virtual_stages}: interleaved stages take pp = {self.pp} micro-batches "
                f"at a time: expected global_batch, {self.global_batch}, to be a multiple of dp · micro_batch · pp"
            )
        if self.micro_batch is None and self.global_batch % self.dp:
            raise ValueError(
                f"column 'micro_batch': empty, and dp, {self.dp}, does not divide global_batch, {self.global_batch}: "
                "expected the sequences of a micro-batch"
            )
        if self.gpus > self.gpus_per_node and self.gpus % self.gpus_per_node:
            raise ValueError(
                f"column 'gpus_per_node': {self.gpus_per_node}: expected a divisor of the {self.gpus} GPUs"
            )
        return self

    @property
    def model(self) -> str:
        """The model's size, as ``hidden x layers``: rows of one model are compared by rank."""
        return f"{self.hidden}x{self.layers}"

    @property
    def tokens_per_second_and_gpu(self) -> float:
        """Tokens of a step per second and GPU, as measured."""
        return self.global_batch * self.sequence_length / self.step_s / self.gpus


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
        return len(self.steps)


def read_steps(name: Path | str) -> MeasuredSteps:
    """Read a table of measured steps, every row of it.

    Raises:
        ConfigError: the file is missing or differs from its checksum; or a row cannot be expressed: the message names
            file, row and column.
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
    try:
        accelerator = load_accelerator(step.accelerator)
        kernel_model(accelerator)
        node_link(accelerator)
    except InputError as error:
        raise ConfigError(f"{place}: column 'accelerator': {error}") from error
    try:
        accelerator.peak_rate(step.precision)
    except InputError as error:
        raise ConfigError(f"{place}: column 'precision': {error}") from error
