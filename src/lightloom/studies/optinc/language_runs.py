"""The language-model runs behind Fig. 7(a): the paper's LLaMA-like network, four servers, averages of several kinds.

A run with a result is not repeated; an interrupted one resumes from its last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lightloom.core.files import write_atomically
from lightloom.core.provenance import provenance
from lightloom.training.datasets.text import Corpus, plain_text, wikitext_2

SEEDS = (0, 1)
STEPS = 192
"""Steps of 2,048 tokens, 393,216 tokens in all, so that all runs take about an hour of one CPU core."""
THREADS = 1
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "float32": {},
    "16-bit floor": {"bits": 16, "rounding": "floor"},
    "16-bit half-up": {"bits": 16, "rounding": "half-up"},
    "16-bit floor, errors 3-6": {"bits": 16, "rounding": "floor", "errors": "3-6"},
    "16-bit floor, errors 4-8": {"bits": 16, "rounding": "floor", "errors": "4-8"},
    "8-bit floor": {"bits": 8, "rounding": "floor"},
}
OWN_TEXT = "wikipedia"
"""A folder of .txt files, or a file, of that name in the data folder replaces WikiText-2."""


def jobs() -> list[tuple[str, int]]:
    """Return variants and seeds in the order of execution, those of the paper first."""
    every = [(name, seed) for seed in SEEDS for name in VARIANTS]
    return sorted(every, key=lambda job: VARIANTS[job[0]].get("bits") == 8)


def measure(work: Path, data: Path, advance: Callable[[int], None] = lambda _: None) -> Path:
    """Run the training runs without results in ``work`` and write ``language.json`` there.

    Args:
        work: folder for results and checkpoints.
        data: the data folder with WikiText-2, or text of the user's own.
        advance: called with 1 after each run.

    Raises:
        ConfigError: the text is not there.
    """
    own = data / OWN_TEXT
    corpus = plain_text(own) if own.exists() else wikitext_2(data)
    records: dict[str, list[dict[str, Any]]] = {}
    for name, seed in jobs():
        records.setdefault(name, []).append(once(name, seed, corpus, work))
        advance(1)
        write_atomically(work / "language.json", json.dumps(_document(corpus, records)))
    return work / "language.json"


def once(name: str, seed: int, corpus: Corpus, work: Path) -> dict[str, Any]:
    """Return the record of a run, from its file if that exists."""
    folder = work / f"language-{name.replace(',', '').replace(' ', '-')}-seed{seed}"
    result = folder / "result.json"
    if not result.exists():
        import torch

        from lightloom.training.runs.language import Recipe, train

        torch.set_num_threads(THREADS)
        record = train(corpus, Recipe(seed=seed, steps=STEPS, **VARIANTS[name]), folder)
        write_atomically(result, json.dumps(record))
        (folder / "checkpoint.pt").unlink(missing_ok=True)
    stored: dict[str, Any] = json.loads(result.read_text())
    return stored


def _document(corpus: Corpus, records: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    sizes = {"training": int(corpus.training.size), "validation": int(corpus.validation.size)}
    origin = provenance({name: len(each) for name, each in records.items()}, seed=SEEDS[0])
    return {"corpus": corpus.name, "tokens": sizes, "threads": THREADS, "runs": records, "provenance": origin}
