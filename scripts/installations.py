"""Install wheels and sdists into fresh environments without PyTorch, and run commands and tests there.

    python -m scripts.installations [--tests] dist/*

They are installed for the Python that runs this. Nothing finds a compiler or git while a distribution is installed and
used, and everything runs in a folder apart from the repository. Printed are MB of the file (a wheel has at most 12) and
of what it brings along as it lies on the disk (at most 250), and CPU seconds of commands: the first may take 2 after a
wheel's installation, and 1 when it runs again. A wheel brings its kernels along and no Numba; an sdist is installed
with Numba, which compiles them at the first use. ``--tests`` runs those of the core, clusters and economics, which need
no PyTorch, with Matplotlib and Numba.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHEEL_MB, DEPENDENCIES_MB = 12.0, 250.0
FIRST, SECOND = 2.0, 1.0
"""CPU seconds that a command may take right after the installation of a wheel, and once more."""
_FIRST = "collective all-gather --fabric ring --ranks 4 --nbytes-per-rank 1MB"
COMMANDS = (
    _FIRST,
    _FIRST,
    "plan resnet50 --cluster terarack-64",
    "--version",
    "--help",
    "plan resnet50 --cluster inceptionn-4 --export kept.json",
    "plan kept.json --cluster inceptionn-4 --trace trace.json",
    "plan kept.json --cluster inceptionn-4 --report report.html",
)
TESTS = ("tests/core", "tests/clusters", "tests/economics")


def main() -> int:
    """Try each distribution; 1 if a command, a test or a limit fails."""
    with_tests = "--tests" in sys.argv
    names = [name for name in sys.argv[1:] if name != "--tests"]
    return max([_tried(Path(name).resolve(), with_tests) for name in names], default=0)


def _tried(distribution: Path, with_tests: bool) -> int:
    wheel = distribution.suffix == ".whl"
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        (folder / "empty").mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LIGHTLOOM"))}
        environment |= {"PATH": str(folder / "empty"), "HOME": home, "LIGHTLOOM_CACHE": str(folder / "cache")}
        venv.create(folder / "venv", with_pip=True)
        binaries = folder / "venv" / "bin"
        pip = [str(binaries / "python"), "-m", "pip", "install", "--quiet"]
        without = _size(folder / "venv")
        asked = str(distribution) if wheel else f"{distribution}[numba]"
        subprocess.run([*pip, asked], env=environment, cwd=folder, check=True)
        package = sum(_size(path) for path in (folder / "venv").rglob("site-packages/lightloom*"))
        dependencies = _size(folder / "venv") - without - package
        megabytes = distribution.stat().st_size / 1e6
        print(f"{distribution.name}: {megabytes:.1f} MB, {package:.0f} on the disk; dependencies {dependencies:.0f}")
        with_numba = any((folder / "venv").rglob("site-packages/numba"))
        seconds, failed = [], wheel and (megabytes > WHEEL_MB or dependencies > DEPENDENCIES_MB or with_numba)
        for line in COMMANDS:
            if "--report" in line:
                subprocess.run([*pip, f"{distribution}[figures]"], env=environment, cwd=folder, check=True)
            taken, done = _run([str(binaries / "lightloom"), *line.split()], environment, folder)
            seconds.append(taken)
            print(f"  exit {done.returncode}  {taken:5.2f} CPU s  lightloom {line}")
            if done.returncode:
                print(done.stderr)
                failed = True
        if wheel:
            failed |= seconds[0] > FIRST or seconds[1] > SECOND
        if with_tests:
            with_plugins = [*pip, f"{distribution}[numba]", "hypothesis", "psutil", "pytest", "pytest-xdist"]
            subprocess.run(with_plugins, env=environment, cwd=folder, check=True)
            for name in ("examples", "tests"):
                shutil.copytree(ROOT / name, folder / "elsewhere" / name)
            shutil.copy(ROOT / "pyproject.toml", folder / "elsewhere")
            command = [str(binaries / "python"), "-m", "pytest", "-q", "-n0", *TESTS]
            taken, done = _run(command, environment, folder / "elsewhere")
            print(f"  exit {done.returncode}  {taken:5.0f} CPU s  tests: {done.stdout.strip().splitlines()[-1]}")
            if done.returncode:
                print(done.stdout)
                failed = True
        return int(failed)


def _run(
    command: list[str], environment: dict[str, str], folder: Path
) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Return CPU seconds of a command and of the processes that it started, and how it ended."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done


def _size(folder: Path) -> float:
    """MB of the files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
