"""What each rank does under ``mpirun``: checks the laws of the collectives, and rank 0 writes what it found."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from lightloom.core.errors import InputError
from lightloom.exchange.compression.inceptionn import Inceptionn
from lightloom.exchange.transport import mpi

COMM = MPI.COMM_WORLD
BOUND = 2.0**-6


def own(rank: int, size: int) -> Any:
    return np.random.default_rng(rank).laplace(0, 0.05, size).astype(np.float32)


def same(values: Any) -> bool:
    """Whether all ranks hold the same bits."""
    return len(set(COMM.allgather(values.tobytes()))) == 1


def allreduce(size: int) -> dict[str, Any]:
    everyone = np.array([own(rank, size) for rank in range(COMM.size)], np.float64)
    values, residual = own(COMM.rank, size), np.empty(size, np.float32)
    total = mpi.allreduce(values, Inceptionn(BOUND), residual=residual)
    plain = mpi.allreduce(values)
    left = sum(COMM.allgather(residual.astype(np.float64)))
    exact = everyone.sum(0)
    return {
        "same": same(total) and same(plain),
        "untouched": bool(np.array_equal(values, own(COMM.rank, size))),
        "bounded": bool(np.all(np.abs(total - exact) <= COMM.size * BOUND + 1e-6)),
        "lossy": bool(size < 8 or np.any(np.abs(total - exact) > 1e-3)),
        "conserved": bool(np.all(np.abs(total + left - exact) < 1e-5)),
        "plain": bool(np.all(np.abs(plain - exact) < 1e-5)),
        "without_residual": bool(np.array_equal(mpi.allreduce(values, Inceptionn(BOUND)), total)),
    }


def rooted(root: int) -> dict[str, Any]:
    shape, codec = (3, 100), Inceptionn(BOUND)
    everyone = np.array([own(rank, 300).reshape(shape) for rank in range(COMM.size)])
    values = everyone[COMM.rank].copy()
    sent = mpi.bcast(values, codec, root=root)
    found = {
        "bcast": same(sent) and bool(np.array_equal(sent, codec.round_trip(everyone[root]).reshape(shape))),
        "plain_bcast": bool(np.array_equal(mpi.bcast(values, root=root), everyone[root])),
    }
    rows, total = mpi.gather(values, codec, root=root), mpi.reduce(values, codec, root=root)
    plain_rows, plain_total = mpi.gather(values, root=root), mpi.reduce(values, root=root)
    if COMM.rank != root:
        found["nothing_elsewhere"] = rows is None and total is None and plain_rows is None and plain_total is None
        return found
    decoded = np.array([codec.round_trip(each).reshape(shape) for each in everyone])
    found["gather"] = bool(np.array_equal(np.asarray(rows), decoded))
    found["reduce"] = bool(np.allclose(np.asarray(total), decoded.sum(0), atol=1e-6))
    found["plain_gather"] = bool(np.array_equal(np.asarray(plain_rows), everyone))
    found["plain_reduce"] = bool(np.allclose(np.asarray(plain_total), everyone.sum(0), atol=1e-6))
    return found


def refused(values: Any) -> list[str]:
    """What each collective says of values that ranks disagree on."""
    lines = []
    for collective in (mpi.allreduce, mpi.bcast, mpi.gather, mpi.reduce):
        try:
            collective(values)
            lines.append("")
        except InputError as error:
            lines.append(str(error))
    return lines


def main(result: str) -> None:
    found: dict[str, Any] = {f"allreduce {size}": allreduce(size) for size in (0, 1, 3, 1000, 100_003)}
    found |= {f"root {root}": rooted(root) for root in (0, COMM.size - 1)}
    found["refused"] = refused(np.zeros(4 + (COMM.rank == 2), np.float32))
    found["refused type"] = refused(np.zeros(4, np.float64 if COMM.rank == 1 else np.float32))
    found["refused by all"] = refused(np.zeros(4))
    gathered = COMM.gather(found)
    if COMM.rank == 0:
        Path(result).write_text(json.dumps(gathered), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
