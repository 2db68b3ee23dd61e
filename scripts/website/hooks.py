"""Hooks of MkDocs: pages that are made from the code, from notebooks and from files outside ``docs``."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from scripts.website import commands, notebooks, python_api

ROOT = Path(__file__).resolve().parents[2]
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")
CODE = re.compile(
    r"<(a|pre|h1|h2|h3)\b.*?</\1>|<code>(?:ll\.(?P<function>\w+)|lightloom\s+(?P<command>[\w-]+))[^<]*</code>",
    re.DOTALL,
)
"""Code in running text that names a function or a command; what must stay as it is matches first, without groups."""
LINK = re.compile(r"(?<=\]\()(?:\.\./)+([^)#\s]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill in the folders of the navigation whose pages are generated."""
    generated: dict[str, list[Any]] = {
        "tutorials/": ["tutorials/index.md", *(f"tutorials/{path.stem}.md" for path in _tutorials())],
        "reference/python/": [f"reference/python/{name}.md" for name in python_api.pages()],
        "reference/commands/": [{name: f"reference/commands/{name}.md"} for name in commands.COMMANDS],
    }
    config.nav = _filled(config.nav, generated)
    config.watch.append(str(ROOT / "src"))
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the files of ``examples`` that pages link to."""
    pages = {f"reference/commands/{name}.md": text for name, text in commands.command_pages().items()}
    pages |= {f"reference/python/{name}.md": python_api.markdown(page) for name, page in python_api.pages().items()}
    pages |= {f"tutorials/{path.stem}.md": notebooks.markdown(path) for path in _tutorials()}
    pages |= {name: (ROOT / name).read_text().replace("](docs/", "](") for name in ROOT_PAGES}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.suffix in (".py", ".yaml", ".toml", ".ipynb"):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_others: object) -> str:
    """Let links that leave ``docs`` lead to the copies in the site, and links to tutorials to their pages."""
    folder = posixpath.dirname(page.file.src_uri)

    def inside(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, match[0]))
        if target.startswith("docs/"):
            return match[0]
        return posixpath.relpath(target, folder or ".")

    if page.file.src_uri == "tutorials/index.md":
        markdown = markdown.replace(".ipynb)", ".md)")
    return LINK.sub(inside, markdown)


def on_page_content(content: str, *, page: Page, **_others: object) -> str:
    """Link code that names a public function or a command to its page in the reference."""
    homes = {name: home for home, held in python_api.pages().items() for name in held.names}

    def linked(match: re.Match[str]) -> str:
        if match["function"] and (home := homes.get(f"lightloom.{match['function']}")):
            target = f"reference/python/{home}.html#lightloom.{match['function']}"
        elif match["command"] in commands.COMMANDS:
            target = f"reference/commands/{match['command']}.html"
        else:
            return match[0]
        return f'<a href="{posixpath.relpath(target, posixpath.dirname(page.url) or ".")}">{match[0]}</a>'

    return content if page.url.startswith("reference/") else CODE.sub(linked, content)


def _tutorials() -> list[Path]:
    return sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def _filled(nav: Any, generated: dict[str, list[Any]]) -> Any:
    """The navigation with the lists of generated pages in the place of their folders' names."""
    if isinstance(nav, list):
        return [
            filled
            for entry in nav
            for filled in (
                generated[entry] if isinstance(entry, str) and entry in generated else [_filled(entry, generated)]
            )
        ]
    if isinstance(nav, dict):
        return {
            title: generated.get(value, value) if isinstance(value, str) else _filled(value, generated)
            for title, value in nav.items()
        }
    return nav
