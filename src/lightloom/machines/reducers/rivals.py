"""Figures of the comparison for one rival."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, expm1, inf, log1p, log2, log10
from statistics import NormalDist

from lightloom.core.errors import ConfigError
from lightloom.machines.reducers.constants import (
    NOISES,
    TRIED_ERRORS,
    Design,
    Values,
    network_design,
    nominal,
    published,
)
from lightloom.photonics.detection import DigitReceiver, Scheme, homodyne_variance


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A way to average the codes of N servers, with its costs for one set of constants."""

    name: str
    title: str
    energy: Mapping[str, float]
    """Joules by part, for each bit that a server sends and gets back as a mean."""
    latency: Mapping[str, float]
    """Seconds by part from the light of the senders to the mean's code; what is alike for all is left out."""
    launched: float
    """Watts of light at the modulators of a server for one instance; what a reducer's own lasers add is not in it."""
    lanes: int
    """Lanes of a server to one instance."""
    detected: float | None = None
    """Watts of a lane's highest level at the reducer's detector; None where fields are not detected there."""
    enob: float | None = None
    """Effective bits that a converter needs; None without converters."""
    limits: tuple[str, ...] = ()
    """Sentences on what rules the rival out at this number of servers, or at all; empty where nothing does."""
    needs: tuple[str, ...] = ()
    """Sentences on the conditions that the rival needs, such as locked lasers."""
    area: float = 0.0
    """Square metres of photonics of one instance."""

    @property
    def energy_per_bit(self) -> float:
        """Joules of all parts together for each bit that a server sends and gets back as a mean; infinite where no
        light suffices."""
        return sum(self.energy.values())

    @property
    def total_latency(self) -> float:
        """Seconds of all parts of the latency together."""
        return sum(self.latency.values())


# Lanes between servers and a reducer: electronics and light, relative to a plain PAM4 lane with error correction.
#
#     needed at the detector (photonics.detection) ─▶ dB beyond a plain lane ─▶ laser of the lane
#
# A plain lane's laser is known as a share of an optical end's energy, for the published noise and extinction; what a
# lane needs beyond that, for more noise, more levels, no error correction, multiplexers or splitters, multiplies it.

RATE = 544 / 514
"""Line bits for each bit of data of RS(544, 514)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The words that a reducer averages: how many servers send them, of how many bits, and how fast."""

    servers: int
    bits: int = 8
    symbol_rate: float = 50e9
    ports: int | None = None
    """Servers of one averager of a network; more servers take two levels. None: one averager for all."""
    word_errors: float = 1e-6
    """Share of wrong words where no error correction is counted."""

    def __post_init__(self) -> None:
        """Refuse numbers outside their ranges with a ConfigError."""
        for name, count, least in (("servers", self.servers, 2), ("bits", self.bits, 1)):
            if type(count) is not int or not least <= count <= 32:
                raise ConfigError(f"{name} = {count!r}: expected a whole number from {least} to 32")
        if self.ports is not None and not (isinstance(self.ports, int) and self.ports >= 2):
            raise ConfigError(f"ports = {self.ports!r}: expected a whole number of at least 2")
        if not 1e9 <= self.symbol_rate <= 1e12:
            raise ConfigError(f"symbol_rate = {self.symbol_rate!r}: expected 1e9 to 1e12 symbols a second")
        if not 1e-15 <= self.word_errors <= 0.1:
            raise ConfigError(f"word_errors = {self.word_errors!r}: expected a share from 1e-15 to 0.1")

    @property
    def sent(self) -> float:
        """Bits per second of codes that all servers together send to one instance."""
        return self.servers * (self.bits * self.symbol_rate)


@lru_cache(maxsize=4096)
def needed(receiver: DigitReceiver, word_errors: float, scheme: Scheme) -> float:
    """Return the least watts of a server's lane at the detector, those of its highest level, with which the receiver
    errs in no more than a share ``word_errors`` of words under a detection ``scheme`` (``separate``, ``wavelengths`` or
    ``homodyne``); infinite where 0.1 W does not suffice."""
    power = receiver.needed_power(word_errors, scheme)
    return inf if power is None else power


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Lanes of ``levels`` levels between a server and the reducer."""

    setting: Setting
    values: Values
    levels: int = 4

    @property
    def digits(self) -> int:
        """Number of lanes of a server to one instance: one for each digit of log2(levels) bits of a word, rounded
        up."""
        return -(-self.setting.bits // int(log2(self.levels)))

    @property
    def symbol_electronics(self) -> float:
        """Joules of the electronics of both ends of a lane for each symbol: two bits' worth of the published ``end``
        less its ``laser``; by on-off keying (2 levels) times the constant ``nrz_lane``."""
        return 2 * (self.values["end"] - self.values["laser"]) * (self.values["nrz_lane"] if self.levels == 2 else 1.0)

    @property
    def sender(self) -> float:
        """Joules of a lane's transmitter for each symbol, its laser left out: the transmitter's share of the
        electronics of both ends."""
        return self.values["transmitter_share"] * self.symbol_electronics

    @property
    def receiver(self) -> float:
        """Joules of a lane's receiver for each symbol: the part of the electronics of both ends that the transmitter
        leaves."""
        return (1 - self.values["transmitter_share"]) * self.symbol_electronics

    def per_bit(self, joules_per_symbol: float) -> float:
        """Return the joules for each bit of a server's codes, from the joules that each of its lanes takes for a
        symbol: times the lanes, over the bits of a code."""
        return joules_per_symbol * self.digits / self.setting.bits

    def digit_receiver(self, servers: int) -> DigitReceiver:
        """Return the receiver that detects the sum of so many servers' digits on these lanes, with the bits and symbol
        rate of the setting, and with noise, extinction, levelling and phase error of the constants."""
        return DigitReceiver(
            servers=servers,
            levels=self.levels,
            bits=self.setting.bits,
            symbol_rate=self.setting.symbol_rate,
            noise_density=self.values["noise_density"],
            extinction_db=self.values["extinction"],
            rin_db=self.values["rin"],
            levelling=self.values["levelling"],
            phase_error=self.values["phase_error"],
        )

    @property
    def plain_power(self) -> float:
        """Watts of the highest level at the detector that a plain PAM4 lane of one server needs so that error
        correction still mends its words (``uncorrected_threshold``), for these constants' noise and extinction."""
        plain = Lanes(setting=self.setting, values=self.values)
        # Share of wrong words before error correction that it corrects.
        errors = -expm1(self.setting.bits * log1p(-self.values["uncorrected_threshold"]))
        return needed(plain.digit_receiver(1), errors, "separate")

    @property
    def plain_laser(self) -> float:
        """Joules for each symbol of the laser of a plain PAM4 lane with error correction."""
        return self.laser(self.plain_power)

    @property
    def reference_power(self) -> float:
        """Watts at the detector that a plain PAM4 lane needs with the published noise and extinction: the power that
        belongs to the published laser energy, from which the loss of the path follows."""
        return Lanes(setting=self.setting, values=nominal(published())).plain_power

    @property
    def path_loss_db(self) -> float:
        """Loss in dB (positive) from the modulator to the detector that the laser of a plain lane implies, margin
        included."""
        return 10 * log10(self.launched(2 * self.values["laser"]) / self.reference_power)

    def laser(self, power: float, extra_db: float = 0.0) -> float:
        """Return the joules for each symbol of the laser of a lane that needs ``power`` watts at the detector, behind
        ``extra_db`` more of loss than a plain lane has: the published joules of a plain lane's laser times ``power``
        over :attr:`reference_power` and the loss as a factor."""
        return 2 * self.values["laser"] * (power / self.reference_power) * 10 ** (extra_db / 10)

    def launched(self, joules: float) -> float:
        """Return the watts of light at the modulator of a lane whose laser takes ``joules`` of electricity for each
        symbol: times the symbol rate and the lasers' efficiency."""
        return joules * self.setting.symbol_rate * self.values["laser_efficiency"]


# Rivals that end every lane in electronics: a reducer chip, one that broadcasts its result, a packet switch.
#
# servers ══ N lanes ══▶ receivers ─▶ error correction ─▶ adders ─▶ error correction ─▶ transmitters ══▶ servers

NEEDS = ("nothing beyond an ordinary link: error correction, retransmission and late senders are served",)


def reducer_asic(setting: Setting, values: Values) -> Rival:
    """Return the costs of a dedicated chip with an optical end for every server, which corrects errors on the way in
    and on the way out (lanes are plain PAM4), in a ``setting`` of servers, bits and rates, by the constants' ``values``
    in SI units."""
    costs = {"corrections": 2, "logic": values["reducer_logic"], "latency": values["reducer_latency"]}
    return _with_ends(setting, values, "reducer-asic", "reducer chip, an optical end for each server", **costs)


def broadcasting_asic(setting: Setting, values: Values) -> Rival:
    """Return the costs of a dedicated chip that sends each mean once, split to all servers by light, on as few
    transmitters as their modulators bear, in a ``setting`` of servers, bits and rates, by the constants' ``values`` in
    SI units."""
    lanes = Lanes(setting=setting, values=values)
    down, transmitters = broadcast(lanes, RATE * lanes.plain_laser)
    chip = reducer_asic(setting, values)
    energy = {
        **chip.energy,
        "reducer transmitters": chip.energy["reducer transmitters"] * transmitters / setting.servers,
        "lasers": RATE * lanes.per_bit(lanes.plain_laser) + lanes.per_bit(down),
        "error correction": (1 + (1 + transmitters / setting.servers) / 2) * values["error_correction"],
    }
    title = f"reducer chip, {transmitters} transmitter{'s' * (transmitters > 1)} a digit split to the servers"
    return replace(chip, name="broadcasting-asic", title=title, energy=energy)


def packet_switch(setting: Setting, values: Values) -> Rival:
    """Return the costs of a packet switch with co-packaged optics that reduces in the network, one error correction
    counted beside its silicon (``switch_silicon``), in a ``setting`` of servers, bits and rates, by the constants'
    ``values`` in SI units."""
    costs = {"corrections": 1, "logic": values["switch_silicon"], "latency": values["switch_latency"]}
    return _with_ends(setting, values, "packet-switch", "packet switch that reduces", **costs)


def _with_ends(
    setting: Setting, values: Values, name: str, title: str, *, corrections: float, logic: float, latency: float
) -> Rival:
    """Return the costs of a reducer with an optical end for every server.

    Args:
        setting: servers, bits and rate.
        values: value of every constant, in SI units.
        name: name of the rival.
        title: description of the rival.
        corrections: number of error corrections that ``logic`` and ``latency`` do not hold yet.
        logic: joules of the reducer for each bit.
        latency: seconds of the reducer.
    """
    lanes = Lanes(setting=setting, values=values)
    return Rival(
        name=name,
        title=title,
        energy={
            "server transmitters": RATE * lanes.per_bit(lanes.sender),
            "server receivers": RATE * lanes.per_bit(lanes.receiver),
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


def broadcast(lanes: Lanes, joules: float) -> tuple[float, int]:
    """Return the joules for each symbol and server of the lasers that broadcast one digit to all servers, splitters'
    loss included, and the fewest transmitters that reach them.

    One modulator feeds as many servers, a whole number, as the light that it bears; where none bears that of more than
    one server, each has its own, without splitters. ``joules`` is what the laser takes for each symbol to reach one
    server without a splitter.
    """
    servers, values = lanes.setting.servers, lanes.values
    for fewest in range(1, servers):
        most = -(-servers // fewest)
        split = joules * 10 ** (ceil(log2(most)) * values["splitter_loss"] / 10)
        if lanes.launched(split) * most <= values["modulator_limit"]:
            return split, fewest
    return joules, servers


# Rivals that add digits by light and carry in electronics: powers of several wavelengths, or fields of locked lasers.
#
#     servers ══ a lane a digit ══▶ multiplexer ─▶ photodiode ─▶ converter ─▶ adders ─▶ transmitter ─▶ splitter ══▶
#
# The sum travels without error correction on its way to the reducer, an assumption: a linear code over a prime field
# larger than any sum (p > 255 N for codes of 8 bits) would pass the sum, and is not counted here. The mean has error
# correction on its way back.

MODULATIONS = {4: "PAM4", 2: "on-off"}
ALIGNED = "senders aligned to a few hundredths of a symbol, as one sample decides all of them"
UNCORRECTED = "raw word errors: the way up is counted without error correction; a late sender holds up all"


def digit_sum(setting: Setting, values: Values, levels: int = 4) -> Rival:
    """Return the costs of a sum of powers: a wavelength for each server, summed digit by digit on photodiodes, with
    digital carries; means return by broadcast on plain PAM4 lanes, where alone errors are corrected. ``levels`` is 4
    for PAM4 (rival ``digit-sum``), 2 for on-off keying (``digit-sum-nrz``); ``setting`` has servers, bits and rates,
    ``values`` the constants in SI units."""
    up = Lanes(setting=setting, values=values, levels=levels)
    power = needed(up.digit_receiver(setting.servers), setting.word_errors, "wavelengths")
    return _summing_rival(
        up,
        "digit-sum" if levels == 4 else "digit-sum-nrz",
        f"wavelengths summed by photodiodes, digital carries, {MODULATIONS[levels]}",
        power,
        up.laser(power, values["mux_loss"]),
        more={"multiplexers": up.per_bit(values["ring_lock"] / setting.symbol_rate)},
        causes="intensity noise and levelling",
        needs=(f"powers level to {100 * values['levelling']:.2g} %", "a wavelength for each server"),
    )


def homodyne_sum(setting: Setting, values: Values) -> Rival:
    """Return the costs of a sum of fields: locked lasers, combined digit by digit and detected against a local
    oscillator, with digital carries; digits are PAM4 (4 levels), and means return by broadcast on plain lanes, where
    alone errors are corrected. ``setting`` has servers, bits and rates, ``values`` the constants in SI units."""
    up = Lanes(setting=setting, values=values)
    receiver = up.digit_receiver(setting.servers)
    power = needed(receiver, setting.word_errors, "homodyne")
    oscillator = receiver.local_oscillator * 10 ** (values["oscillator_loss"] / 10) / values["laser_efficiency"]
    return _summing_rival(
        up,
        "homodyne-sum",
        f"fields of locked lasers summed, digital carries, {MODULATIONS[up.levels]}",
        power,
        up.laser(power),
        more={
            "local oscillators": up.per_bit(oscillator / setting.symbol_rate) / setting.servers,
            "phase locks": up.per_bit(values["phase_lock"] / setting.symbol_rate),
        },
        causes="errors of phases, laser noise and levelling",
        needs=(
            f"lasers of all servers locked to {values['phase_error']:.2g} rad",
            f"powers level to {100 * values['levelling']:.2g} %",
            "modulators about their null, for fields of both signs",
        ),
    )


def _summing_rival(
    up: Lanes,
    name: str,
    title: str,
    power: float,
    laser: float,
    *,
    more: Mapping[str, float],
    causes: str,
    needs: tuple[str, ...],
) -> Rival:
    """Return the costs of a rival that sums digits in the light and sends means back by :func:`broadcast` on plain PAM4
    lanes with error correction. Limits that it breaks are want of light, of effective bits of converters, and what
    :func:`modulator_limit` says.

    Args:
        up: lanes from the servers to the reducer.
        name: name of the rival.
        title: description of the rival.
        power: watts of a lane at the detector; infinite where no light suffices.
        laser: joules for each symbol of the laser of a lane.
        more: joules for each bit of parts that other sums lack, by part.
        causes: words on why no light may suffice.
        needs: conditions of the rival beside those of all sums.
    """
    setting, values = up.setting, up.values
    down = Lanes(setting=setting, values=values)
    back, transmitters = broadcast(down, RATE * down.plain_laser)
    share = transmitters / setting.servers
    enob, have = up.digit_receiver(setting.servers).needed_enob(setting.word_errors), values["converter_bits"]
    energy = {
        "server transmitters": up.per_bit(up.sender),
        "server receivers": RATE * down.per_bit(down.receiver),
        "reducer receivers": up.per_bit(up.receiver) / setting.servers,
        "converters": up.per_bit(values["converter"] * 2 ** (enob + values["converter_margin"])) / setting.servers,
        "reducer transmitters": RATE * down.per_bit(down.sender) * share,
        "lasers": down.per_bit(back) + up.per_bit(laser),
        "error correction": (1 + share) / 2 * values["error_correction"],
        "logic": values["adders"],
        **more,
    }
    limits = [] if power < inf else [f"no light suffices: {causes} grow with the sum"]
    if enob > have:
        rate = f"{setting.symbol_rate / 1e9:g} GS/s"
        limits.append(f"needs {enob:.1f} effective bits at {rate}, converters have {have:.1f}")
    return Rival(
        name=name,
        title=title,
        energy=energy,
        latency={"error correction": values["correction_latency"], "logic": values["converter_latency"]},
        lanes=up.digits,
        launched=up.digits * up.launched(laser),
        detected=power,
        enob=enob,
        limits=(*limits, *modulator_limit(up, laser)),
        needs=(*needs, ALIGNED, UNCORRECTED),
    )


def modulator_limit(lanes: Lanes, laser: float) -> tuple[str, ...]:
    """Return a sentence, in a tuple, if a server's modulator does not bear the light of a laser that takes ``laser``
    joules for each symbol; empty if it does, or if no light suffices anyway."""
    watts, limit = lanes.launched(laser), lanes.values["modulator_limit"]
    if watts <= limit or watts == inf:
        return ()
    return (f"{1e3 * watts:.3g} mW a lane at the servers' modulators, which bear {1e3 * limit:.3g} mW",)


# The rival inside the light: a network with a gain for each row and homodyne units.
#
#     servers ══ PAM4 lanes ══▶ P ─▶ [mesh ─▶ gain ─▶ units] ... ─▶ mesh ─▶ T ══▶ servers
#
# It detects every output of a matrix against a local oscillator and modulates fresh light. Full scales are simulated
# (`photonics.link`) with the noise of detectors alone, and carried on to rarer errors along a Gaussian tail.

NETWORK = "row-gain-network"
"""Name of the rival that averages inside the light."""
_OSCILLATOR = 1e-3
"""Watts of a unit's local oscillator, an assumption (`link.settings.Link`)."""
_COLUMN = 3e-4 * 4.2 / 299792458.0
"""Seconds of a column of interferometers: 0.3 mm at a group index of 4.2, both assumptions."""


def full_scale(made: Design, setting: Setting, values: Values) -> float:
    """Return the watts of full scale that the network ``made`` needs for the setting's word errors and symbol rate.

    The simulated watts are multiplied by the square of the ratio of the Gaussian quantiles of the word error rates, at
    least by a tenth; by the ratio of the variances of detector noise, that of ``values`` over that of the published
    constants; by the symbol rate over 50 GBd; and by ``network_margin`` of ``values``, in dB, for what was not
    simulated.
    """
    normal = NormalDist()
    tail = (normal.inv_cdf(setting.word_errors) / normal.inv_cdf(TRIED_ERRORS)) ** 2
    densities = (nominal(published())["noise_density"], values["noise_density"])
    own, given = (homodyne_variance(_OSCILLATOR, 1.0, density, 1.0) for density in densities)
    rate = setting.symbol_rate / 50e9
    return made.full_scale * max(tail, 0.1) * (given / own) * rate * 10 ** (values["network_margin"] / 10)


def row_gain_network(setting: Setting, values: Values) -> Rival:
    """Return the costs of a network of interferometers with a gain for each row and limiting homodyne units, in a
    ``setting`` of servers, bits and rates, by the constants' ``values`` in SI units.

    Raises:
        UnsupportedError: no network is constructed for so many servers.
        ConfigError: two levels do not reach all servers.
    """
    made = network_design(setting.servers, setting.bits, setting.ports)
    lanes, scale = Lanes(setting=setting, values=values), full_scale(made, setting, values)
    up = lanes.laser(scale * made.lane_share)
    down = needed(lanes.digit_receiver(1), setting.word_errors, "separate")
    sent = setting.sent
    efficiency = values["laser_efficiency"]
    oscillators = made.units * _OSCILLATOR * 10 ** (values["oscillator_loss"] / 10) / efficiency
    carriers = (made.units - lanes.digits) * scale * 10 ** ((values["modulator_loss"] + 2) / 10) / efficiency
    return Rival(
        name=NETWORK,
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


_NEEDS = ("lasers of all servers locked in phase, below 0.1 rad", ALIGNED, "meshes set to about 3e-3 rad", UNCORRECTED)


def _limits(made: Design) -> tuple[str, ...]:
    """Return a sentence, in a tuple, on the noise that a network bears where it is fragile, or where its light is
    scaled from one level; empty where it bears the most noise that networks are constructed for."""
    if made.noise is not None and made.noise >= NOISES[0]:
        return ()
    if made.levels > 1:
        return (f"bears noise of {made.noise:g} of full scale; its light is scaled from one level by that noise",)
    bears = "is built for exactness alone" if made.noise is None else f"bears noise of {made.noise:g} of full scale"
    return (f"fragile: the sturdiest network {bears}",)
