"""Lanes between servers and a reducer: electronics and light, relative to a plain PAM4 lane with error correction.

    needed at the detector (photonics.detection) ─▶ dB beyond a plain lane ─▶ laser of the lane

A plain lane's laser is known as a share of an optical end's energy, for the published noise and extinction; what a
lane needs beyond that, for more noise, more levels, no error correction, multiplexers or splitters, multiplies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import expm1, log1p, log2, log10

from lightloom.core.errors import ConfigError
from lightloom.photonics.detection import DigitReceiver, Scheme
from lightloom.photonics.reducers.constants import Values, nominal, published

RATE = 544 / 514
"""Line bits for each bit of data of RS(544, 514)."""
_NEVER = float("inf")


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
        if not (isinstance(self.servers, int) and not isinstance(self.servers, bool) and 2 <= self.servers <= 32):
            raise ConfigError(f"servers = {self.servers!r}: expected a whole number from 2 to 32")
        if not (isinstance(self.bits, int) and not isinstance(self.bits, bool) and 1 <= self.bits <= 32):
            raise ConfigError(f"bits = {self.bits!r}: expected a whole number from 1 to 32")
        if self.ports is not None and not (isinstance(self.ports, int) and self.ports >= 2):
            raise ConfigError(f"ports = {self.ports!r}: expected a whole number of at least 2")
        if not 1e9 <= self.symbol_rate <= 1e12:
            raise ConfigError(f"symbol_rate = {self.symbol_rate!r}: expected 1e9 to 1e12 symbols a second")
        if not 1e-15 <= self.word_errors <= 0.1:
            raise ConfigError(f"word_errors = {self.word_errors!r}: expected a share from 1e-15 to 0.1")

    @property
    def sent(self) -> float:
        """Bits a second that all servers send to one instance."""
        return self.servers * self.server_rate

    @property
    def server_rate(self) -> float:
        """Bits a second that a server sends to one instance."""
        return self.bits * self.symbol_rate


@lru_cache(maxsize=4096)
def needed(receiver: DigitReceiver, word_errors: float, scheme: Scheme) -> float:
    """Return watts at the detector for that share of wrong words; infinite where no light suffices."""
    power = receiver.needed_power(word_errors, scheme)
    return _NEVER if power is None else power


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Lanes of ``levels`` levels between a server and the reducer."""

    setting: Setting
    values: Values
    levels: int = 4

    @property
    def digits(self) -> int:
        """Lanes of a server."""
        return -(-self.setting.bits // int(log2(self.levels)))

    @property
    def symbol_electronics(self) -> float:
        """Joules of the electronics of both ends of a lane for a symbol."""
        plain = 2 * (self.values["end"] - self.values["laser"])
        return plain * (self.values["nrz_lane"] if self.levels == 2 else 1.0)

    @property
    def sender(self) -> float:
        """Joules of a lane's transmitter for a symbol."""
        return self.values["transmitter_share"] * self.symbol_electronics

    @property
    def receiver(self) -> float:
        """Joules of a lane's receiver for a symbol."""
        return (1 - self.values["transmitter_share"]) * self.symbol_electronics

    def per_bit(self, joules_per_symbol: float) -> float:
        """Return joules for each bit of a server, of joules for a symbol of each of its lanes."""
        return joules_per_symbol * self.digits / self.setting.bits

    def digit_receiver(self, servers: int) -> DigitReceiver:
        """Return the receiver of the sum of so many servers' digits on these lanes."""
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
    def corrected_errors(self) -> float:
        """Share of wrong words before error correction that it corrects."""
        return -expm1(self.setting.bits * log1p(-self.values["uncorrected_threshold"]))

    @property
    def plain_power(self) -> float:
        """Watts at the detector of a plain PAM4 lane with error correction."""
        plain = Lanes(setting=self.setting, values=self.values)
        return needed(plain.digit_receiver(1), self.corrected_errors, "separate")

    @property
    def plain_laser(self) -> float:
        """Joules a symbol of the laser of a plain PAM4 lane with error correction."""
        return self.laser(self.plain_power)

    @property
    def reference_power(self) -> float:
        """Watts at the detector of a plain lane with the published noise and extinction, whose laser is a constant."""
        return Lanes(setting=self.setting, values=nominal(published())).plain_power

    @property
    def path_loss_db(self) -> float:
        """Loss in dB from the modulator to the detector that the laser of a plain lane implies, margin included."""
        plain = self.launched(2 * self.values["laser"])
        return 10 * log10(plain / self.reference_power)

    def laser(self, power: float, extra_db: float = 0.0) -> float:
        """Return joules a symbol of the laser of a lane that needs ``power`` watts behind ``extra_db`` more of loss."""
        ratio = power / self.reference_power
        return 2 * self.values["laser"] * ratio * 10 ** (extra_db / 10)

    def launched(self, joules: float) -> float:
        """Return watts at the modulator of a lane whose laser takes ``joules`` a symbol."""
        return joules * self.setting.symbol_rate * self.values["laser_efficiency"]
