"""Every exception that lightloom raises on purpose.

LightloomError
├── InputError            the user's input is at fault: one clear line, exit 2
│   ├── UnitError         a quantity could not be read ("40 Gbsp")
│   ├── UnknownNameError  no such model, cluster, fabric, algorithm, ...
│   ├── ConfigError       a file or field is malformed or out of range
│   ├── WorkloadError     a model could not be built or traced
│   ├── CodecError        a compressed stream is malformed, truncated or corrupted
│   └── UnsupportedError  well-formed, but this fabric or algorithm cannot do it
├── VerificationError     a schedule is wrong (names rank, chunk, step or link), or a proof does not hold
├── BoundError            a cost came out below its proved lower bound: our fault
└── TransportError, LaunchError (lightloom.exchange)   a peer fell silent, a worker failed
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches

_NEAR = 3
"""Known names that a message about an unknown one offers."""
_FEW = 8
"""Known names that such a message lists all, where there are no more."""
_LISTED = ("accelerator", "algorithm", "cluster", "codec", "exchange", "fabric", "model", "part")
"""Names that ``lightloom catalog`` lists, by what they are."""


class LightloomError(Exception):
    """Base of everything raised on purpose."""


class InputError(LightloomError, ValueError):
    """The user's input is at fault; the message names value, place and expectation."""


class UnitError(InputError):
    """A quantity could not be read."""


class UnknownNameError(InputError):
    """A name is in no catalog; the message says what is near it, and where all names are."""

    def __init__(self, what: str, name: str, known: Iterable[str], otherwise: str = "", listed: str = "") -> None:
        """Make the message: what is unknown, up to three known names that are near it, the command that lists all
        (``listed``, or the catalog's for what it lists), and what else is possible (``otherwise``); up to eight names,
        or names that nothing lists, are all in the message where none is near."""
        names = sorted(known)
        close = get_close_matches(name, names, n=_NEAR)
        hints = [f"did you mean {' or '.join(map(repr, close))}?"] if close else []
        listed = listed or (f"lightloom catalog {what}s" if what in _LISTED else "")
        if len(names) <= _FEW or not (listed or close):
            hints.append(f"expected one of {', '.join(names)}")
        elif listed:
            hints.append(f"expected one that `{listed}` lists")
        super().__init__(f"unknown {what} {name!r}: {' '.join(hints)}{f', {otherwise}' if otherwise else ''}")


class ConfigError(InputError):
    """A configuration file or field is malformed or out of range."""


class WorkloadError(InputError):
    """A model could not be found, built or traced."""


class CodecError(InputError):
    """A compressed stream is malformed, truncated or corrupted, or does not fit where it should be decoded to."""


class UnsupportedError(InputError):
    """The request is well-formed, but this fabric or algorithm cannot serve it."""


class VerificationError(LightloomError):
    """A schedule does not do what its collective promises, or uses the fabric illegally; or a proof does not hold."""


class BoundError(LightloomError):
    """A cost lies below a proved lower bound, so one of the two is wrong."""


@contextmanager
def needing(
    needs: str, install: str, module: str = "", otherwise: str = "", error: type[InputError] = UnsupportedError
) -> Iterator[None]:
    """Return a context that raises ``error`` where an import in it does not find ``module``, or any module where none
    is named, with the message ``NEEDS, which is not installed: pip install INSTALL``, then ``otherwise``. A missing
    module of another name raises ModuleNotFoundError as usual.

    Args:
        needs: begin of the message, what needs which library: ``figures need Matplotlib``.
        install: argument of pip that installs the library.
        module: the only module that may be missing.
        otherwise: end of the message, what to do instead, appended as it is: ``; or give --gradients FILE``.
        error: class of the error.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if module and missing.name != module:
            raise
        raise error(f"{needs}, which is not installed: pip install {install}{otherwise}") from missing


def needing_torch(
    what: str, otherwise: str = "", error: type[InputError] = UnsupportedError
) -> AbstractContextManager[None]:
    """Return a context that raises ``error`` where an import in it finds no PyTorch; another missing module raises
    ModuleNotFoundError as usual. The message begins with ``what``, the thing that needs PyTorch, says how to install
    it, and ends with ``otherwise``, what to do instead, appended as it is: ``; or give --gradients FILE``."""
    return needing(f"{what} needs PyTorch", "'lightloom[torch]'", "torch", otherwise, error)


@contextmanager
def about(file: object) -> Iterator[None]:
    """Return a context that raises a WorkloadError of its block anew, with ``file`` as text and a colon before the
    message; other errors pass unchanged."""
    try:
        yield
    except WorkloadError as error:
        raise WorkloadError(f"{file}: {error}") from error
