"""What was measured of a method's effect on the loss, here, by ``lightloom exchange compare``.

Only our own runs are in ``evidence.json``; published figures, and figures of throw-away scripts, are not. A method
without rows is "not measured": nothing is inferred from methods that are like it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from lightloom.core.errors import ConfigError

SCHEMA = "lightloom.exchange-evidence/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Validation losses of one method against those of float32 from the same seeds."""

    method: str
    """Name with all options."""
    task: str
    """What was trained, in words: data, network, optimizer."""
    steps: int
    seeds: int
    ranks: int
    loss_difference: float
    """Mean over seeds of the method's loss minus that of float32."""
    spread: float
    """Standard deviation of these differences over seeds; 0 for one seed."""
    command: str
    """What reproduces it."""

    def __str__(self) -> str:
        spread = f" ± {self.spread:.2g}" if self.seeds > 1 else ""
        seeds = "1 seed" if self.seeds == 1 else f"{self.seeds} seeds"
        runs = f"{self.steps} steps, {self.ranks} ranks, {seeds}"
        return f"{self.loss_difference:+.3g}{spread} in loss on {self.task} ({runs})"

    def to_json(self) -> dict[str, object]:
        """Return the row in plain types."""
        return asdict(self)


@cache
def evidence() -> tuple[Evidence, ...]:
    """Return all that was measured.

    Raises:
        ConfigError: the committed table is damaged.
    """
    return _read(files("lightloom.exchange").joinpath("evidence.json").read_bytes, "evidence.json")


def _read(content: Callable[[], bytes], place: str) -> tuple[Evidence, ...]:
    try:
        document = json.loads(content())
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}, expected {SCHEMA!r}")
        return tuple(Evidence(**row) for row in document["rows"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"the table of measured exchanges {place!r} cannot be read: {error}") from error


def merged(path: Path, rows: Sequence[Evidence]) -> str:
    """Return the table at ``path``, if there is one, with ``rows`` in place of those of the same method and task.

    Raises:
        ConfigError: the file holds something else.
    """
    kept = _read(path.read_bytes, str(path)) if path.exists() else ()
    fresh = {(row.method, row.task) for row in rows}
    every = [*(row for row in kept if (row.method, row.task) not in fresh), *rows]
    return json.dumps({"schema": SCHEMA, "rows": [row.to_json() for row in every]}, indent=1) + "\n"


def evidence_of(method: str) -> tuple[Evidence, ...]:
    """Return what was measured of the method of that name, with exactly these options."""
    return tuple(row for row in evidence() if row.method == method)


def accuracy_note(method: str) -> str:
    """What is known of a method's effect on the loss, in a line."""
    rows = evidence_of(method)
    return "measured: " + "; ".join(map(str, rows)) if rows else "not measured"
