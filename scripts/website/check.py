"""Check a built site: every link, anchor and picture exists, nothing is fetched from a host, every page can be reached.

python -m scripts.website.check out/site
"""

from __future__ import annotations

import argparse
import posixpath
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

START = "index.html"
UNLINKED = {"404.html"}
FETCHED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
"""Elements that a browser loads by itself, with the attribute that says from where."""


@dataclass
class Document(HTMLParser):
    """The anchors of a page, and what it refers to."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element's anchor and references."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in FETCHED and FETCHED[tag] in values and values.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(values[FETCHED[tag]])


def read(site: Path) -> dict[str, Document]:
    """Return the pages of a site by their addresses relative to it."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        document = Document()
        document.feed(path.read_text())
        pages[path.relative_to(site).as_posix()] = document
    return pages


def faults(site: Path) -> Iterator[str]:
    """One line for each fault of a site."""
    pages = read(site)
    if START not in pages:
        yield f"{site}: no {START}: expected a built site (make docs)"
        return
    for name, page in pages.items():
        for reference in page.fetched:
            if urlsplit(reference).scheme in ("http", "https") or reference.startswith("//"):
                yield f"{name}: fetches {reference} from a host"
        for reference in [*page.links, *page.fetched]:
            yield from _broken(site, pages, name, reference)
    for name in sorted(pages.keys() - _reached(pages) - UNLINKED):
        yield f"{name}: no link leads there"


def _broken(site: Path, pages: dict[str, Document], name: str, reference: str) -> Iterator[str]:
    if urlsplit(reference).scheme or reference.startswith("//"):
        return
    target, anchor = _target(name, reference)
    if not (site / target).is_file():
        yield f"{name}: {reference} leads nowhere"
    elif anchor and target in pages and anchor not in pages[target].anchors | {"__search", "__drawer"}:
        yield f"{name}: {reference}: no such anchor"


def _target(name: str, reference: str) -> tuple[str, str]:
    """The file that a reference of a page leads to, and the anchor in it."""
    parts = urlsplit(reference)
    path = unquote(parts.path)
    if path == "":
        return name, unquote(parts.fragment)
    folder = "" if path.startswith("/") else posixpath.dirname(name)
    target = posixpath.normpath(posixpath.join(folder, path.lstrip("/")))
    return (posixpath.join(target, START) if path.endswith("/") or target == "." else target), unquote(parts.fragment)


def _reached(pages: dict[str, Document]) -> set[str]:
    reached, waiting = set(), [START]
    while waiting:
        name = waiting.pop()
        if name in pages and name not in reached:
            reached.add(name)
            waiting += [_target(name, link)[0] for link in pages[name].links if not urlsplit(link).scheme]
    return reached


def main() -> int:
    """Print every fault; 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m scripts.website.check", description=__doc__.split("\n", 1)[0])
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site
    found = list(faults(site))
    for fault in found:
        print(fault, file=sys.stderr)
    if not found:
        print(f"{site}: {len(read(site))} pages, no fault")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
