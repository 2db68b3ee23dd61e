"""Workers of a sweep: processes on this machine, or an existing Dask or Ray cluster."""

import logging
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import Any, Self, TypeVar, cast

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import evaluate, find
from lightloom.core.errors import ConfigError, InputError, needing
from lightloom.core.results import attributes, in_groups
from lightloom.machines.clusters.cluster import Cluster
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import load_workload
from lightloom.planning.pricing.schedule_prices import SchedulePrices
from lightloom.planning.search.request import Pins, SearchRequest
from lightloom.planning.search.search import search
from lightloom.planning.sweeps.experiment import CollectivePoint, PlanPoint, Point, code_version

# Compute the rows of points, as a worker does. Points of a batch share a schedule or a traced model.

Row = dict[str, Any]
DONE, REFUSED, FAILED = "done", "refused", "failed"
_COLLECTIVES, _PLANS = 32, 8
"""Number of points in a batch: small, so that a killed process loses little; large, so that sharing pays."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Points of one family, with their keys, and the version of the code that must compute them."""

    code: str
    points: tuple[tuple[str, Point], ...]


def batches(points: Iterable[tuple[str, Point]]) -> list[Batch]:
    """Return the points, pairs of key and point, in batches, each of one family and in their order; every point is in
    one batch. A batch has at most 8 plans, 32 collectives, or 1 collective whose schedule is built by size."""
    parts = []
    for members in in_groups(points, lambda keyed: keyed[1].family).values():
        first = members[0][1]
        most = _PLANS if isinstance(first, PlanPoint) else 1 if find(first.algorithm).by_size else _COLLECTIVES
        parts += [Batch(code_version(), tuple(members[at : at + most])) for at in range(0, len(members), most)]
    return parts


def compute(batch: Batch) -> list[tuple[str, Row]]:
    """Return the key and the row of each point of a batch, in its order; the row of a point that cannot be computed
    says why.

    Raises:
        ConfigError: this worker runs another version of the code than the process that made the batch.
        MemoryError, OSError: the machine failed.
    """
    if batch.code != code_version():
        raise ConfigError(f"a worker has code {code_version()}: expected {batch.code}, the same lightloom everywhere")
    built: dict[str, Any] = {}
    return [(key, _point_row(point, built)) for key, point in batch.points]


def _collective_row(point: CollectivePoint, built: dict[str, Any]) -> Row:
    """Return the columns of a collective's result by name: ``time_s``, ``energy_j`` (None where unknown),
    ``lower_bound_s`` and ``bound_by``, ``ratio``, the time over that bound (None for a bound of 0), ``steps``,
    ``transmission_s``, ``conversion_s``, ``reconfiguration_s`` and ``static_circuits``; or those of a refusal where the
    algorithm declines it. ``built`` holds the prices of earlier points of the batch, where one schedule serves all
    sizes, and is filled in place."""
    algorithm, fabric = find(point.algorithm), point.site.fabric
    reason = algorithm.refusal(point.kind, fabric, point.cost_model)
    if reason:
        return _refused(reason)
    collective = Collective(cast(Any, point.kind), fabric.ranks, point.nbytes)
    if algorithm.by_size:
        evaluation = evaluate(algorithm, collective, fabric, point.cost_model)
        cost, bound = evaluation.cost, evaluation.bound
    else:
        prices = built.setdefault("prices", SchedulePrices(algorithm, fabric, point.cost_model))
        priced = prices(collective.kind, collective.nbytes)
        cost, bound = priced.cost, priced.bound
    parts = "steps transmission_s=transmission conversion_s=conversion reconfiguration_s=reconfiguration"
    return {
        **attributes(cost, "time_s=time energy_j=energy"),
        **attributes(bound, "lower_bound_s=time bound_by"),
        "ratio": cost.time / bound.time if bound.time else None,
        **attributes(cost, f"{parts} static_circuits=static"),
    }


def _plan_row(point: PlanPoint) -> Row:
    """Return the columns of a plan's result by name: ``time_s`` and ``energy_j`` of a step (the latter None where a
    part of it is missing), ``watts_per_rank``, ``dollars_per_step``, ``samples_per_dollar``, ``samples_per_joule`` and
    ``goodput`` (each None where a part is missing), where the seconds of the step go (``compute_s``,
    ``exposed_communication_s``, ``exposed_reconfiguration_s``, ``idle_s``), ``communication_s``, and ``memory_bytes``
    of the fullest rank with ``fits_memory`` (None where the accelerator's memory is unknown). The plan is the winner of
    a search of the point's one strategy without recomputation, whether it fits or not."""
    cluster = point.site.place
    assert isinstance(cluster, Cluster)
    graph = _traced_graph(point.workload, point.workload_content, point.batch, point.sequence_length)
    training = cluster.training.model_copy(update={"batch_per_rank": point.batch})
    asked: Row = {"global_batches": (point.batch * cluster.ranks,), "strategies": (point.strategy,), "must_fit": False}
    asked["algorithms"] = () if point.algorithm == "all" else (point.algorithm,)
    request = SearchRequest(pins=Pins(recomputation="none"), **asked, **attributes(point, "cost_model overlap"))
    plan = search(graph, replace(cluster, training=training, reference=None), request).winner
    return {
        **attributes(plan, "time_s=step_time energy_j=energy.total_j"),
        **plan.ledger.figures(),
        **plan.breakdown,
        "communication_s": plan.communication_time,
        "memory_bytes": float(plan.memory),
        "fits_memory": plan.fits,
    }


@lru_cache(maxsize=2)
def _traced_graph(workload: str, content: str, batch: int, sequence_length: int | None) -> ComputeGraph:  # noqa: ARG001 - a changed file is another model
    """Return the graph of a workload at a batch and sequence length (None: its own), the latest two cached. ``content``
    is the hash of its file and tells changed files apart in the cache."""
    return load_workload(workload, batch=batch, sequence_length=sequence_length)


def _point_row(point: Point, built: dict[str, Any]) -> Row:
    """Return the row of a point, with ``status`` done, refused (input that cannot run) or failed (any other error but
    of memory or system), the latter two with the reason in ``why``. ``built`` is shared by the points of a batch."""
    row = point.columns() | {"status": DONE}
    if point.site.why:
        return row | _refused(point.site.why)
    try:
        return row | (_plan_row(point) if isinstance(point, PlanPoint) else _collective_row(point, built))
    except InputError as error:
        return row | _refused(str(error))
    except (MemoryError, OSError):
        raise  # The machine failed, not the point.
    except Exception as error:  # A plug-in may raise anything; the other points are computed.
        return row | {"status": FAILED, "why": f"{type(error).__name__}: {error}"}


def _refused(why: str) -> Row:
    """Return the columns ``status`` and ``why`` of a refused point, the reason on one line."""
    return {"status": REFUSED, "why": " ".join(why.split())}


class SearchStopped(KeyboardInterrupt):
    """Ctrl-C has ended a search; ``result`` is what it has found so far, and says what it has not searched."""

    def __init__(self, result: Any) -> None:
        """Take what was found."""
        super().__init__()
        self.result = result


T = TypeVar("T")
R = TypeVar("R")
_PATIENCE = 10
"""Time that a cluster has to answer, in seconds."""
_CHECK_INTERVAL = 1.0
"""Time between a worker's checks that its coordinator is alive, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """``jobs`` processes on this machine, or the workers of the cluster at an address.

    Raises:
        ConfigError: no process, or two clusters.
    """

    jobs: int | None = None
    """Number of processes; None starts one per core."""
    dask: str | None = None
    ray: str | None = None

    def __post_init__(self) -> None:
        """Raise ConfigError for fewer than one process, or for two clusters."""
        if self.jobs is not None and self.jobs < 1:
            raise ConfigError(f"{self.jobs} workers: expected at least one process")
        if self.dask is not None and self.ray is not None:
            raise ConfigError(f"workers dask:{self.dask} and ray:{self.ray}: expected one cluster")

    @classmethod
    def read(cls, text: str | None) -> Self:
        """Return the workers of a text: ``4`` for that many processes, ``dask:ADDRESS`` or ``ray:ADDRESS`` for a
        cluster; a process for each core for None.

        Raises:
            ConfigError: any other text, or fewer than one process.
        """
        kind, _, address = (text or "").partition(":")
        if kind in ("dask", "ray") and address:
            return cls(**{kind: address})  # type: ignore[arg-type]
        if text is not None and not text.removeprefix("-").isdecimal():
            raise ConfigError(f"--workers {text!r}: expected a number of processes, dask:ADDRESS or ray:ADDRESS")
        return cls(jobs=None if text is None else int(text))

    def results(self, function: Callable[[T], R], work: Sequence[T]) -> Generator[R, None, None]:
        """Yield the results of a function for each item of ``work``, as they finish, in any order; closing the
        generator stops the work. The function must be at the top level of a module, so that workers can import it; an
        error that it raises ends the work and is raised here.

        Raises:
            UnsupportedError: joblib, Dask or Ray is not installed.
            ConfigError: no cluster at the address, one that is lost, a worker that died or has other code.
        """
        if self.dask is not None:
            return _on_dask(self.dask, function, work)
        return _local(function, work, self.jobs or -1) if self.ray is None else _on_ray(self.ray, function, work)


def _local(function: Callable[[T], R], work: Sequence[T], jobs: int) -> Generator[R, None, None]:
    """Yield the results of a function for each item of ``work`` from ``jobs`` processes on this machine (-1: one per
    core), in any order; errors of the function are raised here.

    Raises:
        ConfigError: a process was killed.
        UnsupportedError: joblib is not installed.
    """
    joblib = _import_extra("joblib", "sweep")
    parallel = joblib.Parallel(jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
    work_on = joblib.delayed(partial(_compute_for, os.getpid(), function))
    with _ignoring_interrupts():
        results = parallel(work_on(batch) for batch in work)
    with warnings.catch_warnings(), closing(results):
        # joblib warns that unfinished tasks are dropped, which is what stopping means.
        warnings.filterwarnings("ignore", r"\d+ tasks (have been successfully executed|which were still)")
        try:
            yield from results
        except BrokenExecutor as error:
            killed = "a worker was killed, perhaps for lack of memory"
            raise ConfigError(f"{killed}: run the same command with fewer --workers to resume") from error


def _compute_for(coordinator: int, function: Callable[[T], R], item: T) -> R:
    """Return the function's result for an item. In another process than ``coordinator`` (a process id), a thread is
    started first that ends the process with its coordinator, so that none competes with a resumed sweep."""
    if os.getpid() != coordinator:
        _watch(coordinator)
    return function(item)


@cache
def _watch(coordinator: int) -> None:
    """Start a thread, once, that ends this process within about a second after its parent is no longer the process of
    id ``coordinator``."""

    def end() -> None:
        """Look every second whether the parent is still the coordinator, and end the process when it is not."""
        while os.getppid() == coordinator:
            time.sleep(_CHECK_INTERVAL)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C within the context, so that processes started there ignore it too, which a terminal sends to the
    whole group; outside of the main thread nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _on_dask(address: str, function: Callable[[T], R], work: Sequence[T]) -> Generator[R, None, None]:
    """Yield the results of a function for each item of ``work`` from the workers of a Dask cluster, in any order.
    Errors of the function are raised here, but an OSError, ImportError or RuntimeError counts as a loss of the cluster.

    Raises:
        ConfigError: the scheduler at ``address`` does not answer, or the cluster is lost.
        UnsupportedError: Dask is not installed.
    """
    distributed = _import_extra("distributed", "dask")
    with _quiet_dask(), _dask_client(distributed, address) as client:
        futures = client.map(function, work, pure=False)
        try:
            for future in distributed.as_completed(futures, loop=client.loop):
                yield future.result()
        except (CancelledError, OSError, ImportError, RuntimeError, distributed.scheduler.KilledWorker) as error:
            why = f"the cluster was lost, or lacks lightloom: {_first_line(error)}"
            raise ConfigError(f"dask:{address}: {why}; the same command resumes") from error


def _dask_client(distributed: Any, address: str) -> Any:
    """Return a client of the scheduler at an address; ``distributed`` is the module of Dask.

    Raises:
        ConfigError: no scheduler answers there within 10 s.
    """
    try:
        # The address is checked first: a client that cannot connect takes long to close.
        distributed.comm.get_address_host_port(address)
        return distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"dask:{address}: no Dask scheduler answers there: {_first_line(error)}") from error


@contextmanager
def _quiet_dask() -> Iterator[None]:
    """Disable all logging up to the level of errors within the context, as Dask logs what the raised error says;
    afterwards all logging is enabled again."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _on_ray(address: str, function: Callable[[T], R], work: Sequence[T]) -> Generator[R, None, None]:
    """Yield the results of a function for each item of ``work`` from the workers of a Ray cluster, in any order; errors
    of the function are raised here.

    Raises:
        ConfigError: ``address`` is not HOST:PORT, no cluster answers there, or it is lost.
        UnsupportedError: Ray is not installed.
    """
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if not port.isdecimal():
        raise ConfigError(f"ray:{address}: expected ray:HOST:PORT")
    ray = _import_extra("ray", "ray")
    try:
        # The address is checked first: Ray itself retries for minutes.
        socket.create_connection((host, int(port)), _PATIENCE).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"ray:{address}: no Ray cluster answers there: {_first_line(error)}") from error
    try:
        remote = ray.remote(function)
        pending = [remote.remote(item) for item in work]
        while pending:
            done, pending = ray.wait(pending)
            yield from ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        why = f"the cluster was lost: {_first_line(error)}"
        raise ConfigError(f"ray:{address}: {why}; the same command resumes") from error
    finally:
        ray.shutdown()


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _import_extra(module: str, extra: str) -> Any:
    """Import a module by its name and return it; ``extra`` is the package's extra that brings it.

    Raises:
        UnsupportedError: it is not installed; names the extra to install.
    """
    with needing(f"needs {module}", f"'lightloom[{extra}]'", module):
        return import_module(module)
