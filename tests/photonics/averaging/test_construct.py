"""Every construction computes its function: by its proof, and on the whole grid."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.core.errors import InputError, UnsupportedError, VerificationError
from lightloom.photonics.averaging.circuits import lsb_ripple
from lightloom.photonics.averaging.compiler import Realisation, realise
from lightloom.photonics.averaging.construct import (
    Construction,
    build,
    candidates,
    circuits,
    recognise,
    sturdy_circuits,
)
from lightloom.photonics.averaging.function import AveragingFunction
from lightloom.photonics.averaging.networks import LayeredNetwork, Nonlinearity
from lightloom.photonics.averaging.proof import check_digits, input_bound, prove, verify
from tests.photonics.averaging.strategies import small_functions

SCENARIOS = [(8, 4), (8, 8), (8, 16), (16, 4)]
KINDS: list[Nonlinearity] = ["relu", "clipped"]


@settings(max_examples=6, deadline=None)
@given(small_functions, st.sampled_from(KINDS))
def test_what_is_proved_is_right_everywhere(function: AveragingFunction, kind: Nonlinearity) -> None:
    proved = [c for c in candidates(function, kind) if c.proof.float64]
    assert proved
    for construction in proved[:: max(1, len(proved) // 3)]:
        result = construction.verify()
        assert result.exhaustive
        assert result.checked_inputs == function.points
        assert result.wrong_outputs == 0, construction.name


@settings(max_examples=6, deadline=None)
@given(small_functions)
def test_every_circuit_keeps_its_laws(function: AveragingFunction) -> None:
    """The bits of each floor are what the proof takes them for, seen in the network's own signals."""
    points = next(function.grid(500))
    for _, circuit in circuits(function):
        realised = realise(circuit, function, Realisation(bounded=True))
        signals = realised.network.signals(function.light(points))
        for layer, gadgets in enumerate(realised.layers[1:-1], 1):
            for gadget, signal in zip(gadgets, signals[layer], strict=True):
                if gadget.ramp is not None:
                    assert np.abs(signal - np.rint(signal)).max() < 1e-3


@pytest.mark.parametrize(
    "servers", [1, 2, 3, 8, 100, *(pytest.param(n, marks=pytest.mark.slow) for n in (6, 64, 1024))]
)
@pytest.mark.parametrize("bits", [1, 4, 7, 8])
def test_every_form_is_proved_in_integers(bits: int, servers: int) -> None:
    """More digits of servers than of the code, odd widths, one server: it holds before there are weights."""
    for rounding in ("floor", "half-up"):
        function = AveragingFunction.of(servers, bits, rounding=rounding)
        for _, circuit in circuits(function):
            circuit.check_floors()
            assert check_digits(circuit, function) > 0


@pytest.mark.parametrize(
    ("bits", "servers"),
    [
        (8, 2),
        (16, 3),
        (32, 1024),
        *(pytest.param(bits, n, marks=pytest.mark.slow) for bits, n in ((8, 1000), (16, 1024))),
    ],
)
def test_proofs_and_hard_points_for_many_servers(bits: int, servers: int) -> None:
    construction = build(servers, bits, nonlinearity="clipped")
    assert construction.proof.float64 and construction.proof.float64_error < 0.5
    result = verify(construction.network, construction.function, samples=5_000, exhaustive=False)
    assert result.wrong_outputs == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [8, 12, 16, 32])
@pytest.mark.parametrize(
    "servers", [2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 48, 64, 100, 128, 255, 256, 512, 1000, 1023, 1024]
)
def test_proofs_and_a_million_hard_points(bits: int, servers: int, kind: Nonlinearity) -> None:
    construction = build(servers, bits, nonlinearity=kind)
    result = verify(construction.network, construction.function, samples=1_000_000, exhaustive=False)
    assert result.wrong_outputs == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("bits", "servers"), SCENARIOS)
def test_the_papers_scenarios_on_their_full_grids(bits: int, servers: int, kind: Nonlinearity) -> None:
    function = AveragingFunction.of(servers, bits)
    picked = {c.name: c for c in candidates(function, kind) if c.proof.float64 and c.mzi_count < 2500}
    for name in list(picked)[:6]:
        result = picked[name].verify()
        assert (result.exhaustive, result.checked_inputs, result.wrong_outputs) == (True, function.points, 0), name


def test_a_network_written_for_many_ports_serves_fewer_servers() -> None:
    """Most significant first: with P rescaled to the servers that are there, nothing else changes."""
    network = build(6, 8).network
    for servers in range(1, 7):
        assert verify(network, AveragingFunction.of(servers, 8)).wrong_outputs == 0


def test_build_takes_the_smallest_that_bears_the_noise() -> None:
    noise = 2e-2
    plain = build(2, 2, nonlinearity="clipped")
    sturdy = build(2, 2, noise=noise, nonlinearity="clipped")
    assert plain.mzi_count < sturdy.mzi_count
    assert not plain.tolerates(noise)
    assert sturdy.tolerates(noise)


def picked(name: str, kind: Nonlinearity, bits: int = 8, servers: int = 4) -> Construction:
    return {c.name: c for c in candidates(AveragingFunction.of(servers, bits), kind)}[name]


@pytest.mark.slow
def test_noise_limits_of_the_papers_first_scenario() -> None:
    """2 % of the paper's approximated network are 833 interferometers; docs/photonics/averaging.md has all."""
    sturdy = picked("lsb-ripple, 2 copies", "clipped")
    assert sturdy.mzi_count == 340
    assert sturdy.noise_limit() == pytest.approx(5.4e-3, rel=0.1)
    assert picked("lsb-ripple, regenerated", "relu").noise_limit() == pytest.approx(3.15e-3, rel=0.1)
    assert picked("msb-first", "relu").noise_limit() < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_the_proved_tolerance_holds_against_the_worst_signs(kind: Nonlinearity) -> None:
    construction = picked("lsb-ripple" if kind == "clipped" else "lsb-ripple, regenerated", kind)
    function, network = construction.function, construction.network
    points = next(function.grid(2000))
    tau, rng = construction.proof.tolerance * 0.999, np.random.default_rng(0)
    for _ in range(3):
        signal = function.light(points)
        for layer, scale in enumerate(network.full_scale):
            if layer:
                signal = network.weights[layer - 1] @ signal + network.biases[layer - 1][:, None]
                if layer < len(network.weights):
                    signal = np.clip(signal, 0, 1 if kind == "clipped" else None)
            signal = signal + tau * scale[:, None] * rng.choice([-1.0, 1.0], signal.shape)
        assert (function.decide(signal) == function.expected(points)).all()


def test_json_is_complete() -> None:
    construction = build(4, 8)
    printed = json.loads(json.dumps(construction.to_json(4, 8, construction.verify(), 1e-7)))
    assert printed["wrong_outputs"] == 0
    assert printed["checked_inputs"] == 28_561
    assert printed["layers"][0] == printed["layers"][-1] == 4
    assert printed["mzi_count_of_p_and_t"] == 272


def test_altered_weights_are_caught() -> None:
    construction = build(4, 8)
    network = construction.network
    weights = [w.copy() for w in network.weights]
    weights[1][0, 0] *= 1.5
    altered = replace(network, weights=tuple(weights))
    assert verify(altered, construction.function).wrong_outputs > 0
    assert not network.same_weights(altered) and network.same_weights(replace(altered, weights=network.weights))


def test_a_circuit_of_another_function_is_not_proved() -> None:
    four, sixteen = AveragingFunction.of(4, 8), AveragingFunction.of(16, 8)
    realised = realise(lsb_ripple(four), four, Realisation())
    with pytest.raises(VerificationError):
        prove(realised, sixteen)
    half_up = AveragingFunction.of(4, 8, rounding="half-up")
    with pytest.raises(VerificationError):
        prove(realised, half_up)


def test_what_nothing_bears_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="noise on the inputs"):
        build(4, 8, noise=0.1)
    with pytest.raises(UnsupportedError, match="tolerates noise"):
        build(2, 2, noise=0.999 * input_bound(AveragingFunction.of(2, 2)))
    with pytest.raises(InputError, match="share of full scale"):
        build(4, 8, noise=-1)
    with pytest.raises(InputError, match="nonlinearity"):
        build(4, 8, nonlinearity="tanh")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="power of two"):
        lsb_ripple(AveragingFunction.of(3, 8))


def test_nan_weights_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(InputError, match="layer 2: a weight or bias is NaN"):
        LayeredNetwork.of([np.eye(4), np.full((4, 4), np.nan)])
    with pytest.raises(InputError, match="layer 2: weights"):
        LayeredNetwork.of([np.eye(4), np.ones((4, 5))])
    with pytest.raises(InputError, match="inputs of shape"):
        LayeredNetwork.of([np.eye(4)])(np.ones((3, 1)))
    with pytest.raises(InputError, match="expected one of each"):
        LayeredNetwork.of([])


def test_a_construction_says_its_name() -> None:
    names = {c.name for c in candidates(AveragingFunction.of(8, 8), "clipped")}
    assert {"msb-first", "lsb-ripple", "long-division", "lsb-ripple, carry-save, 2 copies"} <= names
    assert all(isinstance(c, Construction) for c in candidates(AveragingFunction.of(3, 8)))


@pytest.mark.parametrize(("servers", "bits"), [(2, 4), (4, 4), (8, 2), (16, 2)])
def test_decided_digits_are_exact_and_recognised(servers: int, bits: int) -> None:
    function = AveragingFunction.of(servers, bits)
    named = [(name, circuit) for name, circuit in sturdy_circuits(function) if "digits decided" in name]
    assert len(named) == 2
    for name, circuit in named:
        how = Realisation(bounded=True, window=Fraction(1, 16), copies=2)
        construction = Construction(name, function, realise(circuit, function, how))
        assert construction.proof.float64
        assert construction.verify().wrong_outputs == 0
    known = recognise(construction.network, function)
    assert known is not None and known.realised.realisation == how
