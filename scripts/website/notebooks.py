"""Notebooks as Markdown pages: text, code, and the outputs that are stored with them."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

WIDTH = 90
"""Letters in a line of output that may wrap; tables are narrower."""


def markdown(notebook: Path) -> str:
    """Return the Markdown of a notebook's page."""
    cells = json.loads(notebook.read_text())["cells"]
    return (
        "\n\n".join(part for cell in cells for part in _parts(cell))
        + f"\n\n[This page as a notebook]({notebook.name})\n"
    )


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *map(_output, cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    """The HTML of an output: its page or picture where it has one, else its text."""
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
    if "text/html" in data:
        shown = data["text/html"]
    elif "image/png" in data:
        shown = f'<img alt="{html.escape(data["text/plain"])}" src="data:image/png;base64,{data["image/png"].strip()}">'
    else:
        return _text(data["text/plain"])
    return f'<div class="notebook-output">{shown}</div>'


def _text(text: str) -> str:
    kind = ' class="sentences"' if any(len(line) > WIDTH for line in text.splitlines()) else ""
    return f'<div class="notebook-output"><pre{kind}>{html.escape(text)}</pre></div>'
