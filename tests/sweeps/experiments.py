"""Small experiments, and a folder's content."""

from __future__ import annotations

from pathlib import Path

from lightloom.planning.sweeps.experiment import Point, points_of, read_experiment

SMALL = """
name: small
collectives:
  - kind: [all-gather, all-reduce]
    fabric: wdm-ring
    ranks: [4, 6, 8]
    set: {wavelengths: [2, 4]}
    nbytes: [1kB, 1MB]
    algorithm: [ring, halving-doubling, optree]
  - kind: all-to-all
    fabric: [mesh, switch]
    ranks: 9
    nbytes_per_rank: 1kB
    algorithm: [one-stage, in-network]
"""
PLANS = """
plans:
  - model: hdc
    cluster: terarack-64
    ranks: [4, 8]
    strategy: all
    algorithm: [ring, optree, in-network]
    batch: [1, 2]
"""


def written(folder: Path, text: str, name: str = "experiment.yaml") -> Path:
    """An experiment's file."""
    path = folder / name
    path.write_text(text)
    return path


def points(folder: Path, text: str) -> dict[str, Point]:
    """The points of an experiment."""
    return points_of(read_experiment(written(folder, text)))
