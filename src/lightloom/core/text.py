"""Text from files and names of files, as a terminal may show it."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What moves the cursor, colours, rings or reverses the direction of writing; lines and tabs stay."""


def visible(text: str) -> str:
    """Return the text with escapes in the place of characters that would control the terminal."""
    return _CONTROL.sub(lambda match: ascii(match.group())[1:-1], text)
