"""Run a function in several processes of this host that form one gloo process group."""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from lightloom.core.files import write_atomically
from lightloom.exchange.transport.channel import LaunchError
from lightloom.exchange.transport.worker import ALL_DONE, LOST, Worker

_EXIT_SECONDS = 15.0
"""Time that processes may take to end after all have results, in seconds."""
_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class RankJob:
    """Arguments, environment and log file of one rank's process."""

    arguments: Sequence[str]
    """Arguments with which ``worker.main`` is called."""
    environment: Mapping[str, str]
    log: str
    """Path of the file that gets its stdout and stderr."""


class ForkedRank:
    """A rank, with the methods of ``subprocess.Popen`` that the launcher uses."""

    def __init__(self, parent: subprocess.Popen[bytes], folder: Path, rank: int) -> None:
        """Keep the process that forks all ranks, and where in ``folder`` this rank's number and exit code will
        appear."""
        self._parent = parent
        self._process, self._ending = folder / f"{rank}.process", folder / f"{rank}.ending"
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the rank runs. Once the process that forked it has
        ended, a rank whose own code is unknown has that of this process, or 1 where that is 0."""
        if self.returncode is None:
            parent = self._parent.poll()
            if self._ending.exists():
                self.returncode = int(self._ending.read_text())
            elif parent is not None:
                # Ranks end with the process that forked them.
                self.returncode = parent or 1
        return self.returncode

    def kill(self) -> None:
        """Kill the rank's process; before it was forked, the process that forks all ranks, and with it every rank."""
        if self._process.exists():
            os.kill(int(self._process.read_text()), signal.SIGKILL)
        else:
            self._parent.kill()

    def wait(self) -> int:
        """Return the exit code of this rank, negative for a signal, once all ranks have ended."""
        self._parent.wait()
        code = self.poll()
        assert code is not None, "ranks end before the process that forked them"
        return code


_Process: TypeAlias = subprocess.Popen[bytes] | ForkedRank


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one rank ended: with a value or with an error."""

    rank: int
    value: Any = None
    error: str | None = None
    """``Type: message`` of the exception that it raised, or how it ended without a result."""
    log: str = ""
    """Its stdout and stderr."""
    exit_code: int | None = None
    """Exit code as the system reports it; -9 also for a process that was killed because it did not end."""


def launch(
    function: Callable[[Worker], object] | str,
    ranks: int,
    timeout: float,
    arguments: Mapping[str, object] | None = None,
    *,
    check: bool = True,
    store: Any = None,
    prefixes: Sequence[Sequence[str]] = (),
) -> list[Outcome]:
    """Call ``function(worker)`` in ``ranks`` processes that form one gloo process group, and return how each ended, by
    rank: its value, or its error in words, with its log (standard output and error) and exit code, negative for a
    signal.

    Args:
        function: importable, as itself or as ``module:name``; takes a ``Worker``, returns what JSON can hold.
        ranks: number of processes.
        timeout: time for everything, in seconds; processes that still run then are killed.
        arguments: what ``worker.arguments`` holds, passed as JSON.
        check: raise unless every rank wrote a value; otherwise failures are in the outcomes.
        store: ``TCPStore`` through which ranks find each other; a new one on the loopback device unless given.
        prefixes: by rank, what its command line begins with where ranks run on other hosts than this one; an ``env`` in
            it sets ``LIGHTLOOM_HOST``, where the others reach the rank, and ``GLOO_SOCKET_IFNAME``.

    Raises:
        LaunchError: a rank raised, died or ran out of time, and ``check`` is on; the message names the first one (a
            rank without a result before one that raised) and quotes its error and the last three lines of its log.
    """
    target = function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lightloom-")))
        store = store_at("127.0.0.1") if store is None else store
        processes: list[_Process] = []
        stack.callback(_kill, processes)
        jobs = [
            RankJob(
                arguments=[target, str(folder / f"{rank}.json"), json.dumps(dict(arguments or {})), str(timeout)],
                environment=_environment(rank, ranks, store),
                log=str(folder / f"{rank}.log"),
            )
            for rank in range(ranks)
        ]
        processes += _started(jobs, prefixes, folder)
        results = [folder / f"{rank}.json" for rank in range(ranks)]
        running = _await(processes, results, timeout, store.set)
        _kill(processes)
        late = dict.fromkeys(running, f"no result within {timeout:g} s")
        outcomes = [_outcome(rank, folder, late.get(rank), processes[rank].returncode) for rank in range(ranks)]
        # A rank without a result is the cause, or else the rank that failed first: the others lost their connections.
        written = [result.stat().st_mtime_ns if result.exists() else 0 for result in results]
    faults = [outcome for outcome in outcomes if outcome.error is not None]
    if check and faults:
        first = min(faults, key=lambda fault: written[fault.rank])
        tail = " | ".join(first.log.strip().splitlines()[-3:])
        raise LaunchError(f"rank {first.rank} of {ranks}: {first.error}" + (f" (log: {tail})" if tail else ""))
    return outcomes


def store_at(host: str) -> Any:
    """Return a ``TCPStore`` that listens at the address ``host`` alone, at a port that the system picks, so that no two
    launches meet at it."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    # Given a port alone, the store would listen on every network of this machine, and believe whoever connects.
    listening = socket.create_server((host, 0))
    port = listening.getsockname()[1]
    # In older torch the store of libuv takes no socket.
    return TCPStore(
        host, port, is_master=True, wait_for_workers=False, use_libuv=False, master_listen_fd=listening.detach()
    )


def _started(jobs: Sequence[RankJob], prefixes: Sequence[Sequence[str]], folder: Path) -> Sequence[_Process]:
    """Start the ranks' processes and return them, by rank.

    On Linux without prefixes they are copies of one process, which forks them; otherwise every rank is a Python
    interpreter of its own.

    Args:
        jobs: arguments, environment and log of each rank.
        prefixes: by rank, the beginning of its command line; empty for none.
        folder: folder for files about the ranks.
    """
    if sys.platform == "linux" and not prefixes:
        return _start_copies(jobs, folder)
    processes = []
    for job, prefix in zip(jobs, prefixes or [()] * len(jobs), strict=True):
        command = [*prefix, sys.executable, "-m", "lightloom.exchange.transport.worker", *job.arguments]
        with Path(job.log).open("wb") as log:
            processes.append(_popen(command, job, log))
    return processes


def _popen(command: Sequence[str], job: RankJob, log: BinaryIO) -> subprocess.Popen[bytes]:
    """Start ``command`` with the environment of a rank's job, no input, and both outputs written to ``log``; return the
    process."""
    return subprocess.Popen(command, env=job.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _environment(rank: int, ranks: int, store: Any) -> dict[str, str]:
    """Return the environment of the process of rank ``rank`` of ``ranks``.

    It is this process's own, in which ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``
    (the store's), ``PYTHONPATH`` and ``LIGHTLOOM_HOST`` (127.0.0.1) are replaced. Where this process's environment does
    not set them, OpenMP gets one thread and, on Linux, gloo the loopback device.
    """
    own = {
        "LIGHTLOOM_HOST": "127.0.0.1",
        "RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": store.host,
        "MASTER_PORT": str(store.port),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    defaults = {"OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        defaults["GLOO_SOCKET_IFNAME"] = "lo"
    return defaults | dict(os.environ) | own


def _await(
    processes: Sequence[_Process], results: list[Path], timeout: float, tell: Callable[[str, str], object]
) -> set[int]:
    """Wait until all processes have ended or ``timeout`` seconds have passed, and return the ranks that still run.
    Nothing is killed.

    Ranks are told when one has ended while others have no result, so that they do not wait for it to connect, and once
    every rank has a result or has ended. From then on exits may take 15 s.

    Args:
        processes: processes by rank.
        results: path of the result that each rank writes, by rank.
        timeout: seconds.
        tell: called with a key and words for it, which it sets in the ranks' store: ``LOST`` with a sentence that names
            the rank that has ended, ``ALL_DONE`` with an empty text.
    """
    deadline = time.monotonic() + timeout
    done = lost = False
    while time.monotonic() < deadline:
        running = [process.poll() is None for process in processes]
        if not any(running):
            break
        if not done and all(not runs or result.exists() for runs, result in zip(running, results, strict=True)):
            done = True
            tell(ALL_DONE, "")
            deadline = min(deadline, time.monotonic() + _EXIT_SECONDS)
        if not (done or lost or all(running)):
            lost = True
            tell(LOST, f"rank {running.index(False)} has ended")
        time.sleep(_POLL_SECONDS)
    return {rank for rank, process in enumerate(processes) if process.poll() is None}


def _kill(processes: Sequence[_Process]) -> None:
    """Kill the processes that still run, and wait until all have ended."""
    for process in processes:
        if process.poll() is None:
            with suppress(OSError):
                process.kill()
    for process in processes:
        process.wait()


def _outcome(rank: int, folder: Path, late: str | None, exit_code: int | None) -> Outcome:
    """Return how a rank ended, by the value or error in the result file that it wrote; also where the process was
    killed after it; where there is no file, the error is ``late`` or, where that is None, a sentence with the exit
    code."""
    log = (folder / f"{rank}.log").read_text(encoding="utf-8", errors="replace")
    try:
        written = json.loads((folder / f"{rank}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Outcome(rank, error=late or f"no result, exit code {exit_code}", log=log, exit_code=exit_code)
    return Outcome(rank, value=written.get("value"), error=written.get("error"), log=log, exit_code=exit_code)


# Ranks that are forked from one process, which has imported what they run.
#
# Importing PyTorch takes longer than most of what ranks are launched for: one process does it, and the others are its
# copies. ``python -m lightloom.exchange.transport.launch`` is that process; it starts no thread, forks all ranks, and
# stays until the last one has ended.


def _start_copies(jobs: Sequence[RankJob], folder: Path) -> list[ForkedRank]:
    """Start one process that forks all ranks, and return the ranks, by rank; files with their jobs (``ranks.json``),
    process numbers (``<rank>.process``) and exit codes (``<rank>.ending``) appear in ``folder``."""
    written = folder / "ranks.json"
    for job in jobs:
        Path(job.log).touch()
    written.write_text(json.dumps([asdict(job) for job in jobs]))
    command = [sys.executable, "-m", "lightloom.exchange.transport.launch", str(written)]
    with Path(jobs[0].log).open("ab") as log:
        parent = _popen(command, jobs[0], log)
    return [ForkedRank(parent, folder, rank) for rank in range(len(jobs))]


def fork_ranks(written: str) -> None:
    """Import what the ranks run, fork them, and return once all have ended; the process number and exit code of each
    are written to ``<rank>.process`` and ``<rank>.ending`` beside ``written``, the path of a JSON file with the job of
    each rank."""
    import torch.distributed  # noqa: F401

    from lightloom.exchange.transport import worker

    jobs, folder = [RankJob(**job) for job in json.loads(Path(written).read_text())], Path(written).parent
    with suppress(Exception):
        # Where this fails, it fails again in each rank, which says so.
        importlib.import_module(jobs[0].arguments[0].partition(":")[0])
    gc.freeze()
    parent, ranks = os.getpid(), {}
    for rank, job in enumerate(jobs):
        process = os.fork()
        if process == 0:
            _become(job, parent)
            worker.main(*job.arguments)
        ranks[process] = rank
        write_atomically(folder / f"{rank}.process", str(process))
    for _ in jobs:
        process, status = os.wait()
        write_atomically(folder / f"{ranks[process]}.ending", str(os.waitstatus_to_exitcode(status)))


def _become(job: RankJob, parent: int) -> None:
    """Make this process that of a rank: it takes the job's environment, appends both outputs to the job's log, and is
    killed by the kernel when the process ``parent``, which forked it, ends; it exits at once with code 1 where that has
    ended already."""
    library: Any = ctypes.CDLL(None)
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.environ.clear()
    os.environ.update(job.environment)
    log = os.open(job.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)


if __name__ == "__main__":
    fork_ranks(*sys.argv[1:])
