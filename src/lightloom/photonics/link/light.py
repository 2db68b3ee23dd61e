"""Light and gain of a link in watts and dB: lasers, oscillators, carriers, and the largest power anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lightloom.photonics.link.chip import Chip
from lightloom.photonics.link.settings import Link
from lightloom.photonics.link.sources import AMPLIFIER_LIMIT
from lightloom.photonics.meshes.mapping import decibels
from lightloom.photonics.nonlinear import LimitingHomodyne


@dataclass(frozen=True, slots=True, kw_only=True)
class Light:
    """Optical powers of one averager, in watts."""

    lane: float
    """A server's lane at full scale, at P."""
    laser_per_lane: float
    """Laser of that lane, before the path's loss."""
    server_lasers: float
    """Lasers of all lanes of all servers."""
    oscillators: float
    """Local oscillators of all detectors on the chip."""
    carriers: float
    """Carriers of the modulators on the chip; with optical gain the power that amplifiers emit is not counted."""
    peaks: Mapping[str, float]
    """Largest power of a signal by place."""
    largest_gain_db: float
    """Largest gain of a row, in dB."""
    levels_raised_db: float
    """Largest power that calibration of levels adds to a lane or a unit's output, in dB."""

    @property
    def peak(self) -> tuple[str, float]:
        """Place and power of the largest signal, and the oscillators' power where it is larger."""
        place = max(self.peaks, key=lambda name: self.peaks[name])
        return place, self.peaks[place]

    @property
    def beyond_amplifiers(self) -> list[str]:
        """Places where more power is wanted than an optical amplifier emits."""
        return [place for place, power in self.peaks.items() if "amplifiers" in place and power > AMPLIFIER_LIMIT]

    def to_json(self) -> dict[str, object]:
        """Return the powers of lasers, lanes and oscillators and the largest one of a signal, in watts."""
        place, power = self.peak
        return {
            "full_scale_at_lane_watts": self.lane,
            "laser_per_server_lane_watts": self.laser_per_lane,
            "server_lasers_watts": self.server_lasers,
            "oscillators_watts": self.oscillators,
            "carriers_watts": self.carriers,
            "peak_watts": power,
            "peak_place": place,
            "peaks_watts": dict(self.peaks),
            "largest_gain_db": self.largest_gain_db,
            "levels_raised_db": self.levels_raised_db,
            "beyond_optical_amplifiers": self.beyond_amplifiers,
        }


def light(chip: Chip, link: Link, peaks: Mapping[str, float], raised: float = 1.0) -> Light:
    """Return the powers of a link, for signals of relative ``peaks``.

    Where calibration sets levels, lanes and carriers have up to ``raised`` times the power that the design gives them.
    """
    lane = link.full_scale * chip.lane_share * raised
    laser = lane * 10 ** (link.path_loss_db / 10)
    hidden = sum(len(units.decides) for units in chip.units)
    outputs = len(chip.layers[-1].gains) if link.gain == "electrical" else 0
    limiting = link.unit == "limiting"
    decided = sum(int(units.decides.sum()) for units in chip.units) if limiting else hidden + outputs
    kept = LimitingHomodyne(full_scale=link.full_scale, swing=link.swing if limiting else math.pi / 2)
    carriers = raised * (decided * link.full_scale + (hidden + outputs - decided) * kept.carrier)
    return Light(
        lane=lane,
        laser_per_lane=laser,
        server_lasers=laser * chip.mapped.preprocessing.shape[1],
        oscillators=(hidden + outputs) * link.local_oscillator,
        carriers=carriers,
        peaks={place: power * link.full_scale for place, power in peaks.items()},
        largest_gain_db=decibels(chip.mapped.gain),
        levels_raised_db=10 * math.log10(raised),
    )
