"""Jobs as people write them: ``gpt2-355m@0-31:tp=4,global-batch=64``, ``all-reduce@32-63:nbytes=64MiB``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lightloom.core.errors import ConfigError

FORM = "WHAT@RANKS[:option=value,...], e.g. gpt2-355m@0-31:tp=4,global-batch=64 or all-reduce@32-63:nbytes=64MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficJob:
    """One job: what it does and the ranks that it has to itself."""

    what: str
    """A model, or the kind of a collective that repeats without a pause."""
    ranks: tuple[int, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the plan or of the collective, by name."""
    name: str = ""
    """What tables call it; the model or the collective without a name."""

    @property
    def label(self) -> str:
        """What tables and messages call the job: its name, or what it runs where it has none."""
        return self.name or self.what

    @property
    def ranks_text(self) -> str:
        """The ranks in a few characters: 0-31, 0-62/2, or the first ones."""
        first, last, count = self.ranks[0], self.ranks[-1], len(self.ranks)
        step = (last - first) // (count - 1) if count > 1 else 1
        if step > 0 and self.ranks == tuple(range(first, last + 1, step)):
            return f"{first}-{last}" + (f"/{step}" if step > 1 else "")
        return ", ".join(map(str, self.ranks[:6])) + (", ..." if count > 6 else "")

    @classmethod
    def parse(cls, text: str) -> TrafficJob:
        """Read a job.

        Raises:
            ConfigError: not of the form.
        """
        head, _, tail = text.partition(":")
        what, at, ranks = head.partition("@")
        if not what or not at:
            raise ConfigError(f"job {text!r}: expected {FORM}")
        options: dict[str, str] = {}
        for part in filter(None, tail.split(",")):
            name, equals, value = part.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise ConfigError(f"job {text!r}: option {part!r}: expected {FORM}")
            options[name.strip().replace("_", "-")] = value.strip()
        name = options.pop("name", "")
        return cls(what=what.strip(), ranks=_ranks(ranks, text), options=options, name=name)


def _ranks(text: str, job: str) -> tuple[int, ...]:
    """Ranks of ``first-last`` or ``first-last/step``."""
    span, slash, step = text.partition("/")
    first, dash, last = span.partition("-")
    try:
        begin, end, by = int(first), int(last if dash else first), int(step) if slash else 1
    except ValueError:
        raise ConfigError(f"job {job!r}: ranks {text!r}: expected first-last or first-last/step, e.g. 0-31") from None
    if by < 1 or end <= begin:
        raise ConfigError(f"job {job!r}: ranks {text!r}: expected at least two ranks in ascending order, e.g. 0-31")
    return tuple(range(begin, end + 1, by))


def check_jobs(jobs: Sequence[TrafficJob], ranks: int) -> None:
    """Refuse what no cluster of so many ranks can run at once.

    Raises:
        ConfigError: fewer than two jobs, a rank that does not exist, or one that two jobs have.
    """
    if len(jobs) < 2:
        raise ConfigError(f"{len(jobs)} jobs: expected at least two, each as {FORM}")
    owner: dict[int, TrafficJob] = {}
    for job in jobs:
        outside = next((rank for rank in job.ranks if not 0 <= rank < ranks), None)
        if outside is not None:
            raise ConfigError(f"job {job.label}: rank {outside}: the cluster has ranks 0 to {ranks - 1}")
        for rank in job.ranks:
            if rank in owner:
                raise ConfigError(
                    f"rank {rank} is in jobs {owner[rank].label}@{owner[rank].ranks_text} and "
                    f"{job.label}@{job.ranks_text}: expected each rank in one job at most"
                )
            owner[rank] = job
