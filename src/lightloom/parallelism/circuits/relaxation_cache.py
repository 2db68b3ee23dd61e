"""Relaxations of ring assignments on disk: a search for plans asks for the same ones again, and only loading the solver
takes longer than most of them.

The programme depends on nothing but the traffic and the channels of a link. Its source is part of the key, so that no
change of it meets an old optimum. Files are written aside and renamed; one that cannot be read is solved again.
"""

from __future__ import annotations

import zipfile
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np

from lightloom.core.cache import cache_directory, read_entry, write_entry
from lightloom.fabrics.base import Fabric
from lightloom.parallelism.circuits import ring_bound
from lightloom.parallelism.circuits.ring_bound import Relaxation, check_ring, relax
from lightloom.parallelism.circuits.traffic import Traffic


def cached_relaxation(traffic: Traffic, fabric: Fabric) -> Relaxation:
    """Return :func:`relax` of the traffic, from the cache where it has been solved before.

    Raises:
        InputError: the sizes differ, or transceivers bind before the links do.
    """
    check_ring(traffic, fabric)
    path = _path(traffic, fabric)
    relaxation = _read(path, len(traffic))
    if relaxation is None:
        relaxation = relax(traffic, fabric)
        _write(path, relaxation)
    return relaxation


def _path(traffic: Traffic, fabric: Fabric) -> Path:
    digest = sha256(f"{_source_hash()} {traffic.ranks} {fabric.channels}".encode())
    for array in (traffic.source, traffic.destination, traffic.nbytes):
        digest.update(array.tobytes())
    return cache_directory() / "circuits" / f"{digest.hexdigest()[:16]}.npz"


def _read(path: Path, pairs: int) -> Relaxation | None:
    """Return the cached relaxation; none where the file is missing or damaged."""
    content = read_entry(path)
    if content is None:
        return None
    try:
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            relaxation = Relaxation(float(arrays["service"]), arrays["clockwise"])
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    sound = relaxation.clockwise.shape == (pairs,) and relaxation.clockwise.dtype == np.float64
    return relaxation if sound and relaxation.service > 0 else None


def _write(path: Path, relaxation: Relaxation) -> None:
    """Write a relaxation."""
    content = BytesIO()
    np.savez(content, service=relaxation.service, clockwise=relaxation.clockwise)
    write_entry(path, content.getvalue())


@cache
def _source_hash() -> str:
    """Hash of the code that states and solves the programme."""
    return sha256(Path(ring_bound.__file__).read_bytes()).hexdigest()
