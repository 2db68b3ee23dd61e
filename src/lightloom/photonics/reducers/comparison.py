"""What a comparison of reducers holds, and how it shows itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lightloom.core.provenance import provenance
from lightloom.core.results import Document, Result, plain
from lightloom.photonics.averaging.digit_sum import DigitSum
from lightloom.photonics.reducers.constants import Constant, nominal
from lightloom.photonics.reducers.lanes import Lanes, Setting
from lightloom.photonics.reducers.rival import Rival
from lightloom.photonics.reducers.tornado import Turn


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
    """What single constants do to the saving of the pair."""
    best_cases: Mapping[str, float]
    """Energy of each network over the reducer chip's with every constant at the end of its range that favours it."""
    most_servers: Mapping[str, int]
    """Largest tried number of servers up to which sums stay within all limits, by rival; 0 for none."""
    tried_sums: tuple[int, int]
    """Tuples of digit sums that were tried, and how many means were wrong."""
    verdict: tuple[str, ...] = ()
    """The comparison in words."""

    @property
    def proof(self) -> tuple[str, ...]:
        """Steps of the proof that digit sums average exactly."""
        return DigitSum(servers=self.setting.servers, bits=self.setting.bits, rounding="floor").steps()

    @property
    def path_loss_db(self) -> float:
        """Loss of a lane's path that the lasers of plain lanes imply, from modulator to detector, margin included."""
        return Lanes(setting=self.setting, values=nominal(self.constants)).path_loss_db

    def saving(self, first: str, second: str) -> float:
        """Return the share of energy that the first rival saves against the second."""
        return saving_of(self.rivals[first], self.rivals[second])

    def summary(self) -> str:
        return f"{self.setting.servers} servers, {self.setting.bits} bits: {self.verdict[0]}"

    def rows(self) -> list[Document]:
        return [self._row(name) for name in self.rivals]

    def _row(self, name: str) -> Document:
        rival, spread = self.rivals[name], self.ranges[name]
        return {
            "rival": name,
            "title": rival.title,
            "energy_per_bit_j": rival.energy_per_bit,
            "energy_per_bit_low_j": spread.low,
            "energy_per_bit_high_j": spread.high,
            "parts_j": dict(rival.energy),
            "latency_s": rival.total_latency,
            "latency_parts_s": dict(rival.latency),
            "light_per_server_w": rival.launched,
            "light_per_lane_at_reducer_w": rival.detected,
            "effective_bits_needed": rival.enob,
            "area_m2": rival.area,
            "limits": list(rival.limits),
            "needs": list(rival.needs),
            "share_of_draws_below": dict(spread.sooner),
        }

    def to_json(self) -> Document:
        """Return the document that ``lightloom onn compare-reducers --json`` prints."""
        setting = self.setting
        given = {name: constant.value for name, constant in self.constants.items() if constant.given}
        identity = [setting.servers, setting.bits, setting.symbol_rate, setting.word_errors]
        document = {
            "schema": "lightloom.onn-compare-reducers/1",
            "servers": setting.servers,
            "bits": setting.bits,
            "symbol_rate": setting.symbol_rate,
            "word_errors": setting.word_errors,
            "path_loss_db": self.path_loss_db,
            "rivals": self.rows(),
            "refused": dict(self.refused),
            "draws": self.draws,
            "pair": list(self.pair),
            "turns": [_turn(turn) for turn in self.turns],
            "verdict": list(self.verdict),
            "best_case_ratios": dict(self.best_cases),
            "most_servers_within_limits": dict(self.most_servers),
            "digit_sum": {"proof": list(self.proof), "tried": self.tried_sums[0], "wrong": self.tried_sums[1]},
            "constants": [_constant(constant) for constant in self.constants.values()],
            "provenance": provenance([*identity, given, self.draws, list(self.pair)], 0),
        }
        return {name: plain(value) for name, value in document.items()}

    def display_rows(self) -> list[dict[str, object]]:
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
    """Return the share of energy that the first rival saves; minus infinity where no light suffices for it."""
    if first.energy_per_bit == float("inf"):
        return float("-inf")
    return 1 - first.energy_per_bit / second.energy_per_bit


def _turn(turn: Turn) -> Document:
    return {
        "constant": turn.constant.name,
        "unit": turn.constant.unit,
        "value": turn.constant.value,
        "low": turn.constant.low,
        "high": turn.constant.high,
        "saving_at_low": turn.at_low,
        "saving_at_high": turn.at_high,
        "break_even": turn.break_even,
    }


def _constant(constant: Constant) -> Document:
    return {
        "name": constant.name,
        "value": constant.value,
        "low": constant.low,
        "high": constant.high,
        "unit": constant.unit,
        "meaning": constant.meaning,
        "source": constant.source,
        "assumption": constant.assumed,
    }
