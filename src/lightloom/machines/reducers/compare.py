"""All rivals for the same servers and bits: costs with their ranges, what turns the verdict, the verdict in words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, takewhile
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lightloom.core.arrays import Effort, Floats
from lightloom.core.configfile import read_yaml
from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.core.results import Document, Result, attributes, plain, provenance
from lightloom.machines.reducers.constants import Constant, Values, constants, drawn, nominal
from lightloom.machines.reducers.rivals import (
    NETWORK,
    Lanes,
    Rival,
    Setting,
    broadcasting_asic,
    digit_sum,
    homodyne_sum,
    packet_switch,
    reducer_asic,
    row_gain_network,
)
from lightloom.photonics.averaging.averagers import DigitSum

# Which constants turn a verdict: each alone from its least to its greatest value, and where two rivals break even.

Saving = Callable[[Values], float]
"""The share of energy that one rival saves against another; below 0 it takes more, minus infinity if no light does."""

_STEPS: Effort = 40
_GRID = 8


class Turn(NamedTuple):
    """Change of a saving when one constant alone moves through its range."""

    constant: Constant
    at_low: float
    """Saving at the least value."""
    at_high: float
    """Saving at the greatest value."""
    break_even: float | None
    """Value nearest to the constant's own at which both rivals need the same, in its unit; None if none is in range."""

    @property
    def swing(self) -> float:
        """Absolute difference between the savings (shares of energy, not percent) at the two ends of the range;
        infinite where no light suffices at one end, 0 where none does at either."""
        return 0.0 if self.at_high == self.at_low else abs(self.at_high - self.at_low)

    @property
    def turns(self) -> bool:
        """True if the saving changes its sign, so the verdict, within the constant's range, as far as nine values of it
        show."""
        return self.break_even is not None


def tornado(saving: Saving, constants: Mapping[str, Constant], least: float = 1e-4) -> list[Turn]:
    """Return, for each constant that alone changes a saving, what it does over its range; the largest change first.

    Args:
        saving: the share of energy saved, from the values of all constants in SI units.
        constants: the constants by name; the others keep their own values while one moves.
        least: smallest change between the ends of a range that is listed; constants that turn the saving's sign
            anywhere within their range, as far as nine values of it show, always are.

    Returns:
        A :class:`Turn` for each constant: the constant, the savings at the two ends of its range, and its value at
        which the saving turns its sign, in its own unit, None where it does not. Constants without a range are left
        out.
    """
    values = nominal(constants)
    turns = []
    for name, constant in constants.items():
        if constant.low == constant.high:
            continue

        def at(share: float, name: str = name, constant: Constant = constant) -> float:
            """Return the saving with this constant a ``share`` of the way up its range, all others at their own
            values."""
            return saving({**values, name: constant.draw(share)})

        turn = Turn(constant=constant, at_low=at(0.0), at_high=at(1.0), break_even=_break_even(at, constant))
        if turn.swing >= least or turn.turns:
            turns.append(turn)
    return sorted(turns, key=lambda turn: -turn.swing)


def _break_even(at: Callable[[float], float], constant: Constant) -> float | None:
    """Return the value, in the constant's own unit, at which the saving changes sign, the one nearest to the constant's
    own value where there are several; None where the saving has one sign at all nine points of the range that are
    tried.

    ``at`` gives the saving at a share, 0 to 1, of the constant's range (of its logarithm where the constant is
    logarithmic). Between two points of different sign the change is found by bisection; a saving of 0 counts as none.
    """
    signs = [(index / _GRID, at(index / _GRID) > 0) for index in range(_GRID + 1)]
    crossings = []
    for (low, first), (high, second) in pairwise(signs):
        if first != second:
            while high - low > 0.5**_STEPS:
                middle = (low + high) / 2
                low, high = (middle, high) if (at(middle) > 0) == first else (low, middle)
            crossings.append(constant.draw(high) / constant.si(1.0))
    return min(crossings, key=lambda value: abs(value - constant.value), default=None)


# What a comparison of reducers holds, and how it shows itself.


_RIVAL = (
    "parts_j=energy latency_s=total_latency latency_parts_s=latency light_per_server_w=launched "
    "light_per_lane_at_reducer_w=detected effective_bits_needed=enob area_m2=area limits needs"
)
"""Columns of a rival behind its energy, from its attributes."""
_TURN = (
    "constant=constant.name unit=constant.unit value=constant.value low=constant.low high=constant.high "
    "saving_at_low=at_low saving_at_high=at_high break_even"
)
"""Fields of a turn in documents, from its attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The energy of a rival over draws of all constants."""

    low: float
    """Joules a bit that 5 % of the draws stay below."""
    high: float
    """Joules a bit that 5 % of the draws exceed."""
    sooner: Mapping[str, float]
    """Share of draws in which this rival takes less than another, by the other's name."""


@dataclass(frozen=True, repr=False, kw_only=True)
class ReducerComparison(Result):
    """Rivals that average the codes of the same servers."""

    setting: Setting
    constants: Mapping[str, Constant]
    rivals: Mapping[str, Rival]
    """Costs at the constants' own values, the least energy first."""
    refused: Mapping[str, str]
    """Rivals that cannot be built for so many servers, and why."""
    ranges: Mapping[str, Range]
    draws: int
    pair: tuple[str, str]
    """The rivals whose difference is explained, the second being what the first is measured against."""
    turns: tuple[Turn, ...]
    """Change of the pair's saving with each constant alone."""
    best_cases: Mapping[str, float]
    """Energy of the network over the reducer chip's with every constant at the end of its range that favours it."""
    most_servers: Mapping[str, int]
    """Largest tried number of servers up to which sums stay within all limits, by rival; 0 for none."""
    tried_sums: tuple[int, int]
    """Tuples of digit sums that were tried, and how many means were wrong."""
    verdict: tuple[str, ...] = ()
    """The comparison in words."""

    @property
    def proof(self) -> tuple[str, ...]:
        """Steps, in words, of the proof that sums of digits average the codes of the compared servers exactly, the mean
        rounded down."""
        return DigitSum(servers=self.setting.servers, bits=self.setting.bits, rounding="floor").steps()

    @property
    def path_loss_db(self) -> float:
        """Loss in dB (positive) of a plain PAM4 lane's path from modulator to detector, margin included, at the
        constants' own values: the light that the published laser energy gives, over the power at the detector that a
        plain lane with the published noise needs."""
        return Lanes(setting=self.setting, values=nominal(self.constants)).path_loss_db

    def saving(self, first: str, second: str) -> float:
        """Return the share of energy that the rival named ``first`` saves against the one named ``second``; negative
        where it takes more, minus infinity where no light suffices for it. KeyError for one that is not compared, such
        as one of ``refused``."""
        return saving_of(self.rivals[first], self.rivals[second])

    def summary(self) -> str:
        """Return servers, bits and the verdict's first sentence: ``16 servers, 8 bits: Least energy ...``."""
        return f"{self.setting.servers} servers, {self.setting.bits} bits: {self.verdict[0]}"

    def rows(self) -> list[Document]:
        """Return a row for each rival, the one of least energy first.

        A row has ``rival`` (name) and ``title``; joules for each bit that a server sends, ``energy_per_bit_j``, with
        the 5 % and 95 % quantiles over the draws (``energy_per_bit_low_j``, ``energy_per_bit_high_j``) and by part
        (``parts_j``); ``latency_s``, and by part ``latency_parts_s``; watts of light of a server and of a lane at the
        reducer (``light_per_server_w``, ``light_per_lane_at_reducer_w``); ``effective_bits_needed``, ``area_m2``,
        ``limits`` and ``needs``; and ``share_of_draws_below``, by other rival, the share of draws, 0 to 1, in which
        this one takes less.
        """
        return [
            attributes(rival, "rival=name title energy_per_bit_j=energy_per_bit")
            | attributes(spread, "energy_per_bit_low_j=low energy_per_bit_high_j=high")
            | attributes(rival, _RIVAL)
            | attributes(spread, "share_of_draws_below=sooner")
            for rival, spread in ((rival, self.ranges[name]) for name, rival in self.rivals.items())
        ]

    def to_json(self) -> Document:
        """Return the comparison as a document: the setting (``servers``, ``bits``, ``symbol_rate``, ``word_errors``);
        ``path_loss_db``; ``rivals``, their :meth:`rows`; ``refused``, reasons by name; ``draws`` and ``pair``;
        ``turns``, a row for each constant that changes the pair's saving (its value, ends and unit, ``saving_at_low``,
        ``saving_at_high`` and ``break_even``); ``verdict``, its sentences; ``best_case_ratios`` and
        ``most_servers_within_limits`` by rival; ``digit_sum`` with the ``proof`` of sums of digits and how many were
        ``tried`` and ``wrong``; all ``constants`` with their sources; and ``provenance``."""
        setting = self.setting
        given = {name: constant.value for name, constant in self.constants.items() if constant.given}
        identity = [setting.servers, setting.bits, setting.symbol_rate, setting.word_errors]
        document = {
            "schema": "lightloom.onn-compare-reducers/1",
            **attributes(setting, "servers bits symbol_rate word_errors"),
            "path_loss_db": self.path_loss_db,
            "rivals": self.rows(),
            **attributes(self, "refused draws pair"),
            "turns": [attributes(turn, _TURN) for turn in self.turns],
            **attributes(self, "verdict best_case_ratios=best_cases most_servers_within_limits=most_servers"),
            "digit_sum": {"proof": self.proof, "tried": self.tried_sums[0], "wrong": self.tried_sums[1]},
            "constants": [
                attributes(constant, "name value low high unit meaning source assumption=assumed")
                for constant in self.constants.values()
            ],
            "provenance": provenance([*identity, given, self.draws, list(self.pair)], 0),
        }
        return {name: plain(value) for name, value in document.items()}

    def display_rows(self) -> list[dict[str, object]]:
        """Return an entry for each rival, the one of least energy first, as text with three significant digits: "rival"
        (its name), "pJ/bit" (of each bit that a server sends), the range of that in "90 % of draws", "latency, ns", and
        "limits", the sentences on limits that it breaks, joined by semicolons, empty for none."""
        return [
            {
                "rival": name,
                "pJ/bit": f"{1e12 * rival.energy_per_bit:.3g}",
                "90 % of draws": f"{1e12 * self.ranges[name].low:.3g} to {1e12 * self.ranges[name].high:.3g}",
                "latency, ns": f"{1e9 * rival.total_latency:.3g}",
                "limits": "; ".join(rival.limits),
            }
            for name, rival in self.rivals.items()
        ]


def saving_of(first: Rival, second: Rival) -> float:
    """Return the share of energy that the first rival saves against the second, 1 less the ratio of their joules per
    bit; negative where it takes more, minus infinity where no light suffices for it."""
    if first.energy_per_bit == float("inf"):
        return float("-inf")
    return 1 - first.energy_per_bit / second.energy_per_bit


# The verdict of a comparison in words, every figure of which is computed.

SUMS = ("digit-sum", "digit-sum-nrz", "homodyne-sum")
"""Rivals that add digits in the light."""
_THIRD = (0.25, 0.42)
"""Savings that count as "about a third"."""
_NO_LIGHT = "cannot be had with any power of light"


def verdict(made: ReducerComparison) -> tuple[str, ...]:
    """Return the sentences that sum up a comparison: the rival of least energy, the network, each sum of light, the
    constants that alone turn the verdict, and whether an earlier estimate holds."""
    return (_least(made), *_network(made), *_sums(made), _turning(made), _earlier(made))


def _least(made: ReducerComparison) -> str:
    """Return the sentence on the rival that takes the least energy among those that break no limit, with its picojoules
    per bit and their 5 % and 95 % quantiles. At least one rival must break none."""
    whole = [rival for rival in made.rivals.values() if not rival.limits]
    best, spread = whole[0], made.ranges[whole[0].name]
    return (
        f"Least energy without a limit that it breaks: {best.title}, {_pj(best.energy_per_bit)} pJ/bit "
        f"({_pj(spread.low)} to {_pj(spread.high)} in 90 % of draws)."
    )


def _network(made: ReducerComparison) -> list[str]:
    """Return, in a list, the sentence that sets the network's energy against the reducer chip's: that a network wins
    where it takes less in more than half of the draws, else that none does, with the ratio of both, the share of draws
    and the ratio in the network's best case; empty where no network is compared."""
    if NETWORK not in made.rivals:
        return []
    less, best = made.ranges[NETWORK].sooner["reducer-asic"], made.best_cases[NETWORK]
    share = "in no draw" if less == 0 else f"in {100 * less:.0f} % of draws"
    ratio = made.rivals[NETWORK].energy_per_bit / made.rivals["reducer-asic"].energy_per_bit
    takes = f"takes {ratio:.3g} times the reducer chip's energy" if ratio < inf else _NO_LIGHT
    least = (
        f"{best:.3g} times with every constant at the end of its range that favours it"
        if best < inf
        else "no light suffices at either end of any range"
    )
    which = "A" if less > 0.5 else "No"
    return [
        f"{which} network of interferometers wins on energy: {NETWORK} {takes}, less than the chip {share} ({least})."
    ]


def _sums(made: ReducerComparison) -> list[str]:
    """Return a sentence for each compared rival that sums light (``digit-sum``, ``digit-sum-nrz``, ``homodyne-sum``):
    what it saves against ``reducer-asic`` and ``broadcasting-asic`` and in what share of draws it takes less, up to how
    many servers it stays within its limits, and the limits that it breaks in this setting."""
    sentences = []
    for name in (name for name in SUMS if name in made.rivals):
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
    """Return the sentence that names the constants that alone, within their ranges, turn the verdict between the two
    rivals of the pair, each with its value and that of break-even, or says that none does."""
    first, second = made.pair
    if not (turning := [turn for turn in made.turns if turn.turns]):
        return f"No single assumption within its range turns the verdict between {first} and {second}."
    names = ", ".join(
        f"{turn.constant.name} ({turn.constant.value:.3g}, even at {turn.break_even:.3g} {turn.constant.unit}".strip()
        + ")"
        for turn in turning
    )
    return f"What alone turns the verdict between {first} and {second}: {names}."


def _earlier(made: ReducerComparison) -> str:
    """Return the sentence that judges the earlier estimate, that sums with electronic carries save a third against a
    reducer chip, ``digit-sum`` up to 8 servers and ``digit-sum-nrz`` up to 16: confirmed where each of these that so
    many servers allow saves 25 to 42 % and breaks no limit, confirmed in part where one of the two does, else refuted;
    beyond 16 servers it says nothing."""
    claim = (
        'An earlier estimate without lasers, "a third less than a reducer chip up to 8 servers (PAM4) or 16 (on-off)"'
    )
    servers, held, details = made.setting.servers, [], []
    for name, most in (("digit-sum", 8), ("digit-sum-nrz", 16)):
        if servers <= most:
            saving, limits = made.saving(name, "reducer-asic"), made.rivals[name].limits
            held.append(_THIRD[0] <= saving <= _THIRD[1] and not limits)
            details.append(f"{name} {_saves(saving)}{' and breaks a limit' if limits else ''}")
    if not details:
        return f"{claim}, says nothing of {servers} servers."
    word = "confirmed" if all(held) else "confirmed in part" if any(held) else "refuted"
    return f"{claim}, is {word} for {servers}: {'; '.join(details)}."


def _saves(saving: float) -> str:
    """Return a saving, a share of energy, as words such as ``saves 12 %`` or ``takes 30 % more``; for minus infinity
    ``cannot be had with any power of light``."""
    if saving == float("-inf"):
        return _NO_LIGHT
    return f"saves {100 * saving:.0f} %" if saving >= 0 else f"takes {-100 * saving:.0f} % more"


def _pj(joules: float) -> str:
    """Return joules as picojoules with three significant digits, without the unit."""
    return f"{1e12 * joules:.3g}"


RIVALS: Mapping[str, Callable[[Setting, Values], Rival]] = {
    NETWORK: row_gain_network,
    "digit-sum": digit_sum,
    "digit-sum-nrz": partial(digit_sum, levels=2),
    "homodyne-sum": homodyne_sum,
    "reducer-asic": reducer_asic,
    "broadcasting-asic": broadcasting_asic,
    "packet-switch": packet_switch,
}
"""Every rival by name."""
DRAWS = 200
_SIZES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32)
_TRIED_SUMS = 6_000_000


def compare_reducers(
    servers: int,
    bits: int = 8,
    *,
    word_errors: float = 1e-6,
    symbol_rate: float = 50e9,
    given: Mapping[str, float] | None = None,
    pair: tuple[str, str] = ("digit-sum", "reducer-asic"),
    draws: int = DRAWS,
) -> ReducerComparison:
    """Compare ways to average the codes of servers, with lasers, multiplexers, converters and error correction. Ways
    that cannot be built for so many servers are among ``refused``, with the reason.

    Args:
        servers: number of servers, 2 to 32; networks are constructed for up to 16.
        bits: bits of a code, 1 to 32.
        word_errors: share of wrong words that sums in the light may have, for which no error correction is counted,
            1e-15 to 0.1.
        symbol_rate: symbols per second of every lane, one digit each, 1e9 to 1e12.
        given: constants to replace, by name, in the units of `constants.yaml`; the others keep their ranges.
        pair: two different rivals by name, of ``digit-sum``, ``digit-sum-nrz``, ``homodyne-sum``, ``reducer-asic`` and
            the others of :data:`RIVALS`; it is explained what the first saves against the second, and which constants
            turn that.
        draws: number of draws of all constants behind the ranges, 20 to 100,000; 200 by default.

    Raises:
        ConfigError: an argument is out of range.
        UnknownNameError: there is no rival or constant of a name.
        UnsupportedError: a rival of the pair cannot be built for so many servers.
    """
    setting = Setting(servers=servers, bits=bits, symbol_rate=symbol_rate, word_errors=word_errors)
    for name in pair:
        if name not in RIVALS:
            raise UnknownNameError("rival", name, RIVALS)
    if pair[0] == pair[1]:
        raise ConfigError(f"pair {pair[0]}, {pair[1]}: expected two different rivals")
    if isinstance(draws, bool) or not isinstance(draws, int) or not 20 <= draws <= 100_000:
        raise ConfigError(f"draws = {draws!r}: expected a whole number from 20 to 100000")
    chosen = constants(given)
    rivals, refused = _rivals(setting, nominal(chosen))
    for name in pair:
        if name in refused:
            raise UnsupportedError(f"{name}: {refused[name]}")

    def saving(values: Values) -> float:
        """Return the share of energy that the first of the pair saves against the second with these constants."""
        first, second = (RIVALS[name](setting, values) for name in pair)
        return saving_of(first, second)

    made = ReducerComparison(
        setting=setting,
        constants=chosen,
        rivals=rivals,
        refused=refused,
        ranges=_ranges(setting, chosen, list(rivals), draws),
        draws=draws,
        pair=pair,
        turns=tuple(tornado(saving, chosen)),
        best_cases={NETWORK: _best_case(NETWORK, setting, chosen)} if NETWORK in rivals else {},
        most_servers={name: _most_servers(name, setting, nominal(chosen)) for name in SUMS},
        tried_sums=DigitSum(servers=servers, bits=bits, rounding="floor").try_sums(_TRIED_SUMS),
    )
    return replace(made, verdict=verdict(made))


def _rivals(setting: Setting, values: Values) -> tuple[dict[str, Rival], dict[str, str]]:
    """Return the rivals by name, the one of least energy first, and the reason why each other one cannot be built in
    this setting, by name."""
    rivals, refused = {}, {}
    for name, make in RIVALS.items():
        try:
            rivals[name] = make(setting, values)
        except UnsupportedError as error:
            refused[name] = str(error)
    return {rival.name: rival for rival in sorted(rivals.values(), key=lambda rival: rival.energy_per_bit)}, refused


def _ranges(setting: Setting, chosen: Mapping[str, Constant], names: list[str], draws: int) -> dict[str, Range]:
    """Return the range of each named rival over ``draws`` draws of all constants: the 5 % and 95 % quantiles of its
    joules per bit, and for each other rival the share of draws in which it takes less."""
    sets = drawn(chosen, draws)
    energy: dict[str, Floats] = {
        name: np.array([RIVALS[name](setting, values).energy_per_bit for values in sets]) for name in names
    }
    return {
        name: Range(
            low=_quantile(energy[name], 0.05),
            high=_quantile(energy[name], 0.95),
            sooner={other: float((energy[name] < energy[other]).mean()) for other in names if other != name},
        )
        for name in names
    }


def _best_case(name: str, setting: Setting, chosen: Mapping[str, Constant]) -> float:
    """Return the energy of the rival ``name`` over that of the reducer chip with every constant at the end of its range
    that favours the rival; infinite where no light suffices.

    The end is chosen for each constant alone, the others at their own values: exact where no two constants oppose.
    """
    values = nominal(chosen)

    def ratio(changed: Values) -> float:
        """Return the rival's energy over the reducer chip's with these constants."""
        return RIVALS[name](setting, changed).energy_per_bit / reducer_asic(setting, changed).energy_per_bit

    return ratio(
        {
            key: min((ratio({**values, key: end}), end) for end in (constant.draw(0.0), constant.draw(1.0)))[1]
            for key, constant in chosen.items()
        }
    )


def _most_servers(name: str, setting: Setting, values: Values) -> int:
    """Return the largest of the tried numbers of servers (2 to 8, then 10, 12, 14, 16, 20, 24, 32), in place of the
    setting's, such that the rival ``name`` breaks no limit with it or with any smaller one; 0 if it breaks one with
    2."""
    limits = (RIVALS[name](replace(setting, servers=servers), values).limits for servers in _SIZES)
    within = takewhile(lambda pair: not pair[1], zip(_SIZES, limits, strict=True))
    return max((servers for servers, _ in within), default=0)


def _quantile(energies: Floats, share: float) -> float:
    """Return a quantile of energies without interpolation: the one at the place ``share`` (0 to 1) times their number,
    rounded down and counted from 0, in ascending order, at most the last; some may be infinite."""
    return float(np.sort(energies)[min(int(share * len(energies)), len(energies) - 1)])


# What a mean made in the light gives up, and what that costs.

FORFEITS = tuple(read_yaml(Path(__file__).with_name("forfeits.yaml")).items())
"""Abilities that a reducer chip gives up, each with what it costs."""
