"""All rivals for the same servers and bits: costs with their ranges, what turns the verdict, the verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from lightloom.core.arrays import Floats
from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.photonics.averaging.digit_sum import DigitSum
from lightloom.photonics.reducers.comparison import Range, ReducerComparison, saving_of
from lightloom.photonics.reducers.constants import Constant, Values, constants, drawn, nominal
from lightloom.photonics.reducers.electronic import broadcasting_asic, packet_switch, reducer_asic
from lightloom.photonics.reducers.lanes import Setting
from lightloom.photonics.reducers.networks import NETWORKS, paper_network, row_gain_network
from lightloom.photonics.reducers.rival import Rival
from lightloom.photonics.reducers.sums import digit_sum, homodyne_sum
from lightloom.photonics.reducers.tornado import tornado
from lightloom.photonics.reducers.verdict import SUMS, verdict

RIVALS: Mapping[str, Callable[[Setting, Values], Rival]] = MappingProxyType(
    {
        "paper-network": paper_network,
        "row-gain-network": row_gain_network,
        "digit-sum": digit_sum,
        "digit-sum-nrz": partial(digit_sum, levels=2),
        "homodyne-sum": homodyne_sum,
        "reducer-asic": reducer_asic,
        "broadcasting-asic": broadcasting_asic,
        "packet-switch": packet_switch,
    }
)
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
    """Compare ways to average the codes of servers, with lasers, multiplexers, converters and error correction.

    Args:
        servers: number of servers, 2 to 32; networks are constructed for up to 16.
        bits: bits of a code.
        word_errors: share of wrong words that sums in the light may have, for which no error correction is counted.
        symbol_rate: digits a second of every lane.
        given: constants to replace, by name, in the units of `constants.yaml`.
        pair: rivals whose difference is explained.
        draws: draws of all constants behind the ranges.

    Raises:
        ConfigError: an argument is out of range.
        UnknownNameError: there is no rival or constant of a name.
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
        best_cases={name: _best_case(name, setting, chosen) for name in NETWORKS if name in rivals},
        most_servers={name: _most_servers(name, setting, nominal(chosen)) for name in SUMS},
        tried_sums=DigitSum(servers=servers, bits=bits, rounding="floor").try_sums(_TRIED_SUMS),
    )
    return replace(made, verdict=verdict(made))


def _rivals(setting: Setting, values: Values) -> tuple[dict[str, Rival], dict[str, str]]:
    rivals, refused = {}, {}
    for name, make in RIVALS.items():
        try:
            rivals[name] = make(setting, values)
        except UnsupportedError as error:
            refused[name] = str(error)
    ordered = sorted(rivals.values(), key=lambda rival: rival.energy_per_bit)
    return {rival.name: rival for rival in ordered}, refused


def _ranges(setting: Setting, chosen: Mapping[str, Constant], names: list[str], draws: int) -> dict[str, Range]:
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
    """Return a rival's energy over the reducer chip's with every constant at the end that favours the rival.

    The end is found for each constant alone, the others at their own values: exact where no two constants oppose.
    """
    values = nominal(chosen)

    def ratio(changed: Values) -> float:
        return RIVALS[name](setting, changed).energy_per_bit / reducer_asic(setting, changed).energy_per_bit

    best = {}
    for key, constant in chosen.items():
        ends = sorted((ratio({**values, key: end}), end) for end in (constant.draw(0.0), constant.draw(1.0)))
        best[key] = ends[0][1]
    return ratio(best)


def _most_servers(name: str, setting: Setting, values: Values) -> int:
    """Return the largest of some numbers of servers up to which a rival breaks no limit, 0 for none."""
    most = 0
    for servers in _SIZES:
        if RIVALS[name](replace(setting, servers=servers), values).limits:
            break
        most = servers
    return most


def _quantile(energies: Floats, share: float) -> float:
    """Return the value that a share of the energies stays at or below; sorted, since some may be infinite."""
    return float(np.sort(energies)[min(int(share * len(energies)), len(energies) - 1)])
