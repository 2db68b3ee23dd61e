"""Results of methods, kept with the object that computed them, and the results that were set last."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from math import inf
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Key = TypeVar("_Key")
_Result = TypeVar("_Result")


class Latest(OrderedDict[_Key, _Result]):
    """The results that were set last, by key, at most so many."""

    def __init__(self, most: int) -> None:
        """Keep the last ``most`` results."""
        super().__init__()
        self._most = most

    def __setitem__(self, key: _Key, result: _Result) -> None:
        """Set the result of a key, as the last one; the first is dropped where there are too many."""
        super().__setitem__(key, result)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


def cached_method(most: float = inf) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Return a decorator that keeps the results of a method in the object itself, by arguments, which must be hashable.

    The same value by position and by keyword counts as two arguments. Errors are not kept. The results live and die
    with the object, which needs a ``__dict__`` and need not be hashable; ``functools.cache`` would keep it alive.

    Args:
        most: largest number of results that an object keeps; beyond, the one that was computed first is dropped.
    """

    def decorated(method: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        """Return the method that looks its result up in the object first."""
        name = f"{method.__qualname__} results"

        @wraps(method)
        def cached(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
            """Return the kept result for these arguments, or compute and keep it, dropping the oldest beyond
            ``most``."""
            results: dict[object, _Result] = vars(args[0]).setdefault(name, {})
            key = (*args[1:], *options.items())
            if key not in results:
                results[key] = method(*args, **options)
                if len(results) > most:
                    del results[next(iter(results))]
            return results[key]

        return cached

    return decorated
