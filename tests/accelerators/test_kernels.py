"""Kernels by shape: laws of the prices of products, attention and element-wise work; where the numbers come from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.machines.accelerators.accelerator import Accelerator, Work
from lightloom.machines.accelerators.kernels import (
    LOSS_BYTES,
    PRIORS,
    KernelKind,
    KernelModel,
    KernelShapes,
    Rates,
)
from lightloom.machines.accelerators.load import description, load_accelerator, names
from lightloom.machines.clusters.load import load_cluster

MODEL = KernelModel(compute_units=108)
RATES = Rates(peak=312e12, bandwidth=2e12)
MODELLED = [name for name in names() if (machine := load_accelerator(name)).kernels and not machine.calibration]
sizes = st.integers(1, 20_000).map(float)


def product(m: float, n: float, k: float, products: float = 1.0, model: KernelModel = MODEL) -> float:
    """Seconds of products."""
    rows, columns, depth, number = np.array([[m], [n], [k], [products]])
    return float(model.product_time(rows, columns, depth, number, RATES)[0])


def shapes(kind: KernelKind, m: float, n: float, k: float, products: float = 1.0, **changes: float) -> KernelShapes:
    """One operator's forward pass."""
    values = {"m": m, "n": n, "k": k, "products": products, "repeats": 1.0, "forward": 1.0}
    values |= {"input_gradient": 0.0, "weight_gradient": 0.0, **changes}
    visible = np.array([values.pop("visible", 1.0)])
    narrow, losses = (np.array([int(values.pop(name, 0))]) for name in ("narrow", "losses"))
    arrays = {name: np.array([[value]]) for name, value in values.items()}
    return KernelShapes(
        kind=np.array([int(kind)]), visible=visible, narrow=narrow, losses=losses, element_bytes=2, **arrays
    )


def seconds(kernels: KernelShapes, nbytes: float = 1.0, flops: float = 1.0, model: KernelModel = MODEL) -> float:
    """Seconds of one operator."""
    return float(model.operator_times(np.array([[nbytes]]), np.array([[flops]]), kernels, RATES)[0, 0])


@given(sizes, sizes, sizes, st.integers(1, 64).map(float))
def test_no_product_is_faster_than_the_reached_rate(m: float, n: float, k: float, products: float) -> None:
    assert product(m, n, k, products) >= 2 * m * n * k * products / (MODEL.gemm_fraction * RATES.peak)


@given(sizes, sizes, sizes)
def test_a_product_and_its_transpose_take_the_same(m: float, n: float, k: float) -> None:
    # All tiles but one come in both orientations.
    square = MODEL.model_copy(update={"compute_units": 1})
    one, other = product(m, n, k, model=square), product(n, m, k, model=square)
    assert one == pytest.approx(other, rel=0.5)


@given(sizes, sizes, sizes)
def test_deeper_products_take_longer_and_reach_more(m: float, n: float, k: float) -> None:
    one, other = product(m, n, k), product(m, n, 2 * k)
    assert one <= other <= 2 * one


def test_a_large_product_reaches_its_fraction_and_half_of_it_at_its_depth() -> None:
    m = n = 128 * 256 * 4.0
    for k, share in ((4e6, 1.0), (MODEL.gemm_depth, 0.5)):
        rate = 2 * m * n * k / product(m, n, k)
        assert rate == pytest.approx(share * MODEL.gemm_fraction * RATES.peak, rel=0.01)


def test_one_tile_more_than_a_wave_takes_another_wave() -> None:
    """Wave quantisation: 108 tiles of 256 x 128 are one wave on 108 units, 109 two."""
    wave, more = product(108 * 256.0, 128.0, 4096.0), product(109 * 256.0, 128.0, 4096.0)
    assert wave < more <= 2 * wave
    assert product(107 * 256.0, 128.0, 4096.0) == wave


def test_small_and_deep_products_are_cut_along_their_depth() -> None:
    """The gradient of a small convolution's weights: 64 x 64 x 200,704 would keep one unit of 108 busy."""
    whole = 2 * 128 * 256 * 200_704 / (MODEL.gemm_fraction * RATES.peak / 108)
    assert product(64.0, 64.0, 200_704.0) < whole / 50


def test_a_backward_pass_makes_both_gradients_as_products_of_their_own() -> None:
    m, n, k = 8192.0, 3072.0, 64.0
    both = shapes(KernelKind.PRODUCT, m, n, k, forward=0.0, input_gradient=1.0, weight_gradient=1.0)
    assert seconds(both) == pytest.approx(product(m, k, n) + product(k, n, m), rel=0.3)
    assert seconds(both) >= product(m, k, n) + product(k, n, m)
    assert seconds(both._replace(input_gradient=np.zeros((1, 1)))) < seconds(both)


def test_shallow_products_wait_for_memory() -> None:
    m = n = 16384.0
    matrices = 2 * (m * 8 + 8 * n + m * n)
    slow = RATES._replace(bandwidth=1e10)
    times = MODEL.operator_times(np.ones((1, 1)), np.ones((1, 1)), shapes(KernelKind.PRODUCT, m, n, 8.0), slow)
    assert times[0, 0] == pytest.approx(matrices / (MODEL.memory_fraction * 1e10))


def test_flash_attention_needs_its_visible_scores() -> None:
    whole = shapes(KernelKind.FLASH, 4096.0, 4096.0, 128.0, 64.0)
    flops = 4 * 64 * 4096 * 4096 * 128
    assert seconds(whole) == pytest.approx(flops / (MODEL.flash_forward * RATES.peak))
    for share in (0.5, 0.03):
        assert seconds(whole._replace(visible=np.array([share]))) == pytest.approx(share * seconds(whole))
    gradients = {"forward": 0.0, "input_gradient": 1.0, "weight_gradient": 1.0}
    backward = shapes(KernelKind.FLASH, 4096.0, 4096.0, 128.0, 64.0, **gradients)
    assert seconds(backward) == pytest.approx(2.5 * flops / (MODEL.flash_backward * RATES.peak))


def test_unfused_attention_moves_its_scores() -> None:
    kernels = shapes(KernelKind.UNFUSED, 2048.0, 2048.0, 128.0, 96.0)
    still = MODEL.model_copy(update={"score_traffic": 1e-12})
    moved = seconds(kernels) - seconds(kernels, model=still)
    assert moved == pytest.approx(5 * 2 * 96 * 2048 * 2048 / (MODEL.memory_fraction * RATES.bandwidth))
    assert seconds(kernels) > 2 * seconds(shapes(KernelKind.FLASH, 2048.0, 2048.0, 128.0, 96.0, visible=0.5))


def test_fusion_saves_traffic_of_element_wise_work_only() -> None:
    memory, unknown = (shapes(kind, 1.0, 1.0, 1.0) for kind in (KernelKind.MEMORY, KernelKind.ARITHMETIC))
    moving = 1e9 / (MODEL.memory_fraction * RATES.bandwidth)
    assert seconds(memory, nbytes=1e9) == pytest.approx(MODEL.fusion * moving)
    assert seconds(unknown, nbytes=1e9) == pytest.approx(moving)
    assert seconds(unknown, flops=1e15) == pytest.approx(1e15 / (MODEL.gemm_fraction * RATES.peak))
    assert seconds(memory, nbytes=0.0, flops=0.0) == 0


def test_logits_pay_for_a_cross_entropy() -> None:
    tokens, vocabulary = 4096.0, 50_304.0
    alone = {"m": tokens, "n": vocabulary, "k": 1024.0}
    forward = [seconds(shapes(KernelKind.PRODUCT, **alone, losses=losses)) for losses in (0.0, 1.0)]
    passes = {"forward": 0.0, "input_gradient": 1.0, "weight_gradient": 1.0}
    backward = [seconds(shapes(KernelKind.PRODUCT, **alone, **passes, losses=losses)) for losses in (0.0, 1.0)]
    moved = tokens * vocabulary / (MODEL.memory_fraction * RATES.bandwidth)
    assert (forward[1] - forward[0]) / moved == pytest.approx(LOSS_BYTES[0])
    assert (backward[1] - backward[0]) / moved == pytest.approx(LOSS_BYTES[1])


def test_a_flat_accelerator_ignores_kernels() -> None:
    chip = load_accelerator("a100")
    assert chip.kernels is not None
    work = Work(np.array([[1e12]]), np.array([[1e6]]), shapes(KernelKind.PRODUCT, 64.0, 64.0, 64.0))
    assert chip.flat().operator_times(work, "bf16")[0, 0] == 1e12 / (0.5 * 312e12)
    assert chip.operator_times(work, "bf16")[0, 0] == pytest.approx(product(64.0, 64.0, 64.0, model=chip.kernels))


def test_an_update_moves_its_bytes_at_the_reached_bandwidth() -> None:
    chip = Accelerator(peak={"bf16": 1e12}, memory_bandwidth=1e12, kernels=MODEL)
    twice = chip.model_copy(update={"kernels": MODEL.model_copy(update={"optimizer_traffic": 2.0})})
    more = MODEL.step_overhead
    assert twice.update_time(1e9) - more == pytest.approx(2 * (chip.update_time(1e9) - more))
    assert chip.update_time(1e9) - more == pytest.approx(chip.memory_time(1e9))
    assert chip.flat().update_time(1e9) == chip.flat().memory_time(1e9) == 2e-3


@pytest.mark.parametrize("name", MODELLED)
def test_every_prior_has_a_source_and_a_spread(name: str) -> None:
    kernels = load_accelerator(name).kernels
    assert kernels is not None
    priors = kernels.priors()
    assert priors.keys() == PRIORS.keys() == KernelModel.model_fields.keys() - {"compute_units", "spreads", "sources"}
    assert all(prior.value > 0 and 0 < prior.spread <= 1 and prior.source for prior in priors.values())
    stated = description(name)["kernels"]
    assert set(stated["sources"]) == set(stated) - {"spreads", "sources"}


@pytest.mark.parametrize("name", MODELLED)
def test_depth_follows_from_the_data_sheet(name: str) -> None:
    """A tile of 128 x 256 is written and four stages of depth 32 are read at the reached bandwidth."""
    chip = load_accelerator(name)
    assert chip.kernels is not None and chip.memory_bandwidth is not None
    nbytes = 2 * (128 * 256 + 4 * 32 * (128 + 256))
    reached = (
        chip.kernels.gemm_fraction * chip.peak_rate("bf16") / (chip.kernels.memory_fraction * chip.memory_bandwidth)
    )
    assert chip.kernels.gemm_depth == pytest.approx(nbytes / (2 * 128 * 256) * reached, rel=0.02)


def test_there_are_five_gpus_with_kernels() -> None:
    assert MODELLED == ["a100", "a100-40", "b200", "h100", "h200"]


def test_an_efficiency_of_ones_own_replaces_the_kernel_model() -> None:
    chip = load_cluster("terarack-64", set={"accelerator.efficiency": 0.4}).accelerator
    assert chip.kernels is None and "kernels" not in chip.sources and chip.sources["efficiency"] == "set by terarack-64"
    changed = load_cluster("terarack-64", set={"accelerator.kernels.gemm_depth": 300}).accelerator.kernels
    assert changed is not None and (changed.gemm_depth, changed.gemm_fraction) == (300, 0.85)
    assert changed.sources["gemm_depth"] == "set by terarack-64"
    with pytest.raises(ConfigError, match=r"accelerator.efficiency.*contradicts 'kernels'"):
        load_cluster("terarack-64", set={"accelerator.efficiency": 0.4, "accelerator.kernels.gemm_depth": 300})


def test_the_line_names_what_is_used() -> None:
    assert "efficiency" not in str(load_accelerator("a100"))
    assert "efficiency 0.5" in str(load_accelerator("a100").flat())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kernels": {"compute_units": 108, "gemm_fraction": 1.5}, "memory_bandwidth": 1e12}, "gemm_fraction"),
        (
            {"kernels": {"compute_units": 108, "spreads": {"gemm": 1}}, "memory_bandwidth": 1e12},
            "unknown parameters: gemm",
        ),
        ({"kernels": {"compute_units": 108}}, "kernels need a memory_bandwidth"),
    ],
)
def test_wrong_kernels_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Accelerator.model_validate({"peak": {"bf16": 1e12}, **fields})


def test_rows_that_are_not_aligned_slow_products_down_but_not_convolutions() -> None:
    def price(n: float, k: float, **changes: float) -> float:
        return seconds(shapes(KernelKind.PRODUCT, 8192.0, n, k, **changes))

    aligned = price(50304.0, 1024.0)
    for step_pass in ("forward", "input_gradient", "weight_gradient"):
        passes = {"forward": 0.0, "input_gradient": 0.0, "weight_gradient": 0.0} | {step_pass: 1.0}
        one, padded = (price(n, 1024.0, **passes) for n in (50257.0, 50304.0))
        assert one == pytest.approx(padded / MODEL.unaligned, rel=0.02)
    assert aligned < price(50258.0, 1024.0) < price(50257.0, 1024.0)
    assert price(1024.0, 1001.0) > price(1024.0, 1008.0)
    assert price(64.0, 147.0, repeats=49.0) < price(64.0, 152.0, repeats=49.0)
    always = MODEL.model_copy(update={"unaligned": 1.0})
    assert seconds(shapes(KernelKind.PRODUCT, 8192.0, 50257.0, 1024.0), model=always) <= aligned
