"""One call from a name to a graph; models of the zoo come with the package, or are traced once and kept."""

import contextlib
import importlib
import importlib.util
import json
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from lightloom.core.errors import UnknownNameError, WorkloadError, needing_torch
from lightloom.core.files import cache_directory, read_entry, source_hash, write_entry
from lightloom.core.forms import or_a_file
from lightloom.core.plugins import load_plugins
from lightloom.core.results import content_hash
from lightloom.models.graph import ComputeGraph

# The zoo's index, without PyTorch: what each name is, its size, its source, and where the module is written.


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooEntry:
    """One model of the zoo."""

    name: str
    description: str
    parameters: int
    """Published count; where the paper rounds, the exact count of the published layout."""
    source: str
    path: str
    """Module and factory function of the model, as ``module:factory``."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Given to the factory."""
    example: str
    """One sample, as used when nothing else is asked for."""
    sequence_length: int | None = None
    """Tokens in a sample; none for models that do not take tokens."""


_ENTRIES = json.loads((files(__package__) / "zoo.json").read_text(encoding="utf-8"))
ZOO: Mapping[str, ZooEntry] = {entry["name"]: ZooEntry(**entry) for entry in _ENTRIES}
"""Every model of the zoo, by name."""


# Graphs of the zoo that the package brings along, so that no installation waits for PyTorch to trace the same again.
#
# ``zoo.zip`` holds the trace of every model of the zoo, with the model's own sequence length, under the key by which
# traces are cached: the model's arguments and the source of the tracer. ``python -m scripts.trace_zoo`` writes it. A
# graph is taken only where its key fits, and where the installed PyTorch is of a version whose traces were compared
# with it.

ARCHIVE = Path(__file__).with_name("zoo.zip")
_VERSIONS = "torch"
_DATE = (2026, 1, 1, 0, 0, 0)
"""Date of every member of the archive, so that equal graphs make equal files."""


def torch_version() -> str | None:
    """Return the version of the installed PyTorch without its build (``2.13.0``); None where it is not installed.
    Imports nothing."""
    try:
        return version("torch").partition("+")[0]
    except PackageNotFoundError:
        return None


def shipped_graph(key: str, torch: str | None, archive: Path = ARCHIVE) -> ComputeGraph | None:
    """Return the graph that the package brings along under a key, at the batch of traces; None if it has none, or not
    for that version.

    Args:
        key: name and hash of what was traced, its length and the tracer's sources, as :func:`trace_key` gives it.
        torch: the version of PyTorch that would trace it; None takes the graph whatever version traced it.
        archive: the file that holds the graphs.
    """
    return _graph_from(_member(key, archive)) if torch is None or torch in compared_versions(archive) else None


def compared_versions(archive: Path = ARCHIVE) -> list[str]:
    """Return the versions of PyTorch (``2.13.0``) whose traces equal the graphs of an archive, as the archive states
    them; none if it is missing or damaged."""
    return (_member(_VERSIONS, archive) or b"").decode().split()


def write_archive(graphs: Mapping[str, ComputeGraph], versions: Sequence[str], archive: Path = ARCHIVE) -> None:
    """Write an archive, in the place of any there, of graphs by their keys (as :func:`trace_key` gives them) and of the
    versions of PyTorch that trace them so.

    Equal contents give equal files.
    """
    texts = {key: json.dumps(graph.to_json(), separators=(",", ":")) for key, graph in graphs.items()}
    with zipfile.ZipFile(archive, "w") as members:
        for name, text in {_VERSIONS: "\n".join(versions), **texts}.items():
            members.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED, 9)


def _member(name: str, archive: Path) -> bytes | None:
    """Return the content of a member of an archive; None where archive or member is missing or damaged."""
    try:
        with zipfile.ZipFile(archive) as members:
            return members.read(name)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
        return None


def _graph_from(text: bytes | str | None) -> ComputeGraph | None:
    """Return the graph in a kept document; None where that is missing or damaged."""
    try:
        return None if text is None else ComputeGraph.from_json(json.loads(text))
    except (ValueError, RecursionError):
        return None


# Find a user's factory: ``package.module:factory`` or ``path/file.py:factory``.


def resolve(spec: str) -> Any:
    """Return the object that ``package.module:attribute`` or ``path/file.py:attribute`` names; importing it runs the
    user's code, whose output goes to stderr.

    Raises:
        WorkloadError: a text of another form, no such file, module or attribute, or the import fails.
    """
    place, _, attribute = spec.rpartition(":")
    is_file = place.endswith(".py")
    if not _dotted(attribute) or not (is_file or _dotted(place)):
        raise WorkloadError(
            f"{spec!r} is no file here and names no factory: expected package.module:factory or path/file.py:factory"
        )
    try:
        with search_path(spec), needing_torch(f"{spec}:", error=WorkloadError), contextlib.redirect_stdout(sys.stderr):
            module = _import_file(spec, Path(place)) if is_file else importlib.import_module(place)
    except WorkloadError:
        raise
    except (Exception, SystemExit) as error:
        text = (str(error).strip() or "no message").splitlines()[0]
        raise WorkloadError(f"{spec}: cannot import {place!r}: {type(error).__name__}: {text}") from error
    try:
        return attrgetter(attribute)(module)
    except AttributeError as error:
        raise WorkloadError(f"{spec}: {place!r} has no {attribute!r}{_offer(module)}") from error


def _dotted(name: str) -> bool:
    """Return whether a name consists of identifiers joined by dots, as modules and attributes are written."""
    return all(part.isidentifier() for part in name.split("."))


@contextlib.contextmanager
def search_path(spec: str) -> Iterator[None]:
    """Let imports find what lies beside the file that a spec (``path/file.py:factory``) names, or in the working folder
    for a module (``package.module:factory``), before anything else on ``sys.path``, while the context lasts."""
    place = spec.rpartition(":")[0]
    folder = str(Path(place).resolve().parent if place.endswith(".py") else Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _import_file(spec: str, path: Path) -> ModuleType:
    """Import a Python file as a module of a name of its own, which stays in ``sys.modules``, and return it;
    WorkloadError if there is no such file. Errors of its code pass through."""
    if not path.is_file():
        raise WorkloadError(f"{spec}: there is no file {str(path)!r}")
    name = f"lightloom_model_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise WorkloadError(f"{spec}: {str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # dataclasses and pickle look it up there
    try:
        module_spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _offer(module: ModuleType) -> str:
    """Return the end of a message, ``; it has NAME, NAME``, that lists up to ten public callables that a module defines
    itself, by name; empty if it has none."""
    values = {name: value for name, value in vars(module).items() if callable(value) and not name.startswith("_")}
    own = [name for name, value in values.items() if getattr(value, "__module__", None) == module.__name__]
    return f"; it has {', '.join(sorted(own)[:10])}" if own else ""


TRACE_BATCH = 13
"""Zoo models are traced with this many samples and rescaled: a prime that no layer size has, so that a 13 in a shape
is the batch."""


def load_workload(spec: str, *, batch: int, sequence_length: int | None = None) -> ComputeGraph:
    """Return the graph of a model for ``batch`` samples.

    A model of the zoo comes from the package or the cache where it can, others are traced anew, which runs the user's
    code.

    Args:
        spec: a zoo name, the name of a plug-in in group ``lightloom.models``, ``package.module:factory`` or
            ``path/file.py:factory``.
        batch: samples in one forward pass.
        sequence_length: tokens in a sample, for models that take tokens; by default the model's own.

    Raises:
        UnknownNameError: no such name in the zoo or among the plug-ins.
        WorkloadError: the model cannot be imported, built or traced, PyTorch is missing, a number is no whole one of at
            least 1, or a sequence length is given for a model of the zoo that takes no tokens.
    """
    for what, value in (("batch", batch), ("sequence length", sequence_length)):
        if value is not None and (type(value) is not int or value < 1):
            raise WorkloadError(f"{spec}: the {what} is {value!r}, expected a whole number of at least 1")
    if (entry := ZOO.get(spec)) is not None:
        return _load_zoo(entry, sequence_length).with_batch(batch)
    if _is_factory(spec):
        factory, trace = resolve(spec), tracer(spec)
        with search_path(spec):
            return trace(factory, name=spec, batch=batch, sequence_length=sequence_length)
    if spec not in (plugins := load_plugins("models")):
        raise UnknownNameError("model", spec, [*ZOO, *plugins], or_a_file("model"))
    return tracer(spec)(plugins[spec], name=spec, batch=batch, sequence_length=sequence_length)


def is_model_name(spec: str) -> bool:
    """Return whether a text names a model rather than a file that describes one: it is a name of the zoo or of a
    plug-in, or holds a colon or ends in ``.py``, as factories do. Whether a factory exists is not looked at."""
    return spec in ZOO or _is_factory(spec) or spec in load_plugins("models")


def _is_factory(spec: str) -> bool:
    """Return whether a spec has the form of a factory: a colon, or the end ``.py``."""
    return ":" in spec or spec.endswith(".py")


def _load_zoo(entry: ZooEntry, sequence_length: int | None) -> ComputeGraph:
    """Return the graph of a model of the zoo at the batch of traces (13 samples): the one that the package ships, else
    a cached one, else traced now with PyTorch and cached.

    WorkloadError for a sequence length of a model that takes no tokens, or without PyTorch where it must be traced.
    """
    if sequence_length is not None and entry.sequence_length is None:
        raise WorkloadError(f"{entry.name}: takes no sequence length, its sample is {entry.example}")
    length = sequence_length or entry.sequence_length
    key, torch = trace_key(entry, length), torch_version()
    if (shipped := shipped_graph(key, torch)) is not None:
        return shipped
    path = cache_directory() / "workloads" / f"{key}-{torch}.json"
    cached = _graph_from(read_entry(path))
    if cached is not None and cached.name == entry.name:
        return cached
    graph = trace_zoo(entry, sequence_length)
    write_entry(path, json.dumps(graph.to_json(), separators=(",", ":")))
    return graph


def trace_zoo(entry: ZooEntry, sequence_length: int | None = None) -> ComputeGraph:
    """Trace a model of the zoo at 13 samples with the installed PyTorch, without looking for a kept trace or keeping
    this one, and return the graph.

    ``sequence_length`` is the tokens in a sample, None for the model's own.

    Raises:
        WorkloadError: PyTorch is missing.
    """
    trace, request = tracer(entry.name), {"sequence_length": sequence_length, "arguments": entry.arguments}
    return trace(resolve(entry.path), name=entry.name, batch=TRACE_BATCH, **request)


def trace_key(entry: ZooEntry, length: int | None) -> str:
    """Return the name under which a trace is kept (in the cache followed by the version of PyTorch): the model's, a
    hyphen, and a hash of its name, factory and arguments, its length in tokens (None where it takes none), the batch of
    traces, and the sources of the tracer, the zoo's modules, the table of operators and the graph."""
    sources = source_hash("models/graph.py", "models/operator_words.py", "models/torch")
    return f"{entry.name}-{content_hash([entry.name, entry.path, dict(entry.arguments), length, TRACE_BATCH, sources])}"


def tracer(name: str) -> Callable[..., ComputeGraph]:
    """Return :func:`~lightloom.models.torch.trace.trace_factory`, which traces the model that a factory makes,
    ``(factory, name=, batch=, sequence_length=, arguments=)``, and is imported only now.

    Raises:
        WorkloadError: PyTorch is missing; the message begins with ``name``, the model's.
    """
    with needing_torch(f"{name}:", error=WorkloadError):
        from lightloom.models.torch.trace import trace_factory
    return trace_factory
