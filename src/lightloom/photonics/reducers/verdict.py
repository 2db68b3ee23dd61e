"""The verdict of a comparison in words, every figure of which is computed."""

from __future__ import annotations

from math import inf

from lightloom.photonics.reducers.comparison import ReducerComparison
from lightloom.photonics.reducers.networks import NETWORKS

SUMS = ("digit-sum", "digit-sum-nrz", "homodyne-sum")
"""Rivals that add digits in the light."""
_THIRD = (0.25, 0.42)
"""Savings that count as "about a third"."""
_NO_LIGHT = "cannot be had with any power of light"


def verdict(made: ReducerComparison) -> tuple[str, ...]:
    """Return the verdict's sentences: who needs the least, networks, sums, and an earlier estimate."""
    return tuple(
        sentence
        for sentence in (_least(made), _networks(made), *_sums(made), _turning(made), _earlier(made))
        if sentence is not None
    )


def _least(made: ReducerComparison) -> str:
    whole = [rival for rival in made.rivals.values() if not rival.limits]
    best, spread = whole[0], made.ranges[whole[0].name]
    return (
        f"Least energy without a limit that it breaks: {best.title}, {_pj(best.energy_per_bit)} pJ/bit "
        f"({_pj(spread.low)} to {_pj(spread.high)} in 90 % of draws)."
    )


def _networks(made: ReducerComparison) -> str | None:
    present = [made.rivals[name] for name in NETWORKS if name in made.rivals]
    if not present:
        return None
    asic = made.rivals["reducer-asic"]
    parts = []
    for rival in present:
        less = made.ranges[rival.name].sooner["reducer-asic"]
        share = "in no draw" if less == 0 else f"in {100 * less:.0f} % of draws"
        ratio = rival.energy_per_bit / asic.energy_per_bit
        takes = f"takes {ratio:.3g} times the reducer chip's energy" if ratio < inf else _NO_LIGHT
        best = made.best_cases[rival.name]
        least = (
            f"{best:.3g} times with every constant at the end of its range that favours it"
            if best < inf
            else "no light suffices at either end of any range"
        )
        parts.append(f"{rival.name} {takes}, less than the chip {share} ({least})")
    wins = any(made.ranges[rival.name].sooner["reducer-asic"] > 0.5 for rival in present)
    lead = "A network of interferometers wins on energy" if wins else "No network of interferometers wins on energy"
    return f"{lead}: {'; '.join(parts)}."


def _sums(made: ReducerComparison) -> list[str]:
    sentences = []
    for name in SUMS:
        if name not in made.rivals:
            continue
        rival, less = made.rivals[name], made.ranges[name].sooner
        against = [
            f"{_saves(made.saving(name, other))} against {other} "
            f"(it takes less energy in {100 * less[other]:.0f} % of draws)"
            for other in ("reducer-asic", "broadcasting-asic")
        ]
        limits = f" It breaks a limit: {'; '.join(rival.limits)}." if rival.limits else ""
        most = made.most_servers[name]
        reach = (
            f"It stays within its limits up to {most} servers" if most else "No number of servers is within its limits"
        )
        sentences.append(f"{name}: {', '.join(against)}. {reach}.{limits}")
    return sentences


def _turning(made: ReducerComparison) -> str:
    first, second = made.pair
    turning = [turn for turn in made.turns if turn.turns]
    if not turning:
        return f"No single assumption within its range turns the verdict between {first} and {second}."
    names = ", ".join(
        f"{turn.constant.name} ({turn.constant.value:.3g}, even at {turn.break_even:.3g} {turn.constant.unit})".replace(
            " )", ")"
        )
        for turn in turning
    )
    return f"What alone turns the verdict between {first} and {second}: {names}."


def _earlier(made: ReducerComparison) -> str:
    """Whether sums with electronic carries save about a third against a reducer chip, as estimated without lasers."""
    claim = (
        'An earlier estimate without lasers, "a third less than a reducer chip up to 8 servers (PAM4) or 16 (on-off)"'
    )
    servers, held, details = made.setting.servers, [], []
    for name, most in (("digit-sum", 8), ("digit-sum-nrz", 16)):
        if servers > most:
            continue
        saving, limits = made.saving(name, "reducer-asic"), made.rivals[name].limits
        held.append(_THIRD[0] <= saving <= _THIRD[1] and not limits)
        details.append(f"{name} {_saves(saving)}{' and breaks a limit' if limits else ''}")
    if not details:
        return f"{claim}, says nothing of {servers} servers."
    word = "confirmed" if all(held) else "confirmed in part" if any(held) else "refuted"
    return f"{claim}, is {word} for {servers}: {'; '.join(details)}."


def _saves(saving: float) -> str:
    if saving == float("-inf"):
        return _NO_LIGHT
    return f"saves {100 * saving:.0f} %" if saving >= 0 else f"takes {-100 * saving:.0f} % more"


def _pj(joules: float) -> str:
    return f"{1e12 * joules:.3g}"
