"""Ranks that are forked from one process, which has imported what they run.

Importing PyTorch takes longer than most of what ranks are launched for: one process does it, and the others are its
copies. ``python -m lightloom.exchange.transport.forked`` is that process; it starts no thread, forks all ranks, and
stays until the last one has ended.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lightloom.core.files import write_atomically

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
        self._parent = parent
        self._process, self._ending = folder / f"{rank}.process", folder / f"{rank}.ending"
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code; None while the rank runs."""
        if self.returncode is None:
            parent = self._parent.poll()
            if self._ending.exists():
                self.returncode = int(self._ending.read_text())
            elif parent is not None:
                # Ranks end with the process that forked them.
                self.returncode = parent or 1
        return self.returncode

    def kill(self) -> None:
        """End the rank; before it was forked, all ranks."""
        if self._process.exists():
            os.kill(int(self._process.read_text()), signal.SIGKILL)
        else:
            self._parent.kill()

    def wait(self) -> int:
        """Return the exit code once all ranks have ended."""
        self._parent.wait()
        code = self.poll()
        assert code is not None, "ranks end before the process that forked them"
        return code


def start(jobs: Sequence[RankJob], folder: Path) -> list[ForkedRank]:
    """Start all ranks; files about them appear in ``folder``."""
    written = folder / "ranks.json"
    for job in jobs:
        Path(job.log).touch()
    written.write_text(json.dumps([asdict(job) for job in jobs]))
    command = [sys.executable, "-m", "lightloom.exchange.transport.forked", str(written)]
    with Path(jobs[0].log).open("ab") as log:
        parent = subprocess.Popen(
            command, env=dict(jobs[0].environment), stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    return [ForkedRank(parent, folder, rank) for rank in range(len(jobs))]


def main(written: str) -> None:
    """Import what the ranks run, fork them, and write how each ends."""
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
    """Take a rank's environment and log, and end when the parent does."""
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
    main(*sys.argv[1:])
