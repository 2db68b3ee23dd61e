"""Draw the pictures of docs/gallery.md that take minutes, by the commands that stand there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

GALLERY = Path("docs/gallery.md")
PART = "## Drawn in minutes"


def commands(gallery: str, part: str) -> list[str]:
    """Return the commands of one part of the gallery, each once, in their order."""
    text = gallery.split(f"{part}\n", 1)[1].split("\n## ", 1)[0]
    return list(dict.fromkeys(re.findall(r"```sh\n(.*?)\n```", text, flags=re.DOTALL)))


def main() -> None:
    """Run the commands; the first that fails ends it."""
    Path("out").mkdir(exist_ok=True)
    for command in commands(GALLERY.read_text(), PART):
        print(command, flush=True)
        subprocess.run(["bash", "-c", command], check=True)
    for name in ("pareto", "placement", "traffic"):
        Path(f"out/plan/{name}.png").replace(f"docs/pictures/splitting-{name}.png")


if __name__ == "__main__":
    main()
