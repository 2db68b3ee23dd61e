"""The packages where a wrong line is a wrong answer, and the mutants drawn from each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from scripts.mutation.operators import Mutant, mutants
from scripts.mutation.selection import SOURCE, Module

PACKAGES = {
    "verify": ("collectives/verify/*.py",),
    "cost": ("collectives/cost/*.py",),
    "bounds": ("collectives/bounds/*.py",),
    "fabrics": ("machines/fabrics/**/*.py",),
    "planner": (
        "planning/gradients.py", "planning/pricing/*.py", "planning/reconfiguration/*.py", "planning/search/*.py",
        "planning/traffic/*.py", "planning/export/*.py",
    ),
    "codec": ("exchange/compression/*.py",),
    "meshes": ("photonics/meshes/**/*.py",),
    "placement": ("planning/parallelism/placement/*.py",),
    "simulation": ("planning/simulation/*.py",),
    "reports": ("reports/**/*.py", "planning/figures.py"),
    "interchange": ("collectives/files/**/*.py", "models/traces/*.py", "models/onnx*.py"),
    "economics": ("planning/economics/*.py",),
    "exchange": ("exchange/*.py", "exchange/distributed/*.py"),
    "link": ("photonics/link/*.py", "photonics/detection.py", "machines/reducers/*.py"),
    "tracing": ("models/torch/*.py",),
    "api": ("app/api/*.py",),
    "transports": ("machines/transports/*.py",),
    "workloads": ("models/*.py",),
    "blocks": ("exchange/compression/blocks.py",),
    "calibration": ("planning/calibration/*.py",),
    "designs": ("planning/designs/*.py",),
}  # fmt: skip
"""Source files of each package, under ``src/lightloom``."""
PROSE = ("explain", "verdict", "drawing", "documents", "templates", "registry", "catalog", "compile_ahead", "progress")
"""Words in the names of files that write sentences, or that list what there is."""


@dataclass(frozen=True)
class Draw:
    """One mutant of the sequence of a package."""

    package: str
    number: int
    module: str
    mutant: Mutant

    @property
    def key(self) -> str:
        """Name of the draw in the journal."""
        return f"{self.package}/{self.number}"


def files_of(package: str, modules: dict[str, Module]) -> list[Module]:
    """Return the modules of a package that compute something."""
    paths = {path for pattern in PACKAGES[package] for path in (SOURCE / "lightloom").glob(pattern)}
    return [
        module
        for module in modules.values()
        if module.path in paths and not any(word in module.path.relative_to(SOURCE).as_posix() for word in PROSE)
    ]


def draw(package: str, modules: dict[str, Module], seed: int) -> Iterator[Draw]:
    """Yield mutants of a package without end in sight, none twice: an operator is drawn, then one of its mutants.

    No two mutants change the same line, so that a few lines with many operators do not stand for the whole.
    """
    random = Random(f"{seed} {package}")
    pools: dict[str, list[tuple[str, Mutant]]] = {}
    for module in files_of(package, modules):
        for mutant in mutants(module.text):
            if mutant.before != mutant.after:
                pools.setdefault(mutant.operator, []).append((module.name, mutant))
    lines: set[tuple[str, int]] = set()
    number = 0
    while pools:
        operator = random.choice(sorted(pools))
        pool = pools[operator]
        name, mutant = pool.pop(random.randrange(len(pool)))
        if not pool:
            del pools[operator]
        if (name, mutant.line) not in lines:
            lines.add((name, mutant.line))
            yield Draw(package, number, name, mutant)
            number += 1
