"""Find a user's factory: ``package.module:factory`` or ``path/file.py:factory``."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from lightloom.core.errors import WorkloadError

INSTALL_TORCH = "needs PyTorch, which is not installed: pip install 'lightloom[torch]'"


def resolve(spec: str) -> Any:
    """Return the object that the spec names; importing it runs the user's code.

    Raises:
        WorkloadError: no such file, module or attribute, or the import fails.
    """
    place, _, attribute = spec.rpartition(":")
    is_file = place.endswith(".py")
    if not _dotted(attribute) or not (is_file or _dotted(place)):
        raise WorkloadError(
            f"{spec!r} is no file here and names no factory: expected package.module:factory or path/file.py:factory"
        )
    try:
        with search_path(spec), contextlib.redirect_stdout(sys.stderr):
            module = _import_file(spec, Path(place)) if is_file else importlib.import_module(place)
    except WorkloadError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            raise WorkloadError(f"{spec}: {INSTALL_TORCH}") from error
        text = (str(error).strip() or "no message").splitlines()[0]
        raise WorkloadError(f"{spec}: cannot import {place!r}: {type(error).__name__}: {text}") from error
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise WorkloadError(f"{spec}: {place!r} has no {attribute!r}{_offer(module)}")
        value = getattr(value, part)
    return value


def _dotted(name: str) -> bool:
    """Whether it is names joined by dots, as modules and attributes are written."""
    return all(part.isidentifier() for part in name.split("."))


@contextlib.contextmanager
def search_path(spec: str) -> Iterator[None]:
    """Let imports find what lies beside the user's file, or in the working folder, while the context lasts."""
    place = spec.rpartition(":")[0]
    folder = str(Path(place).resolve().parent if place.endswith(".py") else Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _import_file(spec: str, path: Path) -> ModuleType:
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
    own = [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return f"; it has {', '.join(sorted(own)[:10])}" if own else ""
