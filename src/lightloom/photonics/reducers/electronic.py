"""Rivals that end every lane in electronics: a reducer chip, one that broadcasts its result, a packet switch.

servers ══ N lanes ══▶ receivers ─▶ error correction ─▶ adders ─▶ error correction ─▶ transmitters ══▶ servers
"""

from __future__ import annotations

from math import ceil, log2

from lightloom.photonics.reducers.constants import Values
from lightloom.photonics.reducers.lanes import RATE, Lanes, Setting
from lightloom.photonics.reducers.rival import Rival

NEEDS = ("nothing beyond an ordinary link: error correction, retransmission and late senders are served",)


def reducer_asic(setting: Setting, values: Values) -> Rival:
    """Return a dedicated chip with an optical end for every server."""
    return _with_ends(
        Lanes(setting=setting, values=values),
        "reducer-asic",
        "reducer chip, an optical end for each server",
        corrections=2,
        logic=values["reducer_logic"],
        latency=values["reducer_latency"],
    )


def broadcasting_asic(setting: Setting, values: Values) -> Rival:
    """Return a dedicated chip whose mean leaves on as few transmitters as their modulators bear, split to servers."""
    lanes = Lanes(setting=setting, values=values)
    down, transmitters = broadcast(lanes, RATE * lanes.plain_laser)
    return Rival(
        name="broadcasting-asic",
        title=f"reducer chip, {transmitters} transmitter{'s' * (transmitters > 1)} a digit split to the servers",
        energy={
            **corrected_ends(lanes),
            "reducer receivers": RATE * lanes.per_bit(lanes.receiver),
            "reducer transmitters": RATE * lanes.per_bit(lanes.sender) * transmitters / setting.servers,
            "lasers": RATE * lanes.per_bit(lanes.plain_laser) + lanes.per_bit(down),
            "error correction": (1 + (1 + transmitters / setting.servers) / 2) * values["error_correction"],
            "logic": values["reducer_logic"],
        },
        latency={"error correction": 2 * values["correction_latency"], "logic": values["reducer_latency"]},
        lanes=lanes.digits,
        launched=lanes.digits * lanes.launched(RATE * lanes.plain_laser),
        detected=lanes.plain_power,
        needs=NEEDS,
    )


def packet_switch(setting: Setting, values: Values) -> Rival:
    """Return a packet switch with co-packaged optics that reduces in the network."""
    return _with_ends(
        Lanes(setting=setting, values=values),
        "packet-switch",
        "packet switch that reduces",
        corrections=1,
        logic=values["switch_silicon"],
        latency=values["switch_latency"],
    )


def _with_ends(lanes: Lanes, name: str, title: str, *, corrections: int, logic: float, latency: float) -> Rival:
    """Return a reducer with an optical end for every server.

    ``corrections`` is the number of error corrections that the reducer's energy and latency do not hold yet, ``logic``
    its joules a bit, ``latency`` its seconds.
    """
    values = lanes.values
    return Rival(
        name=name,
        title=title,
        energy={
            **corrected_ends(lanes),
            "reducer receivers": RATE * lanes.per_bit(lanes.receiver),
            "reducer transmitters": RATE * lanes.per_bit(lanes.sender),
            "lasers": 2 * RATE * lanes.per_bit(lanes.plain_laser),
            "error correction": corrections * values["error_correction"],
            "logic": logic,
        },
        latency={"error correction": corrections * values["correction_latency"], "logic": latency},
        lanes=lanes.digits,
        launched=lanes.digits * lanes.launched(RATE * lanes.plain_laser),
        detected=lanes.plain_power,
        needs=NEEDS,
    )


def corrected_ends(lanes: Lanes) -> dict[str, float]:
    """Return joules a bit of the servers' transmitters and receivers, both with error correction."""
    return {
        "server transmitters": RATE * lanes.per_bit(lanes.sender),
        "server receivers": RATE * lanes.per_bit(lanes.receiver),
    }


def broadcast(lanes: Lanes, joules: float) -> tuple[float, int]:
    """Return the laser's joules a symbol for each server, and the transmitters of a digit that reaches all servers.

    ``joules`` is the laser's for one server alone. One modulator feeds as many servers as the light that it bears.
    """
    servers, values = lanes.setting.servers, lanes.values
    if joules == float("inf"):
        return joules, servers
    fewest = 1
    while fewest < servers:
        stages = ceil(log2(-(-servers // fewest)))
        split = joules * 10 ** (stages * values["splitter_loss"] / 10)
        if lanes.launched(split) * servers / fewest <= values["modulator_limit"]:
            return split, fewest
        fewest += 1
    return joules, servers
