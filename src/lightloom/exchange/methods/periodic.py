"""Methods that exchange weights every so many steps, in between each rank trains alone.

LocalSGD averages the weights. DiLoCo averages what they moved by, the *pseudo-gradient*, with any method, and lets an
outer optimizer (SGD with Nesterov momentum) apply it to the weights of the last exchange. With several fragments, each
has its own turn, evenly spread over the steps (streaming DiLoCo).

These do other training than data parallelism: fewer exchanges at equal steps, another loss.
Sources: Stich, Local SGD (ICLR 2019); Douillard et al., DiLoCo (2023) and Streaming DiLoCo (2025).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields, replace
from itertools import pairwise

from lightloom.exchange.family import Family, Find
from lightloom.exchange.method import ExchangeMethod, Gradient, Phase, Work
from lightloom.exchange.methods.composed import inner_reader, written
from lightloom.exchange.spelling import read, real, whole

_MOST_STEPS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSgdExchange(ExchangeMethod):
    """All-reduce of the weights every so many steps."""

    steps: int
    """Steps from one exchange to the next."""

    @property
    def name(self) -> str:
        return f"localsgd:every={self.steps}"

    @property
    def scale_free(self) -> bool:
        return True

    @property
    def every(self) -> int:
        return self.steps

    @property
    def synchronous(self) -> bool:
        return False

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        return (Phase(kind="all-reduce", nbytes=4.0 * gradient.values, hideable=False),)

    def work(self, gradient: Gradient, ranks: int) -> Work:
        return Work()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiLoCoExchange(ExchangeMethod):
    """Pseudo-gradients averaged by another method, an outer optimizer on every rank."""

    steps: int
    """Inner steps from one exchange of a fragment to its next."""
    inner: ExchangeMethod
    """What averages pseudo-gradients."""
    fragments: int
    outer_lr: float
    outer_momentum: float

    @property
    def name(self) -> str:
        return (
            f"diloco:every={self.steps},inner={written(self.inner)},fragments={self.fragments},"
            f"outer_lr={self.outer_lr!r},outer_momentum={self.outer_momentum!r}"
        )

    @property
    def scale_free(self) -> bool:
        return self.inner.scale_free

    @property
    def every(self) -> int:
        return self.steps

    @property
    def synchronous(self) -> bool:
        return False

    @property
    def needs_values(self) -> bool:
        return self.inner.needs_values

    @property
    def coding(self) -> ExchangeMethod:
        return self.inner.coding

    @property
    def state_values(self) -> float:
        """The weights of the last exchange, the outer momentum, and what the inner method keeps."""
        return 2.0 + self.inner.state_values

    def ranks_of(self, phase: Phase, ranks: int) -> int:
        return self.inner.ranks_of(phase, ranks)

    def parts(self, gradient: Gradient) -> tuple[Gradient, ...]:
        """Fragments in the order of the tensors: consecutive tensors, about equally many values each, none empty."""
        shapes, sums = gradient.shapes, [0]
        for shape in gradient.shapes:
            sums.append(sums[-1] + Gradient((shape,)).values)
        count, ends = min(self.fragments, len(shapes)), [0]
        for fragment in range(1, count):
            nearest = bisect_left(sums, sums[-1] * fragment / count)
            ends.append(min(max(nearest, ends[-1] + 1), len(shapes) - count + fragment))
        return tuple(replace(gradient, shapes=shapes[begin:end]) for begin, end in pairwise([*ends, len(shapes)]))

    def turn(self, fragment: int) -> int:
        """The step within a round of ``every`` steps, from 1 on, after which a fragment is exchanged."""
        return self.steps * (fragment + 1) // self.fragments

    def phases(self, gradient: Gradient, ranks: int) -> tuple[Phase, ...]:
        """Those of all fragments of a round."""
        return tuple(
            replace(phase, hideable=False) for part in self.parts(gradient) for phase in self.inner.phases(part, ranks)
        )

    def work(self, gradient: Gradient, ranks: int) -> Work:
        works = [self.inner.work(part, ranks) for part in self.parts(gradient)]
        return Work(**{field.name: sum(getattr(work, field.name) for work in works) for field in fields(Work)})


def _localsgd(text: str, options: dict[str, str], _find: Find) -> LocalSgdExchange:
    return LocalSgdExchange(steps=read(text, options, {"every": whole(1, _MOST_STEPS)}).get("every", 20))


def _diloco(text: str, options: dict[str, str], find: Find) -> DiLoCoExchange:
    every = read(text, {"every": options.get("every", "50")}, {"every": whole(1, _MOST_STEPS)})["every"]
    readers = {
        "every": whole(1, _MOST_STEPS),
        "inner": inner_reader(find),
        "fragments": whole(1, every),
        "outer_lr": real(0.0, 10.0),
        "outer_momentum": real(0.0, 0.9999),
    }
    values = read(text, options, readers)
    return DiLoCoExchange(
        steps=every,
        inner=values.get("inner") or find("float32"),
        fragments=values.get("fragments", 1),
        outer_lr=values.get("outer_lr", 0.7),
        outer_momentum=values.get("outer_momentum", 0.9),
    )


FAMILIES = (
    Family(
        name="localsgd",
        summary="weights averaged every so many steps; other training than data parallelism",
        options=(("every", "steps from one average to the next; 20 by default"),),
        build=_localsgd,
    ),
    Family(
        name="diloco",
        compared=("diloco:every=20",),
        summary="what weights moved by averaged every so many steps, with an outer optimizer; other training",
        options=(
            ("every", "inner steps from one exchange to the next; 50 by default"),
            ("inner", "method that averages what weights moved by, in parentheses; float32 by default"),
            ("fragments", "parts of the model that take turns, at most the steps; 1 by default"),
            ("outer_lr", "learning rate of the outer optimizer; 0.7 by default"),
            ("outer_momentum", "Nesterov momentum of the outer optimizer; 0.9 by default"),
        ),
        build=_diloco,
    ),
)
