"""Rivals that add digits by light and carry in electronics: powers of several wavelengths, or fields of locked lasers.

    servers ══ a lane a digit ══▶ multiplexer ─▶ photodiode ─▶ converter ─▶ adders ─▶ transmitter ─▶ splitter ══▶

The sum travels without error correction on its way to the reducer, an assumption: a linear code over a prime field
larger than any sum (p > 255 N for codes of 8 bits) would pass the sum, and is not counted here. The mean has error
correction on its way back.
"""

from __future__ import annotations

from math import inf

from lightloom.photonics.reducers.constants import Values
from lightloom.photonics.reducers.electronic import broadcast
from lightloom.photonics.reducers.lanes import RATE, Lanes, Setting, needed
from lightloom.photonics.reducers.rival import Rival

MODULATIONS = {4: "PAM4", 2: "on-off"}
ALIGNED = "senders aligned to a few hundredths of a symbol, as one sample decides all of them"
UNCORRECTED = "raw word errors: the way up is counted without error correction; a late sender holds up all"


def digit_sum(setting: Setting, values: Values, levels: int = 4) -> Rival:
    """Return a wavelength for each server, summed by photodiodes, with digital carries."""
    up = Lanes(setting=setting, values=values, levels=levels)
    receiver = up.digit_receiver(setting.servers)
    power = needed(receiver, setting.word_errors, "wavelengths")
    laser = up.laser(power, values["mux_loss"])
    rings = up.per_bit(values["ring_lock"] / setting.symbol_rate)
    common, latency = _common(setting, values, up)
    return Rival(
        name="digit-sum" if levels == 4 else "digit-sum-nrz",
        title=f"wavelengths summed by photodiodes, digital carries, {MODULATIONS[levels]}",
        energy=common | {"lasers": common["lasers"] + up.per_bit(laser), "multiplexers": rings},
        latency=latency,
        lanes=up.digits,
        launched=up.digits * up.launched(laser),
        detected=power,
        enob=_enob(up),
        limits=(
            *_light_limit(power, "intensity noise and levelling"),
            *_converter_limit(up),
            *modulator_limit(up, laser),
        ),
        needs=(
            f"powers level to {100 * values['levelling']:.2g} %",
            "a wavelength for each server",
            ALIGNED,
            UNCORRECTED,
        ),
    )


def homodyne_sum(setting: Setting, values: Values, levels: int = 4) -> Rival:
    """Return fields of locked lasers, combined and detected against a local oscillator, with digital carries."""
    up = Lanes(setting=setting, values=values, levels=levels)
    receiver = up.digit_receiver(setting.servers)
    power = needed(receiver, setting.word_errors, "homodyne")
    laser = up.laser(power)
    oscillator = receiver.local_oscillator * 10 ** (values["oscillator_loss"] / 10) / values["laser_efficiency"]
    common, latency = _common(setting, values, up)
    per_instance = up.per_bit(oscillator / setting.symbol_rate) / setting.servers
    return Rival(
        name="homodyne-sum",
        title=f"fields of locked lasers summed, digital carries, {MODULATIONS[levels]}",
        energy=common
        | {
            "lasers": common["lasers"] + up.per_bit(laser),
            "local oscillators": per_instance,
            "phase locks": up.per_bit(values["phase_lock"] / setting.symbol_rate),
        },
        latency=latency,
        lanes=up.digits,
        launched=up.digits * up.launched(laser),
        detected=power,
        enob=_enob(up),
        limits=(
            *_light_limit(power, "errors of phases, laser noise and levelling"),
            *_converter_limit(up),
            *modulator_limit(up, laser),
        ),
        needs=(
            f"lasers of all servers locked to {values['phase_error']:.2g} rad",
            f"powers level to {100 * values['levelling']:.2g} %",
            "modulators about their null, for fields of both signs",
            ALIGNED,
            UNCORRECTED,
        ),
    )


def _common(setting: Setting, values: Values, up: Lanes) -> tuple[dict[str, float], dict[str, float]]:
    """Return what both kinds of sums share: energy by part, with the lasers of the way back, and latency."""
    down = Lanes(setting=setting, values=values)
    back, transmitters = broadcast(down, RATE * down.plain_laser)
    share = transmitters / setting.servers
    converter = values["converter"] * 2 ** (_enob(up) + values["converter_margin"])
    energy = {
        "server transmitters": up.per_bit(up.sender),
        "server receivers": RATE * down.per_bit(down.receiver),
        "reducer receivers": up.per_bit(up.receiver) / setting.servers,
        "converters": up.per_bit(converter) / setting.servers,
        "reducer transmitters": RATE * down.per_bit(down.sender) * share,
        "lasers": down.per_bit(back),
        "error correction": (1 + share) / 2 * values["error_correction"],
        "logic": values["adders"],
    }
    latency = {"error correction": values["correction_latency"], "logic": values["converter_latency"]}
    return energy, latency


def _enob(up: Lanes) -> float:
    return up.digit_receiver(up.setting.servers).needed_enob(up.setting.word_errors)


def _converter_limit(up: Lanes) -> tuple[str, ...]:
    need, have = _enob(up), up.values["converter_bits"]
    if need <= have:
        return ()
    return (f"needs {need:.1f} effective bits at {up.setting.symbol_rate / 1e9:g} GS/s, converters have {have:.1f}",)


def _light_limit(power: float, causes: str) -> tuple[str, ...]:
    return () if power < inf else (f"no light suffices: {causes} grow with the sum",)


def modulator_limit(lanes: Lanes, laser: float) -> tuple[str, ...]:
    """Return what is wrong if a server's modulator does not bear the light of a laser of ``laser`` joules a symbol."""
    watts, limit = lanes.launched(laser), lanes.values["modulator_limit"]
    if watts <= limit or watts == inf:
        return ()
    return (f"{1e3 * watts:.3g} mW a lane at the servers' modulators, which bear {1e3 * limit:.3g} mW",)
