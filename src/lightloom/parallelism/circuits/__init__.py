"""Circuits for a traffic matrix: SiP-OCS and SiP-Ring (SiP-ML, sections 3.1 and 3.3)."""

from lightloom.parallelism.circuits.circuits import Assignment, Circuits, Timing
from lightloom.parallelism.circuits.play import Planner, Played, longest_first, play_once, play_replanned
from lightloom.parallelism.circuits.traffic import Traffic
from lightloom.parallelism.circuits.verify import verify, verify_permutations

__all__ = [
    "Assignment",
    "Circuits",
    "Planner",
    "Played",
    "Timing",
    "Traffic",
    "longest_first",
    "play_once",
    "play_replanned",
    "verify",
    "verify_permutations",
]
