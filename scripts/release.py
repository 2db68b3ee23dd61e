"""Build what is to be published, twice, and say whether it may be.

    python -m scripts.release [--try] [OPTION OF build]...

Two copies of the last commit, in folders of other names and with other modes of files, become an sdist and a wheel
each, whose hashes must be the same. The description is rendered by the index's own checker. What is in ``dist``
afterwards is published as it is. ``--try`` does the same where ``[tool.lightloom] repository`` is not yet stated.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.distribution import ROOT, repository


def main() -> int:
    """Build and compare; 1 if the builds differ or the checker refuses the description, 2 if no address is stated."""
    options = [word for word in sys.argv[1:] if word != "--try"]
    if not repository() and "--try" not in sys.argv:
        print("error: [tool.lightloom] repository of pyproject.toml is empty: expected where the project is published")
        return 2
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as name:
        first = _built(commit.stdout.strip(), Path(name, "first"), 0o022, options)
        second = _built(commit.stdout.strip(), Path(name, "a", "second", "one"), 0o077, options)
        hashes = [
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made} for made in (first, second)
        ]
        for file, value in hashes[0].items():
            print(f"{value}  {file}  {'the same twice' if hashes[1].get(file) == value else 'NOT the same twice'}")
        (ROOT / "dist").mkdir(exist_ok=True)
        kept = [Path(path.replace(ROOT / "dist" / path.name)) for path in first]
    checked = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, kept)], check=False)
    return 1 if checked.returncode or hashes[0] != hashes[1] else 0


def _built(commit: str, folder: Path, mask: int, options: list[str]) -> list[Path]:
    """Return the distributions of a commit, built in a folder by ``python -m build``."""
    before = os.umask(mask)
    try:
        folder.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "x"], cwd=folder, input=archive, check=True)
        subprocess.run([sys.executable, "-m", "build", "--outdir", "made", *options], cwd=folder, check=True)
    finally:
        os.umask(before)
    return sorted((folder / "made").iterdir())


if __name__ == "__main__":
    sys.exit(main())
