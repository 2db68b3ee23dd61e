"""Nothing that comes from the network is unpickled: a pickle is a program, and whoever sends it runs it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lightloom.exchange

PACKAGE = Path(lightloom.exchange.__file__).parent
MODULES = {"cloudpickle", "dill", "joblib", "marshal", "multiprocessing", "pickle", "shelve", "_pickle"}
OBJECT_COLLECTIVES = {
    *("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"),
    *("send_object_list", "recv_object_list", "isend_object", "irecv_object"),
}
"""Of torch.distributed: each pickles what it sends."""
MPI_OBJECTS = {"allgather", "allreduce", "alltoall", "bcast", "gather", "recv", "reduce", "scatter", "send", "sendrecv"}
"""Of mpi4py, which pickles under names in lower case and sends buffers under names in upper case."""
READS_FILES = {"datasets.py"}
"""Reads a published file by an unpickler that knows three harmless names, and refuses all others."""


def faults(source: str, *, mpi: bool = False) -> Iterator[str]:
    """What in a module could unpickle, by line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for name in names:
                if name.split(".")[0] in MODULES:
                    yield f"line {node.lineno} imports {name}"
        elif isinstance(node, ast.Attribute) and node.attr in OBJECT_COLLECTIVES:
            yield f"line {node.lineno} uses {node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _faulty_call(node, node.func, mpi)


def _faulty_call(call: ast.Call, function: ast.Attribute, mpi: bool) -> Iterator[str]:
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    options = {option.arg: ast.literal_eval(option.value) for option in call.keywords if _is_constant(option.value)}
    if owner == "torch" and function.attr == "load" and options.get("weights_only") is not True:
        yield f"line {call.lineno} loads without weights_only=True"
    if options.get("allow_pickle") is True:
        yield f"line {call.lineno} allows pickles"
    if mpi and owner == "communicator" and function.attr in MPI_OBJECTS:
        yield f"line {call.lineno} sends a pickle by {function.attr}"


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def test_no_module_unpickles_what_it_receives() -> None:
    for path in PACKAGE.rglob("*.py"):
        if str(path.relative_to(PACKAGE)) not in READS_FILES:
            assert list(faults(path.read_text(encoding="utf-8"), mpi=path.name == "mpi.py")) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from multiprocessing.connection import Client",
        "torch.distributed.all_gather_object(found, own)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "communicator.allgather(own)",
        "communicator.bcast(size, root)",
    ],
)
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert list(faults(source, mpi=True))
