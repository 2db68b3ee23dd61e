"""``calibrate``: parameters of an accelerator or a transport, fitted to what was measured."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import yaml

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError
from lightloom.core.files import write_atomically
from lightloom.core.results import Document, Result, attributes, cells, plain, provenance
from lightloom.core.units import format_time
from lightloom.machines.accelerators.accelerator import Accelerator
from lightloom.machines.accelerators.calibrated import Calibration
from lightloom.machines.accelerators.load import calibrated_accelerator, load_accelerator
from lightloom.machines.transports.transport import Transport
from lightloom.models.traces.kineto import Profile, read_profile
from lightloom.planning.calibration.accuracy import calibrate as fit_to
from lightloom.planning.calibration.accuracy import calibration_text
from lightloom.planning.calibration.collectives import System, fit_scales, predicted_collectives, read_systems
from lightloom.planning.calibration.fit import FOLDS
from lightloom.planning.calibration.profile import (
    FITTED,
    TIMED_FROM,
    ProfiledOperator,
    calibrate_on_profile,
    operators_of,
    predicted_seconds,
    usable_operators,
)
from lightloom.planning.calibration.rows import kernel_model, read_steps
from lightloom.reports.figures.comparisons import PredictedSeries, accuracy_figure
from lightloom.reports.html import DrawnResult
from lightloom.reports.progress import progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# What ``calibrate`` returns: parameters fitted to steps.


class Fitted(Result):
    """Base of what ``calibrate`` returns: a table of fitted values that can be written to a file."""

    __slots__ = ()

    @property
    @abstractmethod
    def title(self) -> str:
        """Heading of the table: which parameters were fitted to which measurements."""

    @abstractmethod
    def remarks(self) -> Iterable[str]:
        """Return sentences about the fit, to read below the table: what it rests on, and how far predictions are
        off."""

    @abstractmethod
    def text(self) -> str:
        """Return the YAML text of the file that :meth:`save` writes, which a cluster may name as its accelerator or a
        fabric as its transport.

        Raises:
            ConfigError: nothing is fitted.
        """

    def save(self, path: str | Path) -> Path:
        """Write the text to a file (``.yaml`` by custom; any suffix is taken), atomically and with missing folders
        made, and return its path.

        Raises:
            ConfigError: the file cannot be written, or nothing is fitted.
        """
        return write_atomically(Path(path), self.text())

    def summary(self) -> str:
        """Return the title and the remarks as one text, joined by semicolons."""
        return "; ".join([self.title, *self.remarks()])


@dataclass(frozen=True, repr=False)
class StepsCalibration(Fitted):
    """Parameters of an accelerator, fitted to measured steps."""

    calibration: Calibration
    origin: Document
    """Version, hash of the configuration, and seed."""

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator with the fitted parameters in the place of its priors, for clusters and plans."""
        return calibrated_accelerator(self.calibration)

    @property
    def title(self) -> str:
        """The calibration's own description, as its file states it: ``ACCELERATOR, calibrated on the 55 rows of
        TABLE``."""
        return self.calibration.description

    def text(self) -> str:
        """Return the calibration as the YAML text of a file that a cluster may name as its accelerator."""
        return calibration_text(self.calibration)

    def rows(self) -> list[Document]:
        """Return a row for each parameter: its name as ``parameter``; ``value`` and ``prior`` in the parameter's own
        unit; ``prior_spread`` and ``spread``, standard deviations of its natural logarithm before and after the fit;
        ``determined``, whether the latter is below 0.7 of the former; ``unit``, ``meaning``, and the ``source`` of the
        prior."""
        return [
            {"parameter": name, **parameter.model_dump(mode="json")}
            for name, parameter in self.calibration.parameters.items()
        ]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row for each parameter as text: "parameter", "prior" and "fitted" value with unit, the standard
        deviation of its logarithm in per cent before ("spread") and after the fit ("left open"), what it "rests on"
        ("rows" where the latter is below 0.7 of the former, else "prior"), and "meaning"."""
        columns = (
            "parameter: {parameter} | prior: {prior:.4g} {unit} | spread: {prior_spread:.0%} | "
            "fitted: {value:.4g} {unit} | left open: {spread:.0%} | rests on: {rests} | meaning: {meaning}"
        )
        rows = [
            {"parameter": name, "rests": "rows" if each.determined else "prior", **dict(each)}
            for name, each in self.calibration.parameters.items()
        ]
        return [{name: text.strip() for name, text in row.items()} for row in cells(columns, rows)]

    def remarks(self) -> list[str]:
        """Return a sentence on the errors of held-out steps in cross-validation (folds, mean, median, bias, 90th
        percentile, coverage of the 90 % intervals), and one that names the parameters that the rows do not determine
        (their spread stays at 0.7 of the prior's or more), if any."""
        error = self.calibration.cross_validated
        lines = [
            f"held out in {error.folds} folds: mean error {error.mean:.1%}, median {error.median:.1%}, bias "
            f"{error.bias:+.1%}, nine of ten below {error.percentile_90:.1%}; 90 % intervals hold {error.coverage:.0%}"
        ]
        if undetermined := self.calibration.undetermined():
            lines.append(f"the rows say little about {', '.join(undetermined)}: near their priors")
        return lines

    def to_json(self) -> Document:
        """Return the document that ``lightloom calibrate --json`` prints: all fields of the calibration
        (``description``, ``accelerator``; ``rows``, the table's name, checksum and number of rows; errors of held-out
        rows under ``cross_validated``; ``noise`` and ``scatter``, spreads of logarithms; ``parameters`` by name, and
        the ``covariance`` of their logarithms), with schema and provenance."""
        document = {"schema": "lightloom.calibration/1", **self.calibration.model_dump(mode="json")}
        return {**document, "provenance": self.origin}


# What ``calibrate`` returns for a profile: measured operators beside predictions, and parameters fitted to them.


@dataclass(frozen=True, repr=False)
class ProfileCalibration(Fitted):
    """Operators of a profiled step with their measured and predicted times, and what they say about the accelerator."""

    profile: Profile
    accelerator_name: str
    """The accelerator, as it was named."""
    base: Accelerator
    """The accelerator that :attr:`accelerator_name` stands for."""
    origin: Document
    """Version, hash of the configuration, and seed."""

    @cached_property
    def operators(self) -> list[ProfiledOperator]:
        """The operators of the profile that took time, calls of one name, shapes read, number format and pass (forward,
        backward, update) taken together over all steps; those whose calls took longest in all come first."""
        return operators_of(self.profile)

    @cached_property
    def refusal(self) -> str | None:
        """Message of the error why nothing is fitted: the profile is of the host alone, or has fewer than four
        operators that can be priced and take 20 µs or more a call; None where parameters are fitted, which asking for
        this does. An UnsupportedError, as of an accelerator that names no transport, passes."""
        try:
            self.calibration  # noqa: B018
        except ConfigError as error:
            return str(error)
        return None

    @cached_property
    def calibration(self) -> Calibration:
        """Parameters of the kernel model, fitted to the operators when they are first asked for.

        Raises:
            ConfigError: the profile is of the host alone, or has fewer than four operators that can be priced and take
                20 µs or more a call.
            UnsupportedError: the accelerator names no transport.
        """
        return calibrate_on_profile(self.profile, self.base, self.accelerator_name)

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator with the fitted parameters, for clusters and plans.

        Raises:
            ConfigError: nothing is fitted.
        """
        return calibrated_accelerator(self.calibration)

    @property
    def title(self) -> str:
        """Heading of the table: the profile, the devices on which it was measured, and the accelerator of the
        predictions."""
        place = " and ".join(self.profile.devices) if self.profile.on_device else "the host"
        return (
            f"operators of {self.profile.name}, on {place or 'a GPU'}, beside predictions for {self.accelerator_name}"
        )

    def text(self) -> str:
        """Return the calibration as the YAML text of a file that a cluster may name as its accelerator.

        Raises:
            ConfigError: nothing is fitted.
        """
        return calibration_text(self.calibration)

    def rows(self) -> list[Document]:
        """Return a row for each operator, those whose calls took longest in all first: ``operator`` (its name),
        ``inputs`` (shapes), number ``format`` ("tf32" where kernels of float32 say so; empty where no tensor has one),
        ``pass`` ("forward", "backward" or "update"), ``calls_per_step``, a mean; mean seconds of one call,
        ``measured_s``, ``predicted_s`` (by the priors) and ``fitted_s``; ``share`` of the time of all these operators,
        0 to 1; and names of the GPU's ``kernels``, each once. ``predicted_s`` and ``fitted_s`` are None where an
        operator cannot be priced, ``fitted_s`` also where nothing is fitted."""
        total = sum(operator.seconds for operator in self.operators)
        priors = predicted_seconds(self.operators, self.base)
        fitted = np.full(len(priors), np.nan) if self.refusal else predicted_seconds(self.operators, self.accelerator)
        return [
            {
                "operator": operator.key.name,
                "inputs": [list(shape) for shape in operator.key.shapes],
                "format": operator.rate or operator.key.precision,
                "pass": operator.key.step_pass,
                "calls_per_step": operator.calls / self.profile.steps,
                "measured_s": operator.mean_seconds,
                "predicted_s": None if np.isnan(prior) else float(prior),
                "fitted_s": None if np.isnan(fit) else float(fit),
                "share": operator.seconds / total,
                "kernels": list(operator.kernels),
            }
            for operator, prior, fit in zip(self.operators, priors, fitted, strict=True)
        ]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row for each operator as text, the longest in all first: "operator" (its name without ``aten::``),
        "inputs" (shapes), "format" of numbers, "pass", "calls a step", times of one call ("measured", "predicted" by
        the priors, "fitted"), and "share" of all operators' time in per cent; "fitted" is left out where nothing is
        fitted, and a missing price is empty."""
        columns = (
            "operator: {operator} | inputs: {inputs} | format: {format} | pass: {pass} | calls a step: "
            "{calls_per_step:.4g} | measured: {measured_s:time} | predicted: {predicted_s:time}"
            f"{'' if self.refusal else ' | fitted: {fitted_s:time}'} | share: {{share:.1%}}"
        )
        rows = self.rows()
        for row in rows:
            row["operator"] = row["operator"].removeprefix("aten::")
            row["inputs"] = " ".join("x".join(map(str, shape)) or "1" for shape in row["inputs"])
        return cells(columns, rows)

    def remarks(self) -> Iterator[str]:
        """Yield sentences on the profile (steps, time in operators, share of the GPU's time that no operator launched,
        if any), then on the fit: which parameters the operators determine, from prior to fitted value, which stay near
        their priors, and the errors of operators that were held out; or, in place of these, why nothing is fitted."""
        profile = self.profile
        steps = f"{profile.steps} steps" if profile.steps > 1 else "one step"
        duration = "" if profile.step_seconds is None else f" of {format_time(profile.step_seconds)} each"
        busy = sum(operator.seconds for operator in self.operators) / profile.steps
        yield f"{steps}{duration}, {format_time(busy)} of it in these operators"
        if profile.unattributed_seconds:
            share = profile.unattributed_seconds / profile.device_seconds
            yield f"{share:.1%} of the GPU's time was launched by no operator (compiled code, collectives): left out"
        if self.refusal is not None:
            yield f"nothing fitted: {self.refusal}"
            return
        used, fitted = usable_operators(self.operators, self.base), self.calibration.parameters
        determined = [name for name in FITTED if fitted[name].determined]
        told = ", ".join(f"{name} {fitted[name].prior:.4g} to {fitted[name].value:.4g}" for name in determined)
        yield f"fitted to {len(used)} operators that are priced and take {format_time(TIMED_FROM)} or more: {told}"
        left = [name for name in FITTED if name not in determined]
        if left:
            yield f"the operators say little about {', '.join(left)}: near their priors"
        error = self.calibration.cross_validated
        yield (
            f"operators held out in {error.folds} folds: mean error {error.mean:.1%}, median {error.median:.1%}; "
            "fusion, dispatch, links and what a step adds stay at their priors"
        )

    def to_json(self) -> Document:
        """Return the document that ``lightloom calibrate --json`` prints for a profile: ``profile``, ``sha256``,
        ``accelerator``, ``devices``, ``on_device`` and ``steps`` (their number); ``step_s``, seconds of a step (None
        where not recorded), ``device_s`` and ``unattributed_s``, seconds of the GPU's work in the whole trace and of
        that which no operator launched; ``rows`` of all operators, as of :meth:`rows` (times of one call, measured, by
        the priors and fitted); ``refusal``, why nothing is fitted, or None; and the fields of the ``calibration``, None
        where there is a refusal; with schema and provenance."""
        seconds = "step_s=step_seconds device_s=device_seconds unattributed_s=unattributed_seconds"
        document = {
            "schema": "lightloom.profile/1",
            **attributes(self, "profile=profile.name sha256=profile.sha256 accelerator=accelerator_name"),
            **attributes(self.profile, f"devices on_device steps {seconds}"),
            "rows": self.rows(),
            "refusal": self.refusal,
            "calibration": None if self.refusal else self.calibration.model_dump(mode="json"),
            "provenance": self.origin,
        }
        return {name: plain(value) for name, value in document.items()}


# Predictions of collectives that others timed, and transports fitted to them.

_LEAST_ROWS = 3


@dataclass(frozen=True, repr=False)
class CollectiveAccuracy(DrawnResult):
    """Timed collectives of systems, each predicted by the system's transport."""

    systems: tuple[System, ...]
    seconds: tuple[Floats, ...]
    """Predicted seconds of the rows of each system: [rows]."""
    origin: Document
    """Version and hash of the configuration."""

    def rows(self) -> list[Document]:
        """Return a row for each timed collective: ``system`` (the name of its file without ending, with ``, CLUSTER``
        where rows name theirs), ``nodes``, ``gpus``, ``collective`` (its kind), ``nbytes`` as nccl-tests counts them
        (an all-gather's output, an all-to-all's buffer of one rank), ``measured_s`` and ``predicted_s``, and ``error``,
        predicted over measured, minus 1 (above 0 where predicted too slow)."""
        return [
            {
                "system": system.name,
                **attributes(row, "nodes gpus collective nbytes"),
                "measured_s": row.time_us * 1e-6,
                "predicted_s": float(time),
                "error": float(time / (row.time_us * 1e-6) - 1),
            }
            for system, seconds in zip(self.systems, self.seconds, strict=True)
            for row, time in zip(system.rows, seconds, strict=True)
        ]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row for each timed collective as text, by heading: system, nodes, GPUs, collective (its kind), bytes
        (with a unit), measured and predicted time, and error (predicted over measured, minus 1) in signed per cent."""
        columns = (
            "system: {system} | nodes: {nodes} | GPUs: {gpus} | collective: {collective} | bytes: {nbytes:size} | "
            "measured: {measured_s:time} | predicted: {predicted_s:time} | error: {error:+.1%}"
        )
        return cells(columns, self.rows())

    def summary(self) -> str:
        """Return a sentence for each system as one text, joined by semicolons: its name, its transport, and median and
        mean absolute relative errors of collectives below 1 MiB, from 1 MiB, and (again) from 64 MiB."""
        return "; ".join(self.lines())

    def lines(self) -> list[str]:
        """Return a sentence for each system: its name, its transport, and median and mean absolute relative errors of
        collectives below 1 MiB, from 1 MiB, and (again) from 64 MiB, with their numbers of rows; a range without rows
        is left out."""
        return [_errors(*each) for each in zip(self.systems, self.seconds, strict=True)]

    def to_json(self) -> Document:
        """Return the document that ``lightloom accuracy --json`` prints for collectives: ``systems``, each ``system``
        with the name of its ``transport`` and its number of ``rows``, and all ``rows`` in one list: system, nodes,
        GPUs, kind, bytes, measured and predicted seconds and error of each collective (:meth:`rows`); with schema and
        provenance."""
        return {
            "schema": "lightloom.collectives-accuracy/1",
            "systems": [
                {"system": system.name, "transport": system.transport.name, "rows": len(system.rows)}
                for system in self.systems
            ],
            "rows": self.rows(),
            "provenance": self.origin,
        }

    def figure(self) -> Figure:
        """Return a matplotlib figure of collectives: predicted (upwards) against measured seconds (across) on
        logarithmic axes, with the line of equality and a band within 10 % of it, one colour for each system."""
        pairs = zip(self.systems, self.seconds, strict=True)
        series = [PredictedSeries(system.name, system.measured, seconds) for system, seconds in pairs]
        return accuracy_figure(series, "collective")


def _errors(system: System, predicted: Floats) -> str:
    """Return a sentence on how far predicted seconds of a system's rows, in their order, are off: names of the system
    and its transport, then median and mean of the absolute relative errors in per cent and the number of rows, below
    1 MiB, from 1 MiB, and (again) from 64 MiB; sizes without rows are left out."""
    errors, parts, mebibyte = predicted / system.measured - 1, [], 2.0**20
    for words, least, below in (
        ("below 1 MiB", 0.0, mebibyte),
        ("from 1 MiB", mebibyte, np.inf),
        ("from 64 MiB", 64 * mebibyte, np.inf),
    ):
        size = np.abs(errors[(system.nbytes >= least) & (system.nbytes < below)])
        if len(size):
            parts.append(f"{words} median error {np.median(size):.1%}, mean {size.mean():.1%} ({len(size)} rows)")
    return f"{system.name}, {system.transport.name}: {'; '.join(parts)}"


def collective_accuracy(
    tables: Sequence[str | Path], *, cluster: str | None = None, transport: str | None = None, gpus: int | None = None
) -> CollectiveAccuracy:
    """Predict collectives that others timed, each by its system's transport, and return them beside the measured times.

    Args:
        tables: files, or names in the folder ``LIGHTLOOM_MEASURED``; ``cluster`` and ``transport`` may be columns.
        cluster: what timed collectives were measured on, if a table lacks it: a name of the catalog, or a YAML file.
        transport: their transport, if a table lacks it: a name such as nccl-hopper, or a file that `calibrate` wrote.
        gpus: number of GPUs of the collectives, if a file does not say it.

    Raises:
        ConfigError: a file is missing, a row cannot be read (names file, row and column), nothing names a table's
            cluster or its transport, or the transport costs nothing.
        UnsupportedError: a cluster's fabric has no tiers of switches.
    """
    systems, digests = read_systems(tables, cluster=cluster, transport=transport, gpus=gpus)
    seconds = tuple(predicted_collectives(system, system.transport) for system in systems)
    return CollectiveAccuracy(tuple(systems), seconds, provenance([digests, cluster, transport]))


@dataclass(frozen=True, repr=False)
class TransportCalibration(Fitted):
    """A transport with four numbers fitted to the timed collectives of a system."""

    transport: Transport
    system: System
    """The rows that it was fitted to."""
    origin: Document
    """Version and hash of the configuration."""

    @property
    def title(self) -> str:
        """Heading of the table: the transport that was fitted, the number of rows and the system that they were
        measured on."""
        return f"{self.system.transport.name} fitted to the {len(self.system.rows)} rows of {self.system.name}"

    def text(self) -> str:
        """Return the fitted transport as the YAML text of a file that a fabric may name as its transport; its sources
        say what the scales were fitted to."""
        document = self.transport.model_dump(mode="json", exclude_none=True, exclude={"name"})
        document["description"] = self.title
        document["sources"] = {**self.transport.sources, "scales": f"fitted to {self.system.name}"}
        return yaml.safe_dump(document, sort_keys=False, width=120)

    def rows(self) -> list[Document]:
        """Return a row for each of the four factors of a transport's own latencies and bandwidths: ``number``, its name
        (``latency``, ``network_latency``, ``bandwidth`` or ``network_bandwidth``, the latter of each pair between
        domains), ``typical``, the factor before the fit, and ``fitted``."""
        before, after = (each.scales.model_dump() for each in (self.system.transport, self.transport))
        return [{"number": name, "typical": before[name], "fitted": after[name]} for name in after]

    def display_rows(self) -> list[dict[str, str]]:
        """Return a row for each of the four numbers as text: its name with spaces, and its factor on the transport's
        own constant, typical and fitted, as "× 1.2"."""
        rows = [row | {"number": row["number"].replace("_", " ")} for row in self.rows()]
        return cells("number: {number} | typical: × {typical:.3g} | fitted: × {fitted:.3g}", rows)

    def remarks(self) -> list[str]:
        """Return sentences on the fit: one with names of system and transport and median and mean of the absolute
        relative errors on the very rows that it was fitted to, below 1 MiB, from 1 MiB and from 64 MiB; and what no row
        measured (the network if no row crosses scale-up domains, the latency inside a domain if every row does)."""
        lines = [_errors(self.system, predicted_collectives(self.system, self.transport))]
        if not self.system.across.any():
            lines.append("no row crosses domains: what is said of the network is typical of other systems")
        if self.system.across.all():
            lines.append("every row crosses domains: the latency inside a domain is typical of other systems")
        return lines

    def to_json(self) -> Document:
        """Return the document that ``lightloom calibrate --json`` prints for collectives: ``rows``, their number, and
        ``transport``, all fields of the fitted transport; with schema and provenance."""
        return {
            "schema": "lightloom.transport-calibration/1",
            "rows": len(self.system.rows),
            "transport": self.transport.model_dump(mode="json"),
            "provenance": self.origin,
        }


@overload
def calibrate(rows: str | Path, *, accelerator: str) -> StepsCalibration: ...


@overload
def calibrate(
    *,
    collectives: str | Path,
    accelerator: str | None = None,
    cluster: str | None = None,
    transport: str | None = None,
    gpus: int | None = None,
) -> TransportCalibration: ...


@overload
def calibrate(*, accelerator: str, profile: str | Path) -> ProfileCalibration: ...


def calibrate(
    rows: str | Path | None = None,
    *,
    accelerator: str | None = None,
    collectives: str | Path | None = None,
    profile: str | Path | None = None,
    cluster: str | None = None,
    transport: str | None = None,
    gpus: int | None = None,
) -> Fitted:
    """Fit an accelerator's parameters to measured steps or to a profile of one, or a transport to timed collectives.

    Exactly one of ``rows``, ``collectives`` and ``profile`` is given. Of a profile nothing is fitted before it is asked
    for.

    >>> calibrate("steps.csv", accelerator="a100").save("my-a100.yaml")
    >>> plan("gpt2-355m", cluster="a100-1024-two-tier", accelerator="my-a100.yaml")
    >>> calibrate(collectives="nccl-tests.txt", cluster="dgx-h100-64").save("my-nccl.yaml")
    >>> plan("gpt2-355m", cluster="dgx-h100-64", set={"fabric.transport": "my-nccl.yaml"})

    Args:
        rows: a table of measured steps, a file or a name in the folder ``LIGHTLOOM_MEASURED``.
        accelerator: what was measured on: a name of the catalog, or a YAML file.
        collectives: timed collectives instead of steps: a table, or what nccl-tests prints.
        cluster: what the collectives were measured on, where they leave a node, in place of ``accelerator``: a name of
            the catalog, or a YAML file.
        transport: what carries the collectives (such as nccl-hopper), if not what the accelerator names.
        profile: a profile of ``torch.profiler`` instead (.json, .json.gz): its operators beside predictions, and the
            parameters of the kernel model that they determine.
        gpus: number of GPUs of the collectives, if their file does not say it.

    Returns:
        A :class:`StepsCalibration` of ``rows``, a :class:`TransportCalibration` of ``collectives``, a
            :class:`ProfileCalibration` of ``profile``.

    Raises:
        ConfigError: a file is missing, or a row cannot be expressed (names file, row and column); rows are of another
            accelerator, or it is calibrated already; there are fewer than four steps; collectives are of several
            systems, or fewer than three; or arguments do not go together.
        UnsupportedError: the accelerator has no kernel model, or the cluster's fabric no tiers of switches.
        WorkloadError: ``profile`` holds no profile, or one without operators or shapes, or a malformed event.
    """
    if sum(source is not None for source in (rows, collectives, profile)) != 1:
        raise ConfigError("expected a table of measured steps, --collectives or --profile: one of the three")
    of_collectives = {"--gpus": gpus, "--cluster": cluster, "--transport": transport}
    if collectives is None and (given := [f"{name} {value}" for name, value in of_collectives.items() if value]):
        raise ConfigError(f"{given[0]}: of collectives, of which there are none: expected a file of them")
    if collectives is not None:
        if accelerator is not None and cluster is not None:
            raise ConfigError(f"--accelerator {accelerator}: --cluster {cluster} states it: expected one of them")
        measured_on = {"cluster": cluster, "transport": transport, "accelerator": accelerator}
        systems, digests = read_systems([collectives], **measured_on, gpus=gpus)
        if len(systems) > 1:
            named = "; ".join(system.name for system in systems)
            expected = f"{len(systems)} systems ({named}): expected one, which a transport is fitted to"
            raise ConfigError(f"{collectives}: {expected}")
        (system,) = systems
        if len(system.rows) < _LEAST_ROWS:
            least = f"expected at least {_LEAST_ROWS} to fit a transport to"
            raise ConfigError(f"{collectives}: {len(system.rows)} rows: {least}")
        origin = provenance([digests, *measured_on.values()])
        return TransportCalibration(fit_scales(system, system.transport), system, origin)
    if accelerator is None:
        raise ConfigError("expected --accelerator, what was measured on")
    if profile is not None:
        machine = load_accelerator(accelerator)
        kernel_model(machine)
        operators = read_profile(Path(profile))
        return ProfileCalibration(operators, accelerator, machine, provenance([operators.sha256, accelerator], seed=0))
    steps = read_steps(str(rows))
    with progress("Fits", 1 + min(FOLDS, len(steps))) as advance:
        calibration = fit_to(steps, accelerator, advance)
    return StepsCalibration(calibration, provenance([steps.sha256, accelerator], seed=0))
