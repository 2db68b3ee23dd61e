"""Who computes: processes of this machine, or the workers of an existing Dask or Ray cluster."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lightloom.core.errors import ConfigError, UnsupportedError
from lightloom.sweeps.compute import Batch, Row, compute

Rows = Generator[list[tuple[str, Row]], None, None]
"""Rows of one batch after the other."""
_PATIENCE = 10
"""Seconds for a cluster to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """``jobs`` processes here, or those of the cluster at an address.

    Raises:
        ConfigError: no process, or two clusters.
    """

    jobs: int | None = None
    """None is one a core."""
    dask: str | None = None
    ray: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise ConfigError(f"--jobs {self.jobs}: expected at least one process")
        if self.dask is not None and self.ray is not None:
            raise ConfigError(f"--dask {self.dask} --ray {self.ray}: expected one cluster")

    def rows(self, work: Sequence[Batch]) -> Rows:
        """Rows of each batch as they are finished, in any order; closing stops the work.

        Raises:
            UnsupportedError: joblib, Dask or Ray is not installed.
            ConfigError: no cluster at the address, one that is lost, a worker that died or has other code.
        """
        if self.dask is not None:
            return _on_dask(self.dask, work)
        return _here(work, self.jobs or -1) if self.ray is None else _on_ray(self.ray, work)


def _here(work: Sequence[Batch], jobs: int) -> Rows:
    try:
        yield from _by_joblib(work, "loky", jobs)
    except BrokenExecutor as error:
        raise ConfigError(
            "a worker was ended, for want of memory perhaps: expected fewer --jobs; the same command resumes"
        ) from error


def _by_joblib(work: Sequence[Batch], backend: str, jobs: int) -> Rows:
    joblib = _import("joblib", "sweep")
    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
    with closing(parallel(joblib.delayed(compute)(each) for each in work)) as found:
        yield from found


def _on_dask(address: str, work: Sequence[Batch]) -> Rows:
    distributed = _import("distributed", "dask")
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"--dask {address}: no Dask scheduler answers there: {_first(error)}") from error
    with client:
        futures = client.map(compute, work, pure=False)
        try:
            for _, rows in distributed.as_completed(futures, with_results=True):
                yield rows
        except (CancelledError, distributed.scheduler.KilledWorker, distributed.comm.CommClosedError) as error:
            raise ConfigError(
                f"--dask {address}: the cluster was lost: {_first(error)}; the same command resumes"
            ) from error


def _on_ray(address: str, work: Sequence[Batch]) -> Rows:
    ray = _import("ray", "ray")
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"--ray {address}: no Ray cluster answers there: {_first(error)}") from error
    try:
        import_module("ray.util.joblib").register_ray()
        yield from _by_joblib(work, "ray", -1)
    finally:
        ray.shutdown()


def _first(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _import(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UnsupportedError(f"needs {module}, which is not installed: pip install 'lightloom[{extra}]'") from error
