"""Meshes measured: ``python -m benchmarks.meshes [--json FILE] [--sizes 16 64 ...] [--seconds LIMIT]``.

CPU seconds, one thread, best of several rounds on the same Haar-random unitaries, compiled kernels warm: decomposition
into phases, with the error max |U − U_rec| of what the phases give back, beside other packages where they are
installed (interferometer, piquasso, perceval, strawberryfields; those missing are named). Each package starts small and
stops at the size that would take longer than ``--seconds``.

Then the forward pass of 4096 vectors through 256 modes with a phase error at every heater, beside the dense product
with the same number of vectors, in the same rounds. Everything that depends on phases is computed in every round.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.support.measure import cpu_name, exit_clearly
from lightloom.core.errors import ConfigError
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIZES = (16, 64, 128, 256, 512, 1024)
SECONDS = 20.0
ROUNDS = 5
MODES, BATCH, PHASE_ERROR = 256, 4096, 0.01
DECOMPOSITION_LIMIT, ERROR_LIMIT, FORWARD_LIMIT = 0.1, 1e-12, 2.0
"""CPU seconds and error at 512 complex modes; multiples of the dense product."""
GROWTH = 32.0
"""Of a dense package's time when the size doubles: O(n⁵)."""

Decompose = Callable[["NDArray[Any]"], Any]
Rebuild = Callable[[Any], "NDArray[Any]"]


def main() -> int:
    """Measure, print, and write what was asked for."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # before NumPy is imported
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.meshes", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="longest that one decomposition may take")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    if min(asked.sizes) < 2 or asked.rounds < 1 or not asked.seconds > 0:
        raise ConfigError("expected sizes of at least 2, at least 1 round and more than 0 seconds")
    if asked.json is not None:
        check_writable(asked.json)
    found = measure(sorted(set(asked.sizes)), asked.seconds, asked.rounds)
    _print(found)
    if asked.json is not None:
        write_atomically(asked.json, json.dumps(found, indent=1) + "\n")


def measure(sizes: list[int], seconds: float, rounds: int) -> dict[str, Any]:
    """All rows, and the targets with what was found."""
    peers, missing = _peers()
    rows = _ours(sizes, rounds)
    for name, (decompose, rebuild) in peers.items():
        rows.extend(_of_peer(name, decompose, rebuild, sizes, seconds))
    forward = _forward(rounds)
    target = [row for row in rows if row["package"] == "lightloom" and row["kind"] == "rectangular, complex"]
    at = [row for row in target if row["size"] == 512]
    return {
        "schema": "lightloom.mesh-benchmark/1",
        "cpu": cpu_name(),
        "provenance": provenance({"sizes": sizes}, seed=0),
        "decomposition": rows,
        "missing": missing,
        "forward": forward,
        "targets": {
            "decomposition_512_cpu_s": at[0]["cpu_s"] if at else None,
            "limit_cpu_s": DECOMPOSITION_LIMIT,
            "decomposition_512_error": at[0]["error"] if at else None,
            "limit_error": ERROR_LIMIT,
            "forward_over_dense": forward["propagate_over_dense"],
            "limit_forward_over_dense": FORWARD_LIMIT,
        },
    }


def haar(size: int, *, real: bool = False) -> NDArray[Any]:
    """A random unitary or orthogonal matrix, the same in every run."""
    import numpy as np

    rng = np.random.default_rng(size)
    normal = rng.normal(size=(size, size)) + (0 if real else 1j * rng.normal(size=(size, size)))
    q, r = np.linalg.qr(normal)
    return np.asarray(q * (np.diag(r) / np.abs(np.diag(r))))


def _best(work: Callable[[], Any], rounds: int) -> float:
    """Return the least CPU time of one call; calls shorter than a tick of the clock are repeated until it moves."""
    times = []
    for _ in range(rounds):
        start, calls, elapsed = time.process_time(), 0, 0.0
        while elapsed <= 0:
            work()
            calls += 1
            elapsed = time.process_time() - start
        times.append(elapsed / calls)
    return min(times)


def _ours(sizes: list[int], rounds: int) -> list[dict[str, Any]]:
    import numpy as np

    from lightloom.photonics.meshes.decompose import decompose
    from lightloom.photonics.meshes.mesh import Kind

    kinds: list[tuple[Kind, bool]] = [("rectangular", False), ("rectangular", True), ("triangular", False)]
    rows = []
    for kind, real in kinds:
        decompose(haar(4, real=real), kind).matrix()  # compiles
        for size in sizes:
            unitary = haar(size, real=real)
            mesh = decompose(unitary, kind)
            rows.append(
                {
                    "package": "lightloom",
                    "kind": f"{kind}, {'real' if real else 'complex'}",
                    "size": size,
                    "cpu_s": _best(lambda u=unitary, k=kind: decompose(u, k), rounds),  # type: ignore[misc]
                    "error": float(np.abs(mesh.matrix() - unitary).max()),
                }
            )
    return rows


def _of_peer(
    name: str, decompose: Decompose, rebuild: Rebuild | None, sizes: list[int], seconds: float
) -> list[dict[str, Any]]:
    import numpy as np

    rows: list[dict[str, Any]] = []
    decompose(haar(4))
    last = 0.0
    for size in sizes:
        expected = last * GROWTH ** np.log2(size / rows[-1]["size"]) if rows else 0.0
        if expected > seconds:
            break
        unitary = haar(size)
        start = time.process_time()
        result = decompose(unitary)
        last = time.process_time() - start
        error = float(np.abs(rebuild(result) - unitary).max()) if rebuild is not None and size <= 128 else None
        kind = "triangular, complex" if name.startswith("perceval") else "rectangular, complex"
        rows.append({"package": name, "kind": kind, "size": size, "cpu_s": last, "error": error})
        if last > seconds:
            break
    return rows


def _forward(rounds: int) -> dict[str, Any]:
    import numpy as np

    from lightloom.photonics.devices import NonIdealities
    from lightloom.photonics.meshes.decompose import decompose
    from lightloom.photonics.meshes.disturb import DisturbedMesh, disturb
    from lightloom.photonics.meshes.mesh import by_columns

    unitary = haar(MODES)
    mesh = decompose(unitary)
    rng = np.random.default_rng(0)
    drawn = disturb(mesh, NonIdealities(phase_error=PHASE_ERROR), rng)
    fields = rng.normal(size=(MODES, BATCH)) + 1j * rng.normal(size=(MODES, BATCH))

    def fresh() -> DisturbedMesh:
        return DisturbedMesh(mesh=mesh, non_idealities=drawn.non_idealities, fabrication=drawn.fabrication)

    def columns() -> NDArray[np.complex128]:
        again = fresh()
        return by_columns(mesh.layout, again.devices, mesh.output_phases + again.fabrication.output_error, fields)

    ways: dict[str, Callable[[], Any]] = {
        "dense_s": lambda: unitary @ fields,
        "propagate_s": lambda: fresh().propagate(fields),
        "by_columns_s": columns,
    }
    difference = float(np.abs(columns() - fresh().propagate(fields)).max())
    times = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, work in ways.items():
            times[name] = min(times[name], _best(work, 1))
    return {
        "modes": MODES,
        "batch": BATCH,
        "phase_error": PHASE_ERROR,
        "difference": difference,
        **times,
        "propagate_over_dense": times["propagate_s"] / times["dense_s"],
        "by_columns_over_dense": times["by_columns_s"] / times["dense_s"],
    }


def _peers() -> tuple[dict[str, tuple[Decompose, Rebuild | None]], dict[str, str]]:
    """Decompositions of packages that can be imported, and why the others cannot."""
    families: dict[str, Callable[[], tuple[Decompose, Rebuild | None]]] = {
        "interferometer": _interferometer,
        "piquasso": _piquasso,
        "perceval-quandela": _perceval,
        "strawberryfields": _strawberryfields,
    }
    found, missing = {}, {}
    for package, family in families.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                name = f"{package} {version(package)}"
                found[name] = family()
        except PackageNotFoundError:
            missing[package] = "not installed"
        except ImportError as error:
            missing[package] = f"does not import: {str(error).split(' (')[0]}"
    return found, missing


def _interferometer() -> tuple[Decompose, Rebuild]:
    module = import_module("interferometer")
    return module.square_decomposition, lambda made: made.calculate_transformation()


def _piquasso() -> tuple[Decompose, Rebuild]:
    import numpy as np

    module = import_module("piquasso.decompositions.clements")
    connector = module.NumpyConnector()
    return (
        lambda unitary: module.clements(unitary, connector=connector),
        lambda made: module.inverse_clements(made, connector=connector, dtype=np.complex128),
    )


def _perceval() -> tuple[Decompose, Rebuild]:
    """A triangle by numeric solution; its rectangle is not implemented."""
    import numpy as np

    module = import_module("perceval")

    def decompose(unitary: NDArray[Any]) -> Any:
        device = module.BS(theta=module.P("theta"), phi_tr=module.P("phi"))
        return module.Circuit.decomposition(
            module.Matrix(unitary), device, phase_shifter_fn=module.PS, shape=module.InterferometerShape.TRIANGLE
        )

    return decompose, lambda made: np.array(made.compute_unitary())


def _strawberryfields() -> tuple[Decompose, None]:
    return import_module("strawberryfields.decompositions").rectangular_phase_end, None


def _print(found: dict[str, Any]) -> None:
    print(f"{found['cpu']}, one thread, CPU seconds")
    print(f"{'package':28}{'mesh':24}{'size':>6}{'CPU-s':>12}{'error':>11}")
    for row in found["decomposition"]:
        error = "not rebuilt" if row["error"] is None else f"{row['error']:.1e}"
        print(f"{row['package']:28}{row['kind']:24}{row['size']:6}{row['cpu_s']:12.4f}{error:>11}")
    for package, why in found["missing"].items():
        print(f"{package}: {why}")
    forward = found["forward"]
    print(
        f"{forward['batch']} vectors through {forward['modes']} modes, phase errors included: "
        f"{forward['propagate_s']:.4f} s, MZI by MZI {forward['by_columns_s']:.4f} s; dense product "
        f"{forward['dense_s']:.4f} s: {forward['propagate_over_dense']:.2f}x and "
        f"{forward['by_columns_over_dense']:.2f}x"
    )


if __name__ == "__main__":
    sys.exit(main())
