"""Settings of all tests: Hypothesis draws afresh on a developer's machine and repeats itself where ``CI`` is set."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from tests.launched import Processes

EXAMPLES = float(os.environ.get("LIGHTLOOM_EXAMPLES", "0.12"))
"""Share of each law's random examples that is drawn; ``make test-slow`` draws them all."""

settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Before NumPy and PyTorch are imported: as many processes run tests as there are cores, and threads that wait for cores
# spin, so that small networks take ten times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if sys.dont_write_bytecode:
    # Tests start processes that import the package: each of them would compile it anew.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Collecting keeps what it makes, so that a collector that runs seldom takes a tenth of its time less.
gc.set_threshold(50_000, 20, 20)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A run in the background ignores interrupts, and so would the commands that tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if not Path("/dev/nvidiactl").exists():
    # Before anything imports Triton: without a GPU its kernels run in its interpreter.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache that the processes of a run share, so that tests neither read nor fill the user's."""
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        own = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
        patch.setenv("LIGHTLOOM_CACHE", str(own / "lightloom-cache"))
        yield


@pytest.fixture(autouse=True, scope="session")
def little_effort() -> Iterator[None]:
    """Synthesis that many tests draw among other algorithms: any design will do for what they prove."""
    from lightloom.collectives.synthesis.engine import cache

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "SCALE", 1 / 300)
        yield


@pytest.fixture(scope="session")
def processes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Processes:
    """One launch of four ranks for all laws of the folders that ask for it; ranks 2 and 1 are killed at its end."""
    from tests.launched import launch_parts

    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    folders = {item.path.parent.name for item in items if "processes" in item.fixturenames}
    return launch_parts(folders, str(tmp_path_factory.mktemp("processes")))


@pytest.fixture
def sharding() -> None:
    """Skip a test where torch does not let FSDP2's reduce-scatter be replaced."""
    from tests.launched import can_shard

    if not can_shard():
        pytest.skip("needs a torch that lets FSDP2's reduce-scatter be replaced")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each law draw :data:`EXAMPLES` of what its own settings say, but no fewer than three."""
    for law in {item.obj for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)}:
        stated: settings = law._hypothesis_internal_use_settings
        count = max(round(EXAMPLES * stated.max_examples), min(3, stated.max_examples))
        law._hypothesis_internal_use_settings = settings(stated, max_examples=count)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what is imported and collected out of the garbage collector's sight, which would visit it again and again:
    a tenth of the time of compiling kernels and of searching plans."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Let the processes of ``--numprocesses`` end without freeing what they hold, for which each took 2 CPU seconds.

    What is registered first runs last, after what the modules that tests import do at the end.
    """
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the end of any other process collect everything, as some libraries complain of what is left."""
    if not hasattr(config, "workerinput"):
        gc.unfreeze()


_LONGEST = (
    "launch",
    "tests/planner/test_exact_search.py",
    "tests/collectives/test_every_algorithm.py",
    "tests/calibration/test_fit.py",
    "tests/examples/test_plugins.py",
    "tests/reports/test_pictures.py",
    "tests/studies/test_optree.py",
    "tests/cli/test_plan.py",
    "tests/cli/test_onn.py",
    "libraries",
    "sax",
    "tests/training/gpu/test_compiled.py",
    "tests/sweeps/test_kills.py",
    "tests/sweeps/test_dask.py",
)


_TOGETHER = {
    "launch": (
        "tests/training/hooks/",
        "tests/training/schedules/",
        "tests/exchange/test_distributed.py",
        "tests/exchange/test_fsdp.py",
        "tests/exchange/test_matrix.py",
    ),
    "libraries": ("tests/workloads/test_library_models.py", "tests/model_files/test_transformers.py"),
    "sax": ("tests/photonics/meshes/test_files.py", "tests/photonics/chip/"),
}
"""Files that share what is dear: hooks, executors and exchanges one launch of four ranks, models of other
libraries and photonic meshes their import."""


class _ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Costly fixtures belong to a file, and are made once.

    The longest files come first, so that no process is left with one of them at the end.
    """

    def _assign_work_unit(self, node: object) -> None:
        longest = next((scope for scope in _LONGEST if scope in self.workqueue), None)
        if longest is not None:
            self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((scope for scope, files in _TOGETHER.items() if file.startswith(files)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    """Hand whole files to the processes of ``--numprocesses``."""
    return _ByFile(config, log)
