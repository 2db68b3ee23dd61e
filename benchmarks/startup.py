"""How fast lightloom starts: ``import lightloom``, and the commands that do no work, in CPU seconds of whole processes.

Limits: --help, --version, catalog and a schema in under 0.5 CPU-s each; ``import lightloom`` at most 0.06 CPU-s over an
interpreter that imports nothing.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.support.measure import middle, parse_no_options, print_rows, run

_LIMIT = 0.5
_IMPORT_LIMIT = 0.06
_COMMANDS = (["--help"], ["--version"], ["catalog"], ["catalog", "--schema", "cluster"])


def main() -> None:
    bare, imported = (middle([run(script).cpu for _ in range(7)]) for script in ("pass", "import lightloom"))
    over = imported - bare
    rows: list[dict[str, object]] = [
        {
            "command": "import lightloom",
            "cpu_s_over_bare": over,
            "limit_cpu_s": _IMPORT_LIMIT,
            "within": over < _IMPORT_LIMIT,
        }
    ]
    for command in _COMMANDS:
        charges = [run(_call(command)) for _ in range(7)]
        cpu = middle([charge.cpu for charge in charges])
        rows.append(
            {
                "command": " ".join(command),
                "cpu_s": cpu,
                "limit_cpu_s": _LIMIT,
                "within": cpu < _LIMIT,
                "mebibytes": middle([charge.mebibytes for charge in charges]),
                "slowest_imports": _slowest(command),
            }
        )
    print_rows(rows)


def _call(command: list[str]) -> str:
    return (
        "import sys, contextlib, io\n"
        f"sys.argv = ['lightloom', *{command!r}]\n"
        "from lightloom.app.cli.main import main\n"
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
    parse_no_options(__doc__)
    main()
