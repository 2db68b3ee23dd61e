"""Hooks of DDP and FSDP2 and periodic exchanges, given buckets, shards and weights by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import Replicate, Shard

from lightloom.collectives.collective import Collective
from lightloom.collectives.registry import build
from lightloom.collectives.registry import find as algorithm
from lightloom.core.errors import ConfigError, LightloomError, UnsupportedError
from lightloom.exchange import hooks
from lightloom.exchange.compression.registry import find as find_codec
from lightloom.exchange.distributed import factory as factory_module
from lightloom.exchange.distributed import fsdp as fsdp_module
from lightloom.exchange.distributed import periodic as periodic_module
from lightloom.exchange.distributed.ddp import ExchangerState
from lightloom.exchange.distributed.exchanger import PlainExchanger
from lightloom.exchange.distributed.factory import ReduceState, all_reduce, exchanger
from lightloom.exchange.distributed.fsdp import FsdpState, ReduceScatter, tensor_sizes
from lightloom.exchange.distributed.group import OwnGroup
from lightloom.exchange.distributed.periodic import DiLoCo, LocalSgd, periodic
from lightloom.exchange.distributed.residuals import Geometry, Piece
from lightloom.exchange.execution import movement_of
from lightloom.exchange.methods import DiLoCoExchange, LocalSgdExchange, find
from lightloom.exchange.transport.channel import AgreedError
from lightloom.machines.fabrics.wdm_ring import WdmRing
from lightloom.photonics.registry import find_averager
from tests.exchange.threads import among

ALONE: Any = SimpleNamespace(rank=lambda: 0, size=lambda: 1)
"""The group of a single process."""

# Weights exchanged every so many steps.


class Pair(nn.Module):
    """Weights of two types; what does not train stays."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.narrow = nn.Parameter(torch.full((2, 1), value, dtype=torch.bfloat16))
        self.single = nn.Parameter(torch.full((3,), value))
        self.wide = nn.Parameter(torch.full((2,), value, dtype=torch.float64))
        self.frozen = nn.Parameter(torch.full((1,), value), requires_grad=False)

    def values(self) -> list[float]:
        return [float(parameter.detach().flatten()[-1]) for parameter in self.parameters()]


def test_weights_are_averaged_every_so_many_steps() -> None:
    def work(group: OwnGroup) -> list[tuple[bool, list[float]]]:
        method = find("localsgd:every=3")
        assert isinstance(method, LocalSgdExchange)
        model, found = Pair(1.0 + 2 * group.rank), []
        outer = LocalSgd(model, method, group)
        assert list(outer.parameters) == ["narrow", "single", "wide"]
        for step in range(6):
            if step == 4:
                with torch.no_grad():
                    model.single.add_(group.rank)
            found.append((outer.step(), model.values()))
        assert outer.steps == 6 and outer.statistics.step_count == 4  # two types, exchanged twice
        assert outer.statistics.total.nbytes_sent == group.sent
        state = outer.state_dict()
        assert state == {"step": 6}
        outer.load_state_dict({"step": 2})
        assert outer.step() and outer.steps == 3
        with pytest.raises(ConfigError, match="the checkpoint holds no 'step': expected one of localsgd:every=3"):
            outer.load_state_dict({})
        assert outer._exchanger.remark == " in localsgd:every=3"
        return found

    first, second = among(2, work)
    before = [False, False, True, False, False, True]
    assert [done for done, _ in first] == [done for done, _ in second] == before
    assert [values for _, values in first] == [
        *[[1.0, 1.0, 1.0, 1.0]] * 2,
        *[[2.0, 2.0, 2.0, 1.0]] * 3,
        [2.0, 2.5, 2.0, 1.0],
    ]
    assert [values for _, values in second][1:3] == [[3.0, 3.0, 3.0, 3.0], [2.0, 2.0, 2.0, 3.0]]
    assert second[5][1] == [2.0, 2.5, 2.0, 3.0]


def one_weight(value: float) -> nn.Module:
    model = nn.Module()
    model.register_parameter("w", nn.Parameter(torch.tensor([value, 2 * value])))
    return model


@pytest.mark.parametrize(("momentum", "after"), [(0.9, [7.15, 4.51]), (0.0, [8.5, 7.75])])
def test_an_outer_optimizer_moves_the_weights_of_the_last_exchange(momentum: float, after: list[float]) -> None:
    """From 10 two ranks come to 8 and 6: they moved by 3 on average, and 10 moves by half of 3 + 0.9 · 3. Then by 1
    and 2 more: the momentum is 0.9 · 3 + 1.5 = 4.2, and half of 1.5 + 0.9 · 4.2 is 2.64."""

    def work(group: OwnGroup) -> list[float]:
        method = find(f"diloco:every=2,outer_lr=0.5,outer_momentum={momentum}")
        assert isinstance(method, DiLoCoExchange)
        model = one_weight(10.0)
        outer, found = DiLoCo(model, method, group), []
        for move in (2.0 * (1 + group.rank), 1.0 + group.rank):
            assert outer.step() is False
            with torch.no_grad():
                model.get_parameter("w").sub_(move)
            assert outer.step() is True
            found.append(float(model.get_parameter("w").detach()[0]))
        state = outer.state_dict()
        assert set(state) == {"step", "backup/w", "momentum/w"} and state["step"] == 4
        assert state["backup/w"].tolist() == pytest.approx([found[1], found[1] + 10.0])
        assert state["momentum/w"].tolist() == pytest.approx([4.2, 4.2] if momentum else [0.0, 0.0])
        again = DiLoCo(one_weight(1.0), method, group)
        again.load_state_dict(state)
        assert torch.equal(again.backup["w"], state["backup/w"]) and again.steps == 4
        assert torch.equal(again.momentum["w"], state["momentum/w"])
        for key, value, words in (
            ("backup/w", torch.zeros(3), "backup/w has 3 values, the parameter 2"),
            ("backup/v", torch.zeros(2), "differ in parameter 'v'"),
        ):
            with pytest.raises(ConfigError, match=words):
                again.load_state_dict(state | {key: value})
        return found

    for found in among(2, work):
        assert found == pytest.approx(after)


def test_fragments_take_turns() -> None:
    """Of four steps the first fragment is exchanged after the second, the other after the fourth."""

    def work(group: OwnGroup) -> list[list[float]]:
        method = find("diloco:every=4,fragments=2,outer_lr=1,outer_momentum=0")
        assert isinstance(method, DiLoCoExchange)
        model = nn.Module()
        for name in "ab":
            model.register_parameter(name, nn.Parameter(torch.zeros(2)))
        outer, found = DiLoCo(model, method, group), []
        assert outer.fragments == [["a"], ["b"]]
        for _ in range(8):
            with torch.no_grad():
                model.get_parameter("a").add_(1.0 + group.rank)
                model.get_parameter("b").add_(1.0 + group.rank)
            outer.step()
            found.append([float(model.get_parameter(name).detach()[0]) for name in "ab"])
        return found

    first, _ = among(2, work)
    assert first == [[1, 1], [3, 2], [4, 3], [5, 6], [6, 7], [9, 8], [10, 9], [11, 12]]


def test_all_ranks_begin_with_the_weights_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained ones, frozen ones and buffers; what is no plain dense tensor, or trains otherwise, is refused."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(dist, "broadcast", lambda tensor, group, group_src: sent.append((tensor.numel(), group_src)))
    model = Pair(1.0)
    model.register_buffer("kept", torch.zeros(5))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    outer = periodic(model, optimizer, "localsgd:every=2", group=ALONE, timeout=9.0)
    assert isinstance(outer, LocalSgd) and sent == [(2, 0), (3, 0), (2, 0), (1, 0), (5, 0)]
    assert outer._exchanger.group.timeout == 9.0 and outer._exchanger.group.device == "cpu"
    optimizer.step()
    assert outer.steps == 0
    hooked = periodic(model, optimizer, "diloco:every=2", group=ALONE, hook=True)
    assert isinstance(hooked, DiLoCo)
    optimizer.step()
    optimizer.step()
    assert hooked.steps == 2 and outer.steps == 0
    sent.clear()
    with pytest.raises(UnsupportedError, match="averages gradients at every step: expected localsgd or diloco"):
        periodic(model, optimizer, "int8", group=ALONE)
    model.register_buffer("sparse", torch.zeros(2).to_sparse())
    sent.clear()
    with pytest.raises(UnsupportedError, match="works on plain dense weights, not Tensor"):
        periodic(model, optimizer, "localsgd", group=ALONE)
    monkeypatch.setattr(periodic_module, "DistributedDataParallel", Pair)
    with pytest.raises(UnsupportedError, match="lets ranks train alone"):
        periodic(model, optimizer, "localsgd", group=ALONE)
    assert sent == []


# Buckets of DDP.


def bucket(buffer: Tensor, parameters: list[Tensor], *, last: bool) -> Any:
    return SimpleNamespace(buffer=lambda: buffer, is_last=lambda: last, parameters=lambda: parameters)


def test_buckets_are_averaged_under_the_names_of_their_parameters() -> None:
    named, unnamed = torch.zeros(2), torch.zeros(1, dtype=torch.complex64)

    def work(group: OwnGroup) -> tuple[list[float], list[str]]:
        seen: list[tuple[str, float]] = []

        class Noted(PlainExchanger):
            any_type = False

            def average_values(self, values: Tensor, geometry: Geometry) -> None:
                seen.append((geometry.description, float(values[0])))
                if not torch.isfinite(values).all():
                    raise AgreedError("no numbers")
                super().average_values(values, geometry)

        state = ExchangerState(Noted("noted", group), [("w", named)], loss_scale=lambda: 2.0)
        values = torch.full((2,), 4.0 * (1 + group.rank))
        future = state.average(bucket(values, [named], last=False))
        pair = torch.full((1,), complex(2.0, 4.0 * group.rank))
        done = state.average(bucket(pair, [unnamed], last=True)).value()
        assert future.wait().data_ptr() == values.data_ptr() and done.data_ptr() == pair.data_ptr()
        assert state._geometry(bucket(values, [named], last=False)) is state._geometry(
            bucket(values, [named], last=True)
        )
        assert state.statistics.step_count == 1 and state.statistics.total.buckets == 2
        # What all ranks refuse together ends with its step.
        bad = torch.tensor([math.nan, 1.0])
        first = state.average(bucket(bad, [named], last=False))
        with pytest.raises(Exception, match="no numbers"):
            first.wait()
        with pytest.raises(AgreedError, match="no numbers"):
            state.average(bucket(values, [named], last=True))
        assert len(seen) == 3 and state._error is None
        again = torch.full((2,), float(group.rank))
        state.average(bucket(again, [named], last=True))
        assert again.tolist() == [0.5, 0.5]
        with pytest.raises(UnsupportedError, match="expected dense ones"):
            state.average(bucket(values.to_sparse(), [named], last=True))
        with pytest.raises(UnsupportedError, match="would lose digits"):
            state.average(bucket(values.double(), [named], last=True))
        state.close()
        return [*values.tolist(), pair[0].real.item(), pair[0].imag.item()], [words for words, _ in seen]

    for values, words in among(2, work):
        assert values == [6.0, 6.0, 2.0, 2.0]
        assert words == ["2 values of 'w'", "2 values of 'parameter 1'", "2 values of 'w'", "2 values of 'w'"]


# Shards of FSDP2.


def test_shards_of_gradients_are_scaled_for_the_exchange_alone() -> None:
    """Two ranks, shards of two values; a step ends once all modules have come, or one comes again."""
    geometries = [Geometry([Piece(name, 0, 0, 2), Piece(name, 2, 2, 2)], 4) for name in "ab"]

    def work(group: OwnGroup) -> list[list[float]]:
        seen: list[float] = []

        class Noted(PlainExchanger):
            any_type = False

            def reduce_scatter_values(self, values: Tensor, geometry: Geometry, output: Tensor) -> None:
                seen.append(float(values[0]))
                super().reduce_scatter_values(values, geometry, output)

            def average_values(self, values: Tensor, geometry: Geometry) -> None:
                seen.append(float(values[0]))
                super().average_values(values, geometry)

        state = FsdpState(Noted("noted", group), geometries, loss_scale=lambda: 4.0)
        output, found = torch.empty(2), []
        gradients = torch.tensor([8.0, 12.0, 16.0, 20.0]) * (1 + group.rank)
        state.reduce_scatter(output, gradients.clone(), geometry=geometries[0])
        found.append(output.tolist())
        assert state.statistics.step_count == 1 and len(state._exchanged) == 1
        # 4 · 4 bytes, of which a rank of two sends half, once.
        assert state.statistics.total.nbytes_raw == 8
        narrow, pair = torch.empty(1, dtype=torch.complex64), torch.view_as_complex(gradients.clone().view(2, 2))
        state.reduce_scatter(narrow, pair, geometry=geometries[1])
        found.append(torch.view_as_real(narrow).flatten().tolist())
        assert len(state._exchanged) == 0 and state.statistics.step_count == 1
        shard = gradients.to(torch.bfloat16)
        state.all_reduce(shard, geometry=geometries[1])
        found.append(shard.tolist())
        state.all_reduce(shard, geometry=geometries[1])
        # The second turn of a module ends the step in which the other had none.
        assert len(state._exchanged) == 1 and state.statistics.step_count == 3
        with pytest.raises(UnsupportedError, match=r"3 gradients for a, which have 4 values \(padded\)"):
            state.all_reduce(torch.zeros(3), geometry=geometries[0])
        with pytest.raises(UnsupportedError, match="would lose digits"):
            state.all_reduce(torch.zeros(4, dtype=torch.float64), geometry=geometries[0])
        assert seen[:3] == [2.0 * (1 + group.rank)] * 3
        return found

    first, second = among(2, work)
    assert first == [[12.0, 18.0], [12.0, 18.0], [12.0, 18.0, 24.0, 30.0]]
    assert second == [[24.0, 30.0], [24.0, 30.0], [12.0, 18.0, 24.0, 30.0]]


def test_steps_of_plain_exchanges_are_torch_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are divided before; what was kept of them comes along; the next step is chosen at the end."""
    calls: list[tuple[str, list[float]]] = []

    def reduce_scatter(output: Tensor, values: Tensor, group: Any) -> None:
        calls.append(("scatter", values.tolist()))
        output.fill_(7.0)

    monkeypatch.setattr(fsdp_module, "reduce_scatter", reduce_scatter)
    monkeypatch.setattr(dist, "all_reduce", lambda values, group: calls.append(("reduce", values.tolist())))
    geometry = Geometry.joined([("w", (4,))])

    def work(group: OwnGroup) -> float:
        state = FsdpState(exchanger(find("int4:block=8"), group, {"w": 4}), [geometry], adaptive=True)
        assert state.adaptive is not None
        ended: list[float] = []
        monkeypatch.setattr(state.adaptive, "end_step", ended.append)
        residuals = state._exchanger.residuals
        assert residuals is not None
        if group.rank == 0:
            residuals.buffer(geometry).fill_(1.0)
            state.adaptive.use_plain = True
            output = torch.empty(2)
            state.reduce_scatter(output, torch.tensor([3.0, 5.0, 7.0, 9.0]), geometry=geometry)
            state.all_reduce(torch.tensor([2.0, 4.0, 6.0, 8.0]), geometry=geometry)
            assert output.tolist() == [7.0, 7.0] and len(ended) == 2
            assert (state.statistics.plain_steps, state.statistics.total.plain_buckets) == (2, 2)
        return 0.0

    among(2, work)
    assert calls == [("scatter", [2.0, 3.0, 4.0, 5.0]), ("reduce", [1.0, 2.0, 3.0, 4.0])]


def test_reductions_are_sums_or_averages() -> None:
    made = ReduceScatter(lambda output, values: output.copy_(values[:2]))  # type: ignore[arg-type]
    group: Any = SimpleNamespace(size=lambda: 3)
    output, values = made.allocate([2], dtype=torch.float32, device=torch.device("cpu")), torch.tensor([1.0, 2.0, 9.0])
    made(output, values, group, dist.ReduceOp.AVG)
    assert output.tolist() == [1.0, 2.0]
    made(output, values, group, dist.ReduceOp.SUM)
    assert output.tolist() == [3.0, 6.0]
    with pytest.raises(UnsupportedError, match="hooks can sum and average"):
        made(output, values, group, dist.ReduceOp.MAX)


def test_sizes_of_tensors_are_those_of_their_pieces() -> None:
    pieces = [Piece("a", 0, 0, 2), Piece("b", 0, 2, 1), Piece("a", 2, 3, 2)]
    assert tensor_sizes([Geometry(pieces, 5), Geometry.joined([("c", (3,))])]) == {"a": 4, "b": 1, "c": 3}


class Managed(FSDPModule):
    """A module of FSDP by its type alone."""


@pytest.mark.usefixtures("sharding")
def test_modules_manage_the_parameters_that_no_inner_one_does() -> None:
    """Children come before their parents, shared ones once; frozen ones not at all."""
    inner, plain, shared = nn.Linear(2, 2), nn.Linear(2, 2, bias=False), nn.Linear(1, 1, bias=False)
    inner.__class__ = type("ManagedLinear", (Managed, nn.Linear), {})
    root = nn.Module()
    root.first, root.second, root.inner = plain, nn.Sequential(shared, shared), inner
    root.register_parameter("own", nn.Parameter(torch.zeros(1)))
    root.register_parameter("frozen", nn.Parameter(torch.zeros(1), requires_grad=False))
    root.register_parameter("same", plain.get_parameter("weight"))
    found = list(fsdp_module._own_parameters(root, "net"))
    assert [name for name, _ in found] == ["net.first.weight", "net.second.0.weight", "net.own"]
    assert found[2][1] is root.own
    assert next(name for name, _ in fsdp_module._own_parameters(root, "")) == "first.weight"
    assert [name for name, _ in fsdp_module._own_parameters(inner, "x")] == ["x.weight", "x.bias"]
    modules = fsdp_module.sharded_modules(root)
    assert [(module.name, len(module.parameters)) for module in modules] == [("inner", 2)]
    with pytest.raises(UnsupportedError, match=r"inner.weight is not a DTensor"):
        fsdp_module.common_group(modules, "")
    with pytest.raises(UnsupportedError, match="no fully_shard-ed module"):
        fsdp_module.sharded_modules(plain)


class Sharded(SimpleNamespace):
    """What is read of a DTensor."""

    def is_complex(self) -> bool:
        return bool(self.complex)


def sharded(*shape: int, dim: int = 0, group: str = "g", ndim: int = 1, **more: object) -> Any:
    mesh = SimpleNamespace(ndim=ndim, get_group=lambda: group)
    facts = {"placements": (Shard(dim),), "complex": False} | more
    return Sharded(shape=torch.Size(shape), device_mesh=mesh, **facts)


def test_shards_are_padded_along_the_dimension_that_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsdp_module, "DTensor", Sharded)
    shapes = fsdp_module.shard_shape
    assert shapes(sharded(7, 3), 2) == (4, 3) and shapes(sharded(7, 3, dim=1), 2) == (7, 2)
    assert shapes(sharded(8, 3), 2) == (4, 3) and shapes(sharded(), 2) == (1,)
    assert shapes(sharded(3, complex=True), 2) == (2, 2)
    named = tuple((name, sharded(size)) for name, size in (("a", 5), ("b", 2)))
    module: Any = SimpleNamespace(name="m", parameters=named)
    found = fsdp_module.all_shards(module, 2)
    # Shards of 3 and 1 values, those of rank 0 first.
    assert found.size == 8 and found.pieces == (
        Piece("a", 0, 0, 3),
        Piece("b", 0, 3, 1),
        Piece("a", 3, 4, 3),
        Piece("b", 1, 7, 1),
    )


def test_parameters_lie_on_one_group_along_one_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsdp_module, "DTensor", Sharded)

    def group_of(*parameters: Any) -> object:
        module: Any = SimpleNamespace(parameters=[(f"p{n}", each) for n, each in enumerate(parameters)])
        return fsdp_module.common_group([module], "do this")

    assert group_of(sharded(4), sharded(5)) == "g"
    with pytest.raises(UnsupportedError, match="the parameters lie on 2 process groups: expected one"):
        group_of(sharded(4), sharded(5, group="h"))
    with pytest.raises(UnsupportedError, match=r"p1 lies on a mesh of 2 dimensions .* sharded \(do this\)"):
        group_of(sharded(4), sharded(5, ndim=2))
    with pytest.raises(UnsupportedError, match="p0 lies on a mesh of 1 dimensions"):
        group_of(sharded(5, placements=(Replicate(),)))


def test_reduce_scatters_are_replaced_or_the_state_is_closed() -> None:
    geometries = [Geometry.joined([(name, (2,))]) for name in "ab"]

    def work(group: Any) -> None:
        given: list[tuple[str, Any]] = []

        def module(name: str, fails: bool = False) -> Any:
            def replace(reduce: Any) -> None:
                if fails:
                    raise ValueError("not here")
                given.append((name, reduce))

            return SimpleNamespace(name=name, module=SimpleNamespace(set_custom_reduce_scatter=replace))

        state = FsdpState(PlainExchanger("plain", group), geometries)
        state.replace_reduce_scatters([module("x"), module("y")])
        assert [name for name, _ in given] == ["x", "y"] and not group._closed
        output = torch.empty(2)
        given[1][1](output, torch.tensor([3.0, 4.0]), SimpleNamespace(size=lambda: 5), dist.ReduceOp.SUM)
        assert output.tolist() == [15.0, 20.0] and state._exchanged == {geometries[1]}
        with pytest.raises(UnsupportedError, match="cannot replace the reduce-scatter of 'the model': not here"):
            state.replace_reduce_scatters([module("x"), module("", fails=True)])
        assert group._closed
        group._closed = False
        whole = FsdpState(exchanger(find("topk"), group), geometries)
        with pytest.raises(UnsupportedError, match="cannot shard"):
            whole.replace_reduce_scatters([module("x"), module("y")])
        assert group._closed

    among(1, work)


# Older hooks, of a rank that is alone.


class Wrapped:
    """What is asked of a DDP model."""

    def __init__(self, fails: bool = False) -> None:
        self.module, self.process_group, self.hooks = Pair(1.0), ALONE, list[Any]()
        self.fails = fails

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        if self.fails:
            raise RuntimeError("a hook already")
        self.hooks.append((state, hook))


def test_codecs_are_attached_with_the_parameters_that_train() -> None:
    model: Any = Wrapped()
    with pytest.warns(DeprecationWarning, match=r"use lightloom.exchange.attach\(model, 'inceptionn:bound=2\^-10,fee"):
        state = hooks.attach_inceptionn(model)
    assert model.hooks == [(state, hooks.average_hook)]
    assert state.codec is not None and state.codec.name == "inceptionn:2^-10"
    assert set(state.state_dict()) == {"ranks", "rank0/narrow", "rank0/single", "rank0/wide"}
    assert state.state_dict()["rank0/single"].shape == (3,) and state.adaptive is None
    assert [name for name, _ in state._names.values()] == ["narrow", "single", "wide"]
    counted = hooks.attach_inceptionn(model, find_codec("inceptionn:2^-4"), tag_histogram=True, error_feedback=False)
    assert counted.state_dict() == {} and counted.statistics.tags is not None
    assert counted.codec is not None and counted.codec.name == "inceptionn:2^-4"
    given = hooks.attach_inceptionn(
        model, parameters=[("w", torch.zeros(2, 2, requires_grad=True)), ("f", torch.ones(1))]
    )
    assert set(given.state_dict()) == {"ranks", "rank0/w"} and given.state_dict()["rank0/w"].shape == (4,)
    plain = hooks.InceptionnState(None, ALONE)
    assert plain.codec is None and plain.state_dict() == {} and not plain._names
    bare = hooks.InceptionnState(find_codec("truncate:16"), ALONE, timeout=7.0)
    assert set(bare.state_dict()) == {"ranks"} and bare._exchanger.group.timeout == 7.0
    failing: Any = Wrapped(fails=True)
    with pytest.raises(LightloomError, match="cannot attach the hook: a hook already"):
        hooks.attach_inceptionn(failing, host="127.0.0.1")
    for each in (state, counted, given, plain, bare):
        each.close()


def test_light_is_attached_by_name_or_as_it_is() -> None:
    model: Any = Wrapped()
    words = r"attach\(model, 'optical:averager=\(ideal\),bits=16,block=256'\)"
    with pytest.warns(DeprecationWarning, match=words):
        state = hooks.attach_optical_average(model)
    assert (state.averager.bits, state.averager.servers, state.averager.rounding) == (16, 1, "half-up")
    assert state._exchanger.block == 256 and state.rank == 0
    with pytest.warns(DeprecationWarning, match=r"averager=\(digit-sum\),bits=8,block=4"):
        named = hooks.attach_optical_average(model, "digit-sum", bits=8, block=4)
    assert named.averager.bits == 8 and named._exchanger.block == 4
    seeded = hooks.attach_optical_average(model, "table2:3-7", seed=5)
    wanted = np.random.default_rng(np.random.SeedSequence((5, 0)).generate_state(1)[0]).bit_generator.state
    assert seeded.state_dict()["rank0"] == wanted
    own = find_averager("ideal", 1, 12, "half-up", 0)
    given = hooks.attach_optical_average(model, own, timeout=3.0)
    assert given.averager is own and given._exchanger.group.timeout == 3.0
    with pytest.raises(ConfigError, match="is for 1 servers, 12 bits, half-up: expected 1 servers, 8 bits"):
        hooks.attach_optical_average(model, own, bits=8)
    assert len(model.hooks) == 4
    for each in (state, named, seeded, given):
        each.close()


def test_schedules_that_average_are_attached() -> None:
    executed: list[list[float]] = []

    def execute(tensor: Tensor) -> Tensor:
        executed.append(tensor.tolist())
        return tensor + 1

    execute_: Any = execute
    execute_.kind, execute_.ranks = "all-gather", 4
    with pytest.raises(UnsupportedError, match="a schedule of all-gather: gradients need an all-reduce"):
        hooks.ScheduleState(execute_)
    execute_.kind = "all-reduce"
    execute_.movement = movement_of(build(algorithm("wrht"), Collective("all-reduce", 8, 1e3), WdmRing(ranks=8)))
    with pytest.raises(UnsupportedError, match="add up in different orders"):
        hooks.ScheduleState(execute_)
    execute_.movement = movement_of(build(algorithm("ring"), Collective("all-reduce", 4, 1e3), WdmRing(ranks=4)))
    state = hooks.ScheduleState(execute_)
    buffer = torch.tensor([4.0, 8.0])
    assert state.average(bucket(buffer, [], last=True)).value() is not None
    assert executed == [[1.0, 2.0]] and buffer.tolist() == [2.0, 3.0]
    assert state.average(bucket(buffer, [], last=False)).wait().tolist() == [1.5, 1.75]
    state.close()


class Alone:
    """A process group of one rank, which can be a key."""

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1


def test_tensors_are_averaged_with_and_without_a_state() -> None:
    group: Any = Alone()
    values = torch.arange(3.0)
    assert all_reduce(values, "int8", group) is values and values.tolist() == [0.0, 1.0, 2.0]
    (kept,) = factory_module._CONNECTIONS[group].values()
    assert kept.timeout == 300 and kept.device == "cpu"
    all_reduce(values, find("topk"), group)
    assert list(factory_module._CONNECTIONS[group].values()) == [kept]
    with pytest.raises(ConfigError, match="neither method nor state is given"):
        all_reduce(values, group=group)
    state = ReduceState("topk", group, timeout=4.0)
    assert state.method == find("topk") and state.nbytes_sent == 0 and state._exchanger.group.timeout == 4.0
    assert all_reduce(values, state=state, name="a") is values
    all_reduce(values, "topk", state=state, name="a")
    all_reduce(torch.zeros(2, 2, dtype=torch.complex64), state=state, name="b")
    assert [(name, geometry.size) for (name, _), geometry in state._geometries.items()] == [("a", 3), ("b", 8)]
    with pytest.raises(ConfigError, match=r"method = int8:block=256, and the state is of topk:share=0.01,feedback"):
        all_reduce(values, "int8", state=state)
    with pytest.raises(UnsupportedError, match="does not average gradients at every step"):
        all_reduce(values, "localsgd", group)
    state.close()


def managed(name: str, **sizes: int) -> Any:
    """A module whose parameters are sharded, and what it is given."""
    given: dict[str, Any] = {}
    module = SimpleNamespace(
        set_custom_reduce_scatter=lambda reduce: given.update(scatter=reduce),
        set_all_reduce_hook=lambda hook: given.update(hook=hook),
    )
    parameters = tuple((key, sharded(size, device=torch.device("cpu"))) for key, size in sizes.items())
    return SimpleNamespace(name=name, module=module, parameters=parameters, given=given)


def test_exchanges_are_attached_to_sharded_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all ranks in the place of reduce-scatters; between nodes as hooks on the shards of a rank of two."""
    modules = [managed("m", a=5, b=2), managed("n", c=4)]
    inside: Any = SimpleNamespace(rank=lambda: 1, size=lambda: 2)
    for place in (fsdp_module, hooks):
        monkeypatch.setattr(place, "sharded_modules", lambda model: modules)
        monkeypatch.setattr(place, "common_group", lambda modules, hint: groups.pop())
    monkeypatch.setattr(fsdp_module, "DTensor", Sharded)
    groups: list[Any] = [ALONE]
    state = fsdp_module.attach_fsdp(nn.Module(), "int8:feedback", timeout=5.0, loss_scale=lambda: 2.0)
    assert set(state.state_dict()) == {"ranks", "rank0/a", "rank0/b", "rank0/c"}
    assert [len(state.state_dict()[f"rank0/{name}"]) for name in "abc"] == [5, 2, 4]
    assert state._exchanger.group.timeout == 5.0 and state._scale == 2.0 and state.adaptive is None
    output = torch.empty(7)
    modules[0].given["scatter"](output, torch.arange(7.0), ALONE, dist.ReduceOp.AVG)
    assert output.tolist() == list(range(7)) and state._exchanged == {state._geometries[0]}
    groups = [inside]
    state = fsdp_module.attach_fsdp(nn.Module(), "topk", between=ALONE)
    assert set(state.state_dict()) == {f"shard1/{key}" for key in ("ranks", "rank0/a", "rank0/b", "rank0/c")}
    assert [len(state.state_dict()[f"shard1/rank0/{name}"]) for name in "abc"] == [3, 1, 2]
    shard = torch.arange(4.0)
    modules[0].given["hook"](shard)
    assert shard.tolist() == [0, 1, 2, 3] and state.statistics.total.buckets == 1
    groups = [ALONE]
    with pytest.raises(UnsupportedError, match=r"cannot attach exchange topk.*cannot shard"):
        fsdp_module.attach_fsdp(nn.Module(), "topk")
    groups = [ALONE]
    with pytest.warns(DeprecationWarning, match=r"attach_fsdp\(model, 'inceptionn:bound=2\^-10,feedback'\)"):
        older = hooks.attach_inceptionn_fsdp(nn.Module())
    assert older.codec.name == "inceptionn:2^-10" and len(older.state_dict()["rank0/a"]) == 5
    groups = [ALONE]
    older = hooks.attach_inceptionn_fsdp(nn.Module(), find_codec("inceptionn:2^-3"), tag_histogram=True)
    assert older.codec.name == "inceptionn:2^-3" and older.statistics.tags is not None
    modules[1].parameters[0][1].device = torch.device("meta")
    groups = [ALONE]
    with pytest.raises(UnsupportedError, match="c is on meta: expected cpu"):
        hooks.attach_inceptionn_fsdp(nn.Module(), host="127.0.0.1")
