"""How fast the commands answer that do no work: ``python -X importtime`` and CPU seconds of whole processes.

Limit: --help, catalog and schema in under 0.5 CPU-s each.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.support.measure import middle, print_rows, run

_LIMIT = 0.5
_COMMANDS = (["--help"], ["catalog"], ["schema"])


def main() -> None:
    rows: list[dict[str, object]] = []
    for command in _COMMANDS:
        charges = [run(_call(command)) for _ in range(7)]
        cpu = middle([each.cpu for each in charges])
        rows.append(
            {
                "command": " ".join(command),
                "cpu_s": cpu,
                "limit_cpu_s": _LIMIT,
                "within": cpu < _LIMIT,
                "mebibytes": middle([each.mebibytes for each in charges]),
                "slowest_imports": _slowest(command),
            }
        )
    print_rows(rows)


def _call(command: list[str]) -> str:
    return (
        "import sys, contextlib, io\n"
        f"sys.argv = ['lightloom', *{command!r}]\n"
        "from lightloom.cli.main import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()): main()"
    )


def _slowest(command: list[str]) -> dict[str, float]:
    """The five imports that take longest, with what they import, milliseconds."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", _call(command)], capture_output=True, text=True, check=True
    )
    times: dict[str, float] = {}
    for line in done.stderr.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[1].strip().isdigit() and not parts[2].startswith("   "):
            times[parts[2].strip()] = int(parts[1]) / 1000
    return dict(sorted(times.items(), key=lambda item: -item[1])[:5])


if __name__ == "__main__":
    main()
