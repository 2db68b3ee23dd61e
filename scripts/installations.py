"""Install wheels and sdists into fresh environments without PyTorch, and run commands there with an empty PATH.

    python -m build && python -m scripts.installations dist/*

Nothing finds a compiler or git while a distribution is installed and used. Where it is a wheel, no kernel may have been
compiled after two plans: it brings them along.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

_FIRST = "plan resnet50 --cluster terarack-64"
COMMANDS = (
    "--version",
    "--help",
    _FIRST,
    _FIRST,
    "collective all-gather --fabric ring --ranks 4 --nbytes-per-rank 1MB",
    "plan resnet50 --cluster inceptionn-4 --export kept.json",
    "plan kept.json --cluster inceptionn-4 --report report.html --trace trace.json",
)


def main() -> int:
    """Try each distribution; 1 if a command fails or a wheel's kernels were compiled."""
    return max([_tried(Path(name).resolve()) for name in sys.argv[1:]], default=0)


def _tried(distribution: Path) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = folder / "empty"
        empty.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LIGHTLOOM"))}
        environment |= {"PATH": str(empty), "HOME": name, "LIGHTLOOM_CACHE": str(folder / "cache")}
        venv.create(folder / "venv", with_pip=True)
        binaries = folder / "venv" / "bin"
        install = [str(binaries / "python"), "-m", "pip", "install", "--quiet", str(distribution)]
        # Without a compiler kernels of Numba could be compiled ahead all the same; here the first plan shall do it.
        subprocess.run(install, env=environment | {"LIGHTLOOM_COMPILE_AHEAD": "0"}, cwd=folder, check=True)
        print(distribution.name)
        failed = 0
        for line in COMMANDS:
            before = _children()
            command = [str(binaries / "lightloom"), *line.split()]
            done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
            print(f"  exit {done.returncode}  {_children() - before:5.2f} CPU s  lightloom {line}")
            if done.returncode:
                print(done.stderr)
                failed = 1
        compiled = [path for path in (folder / "venv").rglob("*.nbi") if path.parent.name == "__pycache__"]
        print(f"  {len(compiled)} kernels compiled after the installation")
        return 1 if failed or (distribution.suffix == ".whl" and compiled) else 0


def _children() -> float:
    """CPU seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
