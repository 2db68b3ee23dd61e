"""Words through a link of two layers whose numbers are worked out by hand, noise of lasers and detectors included."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.core.arrays import Float32s
from lightloom.photonics.link import simulate
from lightloom.photonics.link.settings import OPTIONS, Link, ideal, read_options, read_value, show_value, sources
from lightloom.photonics.link.simulate import Calibrated, FabricatedLayer, FabricatedLink, calibrated_chip
from lightloom.photonics.link.word_errors import bootstrap, clopper_pearson, interval


def column(*values: float) -> Float32s:
    return np.array(values, np.float32)[:, None]


class Ones:
    """A generator that draws 1 each time."""

    def standard_normal(self, shape: tuple[int, ...], _: object) -> Float32s:
        return np.ones(shape, np.float32)


class Seen:
    """Units that pass on what they are given, and keep it."""

    def __init__(self) -> None:
        self.arguments: list[list[float]] = []

    def transfer(self, arguments: Float32s, _: Link) -> Float32s:
        self.arguments.append(arguments.ravel().tolist())
        return arguments.copy()


def layer(weight: float, bias: float, noise: float, gain: float) -> FabricatedLayer:
    return FabricatedLayer(
        matrix=column(weight), biases=column(bias), noise=column(noise), inverse_gains=column(1 / gain)
    )


def link_of(link: Link, layers: list[FabricatedLayer], seen: Seen) -> Any:
    made: Any = FabricatedLink.__new__(FabricatedLink)
    mapped = SimpleNamespace(arguments=SimpleNamespace(bits=4))
    chip: Any = SimpleNamespace(mapped=mapped, lane_share=0.25, units=[seen], output_scale=0.5)
    made.chip, made.link, made.layers, made.peaks, made.senders = chip, link, layers, {}, None
    made.lane_levels, made.exit, made.exit_noise = column(2.0), column(1.0, -1.0), column(0.0, 0.0)
    made.thresholds = np.array([[0.5, 1.5, 2.5], [0.5, 1.5, 2.5]], np.float32)
    return made


@pytest.fixture
def one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane whose field is 0.5, and lasers that are 2, 3, ... times as strong as they should be."""
    strengths = iter((2.0, 3.0, 5.0))
    monkeypatch.setattr(simulate, "modulate", lambda codes, *_: np.full((1, 1, codes.shape[1]), 0.5, np.float32))
    monkeypatch.setattr(simulate, "laser_noise", lambda _, shape, __: np.full(shape, next(strengths), np.float32))
    monkeypatch.setattr(simulate, "sent_on", lambda signals, _: signals + 100)


LAYERS = [layer(2.0, 0.25, 0.0, 4.0), layer(0.5, 0.1, 0.0, 0.1)]


def test_the_chips_laser_feeds_biases_and_oscillators_and_carriers_behind_the_first_layer(one_lane: None) -> None:
    """Layer 1: (2 · 0.5 + 0.25 · 2) · 2 = 3, as lanes have lasers of their own; 2: (0.5 · 3 · 3 + 0.1 · 3) · 3."""
    seen = Seen()
    made = link_of(Link(rin_db=-120.0, gain="optical"), LAYERS, seen)
    fields: list[Any] = []

    def decided(signals: Float32s, shape: tuple[int, int], _: object) -> Float32s:
        fields.append((signals.tolist(), shape))
        return np.zeros(shape, np.float32)

    made._decided = decided
    made.receive(np.zeros((1, 1), np.int64), Ones())
    assert seen.arguments == [[3.0]] and fields == [([[pytest.approx(14.4)]], (1, 1))]
    # Fields before lasers' noise: 2 · 0.5 over a gain of 4, and 0.5 · 3 over 0.1; amplifiers with and without biases.
    assert made.peaks == pytest.approx(
        {
            "server lanes at P": (2 * 0.5 * 0.5) ** 2,
            "meshes": 15.0**2,
            "amplifiers, bias subtracted behind them": 1.5**2,
            "amplifiers, bias subtracted before them": 1.6**2,
        }
    )


def test_quiet_lasers_leave_sums_and_biases_and_detectors_add_their_noise(one_lane: None) -> None:
    """2 · 0.5 + 0.25 + 0.125 of noise, then half of that and 0.1; modulators send that on where units detect."""
    seen = Seen()
    made = link_of(Link(rin_db=None), [layer(2.0, 0.25, 0.125, 1.0), LAYERS[1]], seen)
    fields: list[float] = []

    def decided(signals: Float32s, shape: tuple[int, int], _: object) -> Float32s:
        fields.append(float(signals[0, 0]))
        return np.zeros(shape, np.float32)

    made._decided = decided
    made.receive(np.zeros((1, 1), np.int64), Ones())
    assert seen.arguments == [[1.375]] and fields == [pytest.approx(100 + 1.375 / 2 + 0.1)]
    assert set(made.peaks) == {"server lanes at P", "meshes"}


def test_receivers_scale_by_the_output_and_read_digits_most_significant_first() -> None:
    """Fields 3, 2 and 6 at half a level each: levels 1.5, 1.0 and 3.0, and -1.5, ... at the lane with a turned sign."""
    made = link_of(ideal(Link()), [], Seen())
    fields = np.array([[3.1, 2.0, 6.0]], np.float32)
    rng: Any = Ones()
    assert made._decided(fields, (1, 3), rng).tolist() == [[4 * 2, 4 * 1, 4 * 3]]
    assert made._decided(-fields, (1, 3), rng).tolist() == [[2, 1, 3]]
    assert made._decided(fields, (2, 3), rng).tolist() == [[2, 1, 3], [0, 0, 0]]
    made.exit_noise = column(3.0, 0.0)
    assert made._decided(fields, (1, 3), rng).tolist() == [[4 * 3, 4 * 2, 4 * 3]]
    made.exit_noise = column(1.0, 9.0)
    assert made._decided(fields, (1, 3), rng).tolist() == [[4 * 2 + 3, 4 * 1 + 3, 4 * 3 + 1]]


def test_levels_of_the_last_layer_and_of_what_divides_are_set_together_where_light_goes_on() -> None:
    """Loss of 0.8 in the last layer and of 0.5 behind it: with optical gain one product is set, which is right then."""
    rng = np.random.default_rng(3)
    last, split = rng.uniform(0.5, 1.5, (2, 3)), rng.uniform(0.5, 1.5, (4, 2))
    passive = [0.8 * last.astype(complex), split * np.array([[0.5], [0.6], [0.7], [0.8]]).astype(complex)]
    designed = [np.ones(2), np.array([1.0, 1.0, 1.0, 1.0])]
    nothing: Any = [None, None]
    for gain in ("optical", "electrical"):
        made = calibrated_chip(passive, [last, split], designed, nothing, Link(gain=gain, calibration="levels"))
        first, behind = made
        assert isinstance(first, Calibrated) and (behind.levels == 1).all() == (gain == "optical")
        whole = (
            behind.gains[:, None] * (passive[1] * behind.levels) @ (first.gains[:, None] * passive[0] * first.levels)
        )
        assert whole == pytest.approx(split @ last, rel=1e-6) and behind.gains == pytest.approx(
            behind.gains[0] * 0.5 / np.array([0.5, 0.6, 0.7, 0.8])
        )


def test_intervals_of_shares_are_those_of_the_binomial_distribution() -> None:
    """None of n wrong: at most 1 - 0.025^(1/n); all: mirrored; 1 of 2: P(X >= 1) = 0.025 at the lower end."""
    low, high = clopper_pearson(0, 10)
    assert low == 0.0 and high == pytest.approx(1 - 0.025 ** (1 / 10))
    low, high = clopper_pearson(10, 10)
    assert low == pytest.approx(0.025 ** (1 / 10)) and high == 1.0
    low, high = clopper_pearson(1, 2, 0.9)
    assert 1 - (1 - low) ** 2 == pytest.approx(0.05) and 1 - high**2 == pytest.approx(0.05)
    rates = np.array([0.0, 0.0, 0.0, 1.0])
    low, high = bootstrap(rates, 0.5)
    assert bootstrap(rates, 0.5) == (low, high) and (low, high) == (0.0, 0.5)
    assert interval(np.array([3]), 100) == clopper_pearson(3, 100)
    assert interval(np.array([0, 0]), 50) == clopper_pearson(0, 100)


@pytest.mark.parametrize(
    ("name", "text", "value", "shown"),
    [
        ("full-scale", "0dBm", 1e-3, "1 mW (0.00 dBm)"),
        ("full-scale", " 3 mW ", 3e-3, "3 mW (4.77 dBm)"),
        ("phase-lock", "20 mrad", 0.02, "0.02 rad"),
        ("power-error", "2%", 0.02, "2 %"),
        ("power-error", "0.02", 0.02, "2 %"),
        ("skew", "0.1 T", 0.1, "0.1 symbols"),
        ("rin", "-140dBc/Hz", -140.0, "-140 dB/Hz"),
        ("detector-bandwidth", "35000 MHz", 35e9, "35 GHz"),
        ("noise-density", "10pA/√Hz", 1e-11, "10 pA/√Hz"),
        ("responsivity", "0.8A/W", 0.8, "0.8 A/W"),
        ("dac-bits", "6 bits", 6, "6 bits"),
        ("gain", "optical", "optical", "optical"),
        ("rin", "none", None, "none"),
    ],
)
def test_options_are_read_in_their_units_and_shown_in_the_usual_one(
    name: str, text: str, value: object, shown: str
) -> None:
    link = read_options({name: text})
    field = field_of(name)
    found = getattr(link, field)
    assert found == (pytest.approx(value) if isinstance(value, float) else value)
    assert show_value(name, found) == shown
    changed = found != getattr(Link(), field)
    assert (sources(link)[name] == "given") == changed


def field_of(name: str) -> str:
    return {"rin": "rin_db"}.get(name, name.replace("-", "_"))


class Draws:
    """A generator whose Gaussian draws are those that were written down, in turn."""

    def __init__(self, *draws: object) -> None:
        self.draws = [np.array(each, float) for each in draws]

    def normal(self, *, size: int | tuple[int, ...]) -> Any:
        drawn = self.draws.pop(0)
        assert drawn.shape == ((size,) if isinstance(size, int) else tuple(size))
        return drawn


@pytest.mark.parametrize("gain", ["electrical", "optical"])
def test_receivers_have_the_gains_that_are_set_with_errors_and_thresholds_between_levels(gain: Any) -> None:
    """Two lanes of one signal; gains of 2 and 4 that err by 1 % and -2 %, and errors of thresholds of 0.1 levels."""
    link = Link(gain=gain, gain_error=0.01, threshold_error=0.1, path_loss_db=10.0)
    made: Any = FabricatedLink.__new__(FabricatedLink)
    made.link, made.chip = link, SimpleNamespace(output_scale=3.0)
    made.stream = lambda _: Draws([1.0, -2.0], np.ones((2, 3)))
    setting = Calibrated(np.array([2.0, 4.0]), np.array([0.1, -0.2]), np.array([0.5]))
    made._draw_receivers(np.array([[1 + 2j], [3 - 1j]]), setting)
    real, imaginary = [[1.01], [1.96 * 3]], [[-2.02], [1.96]]
    assert made.exit == pytest.approx(np.concatenate([real, imaginary] if gain == "optical" else [real], axis=1))
    assert made.exit_noise == pytest.approx(simulate.homodyne_noise(link, 10.0) * np.array([[2.0], [4.0]]))
    levels = np.array([0.6, 1.6, 2.6])
    assert made.thresholds == pytest.approx(np.stack([levels - 0.3, levels + 0.6]))


@pytest.mark.parametrize(
    ("index", "gain", "rows"),
    [
        (0, "electrical", [[1.01, 0, -2.02, -3.03], [0, 0, 0, 0]]),
        (1, "electrical", [[1.01, 0], [0, 0]]),
        (0, "optical", [[1.01, 0, -2.02, -3.03], [0, 0, 0, 0]]),
        (1, "optical", [[1.01, 0], [0, 0], [2.02, 3.03], [0, 0]]),
    ],
)
def test_layers_have_the_gains_and_biases_that_are_set_with_errors_and_noise(
    monkeypatch: pytest.MonkeyPatch, index: int, gain: Any, rows: list[list[float]]
) -> None:
    """Gains of 2 and 0, and inputs at 0.5 and 1 of their levels; light that goes on has an imaginary part below."""
    link = Link(gain=gain, gain_error=0.01, bias_error=0.02)
    made: Any = FabricatedLink.__new__(FabricatedLink)
    mapped = SimpleNamespace(network=None, layers=SimpleNamespace(matrices=[None, None]))
    made.link, made.chip = link, SimpleNamespace(mapped=mapped)
    made.stream = lambda name: Draws([[1.0, 5.0], [2.0, 3.0]]) if name == f"layer {index}" else None
    monkeypatch.setattr(simulate, "light_biases", lambda _: [np.array([0.5, 0.25])] * 2)
    monkeypatch.setattr(simulate, "emitted_noise", lambda _, gains: 3.0 + gains)
    monkeypatch.setattr(simulate, "homodyne_noise", lambda _: 12.0)
    setting = Calibrated(np.array([2.0, 0.0]), np.array([0.1, -0.05]), np.array([0.5, 1.0]))
    layer = made._layer(index, np.array([[1 + 2j, 1.5j], [7 + 7j, 7j]]), setting)
    assert layer.matrix == pytest.approx(np.array(rows))
    goes_on = index == 1 and gain == "optical"
    biases = [0.6 * 1.04, 0.2 * 1.06, *([0.0, 0.0] if goes_on else [])]
    assert layer.biases == pytest.approx(np.array(biases)[:, None])
    # Units detect: 12 behind each gain, or beside what amplifiers of gain 2 and 0 emit; what goes on has that alone.
    noise = {"electrical": [24.0, 0.0], "optical": [13.0, 153**0.5]}[gain]
    assert layer.noise == pytest.approx(np.array([5.0, 3.0] * 2 if goes_on else noise)[:, None])
    assert layer.inverse_gains == pytest.approx(np.array([0.5, 1.0] * (2 if goes_on else 1))[:, None])


def test_lanes_that_arrive_in_time_stand_beside_those_that_do_not() -> None:
    senders = simulate.Senders(np.ones((2, 1)), np.array([[0.5], [0.0]]))
    lanes = simulate.modulate(np.array([[3, 0, 0], [0, 3, 0]]), 2, ideal(Link()), senders, np.random.default_rng(0))
    assert lanes[0].round(6).tolist() == [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]


def test_peaks_are_the_largest_squares_so_far_and_0_of_no_words() -> None:
    made = link_of(ideal(Link()), [], Seen())
    made._note_peak("x", np.zeros((2, 0), np.float32))
    assert made.peaks == {"x": 0.0}
    for amplitudes, peak in (([0.5, -3.0], 9.0), ([2.0, 1.0], 9.0), ([4.0], 16.0)):
        made._note_peak("x", np.array(amplitudes, np.float32))
        assert made.peaks == {"x": peak}


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.unit != "name"])
def test_a_bare_number_is_in_the_unit_of_its_option(name: str) -> None:
    assert read_value(name, "3") == 3
    if OPTIONS[name].unit not in ("share", "W"):
        assert read_value(name, f"3 {OPTIONS[name].unit}") == 3
