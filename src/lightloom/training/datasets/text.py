"""Text as bytes: tinyshakespeare, WikiText-2's small splits, and any plain text of the user's own.

A byte is a token: no vocabulary to learn, store or agree upon, and losses in nats a byte compare across texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lightloom.core.errors import ConfigError
from lightloom.core.files import cannot_read
from lightloom.training.datasets.folder import DataFile

VOCABULARY = 256
VALIDATION = 0.1
"""Share of a text, at its end, that is used for validation."""

TINY_SHAKESPEARE = DataFile(
    ("tinyshakespeare/input.txt", "tinyshakespeare.txt"),
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    "https://github.com/karpathy/char-rnn (data/tinyshakespeare)",
)
_WIKITEXT_ORIGIN = "https://github.com/pytorch/examples (word_language_model/data/wikitext-2)"
WIKITEXT_2_TEST = DataFile(
    ("wikitext-2/test.txt",), "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", _WIKITEXT_ORIGIN
)
WIKITEXT_2_VALID = DataFile(
    ("wikitext-2/valid.txt",), "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", _WIKITEXT_ORIGIN
)


@dataclass(frozen=True, slots=True, eq=False)
class Corpus:
    """A text, divided once for all runs."""

    name: str
    training: NDArray[np.uint8]
    """Tokens (n,), one a byte."""
    validation: NDArray[np.uint8]


def tiny_shakespeare(folder: Path | None = None) -> Corpus:
    """1.1 MB of Shakespeare, whose last tenth validates; raises as ``DataFile.read`` does."""
    return _divided("tinyshakespeare", TINY_SHAKESPEARE.read(folder))


def wikitext_2(folder: Path | None = None) -> Corpus:
    """WikiText-2's test and validation splits, 2.4 MB of Wikipedia; the last tenth of the validation split validates.

    The training split, five times as large, is not needed at the token budgets that a CPU allows.
    Raises as ``DataFile.read`` does.
    """
    end = _divided("wikitext-2", WIKITEXT_2_VALID.read(folder))
    start = np.frombuffer(WIKITEXT_2_TEST.read(folder), np.uint8)
    return Corpus("wikitext-2", np.concatenate([start, end.training]), end.validation)


def plain_text(path: Path) -> Corpus:
    """Any text of the user's own, such as extracts of Wikipedia; the last tenth validates.

    Args:
        path: a file, or a folder whose ``.txt`` files are joined in the order of their names, subfolders included.

    Raises:
        ConfigError: no such file, no ``.txt`` in the folder, unreadable, or too short to be divided.
    """
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"{str(path)!r} holds no .txt file: expected plain text")
    try:
        content = b"\n".join(file.read_bytes() for file in files)
    except OSError as error:
        raise cannot_read(error.filename, error) from error
    if len(content) * VALIDATION < 1:
        raise ConfigError(f"{str(path)!r} holds {len(content)} bytes: too short to be divided")
    return _divided(path.name, content)


def corpus(name: str, folder: Path | None = None) -> Corpus:
    """``wikitext-2``, ``tinyshakespeare``, or the path of plain text.

    Raises:
        ConfigError: neither a known name nor a readable text.
    """
    known = {"wikitext-2": wikitext_2, "tinyshakespeare": tiny_shakespeare}
    return known[name](folder) if name in known else plain_text(Path(name))


def _divided(name: str, content: bytes) -> Corpus:
    tokens = np.frombuffer(content, np.uint8)
    kept = tokens.size - int(tokens.size * VALIDATION)
    return Corpus(name, tokens[:kept], tokens[kept:])
