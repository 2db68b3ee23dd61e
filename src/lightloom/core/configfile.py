"""YAML files and command-line fields, read into configuration objects with one-line complaints."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from lightloom.core.documents import parse_yaml, read_text
from lightloom.core.errors import ConfigError, UnknownNameError

T = TypeVar("T")
C = TypeVar("C", bound=BaseModel)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, packed by gzip or not, field names to values.

    Raises:
        ConfigError: the file cannot be read, is larger than 64 MiB, or is not YAML as :func:`parse_yaml` takes it, with
            a mapping at its top whose keys are texts; an empty file is none.
    """
    data = parse_yaml(read_text(path), str(path))
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(f"{path}: expected a mapping of field names to values, got {type(data).__name__}")
    return data


def read_entry(path: Path, kind: str) -> dict[str, Any]:
    """Return the fields that a catalog's file states. In a file of what ``lightloom catalog NAME`` prints, whose only
    keys are kinds (``cluster``, ``fabric``, ``accelerator``, ``part``), they are those under ``kind``, without entries
    whose names begin with ``derived for``; any other file, one of kinds without ``kind`` too, is returned whole.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or is not a mapping.
    """
    data = read_yaml(path)
    entry = data.get(kind)
    if not isinstance(entry, dict) or set(data) - {"cluster", "fabric", "accelerator", "part"}:
        return data
    return {name: value for name, value in entry.items() if not str(name).startswith("derived for ")}


def catalog_file(name: str, folder: Path) -> Path | None:
    """Return the file of the catalog in ``folder`` whose name without ``.yaml`` is ``name``; otherwise a name that ends
    in ``.yaml`` or ``.yml`` as a path, whether or not such a file exists; None for any other name."""
    return catalog_files(folder).get(name) or (Path(name) if name.endswith((".yaml", ".yml")) else None)


@cache
def catalog_files(folder: Path) -> dict[str, Path]:
    """Return the ``.yaml`` files of a catalog by name without suffix, whichever of its subfolders they lie in, of two
    with one name the last by path; searched once a process."""
    return {path.stem: path for path in sorted(folder.rglob("*.yaml"))}


def with_settings(
    fields: Mapping[str, object], settings: Mapping[str, object], where: str, named: Collection[str] = ()
) -> dict[str, object]:
    """Return a copy of fields in which some are replaced; a dot in a name reaches into a part: ``averaging.loss_db``,
    ``tiers.rail.ports``.

    A part is a mapping, nothing yet (missing or None: a mapping is made), or a list, whose entries go by their field
    ``name``, else by their number from 0. Names with fewer dots are set first, so that a part as a whole comes before
    what reaches into it.

    Args:
        fields: the fields, which are left as they are, parts included.
        settings: values by name, dots included; each replaces the former value whole.
        where: name of the source, with which messages begin.
        named: names of fields whose value may be a catalog's name, a text, which becomes the mapping ``{"base": NAME}``
            where a setting reaches into it.

    Raises:
        ConfigError: a dot that reaches into something without fields, or an entry that a list lacks.
    """
    result = dict(fields)
    for key, value in sorted(settings.items(), key=lambda setting: setting[0].count(".")):
        _set(result, key.split("."), value, named, f"{where}: cannot set field {key!r}")
    return result


def with_entries(entries: Sequence[object], changes: Mapping[str, object], complaint: str) -> list[object]:
    """Return a list in which some entries are changed: where both the entry and its change are mappings, the change's
    fields replace those of the entry, whose others stay; otherwise the change replaces the entry.

    Args:
        entries: the list, which is left as it is.
        changes: changes by the name (field ``name``) of an entry, or by its number from 0, as a text.
        complaint: begin of the error's message.

    Raises:
        ConfigError: there is no entry of a name or number.
    """
    result = list(entries)
    for key, change in changes.items():
        place = _entry_index(result, key, complaint)
        below = result[place]
        result[place] = {**below, **change} if isinstance(below, Mapping) and isinstance(change, Mapping) else change
    return result


def _set(fields: dict[str, Any], path: Sequence[str], value: object, named: Collection[str], complaint: str) -> None:
    """Set the field at ``path``, the names of fields from the outermost, to ``value``. ``fields`` is changed in place;
    the parts that lead to the field are copied.

    In a list, the next of ``path`` is the name or the number of an entry, as :func:`_entry_index` takes it. What is
    missing or None on the way becomes a mapping; so does a text, a catalog's name, with that as its ``base``, if its
    field is among ``named``. Raises ConfigError that begins with ``complaint`` where something on the way has no
    fields, or a list has no such entry.
    """
    part, *rest = path
    if not rest:
        fields[part] = value
        return
    inner = fields.get(part)
    if isinstance(inner, list | tuple):
        place = _entry_index(inner, rest[0], complaint)
        numbered: dict[str, object] = {rest[0]: inner[place]}
        _set(numbered, rest, value, named, complaint)
        fields[part] = [*inner[:place], numbered[rest[0]], *inner[place + 1 :]]
        return
    if isinstance(inner, str) and part in named:
        inner = {"base": inner}
    if not isinstance(inner, Mapping | None):
        raise ConfigError(f"{complaint}: {part!r} is {inner!r}, which has no fields")
    fields[part] = below = dict(inner or {})
    _set(below, rest, value, named, complaint)


def _entry_index(entries: Sequence[object], key: str, complaint: str) -> int:
    """Return the place, from 0, of the first entry that is a mapping with the field ``name`` equal to ``key``; else
    ``key`` as a number from 0. ConfigError, which begins with ``complaint`` and lists the names, where there is no such
    entry."""
    names = [str(entry.get("name", place)) if isinstance(entry, Mapping) else "" for place, entry in enumerate(entries)]
    if key in names:
        return names.index(key)
    if key.isdecimal() and int(key) < len(entries):
        return int(key)
    raise ConfigError(f"{complaint}: no entry {key!r}: expected one of {', '.join(filter(None, names)) or 'none'}")


def validate(kind: type[T], data: Mapping[str, Any], where: str) -> T:
    """Return an object of the class ``kind``, built from the fields in ``data``; ``where`` names their source.

    Raises:
        ConfigError: the first complaint alone, such as ``WHERE: field 'tiers.0.ports': -1: EXPECTATION``, or that a
            field is missing or unknown.
    """
    try:
        return TypeAdapter(kind).validate_python(dict(data))
    except ValidationError as error:
        raise ConfigError(f"{where}: {_first_complaint(error, kind)}") from error


def read_config(kind: type[C], name: str, file: Path | None, settings: Mapping[str, object]) -> C:
    """Return the settings of a command, an object of class ``kind``: the fields of a YAML file, or the defaults where
    ``file`` is None, with ``settings`` (values by name) in place of single fields; a dot in their names reaches into a
    part. ``name`` is the command's, for messages.

    Raises:
        ConfigError: the file cannot be read, or the first complaint about a value or about a field inside a part,
            which names the field.
        UnknownNameError: a field of the command itself is unknown; the message says which are near, or that
            ``lightloom catalog --schema NAME`` lists them.
    """
    fields = with_settings({} if file is None else read_yaml(file), settings, name)
    known = kind.model_fields
    if (unknown := next((field for field in fields if field not in known), None)) is not None:
        raise UnknownNameError(f"setting of {name}", unknown, known, listed=f"lightloom catalog --schema {name}")
    return validate(kind, fields, name)


def _first_complaint(error: ValidationError, kind: Any) -> str:
    """Return the first error of a validation in words.

    It reads ``field 'tiers.0.ports': -1: EXPECTATION``, the value (its ``repr``, of at most 80 characters) left out
    where the expectation holds it; the expectation alone for an error of no field; ``field 'ports' is missing``; or
    ``unknown field 'port': expected one of`` with the fields of ``kind``, or of the part of it that holds the field,
    where one class alone can be meant.
    """
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "missing":
        return f"field {field!r} is missing"
    if first["type"] == "extra_forbidden":
        for name in first["loc"][:-1]:
            kind = _class_of_part(kind, name)
        known = ", ".join(getattr(kind, "model_fields", {}))
        return f"unknown field {field!r}" + (f": expected one of {known}" if known else "")
    value = first["input"]
    shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}..."
    if not field:
        return message
    return f"field {field!r}: {message}" if shown in message else f"field {field!r}: {shown}: {message}"


def _class_of_part(kind: Any, name: int | str) -> Any:
    """Return the one configuration class in the annotation of the field ``name`` of the class ``kind``; None where the
    annotation has several, or none. Return ``kind`` itself where it has no such field: ``name`` is then a place in a
    list or a key of a mapping, whose class is known already."""
    if (field := getattr(kind, "model_fields", {}).get(name)) is None:
        return kind
    pending, found = [field.annotation], list[Any]()
    while pending:
        annotation = pending.pop()
        pending += get_args(annotation)
        found += [annotation] if hasattr(annotation, "model_fields") else []
    return found[0] if len(found) == 1 else None
