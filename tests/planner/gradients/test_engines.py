"""Engines that code gradients: as fast as was measured, or as is assumed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.exchange.compression.profile import Rates
from lightloom.exchange.measuring import KernelRates, keep_rates
from lightloom.machines.clusters.load import load_cluster
from lightloom.planning.gradients import (
    CodecEngine,
    assumed_engine,
    check_engine_name,
    local_engine,
    nic_engine,
    profiled_engine,
)


def test_this_host_is_as_fast_as_was_measured_and_unknown_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    rates = KernelRates(encode=1e9, decode=2e9, encode_message=3e-6, decode_message=4e-6, kernel="loops", flops=5e9)
    keep_rates("int4", rates)
    with pytest.raises(ConfigError, match=r"kernels for int8 were not measured.*exchange measure 'int8'"):
        local_engine("int8")
    found = local_engine("int4")
    assert {name: getattr(found, name, "loops") for name in asdict(rates)} == asdict(rates)
    assert (found.name, found.placement, found.source) == ("local", "host", "loops, measured on this host")


@given(st.lists(st.tuples(st.integers(1, 4), *[st.integers(1, 9)] * 2, st.none() | st.just(1e-6)), min_size=1))
def test_a_profile_stands_for_the_threads_that_code_and_decode_a_value_first(
    measured: list[tuple[int, int, int, float | None]],
) -> None:
    host = [
        Rates(threads=threads, encode=encode, decode=decode, encode_message=message, decode_message=message)
        for threads, encode, decode, message in measured
    ]
    profile: Any = SimpleNamespace(kernel="loops")
    entry: Any = SimpleNamespace(host=host)
    found = profiled_engine(profile, entry)
    assert 1 / found.encode + 1 / found.decode == pytest.approx(min(1 / each.encode + 1 / each.decode for each in host))
    assert any(
        (found.encode, found.decode, found.encode_message, found.decode_message)
        == (each.encode, each.decode, each.encode_message or 0, each.decode_message or 0)
        and f"loops with {each.threads} thread{'s' * (each.threads > 1)}, " in found.source
        and ("without the time of a message" in found.source) == (each.encode_message is None)
        for each in host
    )
    assert (found.name, found.placement) == ("local", "host")


def test_kernels_are_assumed_to_be_as_fast_as_the_memory() -> None:
    """Operations of torch one by one touch every value 20 times, fused kernels three times; half of the bandwidth."""
    chip = load_cluster("terarack-64").accelerator
    assert chip.memory_bandwidth
    for share in (1.0, 0.25):
        part = chip.model_copy(update={"memory_bandwidth": share * chip.memory_bandwidth, "kernel_launch": 7e-6})
        for fused, touched in ((True, 3), (False, 20)):
            found = assumed_engine(part, fused=fused)
            assert found.encode == found.decode == pytest.approx(share * chip.memory_bandwidth / 2 / touched)
            assert found.encode_message == found.decode_message == 7e-6
            assert f"{touched} times, 7 us" in found.source and ("torch" in found.source) == (not fused)
            assert found.flops == pytest.approx(0.3 * min(chip.peak.values()))
    assert assumed_engine(chip.model_copy(update={"kernel_launch": 0.0}), fused=True).encode_message == 10e-6
    with pytest.raises(ConfigError, match="states no memory bandwidth"):
        assumed_engine(chip.model_copy(update={"memory_bandwidth": None}), fused=True)


def test_a_network_card_runs_what_was_counted_or_bursts_and_nothing_else() -> None:
    counted: Any = SimpleNamespace(engine=SimpleNamespace(encode=1e9, decode=2e9))
    found = nic_engine(None, counted, None)
    assert (found.encode, found.decode, found.name, found.placement) == (1e9, 2e9, "nic", "nic")
    assert "profile" in found.source and "profile" not in nic_engine("inceptionn:2^-10", None, 3.0).source
    uncounted: Any = SimpleNamespace(engine=None)
    for codec, entry, ratio in (
        ("int8", None, 3.0),
        (None, None, 3.0),
        ("inceptionn:2^-10", uncounted, None),
        (None, uncounted, None),
    ):
        with pytest.raises(ConfigError, match="inceptionn only"):
            nic_engine(codec, entry, ratio)


def test_messages_take_no_time_unless_it_is_stated() -> None:
    bare = CodecEngine(placement="host", encode=1e9, decode=2e9, source="made up")
    assert bare.encode_message == bare.decode_message == 0 and bare.flops is None


def test_names_of_engines_are_known_and_files_are_read(tmp_path: Path) -> None:
    for name in ("accelerator", "local", "nic"):
        check_engine_name(name)
    for ending in ("yaml", "yml"):
        with pytest.raises(ConfigError, match=f"gone.{ending}"):
            check_engine_name(str(tmp_path / f"gone.{ending}"))
