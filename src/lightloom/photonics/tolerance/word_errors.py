"""Wrong words of fabricated averagers, by batches of fabrications and words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lightloom.core.arrays import Floats, Ints
from lightloom.photonics.averaging.averagers import IdealAverager
from lightloom.photonics.averaging.fabrication import Calibration
from lightloom.photonics.averaging.mapped_averager import MappedAverager
from lightloom.photonics.averaging.realised.light import light_units
from lightloom.photonics.devices import NonIdealities
from lightloom.photonics.link.sender import digits
from lightloom.photonics.link.word_errors import WrongWords
from lightloom.photonics.link.words import draw_words
from lightloom.photonics.meshes.correction import corrected
from lightloom.photonics.meshes.disturb import Disturbed
from lightloom.photonics.meshes.montecarlo import Evaluate
from lightloom.photonics.pam4 import LEVELS
from lightloom.photonics.tolerance.fabricated import Amplifiers, FabricatedAveragers, averagers_of, fabricate_averagers

_FABRICATIONS_AT_ONCE = 20
_WORDS_AT_ONCE = 1 << 13
_SIGNALS_AT_ONCE = 1 << 18
"""Signals of a layer that are held at once: they stay in the cache."""


def count_wrong_words(
    mapped: MappedAverager,
    devices: NonIdealities,
    amplifiers: Amplifiers | None,
    *,
    fabrications: int,
    words: int,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> WrongWords:
    """Fabricate an averager many times, and average words on each, P and T included.

    Half of the words are near-equal (`link.words`). Noise of amplifiers is drawn for every word; None has none.
    """
    rng = np.random.default_rng((seed, fabrications, words))
    wrong = []
    for start in range(0, fabrications, _FABRICATIONS_AT_ONCE):
        count = min(_FABRICATIONS_AT_ONCE, fabrications - start)
        batch = fabricate_averagers(mapped, devices, rng, count)
        noise = [None if amplifiers is None else amplifiers.noise(gains)[..., None] for gains in batch.gains]
        largest = max(batch.last.shape[1], *mapped.network.layers)
        step = max(1, _SIGNALS_AT_ONCE // (count * largest))
        total = np.zeros(count, np.int64)
        for at in range(0, words, step):
            total += wrong_words(batch, noise, min(step, words - at), rng)
        wrong.append(total)
        advance(count)
    return WrongWords(wrong=np.concatenate(wrong), words=words)


def words_right(
    mapped: MappedAverager, *, words: int, calibration: Calibration = "rows", correct: bool = False
) -> Evaluate:
    """Return the evaluation of the share of words that all servers receive right, for `meshes.monte_carlo`.

    It takes one fabrication of P, every layer and T. Units and receivers detect with the detector noise of the devices.
    """

    def evaluate(disturbed: Sequence[Disturbed], rng: np.random.Generator) -> float:
        devices = [corrected(device, real=True) if correct else device for device in disturbed]
        batch = averagers_of(mapped, [device.matrix()[None] for device in devices], calibration)
        detected = disturbed[0].non_idealities.detector_noise
        scales, units = mapped.network.full_scale[1:-1], light_units(mapped.network)[1:]
        noise: list[Floats | None] = [None] * len(batch.gains)
        if detected:
            pairs = zip(scales, units, strict=False)
            noise[:-1] = [np.asarray(detected * (scale / unit)[:, None], np.float64) for scale, unit in pairs]
        wrong = sum(
            int(wrong_words(batch, noise, min(_WORDS_AT_ONCE, words - at), rng, detected).sum())
            for at in range(0, words, _WORDS_AT_ONCE)
        )
        return 1 - wrong / words

    return evaluate


def wrong_words(
    batch: FabricatedAveragers,
    noise: Sequence[Floats | None],
    words: int,
    rng: np.random.Generator,
    receivers: float = 0.0,
) -> Ints:
    """Return the number of wrong ones of ``words`` words on every fabrication.

    Args:
        batch: the fabrications.
        noise: standard deviations of the noise behind every layer, relative to full scale; None has none.
        words: words on each of them.
        rng: generator of words and noise.
        receivers: noise of the receivers, relative to full scale.
    """
    arguments = batch.mapped.arguments
    codes = draw_words(arguments.servers, arguments.bits, batch.count * words, rng)
    expected = IdealAverager(arguments.servers, arguments.bits, arguments.rounding)(codes)
    received = received_levels(batch, codes.reshape(-1, batch.count, words).swapaxes(0, 1), noise, rng, receivers)
    right = digits(expected.reshape(batch.count, words), arguments.bits)
    return np.asarray((received != right[:, None]).any(axis=(1, 2)).sum(axis=1))


def received_levels(
    batch: FabricatedAveragers,
    codes: Ints,
    noise: Sequence[Floats | None],
    rng: np.random.Generator,
    receivers: float = 0.0,
) -> Ints:
    """Return the levels that servers decide, [count, servers, signals, words], for codes [count, servers, words]."""
    fields = digits(codes, batch.mapped.arguments.bits).astype(np.float64) / (LEVELS - 1)
    fields = fields.reshape(batch.count, -1, codes.shape[-1])
    network, units = batch.mapped.network, light_units(batch.mapped.network)
    for matrices, bias, sigma, unit in zip(batch.hidden, batch.biases, noise, units[1:], strict=False):
        fields = matrices @ fields
        fields += bias[:, None]
        _add_noise(fields, sigma, rng)
        np.maximum(fields, 0.0, out=fields)
        if network.nonlinearity == "clipped":
            np.minimum(fields, 1.0 / unit, out=fields)
    added = np.broadcast_to(batch.biases[-1][:, None], (batch.count, batch.biases[-1].size, fields.shape[2])).copy()
    _add_noise(added, noise[-1], rng)
    servers = batch.mapped.arguments.servers
    outputs = (batch.last @ fields + batch.splitting @ added) * (np.sqrt(servers) * units[-1])
    _add_noise(outputs, (LEVELS - 1) * receivers if receivers else None, rng)
    np.rint(outputs, out=outputs)
    levels = np.clip(outputs, 0, LEVELS - 1, out=outputs).astype(np.int64)
    return np.asarray(levels.reshape(batch.count, servers, -1, fields.shape[2]))


def _add_noise(fields: Floats, sigma: Floats | float | None, rng: np.random.Generator) -> None:
    if sigma is not None:
        fields += sigma * rng.standard_normal(fields.shape, dtype=np.float32)
