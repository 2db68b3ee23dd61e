"""Which of the five papers' ideas carries a model, over ranks and generations of links: docs/planner/compose.md.

    python -m benchmarks.compose FOLDER [--ranks 16 64 1024] [--table docs/planner/compose.md]

Each answer of ``lightloom compose`` is a file of the folder; answers that are there are not asked again, so that the
study goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lightloom.app.api.composing import compose
from lightloom.core.errors import InputError
from lightloom.core.files import write_atomically
from lightloom.core.units import format_time

MODELS = ("resnet50", "gpt2-355m", "llama2-7b", "mixtral-8x7b")
LINKS = ("25Gbps", "100Gbps", "400Gbps")
BEGIN, END = "<!-- study: begin -->", "<!-- study: end -->"


def answered(folder: Path, model: str, ranks: int, links: str) -> dict[str, Any]:
    """Return the answer to one question, from the folder where it is there."""
    path = folder / f"{model}-{ranks}-{links}.json"
    if not path.exists():
        try:
            document = compose(model, ranks=ranks, bandwidth=links).to_json()
        except InputError as error:
            document = {"error": str(error)}
        write_atomically(path, json.dumps(document))
        print(path.name, flush=True)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def cells(document: dict[str, Any]) -> list[str]:
    """Return the cells of an answer: the best plan's step, its gain, and what each idea gains alone and at the end."""
    if "error" in document:
        return ["–", document["error"], *[""] * 5]
    best = document["rows"][-1]
    carries = best["ideas"] if best["gain"] >= 5e-4 else []
    row = [format_time(float(f"{best['iteration_time_s']:.3g}")), " + ".join(carries) or "none"]
    for idea in document["ideas"]:
        alone, inside = (100 * idea[name] for name in ("gain_alone", "gain_inside"))
        row.append("0" if alone < 0.05 else f"{alone:.1f} / {inside:.1f}")
    return row


def table(folder: Path, every: list[int]) -> str:
    """Return the Markdown table of the study."""
    names = ("placement", "wavelengths", "mesh", "compression", "averaging")
    lines = ["| model | ranks | a rank | step | best with | " + " | ".join(names) + " |", "|" + " --- |" * 10]
    for model in MODELS:
        for ranks in every:
            for links in LINKS:
                row = cells(answered(folder, model, ranks, links))
                lines.append(f"| {model} | {ranks:,} | {links.removesuffix('bps')}b/s | " + " | ".join(row) + " |")
    return "\n".join(lines)


def main() -> None:
    """Ask what was not asked, and write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64, 1024])
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    made = table(options.folder, options.ranks)
    if options.table is None:
        print(made)
        return
    text = options.table.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_atomically(options.table, f"{before}{BEGIN}\n\n{made}\n\n{END}{after}")


if __name__ == "__main__":
    main()
