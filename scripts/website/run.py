"""Run notebooks from top to bottom, and store what they print or compare it with what is stored.

    python -m scripts.website.run docs/tutorials/*.ipynb

A cell with the tag ``varies`` may print other figures each time (seconds of this host).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

TIMEOUT = 300
"""Seconds for one cell."""
VARIES = "varies"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
VERSION = re.compile(r"lightloom \d[\w.]*")
LONG_NUMBER = re.compile(r"\d+\.\d{9,}")
"""Numbers whose last digits follow the rounding of the processor."""
TAGS = re.compile(r"<svg.*?</svg>|<[^>]*>", re.DOTALL)


def executed(path: Path) -> Any:
    """Return the notebook with fresh outputs, run in a kernel of its own in its folder.

    Raises:
        CellExecutionError: a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": path.parent}},
    )
    commands = Path(sys.executable).parent  # where ``lightloom`` is, as in an activated environment
    client.execute(env={**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"})
    notebook.metadata["language_info"] = {"name": "python"}
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        if output.output_type == "stream":
            output.text = COLOUR.sub("", output.text)
    return notebook


def printed(notebook: Any) -> list[tuple[str, str]]:
    """Return the source and the text of every code cell; of pages their text, of pictures that there is one."""
    return [
        (cell.source, "" if VARIES in cell.metadata.get("tags", []) else "\n".join(map(_text, cell.outputs)))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        text = VERSION.sub("lightloom", str(output.text).rstrip("\n"))
        return LONG_NUMBER.sub(lambda number: f"{float(number[0]):.8g}", text)
    if "text/html" in output.data:
        return " ".join(TAGS.sub(" ", output.data["text/html"]).split())
    return "a picture" if "image/png" in output.data else str(output.data["text/plain"])


def main() -> int:
    """Run the notebooks and store their outputs."""
    parser = argparse.ArgumentParser(prog="python -m scripts.website.run", description=__doc__.split("\n", 1)[0])
    parser.add_argument("notebooks", type=Path, nargs="+")
    for path in parser.parse_args().notebooks:
        nbformat.write(executed(path), path)  # type: ignore[no-untyped-call]
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
