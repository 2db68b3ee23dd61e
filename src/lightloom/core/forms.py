"""The forms of files that the commands read: how a file is recognised, by its suffix and then by its first bytes.

    step.json ── suffix .json ──► profile? execution trace? configuration? schedule? ── keys of the object ──► one form

Who reads a form chooses its reader by :attr:`Form.name`; this table decides what a file is, and what a message says
about a file that is none of them.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from lightloom.core.documents import decode_json
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.files import cannot_read, is_file

Purpose = Literal["model", "cluster", "accelerator", "schedule", "sizes"]
"""Subject of a file; ``sizes`` alone are not enough for anything."""
_HEAD = 1 << 16
"""Bytes by which a file is recognised."""
_GZIP = b"\x1f\x8b"
_TAKEN_BY = {
    "model": "as the model of a plan",
    "cluster": "as --cluster",
    "schedule": "by 'lightloom schedule'",
    "accelerator": "as --accelerator",
    "sizes": "by ASTRA-sim alone, as it says neither topology nor bandwidth nor latency (its topology file does)",
}


class Form(NamedTuple):
    """One form of file."""

    name: str
    """Name by which readers are chosen."""
    endings: str
    """Suffixes of its files, separated by spaces; each may be followed by ``.gz``."""
    purpose: Purpose
    """Subject that such a file describes."""
    title: str
    """Name of the form in messages."""
    marks: str = ""
    """Content, in words, that tells its files from others with the same suffix."""

    @property
    def suffixes(self) -> list[str]:
        """Suffixes of the files of this form, each with its dot, without ``.gz``."""
        return self.endings.split()


def _keys(*names: str) -> Callable[[str], bool]:
    """Return a test of a head, the first characters of a file: True if it is a JSON object that has one of these keys
    at its top level."""
    return lambda head: not set(names).isdisjoint(top_level_keys(head))


def _schema(prefix: str) -> Callable[[str], bool]:
    """Return a test of a head, the first characters of a file: True if it has, at any depth, a JSON field ``schema``
    whose text begins with ``prefix``."""
    return lambda head: re.search(rf'"schema"\s*:\s*"{re.escape(prefix)}', head) is not None


_CHAKRA_NODE = re.compile(r'"type":\s*"[A-Z_]+_NODE"')
_LAYERS = re.compile(r"\ufeff?\s*[A-Z][A-Z_]+\b[^\n]*\n\s*\d+\s*\n")
_SYSTEM = re.compile(r'"?(scheduling-policy|all-reduce-implementation|endpoint-delay|preferred-dataset-splits)"?\s*:')
_NS3_LINKS = re.compile(r"\ufeff?\s*\d+ +\d+ +\d+ *\r?\n[\d \r\n]*? *\d+ +\d+ +[\d.]+[GMK]?bps ")
_EVENTS = re.compile(r"\s*\[\s*\{")
"""Begin of a list of trace events, the other form that trace viewers know."""
_PROFILE = ("traceEvents", "baseTimeNanoseconds", "deviceProperties", "distributedInfo", "schemaVersion")

_HEADS: Mapping[str, Callable[[str], object]] = {
    "profile": lambda head: _keys(*_PROFILE)(head) or (_EVENTS.match(head) and '"ph"' in head),
    "chakra-json": lambda head: _keys("workload_graph")(head) or _CHAKRA_NODE.search(head),
    "execution-trace": _keys("nodes", "start_ts", "finish_ts"),
    "graph": _schema("lightloom.graph/"),
    "transformers": _keys("model_type", "architectures"),
    "layers": _LAYERS.match,
    "astra-sim": _keys("topologies-per-dim", "units-count"),
    "astra-sim-ns3": _keys("logical-dims"),
    "astra-sim-ns3-links": _NS3_LINKS.match,
    "astra-sim-system": _SYSTEM.search,
    "schedule": _schema("lightloom.schedule/"),
}
"""Tests of the first characters of a file, by the name of its form, where several forms share a suffix."""

FORMS = (
    Form("profile", ".json", "model", "profile of torch.profiler", "traceEvents"),
    Form("chakra", ".et", "model", "Chakra trace"),
    Form("chakra-json", ".json", "model", "Chakra trace", "workload_graph, or what chakra_jsonizer writes"),
    Form("execution-trace", ".json", "model", "execution trace of PyTorch", "nodes"),
    Form("graph", ".json", "model", "graph that lightloom kept", 'schema "lightloom.graph/1"'),
    Form("transformers", ".json", "model", "configuration of transformers", "model_type or architectures"),
    Form("megatron", ".sh .bash", "model", "arguments of Megatron-LM", "also as a line in quotes"),
    Form("torchtitan", ".toml", "model", "job configuration of torchtitan"),
    Form("layers", ".txt", "model", "layer file of ASTRA-sim 1.x or SimAI", "DATA, MODEL, HYBRID_... first"),
    Form("onnx", ".onnx", "model", "ONNX model"),
    Form("cluster", ".yaml .yml", "cluster", "cluster, or network of ASTRA-sim"),
    Form("accelerator", ".yaml .yml", "accelerator", "accelerator"),
    Form("astra-sim", ".json", "cluster", "network of ASTRA-sim before 2.0", "topologies-per-dim"),
    Form("astra-sim-ns3-links", ".txt", "cluster", "topology of ASTRA-sim for ns-3", "nodes, switches and links first"),
    Form("astra-sim-ns3", ".json", "sizes", "network of ASTRA-sim for ns-3", "logical-dims"),
    Form("astra-sim-system", ".json .txt", "accelerator", "system file of ASTRA-sim", "peak-perf, scheduling-policy"),
    Form("schedule", ".json", "schedule", "schedule", 'schema "lightloom.schedule/1"'),
    Form("msccl", ".xml", "schedule", "program of MSCCL"),
    Form("table", ".parquet .arrow", "schedule", "schedule as a table"),
)
"""All forms; of those with the same suffix the first one that recognises the file."""


def looks_like_file(name: str) -> bool:
    """Return True if a name means a file rather than a catalog's entry: it is that of a file, or of a folder with a
    ``config.json``, holds a slash, or has the suffix of a form in :data:`FORMS`, ``.gz`` behind it or not; then the
    file need not exist."""
    suffix = _suffix(Path(name))
    return (
        any(suffix in form.suffixes for form in FORMS) or "/" in name or is_file(name) or is_file(f"{name}/config.json")
    )


def recognise(path: Path, purpose: Purpose) -> Form:
    """Return the form of a file by its suffix and ``purpose``, what it is to describe (``model``, ``cluster``,
    ``accelerator`` or ``schedule``), and where these leave several forms, as with ``.json``, by its first characters.

    Where suffix and purpose decide (a ``.yaml`` file that is to be a cluster, any ``.onnx`` file), the file is not
    read: it need not exist, and may hold something else. ``.json`` and ``.txt`` files are always read and tested.
    ``NAME.et`` may stand for ``NAME.0.et``.

    Raises:
        ConfigError: unreadable, of no form, or of one that describes something else; one line with every form that is
            expected and its suffixes.
    """
    candidates = [form for form in FORMS if _suffix(path) in form.suffixes]
    candidates = [form for form in candidates if form.name not in _HEADS and form.purpose == purpose] or candidates
    if not candidates:
        reason = f"unknown suffix {path.suffix!r}" if path.suffix else "has no suffix"
        raise ConfigError(f"{path}: {reason}: expected {expected_forms(purpose)}")
    head = "" if candidates[0].name not in _HEADS and len(candidates) == 1 else read_head(path)
    for form in candidates:
        if form.name not in _HEADS or _HEADS[form.name](head):
            if form.purpose == purpose:
                return form
            taken = f"a {form.title}, which is taken {_TAKEN_BY[form.purpose]}"
            raise ConfigError(f"{path}: {taken}: expected {expected_forms(purpose)}")
    raise ConfigError(f"{path}{_described(head)}: expected {expected_forms(purpose)}")


def expected_forms(purpose: Purpose) -> str:
    """Return the forms of files that serve a purpose as one text for messages, joined by semicolons: the suffixes of
    each, then in brackets its title and, where it has some, the marks in the content that tell it from others, such as
    ``.json (execution trace of PyTorch: nodes)``."""
    return "; ".join(
        f"{' or '.join(form.suffixes)} ({form.title}{f': {form.marks}' if form.marks else ''})"
        for form in FORMS
        if form.purpose == purpose
    )


def or_a_file(purpose: Purpose) -> str:
    """Return the end of a message about an unknown name where a file for this purpose would do: ``or a file (.yaml,
    .yml)``, with the suffixes of all of its forms."""
    suffixes = dict.fromkeys(suffix for form in FORMS if form.purpose == purpose for suffix in form.suffixes)
    return f"or a file ({', '.join(suffixes)})"


def file_of(name: str, purpose: Purpose, known: Iterable[str]) -> Path:
    """Return ``name`` as the path of a file, once :func:`recognise` finds that its form serves this purpose; a file
    whose suffix and purpose decide is not read and need not exist.

    Raises:
        UnknownNameError: the name does not look like that of a file; ``known`` are the names that would have been
            known.
        ConfigError: the file cannot be read, is of no known form, or describes something else.
    """
    if not looks_like_file(name):
        raise UnknownNameError(purpose, name, known, or_a_file(purpose))
    recognise(Path(name), purpose)
    return Path(name)


def read_head(path: Path) -> str:
    """Return the first 65,536 bytes of a file, unpacked where it is gzip, as text; bytes that are no UTF-8 are
    replaced.

    Raises:
        ConfigError: the file cannot be read, or is damaged gzip.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            return (gzip.GzipFile(fileobj=file) if packed else file).read(_HEAD).decode("utf-8", "replace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ConfigError(f"{path}: not a whole gzip file: {error}") from error
    except OSError as error:
        raise cannot_read(path, error) from error


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]:,]', re.DOTALL)
"""A text, which the end of the head may cut, or a mark."""


def top_level_keys(head: str) -> Iterator[str]:
    """Yield the keys of the outermost JSON object, as far as ``head``, the first characters of a file, shows them; none
    where it begins no object."""
    if not head.lstrip("\ufeff \t\r\n").startswith("{"):
        return
    depth, text = 0, ""
    for match in _TOKEN.finditer(head):
        token = match.group()
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
        elif token == ":" and depth == 1:
            yield text
        text = token[1:-1]


def _suffix(path: Path) -> str:
    """Return the suffix of a path, dot included, in the case it has; of a packed file (``.gz``) the suffix before that;
    empty where there is none."""
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _described(head: str) -> str:
    """Return the end of a message about a file of no known form, which is put right behind the path, from its first
    characters: of a whole file of less than 64 KiB where its JSON is broken (``, line 3, column 5: not JSON: ...``),
    else its first six keys at the top level, else how its first line begins, else ``: empty``."""
    keys = list(dict.fromkeys(top_level_keys(head)))
    if head.lstrip().startswith(("{", "[")) and len(head.encode()) < _HEAD:
        try:
            decode_json(head, "")
        except ConfigError as error:
            return str(error)
    if keys:
        return f": of no known form (keys {', '.join(keys[:6])}{', ...' if len(keys) > 6 else ''})"
    line = next((line.strip() for line in head.splitlines() if line.strip()), "")
    return f": of no known form (begins {line[:40]!r})" if line else ": empty"
