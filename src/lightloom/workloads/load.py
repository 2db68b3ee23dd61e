"""One call from a name to a graph; models of the zoo come with the package, or are traced once and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from lightloom.core.cache import cache_directory, read_entry, write_entry
from lightloom.core.errors import UnknownNameError, WorkloadError
from lightloom.core.forms import expected_forms
from lightloom.core.plugins import load_plugins
from lightloom.core.provenance import content_hash
from lightloom.workloads.catalog import ZOO, ZooEntry
from lightloom.workloads.graph import ComputeGraph
from lightloom.workloads.resolve import INSTALL_TORCH, resolve, search_path
from lightloom.workloads.shipped import shipped_graph, torch_version

TRACE_BATCH = 13
"""Zoo models are traced with this many samples and rescaled: a prime that no layer size has, so that a 13 in a shape
is the batch."""


def load_workload(spec: str, *, batch: int, sequence_length: int | None = None) -> ComputeGraph:
    """Return the graph of a model.

    Args:
        spec: a zoo name, the name of a plug-in in group ``lightloom.models``, ``package.module:factory`` or
            ``path/file.py:factory``.
        batch: samples in one forward pass.
        sequence_length: tokens in a sample, for models that take tokens; by default the model's own.

    Raises:
        UnknownNameError: no such name in the zoo or among the plug-ins.
        WorkloadError: the model cannot be imported, built or traced, or PyTorch is missing.
    """
    for what, value in (("batch", batch), ("sequence length", sequence_length)):
        if value is not None and (type(value) is not int or value < 1):
            raise WorkloadError(f"{spec}: the {what} is {value!r}, expected a whole number of at least 1")
    entry = ZOO.get(spec)
    if entry is not None:
        return _load_zoo(entry, sequence_length).with_batch(batch)
    if _is_factory(spec):
        factory, trace = resolve(spec), _tracer(spec)
        with search_path(spec):
            return trace(factory, name=spec, batch=batch, sequence_length=sequence_length)
    plugins = load_plugins("models")
    if spec not in plugins:
        raise UnknownNameError("model", spec, [*ZOO, *plugins], f"or a file: {expected_forms('model')}")
    return _tracer(spec)(plugins[spec], name=spec, batch=batch, sequence_length=sequence_length)


def is_model_name(spec: str) -> bool:
    """Whether a model is named (in the zoo, by a plug-in, or by its factory) rather than described by a file."""
    return spec in ZOO or _is_factory(spec) or spec in load_plugins("models")


def _is_factory(spec: str) -> bool:
    return ":" in spec or spec.endswith(".py")


def _load_zoo(entry: ZooEntry, sequence_length: int | None) -> ComputeGraph:
    if sequence_length is not None and entry.sequence_length is None:
        raise WorkloadError(f"{entry.name}: takes no sequence length, its sample is {entry.example}")
    length = sequence_length or entry.sequence_length
    torch = torch_version()
    shipped = shipped_graph(trace_key(entry, length), torch)
    if shipped is not None:
        return shipped
    path = cache_directory() / "workloads" / f"{trace_key(entry, length)}-{torch}.json"
    cached = _read(path)
    if cached is not None and cached.name == entry.name:
        return cached
    graph = trace_zoo(entry, sequence_length)
    write_entry(path, json.dumps(graph.to_json(), separators=(",", ":")))
    return graph


def trace_zoo(entry: ZooEntry, sequence_length: int | None = None) -> ComputeGraph:
    """Trace a model of the zoo with the installed PyTorch, whatever is kept.

    Raises:
        WorkloadError: PyTorch is missing.
    """
    trace = _tracer(entry.name)
    return trace(
        resolve(entry.path),
        name=entry.name,
        batch=TRACE_BATCH,
        sequence_length=sequence_length,
        arguments=entry.arguments,
    )


def trace_key(entry: ZooEntry, length: int | None) -> str:
    """Return the name under which a trace is kept: the model's, a hash of its arguments and of the tracer's source."""
    content = [entry.name, entry.path, dict(entry.arguments), length, TRACE_BATCH, _source_hash()]
    return f"{entry.name}-{content_hash(content)}"


def _read(path: Path) -> ComputeGraph | None:
    """Return the cached graph; none where the file is missing or damaged."""
    content = read_entry(path)
    try:
        return None if content is None else ComputeGraph.from_json(json.loads(content))
    except (ValueError, RecursionError):
        return None


@cache
def _source_hash() -> str:
    """Changes whenever the tracer, the zoo or the form of the graph does."""
    folder = Path(__file__).parent
    digest = sha256()
    own = [folder / name for name in ("graph.py", "operator.py", "operator_words.py")]
    for file in (*own, *sorted((folder / "torch").rglob("*.py"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _tracer(name: str) -> Callable[..., ComputeGraph]:
    """Return the bridge to PyTorch, imported only now that something has to be traced."""
    try:
        from lightloom.workloads.torch.build import trace_factory
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise WorkloadError(f"{name}: {INSTALL_TORCH}") from error
    return trace_factory
