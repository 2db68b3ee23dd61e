"""Rivals that add digits by light and carry in electronics: powers of several wavelengths, or fields of locked lasers.

    servers ══ a lane a digit ══▶ multiplexer ─▶ photodiode ─▶ converter ─▶ adders ─▶ transmitter ─▶ splitter ══▶

The sum has no error correction on its way to the reducer, since a code of sums is no code of the sum; the mean has it
on its way back.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from lightloom.photonics.detection import DigitReceiver, Scheme
from lightloom.photonics.reducers.constants import Values
from lightloom.photonics.reducers.electronic import broadcast
from lightloom.photonics.reducers.lanes import RATE, Lanes, Setting, needed
from lightloom.photonics.reducers.rival import Rival

MODULATIONS = {4: "PAM4", 2: "on-off"}
ALIGNED = "senders aligned to a few hundredths of a symbol, as one sample decides all of them"
UNCORRECTED = "raw word errors, as no error correction survives the sum; a late sender holds up all"


def digit_sum(setting: Setting, values: Values, levels: int = 4) -> Rival:
    """Return a wavelength for each server, summed by photodiodes, with digital carries."""
    up = Lanes(setting=setting, values=values, levels=levels)
    receiver = up.digit_receiver(setting.servers, values["levelling"])
    power = needed(receiver, setting.word_errors, "wavelengths")
    laser = up.laser(power, values["mux_loss"])
    rings = up.per_bit(values["ring_lock"] / setting.symbol_rate)
    common, latency = _common(setting, values, up)
    limits = [] if power < float("inf") else ["no light suffices: intensity noise and levelling grow with the sum"]
    return Rival(
        name="digit-sum" if levels == 4 else "digit-sum-nrz",
        title=f"wavelengths summed by photodiodes, digital carries, {MODULATIONS[levels]}",
        energy=common | {"lasers": common["lasers"] + up.per_bit(laser), "multiplexers": rings},
        latency=latency,
        lanes=up.digits,
        launched=up.digits * up.launched(laser),
        detected=power,
        enob=_enob(up),
        limits=(*limits, *_converter_limit(up), *modulator_limit(up, laser)),
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
    scheme: Scheme = "homodyne"
    power = needed(receiver, setting.word_errors, scheme) * 10 ** (values["phase_penalty"] / 10)
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
        limits=(*_phase_limit(up, values["phase_penalty"]), *_converter_limit(up), *modulator_limit(up, laser)),
        needs=(f"lasers of all servers locked to {values['phase_error']:.2g} rad", ALIGNED, UNCORRECTED),
    )


def _common(setting: Setting, values: Values, up: Lanes) -> tuple[dict[str, float], dict[str, float]]:
    """Return what both kinds of sums share: energy by part, with the lasers of the way back, and latency."""
    down = Lanes(setting=setting, values=values)
    back, transmitters = broadcast(down, RATE * 2 * values["laser"])
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


def _phase_limit(up: Lanes, penalty_db: float) -> tuple[str, ...]:
    setting, phase = up.setting, round(up.values["phase_error"], 2)
    wrong = _wrong_by_phase(setting.servers, setting.bits, up.levels, setting.word_errors, phase, round(penalty_db))
    if wrong <= 2 * setting.word_errors:
        return ()
    return (f"phases of {phase:g} rad make {wrong:.1e} of the words wrong",)


@lru_cache(maxsize=256)
def _wrong_by_phase(servers: int, bits: int, levels: int, word_errors: float, phase: float, penalty_db: float) -> float:
    """Return the share of wrong words of a homodyne sum with phase errors, so many dB above its need without them."""
    receiver = DigitReceiver(servers=servers, bits=bits, levels=levels)
    power = needed(receiver, word_errors, "homodyne") * 10 ** (penalty_db / 10)
    return replace(receiver, phase_error=phase).word_error(power, "homodyne")


def modulator_limit(lanes: Lanes, laser: float) -> tuple[str, ...]:
    """Return what is wrong if a server's modulator does not bear the light of a laser of ``laser`` joules a symbol."""
    watts, limit = lanes.launched(laser), lanes.values["modulator_limit"]
    if watts <= limit or watts == float("inf"):
        return ()
    return (f"{1e3 * watts:.3g} mW a lane at the servers' modulators, which bear {1e3 * limit:.3g} mW",)
