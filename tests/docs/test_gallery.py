"""Every picture of the documentation is in the gallery, under the command that draws it."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.website.pictures import PART, commands

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = (DOCS / "gallery.md").read_text()


def test_every_picture_is_shown_once_with_a_command() -> None:
    parts = re.split(r"^### .+$", GALLERY, flags=re.MULTILINE)[1:]
    shown = [re.findall(r"!\[[^\]]+\]\((pictures/[^)]+)\)", part) for part in parts]
    assert all(len(names) == 1 and "```sh\n" in part for names, part in zip(shown, parts, strict=True))
    pictures = [path.relative_to(DOCS).as_posix() for path in (DOCS / "pictures").rglob("*") if path.is_file()]
    assert sorted(name for names in shown for name in names) == sorted(pictures)


def test_the_commands_that_make_pictures_runs_write_them() -> None:
    quick = commands(GALLERY, PART)
    assert len(quick) > 10 and all(command.startswith("lightloom ") for command in quick)
    written = re.findall(r"docs/(pictures/\S+\.png)", "\n".join(quick))
    assert all((DOCS / name).is_file() for name in written) and len(set(written)) == len(written)
