"""Find the averager with the fewest interferometers that tolerates given errors, or say how much can be tolerated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lightloom.core.errors import UnsupportedError
from lightloom.photonics.averaging.mapped_averager import MappedAverager
from lightloom.photonics.averaging.realised.files import FunctionArguments
from lightloom.photonics.averaging.realised.networks import Nonlinearity
from lightloom.photonics.link.intervals import clopper_pearson
from lightloom.photonics.link.word_errors import WrongWords
from lightloom.photonics.tolerance.candidates import Candidate, candidates
from lightloom.photonics.tolerance.request import POWER, Tolerance, describe
from lightloom.photonics.tolerance.word_errors import count_wrong_words

FABRICATIONS = 100
"""Fabrications behind an answer."""
_SCREENED_FABRICATIONS, _SCREENED_WORDS = 10, 200
"""Fabrications and words on each that rule out averagers which clearly fail."""
_EASED = (0.3, 0.6, 1.0)
"""Shares of a request whose wrong words rank candidates that do not tolerate it."""
_STURDIEST = 6
"""Candidates whose limits are compared if none tolerates the request."""
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TolerantAverager:
    """The averager that was found."""

    candidate: Candidate
    mapped: MappedAverager
    request: Tolerance
    measured: WrongWords
    tried: int
    """Candidates up to this one; all of them have at most as many interferometers."""
    seed: int


def words_for(request: Tolerance, wrong: float = 40.0) -> int:
    """Return the words on each of `FABRICATIONS` for which ``wrong`` are expected at the target."""
    return max(500, math.ceil(wrong / request.word_errors / FABRICATIONS))


def clearly_fails(mapped: MappedAverager, request: Tolerance, seed: int = 0) -> WrongWords | None:
    """Return a small sample of wrong words that rules the averager out, or None."""
    sample = count_wrong_words(
        mapped,
        request.devices,
        request.amplifiers,
        fabrications=_SCREENED_FABRICATIONS,
        words=_SCREENED_WORDS,
        seed=seed,
    )
    # A rate of the words alone says little about other fabrications, so that it must be far off.
    low, _ = clopper_pearson(int(sample.wrong.sum()), sample.words * sample.wrong.size)
    return sample if low > 3 * request.word_errors and sample.wrong.sum() >= 3 else None


def measure(
    mapped: MappedAverager, request: Tolerance, seed: int = 0, advance: Advance = lambda _: None, wrong: float = 40.0
) -> WrongWords:
    """Return the wrong words of `FABRICATIONS` fabrications, or of a few if they clearly are too many."""
    sample = clearly_fails(mapped, request, seed)
    if sample is not None:
        return sample
    return count_wrong_words(
        mapped,
        request.devices,
        request.amplifiers,
        fabrications=FABRICATIONS,
        words=words_for(request, wrong),
        seed=seed + 1,
        advance=advance,
    )


def find_tolerant(
    arguments: FunctionArguments,
    request: Tolerance,
    nonlinearity: Nonlinearity = "clipped",
    *,
    seed: int = 0,
    advance: Advance = lambda _: None,
) -> TolerantAverager:
    """Return the averager with the fewest interferometers, P and T included, that tolerates the request.

    The upper end of the 95 % interval of the word error rate over `FABRICATIONS` fabrications must not exceed the
    target. The construction must be proved exact in float64.

    Raises:
        UnsupportedError: there is none; the message says how much the sturdiest one tolerates.
        InputError: an argument is out of range.
    """
    tried = candidates(arguments, nonlinearity, advance)
    for number, candidate in enumerate(tried, 1):
        mapped = candidate.mapped()
        measured = measure(mapped, request, seed)
        advance(1)
        if measured.interval[1] <= request.word_errors and candidate.construction.proof.float64:
            return TolerantAverager(
                candidate=candidate, mapped=mapped, request=request, measured=measured, tried=number, seed=seed
            )
    raise UnsupportedError(_intolerable(arguments, request, nonlinearity, tried, seed, advance))


def _intolerable(
    arguments: FunctionArguments,
    request: Tolerance,
    nonlinearity: str,
    tried: list[Candidate],
    seed: int,
    advance: Advance,
) -> str:
    candidate, share = sturdiest(tried, request, seed, advance)
    asked = f"{describe(request.errors)} at a word error rate of {request.word_errors:g}"
    start = (
        f"none of {len(tried)} {nonlinearity} averagers of {arguments.servers} servers and {arguments.bits} bits "
        f"tolerates {asked}"
    )
    if candidate is None:
        return f"{start}; none tolerates a thousandth of it either"
    mapped = candidate.mapped()
    limits = {name: largest_alone(mapped, request, name, seed, advance) for name in request.errors}
    alone = describe({name: value for name, value in limits.items() if value is not None})
    return (
        f"{start}; the sturdiest, {candidate.name} ({candidate.mzis:,} interferometers), tolerates {share:.2g} of it "
        f"at once ({describe(request.scaled(share).errors)}), each alone {alone}"
    )


def sturdiest(
    tried: list[Candidate], request: Tolerance, seed: int = 0, advance: Advance = lambda _: None
) -> tuple[Candidate | None, float]:
    """Return the candidate that tolerates the largest share of a request, and that share; (None, 0) if none does."""
    rates = []
    for candidate in tried:
        mapped = candidate.mapped()
        samples = [
            count_wrong_words(
                mapped,
                eased.devices,
                eased.amplifiers,
                fabrications=_SCREENED_FABRICATIONS,
                words=_SCREENED_WORDS,
                seed=seed,
            )
            for eased in map(request.scaled, _EASED)
        ]
        rates.append(sum(sample.rate for sample in samples))
        advance(1)
    best: Candidate | None = None
    most = 0.0
    for index in sorted(range(len(tried)), key=lambda k: (rates[k], tried[k].mzis))[:_STURDIEST]:
        share = largest_share(tried[index].mapped(), request, seed, advance)
        if share > most:
            best, most = tried[index], share
    return best, most


def largest_share(
    mapped: MappedAverager, request: Tolerance, seed: int = 0, advance: Advance = lambda _: None
) -> float:
    """Return the largest share of all errors of a request that the averager tolerates at once, to 3 %; 0 below 1e-3."""
    return _largest(lambda share: _tolerates(mapped, request.scaled(share), seed), 1e-3, 8.0, advance)


def largest_alone(
    mapped: MappedAverager, request: Tolerance, name: str, seed: int = 0, advance: Advance = lambda _: None
) -> float | None:
    """Return the largest value of one error alone that the averager tolerates, to 3 %; of ``power`` the least.

    None stands for values outside 1e-5 to 1 (power: 1 nW to 1 kW, DAC bits: 1 to 20).
    """
    if name == POWER:
        found = _largest(lambda noise: _tolerates(mapped, request.only(name, noise**-2), seed), 1e-2, 3e4, advance)
        return found**-2 if found else None
    if name == "dac-bits":
        bits = (count for count in range(1, 21) if _tolerates(mapped, request.only(name, count), seed))
        return next(bits, None)
    low, high = (1e-6, 0.5) if name == "crosstalk" else (1e-5, 1.0)
    return _largest(lambda value: _tolerates(mapped, request.only(name, value), seed), low, high, advance) or None


def _tolerates(mapped: MappedAverager, request: Tolerance, seed: int) -> bool:
    return measure(mapped, request, seed, wrong=10.0).interval[1] <= request.word_errors


def _largest(tolerates: Callable[[float], bool], low: float, high: float, advance: Advance) -> float:
    """Return the largest value that is tolerated by bisection of its logarithm, 0 if ``low`` is not."""
    if not tolerates(low):
        return 0.0
    if tolerates(high):
        return high
    while high / low > 1.03:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if tolerates(middle) else (low, middle)
        advance(1)
    return low
