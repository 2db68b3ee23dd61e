"""The rows of the OpTree study: the paper's cost model, its figures and tables, and built schedules."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import combinations, combinations_with_replacement, groupby, pairwise, product, starmap
from math import ceil, e, log, log2, prod, sqrt
from operator import truediv
from statistics import fmean, geometric_mean
from typing import Any, NamedTuple

from lightloom.collectives.algorithms.optree import best_radices, optree, stage_steps
from lightloom.collectives.algorithms.ring import neighbour_exchange_steps, ring_steps
from lightloom.collectives.bounds.link_use import line_all_to_all_wavelengths, ring_all_to_all_wavelengths
from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build, find
from lightloom.collectives.verify.verifier import verify
from lightloom.core.claims import Claim
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.papers.optree import PAPER

BANDWIDTH = 5e9
"""B: bandwidth of a wavelength in bytes per second, 40 Gb/s (section IV-A)."""
RECONFIGURATION = 25e-6
"""a: seconds to retune the micro-rings (section IV-A)."""
MESSAGE = 4 * 2**20
"""d: bytes of one rank's share; section IV-B says "4M" and no unit."""
RANKS = 1024
WAVELENGTHS = 64

ORDER = ("OpTree", "WRHT", "NE", "Ring")
"""The four algorithms of Figs. 5 and 6, by the paper's names."""


# The closed forms of OpTree and WRHT as printed, beside which schedules are really built.


def theorem_1_steps(ranks: int, wavelengths: int, stages: int) -> int:
    """Return OpTree's steps by Theorem 1 (Eq. 1): ceil((2k − 1) N^(1 + 1/k) / (8w)) for N ``ranks``, w ``wavelengths``
    and k ``stages``; k = 1 is the one-stage row of Table I."""
    return ceil(theorem_1_exact(ranks, wavelengths, stages) - 1e-9)


def theorem_2_stages(ranks: int) -> float | None:
    """Return OpTree's best number of stages by Theorem 2, k* before rounding: (ln N + sqrt(ln N (ln N − 2))) / 2
    (Eq. 2).

    None below N = 8, where the root is imaginary.
    """
    logarithm = log(ranks)
    return (logarithm + sqrt(logarithm * (logarithm - 2))) / 2 if logarithm >= 2 else None


def best_stages(ranks: int, wavelengths: int) -> int:
    """Return the integer k, from 1 to the bit length of ``ranks``, that minimises Theorem 1 without its ceiling (what
    the paper's Fig. 4 shows); fewer stages win ties. ``wavelengths`` only scale the steps and do not change k."""
    return min(range(1, ranks.bit_length() + 1), key=lambda k: (theorem_1_exact(ranks, wavelengths, k), k))


def theorem_1_exact(ranks: int, wavelengths: int, stages: int) -> float:
    """Return the steps of Theorem 1 without its ceiling, (2k − 1) N^(1 + 1/k) / (8w), for N ``ranks``, w
    ``wavelengths`` and k ``stages``."""
    return float((2 * stages - 1) * ranks ** (1 + 1 / stages) / (8 * wavelengths))


def equation_3_steps(ranks: int, wavelengths: int, stages: int) -> int:
    """Return OpTree's steps as Eq. 3 (Theorem 3) counts them, ceil(N m log_m N / (4w)) with m = N^(1/k), for N
    ``ranks``, w ``wavelengths`` and k ``stages``."""
    return ceil(2 * stages / (2 * stages - 1) * theorem_1_exact(ranks, wavelengths, stages) - 1e-9)


def theorem_3_proof_steps(ranks: int, wavelengths: int, stages: int) -> int:
    """Return OpTree's steps by the last line of Theorem 3's proof, ceil((2k − 1) N / (8w)), for N ``ranks``, w
    ``wavelengths`` and k ``stages``."""
    return ceil((2 * stages - 1) * ranks / (8 * wavelengths) - 1e-9)


def literal_stage_steps(ranks: int, wavelengths: int, stages: int) -> list[int]:
    """Return the steps of each stage, the first stage first, as the proof of Theorem 1 writes them.

    The first takes ceil(m²/8w)·ceil(N/m), each later one floor(m²/4w)·ceil(N/m), with m = N^(1/k), not rounded, w
    ``wavelengths`` and k ``stages``. No ceiling over all stages follows.
    """
    m = ranks ** (1 / stages)
    share = ceil(ranks / m - 1e-9)
    first = ceil(m * m / (8 * wavelengths) - 1e-9) * share
    return [first] + [int(m * m / (4 * wavelengths) + 1e-9) * share] * (stages - 1)


def wrht_all_gather_steps(ranks: int, wavelengths: int, *, padded: bool) -> int:
    """Return the steps of WRHT used as an all-gather, by formula only (OpTree, Table I and the text above it).

    Literally, 1 + ceil((N−p)/(p−1)) + ceil((θ−1)N/p) with N ``ranks``, w ``wavelengths``, p = 2w + 1 and θ = ceil(log_p
    N). ``padded`` takes N as p^θ, which is what the printed 259 needs. The count presumes multicast; schedules
    (``wrht_gather``) count their own steps.
    """
    p = 2 * wavelengths + 1
    theta, reach = 1, p
    while reach < ranks:
        theta, reach = theta + 1, reach * p
    n = reach if padded else ranks
    return 1 - (p - n) // (p - 1) - (-(theta - 1) * n) // p


def ceiling_stages(ranks: int) -> int:
    """Return OpTree's number of stages k* by Eq. 2, rounded up as in Table I and the printed averages.

    Raises:
        ValueError: Eq. 2 has no real value below 8 ranks.
    """
    if (stages := theorem_2_stages(ranks)) is None:
        raise ValueError(f"ranks={ranks}: Eq. 2 has no real value below 8 ranks")
    return ceil(stages)


def paper_steps(ranks: int, wavelengths: int) -> dict[str, int]:
    """Return the steps of each algorithm as the paper's averages count them, under the names ``OpTree`` (Theorem 1 at
    the ceiling of k*), ``WRHT`` (Table I's formula with N padded), ``NE`` (neighbour exchange, N/2) and ``Ring`` (N −
    1).

    Raises:
        ValueError: Eq. 2 has no real value below 8 ranks.
    """
    return {
        "OpTree": theorem_1_steps(ranks, wavelengths, ceiling_stages(ranks)),
        "WRHT": wrht_all_gather_steps(ranks, wavelengths, padded=True),
        "NE": neighbour_exchange_steps(ranks),
        "Ring": ring_steps(ranks),
    }


def seconds(steps: int, nbytes: float, *, later_shares: int = 1) -> float:
    """Return the seconds of an all-gather under the paper's cost model (Eq. 3): each step costs d/B + a, with
    ``nbytes`` as d, the bytes of one rank's share, B = 5e9 bytes per second, and a = 25 µs.

    The first step carries one share, every other step ``later_shares`` shares, that is ``later_shares`` · d bytes (2
    for NE as the text describes it).
    """
    return (1 + (steps - 1) * later_shares) * nbytes / BANDWIDTH + steps * RECONFIGURATION


def by_time(steps: dict[str, int]) -> list[str]:
    """Return the algorithms' names, the keys of ``steps``, fewest steps and thus least time first: every step costs d/B
    + a. Equal ones stay in the order of the mapping."""
    return sorted(steps, key=lambda name: steps[name])


class Built(NamedTuple):
    """Counts of an all-gather that was built and verified."""

    steps: int
    notes: str
    """Metadata of the generator, for example the radices and the steps of each stage."""


@cache
def built(
    name: str, ranks: int = RANKS, wavelengths: int = WAVELENGTHS, radices: tuple[int, ...] | None = None
) -> Built:
    """Build and verify an all-gather on a WDM ring (by default of 1,024 ranks with 64 wavelengths), and return its
    number of steps and its generator's notes, as one text with semicolons.

    Args:
        name: of the algorithm in the registry; without effect where ``radices`` are given.
        ranks: of the ring, each with a share of 4 MiB.
        wavelengths: in each direction.
        radices: build OpTree with these radices, one for each stage, the first stage first; None builds ``name``.
    """
    gather = Collective("all-gather", ranks, float(ranks * MESSAGE))
    fabric = WdmRing(ranks=ranks, wavelengths=wavelengths)
    if radices is None:
        schedule = build(find(name), gather, fabric)
    else:
        schedule = optree(gather, fabric, radices=radices)
        verify(schedule, fabric)
    return Built(schedule.steps, "; ".join(schedule.notes))


# Figures 5 and 6: time of OpTree, WRHT, neighbour exchange (NE) and Ring under the paper's cost model.
#
# Every step costs d/B + a, so that a ratio of times is a ratio of steps: message size, bandwidth and delays cancel,
# and no assumption about them touches a row, but for NE with two shares a step.

SIZES = tuple(2**exponent * 2**20 for exponent in range(8))
"""Bytes of one rank's share, 1 to 128 MiB: an assumption, the paper's range is not legible."""
Settings = tuple[tuple[int, int], ...]

BY_RANKS: Settings = ((1024, WAVELENGTHS), (2048, WAVELENGTHS))
"""(N, w) of Fig. 5."""
BY_WAVELENGTHS: Settings = ((1024, 96), (1024, 128))
"""(N, w) of Fig. 6."""


def literal_steps(ranks: int, wavelengths: int) -> dict[str, int]:
    """Return the steps of OpTree, WRHT, NE and Ring by name as :func:`paper_steps` does, but those of WRHT by Table I's
    formula without padding N. ValueError below 8 ranks, where Eq. 2 has no real value."""
    return paper_steps(ranks, wavelengths) | {"WRHT": wrht_all_gather_steps(ranks, wavelengths, padded=False)}


def _steps_in_words(steps: dict[str, int]) -> str:
    """Return the four algorithms with their numbers of steps, by the paper's order: "OpTree 70, WRHT 259, ...
    steps"."""
    return ", ".join(f"{name} {steps[name]}" for name in ORDER) + " steps"


def _extremes() -> Iterator[Claim]:
    """Yield, for each of the two settings of Fig. 5 and of Fig. 6, a row with the name of the algorithm with the fewest
    steps by :func:`paper_steps` and one with that of the most; of equal ones the first of OpTree, WRHT, NE and Ring is
    the fastest and the last the slowest."""
    for figure, settings in ((5, BY_RANKS), (6, BY_WAVELENGTHS)):
        for ranks, wavelengths in settings:
            steps = paper_steps(ranks, wavelengths)
            values = {"steps": _steps_in_words(steps), "name": f"n{ranks}" if figure == 5 else f"w{wavelengths}"}
            yield PAPER.claim(f"figure{figure}.fastest_{{name}}", by_time(steps)[0], **values)
            yield PAPER.claim(f"figure{figure}.slowest_{{name}}", by_time(steps)[-1], **values)


def _figure_5() -> Iterator[Claim]:
    """Yield whether WRHT over OpTree (ratio of steps) is smaller at 2,048 ranks than at 1,024 ("closer" or "not
    closer"), then the fastest algorithm at 1,024 ranks with WRHT by Table I's formula without padding, and at 4,096
    ranks by :func:`paper_steps`."""
    small, large = (paper_steps(n, w) for n, w in BY_RANKS)
    ratios = [steps["WRHT"] / steps["OpTree"] for steps in (small, large)]
    nearer = "closer" if ratios[1] < ratios[0] else "not closer"
    yield PAPER.claim("figure5.wrht_over_optree_from_1024_to_2048", nearer, ratios=ratios, large=large)
    further = {"n1024_wrht_by_formula": literal_steps(1024, WAVELENGTHS), "n4096": paper_steps(4096, WAVELENGTHS)}
    for name, steps in further.items():
        yield PAPER.claim(f"figure5.fastest_{name}", by_time(steps)[0], steps_in_words=_steps_in_words(steps))


def _figure_6() -> Iterator[Claim]:
    """Yield whether the steps of OpTree and WRHT fall or rise from 96 to 128 wavelengths ("falls", else "rises"), then
    how WRHT's steps compare with NE's at 128 ("smaller", "slightly larger", which is up to 5 % more, or "larger"); all
    by :func:`paper_steps`."""
    few, many = (paper_steps(n, w) for n, w in BY_WAVELENGTHS)
    for name in ("OpTree", "WRHT"):
        trend = "falls" if many[name] < few[name] else "rises"
        yield PAPER.claim(f"figure6.{name.lower()}_from_w96_to_w128", trend, few=few[name], many=many[name])
    yield PAPER.claim("figure6.wrht_against_ne_w128", _against(many["WRHT"], many["NE"]), steps=many)


def _against(ours: int, theirs: int) -> str:
    """Return how our number of steps compares with theirs: "smaller", "slightly larger" (``ours`` equal, or up to 5 %
    more) or "larger"."""
    return "smaller" if ours < theirs else "slightly larger" if ours <= 1.05 * theirs else "larger"


# The percentages: averages over nodes, over wavelengths, the headline, and those of the journal version.

RIVALS = ("WRHT", "Ring", "NE")
NODES = {"WRHT": 56.36, "Ring": 92.76, "NE": 85.54}
LIGHT = {"WRHT": 88.06, "Ring": 95.84, "NE": 91.69}
HEADLINE = {"WRHT": 72.21, "Ring": 94.30, "NE": 88.58}
JOURNAL = {"WRHT": 72.97, "Ring": 93.15, "NE": 86.32}
"""Abstract of the version in IEEE Open Journal of the Communications Society, 2024 (N = 1024); seen as a listing."""


def reduction(rival: str, settings: Settings) -> float:
    """Return the percentage of ``rival``'s time (``WRHT``, ``NE`` or ``Ring``) that OpTree saves, by the steps of
    :func:`paper_steps`, as the mean over the (ranks, wavelengths) of ``settings``."""
    return fmean(100 * (1 - counts["OpTree"] / counts[rival]) for counts in starmap(paper_steps, settings))


def _reductions(what: str, averages: Mapping[str, float], settings: Settings, **values: Any) -> Iterator[Claim]:
    """Yield a row for each rival: the percentage of its time that OpTree saves, as the mean over the settings by
    :func:`reduction`, to four decimals, beside the paper's in ``averages``.

    Args:
        what: end of the rows' ids, ``headline.{rival}_reduction_{what}``.
        averages: printed percentage by rival, ``WRHT``, ``Ring`` and ``NE``.
        settings: pairs of ranks and wavelengths.
        values: further fields of the explanations of all these rows.
    """
    for rival in RIVALS:
        ours = round(reduction(rival, settings), 4)
        values |= {"paper": averages[rival], "rival": rival.lower()}
        yield PAPER.claim("headline.{rival}_reduction_" + what, ours, **values)


def _other_counts() -> Iterator[Claim]:
    """Yield two rows of the percentage that OpTree saves on average over Fig. 5's settings by counts other than
    :func:`paper_steps`: over WRHT at the depth that minimises Theorem 1, and over NE where every step but the first
    carries two shares, in the limit of large messages, 2 · steps − 1 shares."""
    steps = [paper_steps(n, w) for n, w in BY_RANKS]
    # Theorem 1 at the depth that minimises it, as in Fig. 4.
    least = [theorem_1_steps(n, w, best_stages(n, w)) for n, w in BY_RANKS]
    argmin = fmean(100 * (1 - best / counts["WRHT"]) for best, counts in zip(least, steps, strict=True))
    limit = fmean(100 * (1 - counts["OpTree"] / (2 * counts["NE"] - 1)) for counts in steps)
    yield PAPER.claim("headline.wrht_reduction_nodes_argmin", round(argmin, 4), paper=NODES["WRHT"])
    yield PAPER.claim("headline.ne_reduction_nodes_two_shares", round(limit, 4), paper=NODES["NE"])


def _averages_over_wavelengths() -> Iterator[Claim]:
    """Yield the percentages that OpTree saves on average over Fig. 6's settings, one row for each rival, then a row of
    how many of the tried readings of the paper (:func:`readings`, 96 and 128 wavelengths) give all three printed
    averages."""
    printed = "; ".join(f"w = {w}: {_steps_in_words(paper_steps(n, w))}" for n, w in BY_WAVELENGTHS)
    yield from _reductions("wavelengths", LIGHT, BY_WAVELENGTHS, printed=printed)
    tried, agree, off, nearest = readings(96, 128)
    values = {"tried": tried, "off": off, "nearest": nearest, "most": most_wrht_steps()}
    values["others"], values["agree"] = map(sum, zip(*(readings(*pair)[:2] for pair in _OTHER_PAIRS), strict=True))
    yield PAPER.claim("headline.readings_of_the_averages", agree, **values)


def _headline() -> Iterator[Claim]:
    """Yield, for each rival, the midpoint of our average percentages saved over nodes (Fig. 5's settings) and over
    wavelengths (Fig. 6's) beside the headline's percentage."""
    for rival in RIVALS:
        ours = (reduction(rival, BY_RANKS) + reduction(rival, BY_WAVELENGTHS)) / 2
        midpoint = (NODES[rival] + LIGHT[rival]) / 2
        values = {"paper": HEADLINE[rival], "rival": rival.lower(), "averages": (NODES[rival], LIGHT[rival])}
        yield PAPER.claim("headline.{rival}_reduction", round(ours, 4), midpoint=midpoint, **values)


# A search for the averages over wavelengths: every form of the paper, every k, every way to average.

_OTHER_PAIRS = tuple(pair for pair in combinations(range(32, 257, 32), 2) if pair != (96, 128))
"""Other pairs of wavelengths than those that the paper states."""
_TOLERANCE = 0.02
_MEANS: Mapping[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "mean": lambda ours, theirs: fmean(map(truediv, ours, theirs)),
    "quotient of sums": lambda ours, theirs: sum(ours) / sum(theirs),
    "harmonic mean": lambda ours, theirs: 1 / fmean(map(truediv, theirs, ours)),
    "geometric mean": lambda ours, theirs: geometric_mean(map(truediv, ours, theirs)),
}
"""Ways to average the quotient of OpTree's steps and a rival's."""


def stage_ceilings(ranks: int, wavelengths: int, stages: int) -> int:
    """Return Theorem 1's steps with a ceiling for each stage: ceil(f) for the first and ceil(2f) for each later one,
    with f = N^(1 + 1/k) / (8w), N ``ranks``, w ``wavelengths`` and k ``stages``."""
    first = float(ranks ** (1 + 1 / stages) / (8 * wavelengths))
    return ceil(first - 1e-9) + (stages - 1) * ceil(2 * first - 1e-9)


def optree_readings(wavelengths: int) -> dict[str, float]:
    """Return OpTree's steps at 1,024 ranks by each of the paper's five forms (:func:`theorem_1_steps`,
    :func:`theorem_1_exact`, :func:`equation_3_steps`, :func:`theorem_3_proof_steps` and :func:`stage_ceilings`) at
    every depth k from 1 to 12, which holds every rule for k, and by the searched integer radices.

    The keys are "theorem_1_steps, k = 3" (name of the form and depth) and "integer radices".
    """
    forms: tuple[Callable[[int, int, int], float], ...]
    forms = (theorem_1_steps, theorem_1_exact, equation_3_steps, theorem_3_proof_steps, stage_ceilings)
    found = {f"{form.__name__}, k = {k}": form(RANKS, wavelengths, k) for form in forms for k in range(1, 13)}
    return found | {"integer radices": sum(stage_steps(RANKS, wavelengths, best_radices(RANKS, wavelengths)))}


def wrht_readings(wavelengths: int) -> dict[str, int]:
    """Return WRHT's steps at 1,024 ranks by Table I's formula and by the text's two totals, in which (θ − 1) p^(θ − 1)
    (``text``) or θ p^(θ − 1) steps (``one root``) follow the collection, for p = w and 2w and one less or more, with θ
    as it is needed or one more, and with N itself or padded to p^θ.

    The keys name form and reading: "Table I, p = 2w+1, θ+0, N padded".
    """
    totals: dict[str, int] = {}
    for times, offset, more, padded in product((1, 2), (-1, 0, 1), (0, 1), (False, True)):
        p = times * wavelengths + offset
        theta = more + next(theta for theta in range(1, 99) if p**theta >= RANKS)
        n, name = p**theta if padded else RANKS, f"p = {times}w{offset:+d}, θ{more:+d}{', N padded' * padded}"
        collect, once = 1 - (p - n) // (p - 1), p ** (theta - 1)
        broadcasts = {"Table I": -((1 - theta) * n // p), "text": (theta - 1) * once, "one root": theta * once}
        totals |= {f"{form}, {name}": collect + steps for form, steps in broadcasts.items()}
    return totals


def readings(few: int, many: int) -> tuple[int, int, float, str]:
    """Try all readings of the printed averages over two numbers of wavelengths, ``few`` and ``many``, at 1,024 ranks.

    A reading takes one form each of OpTree's and WRHT's steps, N/2 steps of NE of one share or as many as N − 1 for
    two, N or N − 1 steps of Ring, and a kind of mean. Those off by more than 1 point over Ring or NE are counted as
    tried, but not looked at further.

    Returns:
        The number of readings; how many give all three averages within 0.02 points; by how many points the nearest
        misses the average that it misses most; and which one that is, in words (100 and "none" if none is near).
    """
    trees, wrhts = ([by(w) for w in (few, many)] for by in (optree_readings, wrht_readings))
    found = []
    rivals = list(product(trees[0], _MEANS, (RANKS - 1, RANKS), (RANKS // 2, RANKS - 1)))
    for tree, kind, ring, ne in rivals:
        ours = [each[tree] for each in trees]
        far = max(_off(kind, ours, [ring, ring], "Ring"), _off(kind, ours, [ne, ne], "NE"))
        for wrht in wrhts[0] if far <= 1 else ():
            farthest = max(far, _off(kind, ours, [each[wrht] for each in wrhts], "WRHT"))
            found.append((farthest, f"{tree}; WRHT by {wrht}; {kind}"))
    agree = sum(off <= _TOLERANCE for off, _ in found)
    return len(rivals) * len(wrhts[0]), agree, *min(found, default=(100.0, "none"))


def _off(kind: str, ours: Sequence[float], theirs: Sequence[float], rival: str) -> float:
    """Return by how many percentage points an average saving of OpTree over ``rival`` differs from the printed one,
    without sign.

    Args:
        kind: how the quotients of our steps over theirs are averaged; the saving is 100 less 100 times the average:
            ``mean``, ``quotient of sums``, ``harmonic mean`` or ``geometric mean``.
        ours: OpTree's steps in each setting (number of wavelengths).
        theirs: the rival's steps in the same settings.
        rival: key of the printed average over wavelengths.
    """
    return abs(100 * (1 - _MEANS[kind](ours, theirs)) - LIGHT[rival])


def most_wrht_steps() -> int:
    """Return the most steps that WRHT can take at 1,024 ranks and 96 wavelengths, whatever OpTree's steps are, if the
    printed averages are means over 96 and 128 wavelengths and WRHT takes more steps than NE at 128.

    The average over Ring fixes the sum S of OpTree's steps at both; with x of them at 128 the one over WRHT is (S −
    x)/W + x/W' with W' > N/2, thus W < (S − x)/(share − 2x/N), which falls with x.
    """
    total = round(2 * (100 - LIGHT["Ring"]) / 100 * (RANKS - 1))
    share = 2 * (100 - LIGHT["WRHT"] - _TOLERANCE) / 100
    return int(max((total - x) / (share - 2 * x / RANKS) for x in range(total // 2 + 1)))


# Figure 4: time against the depth of the tree, by Theorem 1 and by integer radices, which a ring can be cut into.

FIGURE_4_RANKS = (512, 1024, 2048, 4096)
DEPTHS = range(1, 11)
INSET = range(5, 10)
"""Depths of the paper's inset."""

_COUNTED_EXACTLY = 6


def curve(ranks: int) -> dict[int, int]:
    """Return the steps of Theorem 1 by depth k, 1 to 10, at 64 wavelengths, rounded up. As every step costs d/B + a,
    times are proportional to them."""
    return {k: theorem_1_steps(ranks, WAVELENGTHS, k) for k in DEPTHS}


def shape(steps: list[int]) -> str:
    """Return how a sequence goes from entry to entry, "falls", "rises" or "stable", repetitions merged: "falls, stable,
    rises"; empty for fewer than two entries."""
    signs = ["falls" if b < a else "rises" if b > a else "stable" for a, b in pairwise(steps)]
    return ", ".join(word for word, _ in groupby(signs))


@cache
def constructed(ranks: int, depth: int) -> tuple[tuple[int, ...], int] | None:
    """Return (integer radices, steps) of the tree with fewest steps of that depth, on 64 wavelengths, among the
    near-uniform ones and the searched one where it has that depth; None where the depth exceeds log2 of the ranks.

    All stages but the first take a radix near N^(1/k), in any mixture, larger ones last (parts that do not divide cost
    the most early on); the first stage takes what is left. The most promising by estimate are counted from the load of
    every link, so that a count is a real tree's, while a better tree may exist.
    """
    if depth > log2(ranks):
        return None
    if depth == 1:
        return (ranks,), sum(stage_steps(ranks, WAVELENGTHS, (ranks,)))
    base = round(ranks ** (1 / depth))
    near = range(max(base - 1, 2), base + 3)
    every = ((-(-ranks // prod(later)), *later) for later in combinations_with_replacement(near, depth - 1))
    candidates = sorted((each for each in every if each[0] >= 2), key=partial(_estimate, ranks))
    counted = [(sum(stage_steps(ranks, WAVELENGTHS, radices)), radices) for radices in candidates[:_COUNTED_EXACTLY]]
    searched = best_radices(ranks, WAVELENGTHS)
    if len(searched) == depth:
        counted.append((sum(stage_steps(ranks, WAVELENGTHS, searched)), searched))
    steps, radices = min(counted)
    return radices, steps


def _estimate(ranks: int, radices: tuple[int, ...]) -> float:
    """Return the wavelengths that all stages of a tree of ``radices`` (first stage first) need together, roughly: those
    of an all-to-all on a ring of the first radix times its groups, rounded up, and of all-to-alls on lines of the later
    ones, each times N over the radix (not rounded). Candidates with less are counted exactly first."""
    first, *later = radices
    wavelengths = ceil(ranks / first) * ring_all_to_all_wavelengths(first)
    return wavelengths + sum(ranks / radix * line_all_to_all_wavelengths(radix) for radix in later)


def _lowest() -> Iterator[Claim]:
    """Yield how Theorem 1's steps go over the depths of the inset, 5 to 9, in words ("falls, stable, rises"), a row for
    each number of ranks of Fig. 4 (512, 1,024, 2,048 and 4,096), and for 2,048 and 4,096 ranks the depth that minimises
    Theorem 1 without its ceiling."""
    for n in FIGURE_4_RANKS:
        steps = [curve(n)[k] for k in INSET]
        yield PAPER.claim("figure4.shape_{n}", shape(steps), n=n, steps=", ".join(map(str, steps)))
    for n in FIGURE_4_RANKS[2:]:
        exact = theorem_2_stages(n) or 0.0
        steps_at = {k: curve(n)[k] for k in (best_stages(n, WAVELENGTHS), ceiling_stages(n), round(exact))}
        yield PAPER.claim("figure4.best_depth_{n}", best_stages(n, WAVELENGTHS), n=n, exact=exact, steps_at=steps_at)


def _constructed() -> Iterator[Claim]:
    """Yield the steps of the searched tree of integer radices for each number of ranks of Fig. 4 (512 to 4,096) on 64
    wavelengths, beside the least of Theorem 1 over depths 1 to 10, and the percentage of Theorem 1's steps that the
    best depth saves over one stage at 1,024 ranks."""
    for n in FIGURE_4_RANKS:
        radices = best_radices(n, WAVELENGTHS)
        steps = stage_steps(n, WAVELENGTHS, radices)
        words = {"radices": "·".join(map(str, radices)), "steps": "+".join(map(str, steps))}
        yield PAPER.claim("figure4.constructed_steps_{n}", sum(steps), paper=min(curve(n).values()), n=n, **words)
    steps_by_depth = curve(1024)
    saved = round(100 * (1 - steps_by_depth[best_stages(1024, WAVELENGTHS)] / steps_by_depth[1]), 2)
    yield PAPER.claim("figure4.reduction_from_one_stage", saved)


# The motivating example, 16 nodes and 2 wavelengths, by schedules that are built and verified; and small-N slips.

N, W = 16, 2
TWO_STAGES, THREE_STAGES = (4, 4), (2, 3, 3)
_NAMES = ("one", "two", "three")


def _example_steps() -> Iterator[Claim]:
    """Yield the steps of the example's schedules (16 nodes, 2 wavelengths) of one, two and three stages, built and
    verified, and which of them takes the fewest ("two stages"); then who exchanges with whom in the two stages of the
    second schedule, as one text: the first two groups of nodes a stage, counted from 1, with a semicolon between the
    stages."""
    schedules = (built("one-stage", N, W), built("optree", N, W, TWO_STAGES), built("optree", N, W, THREE_STAGES))
    for name, schedule in zip(_NAMES, schedules, strict=True):
        yield PAPER.claim(f"example.{name}_stage_steps", schedule.steps, notes=schedule.notes)
    fewest = min(zip(schedules, _NAMES, strict=True), key=lambda each: each[0].steps)
    yield PAPER.claim("example.fewest_steps", f"{fewest[1]} stages")
    sent = optree(Collective("all-gather", N, float(N)), WdmRing(ranks=N, wavelengths=W), radices=TWO_STAGES).columns()
    subsets = []
    for stage in (sent["step"] < 4, sent["step"] >= 4):
        pairs = list(zip(sent["source"][stage] + 1, sent["destination"][stage] + 1, strict=True))
        peers = {tuple(sorted({node, *(b for a, b in pairs if a == node)})) for node in range(1, N + 1)}
        subsets.append(", ".join(" ".join(map(str, each)) for each in sorted(peers)[:2]))
    yield PAPER.claim("example.subsets", "; ".join(subsets))


def _example_stages() -> Iterator[Claim]:
    """Yield rows of the stages of the example's schedules (16 nodes) of one, two and three stages: the wavelengths that
    each stage needs, a row a stage, counted as its steps on a ring of one wavelength, and then the steps of the
    schedule of two stages on two wavelengths, stage by stage.

    Raises:
        RuntimeError: the steps counted for the stages of a schedule of several stages do not add up to those of the
            schedule that is built and verified.
    """
    yield PAPER.claim("example.one_stage_wavelengths", built("one-stage", N, 1).steps)
    printed = {
        ("two_stage", "wavelengths"): (TWO_STAGES, 1, (8, 16)),
        ("three_stage", "wavelengths"): (THREE_STAGES, 1, (8, 12, 12)),
        ("two_stage", "steps"): (TWO_STAGES, W, (4, 8)),
    }
    for (name, unit), (radices, channels, values) in printed.items():
        counted = stage_steps(N, channels, radices)
        if sum(counted) != (steps := built("optree", N, channels, radices).steps):
            raise RuntimeError(f"radices {radices}: {counted} counted, {steps} steps built")
        yield from (
            PAPER.claim("example.{name}_{unit}_{number}", ours, paper=paper, name=name, number=number, unit=unit)
            for number, (paper, ours) in enumerate(zip(values, counted, strict=True), start=1)
        )


def _radices() -> Iterator[Claim]:
    """Yield two rows of the steps of three stages in the example (16 nodes, 2 wavelengths): by Theorem 1, and as built
    and verified with radices 3, 3, 2."""
    other = built("optree", N, W, (3, 3, 2))
    yield PAPER.claim("example.three_stage_theorem_1_steps", theorem_1_steps(N, W, 3))
    yield PAPER.claim("example.three_stage_best_steps", other.steps, other=other)


# Lemma 1 and Theorem 2 over many sizes.

LEMMA_SIZES = range(2, 17)
THEOREM_SIZES = range(8, 4097)
"""Numbers of ranks for which Eq. 2 has a real value, to the paper's largest."""


def line_wavelengths(ranks: int) -> int:
    """Return the wavelengths in each direction that first-fit colouring gives to an all-to-all among ranks on a line,
    where the pair i < j takes all links between; no colouring of intervals takes fewer."""
    ends: list[int] = []
    for start, stop in combinations(range(ranks), 2):
        free = next((colour for colour, end in enumerate(ends) if end <= start), len(ends))
        ends[free:] = [stop, *ends[free + 1 :]]
    return len(ends)


def _theorems() -> Iterator[Claim]:
    """Yield for how many numbers of ranks, of 2 to 16, Lemma 1 holds on a line (floor(N²/4) wavelengths) and on a ring
    (ceil(N²/8), built there on one wavelength), and for how many, of 8 to 4,096, Eq. 2, rounded up, gives the depth
    that minimises Theorem 1.

    Raises:
        RuntimeError: the built one-stage schedule of 5 ranks on 3 wavelengths does not take one step.
    """
    if (steps := built("one-stage", 5, 3).steps) != 1:
        raise RuntimeError(f"one stage of 5 ranks on 3 wavelengths took {steps} steps: expected 1")
    line = sum(line_wavelengths(n) == n * n // 4 for n in LEMMA_SIZES)
    ring = [n for n in LEMMA_SIZES if built("one-stage", n, 1).steps == ceil(n * n / 8)]
    yield PAPER.claim("lemma1.line", line, paper=len(LEMMA_SIZES))
    yield PAPER.claim("lemma1.ring", len(ring), paper=len(LEMMA_SIZES))
    ceiled, rounded = (
        sum(rule(theorem_2_stages(n) or 0) == best_stages(n, 1) for n in THEOREM_SIZES) for rule in (ceil, round)
    )
    values = {"ceiled": ceiled, "rounded": rounded, "e_squared": e**2}
    yield PAPER.claim("theorem2.best_stages", ceiled, paper=len(THEOREM_SIZES), **values)


# Table I at N = 1024, w = 64: the formulas, built schedules, and inconsistent forms.

PRINTED_STAGES = 7
FEWEST = (5, 3, 3, 2, 3, 4)
"""Radices of a tree of 1,024 ranks with the fewest steps on 64 wavelengths."""


def _baselines() -> Iterator[Claim]:
    """Yield Table I's steps at 1,024 ranks and 64 wavelengths as built and verified: of Ring, of NE, and of NE by
    pairs."""
    for name, algorithm in (("ring", "ring"), ("ne", "neighbour-exchange"), ("ne_pairs", "neighbour-exchange-pairs")):
        yield PAPER.claim(f"table1.{name}_built_steps", built(algorithm).steps)


def _one_stage() -> Iterator[Claim]:
    """Yield the steps of the built one-stage schedule (1,024 ranks, 64 wavelengths) twice: beside Table I's printed
    steps, and beside its formula ceil(N²/8w)."""
    formula = -(-RANKS * RANKS // (8 * WAVELENGTHS))
    steps = built("one-stage").steps
    yield PAPER.claim("table1.one_stage_steps", steps, n=RANKS, w=WAVELENGTHS, formula=formula)
    yield PAPER.claim("table1.one_stage_built_steps", steps, paper=formula)


def _wrht() -> Iterator[Claim]:
    """Yield Table I's steps of WRHT at 1,024 ranks and 64 wavelengths: by the table's formula with N padded to p^θ and
    with N itself, and by the two totals in the text."""
    p, theta = 2 * WAVELENGTHS + 1, 2
    collect = 1 - (p - RANKS) // (p - 1)
    padded, literal = (wrht_all_gather_steps(RANKS, WAVELENGTHS, padded=padded) for padded in (True, False))
    yield PAPER.claim("table1.wrht_steps", padded, p=p, theta=theta, padded=p**theta)
    yield PAPER.claim("table1.wrht_formula_steps", literal, n=RANKS)
    yield PAPER.claim("table1.wrht_text_steps", collect + (theta - 1) * p ** (theta - 1))
    yield PAPER.claim("table1.wrht_text_steps_one_root", collect + theta * p ** (theta - 1))


def _optree() -> Iterator[Claim]:
    """Yield Table I's steps of OpTree at 1,024 ranks and 64 wavelengths with the printed seven stages: by Theorem 1, as
    built and verified (with the radices of :data:`FEWEST`, which are six), by Eq. 3, by Theorem 3's proof and by the
    stages taken literally (the first alone, then all later ones), and its number of stages by Eq. 2, rounded up and
    rounded: eight rows."""
    tree, k = built("optree", radices=FEWEST), PRINTED_STAGES
    ceiled, exactly = theorem_1_steps(RANKS, WAVELENGTHS, k), theorem_1_exact(RANKS, WAVELENGTHS, k)
    yield PAPER.claim("table1.optree_steps", ceiled, theorem_1_exact=exactly)
    m = RANKS ** (1 / k)
    yield PAPER.claim("table1.optree_constructed_steps", tree.steps, tree=tree, radix=m)
    stages = literal_stage_steps(RANKS, WAVELENGTHS, k)
    yield PAPER.claim("table1.optree_equation_3_steps", equation_3_steps(RANKS, WAVELENGTHS, k))
    yield PAPER.claim("table1.optree_theorem_3_proof_steps", theorem_3_proof_steps(RANKS, WAVELENGTHS, k), m=m)
    yield PAPER.claim("table1.optree_literal_stage_1_steps", stages[0], stages=stages)
    yield PAPER.claim("table1.optree_literal_later_steps", sum(stages[1:]))
    exact = theorem_2_stages(RANKS) or 0.0
    yield PAPER.claim("table1.k_star", ceiling_stages(RANKS), exact=exact)
    yield PAPER.claim("table1.k_star_rounded", round(exact), exact=exact, rounded=round(exact))


def claims() -> tuple[Claim, ...]:
    """Return all rows of the OpTree study: Table I, the example, Fig. 4, Figs. 5 and 6, and the percentages."""
    return (
        *(*_baselines(), *_one_stage(), *_wrht(), *_optree()),
        *(*_example_steps(), *_example_stages(), *_radices(), *_theorems()),
        *(*_lowest(), *_constructed()),
        *(*_extremes(), *_figure_5(), *_figure_6()),
        *_reductions("nodes", NODES, BY_RANKS),
        *_other_counts(),
        *_averages_over_wavelengths(),
        *_headline(),
        *_reductions("journal", JOURNAL, ((RANKS, WAVELENGTHS),)),
    )
