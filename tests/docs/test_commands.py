"""Commands that the documentation prints exist, with the options that it gives them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scripts.website.commands import command_pages, whole_command
from typer.core import TyperGroup

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```\w*\n(.*?)^```|((?:^ {4}[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")


def printed_commands(page: str) -> Iterator[str]:
    """Every ``lightloom ...`` of a page, in blocks of code and in code spans, without comments."""
    for match in BLOCK.finditer(page):
        code = (match[1] or match[2]).replace("\\\n", " ")
        for line in code.splitlines():
            for part in re.split(r"&&|\|\||[|;>]", re.sub(r"(^|\s)#.*", "", line)):
                if re.match(r"\s*lightloom (?!\d)", part):
                    yield part.strip()
    spans = (" ".join(span.split()) for span in SPAN.findall(BLOCK.sub("", page)))
    yield from (span for span in spans if span.startswith("lightloom "))


@cache
def command() -> TyperGroup:
    return whole_command()


def words(line: str) -> list[str]:
    """Words as a shell splits them; a single quote alone is an apostrophe."""
    try:
        return shlex.split(line)
    except ValueError:
        return shlex.split(line.replace("'", "’"))


def unknown(line: str) -> str | None:
    """The first word of a printed command that the command does not know."""
    found: Any = command()
    for word in words(line)[1:]:
        if word == "--":
            return None
        if isinstance(found, TyperGroup) and not word.startswith("-"):
            if word not in found.commands:
                return None if word in ("...", "…") or word.isupper() else word
            found = found.commands[word]
        elif word.startswith("-") and not re.fullmatch(r"-[\d.e]+", word):
            options = {"--help", "-h"} | {name for each in found.params for name in (*each.opts, *each.secondary_opts)}
            for option in word.partition("=")[0].rstrip(",").split("/"):
                if option not in options and not option.endswith("..."):
                    return option
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_printed_commands_exist(page: Path) -> None:
    faults = [f"{line}: {word}" for line in printed_commands(page.read_text()) if (word := unknown(line))]
    assert not faults, "\n".join(faults)


def test_a_stale_command_is_noticed() -> None:
    assert unknown("lightloom plan resnet50 --split 2") == "--split"
    assert unknown("lightloom split resnet50") == "split"
    assert unknown("lightloom onn build --servers 4 --bits 8") is None


def test_every_command_has_a_page_with_all_its_options() -> None:
    pages = command_pages()
    assert pages["onn"].startswith("# lightloom onn\n") and "## lightloom onn build\n" in pages["onn"]
    assert "--without" in pages["collective"] and "--sweep" in pages["onn"]
