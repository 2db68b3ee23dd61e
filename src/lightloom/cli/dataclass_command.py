"""Commands whose options are the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar, get_type_hints

T = TypeVar("T")


def command_of(options: type[T], run: Callable[[T], None]) -> Callable[..., None]:
    """A command for typer that takes the fields of a dataclass, annotated with arguments and options, and runs."""

    def command(**values: object) -> None:
        run(options(**values))

    command.__name__, command.__doc__ = run.__name__, run.__doc__
    hints, signature = get_type_hints(options, include_extras=True), inspect.signature(options)
    parameters = [parameter.replace(annotation=hints[name]) for name, parameter in signature.parameters.items()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command
