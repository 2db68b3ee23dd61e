"""The gate for text, JSON and YAML of others: sizes, depths and aliases are limited before anything is built."""

import csv
import gzip
import json
import re
import zlib
from collections import Counter
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import yaml
from yaml.constructor import ConstructorError

from lightloom.core.errors import ConfigError
from lightloom.core.files import cannot_read

MOST_BYTES = 1 << 26
"""Bytes of a file that people write: configurations, clusters, scripts."""
MOST_TRACE_BYTES = 1 << 33
"""Bytes of a file that programs write: traces and schedules."""
_DEEPEST = 100
"""Lists and mappings inside of each other."""
_TOO_DEEP = f"{{place}}: expected at most {_DEEPEST} lists and mappings inside of each other"
_MOST_NODES = 1 << 20
"""Values of a YAML document, those that aliases repeat counted each time."""
_LARGEST_RATIO = 50
"""Bytes that one byte of gzip may unpack to, above :data:`MOST_BYTES`: traces reach 30."""
_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)


def read_number(text: str) -> float:
    """Return the number that a cell of a table holds: ASCII digits, with a sign, a point and an exponent where wanted,
    and blanks around.

    Raises:
        ValueError: anything else, such as ``1_0``, ``nan`` or digits of other scripts, which Python's ``float`` takes.
    """
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text!r}: expected a number")
    return float(text)


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file, unpacked where it is gzip, whatever its suffix.

    Raises:
        ConfigError: unreadable, of more than ``most`` bytes (64 MiB by default), packed or unpacked, damaged gzip, gzip
            that unpacks to more than 64 MiB and more than 50 times its size, or no gzip in spite of its suffix ``.gz``.
    """
    try:
        if (size := path.stat().st_size) > most:
            raise ConfigError(f"{path}: {size:,} bytes: expected at most {most:,}")
        content = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    if content.startswith(_GZIP):
        return _unpacked(content, path, most)
    if path.suffix == ".gz":
        raise ConfigError(f"{path}: not a gzip file, as its suffix says: rename it, or pack it again")
    return content


def _unpacked(content: bytes, path: Path, most: int) -> bytes:
    """Return what ``content``, the bytes of a gzip file, unpacks to, all its members joined. Raises ConfigError, which
    names ``path``, where it is damaged or cut short, or unpacks to more than ``most`` bytes or than the larger of
    64 MiB and 50 times its size."""
    limit = min(most, max(MOST_BYTES, _LARGEST_RATIO * len(content)))
    try:
        with gzip.GzipFile(fileobj=BytesIO(content)) as file:
            unpacked = b"".join(islice(iter(partial(file.read, _PIECE), b""), limit // _PIECE + 1))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        told = "it ends early" if isinstance(error, EOFError) else error
        raise ConfigError(f"{path}: not a whole gzip file: {told}") from error
    if len(unpacked) > limit:
        raise ConfigError(f"{path}: unpacks to more than {limit:,} bytes: expected at most as many")
    return unpacked


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a file in UTF-8, unpacked where it is gzip, without a byte order mark.

    Raises:
        ConfigError: unreadable, of more than ``most`` bytes (64 MiB by default), packed or unpacked, damaged gzip, no
            gzip in spite of its suffix ``.gz``, or other bytes than UTF-8.
    """
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise cannot_read(path, error) from error


def numbered_rows(text: str) -> list[tuple[int, list[str]]]:
    """Return (number of the line, words between blanks) for each line that is not blank; the number counts all lines,
    from 1."""
    return [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def read_csv(path: Path) -> list[tuple[int, list[str]]]:
    """Return (number of the line, counted from 1, cells as texts) of each line of a CSV file, the heading too, that has
    text in a cell.

    Cells are separated by commas and may stand in double quotes, which are taken off; blanks stay. The file is UTF-8, a
    byte order mark is left out, and gzip is not unpacked; any size is read.

    Raises:
        ConfigError: unreadable, not UTF-8, or no CSV.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            return [(rows.line_num, cells) for cells in rows if any(cell.strip() for cell in cells)]
    except OSError as error:
        raise cannot_read(path, error) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: not a CSV file of text ({error})") from error


def load_json(path: Path, most: int = MOST_BYTES) -> Any:
    """Return the value of a JSON file in UTF-8, packed by gzip or not.

    Raises:
        ConfigError: unreadable, of more than ``most`` bytes (64 MiB by default), damaged gzip, not UTF-8, not JSON
            (names line and column), nested too deeply, a field twice in one object, or NaN and infinity.
    """
    return parse_json(read_text(path, most), str(path))


def parse_json(text: str, where: str) -> Any:
    """Return the value of a JSON document; ``where`` names it in messages.

    Raises:
        ConfigError: not JSON (names line and column), nested too deeply, a field twice in one object, or NaN and
            infinity.
    """

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        """Return the pairs as a mapping; ConfigError where a name occurs twice."""
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
            raise ConfigError(f"{where}: field {twice!r} occurs twice")
        return mapping

    def no_number(word: str) -> NoReturn:
        """Raise ConfigError for NaN or an infinity."""
        raise ConfigError(f"{where}: {word} is not a number in JSON")

    return decode_json(text, where, object_pairs_hook=once, parse_constant=no_number)


def decode_json(text: str | bytes, where: str, **hooks: Any) -> Any:
    """Return the value of JSON that a program wrote, in which fields may occur twice, the last one counting, and
    numbers be NaN or infinite.

    Args:
        text: the document, bytes in UTF-8, UTF-16 or UTF-32.
        where: name of the document, with which messages begin: ``WHERE, line 3, column 5: not JSON: ...``.
        hooks: arguments of ``json.loads``, such as ``object_pairs_hook``; a ConfigError that they raise passes, another
            ValueError becomes one.

    Raises:
        ConfigError: not JSON, or nested too deeply.
    """
    try:
        return json.loads(text, **hooks)
    except ConfigError:
        raise
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: not JSON: nested too deeply") from error
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON: {error}") from error


def parse_yaml(text: str, where: str) -> Any:
    """Return the value of a YAML document of plain values, lists and mappings, None for an empty one; ``where`` names
    it in messages.

    Numbers are of plain digits: ``1:30``, ``1_0`` and ``010``, which YAML 1.1 takes for 90, 10 and 8, are texts, and so
    are dates. As in YAML 1.1, a power of ten needs a point and a sign (``1.0e+6``; ``1e6`` is a text), ``yes``, ``no``,
    ``on`` and ``off`` are booleans, and ``.inf`` and ``.nan`` are numbers.

    Raises:
        ConfigError: not YAML (names line and column), several documents, a tag that is not YAML's own, a key twice in
            one mapping, more than 100 lists and mappings inside of each other, an alias for nothing or for what it is
            in, or more than 1,048,576 values, those that aliases repeat included.
    """
    try:
        _check_events(text, where)
        return yaml.load(text, Loader=_PlainLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        if "nesting depth" in problem:  # libyaml's own limit, which it meets before the first event of a long line
            raise ConfigError(_TOO_DEEP.format(place=f"{where}{place}")) from error
        raise ConfigError(f"{where}{place}: not YAML: {problem}") from error
    except (RecursionError, ValueError, OverflowError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{where}: not YAML: {error}") from error


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _check_events(text: str, where: str) -> None:
    """Raise ConfigError for a YAML document of more than 1,048,576 values (keys, lists and mappings included, and
    counted again for each alias that repeats them), of lists and mappings more than 100 deep, or with an alias that
    stands for what it is in or for nothing, before any of it is built. ``where`` names the document in messages.

    Raises:
        YAMLError: the text is not YAML.
    """
    nodes = 0
    begun: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            # Inside of what it stands for it has no size yet, and no end.
            if event.anchor not in sizes:
                raise ConfigError(
                    f"{where}, line {line}: alias *{event.anchor} stands for what it is in, or for nothing"
                )
            nodes += sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            nodes += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(event.anchor or "", None)
            begun.append((event.anchor, nodes))
            nodes += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = begun.pop()
            if anchor is not None:
                sizes[anchor] = nodes - before
        if len(begun) > _DEEPEST:
            raise ConfigError(_TOO_DEEP.format(place=f"{where}, line {line}"))
        if nodes > _MOST_NODES:
            raise ConfigError(f"{where}, line {line}: expected at most {_MOST_NODES:,} values, repeated ones included")


class _PlainLoader(_Loader):  # type: ignore[misc, valid-type]
    """A loader of plain values that refuses a key which occurs twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build the mapping that a node of the document states; with ``deep`` what is inside of it is built at once,
        otherwise the loader fills it in later.

        Raises:
            ConstructorError: a key, as it is written, occurs twice in the node itself; one that a merge (``<<``) brings
                in may occur again.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise ConstructorError(None, None, f"key {key.value!r} occurs twice", key.start_mark)
                seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


_PlainLoader.yaml_implicit_resolvers = {
    sign: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":int", ":float", ":timestamp"))]
    for sign, resolvers in _Loader.yaml_implicit_resolvers.items()
}
_PlainLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?(0|[1-9][0-9]*)$"), list("-+0123456789"))
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"([-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
    list("-+0123456789."),
)
