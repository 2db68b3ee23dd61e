"""Every link of the documentation leads somewhere, every page is reachable from the README, no folder is crowded."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MENTION = re.compile(r"(?<![\w./-])docs/[\w./-]+\.md")
NAMED = re.compile(r"[`( ]((?:photonics|collectives|planning|machines|core)(?:\.(?!md\b)[A-Za-z_]\w*)+)(?:\(\))?[`)]")
MOST_FILES = 25


def links(page: Path) -> list[tuple[Path, str]]:
    """The local files that a page links to, each with its anchor."""
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    return [((page.parent / target.partition("#")[0]), target.partition("#")[2]) for target in targets]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as hosts of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        place = page if target == page.parent else target
        assert place.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(place), f"{page.name} links to {target}#{anchor}"


def test_every_page_is_reachable() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page not in reached and page.suffix == ".md" and page.is_file():
            reached.add(page)
            waiting += [target for target, _ in links(page)]
    assert not {page.resolve() for page in (ROOT / "docs").rglob("*.md")} - reached


def test_pages_that_the_code_names_exist() -> None:
    for folder in ("src", "tests", "benchmarks", "examples", "scripts"):
        for path in (ROOT / folder).rglob("*.py"):
            for page in MENTION.findall(path.read_text()):
                assert (ROOT / page).is_file(), f"{path.relative_to(ROOT)} names {page}"


def test_modules_that_pages_and_sources_of_values_name_exist() -> None:
    for path in {*PAGES, *(ROOT / "src").rglob("*.yaml")} - {ROOT / "CHANGELOG.md"}:
        for name in NAMED.findall(path.read_text()):
            assert resolve_name(f"lightloom.{name}"), f"{path.relative_to(ROOT)} names {name}"


def test_no_folder_is_crowded() -> None:
    for folder in (ROOT / "docs", *(path for path in (ROOT / "docs").iterdir() if path.is_dir())):
        files = [path for path in folder.iterdir() if path.is_file()]
        assert folder.name == "pictures" or len(files) <= MOST_FILES, folder
