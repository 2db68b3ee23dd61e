"""What ``lightloom plan`` costs on every cluster of the catalog: ``python -m benchmarks.searches [--json FILE]``.

Each search runs as a command in a process of its own, as a reader types it: *cold*, prices, designs and schedules all
made anew, and *warm*, those of the first run cached. CPU seconds are user and system time of the whole command, with
imports and the cached trace of the model; kernels are compiled beforehand by a run that is not counted. ``cold_answer``
and ``warm_answer`` are hashes of what it prints, so that two trees can be compared: with ``PYTHONPATH`` set to another
tree's ``src``, the same command measures that one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.support.measure import cpu_name, exit_clearly, print_rows
from lightloom.core.files import check_writable, write_atomically
from lightloom.core.results import provenance
from lightloom.machines.clusters.load import names

MODELS = ("resnet50", "gpt2-355m")
_LIMIT = 600
"""CPU seconds after which a search is stopped."""
_PLAN = "import sys; from lightloom.app.cli.main import main; sys.argv[0] = 'lightloom'; sys.exit(main())"


def measure(model: str, cluster: str, traces: Path, limit: int = _LIMIT) -> dict[str, Any]:
    """One search, cold but for the model's trace in ``traces``, and warm."""
    row: dict[str, Any] = {"cluster": cluster, "model": model}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(traces / "workloads", Path(folder) / "workloads")
        for state in ("cold", "warm"):
            spent, output = _run(model, cluster, folder, limit)
            row[f"{state}_cpu_s"] = round(spent, 2)
            if "error" in output:
                return row | output
            row |= {f"{state}_answer": output.pop("answer"), **output}
    return row


def _compile(model: str, cluster: str, traces: Path, limit: int) -> None:
    """Run a search that is not counted, which compiles the kernels that it calls."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(traces / "workloads", Path(folder) / "workloads")
        _run(model, cluster, folder, limit)


def _trace(model: str, traces: Path) -> None:
    """Trace a model that the package brings no graph of, in a process of its own, so that torch is not loaded here."""
    (traces / "workloads").mkdir(exist_ok=True)
    code = f"from lightloom.models.zoo import load_workload; load_workload({model!r}, batch=1)"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"LIGHTLOOM_CACHE": str(traces)}, check=True)


def _run(model: str, cluster: str, folder: str, limit: int) -> tuple[float, dict[str, Any]]:
    """CPU seconds of a command, and what it answers."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", _PLAN, "plan", model, "--cluster", cluster],
        capture_output=True,
        text=True,
        env=os.environ | {"LIGHTLOOM_CACHE": folder},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode < 0:
        return spent, {"error": f"stopped after {limit} CPU-s"}
    if done.returncode:
        return spent, {"error": done.stderr.strip().splitlines()[-1]}
    best = next(line for line in done.stdout.splitlines() if line.startswith("BEST"))
    return spent, {"answer": sha256(done.stdout.encode()).hexdigest()[:12], "winner": best.removeprefix("BEST").strip()}


def main() -> int:
    """Measure and print."""
    return exit_clearly(_main)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searches", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--model", nargs="+", default=MODELS)
    parser.add_argument("--cluster", nargs="+", default=names(), help="instead of the whole catalog")
    parser.add_argument("--limit", type=int, default=_LIMIT, help="CPU seconds of a search at most")
    parser.add_argument("--compiled", action="store_true", help="kernels are compiled: leave out the runs before")
    options = parser.parse_args()
    if options.json:
        check_writable(options.json)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for model in options.model:
            _trace(model, Path(folder))
            for cluster in options.cluster:
                if not options.compiled:
                    _compile(model, cluster, Path(folder), options.limit)
                rows.append(measure(model, cluster, Path(folder), options.limit))
                print_rows(rows[-1:])
                if options.json:
                    origin = provenance({"benchmark": "searches"})
                    document = {"cpu": cpu_name(), "rows": rows, "provenance": origin}
                    write_atomically(options.json, json.dumps(document, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
