"""Docstrings as Markdown: roles of reStructuredText become links or code, examples become blocks of code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object
from scripts.website import python_api

ROLE = re.compile(r":(?:func|class|meth|data|attr|mod|exc):`~?([\w.]+)`")
EXAMPLE = re.compile(r"(?:^[ ]*(?:>>>|\.\.\.) .*\n?)+", re.MULTILINE)
_SHORT = {name.rpartition(".")[2]: name for page in python_api.pages().values() for name in page.names}


class MarkdownDocstrings(Extension):
    """Rewrite each docstring as it is collected."""

    def on_object(self, *, obj: Object, **_arguments: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """Return a docstring with links where a role names a documented object."""

    def link(match: re.Match[str]) -> str:
        name = match[1].removeprefix("lightloom.")
        home = _SHORT.get(name)
        return f"[`{match[1]}`][{home}]" if home else f"`{match[1]}`"

    return EXAMPLE.sub(lambda match: f"```python\n{match[0].strip()}\n```\n", ROLE.sub(link, text))
