"""An exported job is the plan that was priced: read back, it has its stages, its vocabulary and its step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.core.errors import ConfigError
from lightloom.machines.clusters.cluster import Cluster
from lightloom.machines.clusters.load import load_cluster
from lightloom.models.files.megatron import read_megatron_line, read_options, stage_blocks, strategy_pins
from lightloom.models.files.model_file import FileRequest, ModelReading
from lightloom.models.files.read import read_model_file
from lightloom.models.graph import ComputeGraph
from lightloom.models.zoo import load_workload
from lightloom.planning.export import frameworks
from lightloom.planning.export.frameworks import exported, expressible
from lightloom.planning.parallelism.strategy_space import Strategies, Strategy
from lightloom.planning.search.plans import Plan
from lightloom.planning.search.request import Pins, SearchRequest, with_stages
from lightloom.planning.search.search import search

from .test_settings import exported_row

LINE = Path("a line")
MODEL = "--num-layers {} --hidden-size 64 --num-attention-heads 8 --max-position-embeddings 128 --vocab-size 1001 "


def planned(graph: ComputeGraph, cluster: Cluster, batch: int, pins: Pins) -> Plan:
    """The best plan with these pins that frameworks can run."""
    request = SearchRequest(global_batches=[batch], strategies=["tensor-pipeline"], pins=pins, compare=False)
    return expressible(search(graph, cluster, request))


def layers(plan: Plan) -> list[int]:
    """Blocks of each chunk of a plan."""
    assert isinstance(plan.choice, Strategy)
    model = plan.job.model
    blocks: list[int] = model.units(model.chunks(Strategies.of(plan.choice))).tolist()
    return blocks


def written(plan: Plan, graph: ComputeGraph) -> str:
    return " ".join(frameworks.arguments(exported(plan, graph)))


ZOO: list[Any] = [
    ("gpt2-355m", 16, {"dp": 2, "tp": 2, "pp": 4, "micro_batches": 8, "virtual_stages": 1}, [7, 8, 8, 1]),
    ("gpt2-355m", 16, {"tp": 2, "pp": 4, "virtual_stages": 2}, None),
    ("gpt2-355m", 16, {"tp": 4, "pp": 2}, None),
    ("gpt2-355m", 16, {"tp": 1, "pp": 8}, None),
    ("optinc-llama", 8, {"pp": 4}, None),
    ("optinc-llama", 8, {"tp": 2, "pp": 2, "recomputation": "full"}, None),
    ("llama2-7b", 16, {"tp": 2, "pp": 4, "sharding": "zero-1"}, None),
    *(
        pytest.param(name, ranks, pins, None, marks=pytest.mark.slow)
        for name, ranks, pins in (
            ("llama2-70b", 64, {"tp": 8, "pp": 4}),
            ("gpt3-175b", 64, {"tp": 8, "pp": 8}),
            ("gpt3-175b", 64, {"tp": 8, "pp": 8, "virtual_stages": 3}),
            ("mixtral-8x7b", 64, {"tp": 2, "pp": 8, "ep": 4}),
            ("transformer-big", 16, {"pp": 4}),
            ("resnet50", 16, {"pp": 4}),
            ("inception-v3", 16, {"pp": 2}),
        )
    ),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "ranks", "pins", "stages"), ZOO)
def test_plans_of_the_zoo_read_back_with_their_stages_and_step(
    name: str, ranks: int, pins: dict[str, Any], stages: list[int] | None
) -> None:
    graph = load_workload(name, batch=4)
    cluster = load_cluster("dgx-h100-64", set={"ranks": ranks})
    plan = planned(graph, cluster, 4 * ranks, Pins(**pins))
    options = read_options(LINE, {}, written(plan, graph) + f" --num-layers {sum(layers(plan))}")
    reading = ModelReading(graph=graph, stage_blocks=stage_blocks(options, sum(layers(plan))))
    again = planned(graph, with_stages(cluster, reading), 4 * ranks, Pins.of(strategy_pins(options)))
    assert layers(again) == layers(plan) and stages in (None, layers(plan))
    assert again.sample_time == pytest.approx(plan.sample_time, rel=1e-3)


GPT2 = "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --max-position-embeddings 1024 --vocab-size 50257 "


@pytest.mark.long
@pytest.mark.parametrize(
    "pins",
    [
        {"dp": 2, "tp": 2, "pp": 4, "micro_batches": 8, "virtual_stages": 1},
        {"tp": 1, "pp": 1},
        {"tp": 4, "pp": 1, "sequence_parallel": True},
        {"tp": 2, "pp": 2, "virtual_stages": 4},
    ],
)
def test_gpt_2_as_arguments_with_those_of_its_export_is_the_plan_of_the_zoo(pins: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    cluster = load_cluster("dgx-h100-64", set={"ranks": 16})
    graph = load_workload("gpt2-355m", batch=4)
    plan = planned(graph, cluster, 64, Pins(**pins))
    reading = read_megatron_line(GPT2 + written(plan, graph), FileRequest(batch=4))
    again = planned(reading.graph, with_stages(cluster, reading), 64, Pins.of(reading.pins))
    assert layers(again) == layers(plan)
    assert again.sample_time == pytest.approx(plan.sample_time, rel=1e-3)


@pytest.mark.long
@pytest.mark.parametrize(
    "pins",
    [
        {"tp": 2, "pp": 4, "sharding": "zero-2", "sequence_parallel": True},
        {"tp": 1, "pp": 8, "sharding": "zero-3"},
        {"tp": 2, "pp": 2, "virtual_stages": 4, "sharding": "zero-3", "sequence_parallel": True},
        {"tp": 4, "pp": 1, "sharding": "zero-3", "sequence_parallel": True},
    ],
)
def test_llama_2_as_a_configuration_with_its_export_is_the_plan_of_the_zoo(
    pins: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    cluster = load_cluster("dgx-h100-64", set={"ranks": 16})
    graph = load_workload("llama2-7b", batch=4)
    plan = planned(graph, cluster, 64, Pins(**pins))
    path = tmp_path / "job.toml"
    path.write_text(frameworks.to_toml(exported(plan, graph)) + '[model]\nname = "llama2"\nflavor = "7B"\n')
    reading = read_model_file(path, FileRequest(batch=4))
    again = planned(reading.graph, with_stages(cluster, reading), 64, Pins.of(reading.pins))
    assert layers(again) == layers(plan) and reading.global_batch == 64
    assert again.sample_time == pytest.approx(plan.sample_time, rel=1e-3)


@given(st.data())
def test_stages_of_any_cut_are_read_back(data: st.DataObject) -> None:
    pp, virtual = data.draw(st.integers(2, 6)), data.draw(st.integers(1, 3))
    cut = tuple(data.draw(st.lists(st.integers(1, 4), min_size=pp * virtual, max_size=pp * virtual)))
    strategy = Strategy(1, 1, pp, 6 * pp, 6 * pp, "none", "none", "ring", 0, virtual_stages=virtual)
    line = " ".join(frameworks.arguments(exported_row(strategy, layers=cut))) + f" --num-layers {sum(cut)}"
    options = read_options(LINE, {}, line)
    assert stage_blocks(options, sum(cut)) == ("equal" if len(set(cut)) == 1 else cut)
    pins = strategy_pins(options)
    assert (pins.pp, pins.virtual_stages) == (pp, virtual)


@given(st.integers(1, 60_000), st.sampled_from([1, 2, 4, 8, 16]), st.integers(0, 200))
def test_megatron_pads_a_vocabulary_to_that_of_the_plan(vocabulary: int, tp: int, less: int) -> None:
    """Also where the plan's was padded already, from a smaller one."""
    strategy = Strategy(1, tp, 1, 1, 8, "none", "none", "ring", 0)
    (option,) = [
        line for line in frameworks.arguments(exported_row(strategy, vocabulary=vocabulary)) if "vocab" in line
    ]
    multiple = int(option.split()[1]) * tp
    padded = -(-max(vocabulary - less, 1) // multiple) * multiple
    assert vocabulary <= padded < vocabulary + tp


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_a_vocabulary_that_ranks_do_not_divide_is_priced_as_padded(tp: int) -> None:
    cluster = load_cluster("dgx-h100-64", set={"ranks": 8})
    pins = Pins(tp=tp, pp=1, micro_batches=1, sharding="none", recomputation="none")
    line = MODEL.format(2).replace("1001", "49999") + "--make-vocab-size-divisible-by 1"
    bare = read_megatron_line(line, FileRequest(batch=4)).graph
    padded = read_megatron_line(f"{line} --tensor-model-parallel-size {tp}", FileRequest(batch=4)).graph
    assert padded.parameters > bare.parameters
    times = [planned(graph, cluster, 64, pins).sample_time for graph in (bare, padded)]
    assert times[0] == pytest.approx(times[1], rel=1e-3)


@pytest.mark.parametrize("pins", [{"tp": 2, "pp": 2}, {"tp": 1, "pp": 4}, {"tp": 4, "pp": 2, "virtual_stages": 2}])
def test_a_script_with_its_exported_arguments_is_the_plan_again(pins: dict[str, Any]) -> None:
    cluster = load_cluster("dgx-h100-64", set={"ranks": 8})
    graph = read_megatron_line(MODEL.format(7), FileRequest(batch=4)).graph
    plan = planned(graph, cluster, 64, Pins(**pins))
    reading = read_megatron_line(MODEL.format(7) + written(plan, graph), FileRequest(batch=4))
    assert reading.global_batch == 64 and not [name for name in reading.unused if "pipeline" in name or "vocab" in name]
    again = planned(reading.graph, with_stages(cluster, reading), 64, Pins.of(reading.pins))
    assert layers(again) == layers(plan)
    assert again.sample_time == pytest.approx(plan.sample_time, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "cut"),
    [
        ("--pipeline-model-parallel-size 4", "equal"),
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*3|(tt|)*2tL'", (3, 2, 2, 1)),
        ("--pipeline-model-parallel-size 3 --decoder-last-pipeline-num-layers 2", (3, 3, 2)),
        (
            "--pipeline-model-parallel-size 5 --account-for-embedding-in-pipeline-split "
            "--account-for-loss-in-pipeline-split",
            (1, 2, 2, 2, 1),
        ),
        (
            "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 6 "
            "--num-virtual-stages-per-pipeline-rank 2",
            (3, 1, 3, 1),
        ),
        ("", None),
    ],
)
def test_eight_layers_are_cut_as_megatron_cuts_them(arguments: str, cut: object) -> None:
    assert stage_blocks(read_options(LINE, {}, MODEL.format(8) + arguments), 8) == cut


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--pipeline-model-parallel-layout 'Et*3|(tt|)*2tL'", "with 9 layers t in all"),
        ("--pipeline-model-parallel-layout 'Et*3|t*6|L'", "one or more in each"),
        ("--pipeline-model-parallel-layout 'Et*3|t*3|t*3L'", "expected a multiple of 2 stages"),
        ("--pipeline-model-parallel-layout 'Et*3|xyz'", "E before and L behind"),
        ("--decoder-first-pipeline-num-layers 9", "stages of 9, 0 of 9 layers"),
        ("--decoder-first-pipeline-num-layers 5 --decoder-last-pipeline-num-layers 5", "stages of 5, 5 of 9 layers"),
    ],
)
def test_layouts_that_no_plan_has_are_refused(arguments: str, complaint: str) -> None:
    options = read_options(LINE, {}, MODEL.format(9) + f"--pipeline-model-parallel-size 2 {arguments}")
    with pytest.raises(ConfigError, match=complaint):
        stage_blocks(options, 9)
