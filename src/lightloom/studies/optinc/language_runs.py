"""The language-model runs behind Fig. 7(a): the paper's LLaMA-like network and a small one, averages of several kinds.

A run with a result is not repeated; an interrupted one resumes from its last checkpoint. By itself, this module runs
what the measurements of the package lack:

    python -m lightloom.studies.optinc.language_runs DIR [DATA]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom.core.files import write_atomically
from lightloom.core.provenance import provenance
from lightloom.training.datasets.folder import data_folder
from lightloom.training.datasets.text import Corpus, plain_text, wikitext_2

THREADS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The runs of one network: every variant of the average with every seed."""

    file: str
    """Name of the file of results, without its suffix."""
    prefix: str
    """First word of the runs' folders."""
    settings: Mapping[str, Any]
    """Fields of the recipe that all runs share."""
    variants: Mapping[str, Mapping[str, Any]]
    """Fields of the recipe by variant; the baseline comes first."""
    seeds: Sequence[int]

    def jobs(self) -> list[tuple[str, int]]:
        """Return variants and seeds, seed by seed, so that what is there can be compared in pairs."""
        return [(name, seed) for seed in self.seeds for name in self.variants]


_BITS_16: Mapping[str, Mapping[str, Any]] = {"float32": {}, "16-bit floor": {"bits": 16, "rounding": "floor"}}
SMALL = Series(
    file="language-small",
    prefix="language-small",
    settings={
        "steps": 192,
        "layers": 4,
        "hidden": 192,
        "intermediate": 512,
        "windows_per_server": 2,
        "bfloat16": False,
    },
    variants={
        **_BITS_16,
        "8-bit floor": {"bits": 8, "rounding": "floor"},
        "8-bit half-up": {"bits": 8, "rounding": "half-up"},
    },
    seeds=(0, 1, 2),
)
"""A network of 1.9 million parameters in place of the paper's 14.4 million, 196,608 tokens: 15 CPU-minutes in all."""
PAPER_SIZE = Series(
    file="language",
    prefix="language",
    settings={"steps": 192},
    variants={
        **_BITS_16,
        "16-bit half-up": {"bits": 16, "rounding": "half-up"},
        "16-bit floor, errors 3-6": {"bits": 16, "rounding": "floor", "errors": "3-6"},
        "16-bit floor, errors 4-8": {"bits": 16, "rounding": "floor", "errors": "4-8"},
        "8-bit floor": {"bits": 8, "rounding": "floor"},
    },
    seeds=(0, 1),
)
"""The paper's network, 393,216 tokens: an hour of one CPU core with matrix units for bfloat16, five hours without."""
SERIES = (SMALL, PAPER_SIZE)
OWN_TEXT = "wikipedia"
"""A folder of .txt files, or a file, of that name in the data folder replaces WikiText-2."""


def job_count() -> int:
    """Return the number of runs of all series."""
    return sum(len(series.jobs()) for series in SERIES)


def measure(work: Path, data: Path, advance: Callable[[int], None] = lambda _: None) -> tuple[Path, ...]:
    """Run the training runs without results in ``work`` and write one file of results for each series there.

    Args:
        work: folder for results and checkpoints.
        data: the data folder with WikiText-2, or text of the user's own.
        advance: called with 1 after each run.

    Returns:
        The files, in the order of ``SERIES``.

    Raises:
        ConfigError: the text is not there.
    """
    own = data / OWN_TEXT
    corpus = plain_text(own) if own.exists() else wikitext_2(data)
    return tuple(measure_series(series, corpus, work, advance) for series in SERIES)


def measure_series(series: Series, corpus: Corpus, work: Path, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Run what one series lacks and return its file of results, which is written anew after each run."""
    path = work / f"{series.file}.json"
    records: dict[str, list[dict[str, Any]]] = {}
    for name, seed in series.jobs():
        records.setdefault(name, []).append(once(series, name, seed, corpus, work))
        advance(1)
        write_atomically(path, json.dumps(_document(corpus, records)))
    return path


def once(series: Series, name: str, seed: int, corpus: Corpus, work: Path) -> dict[str, Any]:
    """Return the record of a run, from its file if that exists."""
    result = _result(series, name, seed, work)
    if not result.exists():
        import torch

        from lightloom.training.runs.language import Recipe, train

        torch.set_num_threads(THREADS)
        record = train(corpus, Recipe(seed=seed, **series.settings, **series.variants[name]), result.parent)
        write_atomically(result, json.dumps(record))
        result.with_name("checkpoint.pt").unlink(missing_ok=True)
    stored: dict[str, Any] = json.loads(result.read_text())
    return stored


def unpack(series: Series, work: Path) -> None:
    """Write the results that come with the package to ``work``, where none are, so that only the others are run."""
    from lightloom.studies.optinc import PAPER

    stored = PAPER.measured(series.file, optional=True) or {"runs": {}}
    for name, records in stored["runs"].items():
        for record in records:
            result = _result(series, name, record["recipe"]["seed"], work)
            if not result.exists():
                result.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(result, json.dumps(record))


def _result(series: Series, name: str, seed: int, work: Path) -> Path:
    return work / f"{series.prefix}-{name.replace(',', '').replace(' ', '-')}-seed{seed}" / "result.json"


def _document(corpus: Corpus, records: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    sizes = {"training": int(corpus.training.size), "validation": int(corpus.validation.size)}
    origin = provenance({name: len(runs) for name, runs in records.items()}, seed=0)
    return {"corpus": corpus.name, "tokens": sizes, "threads": THREADS, "runs": records, "provenance": origin}


def main() -> None:
    """Run what the measurements of the package lack, into the folder that the command names."""
    work, *data = (Path(argument) for argument in sys.argv[1:])
    for series in SERIES:
        unpack(series, work)
    for path in measure(work, data_folder(data[0] if data else None)):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
