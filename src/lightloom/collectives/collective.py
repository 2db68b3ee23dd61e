"""Collectives as pre- and postconditions: who holds what before, who must hold what after.

Data is cut into parts, and parts into chunks. A chunk is held as the set of ranks whose contributions are already
summed into it:

    kind               parts         before                          after
    all-gather         one a rank    rank r holds part r             every rank holds every part
    reduce-scatter     one a rank    every rank r holds {r}          rank r holds {0, ..., N−1} of part r
    all-reduce         one           every rank r holds {r}          every rank holds {0, ..., N−1}
    all-to-all         one a pair    the source holds it             the destination holds it
    broadcast          one           rank 0 holds it                 every rank holds it
    reduce             one           every rank r holds {r}          rank 0 holds {0, ..., N−1}
    gather             one a rank    rank r holds part r             rank 0 holds every part
    scatter            one a rank    rank 0 holds every part         rank r holds part r
    permute            one a rank    rank r holds part r             rank π(r) holds part r, π a permutation
    barrier            one a rank    rank r knows that it is there   every rank knows that every rank is there
    all-to-all-v       one a pair    as all-to-all, parts of given sizes
    reduce-scatter-v   one a rank    as reduce-scatter, parts of given sizes

Parts are equally large unless :class:`Sizes` says otherwise. An all-to-all has a part for every
ordered pair of ranks, source · N + destination; what a rank has for itself counts, but stays where it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.core.documents import read_csv, read_number
from lightloom.core.errors import ConfigError, UnknownNameError
from lightloom.core.fields import MAXIMUM_RANKS
from lightloom.core.memory import require_memory

# Permutations of ranks as people write them: who sends to whom in a permute.

_FORMS = "shift:K (rank r to r + K), reverse, or the rank to which each sends, e.g. 1,0,3,2"


def read_permutation(text: str, ranks: int) -> tuple[int, ...]:
    """Return the rank to which each rank sends, as a text states it: [rank].

    Args:
        text: ``shift:K`` (rank r sends to (r + K) mod ``ranks``), ``reverse`` (to ``ranks`` − 1 − r), or
            comma-separated ranks, of which entry r is the destination of rank r.
        ranks: number of ranks; a comma-separated list may have another number of entries. Whether each rank occurs once
            is not checked either.

    Raises:
        ConfigError: a text of no such form.
    """
    what, _, number = text.partition(":")
    try:
        if what == "shift":
            return tuple((rank + int(number)) % ranks for rank in range(ranks))
        if text == "reverse":
            return tuple(reversed(range(ranks)))
        return tuple(int(rank) for rank in text.split(","))
    except ValueError as error:
        raise ConfigError(f"permutation {text!r}: expected {_FORMS}") from error


# Sizes of the parts of a collective that is not even: measured, given, or skewed by Zipf's law.
#
# In a mixture of experts each rank holds experts, and some experts are asked for more often than others. With Zipf's
# law the k-th most popular rank receives a share proportional to k^−s of what every rank sends:
#
# exponent s    0      0.8    1.2         which rank is the k-th is drawn from the seed
# most popular  1      9.1    18.7        share of the most popular of 64 ranks over the mean

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The share of all bytes that each part of a collective has; shares add up to 1."""

    share: Floats
    """Share of all bytes of each rank, [rank], or of each ordered pair, [source, destination]."""

    def __post_init__(self) -> None:
        """Scale the shares so that they add up to 1, and make them read-only.

        Raises:
            ConfigError: another shape, a share that is negative or not finite, or nothing that is sent.
        """
        share = np.array(self.share, np.float64)
        total = share.sum()
        if share.ndim not in (1, 2) or (share.ndim == 2 and share.shape[0] != share.shape[1]):
            raise ConfigError(f"sizes of shape {share.shape}: expected one a rank, or a square of one a pair of ranks")
        if not np.isfinite(total) or (share < 0).any() or total <= 0:
            raise ConfigError("sizes: expected finite numbers that are not negative, and one above zero")
        if share.ndim == 2 and not (share.sum() - np.trace(share)) > 0:
            raise ConfigError("sizes: only what ranks keep for themselves has a size: expected something that is sent")
        # What has been read back must not change again by rounding.
        share = np.ascontiguousarray(share if abs(total - 1) < _ROUNDING else share / total)
        share.flags.writeable = False
        object.__setattr__(self, "share", share)

    @property
    def digest(self) -> str:
        """BLAKE2b hash of the shares' float64 bytes, 32 hexadecimal digits; the shape of ``share`` is not part of
        it."""
        return blake2b(self.share.tobytes(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        """Return True where the other has exactly the same shares."""
        return isinstance(other, Sizes) and np.array_equal(self.share, other.share)

    def __hash__(self) -> int:
        return hash(self.digest)


def zipf_sizes(ranks: int, exponent: float, seed: int = 0, *, pairs: bool = True) -> Sizes:
    """Return sizes by Zipf's law, shares that add up to 1: the k-th most popular rank receives a share proportional to
    k^−s of what every rank sends, itself included; which rank is the k-th is drawn at random.

    Args:
        exponent: s in k^−s, not negative; 0: all are equal.
        seed: of the random order in which ranks are popular.
        pairs: sizes [source, destination] of ordered pairs of ranks, whose rows are all alike; otherwise sizes [rank].

    Raises:
        ConfigError: an exponent that is not finite or negative, or a negative seed.
        UnsupportedError: the sizes of all pairs do not fit in the memory that is free.
    """
    if not (np.isfinite(exponent) and exponent >= 0 and seed >= 0):
        raise ConfigError(f"zipf:{exponent:g}:{seed}: expected an exponent and a seed that are not negative")
    if pairs:
        require_memory(24 * ranks**2, f"a size for every pair of {ranks:,} ranks")
    popularity: Floats = np.random.default_rng(seed).permutation(np.power(np.arange(1.0, ranks + 1), -exponent))
    return Sizes(np.tile(popularity, (ranks, 1)) if pairs else popularity)


def measured_sizes(path: Path) -> tuple[Sizes, float]:
    """Return the sizes that a CSV file lists in bytes, as shares that add up to 1, and their sum in bytes.

    The file has a line for each source with an entry for each destination, or one line or column with an entry for each
    rank, and no header. Empty lines are skipped.

    Raises:
        ConfigError: a file that cannot be read, or whose entries are not numbers, not as many in each line, or no valid
            sizes (:class:`Sizes`).
    """
    rows: list[list[float]] = []
    for number, line in read_csv(path):
        if rows and len(line) != len(rows[0]):
            raise ConfigError(f"{path}: line {number} has {len(line)} entries: expected {len(rows[0])}")
        try:
            rows.append([read_number(entry) for entry in line])
        except ValueError as error:
            raise ConfigError(f"{path}: line {number}: {error}: expected bytes") from error
    nbytes = np.array(rows)
    if 1 in nbytes.shape:
        nbytes = nbytes.ravel()
    try:
        return Sizes(nbytes), float(nbytes.sum())
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def read_sizes(text: str, ranks: int, *, pairs: bool) -> tuple[Sizes, float | None]:
    """Return sizes that a text states, as shares that add up to 1, and the sum of a file's sizes in bytes, which is
    None for Zipf's law.

    Args:
        text: ``zipf:EXPONENT[:SEED]``, the seed by default 0, or the path of a CSV file of bytes, which ends in
            ``.csv``; neither ``ranks`` nor ``pairs`` matters for a file.
        ranks: number of ranks.
        pairs: sizes of ordered pairs of ranks, otherwise of ranks.

    Raises:
        ConfigError: a text of no such form, an exponent or a seed below zero, or a file that cannot be read or holds no
            sizes.
        UnsupportedError: sizes of all pairs by Zipf's law do not fit in the memory that is free.
    """
    what, *rest = text.split(":")
    if what != "zipf":
        if Path(text).suffix != ".csv":
            raise ConfigError(f"sizes {text!r}: expected zipf:EXPONENT, zipf:EXPONENT:SEED or a .csv file of bytes")
        return measured_sizes(Path(text))
    try:
        exponent, seed = float(rest[0]), int(rest[1]) if rest[1:] else 0
        if rest[2:]:
            raise ValueError(text)
    except (ValueError, IndexError) as error:
        raise ConfigError(f"sizes {text!r}: expected zipf:EXPONENT or zipf:EXPONENT:SEED, e.g. zipf:1.2") from error
    return zipf_sizes(ranks, exponent, seed, pairs=pairs), None


Kind = Literal[
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "permute",
    "barrier",
    "all-to-all-v",
    "reduce-scatter-v",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
CLASSIC = KINDS[:6]
"""Kinds that the planner asks for, and that the papers' algorithms serve."""
OF_SIZE = KINDS[:9]
"""Kinds that ranks and a size describe, a permute being one to the next rank."""
FROM_ALL_GATHER = KINDS[:3]
"""Kinds that an algorithm that knows all-gather serves (:mod:`lightloom.collectives.schedule.build`)."""
ROOTED = KINDS[4:6]
"""Rank 0 owns every chunk, however many there are."""
TO_OR_FROM_ROOT = ("gather", "scatter")
"""Rank 0 exchanges a part with every other rank."""
CARRIED_AS: dict[str, Kind] = {
    "barrier": "all-gather",
    "all-to-all-v": "all-to-all",
    "reduce-scatter-v": "reduce-scatter",
}
"""Kinds that the schedules of another kind serve as they are: with parts of other sizes, or of no size."""

Holder = Literal["own", "other", "root", "every"]
"""Rank r for part r, or the source of a pair; the destination of a pair or by a permutation; rank 0; all ranks."""


class Rule(NamedTuple):
    """The promise of a kind: its parts, and who holds each part before and after."""

    parts: Literal["one", "ranks", "pairs"]
    before: Holder
    after: Holder
    adds: bool = False


RULES: dict[str, Rule] = {
    "all-gather": Rule("ranks", "own", "every"),
    "reduce-scatter": Rule("ranks", "every", "own", adds=True),
    "all-reduce": Rule("one", "every", "every", adds=True),
    "all-to-all": Rule("pairs", "own", "other"),
    "broadcast": Rule("one", "root", "every"),
    "reduce": Rule("one", "every", "root", adds=True),
    "gather": Rule("ranks", "own", "root"),
    "scatter": Rule("ranks", "root", "own"),
    "permute": Rule("ranks", "own", "other"),
}
RULES |= {kind: RULES[carrier] for kind, carrier in CARRIED_AS.items()}
STORING = tuple(kind for kind, rule in RULES.items() if not rule.adds)
"""Kinds that only move data."""
ONE_TO_ONE = tuple(kind for kind in STORING if "every" not in RULES[kind])
"""Kinds each part of which goes from one rank to one rank."""
FOLDABLE = (*KINDS[:4], "barrier")
"""Kinds that are the same from every rank."""
NOT_ALL_PAIRS = ("permute", "all-to-all-v")
"""Kinds in which some ranks may exchange nothing."""
OF_PARTS = (*TO_OR_FROM_ROOT, *NOT_ALL_PAIRS)
"""Kinds in which it depends on the ranks what one sends to the other."""
SIZED = ("all-to-all-v", "reduce-scatter-v")
"""Kinds whose parts have sizes of their own."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective operation over all ranks of a fabric.

    ``nbytes`` is what every rank holds at the end of an all-gather or a broadcast, at the start of a reduce-scatter, an
    all-reduce or a reduce, and at both of an all-to-all, on average where its parts differ in size; what the root holds
    at the end of a gather and at the start of a scatter; and what all ranks together send in a permute. A barrier has
    no bytes.
    """

    kind: Kind
    ranks: int
    nbytes: float
    destinations: tuple[int, ...] | None = None
    """The rank to which each rank sends in a permute, by default the next one; None of all other kinds."""
    sizes: Sizes | None = None
    """Sizes of the parts of an all-to-all-v or a reduce-scatter-v; None of all other kinds."""

    def __post_init__(self) -> None:
        """Check the fields, and let a permute without destinations send each rank's part to the next rank.

        Raises:
            UnknownNameError: no such kind.
            ConfigError: ranks, bytes, destinations or sizes that the kind cannot have.
        """
        if self.kind not in KINDS:
            raise UnknownNameError("collective", str(self.kind), KINDS)
        if not 2 <= self.ranks <= MAXIMUM_RANKS:
            raise ConfigError(f"ranks={self.ranks}: a collective needs 2 to {MAXIMUM_RANKS} ranks")
        if not (math.isfinite(self.nbytes) and self.nbytes >= 0):
            raise ConfigError(f"nbytes={self.nbytes}: expected a finite size that is not negative")
        if self.kind == "barrier" and self.nbytes:
            raise ConfigError(f"nbytes={self.nbytes}: a barrier carries no bytes: expected 0")
        self._check_destinations()
        self._check_sizes()

    def _check_destinations(self) -> None:
        """Check the permutation of a permute, by default each rank's next one, which is then set; other kinds must have
        none.

        Raises:
            ConfigError: a permutation of another kind, one that does not name each rank once, or one that moves
                nothing.
        """
        if self.kind != "permute":
            if self.destinations is not None:
                raise ConfigError(f"{self.kind} has no permutation: expected none")
            return
        ranks = self.ranks
        to = (*range(1, ranks), 0) if self.destinations is None else self.destinations
        if sorted(to) != list(range(ranks)):
            raise ConfigError(f"permutation of {len(to)} ranks: expected each of 0 to {ranks - 1} once")
        if to == tuple(range(ranks)):
            raise ConfigError("permutation: every rank sends to itself: expected one that moves something")
        object.__setattr__(self, "destinations", to)

    def _check_sizes(self) -> None:
        """Raise ConfigError unless an all-to-all-v has sizes [ranks, ranks], a reduce-scatter-v sizes [ranks], and any
        other kind none.

        Raises:
            ConfigError: sizes that are missing, not expected, or of another shape.
        """
        if self.kind not in SIZED:
            if self.sizes is not None:
                raise ConfigError(f"the parts of {self.kind} are equally large: expected no sizes")
            return
        shape = (self.ranks,) * (2 if RULES[self.kind].parts == "pairs" else 1)
        if self.sizes is None:
            raise ConfigError(f"{self.kind}: expected the sizes of its parts (--sizes, sizes), e.g. zipf:1.2")
        if self.sizes.share.shape != shape:
            raise ConfigError(f"sizes of shape {self.sizes.share.shape} for {self.kind}: expected {shape}")

    @property
    def nbytes_per_rank(self) -> float:
        """Bytes of one rank's share, ``nbytes`` / ``ranks`` whatever the kind: ``d`` in the papers."""
        return self.nbytes / self.ranks

    @property
    def distinct_nbytes(self) -> float:
        """Bytes of all chunks together, each counted once, wherever it is held: ``nbytes``, times the ranks in an
        all-to-all (also with sizes)."""
        return self.nbytes * (self.ranks if self.rule.parts == "pairs" else 1)

    @property
    def rule(self) -> Rule:
        """What the kind promises: its parts ("one", a part for each of "ranks", or of ordered "pairs" of ranks), who
        holds each part before and after ("own", "other", "root" or "every" rank), and whether parts are added up."""
        return RULES[self.kind]

    @property
    def parts(self) -> int:
        """Number of parts of the data, of which chunks are equal pieces: 1 in an all-reduce, a broadcast or a reduce,
        ``ranks``² in an all-to-all (also with sizes), ``ranks`` in any other kind."""
        return {"one": 1, "ranks": self.ranks, "pairs": self.ranks**2}[self.rule.parts]

    @property
    def weights(self) -> Floats | None:
        """Sizes of the parts relative to their mean, in the order of part numbers: [part]; None where the collective
        states no sizes."""
        return None if self.sizes is None else self.sizes.share.ravel() * self.parts

    def begins_at(self, part: Ints) -> Ints:
        """Return the rank that holds each part before the collective, or −1 where every rank does: [part].

        Args:
            part: numbers of parts; of an all-to-all source · ranks + destination.
        """
        return self._holder(self.rule.before, part)

    def ends_at(self, part: Ints) -> Ints:
        """Return the rank that must hold each part after the collective, or −1 where every rank must: [part].

        A part without bytes that goes from one rank to another need not move: the rank returned for it is the one that
        holds it before.

        Args:
            part: numbers of parts; of an all-to-all source · ranks + destination.
        """
        after = self._holder(self.rule.after, part)
        if self.sizes is None or self.kind not in ONE_TO_ONE:
            return after
        return np.where(self.sizes.share.ravel()[part] > 0, after, self.begins_at(part))

    def _holder(self, holder: Holder, part: Ints) -> Ints:
        """Return the rank that ``holder`` means for each part, −1 for every rank: [part].

        ``own`` is the source of a pair or the rank of the part's number, ``other`` the destination of a pair or by the
        permutation, ``root`` rank 0, ``every`` every rank. Part numbers of pairs are source · ranks + destination.
        """
        if holder == "own":
            return part // self.ranks if self.rule.parts == "pairs" else part
        if holder == "other":
            return part % self.ranks if self.destinations is None else np.array(self.destinations)[part]
        return np.full_like(part, 0 if holder == "root" else -1)

    def stated_parts(self) -> dict[str, object]:
        """Return, as JSON values, the list of each rank's destination in a permute under "destinations", and the parts'
        shares of all bytes, which add up to 1, under "sizes"; a field that is None has no entry."""
        stated: dict[str, object] = {"destinations": self.destinations and list(self.destinations)}
        stated |= {"sizes": self.sizes and self.sizes.share.tolist()}
        return {name: value for name, value in stated.items() if value is not None}

    def of_kind(self, kind: Kind) -> Collective:
        """Return the collective of another kind with as many ranks and bytes; destinations and sizes are not kept.

        A permute has its default destinations.

        Raises:
            ConfigError: a kind that needs sizes, or a barrier of a collective with bytes.
        """
        return Collective(kind, self.ranks, self.nbytes)

    def resized(self, nbytes: float) -> Collective:
        """Return the collective with ``nbytes`` in place of its bytes; sizes of parts, which are shares, stay as they
        are.

        Raises:
            ConfigError: bytes that are negative or not finite, or any of a barrier.
        """
        return replace(self, nbytes=nbytes)
