"""Rivals inside the light: the paper's network, and the one with a gain for each row and homodyne units.

    servers ══ PAM4 lanes ══▶ P ─▶ [mesh ─▶ gain ─▶ units] ... ─▶ mesh ─▶ T ══▶ servers

The paper's network has an amplifier behind every output of every matrix, one gain for all outputs of a matrix, and
units that nobody has built: what is counted is without them. The other one detects every output of a matrix against a
local oscillator and modulates fresh light. Full scales are simulated (`photonics.link`) with the noise of amplifiers or
detectors alone, and carried on to rarer errors along a Gaussian tail.
"""

from __future__ import annotations

from math import ceil, log10
from statistics import NormalDist

from lightloom.photonics.detection import homodyne_variance
from lightloom.photonics.reducers.constants import Values, nominal, published
from lightloom.photonics.reducers.designs import NOISES, TRIED_ERRORS, Design, design
from lightloom.photonics.reducers.lanes import Lanes, Setting, needed
from lightloom.photonics.reducers.rival import Rival
from lightloom.photonics.reducers.sums import ALIGNED, UNCORRECTED, modulator_limit

NETWORKS = ("row-gain-network", "paper-network")
"""Rivals that average inside the light."""
_OSCILLATOR = 1e-3
"""Watts of a unit's local oscillator, an assumption (`link.settings.Link`)."""
_COLUMN = 3e-4 * 4.2 / 299792458.0
"""Seconds of a column of interferometers: 0.3 mm at a group index of 4.2, both assumptions."""


def full_scale(made: Design, setting: Setting, values: Values, rows: bool) -> float:
    """Return watts of full scale for the setting's word errors and these constants, with the margin for the rest."""
    normal = NormalDist()
    tail = (normal.inv_cdf(setting.word_errors) / normal.inv_cdf(TRIED_ERRORS)) ** 2
    noise = 1.0
    if rows:
        own, given = (
            homodyne_variance(_OSCILLATOR, 1.0, density, 1.0)
            for density in (nominal(published())["noise_density"], values["noise_density"])
        )
        noise = given / own
    rate = setting.symbol_rate / 50e9
    return made.full_scale * max(tail, 0.1) * noise * rate * 10 ** (values["network_margin"] / 10)


def row_gain_network(setting: Setting, values: Values) -> Rival:
    """Return the network with a gain for each row and limiting homodyne units."""
    made = design(setting.servers, setting.bits, True, setting.ports)
    lanes, scale = Lanes(setting=setting, values=values), full_scale(made, setting, values, rows=True)
    up = lanes.laser(scale * made.lane_share)
    down = needed(lanes.digit_receiver(1), setting.word_errors, "separate")
    sent = setting.sent
    efficiency = values["laser_efficiency"]
    oscillators = made.units * _OSCILLATOR * 10 ** (values["oscillator_loss"] / 10) / efficiency
    carriers = (made.units - lanes.digits) * scale * 10 ** ((values["modulator_loss"] + 2) / 10) / efficiency
    return Rival(
        name="row-gain-network",
        title="network of interferometers, a gain for each row, homodyne units",
        energy={
            "server transmitters": lanes.per_bit(lanes.sender),
            "server receivers": lanes.per_bit(lanes.receiver),
            "units": made.units * values["unit"] * lanes.symbol_electronics * setting.symbol_rate / sent,
            "heaters": made.mzis * values["mean_phase"] * values["heater"] / sent,
            "lasers": lanes.per_bit(up) + lanes.per_bit(lanes.laser(down)),
            "local oscillators": oscillators / sent,
            "carriers of units": carriers / sent,
            "phase locks": lanes.per_bit(values["phase_lock"] / setting.symbol_rate),
        },
        latency={"meshes": made.columns * _COLUMN, "units": (made.hidden + 1) * values["unit_latency"]},
        lanes=lanes.digits,
        launched=lanes.digits * lanes.launched(up),
        detected=scale * made.lane_share,
        limits=(*_limits(made), *modulator_limit(lanes, up)),
        needs=_NEEDS,
        area=made.mzis * values["mzi_area"],
    )


def paper_network(setting: Setting, values: Values) -> Rival:
    """Return the paper's network as it is mapped without a gain for each row, without units."""
    made = design(setting.servers, setting.bits, False, setting.ports)
    lanes, scale = Lanes(setting=setting, values=values), full_scale(made, setting, values, rows=False)
    up = lanes.laser(scale * made.lane_share)
    sent = setting.sent
    stages = sum(count * max(ceil(20 * log10(gain) / values["amplifier_gain"]), 0) for gain, count in made.gains)
    return Rival(
        name="paper-network",
        title="network of interferometers, one gain a matrix, optical amplifiers; units not counted",
        energy={
            "server transmitters": lanes.per_bit(lanes.sender),
            "server receivers": lanes.per_bit(lanes.receiver),
            "amplifiers": stages * values["amplifier"] / sent,
            "heaters": made.mzis * values["mean_phase"] * values["heater"] / sent,
            "lasers": lanes.per_bit(up),
            "phase locks": lanes.per_bit(values["phase_lock"] / setting.symbol_rate),
        },
        latency={"meshes": made.columns * _COLUMN},
        lanes=lanes.digits,
        launched=lanes.digits * lanes.launched(up),
        detected=scale * made.lane_share,
        limits=("no unit is known that could run it", *_paper_limits(made, scale)),
        needs=_NEEDS,
        area=made.mzis * values["mzi_area"],
    )


_NEEDS = (
    "lasers of all servers locked in phase, below 0.1 rad",
    ALIGNED,
    "meshes set to about 3e-3 rad",
    UNCORRECTED,
)


def _limits(made: Design) -> tuple[str, ...]:
    if made.noise is not None and made.noise >= NOISES[0]:
        return ()
    if made.levels > 1:
        return (f"bears noise of {made.noise:g} of full scale; its light is scaled from one level by that noise",)
    bears = "is built for exactness alone" if made.noise is None else f"bears noise of {made.noise:g} of full scale"
    return (f"fragile: the sturdiest network {bears}",)


def _paper_limits(made: Design, scale: float) -> tuple[str, ...]:
    if scale == float("inf"):
        return ("no light up to 100 W of full scale suffices",)
    gain = 20 * log10(made.gains[0][0])
    return (f"{scale:.2g} W of full scale and {gain:.0f} dB of gain on the chip", *_limits(made))
