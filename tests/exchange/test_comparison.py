"""Comparisons are paired with plain training, their front is not beaten, and finished runs are not repeated."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightloom.app.cli.exchange_training import compare
from lightloom.core.errors import ConfigError, UnknownNameError, UnsupportedError
from lightloom.core.files import write_atomically
from lightloom.exchange import comparison as comparisons
from lightloom.exchange import measuring
from lightloom.exchange.comparison import (
    REFERENCE,
    Case,
    Result,
    Text,
    cases,
    compare_runs,
    read_result,
    run_all,
)
from lightloom.exchange.compression.profile import Coding
from lightloom.exchange.datasets import Corpus, Digits
from lightloom.exchange.measuring import (
    KernelRates,
    keep_rates,
    measurable,
    measure_kernels,
    measured_rates,
    rates_path,
)
from lightloom.exchange.method import Evidence, merge_evidence
from lightloom.exchange.methods import compared, families, find


def result(method: str, seed: int, loss: float, sent: float) -> Result:
    case = Case(task="chars", method=method, seed=seed, steps=4, ranks=2)
    return Result(case, [2, 4], [2 * loss, loss], sent, 1000.0, True, "", 0.01)


losses = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]), st.tuples(st.floats(0.1, 9), st.floats(1, 1000)), min_size=1
)


@given(losses, st.lists(st.floats(-1, 1), min_size=1, max_size=3))
def test_rows_are_paired_and_the_front_is_not_beaten(
    methods: dict[str, tuple[float, float]], shifts: list[float]
) -> None:
    results = [
        result(method, seed, loss + 2 * shift, sent)
        for seed, shift in enumerate(shifts)
        for method, (loss, sent) in {REFERENCE: (5.0, 1000.0), **methods}.items()
    ]
    rows = compare_runs(results, 1e6)
    assert [row.method for row in rows] == [REFERENCE, *methods]
    for row in rows[1:]:
        assert row.difference == pytest.approx(methods[row.method][0] - 5.0)  # what seeds share cancels
        assert row.spread == pytest.approx(0, abs=1e-9)
    front = [row for row in rows if row.on_front]
    assert front
    assert not any(a.ratio > b.ratio and a.loss < b.loss for a in rows for b in front)


def test_what_seeds_share_is_no_spread_of_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence holds the spread of the differences from plain training, seed by seed."""
    plain, method = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 1.1, 1: 2.2, 2: 4.3}
    runs = [
        result(name, seed, loss, 1e3)
        for name, losses in ((REFERENCE, plain), ("int8", method))
        for seed, loss in losses.items()
    ]
    monkeypatch.setattr("lightloom.app.cli.exchange_training.run_all", lambda *_, **__: runs)
    monkeypatch.setattr("lightloom.app.cli.exchange_training.default_steps", lambda *_: 4)
    table = tmp_path / "evidence.json"
    compare(exchange=["int8"], seeds=3, set=["steps=4", f"folder={tmp_path}"], ranks=2, out=table)
    (row,) = json.loads(table.read_text())["rows"]
    assert row["loss_difference"] == pytest.approx(0.2) and row["spread"] == pytest.approx(0.1)


def test_a_seed_without_plain_training_is_refused() -> None:
    with pytest.raises(ConfigError, match="no plain run of seed 1"):
        compare_runs([result(REFERENCE, 0, 1, 1), result("a", 1, 1, 1)], 1e6)


def test_no_runs_are_refused_and_one_rank_that_sends_nothing_has_ratio_one() -> None:
    with pytest.raises(ConfigError, match="no runs to compare"):
        compare_runs([], 1e6)
    alone = replace(result(REFERENCE, 0, 1, 0), raw_bytes=0.0)
    assert [row.ratio for row in compare_runs([alone], 1e6)] == [1]


@pytest.mark.parametrize("field", list(asdict(result("a", 0, 1, 1))))
def test_a_file_that_lacks_a_field_is_no_result(field: str, tmp_path: Path) -> None:
    path, stored = tmp_path / "run.json", asdict(result("a", 0, 1, 1))
    path.write_text(json.dumps(stored))
    assert read_result(path) == result("a", 0, 1, 1)
    path.write_text(json.dumps({name: value for name, value in stored.items() if name != field}))
    assert read_result(path) is None


def test_finished_runs_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[int] = []

    def launch(_: object, ranks: int, __: float, arguments: dict[str, list[dict[str, object]]]) -> None:
        launched.append(len(arguments["cases"]))
        for fields in arguments["cases"]:
            case = Case(**fields)  # type: ignore[arg-type]
            write_atomically(tmp_path / case.file, json.dumps(asdict(Result(case, [1], [1.0], 1, 1))))

    monkeypatch.setattr(comparisons, "launch", launch)
    first = cases("chars", ["int8"], 2, 2, 4)
    run_all(first, tmp_path)
    write_atomically(tmp_path / first[0].file, "{")  # cut off
    results = run_all(cases("chars", ["int8", "bf16"], 2, 2, 4), tmp_path)
    assert launched == [2, 2, 2, 1]
    assert len(results) == 6
    assert read_result(tmp_path / "none.json") is None


def row(method: str, task: str, difference: float) -> Evidence:
    return Evidence(
        method=method, task=task, steps=1, seeds=1, ranks=2, loss_difference=difference, spread=0.0, command="c"
    )


def test_evidence_replaces_the_rows_of_its_method_and_task(tmp_path: Path) -> None:
    table = tmp_path / "evidence.json"
    table.write_text(merge_evidence(table, [row("int8", "a", 0.1), row("int8", "b", 0.2)]))
    table.write_text(merge_evidence(table, [row("int8", "a", 0.3), row("int4", "a", 0.4)]))
    rows = {(each["method"], each["task"]): each["loss_difference"] for each in json.loads(table.read_text())["rows"]}
    assert rows == {("int8", "a"): 0.3, ("int8", "b"): 0.2, ("int4", "a"): 0.4}
    table.write_text("[]")
    with pytest.raises(ConfigError, match="cannot be read"):
        merge_evidence(table, [])


def test_unknown_tasks_missing_data_and_wrong_ranks_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="task"):
        compare(task="cifar", exchange=["int8"])
    with pytest.raises(ConfigError, match="4 ranks: expected a multiple of node=3"):
        cases("chars", ["two-level:node=3"], 1, 4, 1)
    with pytest.raises(ConfigError, match="has no tinyshakespeare"):
        compare(task="chars", exchange=["int8"], set=[f"data={tmp_path}"])


def test_every_family_is_compared_or_says_why_not() -> None:
    methods = [find(name) for name in compared()]
    left_out = {"codec", "two-level", "optical"}  # any codec; nodes; emulated light takes other time than it would
    assert {method.name.partition(":")[0] for method in methods} == set(families()) - left_out
    assert [method.name for method in methods if not measurable(method)] == [
        *("float32", "localsgd:every=20"),
        "diloco:every=20,inner=float32,fragments=1,outer_lr=0.7,outer_momentum=0.9",
    ]


def text(monkeypatch: pytest.MonkeyPatch, name: str = "chars") -> Text:
    """A task on two made-up corpora, of 20 and of 30 different symbols."""
    random = np.random.default_rng(0)

    def corpus(symbols: int) -> Corpus:
        drawn = random.integers(symbols, size=3000).astype(np.uint8)
        drawn[:symbols] = np.arange(symbols)
        return Corpus("made up", drawn[:2000], drawn[2000:])

    monkeypatch.setattr(comparisons, "tiny_shakespeare", lambda _: corpus(20))
    monkeypatch.setattr(comparisons, "wikitext_2", lambda _: corpus(30))
    found = comparisons.task(name)
    assert isinstance(found, Text)
    return found


def test_texts_are_validated_in_windows_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    job = text(monkeypatch)
    assert (job.name, job.vocabulary, text(monkeypatch, "text").vocabulary) == ("chars", 20, 30)
    assert len(job.training) == 2000 and job.validation.shape == (256, 65)
    assert sorted(set(job.training.tolist())) == list(range(20))
    whole = np.concatenate([job.validation[0], job.validation[-1]])
    assert len(whole) == 130 and not np.array_equal(job.validation[0], job.validation[-1])
    model = job.model()
    with torch.no_grad():
        parts = [job.validate(model, rank, 3) for rank in range(3)]
        total, count = job.validate(model, 0, 1)
    assert [number for _, number in parts] == [86, 85, 85] and count == 256
    assert sum(loss for loss, _ in parts) == pytest.approx(total, rel=1e-5)
    assert total / count == pytest.approx(np.log(20), rel=0.2)


def test_batches_of_a_text_are_windows_of_the_training_text(monkeypatch: pytest.MonkeyPatch) -> None:
    job = text(monkeypatch)
    seen: list[torch.Tensor] = []

    class Noted(torch.nn.Module):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            seen.append(tokens)
            return torch.zeros(*tokens.shape, 20)

    loss = job.loss(Noted(), np.random.default_rng(5))
    assert float(loss) == pytest.approx(np.log(20))
    job.loss(Noted(), np.random.default_rng(5))
    job.loss(Noted(), np.random.default_rng(6))
    assert torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[2])
    starts = np.random.default_rng(5).integers(2000 - 64 - 1, size=8)
    assert seen[0].tolist() == [job.training[start : start + 64].tolist() for start in starts]

    class Knowing(torch.nn.Module):
        """Predicts the symbol that is there, which is wrong: the next is asked for."""

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return 50.0 * torch.nn.functional.one_hot(tokens, 20).float()

    assert float(job.loss(Knowing(), np.random.default_rng(5))) > 10


def test_a_decoder_sees_no_later_symbol() -> None:
    torch.manual_seed(0)
    model, tokens = comparisons.Decoder(20).eval(), torch.arange(64)[None] % 20
    changed = tokens.clone()
    changed[0, 40] += 1
    with torch.no_grad():
        before, after = model(tokens), model(changed)
    assert before.shape == (1, 64, 20)
    assert torch.allclose(before[0, :40], after[0, :40], atol=1e-6)
    assert not torch.allclose(before[0, 40:], after[0, 40:], atol=1e-3)
    assert not torch.allclose(before[0, 0], before[0, 20], atol=1e-3)  # the same symbol at another place


def digits(count: int) -> Digits:
    random = np.random.default_rng(count)
    return Digits(random.integers(256, size=(count, 784)).astype(np.uint8), (np.arange(count) % 10).astype(np.uint8))


def mnist(monkeypatch: pytest.MonkeyPatch) -> comparisons.TrainingTask:
    monkeypatch.setattr(comparisons, "training_digits", lambda _: digits(50))
    monkeypatch.setattr(comparisons, "test_digits", lambda _: digits(23))
    return comparisons.task("mnist")


def test_digits_are_read_from_0_to_1_and_validated_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    job, seen = mnist(monkeypatch), list[torch.Tensor]()

    class Noted(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(images)
            return torch.zeros(len(images), 10)

    assert float(job.loss(Noted(), np.random.default_rng(2))) == pytest.approx(np.log(10))
    chosen = np.random.default_rng(2).integers(50, size=32)
    assert np.array_equal(seen[0].numpy(), digits(50).images[chosen].astype(np.float32) / 255)
    parts = [job.validate(Noted(), rank, 4) for rank in range(4)]
    assert [count for _, count in parts] == [6, 6, 6, 5]
    assert sum(loss for loss, _ in parts) == pytest.approx(23 * np.log(10))


def test_a_run_is_validated_now_and_then_and_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = mnist(monkeypatch)
    monkeypatch.setattr(type(job), "every", 2)
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        runs = [
            comparisons.train_case(job, Case(task="mnist", method=REFERENCE, seed=seed, steps=steps, ranks=1), 0)
            for seed, steps in ((0, 3), (1, 3), (0, 2))
        ]
    finally:
        torch.distributed.destroy_process_group()
    assert [run.steps for run in runs] == [[2, 3], [2, 3], [2]]
    assert len({run.digest for run in runs}) == 3
    assert runs[0].loss[:1] == runs[2].loss != runs[1].loss[:1]
    assert all(run.replicas_equal and run.step_seconds > 0 and run.sent_bytes == run.raw_bytes for run in runs)
    with torch.no_grad():
        torch.manual_seed(0)
        total, count = job.validate(job.model(), 0, 1)
    assert runs[0].loss[-1] != pytest.approx(total / count)


def test_steps_over_a_link_and_the_loss_at_equal_time_by_hand() -> None:
    """A step computes for 10 ms; over 1 MB/s plain training sends 1 ms more, the other method a tenth of that."""
    plain, other = result(REFERENCE, 0, 1.0, 1000.0), result("int8", 0, 3.0, 100.0)
    slow = result("int8", 1, 4.0, 100.0)
    slow.step_seconds = 0.02
    again = result(REFERENCE, 1, 1.0, 1000.0)
    again.replicas_equal = False
    first, second = compare_runs([plain, other, again, slow], 1e6)
    assert (first.method, second.method, first.seeds, second.seeds) == (REFERENCE, "int8", 2, 2)
    assert first.step_seconds == pytest.approx(0.011) and second.step_seconds == pytest.approx(0.0151)
    assert (first.replicas_equal, second.replicas_equal) == (False, True)
    assert (first.ratio, second.ratio) == pytest.approx((1.0, 10.0))
    assert (first.loss, second.loss, second.difference, second.spread) == pytest.approx((1.0, 3.5, 2.5, 1.0))
    # Half of plain training's four steps: its losses fall from 2 to 1 times the last one between steps 2 and 4.
    assert first.loss_at_equal_time == pytest.approx(2.0)
    assert second.loss_at_equal_time == pytest.approx(7.0)
    late = compare_runs([plain, result("fast", 0, 3.0, 1000.0)], 1e3)
    assert late[0].step_seconds == pytest.approx(1.01) and late[1].loss_at_equal_time == pytest.approx(6.0)
    quick = result("quick", 0, 3.0, 100.0)
    (_, told) = compare_runs([plain, quick], 1e3)
    # 2.02 seconds are 18 of its steps, more than it made.
    assert told.loss_at_equal_time == pytest.approx(3.0)


def test_runs_that_are_there_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, float, object]] = []

    def launch(function: object, ranks: int, seconds: float, arguments: dict[str, Any]) -> None:
        assert function is comparisons.train_all
        asked.append((ranks, seconds, arguments["data"]))
        for fields in arguments["cases"]:
            case = Case(**fields)
            write_atomically(Path(arguments["folder"]) / case.file, json.dumps(asdict(Result(case, [1], [1.0], 1, 1))))

    monkeypatch.setattr(comparisons, "launch", launch)
    wanted, told = cases("chars", ["int8", "int8", "bf16"], 2, 2, 4), list[int]()
    assert [(case.seed, case.method) for case in wanted] == [
        (seed, method) for seed in (0, 1) for method in (REFERENCE, find("int8").name, find("bf16").name)
    ]
    assert [each.case for each in run_all(wanted[:1], tmp_path / "a" / "b", advance=told.append)] == wanted[:1]
    assert [each.case for each in run_all(wanted[::-1], tmp_path / "a" / "b", tmp_path, told.append)] == wanted[::-1]
    assert told == [0, 1, 1, 2, 0, 3]
    hour = comparisons.SECONDS_A_RUN
    assert asked == [(2, hour, None), (2, 2 * hour, str(tmp_path)), (2, 3 * hour, str(tmp_path))]


def test_rates_of_kernels_are_kept_by_method_and_damaged_ones_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path))
    rates = KernelRates(encode=1.0, decode=2.0, encode_message=3.0, decode_message=4.0, kernel="k", flops=5.0)
    assert measured_rates("int8") is None
    keep_rates("int8", rates)
    keep_rates("int4", replace(rates, flops=None))
    assert keep_rates("int4", replace(rates, encode=7.0)) == rates_path()
    assert (measured_rates("int8"), measured_rates("int4")) == (rates, replace(rates, encode=7.0))
    assert measured_rates("bf16") is None
    for damaged in ("{", "[]", '{"int8": 3}', '{"int8": {"encode": 1.0}}'):
        rates_path().write_text(damaged)
        assert measured_rates("int8") is None
    keep_rates("int8", rates)
    assert measured_rates("int8") == rates


@pytest.mark.parametrize(
    ("method", "kernel", "decoded"),
    [
        ("int4", "int4:128 kernels", 1 << 22),
        ("inceptionn", "codec inceptionn", 1 << 22),
        ("topk:share=0.25", "choice of the largest values", 256),
        ("powersgd:rank=2", "torch's matrix products", 1 << 22),
    ],
)
def test_kernels_are_timed_on_large_and_on_small_messages(
    monkeypatch: pytest.MonkeyPatch, method: str, kernel: str, decoded: int
) -> None:
    sizes: list[tuple[int, int]] = []
    made: list[list[object]] = []

    def rates(large: Coding, small: Coding, nbytes: tuple[int, int]) -> dict[str, float]:
        sizes.append(nbytes)
        made.append([function() for coding in (large, small) for function in coding])
        return {"encode": 1.0, "decode": 1.0, "encode_message": 0.0, "decode_message": 0.0}

    monkeypatch.setattr(measuring, "coding_rates", rates)
    monkeypatch.setattr(measuring, "_LARGE", 1024)
    found = measure_kernels(find(method))
    assert sizes == [(4 * 1024, 4 * decoded)] and len(made) == 1
    assert found.kernel.startswith(kernel[:4]) and found.kernel.endswith(" on one thread") and found.flops is None
    with pytest.raises(UnsupportedError, match="codes nothing that could be measured"):
        measure_kernels(find("float32"))


def test_tasks_are_those_that_their_documents_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """784, 300, 100 and 10 units with SGD at 0.05 and momentum 0.9; a decoder of two layers with Adam at 0.002."""
    job = mnist(monkeypatch)
    sizes = [tuple(parameter.shape) for parameter in job.model().parameters()]
    assert sizes == [(300, 784), (300,), (100, 300), (100,), (10, 100), (10,)]
    (group,) = job.optimizer(job.model()).param_groups
    assert (group["lr"], group["momentum"]) == (0.05, 0.9)
    assert (job.steps, job.every, job.batch) == (400, 50, 32)
    spoken = text(monkeypatch)
    model = spoken.model()
    # A layer has 12,288 + 192 and 4096 + 64 values of attention, twice 16,384 and 256 + 64 of products, 256 of norms.
    layer = 12_288 + 192 + 4096 + 64 + 2 * 16_384 + 256 + 64 + 256
    assert sum(each.numel() for each in model.parameters()) == 20 * 64 + 64 * 64 + 2 * layer + 128 + 64 * 20 + 20
    layers: Any = model.get_submodule("layers")
    first, second = layers.layers
    assert first.self_attn.num_heads == second.self_attn.num_heads == 4 and first.dropout.p == 0.0 and first.norm_first
    (group,) = spoken.optimizer(model).param_groups
    assert group["lr"] == 0.002 and (spoken.steps, spoken.every, spoken.batch) == (300, 50, 8)
    with pytest.raises(ConfigError):
        comparisons.default_steps("mnist", tmp_path)
    for name, steps in (("mnist", 400), ("chars", 300), ("text", 300)):
        for file in comparisons._TASKS[name][1]:
            path = tmp_path / file.names[0]
            path.parent.mkdir(exist_ok=True)
            path.touch()
        assert comparisons.default_steps(name, tmp_path) == steps
    with pytest.raises(UnknownNameError, match="task"):
        comparisons.default_steps("digits", tmp_path)


def test_messages_of_four_million_and_of_256_values_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    monkeypatch.setattr(measuring, "_codec_kernels", lambda method, count: counts.append(count))
    monkeypatch.setattr(
        measuring,
        "coding_rates",
        lambda large, small, nbytes: {
            "encode": nbytes[0],
            "decode": nbytes[1],
            "encode_message": 0,
            "decode_message": 0,
        },
    )
    found = measure_kernels(find("truncate"))
    assert counts == [4_194_304, 256] and (found.encode, found.decode) == (16_777_216, 16_777_216)


@pytest.mark.parametrize(("method", "called"), [("int8", "attach"), ("localsgd:every=2", "periodic")])
def test_runs_count_what_the_hook_of_their_method_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, called: str
) -> None:
    """300 bytes in three steps are 100 a step; the wrapped model is trained only where gradients are averaged."""
    job, trained, calls = mnist(monkeypatch), list[str](), list[tuple[str, str, dict[str, object]]]()
    plain_loss = job.loss

    def loss(model: torch.nn.Module, chance: np.random.Generator) -> torch.Tensor:
        trained.append(type(model).__name__)
        return plain_loss(model, chance)

    monkeypatch.setattr(job, "loss", loss)
    closed: list[bool] = []
    state = SimpleNamespace(
        statistics=SimpleNamespace(total=SimpleNamespace(nbytes_sent=300)), close=lambda: closed.append(True)
    )

    def attach(replica: object, chosen: object, **options: object) -> object:
        calls.append(("attach", str(chosen), options))
        return state

    def periodic(model: object, optimizer: object, chosen: object, **options: object) -> object:
        calls.append(("periodic", str(chosen), options))
        return state

    monkeypatch.setattr(comparisons, "attach", attach)
    monkeypatch.setattr(comparisons, "periodic", periodic)
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        run = comparisons.train_case(job, Case(task="mnist", method=method, seed=0, steps=3, ranks=1), 0)
    finally:
        torch.distributed.destroy_process_group()
    assert run.sent_bytes == 100.0 and run.raw_bytes == 0.0 and closed == [True]
    options = {"hook": True} if called == "periodic" else {"adaptive": False}
    assert calls == [(called, find(method).name, options)]
    assert set(trained) == {"Sequential" if called == "periodic" else "DistributedDataParallel"}


def test_a_decoder_tells_places_of_one_symbol_apart() -> None:
    """Repeated without end it looks the same from everywhere, but for the positions."""
    torch.manual_seed(0)
    with torch.no_grad():
        found = comparisons.Decoder(5).eval()(torch.zeros(1, 64, dtype=torch.long))
    assert not torch.allclose(found[0, 0], found[0, 40], atol=1e-3)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_rank_writes_what_all_have_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    asked: list[tuple[str, Path | None]] = []
    monkeypatch.setattr(comparisons, "task", lambda name, data: asked.append((name, data)))
    monkeypatch.setattr(comparisons, "train_case", lambda job, case, rank: Result(case, [case.steps], [float(rank)]))
    wanted = cases("chars", ["int8"], 1, 2, 4)
    arguments = {"cases": [asdict(case) for case in wanted], "folder": str(tmp_path), "data": str(tmp_path)}
    worker: Any = SimpleNamespace(rank=rank, arguments=arguments)
    assert comparisons.train_all(worker) == 2 and asked == [("chars", tmp_path)]
    found = [read_result(tmp_path / case.file) for case in wanted]
    assert [each and (each.case, each.loss) for each in found] == [
        (case, [0.0]) if rank == 0 else None for case in wanted
    ]
