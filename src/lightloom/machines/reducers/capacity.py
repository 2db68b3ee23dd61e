"""How many instances of an averager a bandwidth takes, and what all of them need: watts, light, latency, area.

    claimed bandwidth of a server ─▶ instances of signals x symbol rate ─▶ lasers, heaters, electronics, area

An instance is one averager with its lanes: bits x symbol rate for each server (0.4 Tb/s at 8 bits and 50 GBd).
Instances may be wavelengths on one passive mesh, which share its heaters and its area but nothing else;
`photonics.chip.wavelengths` says how far apart these may be.
"""

from math import ceil, floor

import numpy as np

from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.machines.reducers.built import SYMBOL_RATE, Averaging, BuiltAverager
from lightloom.machines.reducers.compare import RIVALS
from lightloom.machines.reducers.constants import constants, drawn, network_design, nominal
from lightloom.machines.reducers.rivals import NETWORK, Rival, Setting
from lightloom.photonics.chip.wavelengths import spacing_in_metres

SPACING = 100e9
"""Hertz between wavelengths on one mesh, an assumption: the grid of dense wavelength multiplexing."""
_DRAWS = 100


def instance_bandwidth(bits: int, symbol_rate: float) -> float:
    """Return the bytes per second that a server sends through one instance, which carries a code of ``bits`` bits in
    each of ``symbol_rate`` symbols per second."""
    return bits * symbol_rate / 8


def instances_for(bandwidth: float, bits: int, symbol_rate: float) -> int:
    """Return the number of instances, rounded up, that carry ``bandwidth`` bytes per second of every server; an excess
    of one part in 10^12 does not count.

    Args:
        bandwidth: bytes per second that a server sends.
        bits: bits of a code; an instance carries one code of a server in each symbol.
        symbol_rate: symbols per second.

    Raises:
        ConfigError: the bandwidth or the symbol rate is not positive and finite.
    """
    for name, value in (("bandwidth", bandwidth), ("symbol_rate", symbol_rate)):
        if not 0 < value < float("inf"):
            raise ConfigError(f"{name} = {value!r}: expected more than 0")
    return ceil(bandwidth / instance_bandwidth(bits, symbol_rate) * (1 - 1e-12))


def most_wavelengths(servers: int, bits: int, ports: int | None = None, spacing: float = SPACING) -> int:
    """Return how many wavelengths, ``spacing`` hertz apart (100 GHz by default), may share the meshes of a network with
    a gain for each row without leaving the window of wavelengths in which its means are right; 1 more than the whole
    spacings that fit into that window from end to end, and 1 for two levels, whose window is not computed. ``bits`` are
    those of a code, ``ports`` the servers of one averager, None for one averager for all; with fewer ports than servers
    there are two levels.

    Raises:
        UnsupportedError: no network is constructed for so many servers.
        ConfigError: two levels do not reach all servers.
    """
    return 1 + floor(2 * network_design(servers, bits, ports).window / spacing_in_metres(spacing) + 1e-9)


class Capacity(BuiltAverager):
    """All instances of a reducer that a bandwidth takes; no meshes without networks."""

    latency: float
    """Seconds from the servers' light to the mean's code."""
    levels: int
    """Number of averagers that light passes one after the other."""
    assumed: int
    """Constants behind the figures that are assumptions."""

    @property
    def total(self) -> float:
        """Watts that all parts draw together."""
        return sum(self.watts.values())


def capacity(averaging: Averaging, servers: int, bandwidth: float) -> Capacity:
    """Return the instances of a reducer that carry a bandwidth, with the watts of all of them together by part, the
    latency of one in seconds, the area of all meshes in square metres (0 without meshes) and the limits that are
    exceeded.

    The watts come with their range in 90 % of 100 draws of the constants, whose upper end is None where no light
    suffices there.

    Args:
        averaging: names the reducer, one of ``lightloom onn build --reducers``, and states bits, wavelengths,
            constants, symbol rate (None for 50 GBd) and, for networks alone, the ports of one averager (``servers``).
        servers: number of servers.
        bandwidth: bytes per second that a server sends, and gets back as means.

    Raises:
        UnknownNameError: there is no reducer or constant of a name.
        UnsupportedError: there is no such network, or no light suffices for so many servers.
        ConfigError: an argument is out of range, or wavelengths do not fit beside each other on a mesh.
    """
    reducer, bits, wavelengths = str(averaging.reducer), averaging.bits, averaging.wavelengths
    symbol_rate = averaging.symbol_rate or SYMBOL_RATE
    if reducer not in RIVALS:
        raise UnknownNameError("reducer", reducer, RIVALS)
    network = reducer == NETWORK
    setting = Setting(servers=servers, bits=bits, symbol_rate=symbol_rate, ports=averaging.servers if network else None)
    if wavelengths > 1:
        _check_wavelengths(reducer, setting, wavelengths)
    chosen = constants(averaging.constants)
    rival = RIVALS[reducer](setting, nominal(chosen))
    if rival.energy_per_bit == float("inf"):
        raise UnsupportedError(f"{reducer} for {servers} servers: {'; '.join(rival.limits)}")
    count = instances_for(bandwidth, bits, symbol_rate)
    meshes = ceil(count / wavelengths) if network else 0
    draws = [_watts(RIVALS[reducer](setting, values), setting, count, wavelengths) for values in drawn(chosen, _DRAWS)]
    totals = np.sort([sum(watts.values()) for watts in draws])
    return Capacity(
        reducer=reducer,
        instances=count,
        meshes=meshes,
        instance_bandwidth=instance_bandwidth(bits, symbol_rate),
        lanes=count * rival.lanes,
        watts=_watts(rival, setting, count, wavelengths),
        low=float(totals[_DRAWS // 20]),
        high=float(totals[-1 - _DRAWS // 20]) if np.isfinite(totals[-1 - _DRAWS // 20]) else None,
        latency=rival.total_latency,
        levels=network_design(servers, bits, setting.ports).levels if network else 1,
        area=meshes * rival.area,
        limits=rival.limits,
        needs=rival.needs,
        assumed=sum(constant.assumed for constant in chosen.values()),
    )


def _check_wavelengths(reducer: str, setting: Setting, wavelengths: int) -> None:
    """Raise ConfigError unless the reducer is the network, the only one with meshes to share, and so many wavelengths,
    100 GHz apart, can share one mesh for the servers, bits and ports of the setting.

    Raises:
        ConfigError: the reducer has no mesh, or fewer fit within the window of wavelengths in which the network's means
            are right.
    """
    if reducer != NETWORK:
        raise ConfigError(f"wavelengths = {wavelengths}: expected 1, since {reducer} has no mesh that they could share")
    most = most_wavelengths(setting.servers, setting.bits, setting.ports)
    if wavelengths > most:
        raise ConfigError(
            f"wavelengths = {wavelengths}: expected at most {most}, {SPACING / 1e9:g} GHz apart, since couplers and "
            "heaters of one mesh err beyond"
        )


def _watts(rival: Rival, setting: Setting, instances: int, wavelengths: int) -> dict[str, float]:
    """Return the watts of all instances of a reducer by part, such as ``lasers``, for all servers: the rival's joules
    per bit times the bits per second that all servers send through one instance, times the instances; the heaters of a
    mesh count once for all ``wavelengths`` instances that share it."""
    watts = {part: joules * setting.sent * instances for part, joules in rival.energy.items()}
    if "heaters" in watts:
        watts["heaters"] *= ceil(instances / wavelengths) / instances
    return watts
