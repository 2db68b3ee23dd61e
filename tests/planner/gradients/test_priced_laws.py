"""What a method makes of a gradient and of a part of it, and how long an engine takes, from their own figures."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightloom.collectives.collective import Kind
from lightloom.core.errors import ConfigError
from lightloom.exchange.method import (
    CodedSums,
    Gradient,
    nbytes_of_terms,
    sum_over_hops,
)
from lightloom.exchange.methods import find
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.graph import ComputeGraph, Operator
from lightloom.planning import gradients as sizing
from lightloom.planning.gradients import (
    PricedExchange,
    bits_by_terms,
    model_gradient,
    model_key,
    profile_of,
    sized,
)
from lightloom.planning.pricing.group_prices import gradient_element_bytes
from lightloom.planning.pricing.job import sent_ratio
from tests.planner.gradients.exchanges import coded, engine
from tests.planner.jobs import transformer

SHAPES = ((512, 256), (256,), (100, 30))
SUMS = CodedSums("inceptionn:2^-10", ((1, 5.0), (2, 6.0), (8, 9.0)))
METHODS = (
    "int8",
    "int4:block=64",
    "topk:share=0.01",
    "powersgd:rank=2",
    "localsgd:every=20",
    "diloco:every=10",
    "inceptionn",
    "truncate:bits=16",
    "two-level:node=2",
)


def priced(method: str, shapes: tuple[tuple[int, ...], ...] = SHAPES) -> PricedExchange:
    """A method on an engine whose rates and messages all differ."""
    coder = engine().model_copy(
        update={"encode": 3e9, "decode": 5e9, "encode_message": 2e-6, "decode_message": 7e-6, "flops": 11e9}
    )
    return PricedExchange(method=find(method), gradient=Gradient(shapes, (SUMS,)), sizes="made up", engine=coder)


@pytest.mark.parametrize("name", METHODS)
def test_a_part_of_the_gradient_has_its_share_of_bytes_and_of_work(name: str) -> None:
    """Messages are those of the whole; the owner of a share decodes what the others sent and keeps its sum."""
    of = priced(name)
    whole, coder = of.gradient.values, of.coder
    for ranks in (2, 4, 16):
        work = of.method.work(of.gradient, ranks)
        for share in (1.0, 0.25):
            phases = of.phases("all-reduce", share * whole, ranks)
            for part, all_of in zip(phases, of.method.phases(of.gradient, ranks), strict=True):
                assert replace(part, nbytes=0.0, nbytes_by_terms=()) == replace(all_of, nbytes=0.0, nbytes_by_terms=())
                assert part.nbytes == pytest.approx(share * all_of.nbytes)
                assert [terms for terms, _ in part.nbytes_by_terms] == [terms for terms, _ in all_of.nbytes_by_terms]
                for (_, nbytes), (_, every) in zip(part.nbytes_by_terms, all_of.nbytes_by_terms, strict=True):
                    assert nbytes == pytest.approx(share * every)
            assert of.phases("reduce-scatter", share * whole, ranks) == phases[:1]
            encode = share * (4 * work.encoded_values / coder.encode + work.flops / 11e9)
            encode += (work.encoded_messages + share * work.calls) * coder.encode_message
            decode = 4 * share * work.decoded_values / coder.decode + work.decoded_messages * coder.decode_message
            assert of.coding("all-reduce", share * whole, ranks) == pytest.approx((encode, decode))
            decode = 4 * share * whole * (ranks - 1) / ranks / coder.decode + (ranks - 1) * coder.decode_message
            assert of.coding("reduce-scatter", share * whole, ranks) == pytest.approx((encode, decode))
        sent = of.method.sent_bytes(of.gradient, ranks)
        assert 2 * (ranks - 1) / ranks * of.sent_bytes("all-reduce", whole, ranks) == pytest.approx(sent)
        assert of.ratio(ranks) == pytest.approx(4 * whole * 2 * (ranks - 1) / ranks / sent)
    slower = replace(of, engine=coder.model_copy(update={"flops": None}))
    without = of.method.work(of.gradient, 4).flops / 11e9
    assert slower.coding("all-reduce", whole, 4)[0] == pytest.approx(of.coding("all-reduce", whole, 4)[0] - without)


def test_nothing_is_a_part_of_an_empty_gradient() -> None:
    for name in METHODS[:2]:
        of, one = priced(name, ()), priced(name, ((1,),))
        assert all(phase.nbytes == 0 for phase in of.phases("all-reduce", 0.0, 4))
        (phase,) = one.method.phases(one.gradient, 4)[:1]
        assert one.phases("all-reduce", 1.0, 4)[0] == phase
        assert of.coding("all-reduce", 0.0, 4)[0] < one.coding("all-reduce", 1.0, 4)[0]
        work = one.method.work(one.gradient, 4)
        assert one._work("all-reduce", 1.0, 4) == work
    assert priced("inceptionn", ()).least_share() > 0
    assert priced("int8").sent_bytes("all-reduce", 1000.0, 1) == 0


def test_sums_that_travel_are_as_large_as_was_measured() -> None:
    """Around a ring those of one to all but one gradients and then of all, elsewhere of all both ways."""
    of = priced("inceptionn")
    whole = float(of.gradient.values)
    for ranks in (2, 3, 8):
        (phase,) = of.method.phases(of.gradient, ranks)
        hops, finished = sum_over_hops(phase, ranks), nbytes_of_terms(phase, ranks)
        assert hops < finished
        for ring, way in ((True, hops), (False, finished)):
            assert of.along_schedule("all-reduce", whole, ranks, ring=ring) == pytest.approx((way + finished) / 2)
            assert of.along_schedule("reduce-scatter", whole, ranks, ring=ring) == pytest.approx(way)
        assert of.sent_bytes("reduce-scatter", whole, ranks) == pytest.approx(hops)
        gathered = priced("int8")
        (first, *_) = gathered.method.phases(gathered.gradient, ranks)
        assert gathered.sent_bytes("reduce-scatter", whole, ranks) == pytest.approx(first.nbytes)
    (phase,) = of.method.phases(of.gradient, 1)
    assert of.along_schedule("all-reduce", whole, 1, ring=True) == pytest.approx(nbytes_of_terms(phase, 1))
    sizes = [nbytes for _, nbytes in of.method.phases(of.gradient, 2)[0].nbytes_by_terms]
    assert of.least_share() == pytest.approx(min(sizes) / (4 * whole))
    assert of.placed_ratio == pytest.approx(4 * whole / max(sizes))
    one = priced("inceptionn", ((1,),))
    assert one.least_share() == pytest.approx(
        min(n for _, n in one.method.phases(one.gradient, 2)[0].nbytes_by_terms) / 4
    )
    same = coded(8.0)
    assert same.least_share() == pytest.approx(1 / 8) and same.placed_ratio == pytest.approx(8)
    assert 1 < coded(1.0).placed_ratio < 1 + 1e-12 and coded(0.5).placed_ratio == 0.5


def test_methods_are_refused_where_they_do_not_serve() -> None:
    sharded = ("inceptionn", "truncate:bits=16", "int8", "int4:block=64")
    kinds: tuple[Kind, ...] = ("all-reduce", "reduce-scatter")
    names = (*METHODS, "optical")
    served = {
        (name, kind, light, stride)
        for name in names
        for kind in kinds
        for light in (False, True)
        for stride in (1, 2)
        if priced(name).refusal(kind, in_network=light, stride=stride) is None
    }
    assert served == {
        (name, kind, light, stride)
        for name in names
        for kind in kinds
        for light in (False, True)
        for stride in (1, 2)
        if light == (name == "optical")
        and (kind == "all-reduce" or name in sharded)
        and (stride == 1 or name != "two-level:node=2")
    }
    refused = {ranks for ranks in range(2, 9) if priced("two-level:node=3").group_refusal(ranks) is not None}
    assert refused == {2, 4, 5, 7, 8} and priced("int8").group_refusal(3) is None


def test_methods_say_when_and_where_they_run_and_what_they_keep() -> None:
    labels = {name: priced(name).label for name in ("int8", "localsgd:every=20", "diloco:every=10,inner=int4")}
    assert labels["int8"] == priced("int8").name and labels["localsgd:every=20"] == "localsgd every 20 steps"
    assert labels["diloco:every=10,inner=int4"].startswith("diloco every 10 steps by int4")
    # A residual of four bytes a value, that of one slot of two, or two copies of the weights; a rank of a process keeps
    # as many (tests/exchange/test_distributed.py).
    kept = {"int4:block=64": 4, "topk:share=0.01": 4, "powersgd:rank=2": 4, "inceptionn": 4, "diloco:every=10": 8}
    for name in METHODS:
        of = priced(name)
        assert of.state_bytes == kept.get(name, 2 if name == "two-level:node=2" else 0)
        assert of.blocking == name.startswith(("localsgd", "diloco"))
        assert of.in_schedule == name.startswith(("inceptionn", "truncate"))
    bare = replace(coded(3.0, "nic"), engine=None)
    assert coded(3.0, "nic").in_line and not coded(3.0).in_line and not bare.in_line
    chip = load_cluster("terarack-64", set={"ranks": 2}).accelerator
    assert coded(3.0).on(chip) == coded(3.0)
    for name in ("int8", "topk"):
        kernel = replace(priced(name), engine=None).on(chip).coder
        touched = 3 if find(name).fused else 20
        assert kernel.encode == pytest.approx(0.5 * chip.memory_bandwidth / touched)  # type: ignore[operator]


def test_narrow_gradients_are_coded_as_floats() -> None:
    training = load_cluster("terarack-64", set={"ranks": 2}).training
    narrow = training.model_copy(update={"gradient_bytes": 2, "sharded_gradient_bytes": 3})
    assert sent_ratio(narrow, np.array([1.0, 4.0, 0.5])).tolist() == [1.0, 2.0, 0.25]
    wanted: dict[Kind, int] = {"all-reduce": 2, "reduce-scatter": 3}
    assert gradient_element_bytes(narrow) == wanted


def layer(kind: str, parameters: int, **sizes: int) -> Operator:
    return Operator(name=f"{kind} {parameters} {sizes}", kind=kind, dimensions=sizes, parameters=parameters)


def test_gradients_have_the_shapes_of_their_layers_and_every_parameter_once() -> None:
    """Rows by columns, then what is left; a bias for each row is a vector of its own."""
    layers: list[tuple[Operator, list[tuple[int, ...]]]] = [
        (layer("linear", 12, in_channel=3, channel=4), [(4, 3)]),
        (layer("linear", 16, in_channel=3, channel=4), [(4, 3), (4,)]),
        (layer("linear", 17, in_channel=3, channel=9), [(5, 3), (2,)]),
        (layer("linear", 2, in_channel=3, channel=4), [(2,)]),
        (layer("conv", 72, in_channel=4, channel=6, groups=2, kernel_height=3, kernel_width=2), [(6, 12)]),
        (layer("conv", 78, in_channel=4, channel=6, groups=2, kernel_height=3, kernel_width=2), [(6, 12), (6,)]),
        (layer("conv", 60, in_channel=4, channel=3, kernel_length=5), [(3, 20)]),
        (layer("conv", 123, in_channel=2, channel=3, kernel_depth=5, kernel_height=2, kernel_width=2), [(3, 40), (3,)]),
        (layer("embedding", 30, channel=5, in_channel=7), [(6, 5)]),
        (layer("embedding", 6, channel=2), [(3, 2)]),
        (layer("embedding", 7, in_channel=2), [(7,)]),
        (layer("norm", 0, in_channel=3), []),
        (layer("norm", 8, channel=4), [(8,)]),
        (layer("activation", 0, channel=4, in_channel=2), []),
    ]
    graph = ComputeGraph(name="layers", batch=1, operators=tuple(each for each, _ in layers))
    assert model_gradient(graph).shapes == tuple(shape for _, shapes in layers for shape in shapes)
    assert model_gradient(replace(graph, unused_parameters=3)).shapes[-1] == (3,)
    for whole in (transformer(2), replace(graph, unused_parameters=3)):
        shapes = model_gradient(whole).shapes
        assert sum(map(prod, shapes)) == whole.parameters + whole.unused_parameters


def test_bits_of_sums_grow_as_measured_from_those_of_one_gradient() -> None:
    def entry(**sums: float) -> Any:
        return SimpleNamespace(
            whole=SimpleNamespace(ratio=8.0), sums={int(name[1:]): each for name, each in sums.items()}
        )

    assert bits_by_terms(entry()) == ((1, 4.0),)
    assert bits_by_terms(entry(_4=2.0, _1=10.0, _2=5.0)) == ((1, 4.0), (2, 8.0), (4, 20.0))
    assert "up to 4 gradients" in sizing._sums_note(entry(_4=2.0, _1=10.0))
    assert "of one gradient only" in sizing._sums_note(entry())


def profile(codec: str, model: str = "folder/m", parameters: int | None = None) -> Any:
    """Of one codec, whose kernels code 2 and 3 GB/s and whose engines 1 and 2."""
    rates = SimpleNamespace(threads=1, encode=2e9, decode=3e9, encode_message=None, decode_message=None)
    counted = SimpleNamespace(encode=1e9, decode=2e9)
    one = SimpleNamespace(codec=codec, whole=SimpleNamespace(ratio=8.0), sums={}, host=[rates], engine=counted)
    held = transformer(1).parameters if parameters is None else parameters
    given = {"model": model, "parameters": held, "gradients": "of one step", "kernel": "loops", "codecs": [one]}
    return SimpleNamespace(**given, of=lambda name: one if name == codec else None)


def test_methods_whose_bytes_depend_on_values_take_those_of_the_models_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, method = transformer(1), find("inceptionn")
    codec, cached = sizing.ring_codec_of(method).codec, tmp_path / "cached"
    files: dict[Path, Any] = {}
    monkeypatch.setattr(sizing, "cache_path", lambda key, of: cached if (key, of) == ("other/m", codec) else None)
    monkeypatch.setattr(sizing, "read_profile", files.__getitem__)
    with pytest.raises(ConfigError, match="no compression profile of other/m"):
        profile_of("other/m", graph, codec)
    cached.touch()
    own = tmp_path / "own"
    for path, place in ((None, cached), (own, own)):
        files[place] = profile(codec)
        assert profile_of("other/m", graph, codec, path) == (files[place], files[place].codecs[0])
        for wrong in (profile(codec, "folder/n"), profile(codec, parameters=7)):
            files[place] = wrong
            with pytest.raises(ConfigError, match="is the profile of"):
                profile_of("other/m", graph, codec, path)
        files[place] = profile("another")
        with pytest.raises(ConfigError, match=re.escape(f"has no {codec}, only another")):
            profile_of("other/m", graph, codec, path)
        files[place] = profile(codec)
    for name, rates in (("local", (2e9, 3e9)), ("nic", (1e9, 2e9))):
        found = sized(method, "other/m", graph, own, None, name)
        assert (found.coder.name, found.coder.encode, found.coder.decode) == (name, *rates)
        assert found.gradient.coded == (CodedSums(codec, ((1, 4.0),)),) and "measured: of one step" in found.sizes
        assert found.gradient.shapes == model_gradient(graph).shapes
    assert sized(method, "other/m", graph, own, None, "accelerator").engine is None
    stated = sized(method, "other/m", graph, None, 10.0, "nic")
    assert stated.gradient.coded == (CodedSums(codec, ((1, 3.2),)),) and stated.coder.encode == pytest.approx(3.2e9)
    kernels = engine().model_copy(update={"source": "measured by itself"})
    monkeypatch.setattr(sizing, "local_engine", lambda name: kernels if name == find("int8").name else None)
    plain = sized(find("int8"), "other/m", graph, None, None, "local")
    assert plain.coder is kernels and plain.sizes == "fixed by the format" and plain.gradient.coded == ()


def test_a_model_is_a_file_where_there_is_one(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    assert model_key(f"{file}:build") == f"{file}:build"
    file.write_text("one")
    other = tmp_path / "model.txt"
    other.write_text("one")
    assert model_key(f"{other}:build") == f"{other}:build"
    assert model_key(f"{file}:build") not in (f"{file}:build", model_key(f"{file}:other"))
